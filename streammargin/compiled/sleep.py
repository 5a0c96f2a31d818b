"""Rows whose duals stay at a bound sleep: they skip 1 pass, then 2, 4, and then LONGEST_SLEEP passes.

A counter (uint8) has the number of passes left to skip in its five upper bits. The lower bits count how often in
succession the row was put to sleep, up to FOR_LONG; a row far from leaving its bound counts twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from streammargin.losses.base import distance_of
from streammargin.rows.labels import Labels, RowNumbers

AWAKE = 7  # the largest counter of an awake row
FOR_LONG = 4  # times, then a row sleeps LONGEST_SLEEP passes; one more pass each time: a tenth more visits
FAR_FROM_CURVE = 0.5  # a margin so far from the loss's curve counts twice; without it images take a third more visits
LONGEST_SLEEP = 20  # in passes, at most 31 (five bits); with 14 there are a tenth more visits at C = inf
AHEAD = 256  # rows checked at a time for being awake, without a branch
FETCHED = 2  # rows prefetched ahead, which saves a tenth of a pass over text


@register_jitable
def groups_at_once(group: int) -> int:
    """The number of groups of `group` rows that are processed at a time, for one problem after the other."""
    return max(1, AHEAD // group)


@register_jitable
def rows_awake(
    groups: np.ndarray, group: int, rows: np.ndarray, numbers: RowNumbers, labels: Labels, k: int, sleep: np.ndarray,
    awake: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Write the rows of these groups that problem k visits to `awake`; returns (their number, number of sleeping rows).

    groups: indices of groups of `group` rows; rows: of the block; sleep (n,): counters, decremented here.
    """
    up = asleep = found = 0
    for position in range(groups.size):
        start = groups[position] * group
        for i in range(start, min(start + group, rows)):
            # without a branch, as sleeping rows are unpredictable
            row = numbers.row(i)
            sleeps = sleep[row] > AWAKE
            sleep[row] -= np.uint8((AWAKE + 1) * sleeps)
            asleep += sleeps
            awake[up] = i
            up += not sleeps
    for place in range(up):
        awake[found] = awake[place]
        found += labels.cap(k, numbers.row(awake[place])) > 0.0
    return found, asleep


@register_jitable
def longer(counter: int, loss: Any, u: float, longest: int) -> int:
    """The new counter of a row with margin u that is put to sleep again, for longer, at most `longest` passes.

    With longest = 0 no row ever sleeps.
    """
    times = min(counter + 1 + (distance_of(loss, u) > FAR_FROM_CURVE), FOR_LONG)
    return times + (AWAKE + 1) * (longest if times == FOR_LONG else min(longest, (1 << (times - 1)) - 1))
