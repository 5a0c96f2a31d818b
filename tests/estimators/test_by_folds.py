"""Estimators that choose C by folds, beside scikit-learn's."""

import numpy as np
import pytest
from reference.suite import suite
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit, cross_val_score
from sklearn.svm import SVC

from streammargin import KernelMarginClassifierCV, MarginClassifier, MarginClassifierCV, MarginRegressorCV
from streammargin.errors import UsageError

random = np.random.default_rng(3)
X = random.normal(size=(240, 6))
Y = np.where(X[:, 0] + random.normal(size=240) > 0.0, "yes", "no")
CLASSES = np.argmax(X[:, :3] + random.normal(size=(240, 3)), axis=1)
NUMBERS = X @ np.arange(6.0) + 2.0 * random.normal(size=240) + 5.0
CS = [0.01, 0.1, 1.0]
WEIGHTS = dict.fromkeys(
    ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
    "two trainings agree to `tol`, and gamma is that of the rows as given, as in SVC",
)


@suite(
    MarginClassifierCV(Cs=CS, cv=3),
    MarginRegressorCV(Cs=CS, cv=3),
    KernelMarginClassifierCV(Cs=CS, cv=3),
    expected_failures=lambda estimator: WEIGHTS if isinstance(estimator, KernelMarginClassifierCV) else {},
)
def test_estimator(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of scikit-learn's search
@pytest.mark.parametrize("y", [Y, CLASSES], ids=["two", "three"])
def test_scores_and_weights_are_those_of_logistic_regression_cv(y):
    ours = MarginClassifierCV(Cs=CS, cv=4, loss="logistic", bias="free", tol=1e-9).fit(X, y)
    theirs = LogisticRegressionCV(Cs=CS, cv=4, tol=1e-10, max_iter=10**4, scoring="accuracy").fit(X, y)
    np.testing.assert_allclose(ours.scores_, next(iter(theirs.scores_.values())).reshape(4, 3))
    assert pytest.approx(float(np.ravel(theirs.C_)[0])) == ours.C_ and ours.Cs_.tolist() == CS
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert ours.coefs_paths_.shape == (4, 3, *ours.coef_.shape)
    assert ours.intercepts_paths_.shape == (4, 3, *ours.intercept_.shape)
    for at, paths in enumerate(theirs.coefs_paths_.values()):
        np.testing.assert_allclose(ours.coefs_paths_[:, :, at], paths[..., :-1], atol=1e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_another_scorer_chooses_another_c_and_scores_each_fold():
    ours = MarginClassifierCV(Cs=CS, cv=3, scoring="roc_auc", tol=1e-8).fit(X, Y)
    for k, C in enumerate(CS):
        wanted = cross_val_score(MarginClassifier(C, tol=1e-8), X, Y, cv=3, scoring="roc_auc")
        np.testing.assert_allclose(ours.scores_[:, k], wanted, atol=1e-3)
    assert CS[np.argmax(ours.scores_.mean(axis=0))] == ours.C_
    np.testing.assert_allclose(ours.coef_, MarginClassifier(ours.C_, tol=1e-8).fit(X, Y).coef_, atol=1e-4)
    worst = MarginClassifierCV(Cs=CS, cv=3, scoring=lambda model, X, y: -np.abs(model.coef_).sum()).fit(X, Y)
    assert CS[0] == worst.C_ and np.abs(worst.coef_).sum() < np.abs(ours.coef_).sum() + 1e-9


@pytest.mark.filterwarnings("error:X does not have valid feature names")
def test_a_scorer_of_a_frame_warns_of_no_names():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(np.random.default_rng(0).standard_normal((60, 2)), columns=["a", "b"])
    fitted = MarginClassifierCV(Cs=[0.1, 1.0], cv=3, scoring="roc_auc").fit(X, X["a"] > 0.0)
    assert fitted.feature_names_in_.tolist() == ["a", "b"] and fitted.scores_.shape == (3, 2)


def test_a_regressor_has_the_scores_of_its_folds():
    ours = MarginRegressorCV(Cs=CS, cv=KFold(4), tol=1e-9).fit(X, NUMBERS)
    search = GridSearchCV(RidgeCV([1.0]), {"alphas": [[1.0 / C] for C in CS]}, cv=KFold(4)).fit(X, NUMBERS)
    for fold in range(4):
        np.testing.assert_allclose(ours.scores_[fold], search.cv_results_[f"split{fold}_test_score"], rtol=1e-6)
    np.testing.assert_allclose(ours.coef_, search.best_estimator_.coef_, rtol=1e-4)
    assert ours.coef_.shape == (6,) and isinstance(ours.intercept_, float)


def test_a_kernel_machine_has_the_scores_of_svc():
    ours = KernelMarginClassifierCV(Cs=CS, cv=KFold(4), kernel="rbf:0.2", tol=1e-7).fit(X, CLASSES > 0)
    search = GridSearchCV(SVC(gamma=0.2, tol=1e-8), {"C": CS}, cv=KFold(4)).fit(X, CLASSES > 0)
    for fold in range(4):
        np.testing.assert_allclose(ours.scores_[fold], search.cv_results_[f"split{fold}_test_score"])
    assert search.best_params_["C"] == ours.C_
    np.testing.assert_array_equal(ours.predict(X), search.predict(X))
    by_auc = KernelMarginClassifierCV(Cs=CS, cv=KFold(4), kernel="rbf:0.2", tol=1e-7, scoring="roc_auc")
    wanted = GridSearchCV(SVC(gamma=0.2, tol=1e-8), {"C": CS}, cv=KFold(4), scoring="roc_auc").fit(X, CLASSES > 0)
    np.testing.assert_allclose(
        by_auc.fit(X, CLASSES > 0).scores_.mean(axis=0), wanted.cv_results_["mean_test_score"], atol=1e-3
    )


def test_words_of_folds_name_the_splitter():
    with pytest.raises(UsageError, match=r"not '5,by=user'; for folds by a column give cv=GroupKFold\(5\)"):
        MarginClassifierCV(cv="5,by=user").fit(X, Y)


def test_groups_go_to_the_splitter():
    groups = np.arange(240) % 7
    given = MarginClassifierCV(Cs=CS, cv=list(GroupKFold(3).split(X, Y, groups))).fit(X, Y)
    ours = MarginClassifierCV(Cs=CS, cv=GroupKFold(3)).fit(X, Y, groups=groups)
    np.testing.assert_array_equal(ours.scores_, given.scores_)
    assert "_groups" not in vars(ours)


def test_the_smallest_c_within_a_standard_error_is_taken():
    best, small = (MarginClassifierCV(cv=5, rule=rule).fit(X, Y) for rule in ("best", "1se"))
    mean, error = best.scores_.mean(axis=0), best.scores_.std(axis=0, ddof=1) / np.sqrt(5)
    top = int(np.lexsort((best.Cs_, -mean))[0])
    assert best.Cs_[top] == best.C_ and len(best.Cs_) == 13
    assert small.C_ == best.Cs_[mean >= mean[top] - error[top]].min() <= best.C_


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of scikit-learn's search
@pytest.mark.parametrize("make", [MarginClassifierCV, MarginRegressorCV, KernelMarginClassifierCV])
def test_a_number_of_values_is_the_grid_of_scikit_learn(make):
    y, options = NUMBERS if make is MarginRegressorCV else Y, {"cv": 3, "tol": 0.1}
    ours = make(Cs=np.int64(3), **options).fit(X[:90], y[:90])
    theirs = LogisticRegressionCV(Cs=3, cv=3).fit(X[:90], Y[:90])
    np.testing.assert_allclose(ours.Cs_, theirs.Cs_, rtol=1e-15)
    listed = make(Cs=theirs.Cs_.tolist(), **options).fit(X[:90], y[:90])
    np.testing.assert_array_equal(ours.scores_, listed.scores_)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cv": ShuffleSplit(3, random_state=0)}, "GridSearchCV"),
        ({"rule": "most"}, "best or 1se"),
        *(({"Cs": Cs}, f"how many to try, or None, not {Cs}") for Cs in (0, 0.5, True)),
    ],
)
def test_what_is_no_fold_or_no_list_is_refused(given, said):
    with pytest.raises(UsageError, match=said):
        MarginClassifierCV(**given).fit(X, Y)
    assert not hasattr(MarginClassifierCV(), "partial_fit")
    with pytest.raises(UsageError, match="takes arrays"):
        MarginClassifierCV().fit("rows.h5")
