"""The nearest point of the hull: never nearer than the true one, and no farther than any point given."""

import numpy as np
import pytest
from reference.drive import problem_of
from reference.norms import conjugate, length
from reference.optimum import solve
from reference.training import binary

from streammargin.solvers.roles import new
from streammargin.solvers.space import Hull, hull_bound


@pytest.mark.parametrize("p", [2.0, 1.5])
def test_the_bound_lies_between_the_largest_margin_and_every_point(p):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 5)) + np.array([1.5, 0, 0, 0, 0])
    exact = binary(A, np.ones(30), C=np.inf, norm=p)
    best = exact.margin(solve(exact, "hinge").w)
    problem = problem_of(A, C=np.inf, p=p)
    hull = new(Hull, problem)
    bounds, lengths = [], []
    for _ in range(300):
        point = np.append(rng.dirichlet(np.full(30, 0.05)) @ A, 0.0)
        lengths.append(length(point, conjugate(p)))
        bounds.append(hull_bound(problem, hull, 0, 1.0, point, 5.0))
    assert np.all(np.array(bounds) >= best * (1 - 1e-7))
    assert np.all(np.diff(bounds) <= 1e-12)
    if p == 2.0:
        assert np.all(bounds <= np.minimum.accumulate(lengths) + 1e-12)
        for _ in range(300):  # the rows that are furthest behind: von Neumann's algorithm
            worst = A[np.argmin(A @ hull.point[0, :-1])]
            bound = hull_bound(problem, hull, 0, 1.0, np.append(worst, 0.0), 5.0)
        assert best <= bound <= 1.05 * best < 0.8 * min(lengths)


def test_two_opposite_points_meet_in_0():
    problem = problem_of(np.eye(2), C=np.inf)
    hull = new(Hull, problem)
    a = np.array([3.0, 4.0, 0.0])
    assert hull_bound(problem, hull, 0, 1.0, a, 5.0) == pytest.approx(5.0)
    assert hull_bound(problem, hull, 0, -0.5, a, 5.0) == pytest.approx(0.0, abs=1e-14)
    assert hull_bound(problem, hull, 0, 1.0, np.zeros(3), 5.0) == pytest.approx(0.0, abs=1e-14)
