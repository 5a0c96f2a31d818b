"""The papers' kernel figures: their data, and verdicts that contradict the paper are not confirmed."""

import math
import os

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("matplotlib", reason="the figures need matplotlib (the extra `examples`)")

from examples import figure_kernel_digits as digits
from examples import figure_kernel_noise as noise
from examples import figure_kernel_width as width
from examples import figure_tangent_epochs as epochs
from examples import figure_tangent_sampling as sampling
from examples import figure_tools, paper_data
from examples.tangent_kernel import Tangent

DATA = os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "data")
RANDOM = np.random.default_rng(0)


def said(capsys):
    """For every verdict printed whether it was a confirmation."""
    return [line.startswith("confirmed") for line in capsys.readouterr().out.splitlines() if "confirmed: " in line]


def test_clouds_flips_and_columns_are_what_they_say():
    X, y = paper_data.clouds(np.random.default_rng(1), 20_000, 0.4)
    assert (y == 1).sum() == 10_000
    np.testing.assert_allclose((y[:, None] * X).mean(axis=0), 0.5, atol=0.02)
    np.testing.assert_allclose((X - 0.5 * y[:, None]).std(axis=0), 0.4, atol=0.01)
    wrong = paper_data.with_flips(y, 0.1, np.random.default_rng(2))
    assert (wrong != y).sum() == 2000 and (y == paper_data.clouds(np.random.default_rng(1), 20_000, 0.4)[1]).all()
    rows, others = paper_data.standardised(np.column_stack([X, np.full(20_000, 3.0)]), np.full((2, 3), 3.0))
    np.testing.assert_allclose(rows.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(rows.std(axis=0), [1.0, 1.0, 0.0], atol=1e-12)
    assert (others[:, 2] == 0.0).all()


@pytest.mark.skipif(not os.path.exists(os.path.join(DATA, "htru2", "HTRU_2.csv.xz")), reason="HTRU2 is not at hand")
def test_pulsars_are_split_at_random():
    X, y, X_test, y_test = paper_data.pulsars(os.path.join(DATA, "htru2"))
    assert X.shape == (12_529, 8) and X_test.shape == (5369, 8) and set(y) == set(y_test) == {-1, 1}
    assert (y == 1).sum() + (y_test == 1).sum() == 1639 and abs((y == 1).mean() - (y_test == 1).mean()) < 0.01


@pytest.mark.parametrize("far", [1.0, 30.0])
def test_the_gram_matrix_is_sparse_where_values_are_tiny(far):
    X = far * RANDOM.standard_normal((40, 3))
    K = digits.gram(X, X[:30], 2.0)
    assert sp.issparse(K) == (far > 1.0)
    expected = np.exp(-((X[:, None] - X[None, :30]) ** 2).sum(axis=2) / 4.0)
    np.testing.assert_allclose(K.toarray() if sp.issparse(K) else K, expected, atol=1e-14)
    K = digits.gram(X, X, 2.0)
    dense = K.toarray() if sp.issparse(K) else K
    assert digits.largest_beside(K) == pytest.approx((dense - np.eye(40)).max(), abs=1e-15)
    left, right = RANDOM.choice([-1.0, 1.0], 40), RANDOM.choice([-1.0, 1.0], 40)
    found = digits.signed(K, left, right)
    np.testing.assert_array_equal(found.toarray() if sp.issparse(K) else found, left[:, None] * dense * right)


def runs_of_noise(first, second, errors):
    """Made for `judge`: the margin gap of each fall, of either algorithm, and test errors without and with flips."""
    marks, found = np.arange(1, 41), {}
    spread = 1.0 + 0.001 * RANDOM.standard_normal((4, 9, 40))
    for name in noise.SPREADS:
        for share in noise.FLIPS:
            for method, gaps in zip(noise.METHODS, (first, second), strict=True):
                level = np.asarray(errors[method], float) if share else np.linspace(0.05, 0.0501, 9)
                both = level[None, :, None] * spread
                found[name, share, method] = np.stack([np.array(gaps)[None, :, None] * spread, both, both])
    return marks, found


def test_gaps_of_noise_that_contradict_the_paper_are_not_confirmed(capsys):
    same = [0.1, 0.1, 0.1, 0.2, 0.5, 0.4, 0.1, 0.1, 0.1]
    other = [0.1, 0.1, 0.15, 0.9, 0.9, 0.7, 0.1, 0.1, 0.1]
    low, high = [0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2], [0.4, 0.3, 0.3, 0.1, 0.1, 0.1, 0.3, 0.4, 0.4]
    ahead = dict(zip(noise.METHODS, (low, high), strict=True))
    noise.judge(*runs_of_noise(same, other, ahead))
    assert said(capsys) == [True] * 13
    behind = dict(zip(noise.METHODS, ([0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1], np.full(9, 0.1)), strict=True))
    marks, found = runs_of_noise([0.05, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05], np.full(9, 0.1), behind)
    for key in found:
        found[key][1] = np.maximum.accumulate(found[key][1][..., ::-1], axis=-1)[..., ::-1]  # the last pass is the best
    noise.judge(marks, found)
    assert not any(said(capsys))


def test_no_difference_at_all_is_no_confirmation():
    assert noise.clear(np.zeros(5)) == 0.0 and noise.clear(np.ones(1)) == 0.0
    assert noise.clear(np.array([1.0, 1.1, 0.9])) > 10.0


def runs_of_digits(gaps, errors, pulsars):
    marks = np.arange(1, 21)
    found = {}
    for name in digits.SETS:
        level = pulsars if name == "HTRU2" else errors
        falling = {m: g / np.arange(1.0, 21.0) for m, g in zip(digits.METHODS, gaps, strict=True)}
        found[name] = falling, {m: np.full(20, e) for m, e in zip(digits.METHODS, level, strict=True)}, marks, 2000
    return found


def test_digits_that_contradict_the_paper_are_not_confirmed(capsys):
    digits.judge(runs_of_digits([2.0, 1.0, 3.0, 4.0], [0.05, 0.01, 0.05, 0.05], [0.01, 0.08, 0.01, 0.05]))
    assert said(capsys) == [True] * 7
    digits.judge(runs_of_digits([1.0, 1.0, 3.0, 4.0], [0.05, 0.05, 0.05, 0.05], [0.05, 0.05, 0.05, 0.05]))
    assert not any(said(capsys))
    digits.judge(runs_of_digits([0.0, 0.0, 3.0, 4.0], [0.05, 0.01, 0.05, 0.05], [0.05, 0.01, 0.05, 0.05]))
    assert said(capsys) == [False] * 4 + [True, False, False]


def test_the_median_width_is_that_of_a_kernel_of_1_over_e():
    K = digits.gram(X := RANDOM.standard_normal((31, 5)), X, width.median_width(X))
    assert np.median(K[np.triu_indices(31, 1)]) == pytest.approx(math.exp(-1.0))


def test_the_columns_of_a_network_are_those_of_its_kernel():
    X = RANDOM.random((30, 6)).astype(np.float32)
    columns = sampling.Columns(X, X[:20] @ X.T, 16, 3)
    K = Tangent(16, seed=3).gram(X, X)
    np.testing.assert_allclose(columns[4], K[4] / K.diagonal().max(), rtol=1e-4)
    np.testing.assert_allclose(columns.diagonal, K.diagonal() / K.diagonal().max(), rtol=1e-5)
    assert columns.asked == 1


def runs_of_sampling(momentum, batch, proven, columns=30):
    margins = dict(zip(sampling.METHODS, ([momentum], [batch], [proven]), strict=True))
    return sampling.Curves(margins, margins, [0.1], columns, 10)


def test_samplings_that_contradict_the_paper_are_not_confirmed(capsys):
    good = [runs_of_sampling(0.09, 0.08, 0.01)] * 2
    sampling.judge(dict.fromkeys(sampling.WIDTHS, good), 100)
    assert said(capsys) == [True] * 5
    told = figure_tools.VERDICTS[-3].numbers
    gaps = "; ".join(f"width {width}: 10%, 10%" for width in (128, 64, 32))
    assert told.endswith(f"after 10 iterations on 100 rows, of 60000 in the paper, one for each seed: {gaps}")
    bad = [*good, runs_of_sampling(0.07, 0.08, 0.079, columns=31)]
    sampling.judge(dict.fromkeys(sampling.WIDTHS, bad), 100)
    assert said(capsys) == [False, False, True, False, False]
    sampling.judge({width: [runs_of_sampling(-0.01, -0.02, -0.9)] for width in sampling.WIDTHS}, 100)
    assert said(capsys) == [True, True, False, True, True]


def test_the_kernel_of_a_network_is_that_of_its_gradients():
    network = epochs.Network(np.random.default_rng(0), 5)
    X, step = RANDOM.random((4, 5)), 1e-6

    def gradient():
        found = []
        for weights in (network.V, network.B):
            for at in np.ndindex(weights.shape):
                weights[at] += step
                up = network.outputs(X)
                weights[at] -= 2 * step
                found.append((up - network.outputs(X)) / (2 * step))
                weights[at] += step
        return np.moveaxis(np.array(found), 0, -1).reshape(4, -1)  # the Jacobian of a row, flattened

    G = gradient()
    G /= np.linalg.norm(G, axis=1)[:, None]
    np.testing.assert_allclose(network.kernel(X, X), G @ G.T, atol=1e-7)


def test_a_step_of_the_network_descends():
    network = epochs.Network(np.random.default_rng(0), 5)
    X, y = RANDOM.random((30, 5)), np.arange(30) % 10

    def loss():
        scores = network.outputs(X)
        return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(30), y]))

    before = [loss()]
    for _ in range(20):
        network.step(X, y)
        before.append(loss())
    assert all(np.diff(before) < 0.0)


def test_a_predictor_is_the_expansion_of_its_coefficients():
    X, y = RANDOM.standard_normal((12, 4)), np.arange(12) % 3
    X /= np.linalg.norm(X, axis=1)[:, None]
    K = X @ X.T
    margin, bound, coefficients = epochs.predictor(K, y, 400, np.random.default_rng(0))
    scores = coefficients @ K
    least = min(scores[y[i], i] - scores[j, i] for i in range(12) for j in range(3) if j != y[i])
    length = math.sqrt(np.sum(coefficients * scores))
    assert margin <= bound and margin == pytest.approx(least / length / math.sqrt(2.0), rel=1e-9)


def test_epochs_that_contradict_the_paper_are_not_confirmed(capsys):
    def seed(*errors, margins=(0.1, 0.2), change=0.005, own=0.2):
        return epochs.Curves(list(range(len(errors))), list(errors), list(margins), [0.3, 0.3], change, own)

    falls, rises, late = seed(0.4, 0.3, 0.25, 0.2), seed(0.2, 0.21, 0.22, 0.25, own=0.25), seed(0.4, 0.5, 0.6, 0.3)
    epochs.judge([falls, falls, rises], 10_000)
    assert said(capsys) == [True] * 4
    epochs.judge([late, late, falls._replace(change=0.5)], 10_000)
    assert said(capsys) == [True, False, False, True]
    epochs.judge([seed(0.2, 0.21, 0.19, 0.2, margins=(0.2, 0.1))], 10_000)
    assert said(capsys) == [False, False, True, False]
