"""The pass and the certificate kernels against the slow twins, which compute every running sum anew."""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import slow
from reference import words
from reference.datasets import as_form, noisy
from reference.norms import exponent, mirror
from reference.training import binary
from reference.words import sized

from streammargin.compiled import look
from streammargin.compiled import sdca as kernel
from streammargin.compiled.sleep import LONGEST_SLEEP
from streammargin.penalties.mirror_maps import make_norm
from streammargin.rows.labels import Labels, RowNumbers, numbered_from
from streammargin.rows.visits import all_at_once, take_turns, visit
from streammargin.solvers.cache.rows import take
from streammargin.solvers.proof.sweep import Sweep
from streammargin.sources.arrays import ArraySource

BIAS = 0.5
FORMS = [slow("dense", np.float32), ("dense", np.float64), slow("csr", np.float32), ("csr", np.float64)]


def setting(form="csr", dtype=np.float64, loss="hinge", norm=2, C=0.7, loop=np.float64, classes=2, weighted=True):
    """Everything a kernel takes, and the twin of each of its binary problems."""
    X, labels = noisy(50, 8)
    X = X.astype(dtype).astype(float)
    rng = np.random.default_rng(3)
    codes = ((labels + 1) // 2 if classes == 2 else rng.integers(0, classes, 50)).astype(np.int16)
    codes[[4, 17]] = -1
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], 50) if weighted else np.empty(0)
    positive = np.array([1]) if classes == 2 else np.arange(classes)
    K = len(positive)
    factors = rng.uniform(0.5, 2.0, (K, classes))
    p = exponent(norm, 8)
    s = SimpleNamespace(
        block=ArraySource(as_form(X, form, dtype)).whole()._replace(bias=BIAS), loss=sized(loss, 0.5),
        norm=make_norm(p), codes=codes, positive=positive, caps=C * factors, weights=weights,
        alpha=np.zeros((K, 50), loop), sleep=np.zeros((K, 50), np.uint8), curvature=np.zeros(50),
        theta=np.zeros((K, 9), loop), power_sum=np.zeros(K), figures=np.zeros((K, kernel.ASCENT_FIGURES)),
        centre=np.zeros(K), damping=1.0,
    )  # fmt: skip
    s.powers = s.theta if p == 2.0 else np.zeros((K, 9))
    present = codes >= 0
    mass = (weights if weighted else np.ones(50)) * present
    s.rows = np.flatnonzero(mass > 0)
    s.twins = [
        binary(X, codes == k, loss=loss, width=0.5, C=C, norm=norm, bias=BIAS, sample_weight=mass * factors[i][codes])
        for i, k in enumerate(positive)
    ]
    return s


def labels(s):
    return Labels(s.codes, s.positive, s.caps, s.weights, np.empty(0))


def run_pass(s, order, group=1, problems=None, block=None, numbers=None):
    block, numbers = s.block if block is None else block, numbered_from(0) if numbers is None else numbers
    run_turns(s, all_at_once(block, numbers, order, group), problems)


def run_turns(s, turns, problems=None):
    s.figures[:] = 0.0
    s.figures[:, kernel.MIN_MARGIN] = np.inf
    kernel.sdca_turns(
        turns, labels(s), s.loss, s.norm, np.arange(len(s.positive)) if problems is None else problems, s.alpha,
        s.sleep, LONGEST_SLEEP, s.curvature, s.theta, s.powers, s.power_sum, None, s.centre, s.damping, s.figures,
    )  # fmt: skip


def certify(s, w, trials=1, alpha=None):
    K, alpha = len(s.positive), s.alpha if alpha is None else alpha
    found = look.Looked(
        np.zeros((1, K, look.LOSS_SUMS)), np.zeros((K, 1, look.DUAL_SUMS)), np.zeros((K, 1, 9)),
        np.zeros((1, trials), np.int64), extremes=np.tile([np.inf, np.inf, 0.0], (K, 1)),
    )  # fmt: skip
    sweep = SimpleNamespace(
        frozen=w, blur=np.zeros(K), weights=found.losses[0], duals=found.duals, pull=found.pull,
        wrong=found.confused[0], extremes=found.extremes,
    )  # fmt: skip
    woken = Sweep.certify(sweep, SimpleNamespace(loss=s.loss), labels(s), s.block, 0, alpha, s.sleep, np.arange(K))
    s.sleep[woken] = 0
    return found


def compare_passes(s, rtol, passes=3):
    duals = [np.zeros(len(s.rows)) for _ in s.twins]
    place = {row: i for i, row in enumerate(s.rows)}
    for number in range(passes):
        order = np.random.default_rng(number).permutation(50)
        run_pass(s, order)
        s.sleep[:] = 0
        for k, (twin, alpha) in enumerate(zip(s.twins, duals, strict=True)):
            seen = twin.visit([place[i] for i in order if i in place], alpha)
            theta = twin.theta(alpha)
            np.testing.assert_allclose(s.alpha[k][s.rows], alpha, rtol=rtol, atol=rtol)
            np.testing.assert_allclose(s.theta[k], theta, rtol=rtol, atol=rtol * np.abs(theta).max())
            assert not np.delete(s.alpha[k], s.rows).any()
            figures = s.figures[k]
            assert figures[kernel.PASS_GAP] == pytest.approx(seen["gap"], rel=10 * rtol)
            assert figures[kernel.MIN_MARGIN] == pytest.approx(seen["min_margin"], rel=10 * rtol, abs=10 * rtol)
            assert figures[kernel.PASS_MISTAKES] == seen["mistakes"]
            if rtol < 1e-7:
                assert abs(figures[kernel.UPDATES] - seen["updates"]) <= seen["unsure"]
            if s.powers is not s.theta:
                q = twin.q
                np.testing.assert_allclose(s.powers[k], np.sign(theta) * np.abs(theta) ** (q - 1), rtol=1e-6, atol=rtol)
                assert s.power_sum[k] == pytest.approx(np.sum(np.abs(theta) ** q), rel=rtol)


@pytest.mark.parametrize("norm", [2, 1.5, 1.2, "sparse"])
@pytest.mark.parametrize("loss", words.LOSSES)
def test_pass_equals_the_twin(loss, norm):
    compare_passes(setting(loss=loss, norm=norm), 1e-9)


@pytest.mark.parametrize("norm", [2, 1.5])
@pytest.mark.parametrize("form, dtype", FORMS)
def test_pass_equals_the_twin_on_every_kind_of_rows(form, dtype, norm):
    compare_passes(setting(form, dtype, "smooth_hinge", norm), 1e-9)


@pytest.mark.parametrize("form", [slow("dense"), "csr"])
@pytest.mark.parametrize("loss", words.LOSSES)
def test_pass_in_float32(loss, form):
    compare_passes(setting(form, np.float32, loss, loop=np.float32), 3e-4)


@pytest.mark.parametrize("norm", [2, 1.5])
def test_pass_over_several_classes_with_weights_of_classes_and_rows(norm):
    compare_passes(setting(classes=4, norm=norm), 1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smooth_hinge"])
@pytest.mark.parametrize("norm", [2, 1.5])
def test_pass_for_the_hard_margin(loss, norm):
    s = setting(loss=loss, norm=norm, C=np.inf)
    compare_passes(s, 1e-9)
    assert not s.figures[:, kernel.PASS_GAP].any()


def test_only_the_listed_problems_move():
    s = setting(classes=3)
    run_pass(s, np.arange(50), problems=np.array([0, 2]))
    assert s.alpha[[0, 2]].any(axis=1).all()
    assert not s.alpha[1].any() and not s.theta[1].any() and not s.sleep[1].any()


def test_groups_are_visited_in_the_given_order():
    one, other = setting(), setting()
    order = np.array([6, 0, 4, 1, 5, 3, 2])  # 7 groups of 8 rows; the last is short
    run_pass(one, order, group=8)
    run_pass(other, np.concatenate([np.arange(50)[8 * g : 8 * g + 8] for g in order]))
    np.testing.assert_array_equal(one.alpha, other.alpha)


def test_blocks_of_rows_find_their_place():
    """Two blocks with their first rows given equal one block of all rows."""
    whole, parts = setting("dense"), setting("dense")
    run_pass(whole, np.arange(50))
    X = parts.block.X
    for first, stop in ((0, 20), (20, 50)):
        block = parts.block._replace(X=X[first:stop])
        run_pass(parts, np.arange(stop - first), block=block, numbers=numbered_from(first))
    np.testing.assert_array_equal(whole.alpha, parts.alpha)


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_blocks_take_turns_in_one_call(form):
    """Calls for some of the turns of three blocks equal one call for each turn of each."""
    together, apart = setting(form), setting(form)
    parts = [(3, 1), (20, 2), (30, 4)]  # rows, and how many of them a group has
    numbers = [np.arange(0, 3), np.arange(3, 23), np.arange(50)[:19:-1].copy()]
    blocks = [take(together.block, ids) for ids in numbers]
    orders = [np.random.default_rng(rows).permutation(-(-rows // group)) for rows, group in parts]
    visits = [
        visit(block, RowNumbers(0, ids), order, group)
        for block, ids, order, (_, group) in zip(blocks, numbers, orders, parts, strict=True)
    ]
    for start, stop in ((0, 1), (1, 4), (4, 5)):
        run_turns(together, take_turns(visits, start, stop, 5))
    for turn in range(5):
        for block, ids, order, (_, group) in zip(blocks, numbers, orders, parts, strict=True):
            now = np.array_split(order, [order.size * turn // 5, order.size * (turn + 1) // 5])[1]
            run_pass(apart, now, group, block=block, numbers=RowNumbers(0, ids))
    for name in ("alpha", "theta", "curvature", "sleep"):
        np.testing.assert_array_equal(getattr(together, name), getattr(apart, name))
    assert np.count_nonzero(together.curvature) == np.count_nonzero(together.codes[together.weights > 0] >= 0)


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_rows_kept_from_anywhere_find_their_place(form):
    """A block of rows picked out, with their numbers listed, is visited like these rows among all."""
    whole, kept = setting(form, norm=1.5), setting(form, norm=1.5)
    chosen = np.random.default_rng(2).permutation(50)[:20]
    run_pass(whole, chosen)
    run_pass(kept, np.arange(20), block=take(kept.block, chosen), numbers=RowNumbers(0, chosen))
    for name in ("alpha", "theta", "curvature", "figures", "sleep"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(kept, name))


@pytest.mark.parametrize("margin, expected", [(1.4, [1, 2, 4]), (1.6, [2]), (1e4, [2])])
@pytest.mark.parametrize("place", [0, 20])
def test_a_settled_row_sleeps_longer_and_longer(margin, expected, place):
    """One that is far from where the hinge bends is a step ahead. In the end all sleep for as long."""
    s = setting("dense", weighted=False)
    row = next(i for i in s.rows[place:] if s.block.X[i].any())
    x = s.block.X[row]
    s.theta[0] = margin / (x @ x) * np.where(s.codes[row] == 1, 1, -1) * np.append(x, 0)
    s.codes[:] = np.where(np.arange(50) == row, s.codes, -1)
    visits = []
    for number in range(1, 100):
        run_pass(s, np.arange(50))
        if np.isfinite(s.figures[0, kernel.MIN_MARGIN]):
            visits.append(number)
    gaps = np.diff(visits)
    assert gaps[: len(expected)].tolist() == expected
    assert set(gaps[len(expected) :]) == {21}


def test_the_certificate_wakes_rows_that_a_step_would_move():
    s = setting(weighted=False)
    run_pass(s, np.arange(50))
    s.sleep[:] = 100
    twin = s.twins[0]
    alpha = s.alpha[0][s.rows]
    w = mirror(twin.theta(alpha), twin.q)
    certify(s, w[None, :])
    u = twin.A @ w
    misplaced = ((alpha < twin.caps) & (u < 1)) | ((alpha > 0) & (u > 1))
    assert (alpha == twin.caps).any() and (alpha == 0).any()
    assert misplaced.any() and not misplaced.all()
    np.testing.assert_array_equal(s.sleep[0][s.rows] == 0, misplaced)


@pytest.mark.parametrize("norm", [2, 1.5, "sparse"])
@pytest.mark.parametrize("loss", words.LOSSES)
@pytest.mark.parametrize("form, dtype", FORMS)
def test_certificate_equals_the_twin(form, dtype, loss, norm):
    s = setting(form, dtype, loss, norm, classes=3)
    run_pass(s, np.arange(50))
    w = np.random.default_rng(5).standard_normal((3, 9))
    found = certify(s, w)
    for k, twin in enumerate(s.twins):
        alpha = s.alpha[k][s.rows]
        losses, duals = found.losses[0, k], found.duals[k, 0]
        assert losses[look.SUM_OF_LOSSES] == pytest.approx(np.sum(twin.loss.primal(twin.A @ w[k], twin.caps)))
        assert duals[look.DUAL] == pytest.approx(np.sum(twin.loss.dual(alpha, twin.caps)))
        assert duals[look.ALPHA] == pytest.approx(alpha.sum())
        assert found.extremes[k, look.LEAST_SLACK] == pytest.approx((twin.A @ w[k]).min())
        assert found.extremes[k, look.LARGEST_ROW_NORM] == pytest.approx(np.linalg.norm(twin.A, axis=1).max())
        assert losses[look.SUM_OF_MISTAKES] == twin.mistakes(w[k])
        np.testing.assert_allclose(found.pull[k, 0], twin.theta(alpha), rtol=1e-12, atol=1e-12)
    scores = np.array([[s.block.dot(i, w[k]) for k in range(3)] for i in s.rows])
    assert found.confused[0].tolist() == [np.count_nonzero(scores.argmax(axis=1) != s.codes[s.rows])]


def test_certificate_counts_wrong_rows_for_each_value_of_C():
    s = setting(classes=3)
    both = {name: np.concatenate([getattr(s, name)] * 2) for name in ("positive", "caps", "alpha", "sleep")}
    w = np.random.default_rng(6).standard_normal((6, 9))
    each = [certify(s, w[half]).confused[0, 0] for half in (slice(0, 3), slice(3, 6))]
    vars(s).update(both)
    assert certify(s, w, trials=2).confused[0].tolist() == each
    assert each[0] != each[1]


def test_certificate_without_duals():
    s = setting()
    w = np.ones((1, 9))
    full = certify(s, w)
    found = certify(s, w, alpha=np.empty((1, 0)))
    np.testing.assert_array_equal(found.losses, full.losses)
    np.testing.assert_array_equal(found.extremes, full.extremes)
    assert not found.duals[..., : look.ADDED].any() and not found.pull.any()


def test_certificate_takes_no_dual_beyond_its_bound():
    """A float32 dual may be rounded above the bound of its row; the certificate must stay feasible."""
    s = setting(weighted=False, loop=np.float32)
    row = s.rows[0]
    cap = s.caps[0, s.codes[row]]
    s.alpha[0, row] = np.nextafter(np.float32(cap), np.float32(np.inf))
    assert s.alpha[0, row] > cap
    assert certify(s, np.zeros((1, 9))).duals[0, 0, look.ALPHA] == cap
