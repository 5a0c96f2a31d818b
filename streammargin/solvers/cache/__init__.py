"""Caches of rows and columns in memory between reads."""
