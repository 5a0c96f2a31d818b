"""Compiled loops: Numba only, no I/O, no Python objects. Imports only specs/ and kernels/."""
