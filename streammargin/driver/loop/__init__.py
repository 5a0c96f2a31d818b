"""The loop: which read comes next, and its units of work."""
