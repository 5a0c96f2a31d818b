"""Steps on chosen columns against the same functions in NumPy, and against the conditions of the optimum."""

from types import SimpleNamespace

import numpy as np
import pytest
from reference.datasets import as_form, noisy

from streammargin import losses
from streammargin.compiled import column_steps as kernel
from streammargin.rows.blocks import CSRBlock, DenseBlock
from streammargin.rows.labels import Labels, RowLabels
from streammargin.solvers.cache import columns as cache
from streammargin.solvers.columns import working_set
from streammargin.solvers.columns.working_set import GatheredColumns, Inner, gather
from streammargin.solvers.problem import Outputs
from streammargin.solvers.roles import new
from streammargin.solvers.state import State

FIRST, ROOTS = np.array([0, 1, 3, 6]), np.array([0.8, 1.1, 0.0])
SOFTNESS, RIDGE = 0.7, 0.05
ONE_PROBLEM = SimpleNamespace(count=1, features=7, dtype=np.dtype(np.float64))


def problem(form="csr", loss="hinge"):
    """(loss, centred, columns) of columns 4, 0, 3, 1, 5, the constant; A."""
    X, y = noisy(60, 7)
    codes = (y > 0).astype(np.int16)
    codes[3] = -1
    numbers = loss == "squared_error"
    if numbers:
        codes[codes == 1] = 0
    caps, targets = np.array([[2.0 if numbers else 0.5, 2.0]]), np.where(codes == 0, y + 0.5, 0.0)
    targets = targets if numbers else np.empty(0)
    labels = Labels(codes, np.array([1 - numbers]), caps, np.empty(0), targets)
    block = DenseBlock(np.ascontiguousarray(X, np.float64), 0.5)
    if form == "csr":
        S = as_form(X, "csr", np.float64)
        block = CSRBlock(S.data, S.indices.astype(np.uint32), S.indptr.astype(np.int64), 7, 0.5)
    columns = np.array([4, 0, 3, 1, 5, 7])
    columns = cache.matrix(cache.of_block(ONE_PROBLEM, labels, block, 0, np.isin(np.arange(8), columns)), 0, columns)
    signs = np.where(codes == labels.positive[0], 1.0, -1.0)
    A = signs[:, None] * np.column_stack([X, np.full(60, 0.5)])[:, [4, 0, 3, 1, 5, 7]]
    A[3] = 0.0
    caps = np.where(codes == 1, 2.0, np.where(codes == 0, caps[0, 0], 0.0))
    alpha = caps * np.random.default_rng(1).random(60)
    return (losses.terms(loss), kernel.Centred(SOFTNESS, targets, caps, alpha), columns), A


def terms(w):
    return kernel.Terms(FIRST, ROOTS, np.array([0.3, 0.0, 0.0, 0.0, 0.0, 0.0]), RIDGE, w.copy())


def no_answers():
    return kernel.Answers(np.zeros(60), np.zeros(60), np.zeros(60))


def value(given, A, penalty, w):
    """f(w), row by row."""
    loss, (softness, targets, caps, alpha), _ = given
    first, roots, squares, ridge, centre = penalty
    total = sum(root * np.linalg.norm(w[first[g] : first[g + 1]]) for g, root in enumerate(roots))
    total += 0.5 * np.sum(squares * w**2) + 0.5 * ridge * np.sum((w - centre) ** 2)
    for i in np.flatnonzero(caps):
        u = A[i] @ w - (targets[i] if targets.size else 0.0)
        a = loss.step(alpha[i], u, softness, caps[i])
        total += loss.dual(a, caps[i]) - a * u - 0.5 * softness * (a - alpha[i]) ** 2
    return total


def at_optimum(penalty, w, pulled):
    """Asserts that no group can move; pulled: A^T of what the rows answer."""
    first, roots, squares, ridge, centre = penalty
    gradient = squares * w + ridge * (w - centre) - pulled
    for g, root in enumerate(roots):
        here = slice(first[g], first[g + 1])
        size = np.linalg.norm(w[here])
        if size > 0.0:
            np.testing.assert_allclose(gradient[here], -root * w[here] / size, atol=1e-6)
        else:
            assert np.linalg.norm(gradient[here]) <= root * (1.0 + 1e-9)


def test_columns_come_block_by_block():
    X, y = noisy(60, 7)
    labels = Labels((y > 0).astype(np.int16), np.array([1]), np.ones((1, 2)), np.empty(0), np.empty(0))
    chosen, columns = np.isin(np.arange(8), [5, 2, 0]), np.array([5, 2, 0])
    whole = cache.matrix(cache.of_block(ONE_PROBLEM, labels, DenseBlock(X, 0.5), 0, chosen), 0, columns)
    parts = new(cache.ColumnCache, ONE_PROBLEM)
    blocks = [(first, DenseBlock(X[first:last], 0.5)) for first, last in ((0, 25), (25, 60))]
    for first, block in blocks:
        cache.count(parts, labels, block, first)
    np.testing.assert_array_equal(parts.sizes[0], [*np.count_nonzero(X, axis=0), 60, 0])
    assert not cache.is_open(parts, 0) and not cache.holds(parts, 0, columns)
    parts.chosen[0] = chosen
    cache.open_columns(parts, 0)
    for first, block in blocks:
        cache.gather(parts, labels, block, first, 0)
    assert cache.holds(parts, 0, columns) and not cache.holds(parts, 0, np.array([5, 1]))
    found = cache.matrix(parts, 0, columns)
    for (low, high), (start, end) in zip(zip(*whole[:2], strict=True), zip(*found[:2], strict=True), strict=True):
        np.testing.assert_array_equal(found.rows[start:end], whole.rows[low:high])
        np.testing.assert_array_equal(found.values[start:end], whole.values[low:high])
    cache.release(parts, 0)
    assert not cache.is_open(parts, 0) and parts.values[0].base is None


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_columns_are_those_of_the_rows_with_their_signs(form):
    (*_, (starts, ends, rows, values)), A = problem(form)
    for j in range(6):
        column = np.zeros(60)
        column[rows[starts[j] : ends[j]]] = values[starts[j] : ends[j]]
        np.testing.assert_allclose(column, A[:, j], rtol=1e-7)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "squared_error"])
def test_steps_fall_to_where_no_group_can_move(loss, monkeypatch):
    monkeypatch.setattr(working_set, "INEXACT", 1e-10)
    given, A = problem(loss=loss)
    targets, caps = given[1].targets, given[1].caps
    w = np.array([0.5, -1.0, 0.0, 0.0, 0.2, 0.1])
    penalty, answers = terms(w), no_answers()
    height = kernel.meet(*given, w, answers) + kernel.penalty(penalty, w)
    values = [value(given, A, penalty, w)]
    assert height == pytest.approx(values[0], rel=1e-12)
    f = Inner.__new__(Inner)  # without a training
    f.problem, f.run = SimpleNamespace(loss=given[0], seed=0), SimpleNamespace(number=0, multiplications=0.0)
    f.centred, f.matrix, f.terms, f.w, f.answers = *given[1:], penalty, w, answers
    f.most, f.objective, f.sizes = 10.0, height, f.matrix.ends - f.matrix.starts
    for turn in range(40):
        f.sweep(turn)
        values.append(value(given, A, penalty, w))
        _, fell = f.newton()
        values.append(value(given, A, penalty, w))
        assert fell == (values[-1] < values[-2]) or abs(values[-1] - values[-2]) < 1e-12 * abs(values[-1])
    assert np.all(np.diff(values) <= 1e-12 * abs(values[0])) and values[-1] < 0.95 * values[0]
    np.testing.assert_allclose(answers.margins, A @ w - (targets if targets.size else 0.0), atol=1e-9)
    at_optimum(penalty, w, A.T @ np.where(caps > 0.0, answers.duals, 0.0))


def test_sweeps_of_a_frozen_model_come_to_its_minimum():
    """What rows answer is linear in the step, and the conditions of the optimum hold for that."""
    given, A = problem(loss="logistic")
    caps = given[1].caps
    w = np.array([0.5, -1.0, 0.0, 0.0, 0.2, 0.1])
    before, penalty, answers = w.copy(), terms(w), no_answers()
    kernel.meet(*given, w, answers)
    margins, duals, slopes = (part.copy() for part in answers)
    bends = np.full(3, -1.0)
    for _ in range(400):
        kernel.sweep(10.0, bends, given[2], penalty, np.arange(3), w, answers)
    np.testing.assert_array_equal(answers.margins, margins)
    np.testing.assert_array_equal(answers.slopes, slopes)
    expected = np.where(caps > 0.0, duals - slopes * (A @ (w - before)), 0.0)
    np.testing.assert_allclose(np.where(caps > 0.0, answers.duals, 0.0), expected, atol=1e-9)
    at_optimum(penalty, w, A.T @ expected)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "squared_error"])
def test_duals_are_pulled_in_to_where_no_column_pulls_beyond_its_root(loss):
    (law, centred, columns), A = problem(loss=loss)
    caps, targets = centred.caps, centred.targets
    roots, answers = np.array([0.8, 0.3, 0.5, 1.1, 0.6, 0.0]), no_answers()
    kernel.meet(law, centred._replace(softness=0.0), columns, np.zeros(6), answers)
    _, duals, slopes = answers
    before, there = A.T @ duals, np.zeros(60)
    assert np.sum(np.abs(before) > roots) >= 4
    one = columns._replace(starts=columns.starts[:1], ends=columns.ends[:1])
    there[:] = duals
    bounds = law.feasible(-np.inf, 1.0), law.feasible(np.inf, 1.0)
    ends = [np.multiply(end, caps, out=np.zeros(60), where=caps > 0.0) for end in bounds]
    first = kernel.pull_in(*ends, one, roots[:1], 1.5, -np.ones(1), there, slopes, 1)
    assert first == pytest.approx(abs(before[0]) / 0.8)
    way = slopes * A[:, 0] * np.sign(before[0]) * 1.5 * (abs(before[0]) - 0.8) / (slopes @ A[:, 0] ** 2)
    present = np.flatnonzero(caps)
    np.testing.assert_allclose(there[present], [law.feasible(duals[i] - way[i], caps[i]) for i in present], atol=1e-12)
    bends = -np.ones(6)
    largest = kernel.pull_in(*ends, columns, roots, 1.5, bends, duals, slopes, 5000)
    assert largest <= 1.0 + 1e-9
    assert np.all(np.abs(A.T @ duals) <= roots + 1e-9)
    assert np.array_equal(duals[present], [law.feasible(duals[i], caps[i]) for i in present])
    worth = sum(law.dual(duals[i], caps[i]) for i in present) + (duals @ targets if targets.size else 0.0)
    assert kernel.dual_value(law, targets, caps, duals) == pytest.approx(worth, rel=1e-12)


def test_columns_that_were_gathered_stay_until_others_are_wanted():
    X, y = noisy(60, 7)
    S = as_form(X, "csr", np.float64)
    block = CSRBlock(S.data, S.indices.astype(np.uint32), S.indptr.astype(np.int64), 7, 0.5)
    labels = Labels((y > 0).astype(np.int16), np.array([1]), np.ones((1, 2)), np.empty(0), np.empty(0))
    problem = SimpleNamespace(
        outputs=Outputs(labels.positive, labels.caps), count=1, groups=1, features=7, dtype=np.dtype(np.float64)
    )
    known, held = RowLabels(labels.codes, labels.weights, labels.targets), GatheredColumns()
    state = new(State, problem, labels=known)
    A = np.where(y > 0, 1.0, -1.0)[:, None] * np.column_stack([X, np.full(60, 0.5)])

    def dense(columns, k=0, rows_of=block):
        starts, ends, rows, values = gather(problem, state, held, rows_of, k, np.array(columns))
        found = np.zeros((60, len(columns)))
        for j, (start, end) in enumerate(zip(starts, ends, strict=True)):
            found[rows[start:end], j] = values[start:end]
        return found

    np.testing.assert_array_equal(dense([4, 0, 7, 2]), A[:, [4, 0, 7, 2]])
    before = held.columns
    np.testing.assert_array_equal(dense([7, 4]), A[:, [7, 4]])
    assert held.columns is before
    np.testing.assert_array_equal(dense([1, 4]), A[:, [1, 4]])
    assert held.columns is not before
    before = held.columns
    np.testing.assert_array_equal(dense([4], rows_of=block._replace(data=2.0 * block.data)), 2.0 * A[:, [4]])
    assert held.columns is not before
    np.testing.assert_array_equal(dense(np.arange(8)[::-1]), A[:, ::-1])  # most of all: all in their own order
    assert held.columns.chosen[0].all()
