"""What is minimised, and what proves it: one file for each objective."""
