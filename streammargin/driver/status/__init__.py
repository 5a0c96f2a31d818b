"""How far a training is, when it ends, how it ended, and the events that tell of it."""
