"""Estimators that hold out some of their rows, and keep the pass that does best on these."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import streammargin as sm
from streammargin.estimators import KernelMarginClassifier, KernelMarginRegressor, MarginClassifier, MarginRegressor
from streammargin.estimators.base import held_out

RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((300, 30))
SCORES = X @ RANDOM.standard_normal((30, 3))
Y = np.array(["a", "b", "c"])[np.argmax(SCORES + 4.0 * RANDOM.standard_normal(SCORES.shape), axis=1)]
NUMBERS = SCORES[:, 0] + 5.0 * RANDOM.standard_normal(300)


@pytest.mark.parametrize("rows", [X, sp.csr_matrix(X)], ids=["dense", "sparse"])
def test_fit_is_train_with_the_rows_that_it_holds_out(rows):
    weights = np.where(np.arange(300) % 7, 1.5, 0.0)
    estimator = MarginClassifier(early_stop=3, random_state=4, validation_fraction=0.2, solver="sdca", tol=1e-6)
    estimator.fit(rows, Y, sample_weight=weights)
    out = held_out(Y, weights, 0.2, 4, classes=True)
    result = sm.train(
        (rows[~out], Y[~out]), sample_weight=weights[~out], valid=(rows[out], Y[out]), early_stop=3, seed=4,
        solver="sdca", tol=1e-6,
    )  # fmt: skip
    assert result.reason == "early_stop" and estimator.n_iter_ == result.passes
    np.testing.assert_array_equal(estimator.coef_, result.model.coef_)
    np.testing.assert_allclose(estimator.certificate_.valid_error, 1.0 - estimator.score(rows[out], Y[out]))


def test_a_part_of_each_class_is_held_out_and_no_absent_row():
    y = np.repeat([0, 1, 2, 3], [1, 4, 50, 100])
    weights = np.where(np.arange(len(y)) % 2, 1.0, 0.0)
    out = held_out(y, weights, 0.3, 0, classes=True)
    assert [int(out[y == k].sum()) for k in range(4)] == [0, 1, 8, 15] and not out[weights == 0.0].any()
    most = held_out(y, weights, 0.99, 0, classes=True)
    assert [int(np.sum((y == k) & (weights > 0.0) & ~most)) for k in range(4)] == [0, 1, 1, 1]
    assert held_out(y, None, 0.3, 0, classes=False).sum() == round(0.3 * len(y))
    np.testing.assert_array_equal(out, held_out(y, weights, 0.3, 0, classes=True))
    assert (out != held_out(y, weights, 0.3, 1, classes=True)).any()


def test_a_regressor_holds_out_rows_too():
    estimator = MarginRegressor(early_stop=3, loss="absolute_error", solver="sdca", tol=1e-9).fit(X, NUMBERS)
    out = held_out(NUMBERS, None, 0.1, 0, classes=False)
    errors = np.abs(estimator.predict(X[out]) - NUMBERS[out])
    np.testing.assert_allclose(estimator.certificate_.valid_error, errors.mean(), rtol=1e-9)


def test_random_state_decides_which_rows():
    fitted = [MarginClassifier(early_stop=2, random_state=seed).fit(X, Y).coef_ for seed in (0, 0, 1)]
    np.testing.assert_array_equal(fitted[0], fitted[1])
    assert (fitted[0] != fitted[2]).any()


@pytest.mark.parametrize("fraction", [0.0, 1.0, "much", True, np.nan, 1e-4])
def test_a_fraction_that_holds_out_nothing_is_refused(fraction):
    with pytest.raises(sm.UsageError, match="validation_fraction"):
        MarginClassifier(early_stop=2, validation_fraction=fraction).fit(X, Y)


def test_files_are_refused_by_what_to_do_instead(tmp_path):
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(sm.UsageError, match=r"streammargin-data split.*valid"):
        MarginClassifier(early_stop=2).fit(str(tmp_path / "X.npy"), Y)


def test_batches_are_learned_as_without_it():
    one, other = MarginClassifier(solver="perceptron", early_stop=2), MarginClassifier(solver="perceptron")
    np.testing.assert_array_equal(one.partial_fit(X, Y).coef_, other.partial_fit(X, Y).coef_)


@pytest.mark.parametrize("rows", [X, sp.csr_matrix(X)], ids=["dense", "sparse"])
def test_a_kernel_machine_is_train_with_the_rows_that_it_holds_out(rows):
    machine = clone(KernelMarginClassifier(C=100.0, tol=1e-9, early_stop=1, validation_fraction=0.3, random_state=4))
    assert machine.get_params()["validation_fraction"] == 0.3
    out = held_out(Y, None, 0.3, 4, classes=True)
    machine.fit(rows, Y)
    result = sm.train(
        (rows[~out], Y[~out]), kernel="rbf", C=100.0, tol=1e-9, valid=(rows[out], Y[out]), early_stop=1, seed=4
    )
    assert machine.n_iter_ == result.passes
    np.testing.assert_array_equal(machine.decision_function(rows), result.model.decision_function(rows))
    np.testing.assert_allclose(machine.certificate_.valid_error, 1.0 - machine.score(rows[out], Y[out]))
    assert not out[machine.support_].any() and (machine.support_vectors_ != rows[machine.support_]).sum() == 0
    _, counts = np.unique(Y[machine.support_], return_counts=True)
    assert machine.n_support_.tolist() == counts.tolist()


def test_a_kernel_regressor_holds_out_rows_too():
    machine = KernelMarginRegressor(early_stop=2, C=10.0, tol=1e-6).fit(X, NUMBERS)
    out = held_out(NUMBERS, None, 0.1, 0, classes=False)
    errors = np.maximum(np.abs(machine.predict(X[out]) - NUMBERS[out]) - 0.1, 0.0)
    np.testing.assert_allclose(machine.certificate_.valid_error, errors.mean(), rtol=1e-9)
    np.testing.assert_array_equal(machine.support_vectors_, X[machine.support_])


def test_a_precomputed_matrix_is_not_split():
    with pytest.raises(sm.UsageError, match=r"does not split a precomputed matrix; leave it out, or call .*train with"):
        KernelMarginClassifier(kernel="precomputed", early_stop=2).fit(X @ X.T, Y)
    out, K = held_out(Y, None, 0.2, 0, classes=True), X @ X.T
    kept, valid = (K[np.ix_(~out, ~out)], Y[~out]), (K[np.ix_(out, ~out)], Y[out])
    assert sm.train(kept, kernel="precomputed", valid=valid, early_stop=2).certificate.valid_error is not None
