"""The estimators of kernel machines: scikit-learn's checks, and its own machines."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from reference.suite import suite
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR

import streammargin as sm


def rows(n=200):
    random = np.random.default_rng(0)
    X = random.standard_normal((n, 4))
    numbers = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 - 1.0 + 0.2 * random.standard_normal(n)
    return X, numbers


WEIGHTS = "two trainings agree to `tol`, and gamma is that of the rows as given, as in SVC"
FAILURES = dict.fromkeys(
    ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"], WEIGHTS
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@suite(
    sm.KernelMarginClassifier(),
    sm.KernelMarginRegressor(),
    sm.KernelMarginClassifier(kernel="poly:2,coef0=1", C=0.1),
    expected_failures=lambda estimator: FAILURES,
)
def test_scikit_learn_suite(estimator, check):
    check(estimator)


def test_the_classifier_is_SVC():
    X, numbers = rows()
    y = np.where(numbers > 0.0, "up", "down")
    ours, peer = sm.KernelMarginClassifier(C=3.0, tol=1e-9).fit(X, y), SVC(C=3.0, tol=1e-8).fit(X, y)
    assert np.allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-3)
    assert np.array_equal(ours.predict(X), peer.predict(X)) and ours.score(X, y) == peer.score(X, y)
    assert ours.n_support_.sum() == ours.support_.size and np.abs(ours.n_support_ - peer.n_support_).max() <= 1
    assert np.array_equal(ours.support_vectors_, X[ours.support_])
    assert ours.dual_coef_.shape == (1, ours.support_.size) and abs(ours.dual_coef_.sum()) < 1e-9
    again = pickle.loads(pickle.dumps(ours))
    assert np.array_equal(again.decision_function(X), ours.decision_function(X))
    assert not hasattr(ours, "sparsify") and not hasattr(ours, "coef_")


def test_the_regressor_is_SVR():
    X, numbers = rows()
    ours, peer = sm.KernelMarginRegressor(C=2.0, tol=1e-9).fit(X, numbers), SVR(C=2.0, tol=1e-8).fit(X, numbers)
    assert np.allclose(ours.predict(X), peer.predict(X), atol=1e-3)
    assert ours.score(X, numbers) == pytest.approx(peer.score(X, numbers), abs=1e-4)


def test_fields_of_the_kernel_are_parameters():
    X, numbers = rows(90)
    y = numbers > 0.0
    made = sm.KernelMarginClassifier(kernel="rbf:0.5")
    assert made.get_params()["kernel__gamma"] == 0.5
    other = clone(made).set_params(kernel__gamma=2.0)
    assert str(other.kernel) == "rbf:2,weight=1" and made.kernel == "rbf:0.5"
    both = sm.KernelMarginClassifier(kernel=sm.kernels.Rbf(0.5) + sm.kernels.Linear(weight=0.1))
    assert clone(both).kernel == both.kernel and clone(both).kernel is not both.kernel
    assert "kernel__weight" not in both.get_params() and clone(both.fit(X, y)).fit(X, y).score(X, y) > 0.6
    search = GridSearchCV(made, {"kernel__gamma": [0.1, 1.0], "C": [1.0, 10.0]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.6


def test_sparse_rows_precomputed_values_and_files(tmp_path):
    X, numbers = rows()
    y = np.where(numbers > 0.0, 1, 0)
    whole = sm.KernelMarginClassifier(kernel="rbf:0.5", tol=1e-8).fit(X, y)
    sparse = sm.KernelMarginClassifier(kernel="rbf:0.5", tol=1e-8).fit(sp.csr_matrix(X), y)
    assert np.allclose(sparse.decision_function(sp.csr_matrix(X)), whole.decision_function(X), atol=1e-5)
    assert sp.issparse(sparse.support_vectors_)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    given = sm.KernelMarginClassifier(kernel="precomputed", tol=1e-8).fit(K, y)
    assert np.allclose(given.decision_function(K), whole.decision_function(X), atol=1e-5)
    path = str(tmp_path / "rows.h5")
    sm.write_hdf5([(X, y)], path)
    score = sm.KernelMarginClassifier(kernel="rbf:0.5", tol=1e-8).fit(path).score(path)
    assert score == pytest.approx(whole.score(X, y))


def test_columns_of_y_are_trained_as_by_train():
    X = np.random.default_rng(0).standard_normal((60, 3))
    targets = np.column_stack([np.sin(X[:, 0]), X[:, 1]])
    machine = sm.KernelMarginRegressor(kernel="rbf:0.5", tol=1e-8).fit(X, targets)
    model = sm.train((X, targets), kernel="rbf:0.5", loss="epsilon_insensitive:0.1", tol=1e-8).model
    np.testing.assert_allclose(machine.predict(X), model.predict(X), atol=1e-4)
    assert machine.dual_coef_.shape == (2, machine.support_.size) and machine.intercept_.shape == (2,)
    labels = (targets > 0.0).astype(int)
    classifier = sm.KernelMarginClassifier(kernel="rbf:0.5").fit(X, labels)
    assert classifier.predict(X).shape == (60, 2) and classifier.score(X, labels) > 0.9
    assert classifier.n_support_.tolist() == [classifier.support_.size]
