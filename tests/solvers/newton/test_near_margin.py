"""Rows near the margin kept between two reads: their problem, its exact gradient, what is kept, and how many reads."""

from itertools import pairwise

import h5py
import numpy as np
import pytest
from reference import newton
from reference.datasets import as_form
from reference.optimum import solve as exact
from reference.sources import CountingSource
from reference.training import binary
from reference.whole_pass import make_problem

import streammargin as sm
from streammargin.compiled import newton as kernel
from streammargin.data_tools.generate import generate
from streammargin.reading import plan
from streammargin.rows.labels import Labels, numbered_from
from streammargin.solvers.cache import rows as row_store
from streammargin.solvers.newton import near_margin
from streammargin.solvers.newton import newton as newton_solver
from streammargin.solvers.newton.near_margin import NearMargin
from streammargin.solvers.newton.subproblem import Goal, Proximal, solve
from streammargin.sources.arrays import ArraySource


def overlapping(rows=6000, features=10, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    return X, np.where(X @ rng.standard_normal(features) + 2 * rng.standard_normal(rows) > 0, 1, -1)


def parts_of(X, form, cuts):
    return [
        (numbered_from(low), ArraySource(as_form(X[low:high], form)).whole()._replace(bias=0.5))
        for low, high in pairwise(cuts)
    ]


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_rows_in_several_parts_are_solved_to_the_end(form):
    X, y = overlapping(120, 6)
    s = np.random.default_rng(2).choice([0.0, 0.3, 1.0, 4.0], 120)
    problem = binary(X, y, C=0.7, bias=0.5, sample_weight=s)
    labels = Labels(((y + 1) // 2).astype(np.int16), np.array([1]), np.full((1, 2), 0.7), s, np.empty(0))
    parts, alpha, w = parts_of(X, form, [0, 50, 51, 120]), np.zeros(120), np.zeros(7)
    proximal = Proximal(centres=alpha, softness=0.5)
    solve(make_problem(X, y > 0, loss="hinge"), parts, labels, proximal, w, np.zeros(7), Goal(share=1e-9))
    best = exact(problem, "hinge")
    assert problem.primal(w) == pytest.approx(best.primal, rel=1e-7)
    assert problem.dual(alpha[s > 0]) == pytest.approx(best.dual, rel=1e-7)


def test_the_problem_of_the_rows_kept_has_the_gradient_of_all_rows():
    """offset = A^T a - (the kept rows' share, the sample weighted): w - offset - that share is w - A^T a."""
    X, y = overlapping(80, 6)
    problem = binary(X, y, C=0.7, bias=0.5)
    rng = np.random.default_rng(3)
    w, a = rng.standard_normal(7), 0.7 * rng.random(80)
    kept, omega = np.arange(0, 80, 3), rng.choice([1.0, 5.0], 27)
    labels = Labels(((y[kept] + 1) // 2).astype(np.int16), np.array([1]), np.full((1, 2), 0.7), omega, np.empty(0))
    image = problem.A.T @ a
    offset = image.copy()
    [(numbers, block)] = parts_of(X[kept], "csr", [0, 27])
    kernel.add_image(block, numbers, labels, 0, -omega * a[kept], offset)
    share = problem.A[kept].T @ (omega * a[kept])
    assert w - offset - share == pytest.approx(w - image, rel=1e-12)
    # and a minimum of it is where the twin's gradient vanishes
    duals, moved = omega * a[kept], w.copy()
    centres = duals.copy()
    small = binary(X[kept], y[kept], C=0.7, bias=0.5, sample_weight=omega)
    proximal = Proximal(centres=duals, softness=0.25)
    solve(make_problem(X, y > 0, loss="hinge"), [(numbers, block)], labels, proximal, moved, offset, Goal(share=1e-10))
    assert moved - offset == pytest.approx(small.A.T @ duals, abs=1e-4)
    assert not np.allclose(newton.gradient(small, w, centres, 0.25) - offset, 0.0, atol=1e-2)


def test_rows_are_drawn_evenly_and_anew_in_every_pass():
    rows = np.arange(100_000)
    one, two = near_margin.pseudorandom(rows, 0, 1), near_margin.pseudorandom(rows, 0, 2)
    for x in (one, two):
        assert np.histogram(x, 20, (0, 1))[0] == pytest.approx(5000, rel=0.06)
        assert np.abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 0.02
    assert np.abs(np.corrcoef(one, two)[0, 1]) < 0.02
    assert np.array_equal(near_margin.pseudorandom(rows[500:700], 0, 1), one[500:700])


@pytest.fixture
def small_plans(monkeypatch):
    monkeypatch.setattr(plan, "SLACK_BYTES", 0)
    monkeypatch.setattr(plan, "LEAST_BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr("streammargin.solvers.cache.rows.BUFFERS", 0)


def out_of_core(X, y, form="dense", share=0.3, sample_weight=None, **options):
    data = as_form(X, form)
    size = X.nbytes if form == "dense" else data.data.nbytes + data.indices.nbytes + data.indptr.nbytes
    source = CountingSource(data, y, np.linspace(0, len(y), 31).astype(int), sample_weight)
    beside = 32 * X.shape[1] + (1 << 17)  # means and deviations of columns, blocks
    memory = int(share * size + 30 * len(y) + beside)
    return sm.train(source, **{"solver": "newton", "memory": memory, "passes": 40, "bias": 0, **options}), source


@pytest.mark.parametrize("order", ["shuffled", "sorted by label"])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_a_handful_of_reads(C, form, order, small_plans, monkeypatch):
    kept = []
    run = near_margin.NearMargin.end_pass

    def end_pass(self, problem, state, active):
        assert state.held == sum(near_margin.bytes_of(problem, piece) for piece in state.rows.pieces.values())
        kept.append((state.held, near_margin.cache_bytes(problem), state.rows.count))
        return run(self, problem, state, active)

    monkeypatch.setattr(near_margin.NearMargin, "end_pass", end_pass)
    X, y = overlapping()
    if order == "sorted by label":
        rows = np.argsort(y, kind="stable")
        X, y = X[rows], y[rows]
    result, source = out_of_core(X, y, form, C=C, tol=1e-3)
    assert result.converged and result.passes <= 6
    # a sample from 16 of the 30 blocks, then every read is its own certificate
    reads = np.array(list(source.reads.values()))
    assert set(reads) == {result.passes - 1, result.passes} and np.sum(reads == result.passes) == 16
    problem = binary(X, y, C=C)
    assert result.certificate["primal"] == pytest.approx(problem.primal(result.model.coef_[0]), rel=1e-9)
    inside = sm.train((X, y), solver="newton", C=C, tol=1e-6, passes=300, bias=0)
    assert result.certificate["dual"] <= inside.certificate["primal"] * (1 + 1e-9)
    assert inside.certificate["dual"] <= result.certificate["primal"] * (1 + 1e-9)
    assert all(0 < rows < len(y) / 2 and size <= room for size, room, rows in kept)


def test_classes_and_values_of_C_share_the_rows_kept(small_plans, monkeypatch):
    monkeypatch.setattr(row_store, "CACHE_BUDGET_SHARE", 0.15)
    X, _ = overlapping()
    y = np.argmax(X[:, :3] + np.random.default_rng(5).standard_normal((6000, 3)), axis=1)
    result, _ = out_of_core(X, y, share=5.0, loss="hinge", C=[0.01, 1.0], tol=1e-3, valid=(X, y))
    assert result.converged and result.passes <= 12
    events = [event for event in result.history if event["event"] == "certificate"][-2:]
    for event, C in zip(events, [0.01, 1.0], strict=True):
        for k, figures in enumerate(event["per_class"]):
            own = (X, np.where(y == k, 1, -1))
            alone = sm.train(own, solver="newton", C=C, tol=1e-5, passes=300, bias=0).certificate
            assert figures["dual"] <= alone["primal"] * (1 + 1e-9)
            assert alone["dual"] <= figures["primal"] * (1 + 1e-9)


def test_with_room_for_few_rows_they_are_the_sample_to_start_from(small_plans, monkeypatch):
    monkeypatch.setattr(newton_solver, "enough_rows_fit", lambda problem: False)
    result, _ = out_of_core(*overlapping(), tol=1e-3)
    kept = [event["kept_rows"] for event in result.history if event["event"] == "pass_end"]
    assert result.converged and result.passes <= 13 and kept[0] > 0 and not any(kept[1:])


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_rows_of_a_rare_class_take_few_reads_after_the_sample(C, small_plans):
    """Nearly all rows of the other class lie at the margin; with the softness of given weights it took 17 reads."""
    random = np.random.default_rng(0)
    X = random.standard_normal((20_000, 30))
    y = np.where(X[:, :9].sum(axis=1) / 4 + random.logistic(size=len(X)) > 4.0, 1, -1)
    result, _ = out_of_core(X, y, C=C, tol=1e-3, bias=1)
    kept = [event["kept_rows"] for event in result.history if event["event"] == "pass_end"]
    assert result.converged and result.passes <= 10 and kept[0] > 0 and not any(kept[1:])


def test_it_can_end_after_the_sample_too(small_plans, monkeypatch):
    monkeypatch.setattr(newton_solver, "enough_rows_fit", lambda problem: False)
    X, y = overlapping()
    for passes in (1, 2, 3):
        result, _ = out_of_core(X, y, tol=1e-9, passes=passes)
        primal = binary(X, y, C=1.0).primal(result.model.coef_[0])
        assert result.passes == passes and result.certificate.primal == pytest.approx(primal, rel=1e-9)


def test_a_first_pass_may_meet_no_row_that_is_present(small_plans):
    X, y = overlapping()
    few = np.zeros(y.size)
    few[:3] = 1.0
    result, _ = out_of_core(X, y, sample_weight=few)
    assert next(e["kept_rows"] for e in result.history if e["event"] == "pass_end") == 0
    assert result.converged
    primal = binary(X[:3], y[:3], C=1.0).primal(result.model.coef_[0])
    assert result.certificate.primal == pytest.approx(primal, rel=1e-9)


def test_where_the_rows_kept_lead_nowhere_all_rows_take_over(small_plans, monkeypatch):
    X, y = overlapping()
    monkeypatch.setattr(newton_solver, "STUCK", 2)
    monkeypatch.setattr(near_margin, "solve", lambda *_: True)  # the weights stay if they are
    result, _ = out_of_core(X, y, tol=1e-3)
    kept = [event["kept_rows"] for event in result.history if event["event"] == "pass_end"]
    assert result.converged and kept[1] > 0 and kept[-1] == 0
    assert result.certificate.primal == pytest.approx(binary(X, y, C=1.0).primal(result.model.coef_[0]), rel=1e-9)


def apart(rows, features, C, few, monkeypatch, **options):
    """Train on rows with a wide gap between the classes, of which `few` times the columns fit into the cache."""
    rng = np.random.default_rng(rows + features)
    X, w = rng.standard_normal((rows, features)), rng.standard_normal(features)
    w /= np.linalg.norm(w)
    y = np.where(X @ w > 0, 1, -1)
    X += 0.3 * y[:, None] * w
    monkeypatch.setattr(
        near_margin, "cache_bytes", lambda problem: int(few * features * near_margin.row_bytes(problem))
    )  # fmt: skip
    source = CountingSource(X, y, np.linspace(0, rows, 6).astype(int))
    result = sm.train(source, **{"solver": "newton", "C": C, "bias": 1, "seed": 1, **options})
    problem = binary(X, y, C=C, bias=1)
    found = problem.primal(np.append(result.model.coef_[0], result.model.intercept_))
    assert result.certificate.primal == pytest.approx(found, rel=1e-6)
    return result


@pytest.mark.parametrize("C", [1.0, 100.0, 1000.0])
def test_all_rows_with_a_loss_are_kept_where_they_are_few(C, monkeypatch):
    result = apart(20_000, 5, C, 80, monkeypatch, tol=1e-3, passes=8)
    kept = [event["kept_rows"] for event in result.history if event["event"] == "pass_end"]
    assert result.converged and all(0 < count <= 400 for count in kept)


def test_cached_rows_that_reach_far_at_first_only_are_left(tmp_path, monkeypatch):
    """A fifth of the rows lie at the margin itself."""
    path = tmp_path / "rows.h5"
    generate(str(path), rows=20_000, features=5, separable=0.3)
    with h5py.File(path) as file:
        X, y = file["X"][:], file["y"][:]
    monkeypatch.setattr(near_margin, "cache_bytes", lambda problem: int(400 * near_margin.row_bytes(problem)))
    source = CountingSource(X, y, np.linspace(0, len(y), 21).astype(int))
    result = sm.train(source, solver="newton", C=1.0, tol=1e-3, passes=20, seed=1)
    kept = [event["kept_rows"] for event in result.history if event["event"] == "pass_end"]
    assert result.converged and kept[1] > 0 and kept[-1] == 0


def test_more_rows_with_a_loss_than_fit_do_no_harm(small_plans, monkeypatch):
    monkeypatch.setattr(near_margin, "few_violate", lambda problem, violating: True)
    result, _ = out_of_core(*overlapping(), tol=1e-3, passes=60)
    assert result.converged


@pytest.mark.parametrize("beside, wrong", [(2, 7), (2, -1), (0, None)])
def test_what_lies_beside_cached_rows_is_checked(beside, wrong, monkeypatch):
    """As a checkpoint may hold anything: classes that there are not, or numbers of another type."""
    seen, end = [], NearMargin.end_pass

    def noted(solver, problem, state, active):
        if state.rows.count:
            seen.append((problem, state))
        return end(solver, problem, state, active)

    monkeypatch.setattr(NearMargin, "end_pass", noted)
    X, y = overlapping(300, 4)
    sm.train(CountingSource(X, y, [0, 100, 200, 300]), solver="newton", passes=1, tol=1e-9)
    problem, state = seen[-1]
    assert NearMargin().fits(problem, state)
    name, kept = next(iter(state.rows.pieces.items()))
    arrays = [one.copy() for one in kept.beside]
    if wrong is None:
        arrays[beside] = arrays[beside].astype(float)
    else:
        arrays[beside][0] = wrong
    state.rows.pieces[name] = kept._replace(beside=tuple(arrays))
    assert not NearMargin().fits(problem, state)
