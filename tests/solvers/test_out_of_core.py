"""A tenth of the file as the memory budget: the same answers as in memory, for every solver, dense and CSR.

A process takes some bytes whatever the data: SLACK_BYTES, the least block, the first rows of the active set. They are
made small here, as small files are to those of a real size.
"""

import json
import os
from functools import cache

import h5py
import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form
from reference.linear import names
from reference.optimum import solve
from reference.training import binary

import streammargin as sm
from streammargin.cli.main import main
from streammargin.reading import plan
from streammargin.solvers.margin import small_problem

ROWS, FEATURES = 4000, 100
TOL = 0.02
# far from the optimum for long: what they must reach in so many passes
SLOW = {"gd": 150, "normalized-gd": 150, "homotopic": 150, "batch-perceptron": 150}
SOFT = ("ascent", "pegasos", "newton", "pdprox", "prox-newton")  # know a finite C only
OTHER_END = ("mirror", "perceptron")  # stop if their own objective ends


@cache
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES)) * (rng.random((ROWS, FEATURES)) < 0.6)
    w = rng.standard_normal(FEATURES)
    w /= np.linalg.norm(w)
    y = np.where(X @ w > 0, 1, -1)
    return (X + np.outer(y, w)).astype(np.float32), y


@cache
def best(kind):
    """The largest margin, or with C = 0.01 the optimal objective."""
    X, y = rows()
    if kind == "hard":
        easy = np.argsort(y * (X @ sm.train((X, y), solver="sdca", C=np.inf, tol=1e-3).model.coef_[0]))[:400]
        problem = binary(X[easy], y[easy], C=np.inf)  # the rows that could matter
        w = solve(problem, "hinge").w
        return binary(X, y, C=np.inf).margin(w)
    return sm.train((X.astype(float), y), solver="sdca", C=0.01, tol=1e-8, bias=0).certificate["primal"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    X, y = rows()
    folder = tmp_path_factory.mktemp("files")
    for form in ("dense", "csr"):
        with h5py.File(folder / f"{form}.h5", "w") as file:
            file["y"] = y.astype(np.int8)
            if form == "dense":
                file["X"] = X
            else:
                S, group = as_form(X, "csr", np.float32), file.create_group("X")
                group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": X.shape})
                for name in ("data", "indices", "indptr"):
                    group[name] = getattr(S, name)
    return folder


@pytest.fixture(autouse=True)
def small_plans(monkeypatch):
    monkeypatch.setattr(plan, "SLACK_BYTES", 0)
    monkeypatch.setattr(plan, "LEAST_BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(small_problem, "SIDE", 8)
    monkeypatch.setattr(small_problem, "LEAST_ALLOWED_ROWS", 16)


@pytest.mark.parametrize("form", ["dense", slow("csr")])
@pytest.mark.parametrize(
    "solver", [slow(name) if name in ("active-set", "adaptive") else name for name in sorted(names())]
)
def test_a_tenth_of_the_file_is_memory_enough(files, solver, form):
    X, y = rows()
    path = str(files / f"{form}.h5")
    tenth, more = os.path.getsize(path) // 10, 10
    if (solver, form) == ("newton", "dense") or solver == "prox-newton":
        tenth, more = 1 << 20, 1  # a matrix of d x d, and rows gathered for it, whatever the file has
    options = {"solver": solver, "C": 0.01 if solver in SOFT else np.inf, "tol": TOL,
               "passes": SLOW.get(solver, 1000)}  # fmt: skip
    inside, outside = sm.train(path, **options, bias=0), sm.train(path, memory=tenth, **options, bias=0)
    plans = [result.history[0]["plan"] for result in (inside, outside)]
    assert plans[0]["blocks"] == 1 and plans[1]["blocks"] > more and plans[1]["memory_bytes"] <= tenth
    intervals = []
    for result in (inside, outside):
        figures, w = result.certificate, result.model.coef_[0]
        if solver in SOFT:
            assert result.converged and figures["gap"] <= TOL
            assert figures["primal"] == pytest.approx(binary(X, y, C=0.01).primal(w), rel=1e-6)
            intervals.append((figures["dual"], figures["primal"]))
            assert figures["dual"] <= best("soft") * (1 + 1e-6) and figures["primal"] >= best("soft") * (1 - 1e-6)
            continue
        assert figures["margin_lower"] == pytest.approx(binary(X, y, C=np.inf).margin(w), rel=1e-6)
        assert figures["margin_lower"] <= best("hard") * (1 + 1e-5)
        assert figures["margin_upper"] >= best("hard") * (1 - 1e-5)
        if solver in SLOW:
            assert result.reason == "passes" and figures["margin_lower"] > 0.5 * best("hard")
        else:
            assert result.converged == (figures["margin_gap"] <= TOL)
            assert result.converged or (solver in OTHER_END and result.reason == "separated")
        intervals.append((figures["margin_lower"], figures["margin_upper"]))
    (low, high), (other_low, other_high) = intervals
    assert max(low, other_low) <= min(high, other_high) * (1 + 1e-9)  # both hold the truth
    if solver in SLOW or solver in ("diagonal", "inertial-diagonal", "dual-momentum"):
        # one step a read: the plan changes nothing but the order of sums
        assert [other_low, other_high] == pytest.approx([low, high], rel=1e-4)
        assert inside.passes == outside.passes


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_from_the_shell(files, form, tmp_path):
    path, model, log = str(files / f"{form}.h5"), str(tmp_path / "m.npz"), tmp_path / "log"
    tenth = os.path.getsize(path) // 10
    options = ["--solver", "inertial-diagonal", "--tol", str(TOL), "--memory", str(tenth), "-q", "--log-json", str(log)]
    assert main(["train", path, *options, "-o", model, "--require-convergence"]) == 0
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert events[0]["plan"]["blocks"] > 10 and events[-1]["converged"]
    X, y = rows()
    assert binary(X, y, C=np.inf).margin(sm.load_model(model).coef_[0]) >= (1 - TOL) * best("hard") * (1 - 1e-6)
