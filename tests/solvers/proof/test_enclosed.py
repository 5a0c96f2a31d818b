"""0 in the hull of a few rows: what is proven is true in exact fractions, and ordinary rows are proven."""

from fractions import Fraction

import numpy as np
import pytest

from streammargin.solvers.proof import inseparable
from streammargin.solvers.proof.inseparable import encloses
from streammargin.solvers.proof.rounding import EPS


def simplex(c, whole, seed=0):
    """c + 1 rows of c columns whose multiples by u add up to 0: exactly if they are whole numbers."""
    random = np.random.default_rng(seed)
    rows = random.integers(-3, 4, (c, c)).astype(float) if whole else random.standard_normal((c, c))
    u = np.append(random.integers(1, 5, c), 1).astype(float)
    return np.vstack([rows, -(u[:-1, None] * rows).sum(axis=0)]), u


def exactly(rows):
    """Whether some positive multiples of these rows add up to 0, by elimination in fractions."""
    M = [[Fraction(value) for value in column] for column in rows.T]
    s, pivots = len(rows), []
    for column in range(s):
        k = next((i for i in range(len(pivots), len(M)) if M[i][column]), None)
        if k is None:
            continue
        M[len(pivots)], M[k] = M[k], M[len(pivots)]
        k = len(pivots)
        M[k] = [value / M[k][column] for value in M[k]]
        M = [
            row if i == k else [a - row[column] * b for a, b in zip(row, M[k], strict=True)] for i, row in enumerate(M)
        ]
        pivots.append(column)
    free = sorted(set(range(s)) - set(pivots))
    assert len(free) <= 1
    return bool(free) and all(row[free[0]] < 0 for row in M[: len(pivots)])


@pytest.mark.parametrize("c", [1, 2, 5, 30, 60])
def test_a_hull_with_an_interior_is_proven_whatever_the_size_of_its_columns(c):
    rows, u = simplex(c, whole=False)
    for sizes in (np.ones(c), np.logspace(-100, 100, c)):
        assert encloses(rows * sizes, u, 0.0) and encloses(rows * sizes, u, 4.0 * EPS)
    near = rows - (1.0 + 1e-9) * (rows * u[:, None]).sum(axis=0) / u.sum()
    near = near + 1.01 * np.abs(near).max() * np.eye(1, c)  # 0 is outside
    assert not encloses(near, u, 0.0)


def test_0_at_the_border_of_a_hull_is_not_inside_it():
    for hair in (1e-3, 1e-12, 1e-17, 0.0):
        rows = np.array([[1.0, hair], [-1.0, hair], [0.0, 1.0], [0.5, 2.0]])
        for some in (rows[:2], rows[:3], rows):
            found = encloses(some, np.ones(len(some)), 0.0)
            assert found == (hair == 0.0 and len(some) == 2)


@pytest.mark.parametrize("c", [1, 3, 12, 40])
def test_dependent_columns_are_proven_in_whole_numbers_and_only_if_they_are_exact(c):
    rows, u = simplex(c, whole=True)
    rows = np.column_stack([rows, rows.sum(axis=1), 3.0 * rows[:, 0], np.zeros(c + 1)]) * 2.0**-40
    assert encloses(rows, u, 0.0) and not encloses(rows, u, 4.0 * EPS)
    rows[0, -2] = np.nextafter(rows[0, -2], 9.0)
    assert not encloses(rows, u, 0.0)


def test_what_is_proven_is_true_in_fractions():
    random, proven = np.random.default_rng(5), 0
    for _ in range(150):
        c = int(random.integers(1, 5))
        rows, u = simplex(c, whole=bool(random.integers(0, 2)), seed=int(random.integers(0, 10**6)))
        if random.integers(0, 2):
            rows = np.column_stack([rows, rows @ random.integers(-2, 3, c)])
        if random.integers(0, 2):
            rows[0] += random.choice([0.0, 1e-16, -1e-16, 1e-8]) * random.standard_normal(rows.shape[1])
        if np.linalg.matrix_rank(rows) < len(rows) - 1:
            continue
        found = encloses(rows, u, 0.0)
        proven += found
        assert not found or exactly(rows)
    assert proven > 40


def test_values_too_far_apart_or_too_much_work_prove_nothing(monkeypatch):
    assert not encloses(np.array([[1e300, 1e-300, 1.0], [-1e300, -1e-300, -1.0]]), np.ones(2), 0.0)
    rows, u = simplex(6, whole=True)
    rows = np.column_stack([rows, rows[:, 0]])
    assert encloses(rows, u, 0.0)
    monkeypatch.setattr(inseparable, "MOST_DIGITS", 100.0)
    assert not encloses(rows, u, 0.0)
