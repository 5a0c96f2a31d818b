"""The kernel of perceptron, mirror descent and Pegasos against twins that keep every iterate."""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import slow
from reference import primal as twins
from reference.datasets import as_form, noisy
from reference.norms import conjugate, exponent, length, mirror

from streammargin.compiled import primal as kernel
from streammargin.compiled import row_norms as norms
from streammargin.penalties.mirror_maps import make_norm
from streammargin.rows.labels import Labels, numbered_from
from streammargin.rows.steps import mirror_descent, pegasos, perceptron
from streammargin.sources.arrays import ArraySource

BIAS = 0.5
FORMS = [slow("dense", np.float32), ("dense", np.float64), slow("csr", np.float32), ("csr", np.float64)]
RULES = {"perceptron": perceptron, "mirror": mirror_descent, "pegasos": pegasos}


def setting(rule, norm=2, form="csr", dtype=np.float64, average=True, classes=3, base=1.0, C=0.2):
    """Everything the kernel takes; `signed` and `costs` are the rows and caps of each problem."""
    X, labels = noisy(40, 7)
    X = X.astype(dtype).astype(float)
    rng = np.random.default_rng(3)
    codes = ((labels + 1) // 2 if classes == 2 else rng.integers(0, classes, 40)).astype(np.int16)
    codes[[4, 17]] = -1
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], 40)
    positive = np.array([1]) if classes == 2 else np.arange(classes)
    K = len(positive)
    factors = rng.uniform(0.5, 2.0, (K, classes))
    p = exponent(norm, 7)
    theta = np.zeros((K, 8))
    s = SimpleNamespace(
        block=ArraySource(as_form(X, form, dtype)).whole()._replace(bias=BIAS), norm=make_norm(p), p=p, rule=rule,
        rate=1.0, horizon=50.0, base=base, codes=codes, positive=positive, weights=weights,
        caps=(C if rule == "pegasos" else np.inf) * factors, theta=theta,
        powers=theta if p == 2 else np.zeros((K, 8)), power_sum=np.zeros(K), unit=np.ones(K),
        mean=np.zeros((K, 8 if average else 0)), carried=np.zeros((K, kernel.CARRIED)),
        figures=np.zeros((K, kernel.PRIMAL_FIGURES)), rows=np.flatnonzero((codes >= 0) & (weights > 0)),
    )  # fmt: skip
    rows = np.column_stack([X, np.full(40, BIAS)])
    signs = np.where(codes == positive[:, None], 1.0, -1.0)
    s.signed = signs[:, :, None] * rows
    s.costs = weights * s.caps[:, codes] if rule == "pegasos" else None
    if rule == "mirror":
        largest = max(length(x, conjugate(p)) for x in rows[s.rows])
        s.rate = (p - 1) / (largest / base) ** 2
        s.largest = largest
    return s


def visit(s, order, group=1, problems=None):
    s.figures[:] = 0.0
    s.figures[:, kernel.MIN_MARGIN] = np.inf
    kernel.primal_block(
        s.block, numbered_from(0), Labels(s.codes, s.positive, s.caps, s.weights, np.empty(0)), s.norm,
        RULES[s.rule](s.horizon if s.rule == "pegasos" else s.rate), s.base, order, group,
        np.arange(len(s.positive)) if problems is None else problems, s.theta, s.powers, s.power_sum, s.unit, s.mean,
        s.carried, s.figures,
    )  # fmt: skip


def twin(s, k, order):
    """Iterates and multiples of problem k over the rows of the order that are present."""
    seen = [i for i in order if i in s.rows]
    if s.rule == "perceptron":
        return twins.perceptron(s.signed[k], seen, s.p)
    if s.rule == "mirror":
        return twins.mirror_descent(s.signed[k], seen, s.p, s.largest)
    return twins.pegasos(s.signed[k], s.costs[k], seen, s.horizon)


def iterate(s, k):
    w = mirror(s.theta[k], s.norm.q) * s.unit[k]
    return w * (s.horizon / s.carried[k, kernel.ROWS_SEEN]) if s.rule == "pegasos" else w


def mean(s, k):
    c = s.carried[k]
    if s.p == 2:
        return (c[kernel.CLOCK] * s.theta[k] - s.mean[k]) / c[kernel.ROWS_SEEN]
    current = mirror(s.theta[k], s.norm.q) * s.unit[k]
    return (s.mean[k] + (c[kernel.CLOCK] - c[kernel.COUNTED]) * current) / c[kernel.ROWS_SEEN]


CASES = [("perceptron", 2), ("perceptron", 1.5), ("perceptron", "sparse"), ("mirror", 2), ("mirror", 1.3),
         ("pegasos", 2)]  # fmt: skip


@pytest.mark.parametrize("rule, norm", CASES)
@pytest.mark.parametrize("form, dtype", FORMS)
def test_steps_equal_the_twin(form, dtype, rule, norm):
    s = setting(rule, norm, form, dtype)
    rng = np.random.default_rng(1)
    orders = [rng.permutation(40), rng.permutation(40), rng.integers(0, 40, 90)]
    updates = np.zeros(3)
    for order in orders:
        visit(s, order)
        updates += s.figures[:, kernel.UPDATES]
    seen = [i for i in np.concatenate(orders) if i in s.rows]
    for k in range(3):
        iterates, multiples = twin(s, k, seen)
        np.testing.assert_allclose(iterate(s, k), iterates[-1], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mean(s, k), iterates[:-1].mean(axis=0), rtol=1e-9, atol=1e-11)
        assert s.carried[k, kernel.ROWS_SEEN] == len(seen)
        assert s.carried[k, kernel.TOTAL] == pytest.approx(multiples.sum())
        margins = np.array([s.signed[k][i] @ w for i, w in zip(seen, iterates, strict=False)])
        moved = margins <= 0 if rule == "perceptron" else margins < 1
        assert updates[k] == moved.sum() > 0
        if rule == "pegasos":
            assert s.carried[k, kernel.CAPS] == pytest.approx(s.costs[k][seen].sum())
        last = margins[-np.isin(orders[-1], s.rows).sum() :]
        assert s.figures[k, kernel.PASS_MISTAKES] == np.sum(last <= 0)
        assert s.figures[k, kernel.MIN_MARGIN] == pytest.approx(last.min())
        if rule == "pegasos":
            costs = s.costs[k][seen][-len(last) :]
            assert s.figures[k, kernel.LOSS] == pytest.approx(np.sum(costs * np.maximum(1 - last, 0)))


@pytest.mark.parametrize("rule, norm", CASES)
def test_groups_and_single_problems(rule, norm):
    s = setting(rule, norm, average=False)
    visit(s, np.array([3, 0, 6, 5, 1, 2, 4]), group=6, problems=np.array([0, 2]))
    order = np.concatenate([np.arange(6 * g, min(6 * g + 6, 40)) for g in (3, 0, 6, 5, 1, 2, 4)])
    for k in (0, 2):
        np.testing.assert_allclose(iterate(s, k), twin(s, k, order)[0][-1], rtol=1e-9, atol=1e-12)
    assert not s.theta[1].any() and not s.carried[1].any() and s.mean.size == 0


@pytest.mark.parametrize("rule, norm", [case for case in CASES if case[0] != "pegasos"])
def test_the_unit_of_the_rows_is_a_power_of_two_and_changes_nothing(rule, norm):
    plain, scaled = setting(rule, norm), setting(rule, norm, base=2.0**20)
    order = np.random.default_rng(2).integers(0, 40, 120)
    visit(plain, order)
    visit(scaled, order)
    factor = scaled.base if rule == "perceptron" else 1 / scaled.base  # w of the rows x / base
    for k in range(3):
        for of in (iterate, mean):
            np.testing.assert_allclose(of(scaled, k) * factor, of(plain, k), rtol=1e-9, atol=1e-12)


def test_powers_are_taken_afresh_before_they_overflow_or_vanish():
    """At p = 1.003, q = 334, a coordinate of 10 has a power that no float64 holds."""
    s = setting("perceptron", 1.003, classes=2)
    order = np.random.default_rng(5).integers(0, 40, 400)
    visit(s, order)
    theta = s.signed[0].T @ _perceptron_without_powers(s, order)
    np.testing.assert_allclose(s.theta[0] * s.unit[0], theta, rtol=1e-9, atol=1e-12)
    top = np.abs(s.theta[0])
    assert s.power_sum[0] == pytest.approx(np.sum(top**s.norm.q), rel=1e-9)
    assert np.abs(theta).max() ** (s.norm.q / 2) > 1e150  # the plain sum of powers is out of reach


def _perceptron_without_powers(s, order):
    c, A, q = np.zeros(40), s.signed[0], s.norm.q
    for i in order:
        if i in s.rows:
            theta = A.T @ c
            top = np.abs(theta).max()
            w = np.sign(theta) * (np.abs(theta) / top) ** (q - 1) if top else theta
            c[i] += A[i] @ w <= 0
    return c


def test_the_running_sum_of_powers_does_not_drift():
    s = setting("mirror", 1.5, average=False)
    for _ in range(100):
        visit(s, np.arange(40))
    assert np.all(s.carried[:, kernel.TOTAL] > 0) and np.all(s.carried[:, kernel.AGE] <= kernel.LEAST_AGE)
    np.testing.assert_allclose(s.power_sum, np.sum(np.abs(s.theta) ** 3, axis=1), rtol=1e-11)
    assert s.carried[0, kernel.ROWS_SEEN] > 2 * kernel.LEAST_AGE


@pytest.mark.parametrize("q", [2.0, 3.0, 11.0, 1001.0])
@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1.0, 1e150])
def test_row_norms_at_every_scale(q, scale):
    X = scale * np.array([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    figures = np.zeros(norms.ROW_FIGURES)
    labels = Labels(np.zeros(3, np.int16), np.zeros(1, np.int64), np.ones((1, 1)), np.empty(0), np.empty(0))
    norms.row_norms(ArraySource(X).whole(), numbered_from(0), labels, q, figures)
    exact = np.array([length(x / scale, q) if q < 500 else np.abs(x / scale).max() for x in X])
    assert figures[norms.EMPTY] == 1 and figures[norms.PRESENT_ROWS] == 3
    ratio = figures[norms.LARGEST_NORM] / scale / exact.max()
    assert 1 - 1e-12 <= ratio <= 7 / 4  # at worst the 1-norm
    if q == 2.0 or (scale == 1.0 and q < 500):
        assert ratio == pytest.approx(1)
        assert figures[norms.TOTAL] / scale == pytest.approx(exact.sum())
