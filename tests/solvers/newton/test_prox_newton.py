"""Second-order steps with kinks in the penalty: few reads at any C, out of core too, and what makes them hard."""

import inspect
from typing import NamedTuple

import numpy as np
import pytest
from conftest import slow
from reference import bare, words
from reference.datasets import noisy
from reference.sources import CountingSource

import streammargin as sm
from streammargin.driver.loop.run import Run
from streammargin.errors import DataError
from streammargin.losses import terms
from streammargin.losses.logistic import LogisticTerms
from streammargin.solvers.newton.prox_newton import ProximalNewton

X, Y = noisy(3000, 8, seed=4)
GROUPS = {"penalty": sm.penalties.Group(np.arange(8) // 3)}
MOST = {"hinge": 45, "logistic": 15}  # reads


def train(data, **options):
    return sm.train(data, solver="prox-newton", tol=1e-4, passes=100, **options)


@pytest.mark.parametrize("loss", MOST)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_few_reads_at_any_cost(C, loss):
    for penalty in ({"penalty": "l1"}, GROUPS, {"bias": "free"}):
        source = CountingSource(X, Y, (0, 900, 1000, 3000))
        result = train(source, loss=loss, C=C, **penalty)
        assert result.converged and result.certificate["gap"] <= 1e-4
        assert result.passes <= MOST[loss] and len(source.order) == 3 * result.passes


@pytest.mark.parametrize("loss", MOST)
@pytest.mark.parametrize("C", [0.01, 1.0, slow(100.0)])
def test_few_reads_under_penalties_that_are_known_by_their_prox_alone(C, loss):
    exclusive = sm.penalties.Exclusive(np.arange(8) // 3)
    for penalty in ("linf", "l2norm", exclusive, "l2:low=0", "l1:low=-0.1,high=0.1", "l2:radius=0.2"):
        source = CountingSource(X, Y, (0, 900, 1000, 3000))
        result = train(source, loss=loss, C=C, penalty=penalty)
        assert result.converged and result.certificate["gap"] <= 1e-4
        counted = result.certificate.mistakes > 0.9 * min(np.bincount(Y > 0))  # by one more read: a class may be rare
        assert result.passes <= MOST[loss] and len(source.order) == 3 * (result.passes + counted)
        by_pdprox = sm.train((X, Y), loss=loss, C=C, penalty=penalty, solver="pdprox", tol=1e-3, passes=5000)
        assert by_pdprox.certificate.dual <= result.certificate.primal <= by_pdprox.certificate.primal * (1 + 1e-4)


def test_no_weight_leaves_its_domain_by_a_shortened_step():
    """Where the hinge's model leads too far, steps are shortened, and rounding may not lead out of the domain."""
    low, high = -0.013, 0.1
    result = sm.train((X, Y), solver="prox-newton", penalty=f"l1:low={low},high={high}", C=1.0, tol=1e-6, passes=200)
    w = result.model.coef_
    assert result.converged and w.min() == low and w.max() == high and np.all((low <= w) & (w <= high))


def test_the_first_read_proves_that_all_weights_are_0():
    for penalty in ({"penalty": "l1"}, GROUPS, {"penalty": "elasticnet"}):
        for loss in MOST:
            result = train((X, Y), loss=loss, C=1e-5, **penalty)
            assert result.converged and result.passes == 1 and not result.model.coef_.any()


class Own(NamedTuple):
    """The logistic loss without `distance`."""

    tolerance: float


for method_name, method in inspect.getmembers(LogisticTerms, inspect.isfunction):
    if not method_name.startswith("_") and method_name != "distance":
        setattr(Own, method_name, method)


@pytest.mark.parametrize(
    "options",
    [
        {"penalty": "l1"}, {"penalty": "elasticnet", "loss": "logistic"}, GROUPS, {"bias": "free"},
        {"loss": "absolute_error"}, {"loss": "quantile", "penalty": "lp", "bias": 0},
        {"loss": bare.own(Own(terms("logistic").tolerance))}, {"penalty": "l1", "C": "path:3", "valid": (X, Y)},
    ],
)  # fmt: skip
@pytest.mark.parametrize("solver", ["newton", "auto"])
def test_newton_takes_these_steps_where_penalty_constant_labels_path_or_loss_ask_for_them(solver, options, monkeypatch):
    options = {"C": 0.3, **options}
    stages, finish = [], Run.finish
    monkeypatch.setattr(Run, "finish", lambda run, reason: (stages.append(run.progress.stage), finish(run, reason))[1])
    results = [sm.train((X, Y), solver=one, tol=1e-3, passes=60, **options) for one in (solver, ProximalNewton())]
    runs = 3 if "valid" in options else 1  # a path is a run for each C
    assert stages == ["proximal"] * runs + [ProximalNewton.name] * runs
    assert results[0].model.header["solver"] == "newton"
    one, other = results
    assert one.converged and one.passes == other.passes and one.certificate == other.certificate
    assert one.model.coef_.tobytes() == other.model.coef_.tobytes()


def test_newton_takes_other_steps_where_none_of_these_does():
    results = [sm.train((X, Y), solver=one, tol=1e-3, bias=0) for one in ("newton", ProximalNewton())]
    assert results[0].passes == 1 < results[1].passes
    assert results[0].certificate.dual <= results[1].certificate.primal <= results[0].certificate.primal * (1 + 1e-3)


def test_columns_of_all_sizes_copies_of_columns_and_rows_and_columns_of_0():
    hard = np.hstack([X * np.geomspace(1e-4, 1e4, 8), X[:, :2], np.zeros((3000, 2))])
    hard = np.vstack([hard[:300], hard[:300]])
    for options in ({"loss": "hinge"}, {"loss": "logistic"}, {"loss": "hinge", "bias": 0}):
        result = sm.train(
            (hard, np.tile(Y[:300], 2)), solver="prox-newton", penalty="l1", C=1.0, tol=1e-3, passes=400, **options
        )
        assert result.converged and not result.model.coef_[0, -2:].any()


def test_fewer_rows_than_columns():
    wide = np.random.default_rng(1).standard_normal((30, 60))
    result = train((wide, np.where(wide[:, 0] > 0, 1, -1)), penalty="l1", C=10.0)
    assert result.converged


def test_numbers_beyond_the_range_of_squares():
    with pytest.raises(DataError, match="too far from 1 to compute with"):
        train((1e180 * X, Y), penalty="l1")


@pytest.mark.parametrize("solver", ["prox-newton", "pdprox"])
@pytest.mark.parametrize(
    "loss, penalty, C",
    [
        ("logistic", "l1", 0.15),
        ("squared_hinge", "group", 0.05),
        ("smooth_hinge", "elasticnet", 0.05),
        ("logistic", "sparse_group", 0.1),
    ],
)
def test_columns_that_are_named_as_0_are_0_in_the_interior_point_solution(loss, penalty, C, solver):
    conic = pytest.importorskip(
        "reference.conic", reason="the interior-point method is clarabel's", exc_type=ImportError
    )
    few, labels, groups, counts = X[:60], Y[:60], np.arange(8) // 2, []
    given = {"groups": groups} if "group" in penalty else {}
    ratio = 0.5 if penalty in ("elasticnet", "sparse_group") else None
    _, w, _ = conic.solve(few, labels, np.full(60, C), penalty, loss, r=ratio, constant=1.0, free=True, **given)
    options = {"loss": loss, "penalty": words.penalty(penalty, **given), "C": C}
    for tol in (1e-1, 1e-3, 1e-9):
        result = sm.train((few, labels), solver=solver, tol=tol, passes=5000, **options)
        assert result.converged
        zeros = result.run_end["zeros"]
        assert np.all(np.abs(w[zeros]) < 1e-5) and not result.model.coef_[0, zeros].any()
        counts.append(len(zeros))
    assert counts == sorted(counts) and counts[-1] == np.sum(np.abs(w) < 1e-5) > 0
