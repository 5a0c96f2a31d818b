"""Sums by NumPy: as compiled/ has them, what they prove, and when they are taken."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

import streammargin as sm
from streammargin.arrays import look as by_arrays
from streammargin.arrays import products
from streammargin.compiled import look as compiled
from streammargin.compiled import products as kernels
from streammargin.compiled.jit import small_calls
from streammargin.compiled.judged import judge_of
from streammargin.losses.logistic import Logistic
from streammargin.rows.blocks import DenseBlock
from streammargin.rows.labels import Labels, numbered_from
from streammargin.rows.products import in_float64
from streammargin.solvers import leaves, problem
from streammargin.solvers.newton import newton
from streammargin.training import fitting

LOSS, LINES, ROWS, COLUMNS = Logistic().joint(), 4, 41, 6
PLAIN = 0.0  # expected seconds of kernels: those that nothing has compiled run in plain Python


def rows_with_gaps(dtype, bias):
    """(rows, labels of two values of C), with absent rows, weights of rows and of classes."""
    rng = np.random.default_rng(1)
    block = DenseBlock(rng.normal(0, 2, (ROWS, COLUMNS)).astype(dtype), bias)
    codes = rng.integers(-1, LINES, ROWS).astype(np.int16)
    caps = np.concatenate([C * np.broadcast_to([1.0, 0.5, 2.0, 1.0], (LINES, LINES)) for C in (0.3, 5.0)])
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], ROWS)
    return block, Labels(codes, np.tile(np.arange(LINES), 2), caps, weights, np.empty(0)), rng


def looked(look, block, labels, w, groups):
    problems = np.concatenate([LINES * k + np.arange(LINES) for k in groups])
    none, count = np.zeros((1, len(w))), len(w)
    found = compiled.Looked(
        np.zeros((1, count, compiled.LOSS_SUMS)), np.zeros((count, 1, compiled.DUAL_SUMS)),
        np.zeros((count, 1, COLUMNS + 1)), np.zeros((1, 2), np.int64),
    )  # fmt: skip
    empty = np.zeros((count, 0))
    point = compiled.Frozen(w[None], none, 1e-16 * np.linalg.norm(w, axis=1)[None])
    look(block, numbered_from(0), labels, LOSS, problems, point, compiled.Prox(empty, empty, none[0], none[0]), found)
    return found


@pytest.mark.parametrize("groups", [[0, 1], [1]])
@pytest.mark.parametrize("bias", [0.0, 0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_look_has_the_sums_of_the_kernel(dtype, bias, groups):
    block, labels, rng = rows_with_gaps(dtype, bias)
    w = rng.normal(0, 1, (2 * LINES, COLUMNS + 1))
    with small_calls(PLAIN):
        kernel = looked(compiled.look, block, labels, w, groups)
    found = looked(by_arrays.look, in_float64(block), labels, w, groups)
    carries = [compiled.CARRY, compiled.CARRY + 1, compiled.MOVED]
    np.testing.assert_allclose(found.losses[..., :3], kernel.losses[..., :3], 1e-12)
    np.testing.assert_allclose(found.pull, kernel.pull, 1e-11, 1e-11)
    np.testing.assert_array_equal(found.confused, kernel.confused)
    for name in set(range(compiled.DUAL_SUMS)) - {*carries, compiled.ADDED}:
        np.testing.assert_allclose(found.duals[..., name], kernel.duals[..., name], 1e-12)
    # entries of `pull` count as added up one by one, which rounds most
    assert (found.duals[..., compiled.ADDED] >= kernel.duals[..., compiled.ADDED]).all()


@pytest.mark.parametrize("each_line", [False, True])
def test_a_piece_asks_for_the_labels_of_its_own_rows_alone(each_line, monkeypatch):
    _, labels, rng = rows_with_gaps(np.float64, 0.5)
    if each_line:
        codes = rng.integers(-1, LINES, 2 * LINES * ROWS).astype(np.int16)
        labels = labels._replace(codes=codes, codes_a_row=2 * LINES, codes_a_line=1)
    scores, asked = rng.normal(0, 1, (LINES, ROWS)), []
    whole = products.judged(labels, LOSS, LINES, scores)
    for name in ("caps_of", "signs_of"):
        own = getattr(Labels, name)
        monkeypatch.setattr(Labels, name, lambda given, k, own=own: asked.append(given.rows()) or own(given, k))
    piece = products.judged(labels._replace(first=-7), LOSS, LINES, scores[:, 7:20])
    assert set(asked) == {13}
    for found, expected in zip(piece, whole, strict=True):
        np.testing.assert_array_equal(found, expected[..., 7:20])


@pytest.mark.parametrize("first", [0, 7])
@pytest.mark.parametrize("stride", [1, 3])
def test_products_are_those_of_the_kernels(stride, first):
    """Also of rows in the middle, whose labels begin before them."""
    block, labels, rng = rows_with_gaps(np.float64, 0.5)
    block, labels = block._replace(X=block.X[first:]), labels._replace(first=-first)
    m, k, judge = ROWS - first, LINES, judge_of(LOSS)
    w, v = rng.normal(0, 1, (2, LINES, COLUMNS + 1))
    found = []
    for these in (kernels, products):
        with small_calls(PLAIN):
            scores, along, bends = np.empty((m, LINES)), np.empty((m, LINES)), np.empty((m, 2 * LINES))
            image, bent, diagonal = np.ones((3, LINES, COLUMNS + 1))
            of_lines, of_columns = np.ones((LINES, LINES)), np.ones((COLUMNS + 1, COLUMNS + 1))
            these.add_scores(block, w, scores)
            losses = these.add_gradient(block, labels, judge, k, scores, bends, image)
            these.add_curved(block, bends, v, along, bent)
            these.add_diagonal(block, bends, stride, diagonal)
            these.add_factors(block, bends, stride, of_lines, of_columns)
            t = these.lowest_along(labels, judge, k, scores, -along, 0.0, 1e-3, float(-np.vdot(bent, v)))
            found.append([losses, scores, along, bends, image, bent, diagonal, of_lines, of_columns, t])
    for kernel, arrays in zip(*found, strict=True):
        np.testing.assert_allclose(arrays, kernel, 1e-10, 1e-12)


def classes(rows=200, columns=7, lines=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns))
    return X, np.argmax(X @ rng.standard_normal((columns, lines)) + rng.gumbel(0, 2, (rows, lines)), axis=1)


class Enough(Exception):
    """What is to be known is known."""


def in_arrays(monkeypatch, rows, **options):
    """Whether NumPy is to visit the rows of this training, which is not made."""
    seen, one = [], fitting.Fitting.choose

    def noted(*arguments):
        seen.append(one(*arguments).problem)
        raise Enough

    with monkeypatch.context() as patched, pytest.raises(Enough):
        patched.setattr(fitting.Fitting, "choose", noted)
        sm.train(rows, **{"loss": "logistic", **options})
    assert not seen[0].in_arrays or newton.route(seen[0])[0] == "conjugate"
    return seen[0].in_arrays


@pytest.mark.parametrize("least", [None, 40])  # rows of a leaf: one leaf, or several
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_certificate_is_that_of_the_weights_and_holds_beside_scikit_learn(C, least, monkeypatch):
    monkeypatch.setattr(problem, "IN_ARRAYS", (0, 10**6))
    if least:
        monkeypatch.setattr(leaves, "_least", lambda *_: least)
    X, y = classes()
    result = sm.train((X, y), loss="logistic", C=C, bias=0, tol=1e-6, threads=2)
    certificate, W = result.certificate, result.model.coef_

    def objective(W):
        return 0.5 * np.sum(W**2) - C * np.sum(log_softmax(X @ W.T, axis=1)[np.arange(len(y)), y])

    assert result.converged and in_arrays(monkeypatch, (X, y))
    assert certificate.primal == pytest.approx(objective(W), rel=1e-12)
    known = LogisticRegression(C=C, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y)
    assert certificate.dual <= objective(known.coef_) * (1 + 1e-12)
    assert certificate.primal <= objective(known.coef_) * (1 + 1e-6)


def test_few_dense_rows_without_a_checkpoint_are_taken(monkeypatch, tmp_path):
    X, y = classes(400, 30)
    assert in_arrays(monkeypatch, (X, y)) and in_arrays(
        monkeypatch, (X.astype(np.float32), y), C=[0.1, 1.0], valid=(X, y)
    )
    assert not in_arrays(monkeypatch, (X, y), checkpoint=tmp_path / "folder")
    assert not in_arrays(monkeypatch, (sp.csr_matrix(X), y))
    assert not in_arrays(monkeypatch, classes(60, 201))  # steps on the duals of a row come first
    for bounds in ((X.size + 1, 10**6), (0, X.size - 1)):
        monkeypatch.setattr(problem, "IN_ARRAYS", bounds)
        assert not in_arrays(monkeypatch, (X, y))


FIT = """
import hashlib, sys, numpy as np
from numba.core import event
import streammargin as sm
compiled = []
class Listener(event.Listener):
    def on_start(self, found):
        compiled.append(found.data["dispatcher"].py_func.__qualname__)
    def on_end(self, found):
        pass
event.register("numba:compile", Listener())
rng = np.random.default_rng(0)
X = rng.standard_normal((1500, 64)).astype(np.float32)
y = np.argmax(X @ rng.standard_normal((64, 10)) + rng.gumbel(0, 1, (1500, 10)), axis=1)
result = sm.train((X, y), loss="logistic")
assert result.converged
print(compiled, hashlib.sha256(result.model.coef_.tobytes()).hexdigest())
"""


def test_nothing_is_compiled_and_bits_do_not_depend_on_the_threads_of_blas(tmp_path):
    found = []
    for threads in ("1", "2"):
        env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "STREAMMARGIN_SHIPPED": "0", "STREAMMARGIN_PATIENCE": ""}
        env |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), threads)
        done = subprocess.run([sys.executable, "-c", FIT], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0].startswith("[] ") and found[0] == found[1]
