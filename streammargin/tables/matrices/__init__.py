"""Files of rows of numbers that are read front to back: svmlight text, Matrix Market, NumPy's and SciPy's archives."""
