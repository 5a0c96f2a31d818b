"""A bar of how far the gap has come to the tolerance, on a logarithmic scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

WIDTH = 20  # characters between the brackets


@dataclass
class GapBar:
    """largest: the first gap that was told, or a larger one, in the unit of the tolerance."""

    largest: float = 0.0

    def text(self, gap: float, tol: float) -> str:
        """The bar for this gap."""
        self.largest = max(self.largest, gap)
        way = math.log(self.largest / tol) if self.largest > tol else 0.0
        share = math.log(self.largest / max(gap, tol)) / way if way > 0.0 else 1.0
        return f"[{'=' * int(WIDTH * share):<{WIDTH}}]"
