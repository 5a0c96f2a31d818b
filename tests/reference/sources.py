"""A source that must be read in blocks, and keeps count."""

from collections import Counter

import numpy as np

from streammargin.sources.arrays import ArraySource


class CountingSource(ArraySource):
    """Arrays that claim not to fit in memory as a whole: blocks end at the given bounds; every read is counted."""

    def __init__(self, X, y, bounds, sample_weight=None):
        super().__init__(X, y, sample_weight)
        self._bounds = np.array(bounds, np.int64)
        self.order: list[int] = []  # first rows of the blocks, as they were read
        self.reads, self.label_reads = Counter(), 0

    def whole(self):
        return None

    def bounds(self, max_bytes):
        return self._bounds

    def buffer_bytes(self, bounds):
        return super().buffer_bytes(bounds) if len(bounds) > 2 else 1 << 60

    def read(self, start, stop, buffer):
        self.order.append(start)
        self.reads[start, stop] += 1
        return super().read(start, stop, buffer)

    def labels(self, chunk=1 << 16):
        self.label_reads += 1
        return super().labels(chunk)
