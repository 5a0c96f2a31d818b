"""The hard margin of a kernel machine: against scikit-learn's SVC, an interior-point method, and rows that overlap."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import slow, write_h5
from reference import machines
from reference.sources import CountingSource

import streammargin as sm
from streammargin.kernels import known_kernel
from streammargin.result import advice
from streammargin.rows.blocks import CSRBlock, DenseBlock, part
from streammargin.solvers.proof.inseparable import empty, inseparable
from streammargin.verification.verify import verify

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((120, 4))
Y = np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1)
WORDS = ("rbf:0.3", "poly:2,gamma=0.5,coef0=1", "rbf:0.1,weight=2+linear")


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("word", WORDS)
def test_the_largest_margin_is_that_of_an_interior_point_method(word, free):
    K = machines.matrix(word.replace(",weight=2", ""), X, X)
    if "weight" in word:
        K = K + machines.matrix("rbf:0.1", X, X)
    best = machines.largest_margin(K, Y, free)
    for options in ({}, {"loss": "squared_hinge"}, {"sample_weight": RANDOM.uniform(0.5, 2.0, len(Y))}):
        result = sm.train((X, Y), kernel=word, C=math.inf, bias="free" if free else None, tol=1e-5, **options)
        found = result.certificate
        assert result.converged and found.mistakes == 0 and found.margin_gap <= 1e-5
        assert found.margin_lower <= best * (1 + 1e-7) and found.margin_upper >= best * (1 - 1e-7)
    scores = Y * result.model.decision_function(X)
    assert scores.min() == pytest.approx(1.0, rel=1e-6) and np.quantile(scores, 0.1) < 1.001
    assert result.model.evaluate((X, Y))["margin"] == pytest.approx(found.margin_lower, rel=1e-7)


def test_it_is_that_of_svc_at_a_large_C():
    svm = pytest.importorskip("sklearn.svm")
    peer = svm.SVC(kernel="rbf", gamma=0.3, C=1e6, tol=1e-6).fit(X, Y)
    K = machines.matrix("rbf:0.3", peer.support_vectors_, peer.support_vectors_)
    margin = 1.0 / math.sqrt((peer.dual_coef_ @ K @ peer.dual_coef_.T).item())
    ours = sm.KernelMarginClassifier(kernel="rbf:0.3", C=math.inf, tol=1e-6).fit(X, Y)
    assert ours.certificate_.margin_lower == pytest.approx(margin, rel=1e-4)
    assert set(ours.support_) <= set(np.flatnonzero(np.abs(Y * ours.decision_function(X) - 1.0) < 1e-3))


def test_rows_on_disk_are_read_a_few_times(tmp_path):
    """The working set grows by the rows that violate most; a stop goes on to the same bits."""
    random = np.random.default_rng(1)
    rows = random.standard_normal((6000, 4)).astype(np.float32)
    y = np.where((rows**2).sum(axis=1) > 3.5, 1, -1)
    rows = np.where(np.abs((rows**2).sum(axis=1) - 3.5)[:, None] < 0.2, rows * 1.5, rows).astype(np.float32)
    y = np.where((rows**2).sum(axis=1) > 3.5, 1, -1)
    source = CountingSource(rows, y, np.linspace(0, 6000, 7).astype(int))
    options = {"kernel": "rbf:0.3", "C": math.inf, "bias": "free", "memory": "40M"}
    result = sm.train(source, **options)
    whole = sm.train((rows, y), **options | {"memory": "1G"})
    assert result.converged and result.passes <= 14 and whole.converged
    assert result.certificate.margin_lower <= whole.certificate.margin_upper
    assert whole.certificate.margin_lower <= result.certificate.margin_upper
    first = sm.train(source, **options, checkpoint=str(tmp_path), passes=3)
    again = sm.train(source, **options, checkpoint=str(tmp_path))
    straight = sm.train(source, **options, checkpoint=str(tmp_path / "straight"))
    assert not first.converged and again.converged
    for name, array in straight.model.answer.arrays().items():
        assert np.array_equal(again.model.answer.arrays()[name], array)


@pytest.mark.parametrize("memory", ["1G", "40M"])
def test_a_tolerance_below_rounding_stalls(memory):
    """Passes are left, but no pass helps; columns of zeros add no rounding."""
    random = np.random.default_rng(1)
    rows = random.standard_normal((6000, 4)).astype(np.float32)
    far = (rows**2).sum(axis=1)
    rows[np.abs(far - 3.5) < 0.4] *= 2.0
    y, cuts = np.where((rows**2).sum(axis=1) > 3.5, 1, -1), np.linspace(0, 6000, 7).astype(int)
    found = []
    for X in (rows, np.pad(rows, ((0, 0), (0, 396)))):
        given = CountingSource(X, y, cuts) if memory == "40M" else (X, y)
        options = {"kernel": "rbf:0.3", "C": math.inf, "tol": 1e-12, "passes": 40}
        found.append(sm.train(given, memory=memory, **options))
        assert found[-1].reason == "passes" and not found[-1].converged and found[-1].passes < 16
        assert "rounding hides the rest of the gap; raise `tol`" in advice(found[-1])
    one, other = (each.certificate.margin_gap for each in found)
    assert 0.0 < one < 1e-6 and other < 1.5 * one


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("bias", ["free", slow(None)])
def test_that_nothing_separates_is_proven(bias, form):
    rows, y = np.vstack([X, X[:1]]), np.append(Y, -Y[0])
    result = sm.train((form(rows), y), kernel="rbf:0.3", C=math.inf, bias=bias)
    assert result.reason == "not_separable" and not result.converged
    assert result.certificate.margin_upper == 0.0 and result.certificate.mistakes >= 1
    assert ("through the origin" in advice(result)) == (bias is None)
    assert "with a finite `C`" in advice(result) and "bias" not in advice(result)  # kernels take no constant column


ZERO_SETS = ((np.zeros((6, 2)), [0, 1, 0, 1, 0, 1]), (np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]), [1, 0, 1]))


@pytest.mark.parametrize("disk", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "poly:2,gamma=1", "linear+poly:3,gamma=1"])
@pytest.mark.parametrize("rows, y", ZERO_SETS)
def test_a_row_of_length_zero_has_no_margin_without_a_constant(rows, y, kernel, disk):
    data = CountingSource(rows, np.array(y), np.array([0, 2, len(y)])) if disk else (rows, np.array(y))
    result = sm.train(data, kernel=kernel, C=math.inf)
    assert result.reason == "not_separable" and not result.converged
    assert result.certificate.margin_upper == 0.0 and "through the origin" in advice(result)


def test_a_row_of_zeros_has_a_margin_if_its_length_is_not_0(caplog):
    rows, y = ZERO_SETS[1]
    for options in ({"kernel": "rbf:1"}, {"kernel": "poly:2,gamma=1,coef0=1"}, {"kernel": "linear", "bias": "free"}):
        assert sm.train((rows, np.array(y)), C=math.inf, **options).converged
    weights = np.array([1.0, 1.0, 0.0])  # an absent row
    assert sm.train((rows, np.array(y)), C=math.inf, kernel="linear", sample_weight=weights).converged


NARROW = np.array([[-1.0, 1.0], [-0.5, 1.0], [0.5, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]]) * [1.0, 2.0**-24]
SIDES = np.array([1, 1, 0, 0, 1, 0])
NARROW_SETS = (("linear", NARROW, SIDES), ("rbf:0.5", [[0.0, 0.0], [1e-7, 0.0]], [0, 1]))


@pytest.mark.parametrize("bias", [None, "free"])
@pytest.mark.parametrize("word, rows, y", NARROW_SETS)
def test_a_margin_that_rounding_hides_is_not_called_none(word, rows, y, bias):
    """The rows are separable, as a linear solver proves, or as they differ."""
    result = sm.train((np.array(rows), np.array(y)), kernel=word, C=math.inf, bias=bias)
    assert result.reason == "small_margin" and not result.converged
    assert -3.0 < result.certificate.margin_lower <= 2.0**-24 <= result.certificate.margin_upper < 1e-6
    assert "rounding hides" in advice(result) and "lower" not in advice(result)
    linear = sm.train((NARROW, SIDES), C=math.inf, tol=1e-6)
    assert linear.converged and linear.certificate.margin_lower == pytest.approx(2.0**-24, rel=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_equal_rows_are_found(form, dtype):
    """The first and the last of several tiles; the zero of the last is stored, and negative."""
    rows = np.vstack([np.arange(7500).reshape(-1, 3), [[-0.0, 1.0, 2.0]]]).astype(dtype)
    S, kernel, sides = sp.csr_array(rows[:-1]), sm.kernels.Rbf(1.0), np.append(np.ones(2500, int), -1)
    entries = np.append(S.data, rows[-1]), np.append(S.indices, np.arange(3)).astype(np.uint32)
    sparse = CSRBlock(*entries, np.append(S.indptr, S.nnz + 3).astype(np.int64), 3, 0.0)
    block = DenseBlock(rows, 0.0) if form == "dense" else sparse
    zeros = DenseBlock(0.0 * rows, 0.0) if form == "dense" else sparse._replace(data=0.0 * sparse.data)
    assert empty(zeros).all() and not empty(block).any()
    assert inseparable(kernel, block, sides)
    for others in (np.ones(2501, int), np.r_[0, sides[1:]], np.r_[-1, sides[1:]]):
        assert not inseparable(kernel, block, others)
    assert not inseparable(kernel, part(block, 1, 2501), sides[1:])
    assert not inseparable(known_kernel("precomputed"), block, sides)


def test_several_classes_and_verification(tmp_path):
    classes = np.argmax(X[:, :3], axis=1)
    data, model = write_h5(tmp_path / "a.h5", X, classes), str(tmp_path / "m.npz")
    result = sm.train(data, kernel="rbf:0.3", C=math.inf, bias="free")
    assert result.converged and result.model.evaluate((X, classes))["mistakes"] == 0
    with pytest.raises(sm.UsageError, match="one hard margin of all classes"):
        sm.train(data, kernel="rbf:0.3", C=math.inf, multiclass="joint", solver="smo")
    result.model.save(model)
    assert not [check for check in verify(model, data) if check.agrees is False]
    arrays = dict(np.load(model))
    arrays["dual_coef"][0, 0] *= 1.01
    np.savez(model, **arrays)
    assert [check for check in verify(model, data) if check.agrees is False]


def test_precomputed_values_and_a_users_kernel_are_verified(tmp_path):
    K = machines.matrix("rbf:0.3", X, X)
    for number, options in enumerate(({"C": 3.0}, {"C": math.inf, "bias": "free"})):
        data, model = write_h5(tmp_path / f"{number}.h5", K, Y), str(tmp_path / f"{number}.npz")
        sm.train(data, kernel="precomputed", **options).model.save(model)
        assert not [check for check in verify(model, data) if check.agrees is False]
        arrays = dict(np.load(model))
        arrays["dual_coef"][0, 3] *= 1.01
        np.savez(model, **arrays)
        assert [check for check in verify(model, data) if check.agrees is False]

    class Laplacian(sm.kernels.Kernel):
        """exp(-sum |x - z| / 4)."""

        definite = True

        def gram(self, X, Z):
            return np.exp(-np.abs(X[:, None] - Z[None]).sum(axis=2) / 4.0)

    data, model = write_h5(tmp_path / "a.h5", X, Y), str(tmp_path / "a.npz")
    sm.train(data, kernel=Laplacian(), C=10.0).model.save(model)
    assert not [check for check in verify(model, data) if check.agrees is False]


@pytest.mark.parametrize("bias", [slow(0), "free"])
@pytest.mark.parametrize("word", ["linear", "rbf:0.3+poly:2", "rbf:1e-8", "poly:3", "sigmoid:2,coef0=3", "rbf:0.5"])
def test_margins_that_rounding_blurs_are_verified(word, bias, tmp_path):
    """Rows that nothing separates have huge coefficients, and long rows values that cancel."""
    for seed in range(4):
        random = np.random.default_rng(seed)
        rows = np.repeat(random.standard_normal((12, 2)), 3, axis=0) * [1.0, 1e4 if seed % 2 else 1.0]
        labels = random.integers(0, 2, 36) if seed < 2 else (rows[:, 0] > 0.0).astype(int)
        sm.write_hdf5([(rows, labels)], tmp_path / "a.h5", force=True)
        result = sm.train((rows, labels), kernel=word, C=math.inf, bias=bias, passes=20)
        result.model.save(tmp_path / "m.npz", force=True)
        checks = verify(tmp_path / "m.npz", tmp_path / "a.h5")
        assert not [check for check in checks if check.agrees is False], seed
        if result.converged:
            result.model.answer.coef[0, 0] *= 1.5
            result.model.save(tmp_path / "m.npz", force=True)
            assert any(check.agrees is False for check in verify(tmp_path / "m.npz", tmp_path / "a.h5")), seed
