"""Methods that also learn from streams: primal steps along single rows."""
