"""What rows are read for, one file a phase."""
