"""Points: what a training finds and a model saves, that is, a function from rows to scores. Linear, or over rows."""
