"""Which solver `auto` takes."""

import re
from dataclasses import replace

import numpy as np
import pytest
from reference.datasets import noisy, separable
from reference.drive import hard_problem
from scipy import sparse

import streammargin as sm
from streammargin.errors import BudgetError, UsageError
from streammargin.losses import terms_of
from streammargin.penalties.elastic import ElasticNet
from streammargin.penalties.lp import Lp
from streammargin.penalties.norms import L1, Linf
from streammargin.solvers.auto import candidates, reason
from streammargin.solvers.registry import make_solver
from streammargin.training.fitting import choose


@pytest.mark.parametrize(
    "options, names",
    [
        ({}, ["active-set", "asdca"]),
        ({"penalty": Lp(1.5)}, ["asdca"]),
        ({"caps": np.ones((1, 2))}, ["newton", "ascent", "sdca"]),
        ({"caps": np.ones((1, 2)), "features": 10_000}, ["ascent", "sdca"]),
        (
            {"caps": np.ones((100, 2)), "positive": np.arange(100), "features": 512, "entries": 10**8},
            ["ascent", "sdca"],
        ),
        (
            {"caps": np.ones((100, 2)), "positive": np.arange(100), "features": 64, "entries": 10**8},
            ["newton", "ascent", "sdca"],
        ),
        (
            {"caps": np.ones((10, 2)), "positive": np.arange(10), "features": 784, "entries": 10**8},
            ["newton", "ascent", "sdca"],
        ),
        (
            {"caps": np.ones((100, 2)), "positive": np.arange(100), "features": 512, "entries": 10**8, "penalty": L1()},
            ["pdprox"],
        ),
        (
            {
                "caps": np.ones((100, 2)),
                "positive": np.zeros(100, int),
                "trials": 100,
                "features": 512,
                "entries": 10**8,
            },
            ["newton", "ascent", "sdca"],
        ),
        ({"caps": np.ones((1, 2)), "penalty": Lp(1.5)}, ["ascent", "sdca"]),
        ({"positive": np.arange(3), "caps": np.full((3, 3), np.inf), "lines": 3}, ["dual-momentum", "adaptive"]),
        ({"numeric": True}, ["sdca"]),
        ({"numeric": True, "penalty": Lp(1.5)}, ["asdca"]),
        ({"caps": np.ones((1, 2)), "penalty": L1()}, ["newton", "pdprox"]),
        ({"caps": np.ones((1, 2)), "penalty": L1(), "features": 10_000}, ["pdprox"]),
        ({"caps": np.ones((1, 2)), "penalty": ElasticNet(0.5)}, ["newton", "sdca", "pdprox"]),
        ({"caps": np.ones((1, 2)), "penalty": Linf()}, ["newton", "pdprox"]),
        ({"caps": np.ones((1, 2)), "numeric": True}, ["newton", "pdprox", "sdca"]),
    ],
)
def test_the_solvers_to_try(options, names):
    problem = hard_problem(separable()[0])
    of_lines = {name: options[name] for name in ("caps", "positive") if name in options}
    options = {name: value for name, value in options.items() if name not in of_lines}
    assert candidates(replace(problem, **options, outputs=problem.outputs._replace(**of_lines))) == names


SHORT = {"rows": 20_000, "features": 500, "entries": 10**7, "largest_square": 1.0, "budget": 12 << 20,
         "dtype": np.dtype(np.float32)}  # fmt: skip


@pytest.mark.parametrize("C, options, first", [
    (10.0, {}, "ascent"),
    (1000.0, {}, "newton"),
    (10.0, {"loss": sm.losses.terms("squared_hinge")}, "newton"),
    (10.0, {"largest_square": np.inf}, "newton"),
    (10.0, {"budget": 3 << 20}, "newton"),
    (10.0, {"budget": 1 << 30}, "newton"),
])  # fmt: skip
def test_of_short_rows_those_that_move_are_kept_if_those_near_the_margin_do_not_fit(C, options, first):
    problem = hard_problem(separable()[0])
    asked = replace(problem, **SHORT | options, outputs=problem.outputs._replace(caps=np.full((1, 2), C)))
    assert sorted(candidates(asked)) == ["ascent", "newton", "sdca"] and candidates(asked)[0] == first


@pytest.mark.parametrize("lines, features, budget, resident, names", [
    (200, 256, 64 << 20, False, ["ascent", "newton"]),  # a sample has few rows, as each has 8,000 bytes of scores
    (200, 256, 64 << 20, True, ["newton", "ascent"]),
    (200, 256, 1 << 30, False, ["newton", "ascent"]),  # all rows fit, and their scores
    (10, 784, 64 << 20, False, ["newton", "ascent"]),
    (50, 20_000, 64 << 20, False, ["ascent"]),  # a Hessian would take 23 TB, and a warning said so
])  # fmt: skip
def test_of_many_classes_from_disk_duals_are_kept_if_their_scores_leave_room_for_few_rows(
    lines, features, budget, resident, names
):
    problem, rows = hard_problem(separable()[0].astype(np.float32)), 60_000
    outputs = problem.outputs._replace(positive=np.arange(lines), caps=np.ones((lines, 2)))
    softmax = terms_of(sm.losses.Logistic(), True, lines)
    asked = replace(problem, rows=rows, present=rows, features=features, entries=rows * features, lines=lines,
                    loss=softmax, outputs=outputs, budget=budget, resident=resident)  # fmt: skip
    assert candidates(asked) == names


@pytest.mark.parametrize(
    "options, name",
    [
        ({}, "newton"),
        ({"C": [0.1, 1.0], "valid": noisy()}, "newton"),
        ({"C": np.inf}, "active-set"),
        ({"C": np.inf, "penalty": "lp:sparse"}, "asdca"),
        ({"C": np.inf, "penalty": "lp:1.5"}, "asdca"),
        ({"multiclass": "joint"}, "newton"),
        ({"multiclass": "joint", "C": np.inf}, "dual-momentum"),
        ({"multiclass": "joint", "C": np.inf, "loss": "hinge"}, "adaptive"),
    ],
)
def test_the_model_names_the_solver_that_was_taken(options, name):
    X, y = separable()
    y = np.argmax(X[:, :3], axis=1) if "multiclass" in options else y
    result = sm.train((X, y), solver="auto", tol=0.1, passes=5, **options)
    word = str(sm.solvers.make_solver(name))
    assert result.model.header["solver"] == word
    assert result.history[0]["params"]["solver"] == word
    assert result.history[0]["solver"].startswith(f"{word} for {len(y)} rows")


def test_numbers_are_interpolated_by_a_solver_that_can():
    X, _ = separable(8, 12)
    result = sm.train((X, np.arange(8) * 0.5), solver="auto", loss="interpolate", tol=1e-6)
    assert result.model.header["solver"] == "ascent:momentum=no,order=permutation" and result.converged


def test_sparse_norms_are_those_of_the_data():
    """p = min(2, 1 + 1 / ln d) is 2 for two columns, and the active set takes that."""
    X, y = separable(20, 2)
    result = sm.train((X, y), solver="auto", C=np.inf, penalty="lp:sparse")
    assert result.model.header["solver"] == "active-set" and result.model.header["p"] == 2.0


def test_the_next_one_is_tried_where_the_memory_is_too_small_for_the_first(caplog):
    X = np.ones((40, 30_000), np.float32)
    X[20:] = -1.0
    tight = {"C": np.inf, "passes": 2, "memory": "9M"}
    with pytest.raises(sm.UsageError, match="too small"):
        sm.train((X, np.repeat([1, -1], 20)), solver="active-set", **tight)
    result = sm.train((X, np.repeat([1, -1], 20)), solver="auto", **tight)
    assert result.model.header["solver"] == "ascent:momentum=yes,order=permutation"
    [told] = [record.getMessage() for record in caplog.records if getattr(record, "code", "") == "memory"]
    least = re.search(r"^auto took ascent.*, as .*the smallest plan needs (\d+M)", told)[1]
    caplog.clear()
    enough = sm.train((X, np.repeat([1, -1], 20)), solver="auto", **{**tight, "memory": least})
    assert enough.model.header["solver"] == "active-set" and "memory" not in [
        getattr(record, "code", "") for record in caplog.records
    ]  # fmt: skip
    with pytest.raises(sm.UsageError, match=f'use memory="{least}" or more, or solver="auto": it takes asdca, which'):
        sm.train((X, np.repeat([1, -1], 20)), solver="active-set", **tight)


def test_newton_of_many_columns_is_told_what_serves():
    X = sparse.csr_array(([1.0, -1.0], ([0, 1], [5, 1_999_999])), shape=(2, 2_000_000))
    with pytest.raises(sm.UsageError, match=r'the smallest plan needs \d{8}M; .*or solver="auto": it takes ascent'):
        sm.train(X, np.array([0, 1]), solver="newton")


def test_no_message_names_memory_that_no_machine_has(caplog):
    X = sparse.csr_array(([1.0, -1.0], ([0, 1], [5, 4_999_999])), shape=(2, 5_000_000))
    with pytest.raises(sm.UsageError, match=r'needs over 128T; use fewer columns or classes, or solver="auto": it tak'):
        sm.train(X, np.array([0, 1]), solver="newton")
    X = sparse.csr_array((np.ones(400), (np.arange(400), np.arange(400) * 650)), shape=(400, 1 << 18))
    found = sm.train(X, np.arange(400) % 4, tol=0.5, passes=2, memory="80M")  # newton would take 27263434M
    assert found.model.header["solver"].startswith("ascent") and "plan needs over 64 times as much" in caplog.text
    assert "which fits but may take more reads, as for newton a memory budget of 80M is too small" in caplog.text


WIDE = np.hstack([noisy()[0], np.zeros((60, 4000))]), noisy()[1]


@pytest.mark.parametrize("options", [
    {"loss": "hinge:top=30"}, {"loss": "absolute_error:top=30", "penalty": "l1"},
    {"C": "path:2,low=0.01,high=0.1", "valid": WIDE},
])  # fmt: skip
def test_it_takes_the_solver_that_serves_the_option(options):
    X, y = WIDE
    named, auto = (sm.train((X, y), tol=1e-2, solver=one, **options) for one in ("pdprox", "auto"))
    assert auto.model.header["solver"] == named.model.header["solver"] and auto.converged
    assert auto.history[0]["solver"].startswith("pdprox") and "on all duals at once" in auto.history[0]["solver"]
    np.testing.assert_array_equal(auto.model.coef_, named.model.coef_)


def test_two_classes_with_one_margin_are_a_problem_of_two_classes():
    assert sm.train(separable(), solver="auto", multiclass="joint").model.header["solver"] == "newton"


def test_the_last_refusal_is_told():
    with pytest.raises(sm.UsageError, match="sdca needs the method step"):
        sm.train(separable(), C=1.0, loss="exponential")


@pytest.mark.parametrize("options, told", [
    ({"loss": "exponential"}, r"lacks \(these have it: .*; use solver=.dual-momentum.$"),
    ({"loss": "exponential", "C": 1.0}, "these have it: .*squared_hinge.; use loss=.hinge.$"),
    ({"loss": "exponential", "penalty": "linf", "C": 1.0}, "^pdprox needs the method step of a loss"),
    ({"penalty": "lp:1.5", "bias": "free"}, '; use bias=1, or penalty="l2"$'),
])  # fmt: skip
def test_a_problem_that_none_of_its_solvers_serves_is_told_with_what_mends_it(options, told):
    X, y = noisy()
    with pytest.raises(UsageError, match=told):
        sm.train(X, y, **options)


def test_a_budget_too_small_is_told_before_what_another_solver_refuses():
    def fit(method, problem):
        raise UsageError("too small a budget")

    able, unable = make_solver("sdca"), make_solver("pdprox")  # of a hard margin
    for methods in ([able, unable], [unable, able]):
        with pytest.raises(UsageError, match="too small a budget"):
            choose(methods, lambda method: hard_problem(np.ones((40, 3))), fit)


def test_the_least_budget_of_all_that_are_tried_is_told():
    needed = {"sdca": 475 << 20, "asdca": 42 << 20, "gd": 90 << 20}

    def fit(method, problem):
        raise BudgetError(f"{method} needs more", needed[method.name if method.name == "gd" else method.called])

    methods = [make_solver(name) for name in needed]
    with pytest.raises(BudgetError) as told:
        choose(methods, lambda method: hard_problem(np.ones((40, 3))), fit)
    assert told.value.least == 42 << 20


@pytest.mark.parametrize("features, few", [(20, True), (1 << 18, False)])
def test_few_columns_are_a_reason_only_if_they_are_few(features, few):
    problem = hard_problem(separable()[0])
    asked = replace(problem, features=features, outputs=problem.outputs._replace(caps=np.ones((1, 2))))
    assert ("few columns" in reason(asked, "newton")) == few and "second-order steps" in reason(asked, "newton")


@pytest.mark.parametrize("options, rows", [({"valid": 0.2}, 40), ({"cv": 5}, 50), ({}, 50)])
def test_the_rows_that_are_told_are_those_trained_on(options, rows):
    X, y = separable()
    told = []
    sm.train((X[:50], y[:50]), C=1.0, passes=1, listeners=[told.append], **options)
    [start] = [event for event in told if event["event"] == "run_start"]
    assert f" for {rows} rows of " in start["solver"]
