"""Powers of norms, V(z) = z^p / p (Pdprox paper, Lemma 16), against numerical minimisers and closed forms."""

import numpy as np
import pytest
from scipy.optimize import minimize

import streammargin as sm
from streammargin.errors import UsageError
from streammargin.penalties import make_penalty
from streammargin.penalties.base import PenalisedColumns
from streammargin.penalties.lines import EachLine
from streammargin.verification.verify import verify

LINES, M = 3, 5
GROUPS = np.array([4, 0, 4, 9, 0])
EXPONENTS = (2.0, 1.3)


def made(name, p, lines):
    word = sm.penalties.Group(GROUPS, power=p) if name == "group" else make_penalty(f"{name}:power={p}")
    found = word.of_columns(PenalisedColumns(M, np.asarray, lines=lines))
    return found if found.of_lines or lines == 1 else EachLine.of(found)


def norm(name, w):
    """The norm, from the definition."""
    if name == "group":
        return sum(np.sqrt(np.sum(g == GROUPS)) * np.linalg.norm(w[g == GROUPS]) for g in np.unique(GROUPS))
    if w.ndim == 1:
        return np.linalg.norm(w, {"l21": 1, "l1inf": 1, "trace": 2, "l2norm": 2, "linf": np.inf}[name])
    return {
        "l21": lambda: np.linalg.norm(w, axis=0).sum(), "l1inf": lambda: np.abs(w).max(axis=0).sum(),
        "trace": lambda: np.linalg.norm(w, "nuc"),
    }[name]()  # fmt: skip


def value(name, p, w):
    lines = [w] if w.ndim == 1 or name in ("l21", "l1inf", "trace") else w
    return sum(norm(name, line) ** p / p for line in lines)


CASES = [(name, p, lines) for name in ("l2norm", "linf", "group", "l21", "l1inf", "trace") for p in EXPONENTS
         for lines in (1, LINES)]  # fmt: skip
every_case = pytest.mark.parametrize("name, p, lines", CASES)


def drawn(lines, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal(M if lines == 1 else (LINES, M))


@every_case
def test_the_value_and_the_conjugate_are_those_of_the_definition(name, p, lines):
    """R*(theta) = theta.w - R(w) at w = prox of R at w + theta; no other w has more."""
    penalty = made(name, p, lines)
    for scale in (0.0, 0.01, 1.0, 100.0):
        w = drawn(lines, scale=scale)
        assert penalty.value(w) == pytest.approx(value(name, p, w), rel=1e-12)
    v, one = drawn(lines, 1, 3.0), np.ones(drawn(lines).shape)
    w = penalty.prox(v, one)
    theta = v - w  # a subgradient at w
    assert penalty.conjugate(theta) == pytest.approx(np.sum(theta * w) - penalty.value(w), rel=1e-9, abs=1e-12)
    for seed in range(20):
        other = drawn(lines, seed + 2, 2.0)
        assert penalty.conjugate(theta) >= np.sum(theta * other) - penalty.value(other) - 1e-12


@every_case
def test_the_prox_is_where_no_other_point_is_lower(name, p, lines):
    """Also with a step for each column, as far as the norm supports it."""
    penalty, rng = made(name, p, lines), np.random.default_rng(5)
    for scale in (1e-6, 1e3):
        v = drawn(lines, 1, scale)
        steps = penalty.even(rng.uniform(0.2, 3.0, v.shape))
        w = penalty.prox(v, steps)
        before = v.copy()

        def height(x, v=v, steps=steps):
            return value(name, p, x) + np.sum((x - v) ** 2 / (2.0 * steps))

        least = height(w)
        assert np.array_equal(v, before) and least <= height(v) and least <= height(0.0 * v) * (1 + 1e-12)
        for _ in range(50):
            near = w + rng.standard_normal(w.shape) * np.abs(v).max() * 10.0 ** rng.uniform(-8, 0)
            assert least <= height(near) * (1 + 1e-12)
    w = drawn(lines, 1)
    found = minimize(
        lambda x: height(x.reshape(w.shape), w, np.ones(w.shape)), np.zeros(w.size), method="Powell",
        options={"maxiter": 3},
    )  # fmt: skip
    assert height(penalty.prox(w, np.ones(w.shape)), w, np.ones(w.shape)) <= found.fun * (1 + 1e-9)
    assert not penalty.prox(0.0 * w, np.ones(w.shape)).any()


@every_case
def test_bounds_hold_for_any_factor_and_any_error(name, p, lines):
    penalty, rng = made(name, p, lines), np.random.default_rng(7)
    for _ in range(8):
        theta, gain = drawn(lines, rng.integers(99), 10.0 ** rng.uniform(-3, 3)), 10.0 ** rng.uniform(-3, 3)
        blur = 1e-3 * np.abs(theta).max()
        error = rng.standard_normal(theta.shape)
        error *= blur / np.linalg.norm(error)
        best = max(s * gain - penalty.conjugate(s * (theta + error)) for s in np.linspace(0.0, 1.0, 501))
        grid = 1e-2 * (gain + 1.0)
        assert penalty.bound(gain, theta, blur, 1e-12) <= best + grid
        exact = max(s * gain - penalty.conjugate(s * theta) for s in np.linspace(0.0, 1.0, 501))
        assert penalty.bound(gain, theta, 0.0, 0.0) >= exact * (1 - 1e-9)


def test_squares_that_have_another_name():
    v, steps = drawn(1), np.full(M, 0.7)
    np.testing.assert_allclose(made("l2norm", 2.0, 1).prox(v, steps), v / 1.7, rtol=1e-14)
    one_group = sm.penalties.Exclusive(np.zeros(M, int)).of_columns(PenalisedColumns(M, np.asarray))
    np.testing.assert_allclose(made("l21", 2.0, 1).prox(v, steps), one_group.prox(v, steps), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("solver", ["pdprox", "newton"])
def test_trainings_reach_what_others_find(solver, tmp_path):
    """l2norm:power=2 is the ridge; groups and one W go from file to model, and are verified by NumPy alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, M))
    y, Y = np.sign(X[:, 0] + 0.5 * rng.standard_normal(60)), np.argmax(X[:, :3] + rng.gumbel(size=(60, 3)), axis=1)
    ridge = sm.train((X, y), penalty="l2", bias="free", C=0.5, tol=1e-6)
    power = sm.train((X, y), penalty="l2norm:power=2", C=0.5, tol=1e-6, solver=solver, passes=20_000)
    assert power.converged and power.certificate.primal == pytest.approx(ridge.certificate.primal, rel=2e-6)
    sm.write_hdf5([(X, Y)], tmp_path / "rows.h5")
    np.savetxt(tmp_path / "groups.txt", GROUPS, fmt="%d")
    for word in (f"group:{tmp_path}/groups.txt,power=2", "l21:power=1.5", "trace:power=2", "linf:power=1.5"):
        options = {"penalty": word, "loss": "hinge", "multiclass": "ovr", "C": 0.5, "tol": 1e-4, "passes": 20_000}
        result = sm.train(tmp_path / "rows.h5", solver=solver, **options)
        assert result.converged
        result.model.save(tmp_path / "model.npz", force=True)
        checks = list(verify(tmp_path / "model.npz", tmp_path / "rows.h5"))
        assert all(check.agrees is not False for check in checks) and any(c.name == "primal" for c in checks)


def test_what_cannot_be_is_one_sentence():
    rows = drawn(LINES), [1, -1, 1]
    with pytest.raises(UsageError, match="is of its norm alone; leave l1_ratio out"):
        sm.train(rows, penalty=sm.penalties.Group(GROUPS, 0.5, power=2), C=1.0)
    with pytest.raises(UsageError, match="must be a number above 1, at most 2"):
        sm.train(rows, penalty="l2norm:power=3", C=1.0)
