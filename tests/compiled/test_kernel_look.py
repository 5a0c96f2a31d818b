"""Every sum of a look at frozen weights against NumPy, row by row."""

from itertools import pairwise

import numpy as np
import pytest
from conftest import slow
from numba import typeof
from reference import look as twin
from reference.datasets import as_form, noisy

import streammargin as sm
from streammargin.compiled import look as kernel
from streammargin.compiled import overloads
from streammargin.compiled.samples import samples
from streammargin.losses import is_numeric, terms
from streammargin.losses.logistic import Logistic
from streammargin.rows.labels import Labels, numbered_from
from streammargin.sources.arrays import ArraySource

BIAS, ROWS, COLUMNS, CLASSES = 0.5, 1200, 6, 3
RULES = {  # curvature, softness, twice
    "the best duals": (0.0, 0.0, False),
    "a step": (2.0, 0.0, False),
    "a step of the caps": (0.0, 0.7, False),
    "two steps": (0.5, 0.0, True),
    "duals that stay": (np.inf, 0.0, False),
}


class Setting:
    """Rows in two blocks, some absent, of three classes or with targets; two weights are looked at."""

    def __init__(self, loss="hinge", form="csr", dtype=np.float64, rows=ROWS, columns=COLUMNS, zeros=0.0):
        rng = np.random.default_rng(0)
        X = noisy(rows, columns, seed=2)[0].astype(dtype)
        X[rng.random(X.shape) < zeros] = 0.0
        self.loss = terms(loss) if isinstance(loss, str) else loss
        numbers = is_numeric(self.loss)
        codes = rng.integers(0, CLASSES, rows).astype(np.int16) * (not numbers)
        codes[[4, 17]] = -1
        weights = rng.choice([0.01, 1.0, 3.0], rows)
        self.K = 1 if numbers else CLASSES
        self.targets = rng.standard_normal(rows) if numbers else np.zeros(rows)
        self.labels = Labels(
            codes, np.arange(self.K), np.full((self.K, CLASSES), 0.7), weights, self.targets if numbers else np.empty(0)
        )
        self.caps = 0.7 * weights * (codes >= 0)
        self.signs = np.where(codes == np.arange(self.K)[:, None], 1.0, -1.0)
        self.X, self.rows = as_form(X, form, dtype), np.column_stack([X.astype(float), np.full(rows, BIAS)])
        scale = rng.random((self.K, rows)) * self.caps
        self.centres = scale if not numbers else 0.1 * scale
        self.w = rng.standard_normal((2, self.K, columns + 1)) / 3.0
        self.multiplier, self.blur = rng.random((2, self.K)), np.full((2, self.K), 1e-4)
        self.codes, self.active = codes, np.arange(self.K)

    def look(self, rule, sides=1, H=None, steepest=0.0, centres=None, total=None, cuts=(500,)):
        curvature, softness, twice = rule
        K, width = self.w.shape[1:]
        self.alpha = np.zeros(self.centres.shape)
        self.found = kernel.Looked(
            np.zeros((2, K, kernel.LOSS_SUMS)), np.zeros((K, sides, kernel.DUAL_SUMS)), np.zeros((K, sides, width)),
            np.zeros((2, 1), np.int64),
        )  # fmt: skip
        prox = kernel.Prox(
            self.centres if centres is None else centres, self.alpha, np.full(K, curvature), np.full(K, softness),
            twice, kernel.EMPTY_LINE if total is None else total, steepest,
        )  # fmt: skip
        ends = [0, *cuts, self.codes.size]
        for first, last in pairwise(ends):
            block = ArraySource(self.X[first:last]).whole()._replace(bias=BIAS)
            kernel.look(
                block, numbered_from(first), self.labels, self.loss, self.active,
                kernel.Frozen(self.w, self.multiplier, self.blur), prox, self.found,
                None if H is None else kernel.Curvature(H) if isinstance(H, np.ndarray) else H,
            )  # fmt: skip

    def seen(self, v, k):
        """The loss and u (n,) as a multiplier has them: of classes it is in the margins, of numbers in the loss."""
        numbers, multiplier = is_numeric(self.loss), self.multiplier[v, k]
        u = twin.margins(self.rows, self.w[v, k], k, self.signs, self.targets, 0.0 if numbers else multiplier)
        return self.loss.lifted(multiplier) if numbers else self.loss, u

    def off(self, v, k):
        """How far rounding may move the margins, for a blur that can be seen."""
        stored = COLUMNS if not hasattr(self.X, "indptr") else np.diff(self.X.indptr)
        terms = stored + 3.0
        return 0.5 * np.minimum(terms, 4 * np.sqrt(terms)) * np.linalg.norm(self.rows, axis=1) * self.blur[v, k]


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge", "logistic", "quantile", "huber", "squared_error"])
def test_all_sums_of_every_rule(loss, rule, sides):
    for form, dtype in (("dense", np.float32), ("csr", np.float64)):
        s = Setting(loss, form, dtype)
        H, total = np.zeros((s.K, COLUMNS + 1, COLUMNS + 1)), np.ones(s.centres.shape)
        s.look(RULES[rule], sides, H, total=total)
        there = s.caps > 0.0
        for v in range(2):
            if s.K > 1:
                best = np.argmax(s.rows @ s.w[v].T, axis=1)
                assert s.found.confused[v, 0] == np.sum(best[there] != s.codes[there])
            for k in s.active:
                loss_at, u = s.seen(v, k)
                value, slipped = twin.losses(loss_at, s.caps, u, s.off(v, k))
                found = s.found.losses[v, k]
                assert found[kernel.SUM_OF_LOSSES] == pytest.approx(value, rel=1e-12)
                assert slipped * (1 - 1e-9) <= found[kernel.ROUNDING] <= 1.2 * slipped
                margins = twin.margins(s.rows, s.w[v, k], k, s.signs, s.targets)
                assert found[kernel.SUM_OF_MISTAKES] == np.sum((margins < 0)[there])
        for k in s.active:
            curvature, softness, twice = RULES[rule]
            loss_at, u = s.seen(0, k)
            alpha, a, slopes, gap, L = twin.steps(loss_at, s.caps, u, s.centres[k], curvature, softness, twice)
            np.testing.assert_allclose(s.alpha[k][there], alpha[there], rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(total[k], 1.0 + a, rtol=1e-12)
            assert s.found.losses[0, k, kernel.SUM_OF_GAPS] == pytest.approx(gap, rel=1e-9, abs=1e-10)
            expected = s.rows.T @ (slopes[:, None] * s.rows)
            np.testing.assert_allclose(np.triu(H[k]), np.triu(expected), rtol=1e-11, atol=1e-11)
            shares = np.array([s.loss.dual(*pair) if pair[1] > 0 else 0.0 for pair in zip(a, s.caps, strict=True)])
            met, size = a * s.targets, np.linalg.norm(s.rows, axis=1)
            moved = np.where(there, (alpha - s.centres[k]) ** 2, 0.0) * (L if softness > 0 else 1.0)
            for side in range(sides):
                mine = there & ((s.signs[k] * a < 0) == (side == 1) if sides == 2 else True)
                found = s.found.duals[k, side]
                for column, each in (
                    (kernel.DUAL, shares + met), (kernel.ALPHA, abs(a)), (kernel.PULLED, abs(a) * size),
                    (kernel.SUMMED, abs(shares) + abs(met) + 2 * abs(a)), (kernel.MOVED, moved),
                ):  # fmt: skip
                    assert found[column] == pytest.approx(np.sum(each[mine]), rel=1e-12, abs=1e-12), column
                pulled = s.rows.T @ (s.signs[k] * a * mine)
                np.testing.assert_allclose(s.found.pull[k, side], pulled, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("loss", ["logistic", "smooth_hinge"])
def test_the_best_duals_are_the_same_bits_with_and_without_a_matrix(loss):
    alone, beside = Setting(loss), Setting(loss)
    alone.look(RULES["the best duals"])
    beside.look(RULES["the best duals"], H=np.zeros((CLASSES, COLUMNS + 1, COLUMNS + 1)))
    assert alone.alpha.any() and np.array_equal(alone.alpha, beside.alpha)
    for one, other in zip(alone.found, beside.found, strict=True):
        assert np.array_equal(one, other)


def test_all_rows_may_count_for_the_matrix():
    s, H = Setting(), np.zeros((CLASSES, COLUMNS + 1, COLUMNS + 1))
    s.look(RULES["the best duals"], H=H, steepest=2.0, centres=np.zeros((CLASSES, 0)))
    expected = np.triu(s.rows.T @ (2.0 * s.caps[:, None] * s.rows))
    np.testing.assert_allclose(np.triu(H[1]), expected, rtol=1e-12)


@pytest.mark.parametrize("form, dtype", [("dense", np.float32), ("csr", np.float64)])
def test_the_matrix_may_have_some_columns_only(form, dtype):
    """Each line has columns of its own, and the constant; the diagonal is that of all."""
    s, H = Setting(form=form, dtype=dtype, zeros=0.4), np.zeros((CLASSES, 3, 3))
    columns, diagonal = np.array([[1, 4, 6], [0, 5, 6], [2, 3, 6]]), np.zeros((CLASSES, COLUMNS + 1))
    s.look(RULES["a step of the caps"], H=kernel.Curvature(H, columns=columns, diagonal=diagonal))
    whole, whole_diagonal = np.zeros((CLASSES, COLUMNS + 1, COLUMNS + 1)), np.zeros((CLASSES, COLUMNS + 1))
    s.look(RULES["a step of the caps"], H=kernel.Curvature(whole, diagonal=whole_diagonal))
    for k in s.active:
        _, u = s.seen(0, k)
        _, _, slopes, *_ = twin.steps(s.loss, s.caps, u, s.centres[k], 0.0, 0.7)
        expected = s.rows.T @ (slopes[:, None] * s.rows)
        np.testing.assert_allclose(np.triu(H[k]), np.triu(expected[np.ix_(columns[k], columns[k])]), rtol=1e-11)
        np.testing.assert_allclose(np.triu(whole[k]), np.triu(expected), rtol=1e-11, atol=1e-12)
        for found in (diagonal[k], whole_diagonal[k]):
            np.testing.assert_allclose(found, np.diagonal(expected), rtol=1e-11)


def test_problems_that_rest_are_left_alone():
    s = Setting()
    s.active = np.array([0, 2])
    s.look(RULES["a step"])
    assert not any(part[1].any() for part in (s.alpha, s.found.duals, s.found.pull, s.found.losses[0]))
    assert s.found.duals[2].any()


@pytest.mark.parametrize("columns, zeros, at_once", [(6, 0.0, True), (4000, 0.999, False)])
def test_terms_of_what_is_pulled_are_counted(columns, zeros, at_once):
    """A chunk's share is added at once if its rows hold more values than a share; else each row by itself."""
    s = Setting(rows=600, columns=columns, zeros=zeros)
    s.look(RULES["a step"], cuts=())
    pulls = np.count_nonzero(s.alpha, axis=1)
    np.testing.assert_array_equal(s.found.duals[:, 0, kernel.ADDED], [2, 2, 2] if at_once else pulls)
    np.testing.assert_allclose(s.found.pull[0, 0], s.rows.T @ (s.signs[0] * s.alpha[0]), rtol=1e-11, atol=1e-12)


def test_chunks_hold_few_values():
    """Rows of many columns are taken a few at a time: the sums do not depend on it."""
    s = Setting(form="dense", rows=300, columns=700)
    s.look(RULES["a step"], cuts=())
    chunks = -(-300 // -(-kernel.MOST_CHUNK_VALUES // 700))  # the two absent rows are in the first
    assert s.found.duals[0, 0, kernel.ADDED] == chunks == 4
    np.testing.assert_allclose(s.found.pull[0, 0], s.rows.T @ (s.signs[0] * s.alpha[0]), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_a_loss_may_couple_lines_of_weights(form):
    s = Setting(Logistic().joint(), form)
    s.multiplier[:] = 0.0
    width = COLUMNS + 1
    H = kernel.Curvature(np.zeros((CLASSES, width, width)), np.zeros((1, CLASSES * width, CLASSES * width)))
    s.look(RULES["the best duals"], H=H)
    there = s.caps > 0.0
    onehot = (s.codes[:, None] == np.arange(CLASSES)).astype(float)
    for v in range(2):
        scores = s.rows @ s.w[v].T
        p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        values = -s.caps * np.log(p[np.arange(ROWS), s.codes])
        assert s.found.losses[v, 0, kernel.SUM_OF_LOSSES] == pytest.approx(values[there].sum(), rel=1e-12)
        assert s.found.losses[v, 0, kernel.ROUNDING] > 0.0
        assert not s.found.losses[v, 1:, kernel.SUM_OF_LOSSES].any()  # it is one loss of three lines
        best = np.argmax(scores, axis=1)
        assert s.found.confused[v, 0] == np.sum(best[there] != s.codes[there])
        if v > 0:
            continue
        bends = s.caps[:, None, None] * (p[:, :, None] * np.eye(CLASSES) - p[:, :, None] * p[:, None, :])
        expected = np.einsum("ikl,ia,ib->kalb", bends[there], s.rows[there], s.rows[there]).reshape(
            2 * (CLASSES * width,)
        )
        matrix = -np.triu(H.crossed[0])
        for k in range(CLASSES):
            matrix[k * width : (k + 1) * width, k * width : (k + 1) * width] += np.triu(H.lines[k])
        np.testing.assert_allclose(matrix, np.triu(expected), rtol=1e-10, atol=1e-10)
        pulled = s.caps[:, None] * (onehot - p)
        np.testing.assert_allclose(s.found.pull[:, 0], pulled.T @ s.rows, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(s.alpha.T[there], np.abs(pulled[there]), rtol=1e-11, atol=1e-14)
        shares = -s.caps * (p * np.log(p)).sum(axis=1)
        assert s.found.duals[0, 0, kernel.DUAL] == pytest.approx(shares.sum(), rel=1e-12)
        np.testing.assert_allclose(s.found.duals[:, 0, kernel.ALPHA], np.abs(pulled).sum(axis=0), rtol=1e-12)


def test_fields_are_not_hidden_by_methods():
    """A method that kernels may call hides a field of the same name, in any named tuple."""
    for cls in (kernel.Frozen, kernel.Prox, kernel.Looked, kernel.Curvature, kernel.Scratch, kernel.StepAsked):
        assert not set(cls._fields) & overloads._exposed


def test_one_kernel_serves_any_number_of_classes_and_warmup_compiles_it(monkeypatch):
    compiled, trained, warmed = kernel.look_block, set(), set()

    def types(arguments):
        return tuple(map(str, map(typeof, arguments)))

    monkeypatch.setattr(kernel, "look_block", lambda *given: trained.add(types(given)) or compiled(*given))
    X, _ = noisy(120, 4, seed=3)
    for classes in (3, 7):
        sm.train((X, np.arange(120) % classes), loss="logistic", solver="newton", passes=8, tol=1e-9)
    monkeypatch.setattr(kernel, "look_block", lambda *given: warmed.add(types(given)))
    kernel.warm(next(sample for sample in samples() if sample.kind == "dense float64"))
    assert len(trained) == 1 and trained < warmed
