"""Adaptive sampling: the steps against a naive twin, the paper's bound, certificates, blocks, several classes."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from conftest import slow, traced
from reference import adaptive as naive
from reference.datasets import as_form, noisy, separable
from reference.drive import begin_pass, labels_of, of_codes, problem_of
from reference.optimum import solve
from reference.sources import CountingSource
from reference.training import Binary, binary

import streammargin as sm
from streammargin.compiled import adaptive as kernel
from streammargin.losses import terms
from streammargin.rows.blocks import CSRBlock, DenseBlock
from streammargin.rows.labels import Labels, numbered_from
from streammargin.solvers.papers import adaptive
from streammargin.solvers.papers.adaptive import FULL_PASS_EVERY, Adaptive, _columns
from streammargin.solvers.problem import Outputs

FORMS = ["dense", "csr", "csr without columns"]


def blocks_of(X, form, bias=0.0):
    """The block and its inverted columns."""
    if form == "dense":
        block = DenseBlock(np.ascontiguousarray(X), bias)
        return block, _columns(block)
    S = as_form(X, "csr", X.dtype)
    block = CSRBlock(S.data, S.indices.astype(np.uint32), S.indptr.astype(np.int64), X.shape[1], bias)
    inverted = _columns(block)
    assert inverted.rows() == X.shape[1]
    return block, inverted if form == "csr" else _columns(DenseBlock(X[:1], bias))


def rows_of(X, codes, positive=(1,), weights=(), form="dense", bias=0.0):
    """The arguments of the kernels for these rows: block, numbers, labels, inverted columns."""
    block, inverted = blocks_of(X, form, bias)
    caps = np.full((len(positive), codes.max() + 1), np.inf)
    labels = Labels(codes, np.array(positive), caps, np.array(weights, float), np.empty(0))
    return block, numbered_from(0), labels, inverted


def scaled(X, y, bias=0.0):
    A = y[:, None] * np.column_stack([X, np.full(len(X), bias)])
    size = np.linalg.norm(A, axis=1).max()
    return A / size, size


@pytest.mark.parametrize("bias", [0.0, 0.7])
@pytest.mark.parametrize("momentum, rate", [(True, 1.0), (False, 0.05)])
@pytest.mark.parametrize("form", FORMS)
def test_steps_are_those_of_the_paper(form, momentum, rate, bias):
    X, y = separable(40, 6)
    A, size = scaled(X, y, bias)
    uniforms = np.random.default_rng(1).random(300)
    w, g, figures = np.zeros(7), np.zeros(7), np.zeros(kernel.ADAPTIVE_FIGURES)
    codes = np.where(y > 0, 1, 0).astype(np.int16)
    for part in (uniforms[:100], uniforms[100:]):  # leaving the block and coming back changes nothing
        figures[kernel.SMALLEST_SEEN_MARGIN] = np.inf
        before = (A @ w).min()
        kernel.adaptive_block(
            *rows_of(X, codes, form=form, bias=bias), 0, size, rate, momentum, part, -np.inf, w, g, figures
        )
        assert figures[kernel.SMALLEST_SEEN_MARGIN] == pytest.approx(before, abs=1e-12)
    expected_w, expected_g, mass_w, mass_g, _ = naive.run(A, uniforms, rate, momentum)
    np.testing.assert_allclose(w, expected_w, atol=1e-9 * np.abs(expected_w).max())
    np.testing.assert_allclose(g, expected_g, atol=1e-9 * max(1.0, np.abs(expected_g).max()))
    assert figures[kernel.STEPS_DONE] == 300
    assert figures[kernel.MASS_W] == pytest.approx(mass_w) and figures[kernel.MASS_G] == pytest.approx(mass_g)
    if momentum:
        assert mass_g == pytest.approx(300 / 2 * 299 / 300 + 0.5 * 299 / 300, rel=1e-2)  # 2 ||g|| / t is the bound
    assert figures[kernel.LOG_MASS] == pytest.approx(np.log(np.sum(np.exp(-A @ expected_w))), rel=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_joint_steps_are_those_of_explicit_pseudo_rows(form):
    X, _ = separable(20, 5)
    labels = np.arange(20) % 3
    size = np.linalg.norm(X, axis=1).max()
    uniforms = np.random.default_rng(2).random(200)
    w, g, figures = np.zeros((3, 6)), np.zeros((3, 6)), np.zeros(kernel.ADAPTIVE_FIGURES)
    kernel.adaptive_joint_block(
        *rows_of(X, labels.astype(np.int16), np.arange(3), form=form), size, 1.0, True, uniforms, -np.inf, w, g,
        figures,
    )  # fmt: skip
    A = naive.pseudo_rows(X / size, labels)
    expected_w, expected_g, mass_w, _, _ = naive.run(A, uniforms)
    np.testing.assert_allclose(w[:, :-1].ravel(), expected_w, atol=1e-9 * np.abs(expected_w).max())
    np.testing.assert_allclose(g[:, :-1].ravel(), expected_g, atol=1e-9 * np.abs(expected_g).max())
    assert figures[kernel.MASS_W] == pytest.approx(mass_w)


def test_absent_rows_are_never_drawn_and_heavy_rows_outside_end_the_visit():
    X, y = separable(40, 6)
    codes = np.where(y > 0, 1, 0).astype(np.int16)
    codes[::3] = -1
    weights = np.where(np.arange(40) % 4 == 1, 0.0, 1.0)
    there = (codes >= 0) & (weights > 0)
    A, size = scaled(X, y)
    uniforms = np.random.default_rng(3).random(50)
    w, g, figures = np.zeros(7), np.zeros(7), np.zeros(kernel.ADAPTIVE_FIGURES)
    rows = rows_of(X, codes, weights=weights)
    kernel.adaptive_block(*rows, 0, size, 1.0, True, uniforms, -np.inf, w, g, figures)
    np.testing.assert_allclose(w, naive.run(A[there], uniforms)[0], rtol=1e-9)
    for outside in (1e3, 1e300):
        before = figures[kernel.STEPS_DONE]
        kernel.adaptive_block(*rows, 0, size, 1.0, True, uniforms, outside, w, g, figures)
        assert figures[kernel.STEPS_DONE] == before + 1


def test_columns_of_sparse_rows():
    X = noisy(30, 9)[0]
    inverted = blocks_of(X, "csr")[1]
    for j in range(9):
        column = np.zeros(31)
        inverted.add(j, 1.0, column)
        np.testing.assert_array_equal(column[:-1], X[:, j])


def test_the_bound_of_theorem_4_1_over_many_seeds():
    """gamma(w_T) >= g* - eps with probability 1 - delta, where T fixes eps."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4)) * 0.3
    y = np.where(rng.random(30) < 0.5, -1, 1)
    X[:, 0] += y * 2.0
    A, size = scaled(X, y)
    problem = binary(X, y, C=np.inf)
    best = problem.margin(solve(problem, "hinge").w) / size
    T, delta = 20_000, 0.2
    eps = max(np.sqrt((32 * np.log(30) + 64 * np.log(2 / delta)) / T) / best, np.sqrt(32 / (delta * T)))
    assert eps < 0.5 * best  # the bound says something
    seeds, failures, margins = 30, 0, []
    rows = rows_of(X, np.where(y > 0, 1, 0).astype(np.int16))
    for seed in range(seeds):
        w, g, figures = np.zeros(5), np.zeros(5), np.zeros(kernel.ADAPTIVE_FIGURES)
        kernel.adaptive_block(
            *rows, 0, size, np.sqrt(np.log(30) / T), False, np.random.default_rng(seed).random(T), -np.inf, w, g,
            figures,
        )  # fmt: skip
        margins.append(np.min(A @ w) / np.linalg.norm(w))
        failures += margins[-1] < best - eps
        # ||w|| / (theta T) bounds the margin
        assert np.linalg.norm(w) / figures[kernel.MASS_W] >= best * (1 - 1e-12)
        assert figures[kernel.MASS_W] == pytest.approx(np.sqrt(np.log(30) / T) * T)
    assert failures <= delta * seeds
    assert max(margins) <= best * (1 + 1e-9)


@cache
def largest():
    X, y = separable(100, 8)
    problem = binary(X, y, C=np.inf)
    exact = solve(problem, "hinge")
    return X, y, problem, problem.margin(exact.w), problem.margin_bound(exact.alpha)


def check(result, low, high, tol):
    assert result.converged and result.reason == "tolerance"
    figures = result.certificate
    assert low * (1 - tol) <= figures["margin_lower"] <= high * (1 + 1e-12)
    assert low * (1 - 1e-12) <= figures["margin_upper"] <= high * (1 + tol) / (1 - tol)


@pytest.mark.parametrize("dtype", [slow(np.float32), np.float64])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_the_maximum_margin_is_certified(form, dtype):
    X, y, problem, low, high = largest()
    if dtype == np.float32:
        X = X.astype(np.float32)
        problem = binary(X, y, C=np.inf)
        low, high = (1 - 1e-6) * low, (1 + 1e-6) * high
    result = sm.train((as_form(X, form, dtype), y), solver="adaptive", tol=5e-3)
    check(result, low, high, 5e-3)
    assert result.certificate["margin_lower"] == pytest.approx(problem.margin(result.model.coef_[0]), rel=1e-10)
    assert result.certificate["mistakes"] == 0


def test_the_proven_steps_start_again_with_twice_as_many():
    X, y, *_ = largest()
    gaps = [
        sm.train((X, y), solver="adaptive:step=proven", tol=0.0, passes=passes).certificate["margin_gap"]
        for passes in (1, 7, 127)  # 64, 256, 4096 steps since the last start
    ]
    assert gaps[0] > 1.1 * gaps[1] > 1.1**2 * gaps[2]


def test_out_of_core_all_blocks_now_and_then_and_the_heaviest_in_between():
    X, y, problem, low, _ = largest()
    source = CountingSource(X, y, range(0, 101, 10))
    result = sm.train(source, solver="adaptive", tol=1e-9, passes=41)
    assert result.certificate["margin_upper"] >= low * (1 - 1e-12)
    assert result.certificate["margin_lower"] == pytest.approx(problem.margin(result.model.coef_[0]), rel=1e-10)
    certificates = sum(e["event"] == "certificate" for e in result.history)
    full = -(-result.passes // FULL_PASS_EVERY)
    partial = result.passes - full
    # the rows' norms, full passes, the heaviest quarter, certificates
    assert sum(source.reads.values()) == 10 * (1 + full + certificates) + 3 * partial
    assert min(source.reads.values()) >= 1 + full + certificates
    rows = [e["rows"] for e in result.history if e["event"] == "pass_end"]
    assert rows == [100 if i % FULL_PASS_EVERY == 0 else 30 for i in range(result.passes)]


@pytest.mark.parametrize("classes", [1, 3])
def test_the_rows_with_the_smallest_margins_stay_in_memory(classes, monkeypatch):
    monkeypatch.setattr(adaptive, "NEXT_BLOCK_ROWS", 12)
    X, y, *_ = largest()
    labels = y if classes == 1 else np.arange(100) % 3
    codes = ((y + 1) // 2 if classes == 1 else labels).astype(np.int16)
    codes[:5] = -1  # absent
    positive = np.array([1]) if classes == 1 else np.arange(3)
    outputs = Outputs(positive, np.full((classes, max(2, classes)), np.inf))
    problem = replace(problem_of(X, C=np.inf, K=classes), outputs=outputs, trials=1, lines=classes)
    method = Adaptive()
    state = method.start(problem, of_codes(codes))
    blocks = [(first, DenseBlock(X[first : first + 20], 0.0)) for first in range(0, 100, 20)]
    for first, block in blocks:
        method.prologue_block(problem, state, block, first)
    begin_pass(method, problem, state, 1)
    seen = []
    for number in method.order(problem, state, 5):
        first, block = blocks[number]
        before = state.kept.pieces["rows"].ids if state.kept.pieces else np.empty(0, np.int64)
        method.run_block(problem, state, np.arange(problem.groups), block, first)
        there = np.union1d(np.arange(first, first + 20), before)
        scores = X[there] @ state.w[:, :-1].T
        if classes == 1:
            margins = np.where(codes[there] == 1, 1, -1) * scores[:, 0]
        else:
            own = codes[there][:, None] == positive
            margins = np.where(own, scores, -np.inf).max(axis=1) - np.where(own, -np.inf, scores).max(axis=1)
        margins[codes[there] < 0] = np.inf
        kept = state.kept.pieces["rows"].ids
        assert set(kept) == set(there[np.argsort(margins, kind="stable")[:12]])
        np.testing.assert_array_equal(state.kept.pieces["rows"].rows.X, X[kept])
        # what the others of this block weigh
        size = np.linalg.norm(X[5:], axis=1).max() * (np.sqrt(2) if classes == 3 else 1)
        out = (there >= first) & (there < first + 20) & ~np.isin(there, kept)
        expected = np.log(np.sum(np.exp(-margins[out] / size)))
        assert state.mass[0, number] == pytest.approx(expected, rel=1e-9)
        seen.append(first)
    assert sorted(seen) == [0, 20, 40, 60, 80]


def test_many_blocks_need_few_reads():
    X, y = separable(1000, 20)
    source = CountingSource(X, y, range(0, 1001, 100))
    result = sm.train(source, solver="adaptive", tol=0.02, passes=300)
    assert result.converged and sum(source.reads.values()) <= 10 * 60


@cache
def joint():
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 40)
    X = 0.4 * rng.standard_normal((40, 5))
    X[np.arange(40), labels] += 2.0
    A = naive.pseudo_rows(X, labels)
    problem = Binary(A, np.full(len(A), np.inf), terms("hinge"), 2.0)
    exact = solve(problem, "hinge")
    root = np.sqrt(2)
    return X, labels, root * problem.margin(exact.w), root * problem.margin_bound(exact.alpha)


@pytest.mark.parametrize("blocks", [None, (0, 22, 40)])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_joint_margin_of_several_classes(form, blocks):
    X, labels, low, high = joint()
    rows = as_form(X, form)
    tol = 5e-3 if blocks is None else 0.05
    data = (rows, labels) if blocks is None else CountingSource(rows, labels, blocks)
    result = sm.train(data, solver="adaptive", multiclass="joint", tol=tol, passes=1000)
    check(result, low, high, tol)
    U = result.model.coef_
    scores = X @ U.T
    own = scores[np.arange(40), labels].copy()
    scores[np.arange(40), labels] = -np.inf
    margin = (own - scores.max(axis=1)).min() / np.linalg.norm(U)
    assert result.certificate["margin_lower"] == pytest.approx(margin, rel=1e-10)
    assert result.certificate["primal"] == pytest.approx(0.5 / margin**2, rel=1e-9)


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_the_work_on_a_block_takes_the_memory_it_declares(form):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 200)), np.where(rng.random(3000) < 0.5, 1, -1)
    problem = problem_of(X, C=np.inf)
    method = Adaptive()
    block, inverted = blocks_of(X, form)
    size = sum(a.nbytes for a in block if isinstance(a, np.ndarray)) if form == "csr" else 0
    begin_pass(method, problem, state := method.start(problem, labels_of(y)), 1)
    method.prologue_block(problem, state, block, 0)
    method.order(problem, state, 1)
    method.run_block(problem, state, np.arange(1), block, 0)  # compiles
    state.position = 0
    with traced() as allocated:
        method.run_block(problem, state, np.arange(1), block, 0)
    declared = method.scratch(problem, 3000, size, form == "csr")
    assert allocated.peak <= declared + 30_000
    assert declared <= 1.1 * (7 * 8 * 3000 + (size if form == "csr" else 0))
    assert inverted.rows() == (200 if form == "csr" else 0)
