"""Newton's method, for penalties with p = 2."""
