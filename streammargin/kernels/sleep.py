"""Rows whose duals rest at a bound sleep: the next visit comes after 1 pass, then 2, 4, up to LONGEST_SLEEP.

A counter (uint8) has the passes left to sleep in its upper half, and in its lower half how long the row slept last.
"""

from __future__ import annotations

from numba.extending import register_jitable

AWAKE = 15  # the largest counter of a row that is visited
# Twice as long each time: with a pass more each time up to 8 text took a tenth more visits to 1e-3, MNIST 0/1 (C = inf)
# two thirds more, in as many passes. To leave rows out of the next pass already takes more passes.
LONGEST_SLEEP = AWAKE
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
    found = asleep = 0
    for position in range(groups.size):
        start = groups[position] * group
        for i in range(start, min(start + group, rows)):
            row = numbers.row(i)
            if sleep[row] > AWAKE:
                sleep[row] -= 16
                asleep += 1
            elif labels.cap(k, row) > 0.0:
                awake[found] = i
                found += 1
    return found, asleep


@register_jitable
def longer(counter):
    """The counter of a row that is put to sleep, for longer than last time."""
    deeper = min(max(1, 2 * counter), LONGEST_SLEEP)
    return deeper + 16 * (deeper - 1)
