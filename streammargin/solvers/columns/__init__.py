"""Penalties that keep few columns: primal-dual steps, second-order steps, and working sets of columns."""
