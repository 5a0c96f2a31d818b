"""Rows whose duals rest at a bound sleep: the next visit comes after 1 pass, then 2, 4, and after many.

A counter (uint8) has the passes left to sleep in its five upper bits, and in the others how often it was put to sleep,
one time after the other, twice as often where it was far from waking, and FOR_LONG times at most.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from streammargin.specs.losses.base import far

AWAKE = 7  # the largest counter of a row that is visited
# Twice as long each time, and from the fourth on for long: with a pass more each time up to 8 text took a tenth more
# visits to 1e-3, MNIST 0/1 (C = inf) two thirds more, in as many passes. Those whose margin is FAR from where the loss
# bends are a step ahead. On the rcv1 subset (C = 1) a simulation, means over 24 seeds, took 141,000 visits where all
# double it up to 8, 127,000 up to 4, 112,000 with a step ahead, in as many passes. To leave all out of the next pass
# takes more passes: 8 for 5 at C = 0.1.
FOR_LONG, FAR = 4, 0.5
# Passes that rows sleep for long. With SPREAD, from row to row as many more, they do not wake up all together: on the
# rcv1 subset 6% fewer visits at C = 1 and 2 to 9% at 2 to 10, in 4% less to 4% more passes (set A: 2 to 4% more visits
# at 3 and 10). With momentum that is no better: MNIST 0/1 (C = inf) takes 67 passes for 62.
LONGEST, SPREAD = 14, 16
# Rows are looked at so many together; of those awake, which may be few, the values are fetched so many rows ahead: that
# takes a tenth of the time off the passes over text. More of either gains nothing.
AHEAD, FETCHED = 256, 2


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
