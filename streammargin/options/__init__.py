"""The options of a training: one table for Python, the shell, the estimators and streams."""
