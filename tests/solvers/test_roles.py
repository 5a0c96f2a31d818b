"""Fields of a state: what follows from their roles."""

import math
import types
from typing import Any, TypeVar

import numpy as np
import pytest

from streammargin.compiled.careful import carried_sum
from streammargin.rows.labels import RowLabels
from streammargin.solvers import roles
from streammargin.solvers.roles import (
    EVERY_COLUMN,
    Count,
    Float,
    K,
    Lists,
    N,
    Rows,
    Shared,
    Stored,
    Sum,
    f8,
    i8,
    of,
    state,
)
from streammargin.solvers.state import State


@state
class Part:
    far: Sum[f8] = of(K, 2, smallest=(1,))
    named: str = "part"


@state
class Example(State):
    part: Part
    alpha: Rows[Float]
    sizes: Rows[f8] = of(N)
    theta: Shared[Float]
    grown: Lists[np.int64]
    seen: Count = 0
    last: float = 1.0
    ended: bool = False


@state
class More(Example):
    values: Lists[Stored]
    one: Shared[Stored] = of(K)


class Small:
    count, groups, rows, features, width, trials, dtype = 2, 2, 5, 3, 4, 1, np.dtype(np.float32)


def fresh(dtype=np.float64):
    labels = RowLabels(np.arange(5, dtype=np.int16), np.empty(0), np.arange(5.0))
    return roles.new(Example, Small, dtype, labels=labels)


def test_arrays_are_made_as_declared():
    made = fresh(np.float32)
    assert (made.alpha.shape, made.alpha.dtype) == ((2, 5), np.float32)
    assert (made.theta.shape, made.sizes.shape, made.part.far.shape) == ((2, 4), (5,), (2, 2))
    assert made.sizes.dtype == np.float64 and (made.seen, made.last, made.part.named) == (0, 1.0, "part")
    best = 8 * 2 * 6  # of every state
    assert roles.state_bytes(Example, Small, np.float32) == 4 * 10 + 8 * 5 + 4 * 8 + 8 * 4 + best
    own = {path for path in roles.layout(Example, Small) if not path.startswith("best.")}
    assert own == {"part.far", "alpha", "sizes", "theta"} and "best.primal" in roles.layout(Example, Small)


def test_what_was_saved_comes_back():
    made = fresh(np.float32)
    made.alpha[:], made.seen, made.grown[1], made.ended = 2.0, 7, np.arange(3), True
    again = fresh(np.float64)
    roles.load(again, Small, np.float64, roles.save(made))
    assert again.alpha.dtype == np.float64 and np.all(again.alpha == 2.0)
    assert (again.seen, again.ended, again.grown[1].tolist()) == (7, True, [0, 1, 2])


def test_values_are_of_the_type_of_the_rows_whatever_the_solver_computes_in():
    made = roles.new(More, Small, np.float64, labels=fresh().labels)
    assert made.alpha.dtype == np.float64
    assert [made.one.dtype, made.values[0].dtype, roles.layout(More, Small)["one"].dtype] == [np.float32] * 3
    made.values[1] = np.ones(2, np.float32)
    again = roles.new(More, Small, np.float64, labels=made.labels)
    roles.load(again, Small, np.float64, roles.save(made))
    assert again.values[1].tolist() == [1.0, 1.0] and again.values[1].dtype == np.float32


def test_a_state_that_follows_takes_the_fields_that_it_has():
    made = roles.new(More, Small, np.float64, labels=fresh().labels, seen=3)
    taken = roles.take(Example, made)
    assert type(taken) is Example and taken.seen == 3 and taken.alpha is made.alpha and taken.part is made.part


@pytest.mark.parametrize(
    "numbers, arrays",
    [
        ({"seen": -1}, {}), ({"seen": 1.5}, {}), ({"last": "x"}, {}), ({"ended": 1}, {}), ({"more": 1}, {}),
        ({"part.named": 3}, {}), ({}, {"alpha": np.zeros((2, 4))}), ({}, {"alpha": np.zeros((2, 5), np.int64)}),
        ({}, {"grown.0": np.zeros((1, 1), np.int64)}), ({}, {"more": np.zeros(1)}),
    ],
)  # fmt: skip
def test_what_fits_no_field_is_refused(numbers, arrays):
    saved = roles.save(fresh())
    saved.numbers.update(numbers)
    saved.arrays.update(arrays)
    with pytest.raises(ValueError):
        roles.load(fresh(), Small, np.float64, saved)


@pytest.mark.parametrize("name", ["seen", "alpha", "grown.1", "part.far"])
def test_what_is_missing_is_named(name):
    saved = roles.save(fresh())
    (saved.numbers if name in saved.numbers else saved.arrays).pop(name)
    with pytest.raises(ValueError, match=name):
        roles.load(fresh(), Small, np.float64, saved)


def test_a_holder_has_its_rows_and_sums_of_its_own():
    whole = fresh()
    whole.alpha[:] = np.arange(10.0).reshape(2, 5)
    whole.part.far[:], whole.seen = 9.0, 4
    one, other = roles.cut(whole, 0, 2), roles.cut(whole, 2, 5)
    assert np.shares_memory(one.alpha, whole.alpha) and one.theta is whole.theta
    assert (other.alpha.shape, other.sizes.shape, other.seen) == ((2, 3), (3,), 0)
    assert other.labels.codes.tolist() == [2, 3, 4] and other.labels.targets.tolist() == [2.0, 3.0, 4.0]
    assert other.part.far.tolist() == [[0.0, np.inf]] * 2
    roles.clear(whole)
    one.part.far[0], other.part.far[0], one.seen, other.seen = (1.0, 3.0), (2.0, -5.0), 2, 3
    roles.merge(whole, one)
    roles.merge(whole, other)
    assert whole.part.far[0].tolist() == [3.0, -5.0] and whole.seen == 5


@state
class Margins:
    smallest: Sum[f8] = of(K, smallest=EVERY_COLUMN)
    wrong: Sum[i8] = of(1)


def test_whole_numbers_add_up_and_all_columns_may_be_the_smallest():
    one, other = roles.new(Margins, Small), roles.new(Margins, Small)
    for part, smallest, wrong in ((one, [1.0, -2.0], 3), (other, [0.5, 4.0], 4)):
        roles.clear(part)
        assert part.smallest.tolist() == [np.inf] * 2 and part.wrong.tolist() == [0]
        part.smallest[:], part.wrong[:] = smallest, wrong
    roles.merge(one, other)
    assert one.smallest.tolist() == [0.5, -2.0] and one.wrong.tolist() == [7]


@state
class Carried:
    total: Sum[f8] = of(3, carried=((0, 2),))


def test_the_errors_of_adding_compensated_sums_are_carried():
    """A sum over many holders is as exact as one compensated sum (2 u sum |t|, Higham 2002, eq. (4.8))."""
    whole, parts, terms = roles.new(Carried, Small), 20_000, (0.1, 0.0)
    for _ in range(parts):
        part = roles.beside(whole)
        assert part.total.tolist() == [0.0] * 3
        for term in terms:
            part.total[0], part.total[2] = carried_sum(part.total[0], part.total[2], term)
            part.total[1] += term
        roles.merge(whole, part)
    exact, unit = math.fsum(parts * terms), np.finfo(float).eps / 2
    size = parts * math.fsum(map(abs, terms))
    assert abs(whole.total[0] - exact) <= 2.0 * unit * size < abs(whole.total[1] - exact)
    overflown = roles.beside(whole)
    overflown.total[0] = np.inf
    with np.errstate(invalid="ignore"):
        roles.merge(whole, overflown)
    assert whole.total[0] == np.inf and np.isfinite(whole.total[2])


def test_an_alias_of_arrays_that_is_not_evaluated_is_an_array():
    """NumPy 2.5 has such an NDArray: all trainings ended in a TypeError."""
    scalar = TypeVar("scalar", bound=np.generic)
    lazy = types.SimpleNamespace(__value__=np.ndarray[tuple[Any, ...], np.dtype[scalar]])
    entry = roles._entry("w", types.GenericAlias(lazy, (np.float64,)), None)
    assert (entry.kind, entry.type) == ("array", np.dtype(np.float64))
