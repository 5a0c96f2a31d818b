"""Every solver on data that are hard, hopeless or odd: a clear answer or a clear error, no NaN, no endless run."""

from functools import cache

import h5py
import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form
from reference.linear import ANY_NORM, HARD, NORMS, WAYS, every, names, norm_of, train
from reference.norms import conjugate, length
from reference.optimum import solve
from reference.training import NO_SEPARATOR, binary

import streammargin as sm
from streammargin.cli.main import main
from streammargin.errors import DataError, UsageError
from streammargin.solvers.registry import make_solver

FORMS = ["dense", "csr"]


@cache
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    y = np.where(X[:, 0] > 0, 1, -1)
    X[:, 0] += 0.5 * y
    return X, y


def hopeless(name):
    X, y = rows()
    X, y = X.copy(), y.copy()
    if name == "wrong labels":
        y[::10] *= -1
    elif name == "random labels":
        y = np.random.default_rng(1).permutation(y)
    elif name == "one row twice":
        X[1], y[1] = X[0], -y[0]
    elif name == "all rows twice":
        X, y = np.vstack([X, X]), np.append(y, -y)
    elif name == "all equal":
        X[:] = 1.0
    elif name == "a row of norm 0":
        X[7] = 0
    elif name == "all of norm 0":
        X[:] = 0
    else:
        assert name == "three classes"
        y = np.arange(80) % 3
    return X, y


CASES = ["wrong labels", "random labels", "one row twice", "all rows twice", "all equal", "a row of norm 0",
         "all of norm 0", "three classes"]  # fmt: skip
# their weights grow, and their bounds fall, like the logarithm or a small root of the passes
SLOW = {("gd", "one row twice"), ("homotopic", "one row twice")}


@pytest.mark.parametrize("form", ["dense", slow("csr")])
@pytest.mark.parametrize("case", CASES)
@every([way for way in WAYS + NORMS if ":step=" not in way[0]])  # steps that become shorter take longer
def test_rows_that_nothing_separates(way, case, form):
    X, y = hopeless(case)
    slow = (way[0].partition(":")[0], case) in SLOW
    result = train(way, (as_form(X, form), y), tol=0.01, passes=100 if slow else 1000)
    figures, coef = result.certificate, result.model.coef_
    proven = ("not_separable",) if way[0] == "active-set" else NO_SEPARATOR
    assert result.reason in (("passes",) if slow else proven) and not result.converged
    # margins of weights that are 0 are none
    assert figures["margin_lower"] <= 0 <= figures["margin_upper"]
    mean = np.mean([length(x, conjugate(norm_of(way))) for x in X])
    assert slow or figures["margin_upper"] < max(0.01 * mean, 1e-300)
    assert figures["primal"] == np.inf and np.isfinite(coef).all()
    if case != "three classes":
        assert figures["mistakes"] == np.sum(result.model.predict(X) != y) > 0


@pytest.mark.parametrize("case", ["wrong labels", "one row twice", "all equal", "a row of norm 0", "all of norm 0"])
@pytest.mark.parametrize("solver", ["dual-momentum", "batch-perceptron", "adaptive"])
def test_classes_that_no_joint_margin_separates(solver, case):
    X, y = hopeless(case)[0], np.arange(80) % 3
    result = sm.train((X, y), solver=solver, multiclass="joint", tol=0.05, passes=2000)
    assert result.reason in NO_SEPARATOR and not result.converged
    assert result.certificate["mistakes"] == np.sum(result.model.predict(X) != y) > 0


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@every([way for way in WAYS if ":step=" not in way[0]])
def test_huge_and_tiny_rows_that_nothing_separates(way, scale):
    X, y = hopeless("wrong labels")
    result = train(way, (X * scale, y), tol=0.01)
    assert result.reason in NO_SEPARATOR and np.isfinite(result.model.coef_).all()


@pytest.mark.parametrize("scale", [1e-300, 1e300])
@pytest.mark.parametrize("solver", HARD)
def test_rows_at_the_end_of_the_numbers_give_an_answer_or_say_why_not(solver, scale):
    X, y = rows()
    try:
        result = sm.train((X * scale, y), solver=solver, C=np.inf, tol=0.05, passes=50)
    except DataError as error:
        assert 'scale="maxabs"' in str(error)
    else:
        assert result.certificate["margin_lower"] <= result.certificate["margin_upper"]
        assert np.isfinite(result.model.coef_).all()
    mended = sm.train((X * scale, y), solver=solver, C=np.inf, tol=0.05, passes=50, scale="maxabs")
    assert mended.certificate["mistakes"] == 0


def test_duals_that_leave_the_numbers_are_an_error_that_says_so():
    X, y = hopeless("wrong labels")
    with pytest.raises(DataError, match=r'too small, and perhaps not separable.*scale="maxabs"'):
        sm.train((X * 1e-153, y), solver="asdca", C=np.inf, tol=1e-9, passes=500)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("norm", [1.0 + 1e-4, 1.05, "sparse", 2])
@pytest.mark.parametrize("solver", ANY_NORM)
def test_norms_near_the_ends_of_their_range(solver, norm, form):
    X, y = rows()
    try:
        result = sm.train((as_form(X, form), y), solver=solver, C=np.inf, penalty=f"lp:{norm}", tol=0.05, passes=60)
    except DataError as error:
        assert norm == 1.0 + 1e-4 and "raise p" in str(error) and solver in ("sdca", "asdca")
    else:
        w = result.model.coef_[0]
        lower = np.min(y * (X @ w)) / np.linalg.norm(w, result.model.header["p"])
        assert result.certificate["margin_lower"] == pytest.approx(lower, rel=1e-9)
        assert 0.0 < lower <= result.certificate["margin_upper"] * (1 + 1e-9)


@pytest.mark.parametrize("solver", sorted(names()))
def test_what_is_refused_before_anything_is_learned(solver):
    X, y = rows()
    C = np.inf if solver in HARD else 1.0
    for norm in (1.0, 0.5, 2.5, np.nan, np.inf, "dense"):
        with pytest.raises(UsageError, match=r"must be a number in \(1, 2\]|is not a number|nan is no"):
            sm.train((X, y), solver=solver, C=C, penalty=f"lp:{norm}")
    if solver in ("newton", "pdprox", "prox-newton"):
        with pytest.raises(UsageError, match="supports penalties with p = 2"):
            sm.train((X, y), solver=solver, C=C, penalty="lp:1.5")
    with pytest.raises(DataError, match="its only row has the label"):
        sm.train((X[:1], y[:1]), solver=solver, C=C)
    with pytest.raises(DataError, match="all 80 rows have the label 1"):
        sm.train((X, np.ones(80, int)), solver=solver, C=C)
    if solver not in ("dual-momentum", "gd", "normalized-gd"):  # their loss is one of exponential tail
        for loss in ("logistic", "exponential"):
            own = [make_solver("asdca" if solver == "auto" else solver).called]  # what auto takes last
            if solver in ("ascent", "newton", "pdprox", "prox-newton") and loss == "logistic":
                continue  # they support it
            with pytest.raises(UsageError) as raised:
                sm.train((X, y), solver=solver, C=C, loss=loss)
            message = str(raised.value)
            assert "loss" in message and all(f" {name} needs" not in f" {message}" for name in {*names()} - {*own})


@pytest.mark.parametrize("X, best", [
    ([[3.0, 4.0], [-3.0, -4.0]], 5.0),
    ([[1.0, 0.0], [0.0, 1.0]], 0.5**0.5),
    ([[-1.0, -2.0], [-3.0, 1.0]], 7 / 17**0.5),  # that of the point nearest to 0 between (-1, -2) and (3, -1)
])  # fmt: skip
@every(WAYS)
def test_two_rows(way, X, best):
    result = train(way, (np.array(X), [1, -1]), tol=0.02, passes=1000)
    assert 0.0 < result.certificate["margin_lower"] <= best * (1 + 1e-9)
    assert result.certificate["margin_upper"] >= best * (1 - 1e-9)
    assert result.converged or way[0].startswith(("perceptron", "gd", "homotopic", "normalized-gd"))


@pytest.mark.parametrize("solver", ["sdca", "perceptron", "homotopic", "dual-momentum", "adaptive"])
def test_exit_codes(solver, tmp_path, capsys):
    path = str(tmp_path / "a.npz")
    for name, (X, y) in {"bad": hopeless("wrong labels"), "one": (rows()[0][:1], rows()[1][:1])}.items():
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["X"], file["y"] = X, y
    options = ["--solver", solver, "--C", "inf", "--tol", "0.01", "-o", path, "-q", "--force"]
    assert main(["train", str(tmp_path / "bad.h5"), *options]) == 0
    assert "train with a finite --C" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "bad.h5"), *options, "--require-convergence"]) == 3
    assert main(["train", str(tmp_path / "one.h5"), *options]) == 65
    assert main(["train", str(tmp_path / "bad.h5"), *options, "--penalty", "lp:1"]) == 2


@pytest.mark.parametrize("solver", ["mirror", "perceptron"])
def test_a_bound_from_late_passes_is_no_less_than_the_largest_margin(solver):
    """Points of the hull that are differences of running sums: rounding must not make them too short."""
    X, y = rows()
    for p in (2, 1.5):
        problem = binary(X, y, C=np.inf, norm=p)
        best = problem.margin(solve(problem, "hinge").w)
        for tol, passes in ((1e-12, 3), (1e-12, 40), (1e-12, 1500)):
            figures = sm.train((X, y), solver=solver, penalty=f"lp:{p}", tol=tol, passes=passes).certificate
            assert figures["margin_upper"] >= best * (1 - 1e-7)
