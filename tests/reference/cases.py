"""A few small trainings whose figures do not depend on whether the kernels are compiled."""

import json

import numpy as np
from reference.datasets import as_form, noisy, separable

import streammargin as sm
from streammargin.kernels.sdca import sdca_block


def run():
    """{case: [weights and certificate]} with a fixed number of passes."""
    X, y = noisy(20, 5)
    separate = separable(20, 5)
    cases = {
        "hinge": ((X, y), {}),
        "logistic": ((as_form(X, "csr"), y), {"loss": "logistic", "bias": 1.0}),
        "squared_hinge": ((as_form(X, "csr"), y), {"loss": "squared_hinge", "norm": 1.5, "C": 0.3}),
        "smooth_hinge": ((X, y), {"loss": "smooth_hinge", "norm": "sparse", "scale": "std"}),
        "scaled": ((as_form(X, "csr"), y), {"scale": "maxabs", "sample_weight": np.arange(20) % 3}),
        "float32": ((as_form(X, "csr", np.float32), np.arange(20) % 3), {"tol": 1e-3}),
        "hard": (separate, {"C": np.inf, "norm": 1.5}),
        "mirror": ((as_form(separate[0], "csr"), separate[1]), {"solver": "mirror", "norm": 1.5, "average": True}),
        "perceptron": ((separate[0], np.arange(20) % 3), {"solver": "perceptron", "bias": 1.0, "average": True}),
        "pegasos": ((as_form(X, "csr"), y), {"solver": "pegasos", "C": 0.1}),
        "asdca": ((as_form(X, "csr"), y), {"solver": "asdca", "norm": 1.5, "bias": 1.0}),
        "asdca hard": (separate, {"solver": "asdca", "C": np.inf}),
        "interpolate": ((X[:4], X[:4, 0] + y[:4]), {"solver": "asdca", "loss": "interpolate", "epsilon": 0.1}),
        "momentum": (separate, {"solver": "dual-momentum", "loss": "logistic"}),
        "joint": ((as_form(separate[0], "csr"), np.arange(20) % 3), {"solver": "dual-momentum", "multiclass": "joint"}),
        "nearest": ((as_form(X, "csr"), np.arange(20) % 3), {"solver": "batch-perceptron"}),
    }
    return {name: figures(sm.train(data, **{"tol": 1e-7, "passes": 12, **o})) for name, (data, o) in cases.items()}


def figures(result):
    keys = ("primal", "dual", "margin_lower", "margin_upper", "mistakes")
    known = [result.certificate[key] for key in keys if result.certificate[key] is not None]
    return [*result.model.coef_.ravel().tolist(), *result.model.intercept_.tolist(), *known]


if __name__ == "__main__":
    assert not hasattr(sdca_block, "signatures"), "run with NUMBA_DISABLE_JIT=1"
    print(json.dumps(run()))
