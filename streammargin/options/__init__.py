"""The options of a training: one table, read by every door."""
