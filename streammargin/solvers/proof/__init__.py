"""Certificates: exact sums, bounds with rounding, and the best weights and bounds."""
