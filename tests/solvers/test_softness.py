"""The one rule by which Newton's methods soften a loss with a kink less."""

import numpy as np
import pytest

from streammargin.solvers.softness import LEAST_FALL, may_soften, next_softness, share_of_softness


def minimum(softness):
    """w, the gap of the hinge and the distance to the optimum, of 1/2 w^2 + max(0, 1 - w / 2) + max(0, 1 + w / 2) / 4.

    The hinges are softened around the midpoints of their duals.
    """
    caps, rows, w = np.array([1.0, 0.25]), np.array([0.5, -0.5]), 0.0
    for _ in range(200):
        a = np.clip(0.5 * caps + caps * (1.0 - rows * w) / softness, 0.0, caps)
        w += 0.2 * (a @ rows - w)
    return np.maximum(0.0, caps * (1.0 - rows * w)) @ np.ones(2) - a @ (1.0 - rows * w)


def test_the_share_meets_its_part_of_the_goal_where_the_gap_falls_with_the_square():
    gap = minimum(4.0)
    goal = gap / 8
    share = share_of_softness(gap, goal, 0.0)
    assert gap * share**2 == pytest.approx(goal / 2)
    assert minimum(4.0 * share) <= goal
    assert share_of_softness(gap, goal, 0.5) == 0.5
    assert share_of_softness(gap, 2.0 * gap, LEAST_FALL) == share_of_softness(0.0, 0.0, LEAST_FALL) == 1.0


def test_the_softness_stands_far_from_the_minimum_and_falls_faster_after_few_steps():
    assert may_soften(0.4, 1.0) and not may_soften(0.5, 1.0)
    assert next_softness(1.0, 3) == 0.25 and next_softness(1.0, 4) == 0.5
