"""Sources of rows: files and arrays. They do not depend on solvers."""
