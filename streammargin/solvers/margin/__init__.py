"""The maximum margin, C = inf, from the few rows that determine it."""
