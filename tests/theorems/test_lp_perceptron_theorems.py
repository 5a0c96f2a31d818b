"""What the lp-norm perceptron paper proves of dual coordinate ascent, of the kernels with its order of rows.

In our scale theta = A^T alpha. D(alpha) = sum_i alpha_i - 1/2 ||theta||_q^2, which is D* at the optimum. L_i = (q - 1)
||a_i||_q^2 and R = max_i ||a_i||_q. Rows are drawn uniformly and with replacement; an expectation is a mean of RUNS.
"""

from functools import cache

import numpy as np
import pytest
from reference.coordinate import strongly_accelerated
from reference.diagonal import unsigned
from reference.norms import curvature, length, mirror
from reference.theorems import EXACT, SEEDS, accelerated, drawn, plain, problem
from reference.words import loss_word, sized

import streammargin as sm

RUNS, PASSES = 10, (1, 2, 4, 8, 16)


def parts(seed, run, rows, passes):
    """Random rows for this many passes, pass by pass."""
    return np.split(drawn(100 * seed + run, rows, passes * rows), passes)


@cache
def hard(seed, norm):
    """The problem with C = inf, D*, and the answers v of momentum after PASSES (RUNS, PASSES, n)."""
    told, exact = problem(seed, norm=norm)
    n = len(told.A)
    runs = [list(accelerated(told.A, parts(seed, run, n, PASSES[-1]), np.inf, norm)) for run in range(RUNS)]
    return told, exact, 0.5 * length(exact.w, told.p) ** 2, np.array(runs)[:, np.array(PASSES) - 1]


def promised(seed, norm, steps, printed=False):
    """The bound (8) on E (D* - D(v)) after this many steps; the printed one lacks n^2 at D* - D(0)."""
    told, exact, star, _ = hard(seed, norm)
    n = len(told.A)
    spread = sum(curvature(a, told.q) * x**2 for a, x in zip(told.A, exact.alpha, strict=True))
    if printed:
        return (4 * star + 2 * n**2 * spread) / steps**2
    return 4 * n**2 / (steps - 1 + 2 * n) ** 2 * ((1 - 1 / n) * star + 0.5 * spread)


def lacking(seed, norm):
    """Mean D* - D(v) after PASSES."""
    told, _, star, runs = hard(seed, norm)
    return np.mean([[star - told.dual(v) for v in run] for run in runs], axis=0)


@pytest.mark.parametrize("norm", [2, 1.5, 1.25])
def test_bound_8_of_the_dual_for_a_hard_margin(norm):
    """Bound (8): after t steps E (D* - D(v)) <= 4 n^2 / (t - 1 + 2 n)^2 ((1 - 1/n) D* + 1/2 sum L_i alpha*_i^2).

    Largest measured/bound: 0.86 for p = 2, 0.64 for p = 1.5, 0.65 for p = 1.25. As printed it misses n^2 in the first
    term, and fails for p = 2: 1.14 (0.65 and 0.57 for the others).
    """
    n = len(hard(0, norm)[0].A)
    of = np.zeros(2)
    for seed in SEEDS:
        gaps = lacking(seed, norm)
        for printed in (0, 1):
            bounds = [promised(seed, norm, t * n, bool(printed)) for t in PASSES]
            of[printed] = np.maximum(of[printed], np.max(gaps / bounds))
    assert of[0] <= 1
    assert norm < 2 or of[1] > 1.05


@pytest.mark.parametrize("norm", [2, 1.5, 1.25])
def test_corollary_1_of_the_distance(norm):
    """Corollary 1: ||w - w*||_p <= sqrt(2 (D* - D(alpha)) / (p - 1)) for w of any duals, here those of both kernels.

    Largest measured/bound: 1.00 for p = 2 (nothing else lacks, once only support vectors have duals), 0.91 for
    p = 1.5, 0.66 for p = 1.25.
    """
    worst = 0.0
    for seed in SEEDS:
        told, exact, star, runs = hard(seed, norm)
        for alpha in [*runs[0], *plain(told.A, parts(seed, 0, len(told.A), 8), np.inf, norm)]:
            far = length(mirror(told.theta(alpha), told.q) - exact.w, told.p)
            lacks = star - told.dual(alpha) + EXACT * star
            worst = np.maximum(worst, far / np.sqrt(2 * lacks / (told.p - 1)))
    assert worst <= 1


@pytest.mark.parametrize("norm", [2, 1.5, 1.25])
def test_eq_13_and_lemma_3(norm):
    """Eq. (13): E ||w_t - w*||_p <= sqrt(2 bound / (p - 1)), with the bound of (8). Lemma 3: from where that is less
    than 1 / R no row is misclassified in the mean, as E a_i.w_t >= 1 - R E ||w_t - w*||_p.

    Largest measured/bound: of (13) 0.47, 0.36, 0.26 for p = 2, 1.5, 1.25; of the steps until no row is 0.11, 0.06,
    0.07 (weak but for p = 2).
    """
    far, late = 0.0, 0.0
    for seed in SEEDS:
        told, exact, _, runs = hard(seed, norm)
        n = len(told.A)
        w = np.array([[mirror(told.theta(v), told.q) for v in run] for run in runs])
        distance = np.mean([[length(each - exact.w, told.p) for each in run] for run in w], axis=0)
        root = [np.sqrt(2 * promised(seed, norm, t * n) / (told.p - 1)) for t in PASSES]
        far = np.maximum(far, (distance / root).max())
        R = max(length(a, told.q) for a in told.A)
        steps = 2 * n * R * np.sqrt(2 * promised(seed, norm, 1) / (told.p - 1)) + 1 - 2 * n  # (8) at t = 1 is its D
        separated = [t * n for t, mean in zip(PASSES, w.mean(axis=0), strict=True) if (told.A @ mean > 0).all()]
        late = np.maximum(late, min(separated, default=np.inf) / steps)
    assert far <= 1 and late <= 1


@pytest.mark.parametrize("loss, width, bend, C", [
    ("smooth_hinge", 0.5, 0.5, 0.1), ("squared_hinge", 1.0, 0.5, 0.1), ("logistic", 1.0, 4.0, 1.0)
])  # fmt: skip
def test_corollary_c1_of_smooth_losses(loss, width, bend, C):
    """Corollary C.1, of losses that are 1/gamma-smooth, after k steps: 1/2 ||w_k - w*||^2 <= D* - D(alpha_k).

    The expectation of the latter is <= (1 - gamma / (n (gamma + C R^2)))^k (D* - D(0)). gamma is `bend`.

    Largest measured/bound: 0.53, 0.55 and 0.57 in the order of the cases; of the first inequality 0.67, 0.67, 0.46.
    As printed, gamma is missing beside C R^2, and it fails if C is small: see the next test.
    """
    worst, nearest = 0.0, 0.0
    for seed in SEEDS:
        told, exact = problem(seed, C=C, loss=loss, width=width)
        A, n, start = told.A, len(told.A), exact.dual - told.dual(np.zeros(len(told.A)))
        rate = 1 - bend / (n * (bend + C * np.max(np.sum(A**2, axis=1))))
        runs = [list(plain(A, parts(seed, run, n, 8), C, loss=sized(loss, width))) for run in range(RUNS)]
        lacks = np.array([[exact.dual - told.dual(alpha) for alpha in run] for run in runs])
        halves = np.array([[0.5 * np.sum((A.T @ alpha - exact.w) ** 2) for alpha in run] for run in runs])
        nearest = np.maximum(nearest, np.max(halves / (lacks + EXACT * exact.primal)))
        bounds = rate ** (n * np.arange(1, 9)) * start + EXACT * exact.primal
        worst = np.maximum(worst, np.max(lacks.mean(axis=0) / bounds))
    assert worst <= 1 and nearest <= 1


def test_corollaries_c1_and_c2_as_printed_promise_too_much():
    """As printed, a step shrinks the gap by 1 - gamma / (n C R^2), or with momentum by 1 - sqrt(gamma / C) / sum_i
    ||a_i||. No method that sees one row a step can do so if C R^2 < gamma. After k steps a row is unseen with the
    chance (1 - 1/n)^k. C = 0.01, gamma = 0.5, one pass: on every seed the gap is at least 6.2 times what the first
    promises, and 7.3 times the second.
    """
    C, ratios = 0.01, []
    for seed in SEEDS:
        told, exact = problem(seed, C=C, loss="smooth_hinge", width=0.5)
        A, n = told.A, len(told.A)
        rates = 1 - 0.5 / (n * C * np.max(np.sum(A**2, axis=1))), 1 - np.sqrt(0.5 / C) / np.linalg.norm(A, axis=1).sum()
        found = []
        for run in range(RUNS):
            (draws,) = parts(seed, run, n, 1)
            (alpha,) = plain(A, [draws], C, loss=sized("smooth_hinge", 0.5))
            *_, beta = strongly_accelerated(A, C, 0.5 / C, draws)
            found.append([exact.dual - told.dual(each) for each in (alpha, np.clip(beta, 0, C))])
        bounds = [factor * max(rate, 0.0) ** n * exact.dual for factor, rate in zip((1, 2), rates, strict=True)]
        ratios.append(np.mean(found, axis=0) / bounds)
    assert np.min(ratios) > 1


@pytest.mark.parametrize("C", [0.3, 30.0])
def test_corollary_c2_of_smooth_losses_with_momentum(C):
    """Corollary C.2: E (D* - D(alpha_k)) <= 2 (1 - sqrt(gamma / (gamma + C R^2)) / n)^k (D* - D(0)) after k steps.

    Of the twin, as the shipped method restarts if the paper's has momentum of one strength, and of `asdca` after as
    many passes. Largest measured/bound for C = 0.3 and 30: 0.39 and 0.57 of the twin, 0.36 and 0.34 of `asdca`.
    """
    twin = shipped = 0.0
    for seed in SEEDS:
        told, exact = problem(seed, C=C, loss="smooth_hinge", width=0.5)
        A, n = told.A, len(told.A)
        y = np.where(np.arange(n) % 2, 1, -1)
        rate = 1 - np.sqrt(0.5 / (0.5 + C * np.max(np.sum(A**2, axis=1)))) / n
        passes = (1, 2, 4, 8)
        bounds = [2 * rate ** (t * n) * exact.dual + EXACT * exact.primal for t in passes]
        runs = [list(strongly_accelerated(A, C, 0.5 / C, drawn(100 * seed + run, n, 8 * n))) for run in range(8)]
        lacks = [[exact.dual - told.dual(np.clip(run[t * n - 1], 0, C)) for t in passes] for run in runs]
        twin = np.maximum(twin, np.max(np.mean(lacks, axis=0) / bounds))
        for t, bound in zip(passes, bounds, strict=True):
            result = sm.train(
                (A * y[:, None], y), solver="asdca", loss=loss_word("smooth_hinge", 0.5), C=C, bias=0, tol=0.0,
                passes=t, seed=seed,
            )  # fmt: skip
            shipped = np.maximum(shipped, (exact.dual - result.certificate["dual"]) / bound)
    assert twin <= 1 and shipped <= 1


def test_eq_25_and_26_of_the_steps_without_a_mistake():
    """Eq. (26), on the support S of w*: alpha*_S = (A_S A_S^T)^-1 1 and ||w*||^2 = 1^T (A_S A_S^T)^-1 1. Eq. (25):
    after more than n R^2 ||w*||^2 steps the mean of the perceptron's w misses less than one row, in expectation.

    Largest mean number of mistakes of `mirror:average` and `perceptron:average` after that many steps: 0.
    """
    missed = {"mirror": [], "perceptron": []}
    for seed in SEEDS:
        told, exact = problem(seed)
        support = exact.alpha > 1e-6 * exact.alpha.max()
        A = told.A[support]
        ones = np.linalg.solve(A @ A.T, np.ones(len(A)))
        np.testing.assert_allclose(ones, exact.alpha[support], rtol=1e-4)
        assert exact.w @ exact.w == pytest.approx(ones.sum(), rel=1e-6)
        n, R = len(told.A), np.linalg.norm(told.A, axis=1).max()
        passes = int(np.ceil(R**2 * ones.sum())) + 1
        X, y = unsigned(told.A)
        for name, found in missed.items():
            result = sm.train((X, y), solver=f"{name}:average", bias=0, tol=0.0, passes=passes, seed=seed)
            found.append(np.sum(y * (X @ result.model.coef_[0]) <= 0.0))
        assert n * passes > n * R**2 * ones.sum()
    assert max(np.mean(found) for found in missed.values()) < 1.0
