"""Penalties against numerical minimisers: value, conjugate, prox, mirror map, and the bounds that certificates use."""

import numpy as np
import pytest
from conftest import slow
from reference.words import of_columns
from scipy.optimize import minimize

from streammargin import penalties
from streammargin.penalties import PENALTIES
from streammargin.penalties.mirror_maps import L2, GroupedNorm, Shrunk
from streammargin.rows.blocks import DenseBlock

D = 7
GROUPS = np.array([4, 0, 4, 9, 0, 4, 0])
WORDS = [
    *map(penalties.make_penalty, ("lp:2", "l2", "l1", "l2norm", "linf", "elasticnet:0.5", "elasticnet:0")),
    *map(penalties.make_penalty, ("elasticnet:0.9", "elasticnet:1", "lp:1.5")),
    penalties.Group(GROUPS), penalties.Group(GROUPS, 0.7), penalties.Exclusive(GROUPS),
    *(penalties.SparseGroup(GROUPS, r) for r in (0.0, 0.2, 0.5, 0.9, 1.0)),
]  # fmt: skip
EVERY = [(word.name, word) for word in WORDS]
MADE = [
    slow(of_columns(word, D)) if getattr(word, "l1_ratio", 0) in (0.2, 0.9) else of_columns(word, D) for word in WORDS
]
every_penalty = pytest.mark.parametrize("penalty", MADE, ids=map(str, WORDS))
members = [g == GROUPS for g in np.unique(GROUPS)]


def by_hand(name, given, w):
    """The definition, as the help of --penalty gives it."""
    lengths = sum(np.sqrt(m.sum()) * np.linalg.norm(w[m]) for m in members)
    r = given.get_params().get("l1_ratio")
    return {
        "lp": lambda: 0.5 * np.linalg.norm(w, given.p) ** 2,
        "l2": lambda: 0.5 * w @ w,
        "l1": lambda: np.linalg.norm(w, 1),
        "l2norm": lambda: np.linalg.norm(w),
        "linf": lambda: np.linalg.norm(w, np.inf),
        "elasticnet": lambda: r * np.linalg.norm(w, 1) + (1 - r) / 2 * w @ w,
        "group": lambda: r * lengths + (1 - r) / 2 * w @ w,
        "sparse_group": lambda: r * np.linalg.norm(w, 1) + (1 - r) * lengths,
        "exclusive": lambda: 0.5 * sum(np.linalg.norm(w[m], 1) ** 2 for m in members),
    }[name]()


def minimum(function, start):
    """The least value that was found of a convex function that bends sharply."""
    x = minimize(function, start, method="Powell", options={"maxiter": 20}).x
    return min(function(x), minimize(function, x, method="Nelder-Mead", options={"maxiter": 600, "fatol": 1e-12}).fun)


@pytest.mark.parametrize("name, given", EVERY)
def test_the_value_is_that_of_the_definition(name, given):
    penalty, rng = of_columns(given, D), np.random.default_rng(0)
    for w in [np.zeros(D), *rng.standard_normal((20, D)), 1e-100 * rng.standard_normal(D)]:
        assert penalty.value(w) == pytest.approx(by_hand(name, given, w), rel=1e-13)
    assert set(PENALTIES) == {*(one for one, _ in EVERY), "l21", "l1inf", "trace"}  # these: test_spec_lines.py


@every_penalty
def test_the_prox_is_a_minimiser(penalty):
    """No numerical minimiser finds less, and the optimality condition holds: v - w is in the subdifferential."""
    if not penalty.proximal:
        with pytest.raises(AssertionError):
            penalty.prox(np.ones(D), np.ones(D))
        return
    rng = np.random.default_rng(1)
    for scale in (0.1, 1.0, 5.0):
        v = scale * rng.standard_normal(D)
        v[3] = 0.0
        wished = rng.random(D) + 0.2
        steps = penalty.even(wished)
        assert np.all(steps <= wished) and np.any(steps == wished)

        def objective(w, v=v, steps=steps):
            return penalty.value(w) + 0.5 * np.sum((w - v) ** 2 / steps)

        w = penalty.prox(v, steps)
        assert w is not v and objective(w) <= minimum(objective, w + 0.01 * rng.standard_normal(D)) + 1e-9
        # R(w) + R*(slope) = w.slope says that the slope is one of R at w; of norms it lies in the dual ball
        slope = (v - w) / steps
        assert penalty.gauge(slope) <= 1 + 1e-12 or penalty.conjugate(slope) < np.inf
        fenchel = 0.0 if penalty.conjugate(0 * v + 1e6) == np.inf else penalty.conjugate(slope)
        assert penalty.value(w) + fenchel == pytest.approx(w @ slope, abs=1e-10)


@every_penalty
def test_the_conjugate_is_a_supremum(penalty):
    rng = np.random.default_rng(2)
    for scale in (0.1, 0.6, 2.0):
        theta = scale * rng.standard_normal(D)
        conjugate = penalty.conjugate(theta)

        def below(w, theta=theta):
            return penalty.value(w) - theta @ w

        tried = [s * w for w in (*rng.standard_normal((200, D)), theta, np.sign(theta), *np.eye(D)) for s in (1, 0.1)]
        assert all(-below(w) <= conjugate + 1e-12 for w in tried)
        if conjugate == np.inf:  # it grows without bound along the w where the dual norm is attained
            edge = theta / penalty.gauge(theta)
            assert penalty.conjugate(edge * (1 - 1e-12)) == 0.0 and penalty.conjugate(edge * (1 + 1e-9)) == np.inf
            assert minimum(lambda w: below(w) + 1e3 * max(0, w @ w - 100), theta) < -0.01
        elif conjugate > 0.0:
            assert conjugate == pytest.approx(-minimum(below, theta), rel=1e-2)


@every_penalty
def test_the_gauge_changes_no_more_than_it_says(penalty):
    rng = np.random.default_rng(3)
    for _ in range(200):
        theta, e = rng.standard_normal(D), 10.0 ** rng.uniform(-8, 1) * rng.standard_normal(D)
        change = penalty.gauge(theta + e) - penalty.gauge(theta)
        assert change <= penalty.stretch(D) * np.linalg.norm(e) * (1 + 1e-12)


@every_penalty
def test_a_bound_is_the_dual_objective_of_a_part_of_the_duals(penalty):
    rng = np.random.default_rng(4)
    for _ in range(50):
        theta, gain = rng.standard_normal(D) * rng.uniform(0.1, 3), rng.random()
        parts = np.linspace(0, 1, 1001)
        values = [s * gain - penalty.conjugate(s * theta) for s in parts]
        bound = penalty.bound(gain, theta, 0.0, 0.0)
        least = 0.998 * max(values) if penalty.conjugate(1e6 * theta) == np.inf else values[-1]
        assert least - 1e-12 <= bound <= max(values) + 2e-3 * gain + 1e-12
        assert penalty.bound(gain, theta, 0.0, 0.1) <= bound and penalty.bound(gain, theta, 0.1, 0.0) <= bound


@every_penalty
def test_what_coordinate_ascent_takes_is_the_mirror_map(penalty):
    if penalty.norm is None:
        with pytest.raises(NotImplementedError):
            penalty.mirror(np.ones(D))
        return
    rng = np.random.default_rng(5)
    for theta in rng.standard_normal((20, D)):
        w = penalty.mirror(theta)
        assert theta @ w - penalty.value(w) == pytest.approx(penalty.conjugate(theta), rel=1e-12)
        if isinstance(penalty.norm, GroupedNorm):
            np.testing.assert_allclose(penalty.powers(theta)[:3], [np.sum(theta[m] ** 2) for m in members])
        elif isinstance(penalty.norm, (L2, Shrunk)):
            rows = DenseBlock(np.eye(D - 1), 1.0)
            found = [penalty.norm.now(rows, i, theta, theta, 0.0) - w[-1] for i in range(D - 1)]
            np.testing.assert_allclose(found, w[:-1], atol=1e-14)


def test_any_function_of_the_length_goes_through_its_own_prox():
    """Lemma 16: if R(w) = V(||w||), the prox scales v to the length that minimises V(s) + (s - ||v||)^2 / 2 step."""
    v, step = np.array([3.0, -4.0, 1.0]), 0.7
    size = np.linalg.norm(v)
    for name, V in (("l2norm", lambda s: s), ("l2", lambda s: 0.5 * s * s)):
        s = minimize(lambda s, V=V: V(s[0]) + (s[0] - size) ** 2 / (2 * step), [1.0], tol=1e-14).x[0]
        np.testing.assert_allclose(of_columns(name).prox(v, np.full(3, step)), s * v / size, rtol=1e-6)


def test_extremes():
    for _, given in EVERY:
        penalty = of_columns(given, D)
        if penalty.proximal:
            assert not np.any(penalty.prox(np.zeros(D), np.ones(D)))
            np.testing.assert_allclose(penalty.prox(np.arange(D) + 1.0, np.full(D, 1e-14)), np.arange(D) + 1.0)
            for size in (1e-9, 1e9):  # a step that rounding loses beside them
                far = np.full(D, size)
                np.testing.assert_allclose(penalty.prox(far, np.full(D, 1e-20 * size)), far)
        assert penalty.value(np.zeros(D)) == 0.0 and penalty.conjugate(np.zeros(D)) == 0.0
        assert penalty.bound(1.0, np.zeros(D), 0.0, 0.0) == 1.0
