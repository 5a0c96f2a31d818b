"""Compiled kernels: Numba only, no I/O, no Python objects. Imports only losses/, penalties/ and rows/."""
