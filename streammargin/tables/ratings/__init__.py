"""Ratings: entries (row, column, value) of a matrix, of any table, file or array."""
