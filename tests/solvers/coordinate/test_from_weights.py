"""Ascent from given weights: what the second pass subtracts, and the constant that steps begin at."""

from types import SimpleNamespace

import numpy as np
import pytest

from streammargin.solvers.coordinate import slow_constant
from streammargin.solvers.coordinate.from_weights import LEAST_PARTS_OF_R, MOST_PARTS_OF_R, RETURNS, BeginsAtWeights
from streammargin.solvers.coordinate.plain import Plain

ROWS, BLOCKS = 64_000, 40


def turns_of(rows, start, stop, whole):
    return ((SimpleNamespace(rows=lambda: rows), 0, None, np.arange(rows), 1),), start, stop, whole


def subtracted(width, whole, together, read=ROWS):
    """(What is left of rests, how often a part was subtracted, whether all turns came once), after a pass."""
    rest = np.random.default_rng(0).standard_normal((2, 1, 3))
    images, taken = rest[:, 0].copy(), []
    solver = SimpleNamespace(
        in_lines=lambda problem, state: (None, images),
        place=lambda problem, state, k, image: (taken.append(k), images.__setitem__(k, image)),
    )
    problem = SimpleNamespace(from_weights=True, rows=ROWS, values=1e6, features=1e6 / width - 1)
    state, complete = SimpleNamespace(number=RETURNS, sweep=SimpleNamespace(rows=read, pull=rest)), True
    for _ in range(BLOCKS):
        now = 0.0
        for start in range(0, whole, together):
            given = turns_of(ROWS // BLOCKS, start, min(start + together, whole), whole)
            for _, first, last, of in BeginsAtWeights.returning(solver, problem, state, given):
                complete &= first / of == pytest.approx(now) and last > first
                now = last / of
        complete &= now == pytest.approx(1.0)
    return np.abs(images).max() / np.abs(rest).max(), len(taken) / 2, complete


@pytest.mark.parametrize("whole, together", [(1, 1), (64, 64), (64, 1), (64, 5), (7, 7)])
@pytest.mark.parametrize("width", [1.0, 100.0, 700.0, 1e5])
def test_all_of_the_rest_is_subtracted_in_as_many_parts_as_planned(width, whole, together):
    left, parts, complete = subtracted(width, whole, together)
    assert left <= 1e-9 and complete
    planned = max(
        np.clip(width, LEAST_PARTS_OF_R, MOST_PARTS_OF_R), BLOCKS
    )  # one for each group of blocks at the least
    assert planned / 2.0 <= parts <= 2.0 * planned


def test_nothing_is_subtracted_after_a_read_of_some_rows():
    left, parts, complete = subtracted(100.0, 7, 7, read=0)
    assert left == 1.0 and parts == 0 and complete


def test_steps_begin_at_the_given_constant_though_it_is_damped():
    state = SimpleNamespace(theta=np.zeros((2, 3)), constant=SimpleNamespace(centre=np.zeros(2), damping=0.02))
    given = np.array([[1.0, -1.0, 2.0], [0.5, 0.0, -3.0]])
    Plain(precise=False).set_out(SimpleNamespace(p=2.0, keeps_powers=False), state, given)
    seen = [slow_constant.seen(state.constant, k, image.copy()) for k, image in enumerate(state.theta)]
    np.testing.assert_allclose(seen, given, rtol=1e-15)
