"""The phases of a run: one file per purpose of a read."""
