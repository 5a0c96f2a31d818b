"""When a loss with a kink is softened less, and by how much: one rule for all of Newton's methods.

A softened loss lies below the loss. At its minimum the gap is what the softening costs, which falls with its square.
After a proximal step of rows in memory the softness falls by `next_softness`. A read of all rows, and a proximal step
of several reads, leave `share_of_softness`, at least `next_fall`. Where a method begins says its first softness.
"""

from __future__ import annotations

import math

# the first softness, 1 / sigma relative to the caps
SAMPLE_SOFTNESS = 2.0  # of a sample at w = 0: all rows are active
AT_ZERO = 4.0  # of reads at w = 0
AT_WEIGHTS = 0.5  # at other weights: with 1/8 steps diverged, with 2 there are more steps
AFTER_SAMPLE = 0.25  # at the weights of a sample, which are near the optimum
NEAR_MINIMUM_SHARE = 0.5  # share of that gap which the distance from the minimum stays below
AIM = 0.5  # of the goal: the gap that the softness aims at; the rest is for the distance of the weights
QUICK = 3  # if a proximal step took at most this many Newton steps, the softness falls faster
LEAST_FALL = 1 / 8  # share of the softness that a read leaves, at least, if the centres stay


def may_soften(away: float, gap: float) -> bool:
    """Whether the softness may fall: weights this far above the minimum of the softened objective are near it.

    gap: what the softening costs, the sum of the gaps of the losses.
    """
    return away < NEAR_MINIMUM_SHARE * gap


def next_softness(softness: float, steps: int | None = None) -> float:
    """The softness of the next proximal step, after one of so many Newton steps; None: of any number."""
    return softness / (4.0 if steps is not None and steps <= QUICK else 2.0)


def next_fall(fall: float) -> float:
    """The least share that a read may leave, after one that might leave the share `fall`."""
    return max(LEAST_FALL, fall**2)


def share_of_softness(gap: float, goal: float, least: float) -> float:
    """The share of the softness at which the gap would meet its part of the goal, but not below `least`."""
    return max(least, math.sqrt(AIM * goal / gap)) if gap > AIM * goal else 1.0
