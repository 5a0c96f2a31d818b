"""Preparing data for streammargin: convert, generate, shuffle, split. Everything streams and writes atomically."""
