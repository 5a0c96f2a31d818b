"""Penalties of weights (lines, m) against cones, SciPy and exact sums."""

import math
from fractions import Fraction

import numpy as np
import pytest
from conftest import slow
from scipy.optimize import minimize

from streammargin.errors import UsageError
from streammargin.penalties import make_penalty
from streammargin.penalties.base import Norm, PenalisedColumns, Penalty
from streammargin.penalties.groups import Exclusive
from streammargin.penalties.lines import EachLine
from streammargin.penalties.outputs import L21, L1inf, Trace
from streammargin.penalties.singular import nuclear_bound, spectral_bound

LINES, M = 3, 5
GROUPS = np.array([4, 0, 4, 9, 0])


def made(word, lines=LINES, m=M):
    found = make_penalty(word).of_columns(PenalisedColumns(m, np.asarray, lines=lines))
    return found if found.of_lines or lines == 1 else EachLine.of(found)


JOINING = [cls(r) for cls in (L21, L1inf, Trace) for r in (1.0, 0.7, 0.0)] + [Exclusive()]
BY_LINE = ["l2", "l1", "l2norm", "linf", "elasticnet:0.3", "l2:low=0,high=1", "l1:low=-1,high=0.5", "l2:radius=0.5"]
ALL = [*JOINING, *map(make_penalty, BY_LINE), Exclusive(GROUPS)]
every_penalty = pytest.mark.parametrize("word", ALL, ids=map(str, ALL))


def by_hand(word, W):
    """R(W), from the definition."""
    r = getattr(word, "l1_ratio", 1.0)
    ridge = 0.5 * (1.0 - r) * np.sum(W**2)
    if word.name == "l21":
        return r * sum(np.linalg.norm(w) for w in W.T) + ridge
    if word.name == "l1inf":
        return r * sum(np.linalg.norm(w, np.inf) for w in W.T) + ridge
    if word.name == "trace":
        return r * np.linalg.norm(W, "nuc") + ridge
    if word.name == "exclusive" and word.groups is None:
        return 0.5 * sum(np.abs(w).sum() ** 2 for w in W.T)
    return sum(word.of_columns(PenalisedColumns(W.shape[1], np.asarray)).value(w) for w in W)


def least(function, start):
    """The least value that a numerical minimiser finds."""
    x = minimize(function, start, method="Powell", options={"maxiter": 6}).x
    return min(function(x), minimize(function, x, method="BFGS").fun)


@every_penalty
def test_the_value_is_that_of_the_definition(word):
    penalty, rng = made(word), np.random.default_rng(0)
    for scale in (0.0, 1e-100, 0.01, 1.0, 1e100):
        W = penalty.inside(scale * rng.standard_normal((LINES, M)))
        assert penalty.value(W) == pytest.approx(by_hand(word, W), rel=1e-13)
    assert penalty.conjugate(np.zeros((LINES, M))) == 0.0 and penalty.bound(1.0, np.zeros((LINES, M)), 0.0, 0.0) == 1.0


@every_penalty
def test_the_prox_is_the_minimum(word):
    """No numerical minimiser finds less, and Fenchel's equality holds at (w, (v - w) / steps)."""
    penalty, rng = made(word), np.random.default_rng(1)
    for scale in (0.1, 1.0, 5.0):
        v, wished = scale * rng.standard_normal((LINES, M)), rng.random((LINES, M)) + 0.2
        v[:, 3] = 0.0
        steps = penalty.even(wished)
        assert np.all(steps <= wished) and np.any(steps == wished)

        def objective(w, v=v, steps=steps):
            w = w.reshape(v.shape)
            return min(by_hand(word, w) + 0.5 * np.sum((w - v) ** 2 / steps), 1e300)

        w = penalty.prox(v, steps)
        assert w is not v
        assert objective(w) <= least(objective, (w + 0.01 * rng.standard_normal(v.shape)).ravel()) + 1e-9
        slope = (v - w) / steps
        conjugate = penalty.conjugate(slope * (1.0 - 1e-12) if isinstance(penalty, Norm) else slope)
        assert penalty.value(w) + conjugate == pytest.approx(np.sum(w * slope), abs=1e-10)
    for size in (1e-9, 1e9):  # a step that rounding loses beside the weights
        far = penalty.inside(size * rng.standard_normal((LINES, M)))
        steps = np.full(far.shape, 1e-20 * min(size, 1.0))
        np.testing.assert_allclose(penalty.prox(far, steps), far, rtol=1e-12, atol=1e-12 * size)


@every_penalty
def test_moreaus_equality(word):
    """v is the prox of R at v plus the prox of R* at v. For a norm this is the nearest point of the dual ball."""
    penalty, rng = made(word), np.random.default_rng(2)
    if not isinstance(penalty, Norm):
        return
    for scale in (0.2, 1.0, 4.0):
        v = scale * rng.standard_normal((LINES, M))
        for step in (0.3, 2.0):
            w = penalty.prox(v, np.full(v.shape, step))
            rest = v - w
            assert np.sum(w * rest) == pytest.approx(step * penalty.value(w), abs=1e-13 * scale * v.size)
            assert penalty.gauge(rest) <= step * (1.0 + 1e-13)
            assert not w.any() or penalty.gauge(rest) == pytest.approx(step, rel=1e-12)


def attaining(word, T):
    """W with <T, W> = dual norm of T and R(W) = 1, for the norms that join lines."""
    W = np.zeros(T.shape)
    if word.name == "trace":
        U, _, V = np.linalg.svd(T)
        return np.outer(U[:, 0], V[0])
    sizes = [np.linalg.norm(t, 2 if word.name == "l21" else 1) for t in T.T]
    j = int(np.argmax(sizes))
    W[:, j] = T[:, j] / sizes[j] if word.name == "l21" else np.sign(T[:, j])
    return W


@pytest.mark.parametrize("word", [L21(), L1inf(), Trace()], ids=str)
def test_the_gauge_is_the_dual_norm(word):
    penalty, rng = made(word), np.random.default_rng(3)
    for T in rng.standard_normal((30, LINES, M)):
        W = attaining(word, T)
        assert by_hand(word, W) == pytest.approx(1.0)
        assert penalty.gauge(T) == pytest.approx(np.sum(T * W), rel=1e-13)
        for V in rng.standard_normal((20, LINES, M)):
            assert np.sum(T * V) <= penalty.gauge(T) * by_hand(word, V) * (1.0 + 1e-12)


@every_penalty
def test_the_conjugate_is_a_supremum(word):
    penalty, rng = made(word), np.random.default_rng(4)
    for scale in (0.1, 0.6, 2.0):
        T = scale * rng.standard_normal((LINES, M))
        conjugate = penalty.conjugate(T)

        tried = [s * w for w in rng.standard_normal((200, LINES, M)) for s in (1, 0.1)]
        assert all(np.sum(T * w) - penalty.value(w) <= conjugate + 1e-12 for w in tried)
        if conjugate == math.inf:
            edge = T * penalty.part(T, 0.0, 0.0)
            assert penalty.conjugate(edge * (1 - 1e-12)) < math.inf
            assert penalty.conjugate(edge * (1 + 1e-9)) == math.inf
        elif isinstance(penalty, EachLine):
            assert conjugate == sum(penalty.each.conjugate(line) for line in T)
        elif word.name == "exclusive":  # attained with one entry a column
            W = np.where(np.abs(T) == np.abs(T).max(axis=0), T, 0.0)
            assert conjugate == pytest.approx(np.sum(T * W) - by_hand(word, W), rel=1e-12)


@pytest.mark.parametrize("word", [cls(r) for cls in (L21, L1inf, Trace) for r in (0.7, 0.2)], ids=str)
def test_with_a_ratio_the_conjugate_is_attained_where_the_prox_says(word):
    """At W = prox of r R at T, divided by 1 - r, theta.w - R(w) is R*."""
    penalty, norm, rng = made(word), made(type(word)()), np.random.default_rng(5)
    for T in 3.0 * rng.standard_normal((20, LINES, M)):
        W = norm.prox(T, np.full(T.shape, word.l1_ratio)) / (1.0 - word.l1_ratio)
        assert penalty.conjugate(T) == pytest.approx(np.sum(T * W) - by_hand(word, W), rel=1e-12)


@every_penalty
def test_the_largest_part_with_no_weights(word):
    """Up to zero_factor, w = 0 is the minimum of R(w) - s theta.w; above it is not."""
    penalty, rng = made(word), np.random.default_rng(6)
    T = rng.standard_normal((LINES, M))
    s = penalty.zero_factor(T)
    assert penalty.conjugate(s * (1 - 1e-12) * T) == pytest.approx(0.0, abs=1e-20)
    assert math.isinf(s) or s > 1e300 or penalty.conjugate((s + 1e-3) * T) > 0.0


@every_penalty
def test_no_bound_is_above_the_dual_objective_of_a_part_of_the_duals(word):
    penalty, rng = made(word), np.random.default_rng(7)
    for _ in range(20):
        T, gain = rng.standard_normal((LINES, M)) * rng.uniform(0.1, 3), rng.random()
        parts = np.linspace(0, 1, 301)
        values = [s * gain - penalty.conjugate(s * T) for s in parts]
        bound = penalty.bound(gain, T, 0.0, 0.0)
        assert bound <= max(values) + 7e-3 * gain + 1e-12
        if penalty.conjugate(1e6 * T) == math.inf:
            assert bound >= 0.99 * max(values) - 1e-12
        else:
            assert bound >= values[-1] - 1e-9
        e = rng.standard_normal(T.shape)
        e *= 0.1 / np.linalg.norm(e)  # the duals may pull by T + e: no bound is above what is true of them
        best = max(s * gain - penalty.conjugate(s * (T + e)) for s in parts)
        assert penalty.bound(gain, T, 0.1, 0.0) <= best + 7e-3 * gain + 1e-12
        assert penalty.bound(gain, T, 0.0, 0.1) <= bound


@every_penalty
def test_the_gauge_changes_no_more_than_it_says(word):
    penalty, rng = made(word), np.random.default_rng(8)
    if not hasattr(penalty, "gauge"):
        return
    for _ in range(100):
        T, e = rng.standard_normal((LINES, M)), 10.0 ** rng.uniform(-8, 1) * rng.standard_normal((LINES, M))
        change = penalty.gauge(T + e) - penalty.gauge(T)
        assert change <= penalty.stretch(T.size) * np.linalg.norm(e) * (1 + 1e-12) + 1e-13
        assert penalty.longest(T, np.linalg.norm(e)) >= penalty.gauge(T + e) * (1 - 1e-12)


@every_penalty
def test_pieces_are_the_same_penalty(word):
    penalty, rng = made(word), np.random.default_rng(9)
    found = penalty.pieces((LINES, M))
    without = ("l1inf", "trace", "linf", "l2norm", "exclusive")
    given = getattr(word, "low", None) is not None or getattr(word, "radius", None) is not None
    assert (found is None) == ((word.name in without and getattr(word, "l1_ratio", 1.0) > 0.0) or given)
    if found is None:
        return
    order, (starts, thresholds, ridges, cuts) = found
    assert sorted(order) == list(range(LINES * M)) and starts[-1] == LINES * M
    W = rng.standard_normal((LINES, M))
    blocks = np.split(W.ravel()[order], starts[1:-1])
    total = sum(
        t * np.linalg.norm(b) + c * np.abs(b).sum() + 0.5 * q * b @ b
        for t, q, c, b in zip(thresholds, ridges, cuts, blocks, strict=True)
    )
    assert total == pytest.approx(penalty.value(W), rel=1e-13)


@pytest.mark.parametrize("word", ALL, ids=str)
def test_of_one_line_it_is_the_penalty_of_vectors(word):
    rng = np.random.default_rng(10)
    if isinstance(word, Exclusive) and word.groups is None:
        with pytest.raises(UsageError, match="here is one output; name the groups"):
            made(word, lines=1)
        return
    penalty = made(word, lines=1)
    assert not penalty.of_lines
    for w in rng.standard_normal((10, M)):
        w = penalty.inside(w)
        assert penalty.value(w) == pytest.approx(by_hand(word, w[None]), rel=1e-13)
        # the array of one line is served as well
        joined = make_penalty(word).of_columns(PenalisedColumns(M, np.asarray, lines=2))
        joined = joined if joined.of_lines else EachLine.of(joined)
        steps = penalty.even(np.full(M, 0.3))
        np.testing.assert_allclose(joined.prox(w[None], steps[None])[0], penalty.prox(w, steps), atol=1e-14)
        if hasattr(penalty, "gauge"):
            assert joined.gauge(w[None]) == pytest.approx(penalty.gauge(w), rel=1e-12)


def test_a_penalty_whose_bounds_do_not_add_up_is_refused():
    class Own(Penalty):
        value = conjugate = bound = prox = None

    with pytest.raises(UsageError, match=r"^the penalty own cannot be summed up over several outputs"):
        EachLine.of(Own())


def exact_spectral_is_below(T, bound):
    """Whether bound^2 I - T T^T is positive semidefinite, by elimination in fractions."""
    rows = [[Fraction(x) for x in row] for row in T]
    k, square = len(rows), Fraction(bound) ** 2
    A = [[(square if i == j else 0) - sum(a * b for a, b in zip(rows[i], rows[j], strict=True)) for j in range(k)]
         for i in range(k)]  # fmt: skip
    for i in range(k):
        if A[i][i] < 0:
            return False
        if A[i][i] == 0:
            if any(A[i][j] for j in range(i + 1, k)):
                return False
            continue
        for r in range(i + 1, k):
            part = A[r][i] / A[i][i]
            for c in range(i, k):
                A[r][c] -= part * A[i][c]
    return True


def hard_matrices(rng):
    """Matrices whose largest singular value rounding may miss: equal ones, near ones, of rank one, far scales."""
    yield np.eye(4)
    yield np.ones((4, 7)) / 3.0
    yield np.outer(rng.standard_normal(4), rng.standard_normal(6))
    Q, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    yield Q
    yield 1e-180 * rng.standard_normal((3, 6))
    yield 1e150 * rng.standard_normal((6, 3))
    yield np.diag([1.0, 1.0 + 2e-16, 1.0, 1e-8])
    for _ in range(20):
        yield rng.standard_normal((rng.integers(1, 5), rng.integers(1, 7))) * 10.0 ** rng.uniform(-3, 3)


def test_no_spectral_bound_is_below_the_norm_in_fractions():
    rng = np.random.default_rng(11)
    for T in hard_matrices(rng):
        bound = spectral_bound(T)
        small = T if len(T) <= T.shape[1] else T.T
        assert exact_spectral_is_below(small, bound)
        assert not exact_spectral_is_below(small, bound * (1.0 - 1e-12))  # and it is no looser than rounding


@pytest.mark.parametrize("shape", [(40, 3000), (300, 200), slow((2000, 2500))])
def test_bounds_of_large_matrices_are_tight(shape):
    T = np.random.default_rng(12).standard_normal(shape)
    sizes = np.linalg.svd(T, compute_uv=False)
    assert sizes[0] * (1 - 1e-13) <= spectral_bound(T) <= sizes[0] * (1 + 1e-9)
    if T.size < 1e6:
        assert sizes.sum() * (1 - 1e-13) <= nuclear_bound(T) <= sizes.sum() * (1 + 1e-9)


def test_bounds_hold_where_lapack_is_wrong(monkeypatch):
    """Whatever LAPACK says, nothing below the norm is called a bound."""
    T = np.random.default_rng(13).standard_normal((6, 9))
    norm, total = np.linalg.norm(T, 2), np.linalg.norm(T, "nuc")
    right, svd = np.linalg.eigvalsh, np.linalg.svd
    for wrong in (0.3, 0.999, 1 - 1e-9, 1.0, 2.0):
        monkeypatch.setattr(np.linalg, "eigvalsh", lambda G, wrong=wrong: wrong * right(G))
        assert spectral_bound(T) >= norm
    for wrong in (0.5, 1 - 1e-9):

        def wrong_svd(W, wrong=wrong, **_):
            U, sizes, V = svd(W, full_matrices=False)
            return U, wrong * sizes, V

        monkeypatch.setattr(np.linalg, "svd", wrong_svd)
        assert nuclear_bound(T) >= total

    def fails(G):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "eigvalsh", fails)
    assert norm <= spectral_bound(T) <= np.linalg.norm(T) * (1 + 1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none_stay_that(value):
    W = np.ones((LINES, M))
    W[1, 2] = value
    for word in (L21(), L1inf(), Trace()):
        penalty = made(word)
        assert not math.isfinite(penalty.value(W)) and not math.isfinite(penalty.gauge(W))
    assert not np.isfinite(made(Trace()).prox(W, np.ones(W.shape))).any()
