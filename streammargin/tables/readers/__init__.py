"""Readers of tables: columns with names and types, as batches of Arrow."""
