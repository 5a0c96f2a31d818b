"""A read of second-order steps against NumPy, and the quadratic problem between two by what its minimum must be."""

import numpy as np
import pytest
from reference import newton, words
from test_kernel_newton import FORMS, Setting, soft

from streammargin.compiled import look as steps
from streammargin.compiled import quadratic
from streammargin.penalties.base import Pieces
from streammargin.rows.labels import numbered_from


def look(s, sides=1, steepest=0.0):
    """The sums of the rows of a Setting, in an object of that kind: pull (S, d+1), H, sums, duals, alpha."""
    s.pull, s.duals, s.H = np.zeros((1, sides, 7)), np.zeros((1, sides, steps.DUAL_SUMS)), np.zeros((1, 7, 7))
    s.sums, s.moved = np.zeros((1, steps.LOSS_SUMS)), np.zeros((1, 40))
    none = np.zeros((1, 1))
    steps.look(
        s.block, numbered_from(0), s.labels, s.loss, np.array([0]), steps.Frozen(s.w[None], none, none),
        steps.Prox(s.alpha, s.moved, none[0], np.array([s.softness]), steepest=steepest),
        steps.Looked(s.sums[None], s.duals, s.pull, np.zeros((1, 1), np.int64)), steps.Curvature(s.H),
    )  # fmt: skip
    return s


@pytest.mark.parametrize("form, dtype", [FORMS[0], FORMS[-1]])
@pytest.mark.parametrize("loss", words.LOSSES)
def test_one_read_gives_the_slope_the_matrix_and_the_certificate(loss, form, dtype):
    s = look(Setting(loss, form, dtype, soft(loss)), sides=2)
    problem, w, centres = s.problem, s.w[0], s.alpha[0, s.there]
    merit, a = newton.merit(problem, w, centres, s.softness)
    signs = np.where(s.labels.codes[s.there] == 1, 1.0, -1.0)
    assert s.moved[0, s.there] == pytest.approx(a, rel=1e-5, abs=1e-7)
    for side, mine in enumerate((signs > 0, signs < 0)):
        assert s.pull[0, side] == pytest.approx(problem.A[mine].T @ a[mine], rel=1e-5, abs=1e-7)
        assert s.duals[0, side, steps.ALPHA] == pytest.approx(a[mine].sum(), rel=1e-6)
    H = np.triu(newton.hessian(problem, w, centres, s.softness))
    assert np.triu(s.H[0]) + np.eye(7) == pytest.approx(H, rel=1e-3, abs=1e-4)
    total = s.sums[0]
    assert total[steps.SUM_OF_LOSSES] + w @ w / 2 == pytest.approx(problem.primal(w), rel=1e-12)
    # the function that the steps minimise: with 1/2 ||w||^2 for R it is that of newton
    moved = s.duals[0, :, steps.MOVED].sum() if s.softness > 0.0 else 0.0
    height = total[steps.SUM_OF_LOSSES] - total[steps.SUM_OF_GAPS] - 0.5 * moved
    assert height + w @ w / 2 == pytest.approx(merit, rel=1e-9)


def test_all_rows_may_count_for_the_matrix():
    s = look(Setting("hinge"), steepest=2.0)
    A, caps = s.problem.A, s.problem.caps
    assert np.triu(s.H[0]) == pytest.approx(np.triu(A.T @ (2.0 * caps[:, None] * A)), rel=1e-12)


def minimum(v, H, slope, start, pieces):
    """What v is to be: no block's proximal step leads away from it, each in its own metric."""
    gradient = slope + H @ (v - start)
    for b, (low, high) in enumerate(zip(pieces.starts[:-1], pieces.starts[1:], strict=True)):
        length = 1.0 / np.linalg.norm(H[low:high, low:high], 2)
        away = v[low:high] - length * gradient[low:high]
        away = np.sign(away) * np.maximum(np.abs(away) - length * pieces.cuts[b], 0.0)
        size = np.linalg.norm(away)
        kept = max(0.0, 1.0 - length * pieces.thresholds[b] / (size or 1.0)) / (1.0 + length * pieces.ridges[b])
        yield np.abs(kept * away - v[low:high]).max() / length


@pytest.mark.parametrize("collinear", [False, True])
@pytest.mark.parametrize(
    "threshold, ridge, cut", [(1.0, 0.0, 0.0), (0.6, 0.4, 0.0), (0.0, 1.0, 0.0), (0.6, 0.0, 0.4), (0.3, 0.2, 0.5)]
)
def test_the_quadratic_problem_is_solved_to_its_minimum(threshold, ridge, cut, collinear):
    random = np.random.default_rng(5)
    starts = np.array([0, 1, 2, 5, 9, 10])
    rows = random.standard_normal((40, 10)) * np.geomspace(1.0, 1e-2, 10)
    if collinear:
        rows[:, 4] = rows[:, 3]
        rows[:, 8] = rows[:, 1] - rows[:, 2]
    H, start = 9.0 * rows.T @ rows, random.standard_normal(10) * (random.random(10) < 0.5)
    slope = 0.3 * rows.T @ random.standard_normal(40)
    pieces = Pieces(starts, np.full(5, threshold), np.full(5, ridge), np.full(5, cut))
    pieces.thresholds[-1] = pieces.ridges[-1] = pieces.cuts[-1] = 0.0  # a constant that is free
    before, v = max(minimum(start, H, slope, start, pieces)), start.copy()
    rounds = quadratic.minimise_quadratic(H, slope.copy(), pieces, v, 1e-8, 300, np.inf)
    assert rounds < 300
    assert max(minimum(v, H, slope, start, pieces)) <= 1e-6 * before
    assert threshold == 0.0 or np.any(v == 0.0)


def test_a_large_problem_ends_where_its_work_does():
    rows = np.random.default_rng(6).standard_normal((12, 10)) * np.geomspace(1.0, 1e-2, 10)
    H, slope, none = rows.T @ rows, rows.T @ np.ones(12), np.zeros(10)
    pieces = Pieces(np.arange(11), np.full(10, 1e-3), none, none)
    ended = []
    for work in (1.0, np.inf):
        v = np.zeros(10)
        rounds = quadratic.minimise_quadratic(H, slope.copy(), pieces, v, 1e-8, 300, work)
        ended.append((rounds, slope @ v + 0.5 * v @ H @ v + 1e-3 * np.abs(v).sum()))
    assert ended[0][0] == 1 and ended[1][0] > 1
    assert 0.0 > ended[0][1] > ended[1][1]


def test_columns_without_curvature_stay():
    pieces, v = Pieces(np.arange(3), np.ones(2), np.zeros(2), np.zeros(2)), np.array([3.0, 4.0])
    quadratic.minimise_quadratic(np.diag([0.0, 2.0]), np.array([0.0, 9.0]), pieces, v, 1e-3, 50, np.inf)
    assert v == pytest.approx([3.0, 0.0])
