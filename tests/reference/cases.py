"""Small trainings that call every kernel, with figures that do not depend on whether the kernels are compiled."""

import json
import re
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from reference.covered import Covered
from reference.datasets import as_form, noisy, separable
from reference.look import softmax_sums
from reference.sources import CountingSource

import streammargin as sm
from streammargin import compiled as kernels
from streammargin.compiled.sdca import sdca_turns
from streammargin.solvers.newton import conjugate, curved_columns, sampled
from streammargin.sources import views

# these compile, warm, or keep what was compiled
UNCOMPILED = {
    "jit.py", "overloads.py", "samples.py", "warmup.py", "__init__.py", "cache.py", "folders.py", "inventory.py",
    "shipped.py", "by_address.py",
}  # fmt: skip
KERNELS = sorted(path for path in Path(kernels.__file__).parent.glob("*.py") if path.name not in UNCOMPILED)
SHORT = {"tol": 1e-7, "passes": 12}
WARM = ("warm", "warm_loss", "warm_rows")  # samples to compile with

HARD = {
    "asdca": {"C": np.inf, "scale": "std"},
    "perceptron": {},
    "diagonal": {},
    "homotopic": {},
    "active-set": {"bias": "midway"},
    "adaptive": {},
    "dual-momentum": {},
}
REFUSED = {
    "a number that is none": np.array([[1.0, 2.0], [np.nan, 1.0]]),
    "a column that is not there": sp.csr_matrix((np.ones(2), np.array([0, 5]), np.array([0, 1, 2])), (2, 6)),
    "a column that is there twice": sp.csr_matrix((np.ones(3), np.array([1, 1, 0]), np.array([0, 2, 3])), (2, 2)),
}


def backwards(X):
    """CSR with the columns of every row in falling order."""
    rows = sp.csr_matrix(X)
    for start, stop in zip(rows.indptr, rows.indptr[1:], strict=False):
        rows.indices[start:stop], rows.data[start:stop] = rows.indices[start:stop][::-1], rows.data[start:stop][::-1]
    rows.has_sorted_indices = False
    return rows


def run():
    """{case: [weights and certificate]} with a fixed number of passes."""
    X, y = noisy(20, 5)
    separate = separable(20, 5)
    labels = np.arange(20) % 3
    centres = (X[:, :4] + 9.0 * np.eye(3, 4)[labels], labels)
    some = {"classes": [0, 1], "sample_weight": np.arange(20) % 4}
    some_weights = {"sample_weight": np.arange(20) % 3}
    groups = {"penalty": sm.penalties.Group([0, 0, 1, 1, 2], 0.3)}
    cases = {
        "hinge": ((X, y), {}),
        "logistic": ((as_form(X, "csr"), y), {"loss": "logistic", "bias": 1.0}),
        "squared_hinge": ((as_form(X, "csr"), y), {"loss": "squared_hinge", "penalty": "lp:1.5", "C": 0.3}),
        "smooth_hinge": ((X, y), {"loss": "smooth_hinge", "penalty": "lp:sparse", "scale": "std"}),
        "generalized_hinge": ((X, y), {"loss": "generalized_hinge:1.1", "solver": "sdca", "C": 0.1}),
        "numbers": ((as_form(X, "csr"), X[:, 0] + y), {"loss": "quantile:0.3", "penalty": "l1"}),
        "scaled": ((as_form(X, "csr"), y), {"scale": "maxabs", "sample_weight": np.arange(20) % 3}),
        "float32": ((as_form(X, "csr", np.float32), np.arange(20) % 3), {"loss": "hinge", "tol": 1e-3}),
        "hard": (separate, {"C": np.inf, "penalty": "lp:1.5"}),
        "mirror": ((as_form(separate[0], "csr"), separate[1]), {"solver": "mirror:average", "penalty": "lp:1.5"}),
        "perceptron": ((separate[0], np.arange(20) % 3), {"solver": "perceptron:average", "bias": 1.0}),
        "pegasos": ((as_form(X, "csr"), y), {"solver": "pegasos", "C": 0.1}),
        "asdca": ((as_form(X, "csr"), y), {"solver": "asdca", "penalty": "lp:1.5", "bias": 1.0}),
        "slow constant": (noisy(300, 5), {"solver": "sdca"}),
        "slow constant of classes": (
            (as_form(noisy(300, 5)[0], "csr"), np.arange(300) % 3),
            {"solver": "asdca", "loss": "squared_hinge"},
        ),
        "newton": ((as_form(X, "csr"), y), {"solver": "newton", "bias": 1.0}),
        "newton logistic": ((X, np.arange(20) % 3), {"solver": "newton", "loss": "logistic", "multiclass": "ovr"}),
        "kernel": ((X, y), {"kernel": "rbf", "C": 3.0, "tol": 1e-13}),
        "kernel, sparse": ((as_form(X, "csr"), labels), {"kernel": "rbf:0.3+linear", "tol": 1e-13}),
        "kernel, mostly zeros": (
            (as_form(np.diag(np.arange(1.0, 21.0)), "csr"), y),
            {"kernel": "rbf:0.01", "tol": 1e-13},
        ),
        "kernel, numbers": ((X, X[:, 0] + y), {"kernel": "poly:2", "loss": "epsilon_insensitive:0.1", "bias": 0}),
        "kernel, no constant": ((as_form(X, "csr", np.float32), y), {"kernel": "sigmoid:0.1", "bias": 0}),
        "softmax": ((as_form(X, "csr"), labels), {"loss": "logistic", "bias": "free"}),
        "Crammer-Singer": ((X, labels), {"multiclass": "joint", "loss": "hinge", "penalty": "l1"}),
        "one step for all classes": ((as_form(X, "csr"), labels), {"solver": "ascent", "loss": "logistic"}),
        "one step for all classes, dense": ((X, labels), {"solver": "ascent", "multiclass": "joint", "loss": "hinge"}),
        "lengths of errors": (
            (X, np.column_stack([X[:, 0] + y, X[:, 1]])),
            {"loss": "l2_error", "valid": (X, np.column_stack([y, X[:, 1]])), "bias": "free"},
        ),
        "the best pass of all classes": (
            (X, labels),
            {"loss": "logistic", "valid": (X, labels), "early_stop": 1, "solver": "newton"},
        ),
        "newton out of core": (CountingSource(*noisy(900, 3), (0, 400, 900)), {"solver": "newton"}),
        "newton in steps": (
            CountingSource(X, labels, (0, 8, 20)),
            {"solver": "newton", "loss": "hinge", "memory": "13M", "passes": 6},
        ),
        "newton from a sample": (noisy(1010, 4), {"solver": "newton"}),
        "newton from sparse rows": ((as_form(noisy(1010, 4)[0], "csr"), noisy(1010, 4)[1]), {"solver": "newton"}),
        "pdprox": ((X, y), {"solver": "pdprox", "penalty": "l1"}),
        "pdprox, smooth": ((as_form(X, "csr"), y), {"solver": "pdprox", "penalty": "l1", "loss": "logistic"}),
        "pdprox, numbers": ((X, X[:, 0] + y), {"solver": "pdprox", "penalty": "l1", "loss": "squared_error"}),
        "pdprox of groups": (
            (as_form(X, "csr"), y),
            {"solver": "pdprox", "penalty": sm.penalties.Group(np.arange(5) // 2), "C": 2.0},
        ),
        "prox-newton": ((X, y), {"solver": "prox-newton", "penalty": "l1", "C": 3.0}),
        "prox-newton of classes": (
            (as_form(X, "csr"), np.arange(20) % 3),
            {
                "solver": "prox-newton",
                "penalty": sm.penalties.Group(np.arange(5) // 2),
                "multiclass": "ovr",
                "loss": "logistic",
            },
        ),
        "pdprox of classes": (
            (as_form(X, "csr"), labels),
            {"solver": "pdprox", "penalty": "linf", "loss": "logistic:top=9", "bias": 0},
        ),
        "pdprox of the paper": ((X, y), {"solver": "pdprox:dual", "penalty": "l2", **some_weights}),
        "pdprox of the paper, largest losses": ((X, y), {"solver": "pdprox:dual", "loss": "hinge:top=5"}),
        "drawn": ((as_form(X, "csr"), y), {"solver": "ascent:order=importance", "bias": 1.0}),
        "elastic net": ((as_form(X, "csr"), y), {"solver": "sdca", "penalty": "elasticnet", "bias": 0}),
        "elastic net, dense": ((X, y), {"solver": "sdca", "penalty": "elasticnet", "bias": 1.0}),
        "groups": ((as_form(X, "csr"), y), {"solver": "sdca", **groups, "bias": 0}),
        "groups, dense": ((X, y), {"solver": "sdca", **groups, "bias": 1.0}),
        "asdca hard": (separate, {"solver": "asdca", "C": np.inf}),
        "interpolate": ((X[:4], X[:4, 0] + y[:4]), {"solver": "asdca", "loss": "interpolate:0.1"}),
        "momentum": (separate, {"solver": "dual-momentum", "loss": "logistic"}),
        "joint": ((as_form(separate[0], "csr"), np.arange(20) % 3), {"solver": "dual-momentum", "multiclass": "joint"}),
        "nearest average": (separate, {"solver": "batch-perceptron:average=no"}),
        "diagonal": (separate, {"solver": "diagonal"}),
        "inertia": ((as_form(separate[0], "csr"), np.arange(20) % 3), {"solver": "inertial-diagonal"}),
        "homotopic": (separate, {"solver": "homotopic"}),
        "stochastic": ((as_form(X, "csr"), y), {"solver": "homotopic:stochastic"}),
        "stochastic best": (separate, {"solver": "homotopic:average=no,stochastic"}),
        "active set": ((backwards(X), y), {"solver": "active-set", "sample_weight": np.arange(20) % 3}),
        "active set of classes": (centres, {"solver": "active-set"}),
        "adaptive": (separate, {"solver": "adaptive", "sample_weight": 1.0 + np.arange(20) % 3}),
        "adaptive columns": ((backwards(X), y), {"solver": "adaptive:step=proven"}),
        "adaptive joint": ((as_form(centres[0], "csr"), centres[1]), {"solver": "adaptive", "multiclass": "joint"}),
        "normalized": (separate, {"solver": "normalized-gd", "sample_weight": np.arange(20) % 3}),
        "risk": (centres, {"solver": "gd", "loss": "logistic"}),
        "many rows": (separable(300, 5), {"solver": "active-set"}),
        "many rows, stochastic": (separable(300, 5), {"solver": "homotopic:stochastic"}),
        "many rows, stochastic best": (
            separable(300, 5),
            {"solver": "homotopic:average=no,stochastic", "sample_weight": np.arange(300) % 3},
        ),
        "large": ((1e30 * separate[0], separate[1]), {"solver": "mirror:average", "penalty": "lp:1.02"}),
        "large steps": ((1e30 * separate[0], separate[1]), {"solver": "perceptron", "penalty": "lp:1.01"}),
        "interpolate some": (
            (X[:9], X[:9, 0]),
            {"solver": "asdca", "loss": "interpolate", "sample_weight": np.arange(9) % 2},
        ),
        **{f"{solver} of some": (centres, {"solver": solver, **some, **options}) for solver, options in HARD.items()},
        **{f"{solver} of some": (centres, {"solver": solver, **some, "C": 2.0}) for solver in ("sdca", "pegasos")},
        "nearest": ((as_form(X, "csr"), np.arange(20) % 3), {"solver": "batch-perceptron"}),
        "nearest of all": ((X, np.arange(20) % 3), {"solver": "batch-perceptron", "multiclass": "joint"}),
    }
    answers = {name: refusal(rows) for name, rows in REFUSED.items()}
    answers["softmax"] = softmax_sums(X, labels)
    for name, rows, loss in (("dense", X, "logistic"), ("sparse", as_form(X, "csr"), "squared_hinge")):
        answers[f"newton of few columns, {name}"] = changed(
            {(curved_columns, "FREE_CURVED_WORK"): (0.3, 0.3)},
            (rows, y),
            {"solver": "newton", "loss": loss, "penalty": "l1"},
        )
        answers[f"newton by products, {name}"] = changed(
            {(conjugate, "ASSUMED_PRODUCTS"): 0}, (rows, y), {"solver": "newton", "loss": loss}
        )
        start = sm.train((rows, y), loss=loss, C=0.01).model
        options = {"solver": "newton", "loss": loss, "init": start, "bias": "free", "C": 100.0}
        several = {
            "solver": "newton",
            "loss": "logistic",
            "bias": "free",
            "C": 10.0,
            "sample_weight": np.arange(20) % 4,
        }
        given = (centres[0] if name == "dense" else as_form(centres[0], "csr"), labels)
        answers[f"softmax by products, {name}"] = changed({(conjugate, "ASSUMED_PRODUCTS"): 0}, given, several)[
            -4:
        ]  # constants are free
        answers[f"softmax on a sample, {name}"] = changed(
            {(sampled, "WIDE_HESSIAN_COLUMNS"): 0, (sampled, "LEAST_DRAWN_ROWS"): 0,
             (sampled, "sample_bytes"): lambda problem: 5_000},
            CountingSource(*given, np.array([0, 7, 20])), {"solver": "newton", "loss": "logistic"},
        )  # fmt: skip
        answers[f"newton by products from weights, {name}"] = changed(
            {(conjugate, "ASSUMED_PRODUCTS"): 0}, (rows, y), options
        )
    for loss in ("absolute_error", "squared_error", "hinge:levels=1,2,at=0,3"):
        for solver in ("factors", "splitting"):
            answers[f"ratings, {loss}, {solver}"] = completed(loss, solver)
    answers["mostly zeros"] = changed({(views, "FEWEST_VALUES"): 0}, (np.eye(20), y), {"solver": "newton"})
    with tempfile.TemporaryDirectory() as folder:
        for name in ("hinge", "logistic"):  # dense and sparse
            data, options = cases[name]
            options = {**SHORT, **options, "checkpoint": str(Path(folder, name))}
            answers[f"{name} with a checkpoint"] = figures(data, options)
    return answers | {name: figures(data, {**SHORT, **options}) for name, (data, options) in cases.items()}


def completed(loss, solver):
    """Figures of a matrix with missing entries: scores of its ratings, certificate."""
    i, j = np.divmod(np.arange(30), 6)
    i, j = (side[(i + 2 * j) % 4 > 0] for side in (i, j))
    values = i * j % 3 + 1.0
    result = sm.complete((i, j, values), C=0.5, loss=loss, solver=solver, tol=1e-7, passes=100)
    scores = result.model.decision_function((i, j))
    return [*np.ravel(scores).tolist(), result.certificate["primal"], result.certificate["dual"]]


def changed(constants, data, options):
    """Figures with other constants (module, name): a Newton step has too many columns to be factored, and the like."""
    before = {(module, name): getattr(module, name) for module, name in constants}
    _set(constants)
    try:
        return figures(data, {**SHORT, **options})
    finally:
        _set(before)


def _set(constants):
    for (module, name), value in constants.items():
        setattr(module, name, value)


def refusal(rows):
    """The first row and column that are named, of rows that cannot be."""
    if sp.issparse(rows):
        rows._shape = (2, 2)  # what a damaged file may say
    try:
        sm.train((rows, [0, 1]))
    except sm.DataError as error:
        return [float(number) for number in re.findall(r"(?:row|column|index) (\d+)", str(error))]


def figures(data, options):
    """Weights, certificate and the figures of an evaluation."""
    result = sm.train(data, **options)
    keys = ("primal", "dual", "margin_lower", "margin_upper", "mistakes")
    known = [result.certificate[key] for key in keys if result.certificate[key] is not None]
    model = result.model
    w = model.decision_function(data[0]) if "kernel" in options else np.column_stack([model.coef_, model.intercept_])
    if result.certificate["margin_lower"] is not None:  # of a direction: rounding decides which length of it was best
        return [*(w / np.linalg.norm(w, axis=1, keepdims=True).clip(1e-300)).ravel().tolist(), *known]
    judged = {} if "classes" in options else result.model.evaluate(data)  # labels left out are unknown to the model
    known += [judged[key] for key in ("loss", "mean_squared_error") if key in judged]
    return [*w.ravel().tolist(), *known]


if __name__ == "__main__":
    assert not hasattr(sdca_turns, "signatures"), "run with NUMBA_DISABLE_JIT=1"
    with Covered(KERNELS, but=WARM) as covered:
        answers = run()
    print(json.dumps({"figures": answers, "missed": covered.missed(), "share": covered.share()}))
