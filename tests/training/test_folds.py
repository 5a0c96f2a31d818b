"""Folds as trials: errors beside scikit-learn's on the same splits, and models beside trainings with weights of 0."""

import io
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from reference.stopped import stop_after
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, ShuffleSplit, TimeSeriesSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC, SVR, LinearSVC

import streammargin as sm
from streammargin.errors import DataError, UsageError
from streammargin.options.table import Options
from streammargin.points.mapped import taken_apart
from streammargin.saved.words import left_out
from streammargin.sinks.console import Console
from streammargin.solvers.newton import subproblem
from streammargin.solvers.problem import Tried, smallest
from streammargin.sources.open import opened
from streammargin.training.folds import Dealt, GroupedFolds, Stretches, digests_of
from streammargin.training.grid import GRIDS, grid_of

CS = [0.01, 0.1, 1.0]
random = np.random.default_rng(7)
N = 300
X = random.normal(size=(N, 5))
FOUR = np.argmax(X[:, :4] + 1.2 * random.normal(size=(N, 4)), axis=1)
TWO = (X[:, 0] + random.normal(size=N) > 0).astype(int)
NUMBERS = 2.0 * X[:, 0] + random.normal(size=N) + 3.0
FOLDS = random.integers(0, 4, N)


def errors_of(make, y, loss=lambda found, y: found != y):
    """The errors (folds, values of C) by scikit-learn on these folds; loss: of each row."""
    found = np.zeros((4, len(CS)))
    for fold in range(4):
        out = fold == FOLDS
        for k, C in enumerate(CS):
            found[fold, k] = np.mean(loss(make(C).fit(X[~out], y[~out]).predict(X[out]), y[out]))
    return found


def halved_square(found, y):
    return (found - y) ** 2 / 2.0


PEERS = {  # the labels, our options, and the estimator of scikit-learn at C
    "hinge": (TWO, {"loss": "hinge"}, lambda C: LinearSVC(C=C, loss="hinge", tol=1e-9, max_iter=10**6)),
    "logistic": (TWO, {"loss": "logistic"}, lambda C: LogisticRegression(C=C, solver="liblinear", tol=1e-9)),
    "classes": (FOUR, {"loss": "squared_hinge"}, lambda C: LinearSVC(C=C, dual=False, tol=1e-10)),
    "softmax": (
        FOUR,
        {"loss": "logistic", "bias": 0},
        lambda C: LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10**4),
    ),
    "balanced": (
        (FOUR == 3).astype(int),
        {"loss": "squared_hinge", "class_weight": "balanced"},
        lambda C: LinearSVC(C=C, dual=False, tol=1e-10, class_weight="balanced"),
    ),
    "numbers": (NUMBERS, {"loss": "squared_error", "bias": 0}, lambda C: Ridge(alpha=1.0 / C, fit_intercept=False)),
}


@cache
def errors_of_peer(case):
    y, _, make = PEERS[case]
    return errors_of(make, y, *[halved_square] * (case == "numbers"))


PAIRS = [(case, solver) for case in PEERS for solver in ("newton", "ascent", "sdca", "asdca", "pdprox")]


@pytest.mark.parametrize(("case", "solver"), [pair for pair in PAIRS if pair != ("softmax", "asdca")])
def test_errors_are_those_of_scikit_learn_on_the_same_splits(case, solver):
    y, options, _ = PEERS[case]
    tol = 1e-7  # at 1e-6 a row of a fold may be on either side
    result = sm.train((X, y), C=CS, cv=FOLDS, solver=solver, tol=tol, passes=20000, **options)
    found, wanted = result.cross_validation, errors_of_peer(case)
    # a gap of 1e-7 moves predictions by up to its root
    np.testing.assert_allclose(found.errors, wanted, rtol=tol**0.5 if case == "numbers" else 0.0, atol=1e-12)
    np.testing.assert_allclose(found.mean, found.errors.mean(axis=0))
    np.testing.assert_allclose(found.se, found.errors.std(axis=0, ddof=1) / 2.0)
    assert found.gaps.max() <= tol * (10 if solver == "asdca" else 1) and found.Cs.tolist() == CS
    assert found.best == np.argmin(wanted.mean(axis=0)) and result.run_end["C"] == CS[found.best]
    plain = sm.train((X, y), C=CS[found.best], solver=solver, tol=tol, passes=20000, **options)
    np.testing.assert_allclose(result.model.coef_, plain.model.coef_, atol=1e-3 * np.abs(plain.model.coef_).max())
    assert result.certificate.valid_error == pytest.approx(found.mean.min())


@pytest.mark.parametrize("solver", ["newton", "pdprox"])
def test_errors_with_a_free_constant_are_those_of_scikit_learn(solver):
    options = {"C": CS, "bias": "free", "cv": FOLDS, "tol": 1e-8, "solver": solver, "passes": 20000}
    softmax = sm.train((X, FOUR), loss="logistic", **options).cross_validation
    wanted = errors_of(lambda C: LogisticRegression(C=C, tol=1e-10, max_iter=10**4), FOUR)
    np.testing.assert_allclose(softmax.errors, wanted, atol=1e-12)
    numbers = sm.train((X, NUMBERS), loss="squared_error", **options).cross_validation
    wanted = errors_of(lambda C: Ridge(alpha=1.0 / C), NUMBERS, halved_square)
    np.testing.assert_allclose(numbers.errors, wanted, rtol=1e-4)


KERNELS = {  # the labels, our options, the estimator of scikit-learn at C, and the loss of a row if it is of numbers
    "two classes": (TWO, {}, lambda C: SVC(C=C, gamma=0.1, tol=1e-8)),
    "several classes": (FOUR, {}, lambda C: OneVsRestClassifier(SVC(C=C, gamma=0.1, tol=1e-8))),
    "tube": (
        NUMBERS,
        {"loss": "epsilon_insensitive:0.3"},
        lambda C: SVR(C=C, gamma=0.1, epsilon=0.3, tol=1e-8),
        lambda found, y: np.maximum(np.abs(found - y) - 0.3, 0.0),
    ),
    "numbers": (
        NUMBERS,
        {"loss": "squared_error", "bias": 0},
        lambda C: KernelRidge(alpha=1.0 / C, kernel="rbf", gamma=0.1),
        halved_square,
    ),
}


@pytest.mark.parametrize("case", KERNELS)
def test_errors_of_a_kernel_machine_are_those_of_scikit_learn(case):
    y, options, make, *loss = KERNELS[case]
    options = {"C": CS, "kernel": "rbf:0.1", "cv": FOLDS, "tol": 1e-7, "passes": 20000, **options}
    found = sm.train((X, y), **options).cross_validation
    np.testing.assert_allclose(found.errors, errors_of(make, y, *loss), atol=1e-4 if loss else 1e-12)


CASES = {
    "hinge": (TWO, {"loss": "hinge"}),
    "joint hinge": (FOUR, {"loss": "hinge", "multiclass": "joint"}),
    "softmax": (FOUR, {"loss": "logistic"}),
    "l1": (TWO, {"loss": "logistic", "penalty": "l1"}),
    "groups": (TWO, {"loss": "logistic", "penalty": sm.penalties.Group(np.array([0, 0, 1, 1, 2]))}),
    "huber": (NUMBERS, {"loss": "huber:1", "bias": 0}),
    "absolute": (NUMBERS, {"loss": "absolute_error", "bias": 0}),
}
SOLVERS = {
    "l1": ["newton", "pdprox"],
    "groups": ["newton", "pdprox"],
    "huber": ["newton", "ascent", "pdprox"],
    "absolute": ["newton", "pdprox"],
}


TRIAL_WEIGHTS = np.random.default_rng(1).choice([0.0, 0.5, 2.0], N, p=[0.1, 0.4, 0.5])
CLOSE = {"tol": 1e-6, "passes": 5000}


@cache
def alone(case, solver, fold, C):
    """The weights without the rows of the fold."""
    y, options = CASES[case]
    weights = np.where(fold == FOLDS, 0.0, TRIAL_WEIGHTS)
    return np.atleast_2d(sm.train((X, y), C=C, solver=solver, sample_weight=weights, **CLOSE, **options).model.coef_)


@pytest.mark.parametrize("way", ["memory", "disk"])
@pytest.mark.parametrize(
    ("case", "solver"), [(c, s) for c in CASES for s in SOLVERS.get(c, ["newton", "ascent", "pdprox"])]
)
def test_a_trial_is_the_training_in_which_the_rows_of_its_fold_have_no_weight(case, solver, way, tmp_path):
    y, options = CASES[case]
    data = (X, y)
    if way == "disk":
        sm.write_hdf5([(X, y)], tmp_path / "rows.h5")
        data = str(tmp_path / "rows.h5")
    options = {**options, **CLOSE, "solver": solver, "memory": "1G"}
    result = sm.train(data, C=[0.1, 1.0], cv=FOLDS, sample_weight=TRIAL_WEIGHTS, **options)
    w, lines = result.trials.w, len(np.atleast_2d(result.model.coef_))
    for trial in range(10):
        found = w[trial * lines : (trial + 1) * lines, :-1]
        wanted = alone(case, solver, trial // 2, [0.1, 1.0][trial % 2])
        np.testing.assert_allclose(found, wanted, atol=0.02 * np.abs(wanted).max())


@pytest.mark.parametrize("word", ["rff:40,gamma=0.1", "nystroem:25,kernel=rbf:0.1"])
def test_trials_behind_a_map_are_trainings_of_scikit_learn_on_the_rows_that_it_makes(word):
    """The map is one for all folds, as it is made of all rows."""
    result = sm.train((X, TWO), C=CS, cv=FOLDS, map=word, loss="squared_hinge", tol=1e-8)
    made = result.model.to_sklearn()[:-1].transform(X)
    _, coef, _ = taken_apart(result.trials)
    for trial in range(15):
        fold, k = divmod(trial, 3)
        out = fold == FOLDS
        alone = LinearSVC(C=CS[k], dual=False, tol=1e-10).fit(made[~out], TWO[~out])
        np.testing.assert_allclose(coef[trial], alone.coef_[0], atol=1e-3 * np.abs(alone.coef_).max())
        if fold < 4:
            wrong = np.mean(alone.predict(made[out]) != TWO[out])
            assert result.cross_validation.errors[fold, k] == pytest.approx(wrong, abs=1e-12)


def test_errors_of_a_precomputed_kernel_are_those_of_scikit_learn():
    K = rbf_kernel(X, gamma=0.1)
    found = sm.train((K, TWO), C=CS, kernel="precomputed", cv=FOLDS, tol=1e-7, passes=20000).cross_validation
    np.testing.assert_allclose(found.errors, errors_of(lambda C: SVC(C=C, gamma=0.1, tol=1e-8), TWO), atol=1e-12)


@pytest.mark.parametrize("solver", ["newton", "ascent"])
def test_the_number_of_threads_changes_no_bit_of_a_trial(solver, tmp_path):
    many = np.random.default_rng(2).normal(size=(6000, 5))
    sm.write_hdf5([(many, (many[:, 0] + many[:, 1] ** 2 > 0.5).astype(int))], tmp_path / "rows.h5")
    options = {"C": CS, "cv": 3, "solver": solver, "loss": "logistic", "memory": "1G"}
    one, two = (sm.train(str(tmp_path / "rows.h5"), threads=threads, **options) for threads in (1, 2))
    assert one.cross_validation.errors.tobytes() == two.cross_validation.errors.tobytes()
    assert one.trials.w.tobytes() == two.trials.w.tobytes()


def test_each_row_counts_once_in_errors_and_rows_of_weight_0_do_not():
    weights = np.where(random.random(N) < 0.2, 0.0, 3.0)
    result = sm.train((X, TWO), C=1.0, cv=FOLDS, sample_weight=weights)
    for fold in range(4):
        coef, constant = result.trials.w[fold, :-1], result.trials.w[fold, -1]
        here = (fold == FOLDS) & (weights > 0.0)
        wrong = np.mean((X[here] @ coef + constant > 0.0) != TWO[here])
        assert result.cross_validation.errors[fold, 0] == pytest.approx(wrong)


def test_certificates_say_which_fold_they_are_of_and_count_its_rows_alone():
    result = sm.train((X, TWO), C=CS, cv=FOLDS)
    told = [event for event in result.history if event["event"] == "certificate"][-15:]
    assert [event["fold"] for event in told] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3 + [None] * 3
    for event in told:
        rows = np.count_nonzero(event["fold"] != FOLDS)
        assert event["train_error"] == pytest.approx(event["mistakes"] / rows)
    assert [one["C"] for one in result.run_end["trials"]] == CS
    assert result.run_end["trials"][0]["folds"] == result.cross_validation.errors[:, 0].tolist()


# the fold of each row


@pytest.mark.parametrize("count", [2, 3, 7])
def test_rows_are_dealt_to_folds_of_one_size_and_from_any_place(count):
    every = Dealt(1000, count, 3)[0:1000]
    sizes = np.bincount(every, minlength=count)
    assert sizes.max() - sizes.min() <= 1
    for first, stop in ((0, 1), (17, 18), (250, 777), (999, 1000)):
        np.testing.assert_array_equal(Dealt(1000, count, 3)[first:stop], every[first:stop])
    assert np.any(Dealt(1000, count, 4)[0:1000] != every)
    sorted_rows = np.arange(1000) >= 500  # a file sorted by class
    assert all(abs(np.mean(sorted_rows[every == fold]) - 0.5) < 0.01 for fold in range(count))
    np.testing.assert_array_equal(left_out(0, 1000, count, 3), every == 0)
    np.testing.assert_array_equal(left_out(123, 77, count, 3), every[123:200] == 0)


def test_stretches_of_rows_are_those_of_time_series_splits():
    splits = list(TimeSeriesSplit(4).split(np.zeros((100, 1))))
    folds = Stretches(100, 5, -1, 4)[0:100]
    for fold, (train, test) in enumerate(splits):
        np.testing.assert_array_equal(np.flatnonzero(folds == fold), test)
        np.testing.assert_array_equal(np.flatnonzero((folds == 4) | (folds < fold)), train)


def test_rows_before_judge_later_ones():
    result = sm.train((X, TWO), C=0.1, cv="4,order=past", tol=1e-8)
    for fold, (train, test) in enumerate(TimeSeriesSplit(4).split(X)):
        alone = sm.train((X[train], TWO[train]), C=0.1, tol=1e-8).model
        assert result.cross_validation.errors[fold, 0] == pytest.approx(np.mean(alone.predict(X[test]) != TWO[test]))


def test_groups_stay_together_as_group_k_fold_keeps_them(tmp_path):
    users = np.array([f"user {k}" for k in random.integers(0, 40, N)])
    deal = GroupedFolds(4, 0, np.unique(digests_of(np.unique(users), 0)))
    folds = deal(users)
    assert np.bincount([folds[users == one][0] for one in np.unique(users)]).tolist() == [10] * 4
    assert all(len(set(folds[users == one])) == 1 for one in np.unique(users))
    text = "user,a,b,y\n" + "".join(
        f"{u},{a:.6f},{b:.6f},{y}\n" for u, (a, b), y in zip(users, X[:, :2], TWO, strict=True)
    )
    (tmp_path / "t.csv").write_text(text)
    table = sm.train(str(tmp_path / "t.csv"), y="y", C=CS, cv="4,by=user", tol=1e-8, spool=str(tmp_path))
    assert table.model.feature_names_in_.tolist() == ["a", "b"]
    rounded = np.round(X[:, :2], 6).astype(np.float32)
    given = sm.train((rounded, TWO), C=CS, cv=folds, tol=1e-8)
    np.testing.assert_allclose(table.cross_validation.errors, given.cross_validation.errors)
    for wrong, said in (("nobody", "has no column nobody for `cv`; it has user"), ("y", "y is the label.*with `cv`")):
        with pytest.raises(UsageError, match=said.replace("`", "")):
            sm.train(str(tmp_path / "t.csv"), y="y", C=CS, cv=f"4,by={wrong}", spool=str(tmp_path))
    (tmp_path / "gap.csv").write_text(text.replace(users[0], "", 1))
    with pytest.raises(DataError, match=r"gap\.csv, line 2, column user: the value is missing"):
        sm.train(str(tmp_path / "gap.csv"), y="y", C=CS, cv="4,by=user", spool=str(tmp_path))
    by_splitter = sm.train((rounded, TWO), C=CS, tol=1e-8, cv=PredefinedSplit(folds))
    np.testing.assert_array_equal(by_splitter.cross_validation.errors, given.cross_validation.errors)


def test_splitters_of_scikit_learn_and_their_splits():
    groups = random.integers(0, 9, N)
    splits = list(GroupKFold(3).split(X, TWO, groups))
    numbers = np.zeros(N, int)
    for fold, (_, test) in enumerate(splits):
        numbers[test] = fold
    wanted = sm.train((X, TWO), C=CS, cv=numbers).cross_validation.errors
    np.testing.assert_array_equal(sm.train((X, TWO), C=CS, cv=splits).cross_validation.errors, wanted)
    never = np.where(random.random(N) < 0.3, -1, numbers)
    given = sm.train((X, TWO), C=CS, cv=never).cross_validation
    np.testing.assert_array_equal(
        sm.train((X, TWO), C=CS, cv=PredefinedSplit(never)).cross_validation.errors, given.errors
    )
    with pytest.raises(UsageError, match="GridSearchCV"):
        sm.train((X, TWO), C=CS, cv=ShuffleSplit(3))


def test_a_splitter_that_lacks_groups_or_rows_is_an_error_that_says_so():
    said = r"^GroupKFold .*give cv=list\(GroupKFold\(\.\.\.\)\.split\(X, y, groups\)\).* cv=\"4,by=COLUMN\"$"
    with pytest.raises(UsageError, match=said):
        sm.train((X, TWO), C=CS, cv=GroupKFold(4))
    with pytest.raises(UsageError, match=r"does not split these rows: .*400"):
        sm.train((X, TWO), C=CS, cv=KFold(400))


# the choice of C


def test_the_rule_1se_takes_the_smallest_C_within_a_standard_error():
    best, small = (sm.train((X, TWO), cv=f"5,rule={rule}") for rule in ("best", "1se"))
    found = best.cross_validation
    assert len(found.Cs) == 13 and found.mean[found.best] == found.mean.min()
    within = found.mean <= found.mean.min() + found.se[found.best]
    assert small.run_end["C"] == found.Cs[within].min() <= best.run_end["C"]
    lengths = np.mean(np.sum(X**2, axis=1)) + 1.0
    np.testing.assert_allclose(found.Cs * lengths, np.logspace(-4, 2, 13), rtol=0.01)


# of 600 rows a fold: 555, 549 and 549 wrong ones; the mean of the last column is smaller by rounding
TIED = np.array([[111, 111, 111, 111, 111], [110, 110, 110, 110, 109], [100, 100, 104, 108, 137]]).T / 600.0


@pytest.mark.parametrize("rule", ["best", "1se"])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_of_equal_errors_the_smallest_C_is_chosen_however_their_means_are_rounded(rule, order):
    mean, costs, errors = TIED.mean(axis=0), np.array([0.001, 0.1, 10.0])[order], TIED[:, order]
    assert mean[2] < mean[1]
    tried = Tried(3, 5, True, np.full(6, 2400), rule)
    every = np.concatenate([errors, errors.mean(axis=0)[None]]).ravel()
    # C = 0.001 is beyond a standard error of C = 0.1, and within one of C = 10
    assert costs[tried.chosen(every, costs) - 15] == 0.1
    scaled = np.concatenate([1e-9 * errors, 1e-9 * errors.mean(axis=0)[None]]).ravel()
    assert costs[tried.chosen(scaled, costs) - 15] == 0.1
    far = TIED + [0.0, 0.0, -1e-9]  # no rounding
    assert Tried(3, 5, False, np.full(5, 2400), "best").chosen(far.ravel(), np.array([0.001, 0.1, 10.0])) == 2
    search = sm.MarginClassifierCV(rule=rule)
    search.Cs_, search.scores_ = costs, 1.0 - errors
    assert costs[search._best()] == 0.1


def test_an_error_that_is_no_number_is_never_chosen():
    costs = np.array([0.1, 1.0])
    assert smallest(costs, np.array([np.nan, 2.0])) == 1 and smallest(costs, np.array([np.nan, np.nan])) == 0
    assert smallest(costs, np.array([np.inf, np.inf])) == 0 and smallest(costs, np.zeros(2)) == 0


def test_a_share_is_held_out_and_the_model_is_of_the_others(tmp_path):
    out = left_out(0, N, 5, 0)
    result = sm.train((X, TWO), C=CS, valid=0.2, tol=1e-8)
    alone = [sm.train((X[~out], TWO[~out]), C=C, tol=1e-8).model for C in CS]
    errors = [np.mean(one.predict(X[out]) != TWO[out]) for one in alone]
    assert result.certificate.valid_error == pytest.approx(min(errors))
    best = alone[CS.index(result.run_end["C"])]
    np.testing.assert_allclose(result.model.coef_, best.coef_, rtol=1e-3, atol=1e-4)
    assert result.certificate.mistakes == np.count_nonzero(result.model.predict(X[~out]) != TWO[~out])
    sm.write_hdf5([(X, TWO)], tmp_path / "rows.h5")
    same = sm.train(str(tmp_path / "rows.h5"), C=CS, valid="20%", tol=1e-8, memory="1G")
    assert same.certificate.valid_error == result.certificate.valid_error


@pytest.mark.parametrize("stop", [3, 11])
def test_a_training_that_is_stopped_goes_on_in_the_same_bits(stop, tmp_path):
    sm.write_hdf5([(X, FOUR)], tmp_path / "rows.h5")
    options = {"C": CS, "cv": 4, "loss": "logistic", "tol": 1e-5}
    straight = sm.train(str(tmp_path / "rows.h5"), **options, checkpoint=str(tmp_path / "other"))
    result = None
    while result is None or result.reason == "signal":
        result = sm.train(
            str(tmp_path / "rows.h5"), **options, checkpoint=str(tmp_path / "state"),
            should_stop=stop_after(stop),
        )  # fmt: skip
        assert result.history[0]["params"]["C"] == CS
        if result.reason == "signal":  # each C once, however many folds there are
            with pytest.raises(UsageError, match=rf"C {re.escape(str(CS))}, not 0.5"):
                sm.train(str(tmp_path / "rows.h5"), **{**options, "C": [0.5]}, checkpoint=str(tmp_path / "state"))
            with pytest.raises(UsageError, match="folds"):
                sm.train(str(tmp_path / "rows.h5"), **{**options, "cv": 5}, checkpoint=str(tmp_path / "state"))
    assert result.trials.w.tobytes() == straight.trials.w.tobytes()
    assert result.model.coef_.tobytes() == straight.model.coef_.tobytes()
    np.testing.assert_array_equal(result.cross_validation.errors, straight.cross_validation.errors)


REFUSED = {
    "cv is for listed.*path.*data split IN.h5 TRAIN.h5": {"C": "path:5", "cv": 5},
    "valid=0.2 is for listed.*path": {"C": "path:5", "valid": 0.2},
    "finite values": {"C": np.inf, "cv": 5},
    "early_stop": {"early_stop": 3, "cv": 5},
    "one of them": {"cv": 5, "valid": 0.2},
    "at least 2": {"cv": 1},
    'at least 2, not 1; folds are spelt cv=5, cv="5,by=NAME"': {"cv": "1"},
    "one column with": {"cv": 5, "y": "several"},
    "mirror does not support": {"cv": 5, "C": 1.0, "solver": "pegasos"},
    "by.*order": {"cv": "5,by=user,order=yes"},
    "too few for 400": {"cv": 400},
    "whole number": {"cv": np.zeros(5, int)},
    "up to 0.5": {"valid": 0.7},
    "share of the rows such as 20%": {"valid": "20"},
}


@pytest.mark.parametrize("held_out", [{"cv": 3}, {"valid": (X[:50], TWO[:50])}, {"valid": 0.2}])
def test_a_signal_before_the_held_out_errors_chooses_no_c(held_out, caplog):
    """It said that the smallest C was the best, and converged."""
    for units in range(1, 20):
        stream = io.StringIO()
        shown, stop = Console(stream=stream), stop_after(units)
        result = sm.train((X, TWO), C=[1e-6, 1.0], loss="logistic", should_stop=stop, listeners=[shown], **held_out)
        if result.run_end["trials"]:
            break
        caplog.clear()
    assert result.reason == "signal" and result.run_end["trials"][0]["valid_error"] is None
    (told,) = [record.getMessage() for record in caplog.records if record.code == "unchosen"]
    assert told.endswith("no C was chosen, and the model is that of C = 1e-06")
    assert "no C chosen, C 1e-06 kept" in stream.getvalue() and "best" not in stream.getvalue()
    assert "chosen\n" not in stream.getvalue()
    caplog.clear()
    assert sm.train((X, TWO), C=1.0, cv=3, loss="logistic", should_stop=stop_after(2)).reason == "signal"
    assert not [record for record in caplog.records if record.code == "unchosen"]  # there is one


@pytest.mark.parametrize("said", REFUSED)
def test_what_folds_do_not_have_is_said_by_name(said):
    options = dict(REFUSED[said])
    labels = np.stack([TWO, TWO], axis=1) if options.pop("y", None) else TWO
    if options.get("solver"):
        said = "does not support `cv`"
        said = said.replace("`", "")
    with pytest.raises((UsageError, DataError), match=said):
        sm.train((X, labels), **options)


def test_a_column_of_groups_that_is_not_there_is_named(tmp_path):
    sm.write_hdf5([(X, TWO)], str(tmp_path / "rows.h5"))
    with pytest.raises(DataError, match=r"no groups under the name obs/nothing.*cv=.K,by=NAME"):
        sm.train(str(tmp_path / "rows.h5"), C=CS, cv="5,by=obs/nothing")


def test_fewer_groups_than_folds_are_counted():
    with pytest.raises(DataError, match="has 3 groups, too few for 5 folds; give fewer in cv"):
        sm.train(pd.DataFrame({"a": X[:, 0], "user": np.arange(N) % 3, "y": TWO}), y="y", cv="5,by=user")


def test_a_fold_without_which_a_class_is_gone_is_an_error():
    y = np.where(np.arange(N) < 5, "rare", "usual")
    hint = "leave the rows of this class out, or give other folds in cv$"
    with pytest.raises(DataError, match=f"without fold 0 no row of the class rare is left to train on; {hint}"):
        sm.train((X, y), C=1.0, cv=np.where(np.arange(N) < 5, 0, 1))


def test_a_grid_has_as_many_values_as_memory_allows(tmp_path, caplog):
    """The range of C stays, and a warning tells of fewer values; what does not fit for 4 either says what it needs."""
    wide = sp.random_array((60, 40_000), density=0.001, rng=1, format="csr", dtype=np.float32)
    path = str(tmp_path / "rows.h5")
    sm.write_hdf5([(wide, TWO[:60])], path)
    tried = {}
    for memory in ("1G", "130M", "80M"):
        found = sm.train(path, cv=5, memory=memory, tol=0.5).cross_validation.Cs
        tried[memory] = found.tolist()
        said = re.findall(r"cv tries (\d+) values of C, .*; 13 need at least memory=\"\d+M\"", caplog.text)
        assert said == ([] if memory == "1G" else [str(len(found))])
        caplog.clear()
    assert {memory: len(found) for memory, found in tried.items()} == {"1G": 13, "130M": 7, "80M": 4}
    named = sm.train(path, cv=5, memory="130M", tol=0.5, solver="ascent").cross_validation.Cs
    assert len(named) < 13
    assert tried["80M"] == tried["130M"][::2] == tried["1G"][::4]
    with pytest.raises(UsageError, match=r"too small for .* needs \d+M.*, for 4 values of C; valid=.20%. or fewer"):
        sm.train(path, cv=5, memory="60M")


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("scale", ["maxabs", "std", "auto", "none"])
def test_a_grid_follows_the_rows_as_they_are_scaled(rows, scale):
    """It was that of the rows as stored: a column of money, say, left every value of C too small."""
    stored = X * np.where(np.arange(X.shape[1]) == 0, 1.0 if scale == "none" else 1e6, 1.0)
    size = {"maxabs": np.abs(X).max(axis=0), "none": 1.0}.get(scale)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0) if size is None else X / size
    tried = sm.train((rows(stored), TWO), cv=3, scale=scale, tol=0.5).cross_validation.Cs
    of_scaled = np.logspace(-4.0, 2.0, 13) / (np.square(scaled).sum(axis=1).mean() + 1.0)
    assert tried == pytest.approx(of_scaled, rel=0.006)


@pytest.mark.parametrize("scale", ["maxabs", "auto", "none"])
@pytest.mark.parametrize("columns", [1, X.shape[1]])  # that are huge
def test_a_grid_is_finite_where_squares_are_not(scale, columns):
    huge = X[:60] * np.where(np.arange(X.shape[1]) < columns, 1e200, 1.0)
    with opened((huge, TWO[:60])) as source:
        costs = grid_of(source, Options(scale=scale), GRIDS[0])
    assert np.isfinite(costs).all() and min(costs) > 0.0 and costs[-1] > 1.0


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("factor", [1.0, 100.0])
def test_a_grid_of_rows_that_auto_leaves_as_they_are_is_theirs(factor, rows):
    tried = sm.train((rows(factor * X), TWO), cv=3, scale="auto", tol=0.5).cross_validation.Cs
    of_rows = np.logspace(-4.0, 2.0, 13) / (factor**2 * np.square(X).sum(axis=1).mean() + 1.0)
    assert tried == pytest.approx(of_rows, rel=0.006)


@pytest.mark.parametrize("changed", [X * np.logspace(0, -6, X.shape[1]), X + 1000.0])
def test_a_grid_of_rows_that_auto_scales_is_that_of_scaled_ones(changed):
    tried = sm.train((changed, TWO), cv=3, scale="auto", tol=0.5).cross_validation.Cs
    assert tried == pytest.approx(np.logspace(-4.0, 2.0, 13) / (X.shape[1] + 1.0), rel=0.006)


@pytest.mark.parametrize("more", [{}, {"calibrate": "sigmoid"}])
def test_the_first_refusal_names_memory_that_suffices(tmp_path, more):
    """Memory that is too small for the weights alone is refused with the need of all of it, and not in two steps."""
    wide = sp.random_array((60, 20_000), density=0.001, rng=1, format="csr", dtype=np.float32)
    path = str(tmp_path / "rows.h5")
    sm.write_hdf5([(wide, np.arange(60) % 6)], path)
    asked = {"cv": 5, "tol": 0.5, "passes": 1, **more}
    with pytest.raises(UsageError, match="the smallest plan needs") as found:
        sm.train(path, memory="20M", **asked)
    least = int(re.search(r"memory=.(\d+)M", str(found.value))[1])
    with pytest.raises(UsageError, match=f"the smallest plan needs {least}M"):
        sm.train(path, memory=f"{least - 1}M", **asked)
    assert len(sm.train(path, memory=f"{least}M", **asked).cross_validation.Cs) == 4


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_folds_begin_at_the_weights_of_all_rows(monkeypatch, loss):
    """Then most folds take one Newton step on all rows."""
    made = []
    step = subproblem.Rows.step
    monkeypatch.setattr(subproblem.Rows, "step", lambda self, *given: (made.append(self.count), step(self, *given))[1])
    many = np.tile(X, (9, 1)) + 0.1 * np.random.default_rng(1).normal(size=(9 * N, 5))
    options = {"loss": loss, "C": 0.03, "solver": "newton", "threads": 1}
    assert sm.train((many, np.tile(TWO, 9)), **options).converged
    alone, made[:] = made.count(9 * N), []
    found = sm.train((many, np.tile(TWO, 9)), **options, cv=np.tile(FOLDS, 9))
    assert found.converged and found.cross_validation.gaps.max() <= 1e-3
    assert 0 < made.count(9 * N) < 4 * alone  # of five trainings
