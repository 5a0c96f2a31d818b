"""Second-order steps for the norm p = 2."""
