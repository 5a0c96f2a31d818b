"""perceptron, mirror and pegasos from end to end: theorems, certificates, and how they stop."""

import math

import numpy as np
import pytest
from reference import optimum
from reference import primal as twins
from reference.datasets import as_form, noisy, separable
from reference.drive import certify, labels_of, prologue, visit_all
from reference.norms import conjugate, length
from reference.training import NO_SEPARATOR, binary

import streammargin as sm
from streammargin.compiled import row_norms as norms
from streammargin.compiled.order import permutation
from streammargin.losses import terms
from streammargin.penalties.lp import Lp
from streammargin.rows.blocks import DenseBlock
from streammargin.solvers.problem import Outputs, Problem
from streammargin.solvers.registry import make_solver

HARD = ("perceptron", "mirror")
NORMS = (2, 1.5, 1.2)


def problem_of(rows, features, p=2.0, K=1):
    return Problem(
        rows=rows, features=features, dtype=np.dtype(np.float64), loss=terms("hinge"), penalty=Lp(p),
        outputs=Outputs(np.ones(K, np.int64), np.full((K, 2), np.inf)), trials=K, tol=1e-3, seed=0, present=rows,
    )  # fmt: skip


def certificates(result):
    return [e for e in result.history if e["event"] == "certificate"]


def best_margin(X, y, norm=2):
    """The exact maximum margin, 1 / ||w*||_p, and ||w*||_p, to eight digits."""
    problem = binary(X, y, C=np.inf, norm=norm)
    size = length(optimum.solve(problem, "hinge").w, problem.p)
    return 1 / size, size


def mixed(seed=4):
    """Rows of norm above 0 that no hyperplane through 0 separates."""
    X, y = noisy(60, 6, seed=seed, flips=0.2)
    return X + 0.1, y


def ended_by_itself(result, tol=None):
    """Whether it came to its end, and says converged only if the margin gap proves it."""
    tol = result.model.header["tol"] if tol is None else tol
    proven = result.certificate["margin_gap"] <= tol
    assert result.converged == result.certificate.converged == (result.reason == "tolerance")
    assert (result.reason == "tolerance") <= proven
    return result.reason == ("tolerance" if proven else "separated")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("norm", NORMS)
def test_mistakes_of_the_perceptron_obey_its_bound(norm, seed):
    X, y = separable(80, 6, seed=10 + seed)
    result = sm.train((X, y), solver="perceptron", penalty=f"lp:{norm}", seed=seed)
    q = conjugate(norm)
    largest = max(length(x, q) for x in X)
    mistakes = sum(e["mistakes"] for e in result.history if e["event"] == "pass_end")
    assert ended_by_itself(result) and result.certificate["mistakes"] == 0
    assert 0 < mistakes <= largest**2 / ((norm - 1) * best_margin(X, y, norm)[0] ** 2)


@pytest.mark.parametrize("norm", NORMS)
def test_theorem_1_and_corollary_2(norm):
    """Over the draws of the rows: E F(mean of the first t iterates) and E share of its mistakes."""
    X, y = separable(40, 5, margin=0.6)
    A = y[:, None] * X
    largest, size = max(length(a, conjugate(norm)) for a in A), best_margin(X, y, norm)[1]
    distance = 0.5 * size**2 * largest**2 / (norm - 1)
    t = int(8 * distance)  # so that the bound says something: at most a quarter are mistakes
    losses, shares = [], []
    for seed in range(30):
        draws = np.random.default_rng(seed).integers(0, 40, t)
        result = sm.train(  # a stream is learned in order
            iter([(X[draws], y[draws])]), solver="mirror:average", penalty=f"lp:{norm}"
        )
        u = A @ result.model.coef_[0]
        losses.append(0.5 * np.mean(np.maximum(1 - u, 0) ** 2))
        shares.append(np.mean(u <= 0))
    assert np.mean(losses) <= distance / t and np.mean(shares) <= 2 * distance / t < 0.26
    assert np.mean(losses) > 1e-4 * distance / t  # the bound is of the right kind


@pytest.mark.parametrize("norm", NORMS)
def test_the_losses_of_mirror_descent_add_up_to_a_constant(norm):
    """The step of the proof of Theorem 1: sum of f_i(w) over all steps <= ||w*||^2 R^2 / (2 (p-1)), in any order."""
    X, y = separable(40, 5)
    A = y[:, None] * X
    largest, size = max(length(a, conjugate(norm)) for a in A), best_margin(X, y, norm)[1]
    order = np.tile(np.arange(40), 50)
    iterates, _ = twins.mirror_descent(A, order, norm)
    total = sum(0.5 * max(1 - A[i] @ w, 0) ** 2 for i, w in zip(order, iterates, strict=False))
    assert total <= 0.5 * size**2 * largest**2 / (norm - 1)
    result = sm.train(iter([(X[order], y[order])]), solver="mirror", penalty=f"lp:{norm}")
    np.testing.assert_allclose(result.model.coef_[0], iterates[-1], rtol=1e-8)


def test_mirror_descent_stops_where_its_objective_ends():
    X, y = separable(60, 8, margin=1.0)
    for tol in (0.1, 1e-2, 1e-3):
        result = sm.train((X, y), solver="mirror", tol=tol, passes=5000)
        smallest = (y[:, None] * X @ result.model.coef_[0]).min()
        assert ended_by_itself(result, tol)
        assert smallest >= 1 - tol - 1e-12 or result.certificate["margin_gap"] <= tol
        assert smallest < 1  # and not much later


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("C, weighted", [(0.05, False), (0.5, False), (0.1, True)])
def test_the_gap_of_pegasos_is_that_of_explicit_duals(C, weighted, average, form):
    X, y = mixed()
    weight = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 4.0], 60) if weighted else None
    classes = {-1: 1.0, 1: 3.0} if weighted else None
    problem = binary(X, y, C=C, sample_weight=weight, class_weight=classes)
    result = sm.train((as_form(X, form), y), solver=sm.solvers.Pegasos(average), C=C, sample_weight=weight,
                      class_weight=classes, tol=0.02, passes=3000, seed=5, bias=0)  # fmt: skip
    best = optimum.solve(problem, "hinge")
    for event in certificates(result):
        assert event["dual"] <= best.primal * (1 + 1e-9) and best.dual <= event["primal"] * (1 + 1e-9)
    c = result.certificate
    assert result.reason == "tolerance" and c["gap"] <= 0.02 and c["margin_upper"] is None
    assert c["primal"] == pytest.approx(problem.primal(result.model.coef_[0]), rel=1e-10)
    assert c["primal"] - best.primal <= (c["primal"] - c["dual"]) * (1 + 1e-9)

    rows = np.arange(60) if weight is None else np.flatnonzero(weight > 0)
    place = {row: k for k, row in enumerate(rows)}
    order = [place[i] for number in range(1, result.passes + 1) for i in permutation(60, 5, number, 0) if i in place]
    # the weights are the best that were certified
    chosen = next(e["pass"] for e in certificates(result) if e["primal"] == c["primal"])
    iterates, _ = twins.pegasos(problem.A, problem.caps, order[: chosen * len(rows)], len(rows))
    w = iterates[:-1].mean(axis=0) if average else iterates[-1]
    radius = math.sqrt(2 * problem.caps.sum())
    w *= min(1.0, radius / length(w, 2))
    np.testing.assert_allclose(result.model.coef_[0], w, rtol=1e-7, atol=1e-9)
    duals = []
    for number in (e["pass"] for e in certificates(result)):
        alpha = twins.pegasos(problem.A, problem.caps, order[: number * len(rows)], len(rows))[1] / number
        best_share = min(1.0, alpha.sum() / length(problem.theta(alpha), 2) ** 2)
        duals.append(problem.dual(best_share * alpha))
        assert duals[-1] >= problem.dual(alpha)
    assert c["dual"] == pytest.approx(max(duals), rel=1e-9)


def test_the_first_pass_of_pegasos_is_cut_to_size():
    """Its first weights are far too long: they are put into the ball of P(0), and their duals scaled to the best."""
    X, y = mixed()
    problem = binary(X, y, C=50.0)
    result = sm.train((X, y), solver="pegasos", C=50.0, passes=1, seed=3, bias=0)
    iterates, multiples = twins.pegasos(problem.A, problem.caps, permutation(60, 3, 1, 0), 60)
    radius = math.sqrt(2 * problem.caps.sum())
    assert length(iterates[-1], 2) > radius and problem.dual(multiples) < 0
    np.testing.assert_allclose(result.model.coef_[0], iterates[-1] * (radius / length(iterates[-1], 2)), rtol=1e-9)
    best = max(problem.dual(share * multiples) for share in np.linspace(0, 1, 20_001))
    assert result.certificate["dual"] == pytest.approx(best, rel=1e-3) and best > 0


def test_pegasos_with_several_values_of_C_and_classes():
    X, _ = noisy(90, 5, seed=2)
    y = np.random.default_rng(1).integers(0, 3, 90)
    result = sm.train((X, y), solver="pegasos", C=[0.01, 0.05], valid=(X, y), tol=0.02, passes=3000, bias=1.0)
    C = result.model.header["C"]
    assert result.converged
    for k, figures in enumerate(result.certificate["per_class"]):
        problem = binary(X, y == k, C=C, bias=1.0)
        w = np.append(result.model.coef_[k], result.model.intercept_[k])
        assert figures["primal"] == pytest.approx(problem.primal(w), rel=1e-9)
        assert figures["dual"] <= optimum.solve(problem, "hinge").primal * (1 + 1e-9)


def test_a_separable_pass_without_mistakes_is_the_last():
    X, y = separable(60, 6)
    result = sm.train((X, y), solver="perceptron")
    passes = [e["mistakes"] for e in result.history if e["event"] == "pass_end"]
    assert passes[-1] == 0 and all(passes[:-1]) and len(certificates(result)) == 1


def test_the_average_goes_on_after_the_last_mistake():
    waited = []
    for seed in range(12):
        result = sm.train(separable(40, 5, seed=seed, margin=0.1), solver="perceptron:average", seed=seed)
        clean = sum(e["mistakes"] == 0 for e in result.history if e["event"] == "pass_end")
        assert ended_by_itself(result) and result.certificate["mistakes"] == 0
        waited.append(clean)
    assert max(waited) > 1


@pytest.mark.parametrize("solver", HARD)
def test_mirror_reports_its_latest_weights_and_the_perceptron_its_best(solver):
    X, y = separable(40, 5)
    problem, method = problem_of(40, 5), make_solver(solver)
    state, block = method.start(problem, labels_of(y)), DenseBlock(X, 0.0)
    prologue(method, problem, state, [(0, block)])
    for number in range(1, 30):
        visit_all(method, problem, state, number, block)
    assert state.row_norms[norms.PRESENT_ROWS] == 40  # measured once
    found, weights = [], []
    for _ in range(2):
        found.append(certify(method, problem, state, block)[0][0])
        weights.append(method.certified(state)[0].copy())
        state.theta[0, ::2] *= 0.5  # a worse direction
    kept = solver == "perceptron"
    assert np.array_equal(*weights) == kept
    assert (found[1].margin_lower == found[0].margin_lower) == kept
    assert found[1].margin_lower == pytest.approx(np.min(y * (X @ weights[1][:5])) / length(weights[1], 2))


DEGENERATE = {
    "not separable": mixed(),
    "one row twice, with both labels": (np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 1.0]]), np.array([0, 1, 1])),
    "all rows equal": (np.ones((6, 3)), np.array([0, 1, 0, 1, 0, 1])),
    "an empty row": (np.array([[1.0, 2.0], [0.0, 0.0], [-3.0, 1.0]]), np.array([0, 1, 1])),
    "empty rows only": (np.zeros((4, 3)), np.array([0, 1, 0, 1])),
}


@pytest.mark.parametrize("data", DEGENERATE)
def test_pegasos_minds_no_degenerate_rows(data):
    X, y = DEGENERATE[data]
    result = sm.train((X, y), solver="pegasos", C=0.01, tol=0.01, passes=5000, bias=0)
    assert result.converged
    assert result.certificate["primal"] == pytest.approx(binary(X, y, C=0.01).primal(result.model.coef_[0]))


@pytest.mark.parametrize("solver", HARD)
def test_classes_that_are_and_are_not_separable(solver):
    """Class 2 can be told from the rest, the others cannot from each other; one row holds class 2."""
    X, y = mixed()
    X = np.column_stack([X, np.ones(60)])
    y = np.where(y > 0, 1, 0)
    X[7], y[7] = [0, 0, 0, 0, 0, 0, -5], 2
    result = sm.train((X, y), solver=solver, tol=0.01, passes=20_000)
    assert result.reason in NO_SEPARATOR
    assert [figures["margin_lower"] > 0 for figures in result.certificate["per_class"]] == [False, False, True]


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_pegasos_at_extreme_scales(scale):
    X, y = separable(40, 6)
    result = sm.train((X * scale, y), solver="pegasos", passes=20, bias=0)
    c = result.certificate
    assert np.all(np.isfinite(result.model.coef_)) and all(np.isfinite([c["primal"], c["dual"], c["gap"]]))
    assert c["dual"] <= c["primal"] <= 40 * (1 + 1e-12)  # the sum of the caps is the objective at 0
    assert result.converged == (scale < 1)
    assert result.passes == (1 if scale < 1 else 20)  # without updates w still shrinks: such a pass is not the last
