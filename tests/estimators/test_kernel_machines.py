"""The estimators of kernel machines, beside scikit-learn's own machines."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_selection import RFE
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR

import streammargin as sm


def rows(n=200):
    random = np.random.default_rng(0)
    X = random.standard_normal((n, 4))
    numbers = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 - 1.0 + 0.2 * random.standard_normal(n)
    return X, numbers


@pytest.mark.parametrize("estimator", [sm.KernelMarginClassifier, sm.KernelMarginRegressor])
def test_no_kernel_is_refused(estimator):
    with pytest.raises(sm.UsageError, match="kernel is None; give one, as kernel="):
        estimator(kernel=None).fit(np.eye(4), [0, 1, 0, 1])


def test_a_loss_of_the_other_kind_names_the_kernel_estimator():
    with pytest.raises(sm.UsageError, match=r"for classes; use KernelMarginRegressor with loss epsilon_insensitive"):
        sm.KernelMarginClassifier(loss="epsilon_insensitive").fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(sm.UsageError, match=r"for numbers; use KernelMarginClassifier with loss hinge"):
        sm.KernelMarginRegressor(loss="hinge").fit(np.eye(4), [0.0, 1.0, 0.0, 1.0])


def test_a_margin_of_all_classes_without_a_constant_is_told_by_the_parameter():
    X = np.eye(6)
    y = [0, 1, 2, 0, 1, 2]
    machine = sm.KernelMarginClassifier(C=np.inf, multiclass="joint")
    with pytest.raises(sm.UsageError, match=r'without a constant; use multiclass="ovr", or fit_intercept=False$'):
        machine.fit(X, y)
    assert machine.set_params(fit_intercept=False).fit(X, y).score(X, y) == 1.0


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
    search = GridSearchCV(made, {"kernel__gamma": [0.1, 1.0], "C": [1.0, 10.0]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.6


def test_fields_of_the_parts_of_a_sum_are_parameters():
    X, numbers = rows(90)
    y = numbers > 0.0
    shared = sm.kernels.Rbf(0.5) + sm.kernels.Linear(weight=0.1)
    both = sm.KernelMarginClassifier(kernel=shared)
    assert clone(both).kernel == shared and clone(both).kernel.parts[0] is not shared.parts[0]
    own = {name: value for name, value in both.get_params().items() if name.startswith("kernel__")}
    assert own == {"kernel__k1__gamma": 0.5, "kernel__k1__weight": 1.0, "kernel__k2__weight": 0.1}
    search = GridSearchCV(both, {"kernel__k1__gamma": [1e-4, 1.0], "kernel__k2__weight": [0.1]}, cv=2).fit(X, y)
    assert search.best_params_["kernel__k1__gamma"] == 1.0 and search.best_estimator_.kernel.parts[0].gamma == 1.0
    plain = [sm.KernelMarginClassifier(kernel=f"rbf:{gamma}+linear:weight=0.1") for gamma in (1e-4, 1.0)]
    scores = [GridSearchCV(one, {}, cv=2).fit(X, y).best_score_ for one in plain]
    assert scores == search.cv_results_["mean_test_score"].tolist() and scores[0] < scores[1]
    assert plain[0].set_params(kernel__k2__weight=2.0).kernel == sm.kernels.Rbf(1e-4) + sm.kernels.Linear(weight=2.0)
    assert shared == sm.kernels.Rbf(0.5) + sm.kernels.Linear(weight=0.1), "it is shared"
    for name in ("weight", "k3__gamma", "k2__gamma"):
        with pytest.raises(ValueError, match=f"a sum of kernels has no parameter {name}; it has .'k1__gamma'"):
            both.set_params(**{f"kernel__{name}": 3})


def test_a_sum_is_shown_and_checked_by_its_parts():
    k = sm.kernels
    both = k.Rbf(0.1) + k.Poly(2, weight=3.0)
    assert eval(repr(both), {"Rbf": k.Rbf, "Poly": k.Poly}) == both
    assert "kernel=Rbf(" in repr(sm.KernelMarginClassifier(kernel=both))
    assert k.KernelSum(both, k.Linear()) == both + k.Linear() != both
    data = np.eye(2), [0, 1]
    assert sm.train(data, kernel=k.KernelSum(k.Rbf(1.0))).model.header["kernel"] == "rbf:1,weight=1"
    wrong = k.Rbf("x") + k.Linear(), k.KernelSum(k.Linear(), k.Precomputed())
    for kernel, why in zip(wrong, ("or scale, not 'x'; rbf has gamma", "cannot be combined"), strict=True):
        with pytest.raises(sm.UsageError, match=why) as found:
            sm.train(data, kernel=kernel)
        assert "sum" not in str(found.value)
    with pytest.raises(AttributeError, match="weight"):  # each part has its own
        both.weight = 2.0


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


@pytest.mark.parametrize("scale", ["none", "std"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kernel", ["linear", "linear:weight=2+linear"])
def test_a_linear_kernel_has_the_weights_of_its_columns(kernel, form, scale):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)) + 1.0
    for machine, y in (
        (sm.KernelMarginClassifier, X[:, 0] > 1.0), (sm.KernelMarginClassifier, np.digitize(X[:, 0], [0.5, 1.5])),
        (sm.KernelMarginRegressor, X @ [1.0, 2.0, 0.0, 0.0]),
    ):  # fmt: skip
        found = machine(kernel=kernel, scale=scale).fit(form(X), y)
        scores = found.predict(form(X)) if machine is sm.KernelMarginRegressor else found.decision_function(form(X))
        assert found.coef_.shape == (found.intercept_.size, 4)
        np.testing.assert_allclose((X @ found.coef_.T + found.intercept_).squeeze(), scores, atol=1e-9)
    assert RFE(machine(kernel="linear"), n_features_to_select=2).fit(X, y).support_.tolist() == [
        True,
        True,
        False,
        False,
    ]


def test_no_other_kernel_has_them():
    X = np.random.default_rng(0).standard_normal((30, 3))
    found = sm.KernelMarginClassifier(kernel="rbf")
    assert not hasattr(found, "coef_") and not hasattr(found.fit(X, X[:, 0] > 0), "coef_")
    with pytest.raises(AttributeError, match="the kernel rbf has no coef_; kernel='linear' has"):
        found.coef_  # noqa: B018
