"""The driver: the reads of a training, one after the other, until the tolerance is proven."""
