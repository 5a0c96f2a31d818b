"""Sources: where rows come from. They know no solvers."""
