"""Solvers: one thin file per method. They never open files and know nothing of passes over them."""
