"""A training in the files of a checkpoint."""
