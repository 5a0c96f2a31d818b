"""Points: what a training finds and a model saves, that is, a function from rows to scores. Today all are linear."""
