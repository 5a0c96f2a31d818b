"""Dual coordinate ascent: one row at a time."""
