"""Kernel machines: an expansion over rows, by steps on its coefficients."""
