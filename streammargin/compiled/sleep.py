"""Rows whose duals rest at a bound sleep: the next visit comes after 1 pass, then 2, 4, and after many.

A counter (uint8) has the passes left to sleep in its five upper bits, and in the others how often it was put to sleep,
one time after the other, twice as often where it was far from waking, and FOR_LONG times at most.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from streammargin.losses.base import far

AWAKE = 7  # the largest counter of a row that is visited
FOR_LONG = 4  # times put to sleep from which on a row sleeps for long: a pass more each time visits a tenth more rows
FAR = 0.5  # a margin this far from where the loss bends is a step ahead: images take a third more visits without
LONGEST = 20  # passes that a row sleeps for long: at most 31, five bits; 14 take a tenth more visits at C = inf
AHEAD = 256  # rows that are looked at together, to find those that are awake without a branch
FETCHED = 2  # rows ahead whose values are fetched: a pass over text waits for memory, a tenth of its time


@register_jitable
def groups_together(group, problems):
    """How many groups of `group` rows are looked at together.

    Of several problems the rows of one group stay in the cache from one problem to the next.
    """
    return 1 if problems > 1 else max(1, AHEAD // group)


@register_jitable
def rows_awake(groups, group, rows, numbers, labels, k, sleep, awake):
    """Writes the rows of these groups that problem k visits to `awake`: (how many, how many sleep).

    groups: numbers of groups of `group` of the block's `rows` rows; sleep (n,): counters, which count down.
    """
    up = asleep = found = 0
    for position in range(groups.size):
        start = groups[position] * group
        for i in range(start, min(start + group, rows)):
            # without a branch: which rows sleep cannot be guessed
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
def longer(counter, loss, u, longest):
    """The counter of a row that is put to sleep, for longer than last time, `longest` passes at most; u: its margin."""
    times = min(counter + 1 + far(loss, u, FAR), FOR_LONG)
    return times + (AWAKE + 1) * (longest if times == FOR_LONG else (1 << (times - 1)) - 1)
