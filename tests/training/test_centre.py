"""Numbers are taken from where a constant alone is best, and so a C under which w = 0 is proven by the first read."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from reference.datasets import noisy

import streammargin as sm
from streammargin.losses import make_loss, terms
from streammargin.reading.labels import NO_NUMBERS, SlicedLabels
from streammargin.training.setup import best_constants

LOSSES = ("squared_error", "absolute_error", "epsilon_insensitive:0", "quantile:0.8", "huber:0.7")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_no_other_constant_is_better(loss, weighted):
    random, made = np.random.default_rng(0), terms(loss)
    for n in (1, 2, 3, 7, 50, 51, 70_000):
        for y in (random.normal(1e6, 1.0, n), random.integers(0, 4, n) - 2.0, np.full(n, 3.3)):
            weights = random.choice([0.0, 0.5, 1.0, 2.0], n) if weighted else np.empty(0)
            if weighted:
                weights[0] = 1.0
            there = weights > 0.0 if weighted else np.ones(n, bool)
            sizes = weights[there] if weighted else np.ones(n)
            labels = SlicedLabels(SimpleNamespace(rows=n, place=None), NO_NUMBERS, y, weights)
            [shift] = best_constants(labels, make_loss(loss))
            shifted = replace(labels, shift=shift).all().known.targets
            np.testing.assert_array_equal(shifted[there], y[there] - shift)
            assert not shifted[~there].any()
            if n > 100:
                continue

            def total(b, y=y[there], sizes=sizes):
                return sum(made.primal(b - one, size) for one, size in zip(y.tolist(), sizes.tolist(), strict=True))

            near = [*y[there].tolist(), shift - 1e-3, shift + 1e-3]
            assert total(shift) <= min(map(total, near)) + 1e-9 * total(shift) + 1e-12


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rows", [50, 55])
def test_a_C_too_small_for_any_weight_is_proven_by_the_first_read(loss, rows):
    X, _ = noisy(rows, 8, seed=2)
    y = np.random.default_rng(1).exponential(3.0, rows) + 7.0
    result = sm.train((X, y), penalty="l1", loss=loss, C=1e-4, tol=1e-6)
    assert result.converged and result.passes == 1 and not result.model.coef_.any()
    ways = np.linspace(y.min(), y.max(), 20_001)
    balanced = ways[np.argmin([abs(np.clip(y - b, -0.7, 0.7).sum()) for b in ways])]
    level = {"squared_error": y.mean(), "quantile:0.8": np.quantile(y, 0.8), "huber:0.7": balanced}
    level = level.get(loss, np.median(y))
    assert result.model.intercept_[0] == pytest.approx(level, rel=0.05)
