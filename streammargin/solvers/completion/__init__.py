"""Matrices with missing entries, under the trace norm."""
