"""Rows as kernels use them: blocks, labels and row numbers, as named tuples with plain Python methods.

Nothing here imports numba. `streammargin.compiled.overloads` makes every public method of these tuples callable in a
compiled kernel, so one source works with and without the JIT.
"""
