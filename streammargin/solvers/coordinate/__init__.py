"""Dual coordinate ascent."""
