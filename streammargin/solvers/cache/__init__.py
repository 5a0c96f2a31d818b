"""Rows and columns that stay in memory between two reads."""
