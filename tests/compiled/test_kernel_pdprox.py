"""One proximal step on all duals against NumPy, every sum computed anew."""

import numpy as np
import pytest
from reference.datasets import as_form, noisy

from streammargin.compiled import look as steps
from streammargin.losses import terms
from streammargin.rows.labels import Labels, numbered_from
from streammargin.sources.arrays import ArraySource

BIAS = 0.5


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_a_step_and_what_it_certifies(form, sides, twice):
    """Three classes, of which the last one's duals rest; two rows are absent."""
    X, _ = noisy(40, 6, seed=2)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 40).astype(np.int16)
    codes[[4, 17]] = -1
    weights = rng.choice([0.01, 1.0, 3.0], 40)
    caps = 0.7 * np.ones((3, 3))
    labels, loss = Labels(codes, np.arange(3), caps, weights, np.empty(0)), terms("hinge")
    w, multiplier, curvature = rng.standard_normal((2, 3, 7)), rng.random((2, 3)), np.array([0.5, 2.0, 1.0])
    cap = 0.7 * weights * (codes >= 0)
    alpha = cap * rng.random((3, 40))
    before, total, active = alpha.copy(), rng.random((3, 40)), np.array([0, 1])
    summed = total.copy()
    pull, losses = np.zeros((3, sides, 7)), np.zeros((2, 3, steps.LOSS_SUMS))
    duals, wrong = np.zeros((3, sides, steps.DUAL_SUMS)), np.zeros((2, 1), np.int64)
    for first, last in ((0, 15), (15, 40)):
        part = ArraySource(as_form(X[first:last], form)).whole()._replace(bias=BIAS)
        steps.look(
            part, numbered_from(first), labels, loss, active, steps.Frozen(w, multiplier, np.zeros((2, 3))),
            steps.Prox(alpha, alpha, curvature, np.zeros(3), twice, total), steps.Looked(losses, duals, pull, wrong),
        )  # fmt: skip
    rows = np.column_stack([X, np.full(40, BIAS)])
    there = codes >= 0
    for v in range(2):
        scores = rows @ w[v].T
        assert wrong[v, 0] == np.sum(np.argmax(scores, axis=1)[there] != codes[there])
        assert not losses[v, 2].any()
        for k in active:
            margins = np.where(codes == k, 1, -1) * scores[:, k]
            expected = np.sum(cap * np.maximum(1 - margins - multiplier[v, k], 0))
            assert losses[v, k, steps.SUM_OF_LOSSES] == pytest.approx(expected, rel=1e-13)
            assert losses[v, k, steps.SUM_OF_MISTAKES] == np.sum((margins < 0) & there)
            assert losses[v, k, steps.ROUNDING] == 0.0  # the blur was 0
    np.testing.assert_array_equal(alpha[2], before[2])
    assert not pull[2].any() and not duals[2].any()
    for k in active:
        sign = np.where(codes == k, 1, -1)
        slope = (1 - sign * (rows @ w[0, k]) - multiplier[0, k]) / curvature[k]
        moved = np.clip(before[k] + slope, 0, cap)
        np.testing.assert_allclose(alpha[k][there], moved[there], rtol=1e-12, atol=1e-14)
        pulled = np.where(there, np.clip(moved + slope, 0, cap) if twice else moved, 0)
        np.testing.assert_allclose(total[k], summed[k] + pulled, rtol=1e-12)
        for side in range(sides):
            mine = (sign > 0) == (side == 0) if sides == 2 else np.ones(40, bool)
            mine = mine | ((pulled == 0) & (side == 0))
            np.testing.assert_allclose(pull[k, side], rows.T @ (sign * pulled * mine), atol=1e-12)
            size = np.linalg.norm(rows, axis=1)
            for column, expected in (
                (steps.DUAL, pulled), (steps.ALPHA, pulled), (steps.SUMMED, 3 * pulled), (steps.PULLED, pulled * size),
            ):  # fmt: skip
                assert duals[k, side, column] == pytest.approx(np.sum(expected * mine), rel=1e-12)
        change = np.where(there, moved - before[k], 0)
        assert duals[k, :, steps.MOVED].sum() == pytest.approx(change @ change, rel=1e-12)


def test_duals_that_stay_are_summed_as_they_are():
    X, y = noisy(40, 6)
    block = ArraySource(as_form(X, "csr")).whole()._replace(bias=BIAS)
    labels = Labels((y > 0).astype(np.int16), np.array([1]), np.ones((1, 2)), np.empty(0), np.empty(0))
    loss, alpha, w = terms("logistic"), np.random.default_rng(0).random((1, 40)), np.ones((1, 1, 7))
    before, pull, duals = alpha.copy(), np.zeros((1, 1, 7)), np.zeros((1, 1, steps.DUAL_SUMS))
    none = np.zeros((1, 1))
    steps.look(
        block, numbered_from(0), labels, loss, np.array([0]), steps.Frozen(w, none, none),
        steps.Prox(alpha, alpha, np.array([np.inf]), np.zeros(1)),
        steps.Looked(np.zeros((1, 1, steps.LOSS_SUMS)), duals, pull, np.zeros((1, 1), np.int64)),
    )  # fmt: skip
    np.testing.assert_array_equal(alpha, before)
    signed = np.where(y > 0, 1, -1)[:, None] * np.column_stack([X, np.full(40, BIAS)])
    np.testing.assert_allclose(pull[0, 0], signed.T @ before[0], atol=1e-12)
    assert duals[0, 0, steps.DUAL] == pytest.approx(sum(loss.dual(a, 1.0) for a in before[0].tolist()), rel=1e-12)
    assert duals[0, 0, steps.MOVED] == 0.0
