"""Solvers for sparsity penalties: primal-dual steps, proximal Newton steps, and working sets of columns."""
