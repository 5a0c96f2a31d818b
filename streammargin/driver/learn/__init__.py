"""What reads learn beside the solver: ranges, scales and maps of columns, and held-out errors."""
