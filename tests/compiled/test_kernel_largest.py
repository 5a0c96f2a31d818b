"""The multiplier of a bound on the duals' sum, the steps and the losses that it leaves, against NumPy."""

import numpy as np
import pytest
from scipy.optimize import minimize

from streammargin.compiled import largest
from streammargin.losses import terms
from streammargin.rows.labels import Labels

N = 30
NONE = np.empty(0)


def drawn(seed):
    """(labels, caps, margins, centres) of rows with weights, of which two are absent."""
    rng = np.random.default_rng(seed)
    codes = np.where(np.arange(N) % 15 == 4, -1, 0).astype(np.int16)
    weights = rng.choice([0.5, 1.0, 3.0], N)
    labels = Labels(codes, np.array([0]), np.full((1, 1), 0.7), weights, NONE)
    caps = 0.7 * weights * (codes == 0)
    return labels, caps, rng.normal(0, 2, N), caps * rng.random(N)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("budget", [0.3, 4.0, 12.0, 1e9])
def test_the_projection_of_the_hinge_is_the_nearest_point(seed, budget):
    labels, caps, u, centres = drawn(seed)
    L, out = 0.8, np.full(N, np.nan)
    e = largest.multiplier(terms("hinge"), labels, 0, u, centres, L, budget, (1.0, 1.0))
    largest.step_duals(terms("hinge"), labels, 0, u, centres, L, e, out)
    v = centres + (1.0 - u) / L
    np.testing.assert_allclose(out, np.clip(v - e / L, 0.0, caps), atol=1e-14)
    assert out.sum() <= budget * (1 + 1e-14) and (e == 0.0 or out.sum() == pytest.approx(budget, rel=1e-13))
    best = minimize(
        lambda a: 0.5 * np.sum((a - v) ** 2), out * 0.9, jac=lambda a: a - v, bounds=[(0.0, cap) for cap in caps],
        constraints={"type": "ineq", "fun": lambda a: budget - a.sum(), "jac": lambda a: -np.ones(N)},
        method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    np.testing.assert_allclose(out, best.x, atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("budget", [0.7, 4.2, 12.3])
def test_the_largest_hinges_are_summed(seed, budget):
    labels, caps, u, _ = drawn(seed)
    e = largest.multiplier(terms("hinge"), labels, 0, u, NONE, largest.TINY_CURVATURE, budget, (1.0, 1.0))
    total, slipped = largest.sum_losses(terms("hinge"), labels, 0, u, e, 1e-9)
    losses = np.maximum(1.0 - u, 0.0)
    order = np.argsort(-losses)
    before = np.concatenate([[0.0], np.cumsum(caps[order])[:-1]])
    expected = np.clip(budget - before, 0.0, caps[order]) @ losses[order]
    assert total + budget * e == pytest.approx(expected, rel=1e-12)
    assert 0.0 < slipped <= 1e-9 * caps.sum() * (1 + 1e-6)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "huber", "absolute_error", "quantile:0.8"])
@pytest.mark.parametrize("budget", [0.4, 3.0])
def test_it_is_the_smallest_multiplier_that_fits_and_the_best_one_for_the_losses(loss, budget):
    labels, _, u, centres = drawn(7)
    made = terms(loss)
    reach = made.reach() if hasattr(made, "reach") else (1.0, 1.0)
    for L, start in ((0.5, centres), (largest.TINY_CURVATURE, NONE)):
        e = largest.multiplier(made, labels, 0, u, start, L, budget, reach)
        assert e > 0.0
        for factor, fits in ((1.0 + 1e-9, True), (1.0 - 1e-6, False)):
            assert (largest.sum_duals(made, labels, 0, u, start, L, factor * e, reach) <= budget) == fits
    value = largest.sum_losses(made, labels, 0, u, e, 0.0)[0] + budget * e
    for other in np.concatenate([[0.0], e * np.linspace(0.9, 1.1, 21)]):
        assert value <= (largest.sum_losses(made, labels, 0, u, other, 0.0)[0] + budget * other) * (1 + 1e-13)
