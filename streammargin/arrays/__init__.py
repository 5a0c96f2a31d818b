"""Newton's steps by products for a smooth loss of all scores of a row, by NumPy, on small problems in memory.

Functions have the names, arguments and results of those in compiled/. Products with the rows are BLAS's, of all lines
at once, and NumPy's exp is vectorised. So nothing is compiled for a first fit, and later ones are faster too.
"""
