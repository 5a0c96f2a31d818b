"""Steps on chosen columns against the same functions in NumPy, and against the conditions of the optimum."""

from types import SimpleNamespace

import numpy as np
import pytest
from reference.datasets import as_form, noisy

from streammargin.compiled import column_steps as kernel
from streammargin.losses import make_loss
from streammargin.rows.blocks import CSRBlock, DenseBlock
from streammargin.rows.labels import Labels
from streammargin.solvers.columns.working_set import _sweep_model as sweep_model
from streammargin.solvers.columns.working_set import gathered

FIRST, ROOTS = np.array([0, 1, 3, 6]), np.array([0.8, 1.1, 0.0])
SOFTNESS, RIDGE = 0.7, 0.05


def problem(form="csr", loss="hinge"):
    """(loss, softness, targets, caps, alpha, starts, ends, rows, values) of columns 4, 0, 3, 1, 5, the constant; A."""
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
    place = np.full(8, 6, np.int32)
    place[[4, 0, 3, 1, 5, 7]] = np.arange(6)
    columns = kernel.chosen(block, labels, 0, place, 6, kernel.sizes(block))
    signs = np.where(codes == labels.positive[0], 1.0, -1.0)
    A = signs[:, None] * np.column_stack([X, np.full(60, 0.5)])[:, [4, 0, 3, 1, 5, 7]]
    A[3] = 0.0
    caps = np.where(codes == 1, 2.0, np.where(codes == 0, caps[0, 0], 0.0))
    alpha = caps * np.random.default_rng(1).random(60)
    return (make_loss(loss), SOFTNESS, targets, caps, alpha, *columns), A


def rest(w):
    return FIRST, ROOTS, np.array([0.3, 0.0, 0.0, 0.0, 0.0, 0.0]), RIDGE, w.copy()


def value(given, A, penalty, w):
    """f(w), row by row."""
    loss, softness, targets, caps, alpha = given[:5]
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
    place = np.array([2, 3, 1, 3, 3, 0, 3, 3], np.int32)
    block = DenseBlock(X, 0.5)
    starts, ends, *whole = kernel.chosen(block, labels, 0, place, 3, kernel.sizes(block))
    at, rows, values = np.append(starts, 180), np.zeros(181, np.int32), np.zeros(181)
    for first, last in ((0, 25), (25, 60)):
        kernel.gather(DenseBlock(X[first:last], 0.5), first, labels, 0, place, at, rows, values)
    np.testing.assert_array_equal(at[:-1], ends)
    for start, end in zip(starts, ends, strict=True):
        np.testing.assert_array_equal(rows[start:end], whole[0][start:end])
        np.testing.assert_array_equal(values[start:end], whole[1][start:end])


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_columns_are_those_of_the_rows_with_their_signs(form):
    (*_, starts, ends, rows, values), A = problem(form)
    for j in range(6):
        column = np.zeros(60)
        column[rows[starts[j] : ends[j]]] = values[starts[j] : ends[j]]
        np.testing.assert_allclose(column, A[:, j], rtol=1e-7)


@pytest.mark.parametrize("few", [0, 6], ids=["gradients", "factored"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "squared_error"])
def test_steps_fall_to_where_no_group_can_move(loss, few):
    given, A = problem(loss=loss)
    w = np.array([0.5, -1.0, 0.0, 0.0, 0.2, 0.1])
    penalty = rest(w)
    state = np.zeros(60), np.zeros(60), np.zeros(60)
    height = kernel.meet(*given, w, *state) + kernel.penalty(*penalty, w)
    values = [value(given, A, penalty, w)]
    assert height == pytest.approx(values[0], rel=1e-12)
    for _ in range(40):
        _, _, height, _, _ = sweep_model(*given[:2], 10.0, given[2:], penalty, np.arange(3), w, state, height)
        values.append(value(given, A, penalty, w))
        _, fell, height = kernel.newton(*given, *penalty, w, *state, few, 1e-10, 50)
        values.append(value(given, A, penalty, w))
        assert fell == (values[-1] < values[-2]) or abs(values[-1] - values[-2]) < 1e-12 * abs(values[-1])
    assert np.all(np.diff(values) <= 1e-12 * abs(values[0])) and values[-1] < 0.95 * values[0]
    np.testing.assert_allclose(state[0], A @ w - (given[2] if given[2].size else 0.0), atol=1e-9)
    at_optimum(penalty, w, A.T @ np.where(given[3] > 0.0, state[1], 0.0))


def test_sweeps_of_a_frozen_model_come_to_its_minimum():
    """What rows answer is linear in the step, and the conditions of the optimum hold for that."""
    given, A = problem(loss="logistic")
    w = np.array([0.5, -1.0, 0.0, 0.0, 0.2, 0.1])
    before, penalty, state = w.copy(), rest(w), (np.zeros(60), np.zeros(60), np.zeros(60))
    kernel.meet(*given, w, *state)
    margins, duals, slopes = (part.copy() for part in state)
    bends = np.full(3, -1.0)
    for _ in range(400):
        kernel.sweep(10.0, bends, *given[5:], *penalty, np.arange(3), w, *state[1:])
    np.testing.assert_array_equal(state[0], margins)
    np.testing.assert_array_equal(state[2], slopes)
    answers = np.where(given[3] > 0.0, duals - slopes * (A @ (w - before)), 0.0)
    np.testing.assert_allclose(np.where(given[3] > 0.0, state[1], 0.0), answers, atol=1e-9)
    at_optimum(penalty, w, A.T @ answers)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "squared_error"])
def test_duals_are_pulled_in_to_where_no_column_pulls_beyond_its_root(loss):
    given, A = problem(loss=loss)
    law, _, targets, caps, _, *columns = given
    roots, state = np.array([0.8, 0.3, 0.5, 1.1, 0.6, 0.0]), (np.zeros(60), np.zeros(60), np.zeros(60))
    kernel.meet(law, 0.0, *given[2:], np.zeros(6), *state)
    duals, slopes = state[1:]
    before, there = A.T @ duals, np.zeros(60)
    assert np.sum(np.abs(before) > roots) >= 4
    one = tuple(part[:1] for part in columns[:2])
    there[:] = duals
    first = kernel.pull_in(law, caps, *one, *columns[2:], roots[:1], 1.5, -np.ones(1), there, slopes, 1)
    assert first == pytest.approx(abs(before[0]) / 0.8)
    way = slopes * A[:, 0] * np.sign(before[0]) * 1.5 * (abs(before[0]) - 0.8) / (slopes @ A[:, 0] ** 2)
    present = np.flatnonzero(caps)
    np.testing.assert_allclose(there[present], [law.feasible(duals[i] - way[i], caps[i]) for i in present], atol=1e-12)
    bends = -np.ones(6)
    largest = kernel.pull_in(law, caps, *columns, roots, 1.5, bends, duals, slopes, 5000)
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
    problem, scratch = SimpleNamespace(labels=labels, features=7), {}
    A = np.where(y > 0, 1.0, -1.0)[:, None] * np.column_stack([X, np.full(60, 0.5)])

    def dense(columns, k=0, rows_of=block):
        starts, ends, rows, values = gathered(problem, scratch, rows_of, k, np.array(columns))
        found = np.zeros((60, len(columns)))
        for j, (start, end) in enumerate(zip(starts, ends, strict=True)):
            found[rows[start:end], j] = values[start:end]
        return found

    np.testing.assert_array_equal(dense([4, 0, 7, 2]), A[:, [4, 0, 7, 2]])
    held = scratch["columns"]
    np.testing.assert_array_equal(dense([7, 4]), A[:, [7, 4]])
    assert scratch["columns"] is held
    np.testing.assert_array_equal(dense([1, 4]), A[:, [1, 4]])
    assert scratch["columns"] is not held
    held = scratch["columns"]
    np.testing.assert_array_equal(dense([4], rows_of=block._replace(data=2.0 * block.data)), 2.0 * A[:, [4]])
    assert scratch["columns"] is not held
    np.testing.assert_array_equal(dense(np.arange(8)[::-1]), A[:, ::-1])  # most of all: all in their own order
    np.testing.assert_array_equal(scratch["columns"].place, np.arange(8))
