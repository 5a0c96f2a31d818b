"""What the homotopic paper proves beside its main theorem, of `homotopic:s0=3,units=paper`, and of minimisers.

F(w) = lambda/2 ||w||^2 + mean_i (1 - a_i.w)_+ has the minimiser w(lambda). It is w* for lambda up to lambda'; this is 1
/ (n times the largest dual of the hard margin). L is twice the mean length of the rows.
"""

import numpy as np
from reference.diagonal import unsigned
from reference.drive import hard_problem, one_pass, started
from reference.homotopic import constants, objective
from reference.theorems import SEEDS, problem, rows

import streammargin as sm
from streammargin.compiled import homotopic as kernel
from streammargin.solvers.papers.homotopic import Homotopic


def outer_iterations(A, count):
    """Yields (lambda, steps, where they start, their mean) of the first outer iterations."""
    X, y = unsigned(A)
    solver, told = Homotopic(s0=3.0, units="paper"), hard_problem(X)
    state, start, number = started(solver, told, X, y), np.zeros(A.shape[1]), 0
    for s in range(count):
        while state.carried[0, kernel.OUTER_DONE] == s:
            number += 1
            one_pass(solver, told, state, X, number)
        mean = state.v[0, :-1].copy()
        yield (3 + s) ** -0.5, (3 + s) ** 2, start, mean
        start = mean


def minimiser(A, lam):
    """w(lambda) of `auto`, certified to 1e-9 of F."""
    X, y = unsigned(A)
    result = sm.train((X, y), C=1 / (len(A) * lam), bias=0, tol=1e-9, passes=10_000)
    assert result.converged
    return result.model.coef_[0]


def nearest_start(A, lam, steps, best):
    """The mean of subgradient steps from 0, if R is as small as it may be, ||w(lambda)||."""
    eta = np.linalg.norm(best) / (2 * np.linalg.norm(A, axis=1).mean() * np.sqrt(steps))
    w = mean = np.zeros(A.shape[1])
    for _ in range(steps):
        w = (1 - lam * eta) * w + eta * np.mean((A @ w <= 1)[:, None] * A, axis=0)
        mean = mean + w / steps
    return mean


def test_lemma_4_1_of_the_mean_of_subgradient_steps():
    """Lemma 4.1 of the mean of t steps of R / (L sqrt t) from w_0; ||w_0 - w(lambda)|| <= R; ||w_0|| <= L / (2 lambda).

    Its F less the minimum is at most R L / sqrt t - lambda/2 (its distance from w(lambda))^2.

    Largest measured/bound: 0.004 (weak) with the R of the method, C L (s_0 + s - 1)^-alpha of Lemma 4.3. The twin from
    w_0 = 0 with the least R has 0.32.
    """
    method = twin = 0.0
    for seed in SEEDS:
        A = rows(seed)
        L = 2 * np.linalg.norm(A, axis=1).mean()
        _, alpha, C = constants(3)
        for s, (lam, t, start, mean) in enumerate(outer_iterations(A, 3)):
            best, R = problem(seed, C=1 / (len(A) * lam))[1].w, C * L * (2 + s) ** -alpha
            assert np.linalg.norm(start - best) <= R and np.linalg.norm(start) <= L / (2 * lam)
            ratios = []
            for w, reach in ((mean, R), (nearest_start(A, lam, t, best), np.linalg.norm(best))):
                bound = reach * L / np.sqrt(t) - lam / 2 * np.sum((w - best) ** 2)
                ratios.append((objective(A, lam, w) - objective(A, lam, best)) / bound if bound > 0 else np.inf)
            method, twin = np.maximum(method, ratios[0]), np.maximum(twin, ratios[1])
    assert method <= 1 and twin <= 1


def test_lemma_4_2_how_minimisers_move():
    """Lemma 4.2: ||w(lambda) - w(other)|| <= L/2 |1/lambda - 1/other|, (11), and ||w(lambda) - w*|| is at most
    L lambda / (2 lambda'^2), (12).

    Largest measured/bound: 0.31 of (11), 0.01 of (12) (weak).
    """
    of = np.zeros(2)
    for seed in SEEDS:
        A, (_, exact) = rows(seed), problem(seed)
        mean = np.linalg.norm(A, axis=1).mean()
        largest = 1 / (len(A) * exact.alpha.max())
        lams = largest * np.array([0.9, 1.2, 2.0, 5.0, 20.0, 100.0])
        found = [minimiser(A, lam) for lam in lams]
        assert np.linalg.norm(found[0] - exact.w) <= 1e-3 * np.linalg.norm(exact.w)
        for i, lam in enumerate(lams):
            for j in range(i):
                far = np.linalg.norm(found[i] - found[j])
                of[0] = np.maximum(of[0], far / (mean * (1 / lams[j] - 1 / lam)))
            of[1] = np.maximum(of[1], np.linalg.norm(found[i] - exact.w) / (mean * lam / largest**2))
    assert of.max() <= 1
