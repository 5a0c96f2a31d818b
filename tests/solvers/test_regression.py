"""Losses of numbers at a finite C against an interior-point method and scikit-learn."""

import math
from itertools import cycle, product

import h5py
import numpy as np
import pytest
from conftest import slow
from reference import words
from reference.datasets import as_form
from reference.linear import names as solvers
from scipy.optimize import brentq

import streammargin as sm
from streammargin.errors import DataError, UsageError
from streammargin.losses import losses_with
from streammargin.solvers.base import NUMBERS
from streammargin.solvers.registry import make_solver

GROUPS = np.array([0, 0, 1, 2, 1, 2])
PENALTIES = {
    "l2": {}, "l1": {}, "l2norm": {}, "linf": {}, "elasticnet": {"l1_ratio": 0.8}, "exclusive": {"groups": GROUPS},
    "group": {"groups": GROUPS}, "group and square": {"groups": GROUPS, "l1_ratio": 0.6},
    "sparse_group": {"groups": GROUPS, "l1_ratio": 0.4},
}  # fmt: skip
LOSSES = {
    "squared_error": {}, "absolute_error": {}, "epsilon_insensitive": {"epsilon": 0.6}, "quantile": {"quantile": 0.8},
    "huber": {"delta": 0.7},
}  # fmt: skip
CONSTANTS = {"free": {"bias": "free"}, "penalised": {"bias": 2.0}, "none": {"bias": 0.0}}
_ways = cycle([(c, w, f) for w in (False, True) for c in CONSTANTS for f in ("dense", "csr")][:11])  # 11: every pairing
PAIRS = [(p, loss, *next(_ways)) for p in PENALTIES for loss in LOSSES]
SOLVED = [(solver, *pair) for solver in ("pdprox", "prox-newton") for pair in PAIRS]
random = np.random.default_rng(4)
N, D = 40, 6
X = random.standard_normal((N, D))
X[:, 5] = 0.0
Y = X @ [2.0, -1.0, 0.0, 0.5, 0.0, 0.0] + random.standard_t(3, N) + 4.0
WEIGHTS = random.choice([0.0, 0.5, 1.0, 3.0], N)


def alone(loss, weights):
    """The constant that is best alone, by its definition: what a penalised one is penalised about."""
    if loss == "squared_error":
        return weights @ Y / weights.sum()
    if loss == "huber":
        return brentq(lambda b: weights @ np.clip(Y - b, -0.7, 0.7), Y.min(), Y.max(), xtol=1e-14)
    order = np.argsort(Y)
    below = np.cumsum(weights[order])
    goal = {"quantile": 0.8}.get(loss, 0.5) * below[-1]
    near = Y[order][np.flatnonzero(weights[order] > 0)]
    reached = below[np.flatnonzero(weights[order] > 0)]
    first = int(np.searchsorted(reached, goal))
    return near[first : first + 2].mean() if reached[first] == goal else near[first]


def optimum(penalty, loss, constant, weights, C):
    """(objective, w, b)."""
    conic = pytest.importorskip(
        "reference.conic", reason="the interior-point method is clarabel's", exc_type=ImportError
    )
    given, there = PENALTIES[penalty], weights > 0
    shift = alone(loss, weights) if constant == "penalised" else 0.0
    width = next(iter(LOSSES[loss].values()), 1.0)
    best, w, b = conic.solve(
        X[there], Y[there] - shift, C * weights[there], penalty.split()[0], loss, r=given.get("l1_ratio"), width=width,
        groups=given.get("groups"), free=constant != "penalised",
        constant=2.0 if constant == "penalised" else float(constant == "free"),
    )  # fmt: skip
    return best, w, b + shift


def made_loss(loss):
    return sm.losses.FAMILY.find(loss)(**LOSSES[loss])


def phi(loss, residuals):
    """The loss of y - x.w by its definition."""
    return {
        "squared_error": 0.5 * residuals**2,
        "absolute_error": np.abs(residuals),
        "epsilon_insensitive": np.maximum(np.abs(residuals) - 0.6, 0.0),
        "quantile": np.maximum(0.8 * residuals, -0.2 * residuals),
        "huber": np.where(np.abs(residuals) < 0.7, 0.5 * residuals**2, 0.7 * (np.abs(residuals) - 0.35)),
    }[loss]


def objective(model, penalty, loss, constant, weights, C):
    parts, given = model.coef_[0], dict(PENALTIES[penalty])
    if constant == "penalised":
        parts = np.append(parts, (model.intercept_[0] - alone(loss, weights)) / 2.0)
        if "groups" in given:
            given["groups"] = np.append(GROUPS, 3)
    losses = phi(loss, Y - X @ model.coef_[0] - model.intercept_[0])
    return words.of_columns(words.penalty(penalty, **given), len(parts)).value(parts) + C * float(weights @ losses)


@pytest.mark.parametrize("solver, penalty, loss, constant, weighted, form", SOLVED)
def test_every_pair_is_solved_to_what_the_interior_point_method_finds(solver, penalty, loss, constant, weighted, form):
    weights = WEIGHTS if weighted else np.ones(N)
    best, _, _ = optimum(penalty, loss, constant, weights, 0.3)
    result = sm.train(
        (as_form(X, form), Y), solver=solver, penalty=words.penalty(penalty, **PENALTIES[penalty]),
        loss=made_loss(loss), C=0.3, tol=1e-5,
        passes=20000, sample_weight=weights, **CONSTANTS[constant],
    )  # fmt: skip
    figures = result.certificate
    assert result.converged and figures["gap"] <= 1e-5 and figures["mistakes"] is figures["train_error"] is None
    assert figures["dual"] <= best * (1 + 1e-6) and figures["primal"] == pytest.approx(best, rel=1e-5)
    assert objective(result.model, penalty, loss, constant, weights, 0.3) == pytest.approx(figures["primal"], rel=1e-12)
    assert all(event["mistakes"] is None for event in result.history if event["event"] == "pass_end")


def test_the_pairs_go_with_every_kind_of_constant_weights_and_rows():
    assert {pair[2:4] for pair in PAIRS} == set(product(CONSTANTS, (False, True)))
    assert {pair[0::4] for pair in PAIRS} == set(product(PENALTIES, ("dense", "csr")))


def methods():
    """(solver, loss) if the solver says that it supports the loss, at a finite C."""
    found = {name: make_solver(name) for name in solvers() if name != "auto"}
    served = {name: one for name, one in found.items() if NUMBERS in one.takes and one.default_C < math.inf}
    return [(name, loss) for name, one in served.items() for loss in losses_with(one.required(), of_numbers=True)]


@pytest.mark.parametrize("solver, loss", methods())
def test_every_solver_solves_each_loss_that_it_says_it_serves(solver, loss):
    best, w, b = optimum("l2", loss, "penalised", WEIGHTS, 0.3)
    result = sm.train(
        (X, Y), solver=solver, loss=made_loss(loss), C=0.3, tol=1e-6, passes=20000, sample_weight=WEIGHTS,
        **CONSTANTS["penalised"],
    )  # fmt: skip
    assert result.converged and result.model.header["solver"] == str(make_solver(solver))
    assert result.certificate["primal"] == pytest.approx(best, rel=2e-6)
    value = objective(result.model, "l2", loss, "penalised", WEIGHTS, 0.3)
    assert result.certificate["primal"] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose([*result.model.coef_[0], result.model.intercept_[0]], [*w, b], atol=5e-3)


def test_no_loss_of_numbers_is_left_out():
    assert set(LOSSES) | {"l2_error"} == set(losses_with([], of_numbers=True))  # of several targets
    assert {loss for _, loss in methods()} >= set(LOSSES)
    assert {"ascent", "sdca", "asdca", "newton", "prox-newton", "pdprox"} <= {solver for solver, _ in methods()}


@pytest.mark.parametrize("penalty", ["l2", slow("elasticnet"), "group and square"])
@pytest.mark.parametrize("loss", LOSSES)
def test_coordinate_ascent_serves_penalties_with_a_square(penalty, loss):
    for constant, form in (("penalised", "dense"), ("none", "csr" if penalty == "l2" else "dense")):
        best, w, b = optimum(penalty, loss, constant, WEIGHTS, 0.3)
        result = sm.train(
            (as_form(X, form), Y), solver="sdca", penalty=words.penalty(penalty, **PENALTIES[penalty]),
            loss=made_loss(loss), C=0.3, tol=1e-6, passes=20000,
            sample_weight=WEIGHTS, **CONSTANTS[constant],
        )  # fmt: skip
        assert result.converged
        assert result.certificate["primal"] == pytest.approx(best, rel=2e-6)
        np.testing.assert_allclose([*result.model.coef_[0], result.model.intercept_[0]], [*w, b], atol=5e-3)


def test_auto_takes_the_one_that_suits():
    wide = random.standard_normal((20, 30))
    taken = {
        "newton": [
            (X, Y, {}),
            (X, Y, {"penalty": "elasticnet", "bias": 0}),
            (wide, Y[:20], {"penalty": "l1"}),
            (X, Y, {"penalty": "linf"}),
            (wide, Y[:20], {"penalty": sm.penalties.Exclusive(np.arange(30))}),
        ],
        "pdprox": [(X, Y, {"loss": "absolute_error:top=5"})],
        "ascent": [(wide, Y[:20], {}), (X, Y, {"penalty": "lp:1.5"})],
    }
    for solver, cases in taken.items():
        for rows, y, options in cases:
            assert (
                sm.train((rows, y), **{"loss": "absolute_error", **options}).model.header["solver"].startswith(solver)
            )


@pytest.mark.parametrize("p", [2.0, 1.5])
def test_momentum_and_other_norms(p):
    """An optimum at p < 2 by its own conditions: theta = C phi'(residuals) X and w = mirror(theta)."""
    options = {"loss": "squared_error", "penalty": f"lp:{p}", "C": 0.3, "tol": 1e-9, "passes": 5000, "bias": 0}
    results = [sm.train((X, Y), solver=solver, **options) for solver in ("sdca", "asdca")]
    for result in results:
        w = result.model.coef_[0]
        theta = 0.3 * X.T @ (Y - X @ w)
        size = np.sum(np.abs(w) ** p) ** (1 / p)
        np.testing.assert_allclose(theta, size ** (2 - p) * np.sign(w) * np.abs(w) ** (p - 1), atol=2e-3)


def test_they_are_what_scikit_learn_finds():
    linear = pytest.importorskip("sklearn.linear_model")
    svm = pytest.importorskip("sklearn.svm")

    def ours(**options):
        return sm.train((X, Y), tol=1e-9, passes=30000, **options).model

    def compare(model, theirs, atol=1e-4):
        np.testing.assert_allclose(model.coef_[0], theirs.coef_, atol=atol)
        np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=atol)

    compare(ours(loss="squared_error", bias="free", C=0.5), linear.Ridge(alpha=2.0).fit(X, Y))
    net = linear.ElasticNet(alpha=0.1, l1_ratio=0.7, tol=1e-10, max_iter=100000).fit(X, Y)
    compare(ours(loss="squared_error", penalty="elasticnet:0.7", C=1 / (0.1 * N)), net)
    svr = svm.LinearSVR(epsilon=0.6, C=0.4, dual=True, tol=1e-10, max_iter=10**6).fit(X, Y - np.median(Y))
    svr.intercept_ += np.median(Y)  # its constant is penalised about 0, ours about the one that is best alone
    compare(ours(loss="epsilon_insensitive:0.6", C=0.4, bias=1), svr, atol=1e-3)
    quantile = linear.QuantileRegressor(quantile=0.8, alpha=0.05).fit(X, Y)
    model = sm.train((X, Y), loss="quantile:0.8", penalty="l1", C=1 / (0.05 * N), tol=1e-7, passes=30000).model
    values = [
        np.abs(w).sum() * 0.05 + phi("quantile", Y - X @ w - b).mean()
        for w, b in ((model.coef_[0], model.intercept_[0]), (quantile.coef_, quantile.intercept_))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_several_costs_and_the_best_by_the_mean_loss_on_held_out_rows():
    options = {"loss": "absolute_error", "penalty": "l1", "tol": 1e-6, "passes": 20000}
    held = (X[:15], Y[:15] + 0.3)
    together = sm.train((X, Y), C=[0.05, 0.3, 2.0], valid=held, **options)
    means = []
    for C, line in zip((0.05, 0.3, 2.0), together.run_end["trials"], strict=True):
        alone = sm.train((X, Y), C=C, **options).model
        means.append(np.abs(held[1] - held[0] @ alone.coef_[0] - alone.intercept_[0]).mean())
        assert line["C"] == C and line["valid_error"] == pytest.approx(means[-1], abs=1e-3)
        assert line["train_error"] is None
    assert together.model.header["C"] == (0.05, 0.3, 2.0)[int(np.argmin(means))]


def test_evaluation_shows_errors_in_place_of_mistakes():
    model = sm.train((X, Y), loss="quantile:0.8", C=0.3).model
    seen, residuals = model.evaluate((X, Y)), Y - model.predict(X)
    assert seen["rows"] == N and set(seen) == {
        "rows", "loss", "mean_squared_error", "mean_absolute_error", "largest_error", "r2"
    }  # fmt: skip
    assert seen["loss"] == pytest.approx(phi("quantile", residuals).mean())
    assert seen["mean_squared_error"] == pytest.approx((residuals**2).mean())
    assert seen["mean_absolute_error"] == pytest.approx(np.abs(residuals).mean())
    assert seen["largest_error"] == pytest.approx(np.abs(residuals).max())
    assert seen["r2"] == pytest.approx(1 - (residuals**2).mean() / Y.var())
    assert model.evaluate((X, Y), loss="squared_error")["loss"] == pytest.approx(0.5 * (residuals**2).mean())
    assert model.evaluate((X, np.full(N, 3.0)))["r2"] is None
    with pytest.raises(UsageError, match="the model predicts numbers"):
        model.evaluate((X, Y), loss="hinge")
    with pytest.raises(UsageError, match="the model predicts classes"):
        sm.train((X, Y > 4)).model.evaluate((X, Y > 4), loss="squared_error")


def test_targets_far_from_0_cost_no_passes_where_the_constant_is_free():
    near = sm.train((X, Y), loss="absolute_error", penalty="l1", C=0.3, tol=1e-4)
    far = sm.train((X, Y + 2.0**20), loss="absolute_error", penalty="l1", C=0.3, tol=1e-4)
    assert far.passes == pytest.approx(near.passes, abs=3)
    np.testing.assert_allclose(far.model.coef_, near.model.coef_, atol=1e-3)
    assert far.model.intercept_[0] - 2.0**20 == pytest.approx(near.model.intercept_[0], abs=1e-2)


@pytest.mark.parametrize("loss", LOSSES)
def test_targets_that_are_all_the_same_are_met_by_the_constant(loss):
    free = sm.train((X, np.full(N, 0.1)), loss=made_loss(loss), penalty="l1")
    assert free.converged and free.passes == 1 and free.certificate["primal"] == free.certificate["gap"] == 0.0
    assert not free.model.coef_.any() and free.model.intercept_[0] == 0.1
    penalised = sm.train((X, np.full(N, 3.3)), loss=made_loss(loss), bias=1.0)
    assert penalised.converged and penalised.certificate["primal"] == 0.0
    assert not penalised.model.coef_.any() and penalised.model.intercept_[0] == 3.3
    none = sm.train((X, np.full(N, 3.0)), loss=made_loss(loss), bias=0)
    assert none.converged and none.certificate["primal"] > 0.0 and none.model.intercept_[0] == 0.0
    zeros = sm.train((X, np.zeros(N)), loss=made_loss(loss))
    assert zeros.converged and not zeros.model.coef_.any() and zeros.certificate["gap"] == 0.0


def test_out_of_core_and_on_from_a_checkpoint(tmp_path):
    n = 80000
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((n, 30))
    y = rows[:, 0] - rows[:, 1] + rng.standard_normal(n) + 30.0
    path = str(tmp_path / "rows.h5")
    with h5py.File(path, "w") as file:
        file["X"], file["y"], file["sample_weight"] = rows, y, np.arange(n) % 3
    for options in ({"penalty": "l1"}, {"penalty": "l2", "solver": "sdca"}):
        options = {"loss": "absolute_error", "C": 1e-3, "tol": 1e-4, "passes": 90, **options}
        inside = sm.train((rows, y), sample_weight=np.arange(n) % 3, **options)
        outside = sm.train(path, memory="20M", **options)
        assert outside.history[0]["plan"]["blocks"] > 1 and outside.converged
        assert outside.certificate["primal"] == pytest.approx(inside.certificate["primal"], rel=2e-3)
        held = {"checkpoint": str(tmp_path / options["penalty"]), "checkpoint_seconds": 1e-9, "memory": "20M"}
        stopped = sm.train(path, **{**options, "passes": 2}, **held)
        assert not stopped.converged
        resumed = sm.train(path, **options, **held)
        assert resumed.passes == outside.passes > 2
        assert np.array_equal(resumed.model.coef_, outside.model.coef_)
        assert np.array_equal(resumed.model.intercept_, outside.model.intercept_)


@pytest.mark.parametrize(
    "y, options, message",
    [
        (Y, {"loss": "quantile:0"}, "quantile must be a number between 0 and 1, not 0.0"),
        (Y, {"loss": "quantile:1"}, "quantile must be a number between 0 and 1"),
        (Y, {"loss": "epsilon_insensitive:-1"}, "epsilon_insensitive must be a finite number >= 0, not -1"),
        (Y, {"loss": "squared_error", "epsilon": 0.1}, 'there is no epsilon here; give loss="epsilon_insensitive:0.1"'),
        (Y, {"loss": "squared_error", "quantile": 0.1}, 'there is no quantile here; give loss="quantile:0.9"'),
        (Y, {"loss": "squared_error", "C": math.inf}, 'needs a finite C; give that, or to .* use loss="interpolate"'),
        (Y, {"loss": "squared_error", "class_weight": "balanced"}, "class_weight does not apply to the regression"),
        (Y, {"loss": "squared_error:top=3.0"}, "squared_error has no parameter 'top'; squared_error has no parameters"),
        (Y, {"loss": "interpolate", "penalty": "l1"}, "C = inf, is for the penalties l2 and lp"),
        (Y, {"loss": "quantile", "solver": "pegasos"}, 'pegasos trains classifiers; use solver='),
        (Y, {"loss": "quantile", "solver": "perceptron"}, 'perceptron trains classifiers; give a finite C with '),
        (Y, {"loss": "quantile", "solver": "sdca", "penalty": "l1"}, 'sdca does not take penalty="l1" .*; use '),
        (Y, {"loss": "quantile", "solver": "sdca", "bias": "free"}, "needs the constant column to be"),
        (np.where(np.arange(N) == 7, np.nan, Y), {"loss": "squared_error"}, "the label of row 7 is nan; drop the row"),
        (1e60 * Y, {"loss": "squared_error"}, "labels, .*e.61, is too far from 1 to compute"),
        (1e-60 * Y, {"loss": "quantile"}, "too far from 1 to compute with; multiply all of them by a const"),
        (np.where(Y > 4, "a", "b"), {"loss": "squared_error"}, "this loss needs numbers as labels"),
        (np.append(Y[1:], 9.0) / 7, {"classes": [1.0, 2.0]}, "there is no label 1.0"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_sentence(y, options, message):
    with pytest.raises((UsageError, DataError), match=message):
        sm.train((X, y), **options)


def test_fractions_are_no_classes_and_the_losses_for_them_are_named():
    y = np.random.default_rng(0).standard_normal(200)
    message = 'its labels are 200 different real numbers, which look like .* loss="squared_error", absolute_error, '
    with pytest.raises(DataError, match=message):
        sm.train((np.ones((200, 1)), y))


@pytest.mark.parametrize("solver", ["auto", "sdca", "ascent", "asdca", "pdprox", "newton", "prox-newton"])
@pytest.mark.parametrize("asked", [None, True, False, "none"])
def test_numbers_far_from_0_are_met_as_asked(solver, asked):
    """The constant is free unless the solver or the user wants it penalised: then about what is best alone."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 3))
    y = 1e5 + rows[:, 0] + rng.standard_normal(400)
    options = {"bias": {None: None, True: 1.0, False: "free", "none": 0}[asked]}
    options.update(loss="quantile:0.9", solver=solver, passes=1000)
    if asked is False and solver in ("sdca", "ascent", "asdca"):
        with pytest.raises(UsageError, match="needs the constant column to be penalised"):
            sm.train((rows, y), **options)
        return
    result = sm.train((rows, y), **options)
    by_default = solver in ("sdca", "ascent", "asdca")
    bias = {None: 1.0 if by_default else "free", True: 1.0, False: "free", "none": 0.0}[asked]
    assert result.history[0]["params"]["bias"] == bias == result.model.header["bias"]
    if asked == "none":
        assert result.model.intercept_[0] == 0.0
        return
    assert result.converged and np.mean(y < result.model.predict(rows)) == pytest.approx(0.9, abs=0.02)
    assert result.model.evaluate((rows, y))["loss"] < 0.25
    held = sm.train((rows, y), valid=(rows[:50], y[:50]), **options)
    assert held.certificate.valid_error == pytest.approx(held.model.evaluate((rows[:50], y[:50]))["loss"], rel=1e-6)


def test_auto_takes_the_solver_that_it_took_while_the_constant_was_penalised():
    wide, tall = random.standard_normal((20, 30)), random.standard_normal((90, 4))
    for rows, norm in ((wide, 2.0), (tall, 2.0), (tall, 1.5)):
        for loss in LOSSES:
            taken = [
                sm.train((rows, rows[:, 0]), loss=loss, penalty=f"lp:{norm}", bias=asked, passes=3).model.header[
                    "solver"
                ]
                for asked in (None, 1.0)
            ]
            assert taken[0] == taken[1]


def test_coordinate_ascent_of_numbers_penalises_the_constant_under_any_penalty_that_it_serves():
    for options in ({"penalty": "elasticnet"}, {"penalty": sm.penalties.Group(GROUPS, 0.5)}):
        one, other = (
            sm.train((X, Y), loss="squared_error", solver="sdca", C=0.3, tol=1e-6, bias=asked, **options)
            for asked in (None, 1.0)
        )
        assert one.converged and one.model.header["bias"] == 1.0
        assert np.array_equal(one.model.coef_, other.model.coef_)
