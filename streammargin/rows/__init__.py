"""Rows as kernels take them: blocks, labels and numbers of rows, as named tuples with plain Python methods.

Nothing here imports numba. `streammargin.compiled.overloads` makes every public method of these tuples callable inside
a compiled kernel, so the same source serves Python, the JIT, and its absence.
"""
