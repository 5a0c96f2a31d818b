"""The two-vector kernel against the three sequences of the paper, with every vector computed at every step."""

import numpy as np
import pytest
from conftest import slow
from reference import words
from reference.coordinate import ThreeSequences, loss_step
from reference.datasets import as_form, noisy
from reference.norms import exponent
from reference.training import binary
from reference.words import sized

from streammargin.compiled import sdca as kernel
from streammargin.compiled.duals import dual_sums
from streammargin.compiled.sleep import LONGEST_SLEEP
from streammargin.losses import terms
from streammargin.penalties.mirror_maps import make_norm
from streammargin.rows.labels import Labels, numbered_from
from streammargin.rows.visits import all_at_once
from streammargin.sources.arrays import ArraySource

BIAS = 0.5
ROWS, FEATURES = 30, 6
FORMS = [slow("dense", np.float32), ("dense", np.float64), slow("csr", np.float32), ("csr", np.float64)]


def run(X, form, loss, norm, order, codes, caps, weights, targets, dtype=np.float64, sleep=None):
    """The averaged duals, theta of z, and the figures after these visits; all at once if some rows sleep."""
    block = ArraySource(as_form(X, form, dtype)).whole()._replace(bias=BIAS)
    n = len(X)
    alpha, momentum = np.zeros((1, n)), np.zeros((1, n))
    theta, drift = np.zeros((1, FEATURES + 1)), np.zeros((1, FEATURES + 1))
    present = np.count_nonzero((codes >= 0) & (weights > 0 if weights.size else True))
    pace, figures = np.zeros((1, kernel.PACE)), np.zeros((1, kernel.ASCENT_FIGURES))
    pace[0, kernel.GAMMA] = 1 / present
    figures[0, kernel.MIN_MARGIN] = np.inf
    for visits in np.split(order, order.size) if sleep is None else [order]:
        kernel.sdca_turns(
            all_at_once(block, numbered_from(0), visits, 1),
            Labels(codes, np.array([1 if not targets.size else 0]), caps, weights, targets),
            loss, norm, np.array([0]), alpha, np.zeros((1, n), np.uint8) if sleep is None else sleep, LONGEST_SLEEP,
            np.zeros(n), theta, theta, np.zeros(1),
            kernel.Ahead(momentum, drift, np.array([float(present)]), pace, 0.0), np.zeros(1), 1.0, figures,
        )  # fmt: skip
    last, gamma = pace[0, kernel.LAST], pace[0, kernel.GAMMA]
    return {
        "v": alpha[0] + last**2 * momentum[0], "z": alpha[0] + gamma**2 * momentum[0], "alpha": alpha[0],
        "theta": theta[0] + gamma**2 * drift[0], "figures": figures[0], "pace": pace[0], "momentum": momentum[0],
    }  # fmt: skip


@pytest.mark.parametrize("C", [0.7, np.inf])
@pytest.mark.parametrize("norm", [2, 1.5, "sparse"])
@pytest.mark.parametrize("loss", words.LOSSES)
def test_two_vectors_equal_three_sequences(loss, norm, C):
    if loss == "logistic" and np.isinf(C):
        pytest.skip("no hard margin")
    check_classes("csr", np.float64, loss, norm, C)


@pytest.mark.parametrize("norm", [2, 1.5])
@pytest.mark.parametrize("form, dtype", FORMS)
def test_on_every_kind_of_rows(form, dtype, norm):
    check_classes(form, dtype, "smooth_hinge", norm, 0.7)


def check_classes(form, dtype, loss, norm, C):
    X, labels = noisy(ROWS, FEATURES)
    X = X.astype(dtype).astype(float)
    rng = np.random.default_rng(3)
    codes = ((labels + 1) // 2).astype(np.int16)
    codes[[4, 17]] = -1
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], ROWS)
    caps = C * np.array([[0.6, 1.7]])
    mass = weights * (codes >= 0)
    rows = np.flatnonzero(mass > 0)
    rows = rows[X[rows].any(axis=1)] if np.isinf(C) else rows
    codes[np.setdiff1d(np.arange(ROWS), rows)] = -1
    mass = weights * (codes >= 0)
    problem = binary(X, codes == 1, loss=loss, width=0.5, C=C, norm=norm, bias=BIAS,
                     sample_weight=mass * caps[0][codes] / C if np.isfinite(C) else mass)  # fmt: skip
    twin = ThreeSequences(problem.A, problem.q, loss_step(problem), len(rows))
    order = np.concatenate([rng.permutation(ROWS) for _ in range(6)])
    norm_ = make_norm(exponent(norm, FEATURES))
    seen = run(X, form, sized(loss, 0.5), norm_, order, codes, caps, weights, np.empty(0), dtype)
    place = {row: i for i, row in enumerate(rows)}
    visits = [twin.visit(place[i]) for i in order if i in place]
    for name in ("v", "z", "alpha"):
        ours = seen[name][rows]
        np.testing.assert_allclose(ours, getattr(twin, name), rtol=1e-9, atol=1e-11 * np.abs(twin.alpha).max())
    np.testing.assert_allclose(seen["theta"], problem.A.T @ twin.z, atol=1e-10 * np.abs(problem.A.T @ twin.z).max())
    assert seen["pace"][kernel.GAMMA] == pytest.approx(twin.gamma, rel=1e-12)
    assert seen["figures"][kernel.MIN_MARGIN] == pytest.approx(min(visits), rel=1e-9)
    assert seen["figures"][kernel.PASS_MISTAKES] == np.count_nonzero(np.array(visits) <= 0)
    assert np.all(seen["v"] >= -1e-12)


def test_rows_that_sleep_take_steps_that_move_nothing():
    X, labels = noisy(ROWS, FEATURES)
    X = X[X.any(axis=1)]
    codes, n = ((labels + 1) // 2).astype(np.int16)[: len(X)], len(X)
    problem = binary(X, codes == 1, loss="hinge", C=0.7, norm=2, bias=BIAS)
    twin = ThreeSequences(problem.A, problem.q, loss_step(problem), n)
    sleep = np.zeros((1, n), np.uint8)
    sleep[0, [3, 8, 21]] = 8 + 2, 16 + 2, 24 + 3
    order = np.random.default_rng(1).permutation(n)
    none, caps = np.empty(0), np.full((1, 2), 0.7)
    seen = run(X, "csr", terms("hinge"), make_norm(2.0), order, codes, caps, none, none, sleep=sleep)
    for _ in range(3):
        twin.rest()
    for i in order[~np.isin(order, [3, 8, 21])]:
        twin.visit(i)
    for name in ("v", "z", "alpha"):
        np.testing.assert_allclose(seen[name], getattr(twin, name), rtol=1e-9, atol=1e-11)
    assert seen["pace"][kernel.GAMMA] == pytest.approx(twin.gamma, rel=1e-12)
    assert sleep[0, [3, 8, 21]].tolist() == [2, 8 + 2, 16 + 3]
    at_rest = np.isin(seen["alpha"], [0.0, 0.7]) & ~np.isin(np.arange(n), [3, 8, 21])
    assert np.all(at_rest[sleep[0] == 1]) and np.all(sleep[0][~at_rest & (sleep[0] < 2)] == 0)


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
@pytest.mark.parametrize("norm", [2, 1.5])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_of_numbers(form, norm, epsilon):
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((4, FEATURES)), rng.standard_normal(4)
    A = np.column_stack([X, np.full(4, BIAS)])
    p = exponent(norm, FEATURES)

    def step(i, alpha, u, L):
        moved = alpha + (y[i] - u) / L
        return np.sign(moved) * max(abs(moved) - epsilon / L, 0)

    twin = ThreeSequences(A, p / (p - 1), step, 4)
    order = rng.integers(0, 4, 40)
    loss = terms(f"interpolate:{epsilon}")
    seen = run(X, form, loss, make_norm(p), order, np.zeros(4, np.int16), np.full((1, 1), np.inf), np.empty(0), y)
    residuals = np.array([twin.visit(i) - y[i] for i in order])
    np.testing.assert_allclose(seen["v"], twin.v, rtol=1e-10, atol=1e-12 * np.abs(twin.v).max())
    worst = max(0, np.abs(residuals).max() - epsilon)
    assert -seen["figures"][kernel.MIN_MARGIN] == pytest.approx(worst, rel=1e-10)
    labels = Labels(np.zeros(4, np.int16), np.zeros(1, np.int64), np.full((1, 1), np.inf), np.empty(0), y)
    dual, total = dual_sums(labels, loss, 0, seen["alpha"], seen["momentum"], seen["pace"][kernel.LAST] ** 2)
    assert dual == pytest.approx(twin.v @ y - epsilon * np.abs(twin.v).sum(), rel=1e-9)
    assert total == pytest.approx(twin.v.sum(), rel=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_bound_of_the_paper_in_expectation(loss):
    """D* - E D(v) <= 4 n^2/(t-1+2n)^2 ((1-1/n)(D* - D(0)) + 1/2 sum L_i alpha*_i^2), rows drawn uniformly."""
    from reference.optimum import solve

    X, y = noisy(12, 4, seed=2)
    problem = binary(X, y, loss=loss, C=0.5, norm=2)
    problem.A = problem.A[X.any(axis=1)]
    problem.caps = problem.caps[X.any(axis=1)]
    exact = solve(problem, loss)
    n = len(problem.A)
    L = np.sum(problem.A**2, axis=1)
    room = (1 - 1 / n) * (exact.primal - problem.dual(np.zeros(n))) + 0.5 * np.sum(L * exact.alpha**2)
    moments = [1, 3, 10, 30, 100]
    behind = np.zeros((200, len(moments)))
    for seed in range(200):
        rng = np.random.default_rng(seed)
        twin = ThreeSequences(problem.A, 2.0, loss_step(problem), n)
        for t in range(1, moments[-1] + 1):
            twin.visit(rng.integers(n))
            if t in moments:
                v = np.clip(twin.v, 0, problem.caps)  # but for rounding it is there
                behind[seed, moments.index(t)] = exact.dual - problem.dual(v)
    spread = 3 * behind.std(axis=0) / np.sqrt(len(behind))
    bound = [4 * n**2 / (t - 1 + 2 * n) ** 2 * room for t in moments]
    assert np.all(behind.mean(axis=0) - spread <= bound)
    assert behind.mean(axis=0)[-1] > 1e-3 * bound[-1]  # the bound is not an empty one
