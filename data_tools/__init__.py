"""Prepare data for streammargin: convert, generate, shuffle, split. Every command streams, and writes atomically."""
