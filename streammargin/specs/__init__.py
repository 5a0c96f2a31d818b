"""What varies (blocks, losses, norms), as named tuples of numbers with plain Python methods.

Nothing here imports numba. `streammargin.kernels.overloads` makes every public method of these
tuples callable inside a compiled kernel, so the same source serves Python, the JIT, and its absence.
"""
