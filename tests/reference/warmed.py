"""Prints the kernels that had to be compiled although `warmup` ran, one a line."""

import glob
import importlib
import pkgutil
from itertools import product
from pathlib import Path

import numpy as np
from reference.datasets import as_form, noisy
from reference.sources import CountingSource

import streammargin as sm
from streammargin import compiled as folder
from streammargin.compiled.warmup import warmup
from streammargin.solvers.newton import sampled


def kernels():
    modules = [importlib.import_module(f"{folder.__name__}.{m.name}") for m in pkgutil.iter_modules(folder.__path__)]
    return {
        f for module in modules for f in vars(module).values() if hasattr(f, "signatures") and not isinstance(f, type)
    }


def use_everything():
    X, y = noisy(30, 5)
    options = {
        "loss": ("hinge", "logistic"),
        "penalty": ("l2", "lp:1.5"),
        "scale": ("none", "std"),
        "tol": (1e-2, 1e-6),
    }
    for dtype, form, labels in product((np.float32, np.float64), ("dense", "csr"), (y, np.arange(30) % 3)):
        data = as_form(X, form, dtype), labels
        for weights, *chosen in product((None, np.ones(30)), *options.values()):
            named = dict(zip(options, chosen, strict=True))
            for multiclass in ("ovr", "joint") if chosen[1] == "l2" and labels is not y else ("ovr",):
                model = sm.train(data, sample_weight=weights, passes=2, multiclass=multiclass, **named).model
        for solver, norm in (("perceptron", 2), ("mirror", 1.5), ("pegasos", 2)):
            sm.train(data, solver=f"{solver}:average", penalty=f"lp:{norm}", passes=2)
            sm.train(iter([data]), solver=solver, penalty=f"lp:{norm}")
        for solver in ("diagonal", "inertial-diagonal", "homotopic"):
            sm.train(data, solver=solver, passes=2)
        for average in (True, False):
            sm.train(data, solver=sm.solvers.Homotopic(average, stochastic=True), passes=2)
        for solver in ("dual-momentum", "batch-perceptron", "active-set", "adaptive"):
            sm.train(data, solver=solver, passes=2)
        sm.train(data, solver="adaptive", passes=2, multiclass="joint")
        sm.train(data, solver="gd", loss="logistic", passes=2, multiclass="joint").model.evaluate(data)
        sm.train(data, solver="gd", loss="exponential", passes=2).model.evaluate(data)
        model.evaluate(data)
        model.predict(data[0])
        for tol, norm, loss in ((1e-2, 2, "hinge"), (1e-6, 2, "logistic"), (1e-2, 1.5, "smooth_hinge")):
            given = {"loss": loss, "penalty": f"lp:{norm}", "multiclass": "ovr", "tol": tol}
            sm.train(data, solver="asdca", passes=2, bias=1.0, **given)
        for loss in ("hinge", "squared_hinge", "logistic"):
            sm.train(data, solver="newton", loss=loss, passes=8)
        sampled.WIDE_HESSIAN_COLUMNS = sampled.LEAST_DRAWN_ROWS = 0
        if labels is not y:  # steps on a sample
            sm.train(CountingSource(*data, np.array([0, 9, 30])), solver="newton", loss="logistic", passes=5)
        for solver, loss in product(("sdca", "pdprox"), ("hinge", "logistic")):
            sm.train(data, solver=solver, loss=loss, penalty="elasticnet", multiclass="ovr", bias=1.0, passes=2)
        for solver in ("pdprox", "prox-newton"):
            sm.train(data, solver=solver, penalty="l1", passes=2)
        sm.train(data, solver="sdca", penalty=sm.penalties.Group(np.arange(5) // 2, 0.5), bias=0.0, passes=2)
        for solver, norm in (("sdca", 2), ("asdca", 1.5)):
            sm.train((data[0], np.arange(30) * 0.5), solver=solver, penalty=f"lp:{norm}", loss="interpolate", passes=2)


def is_cached(kernel):
    """Whether the disk holds any form of this kernel."""
    return any(Path(kernel._cache.cache_path).glob(f"{glob.escape(kernel._cache._impl.filename_base)}*.nbi"))


if __name__ == "__main__":
    warmup()
    assert all(map(is_cached, kernels())), "warmup left a kernel out"
    use_everything()
    for kernel in kernels():
        for signature in kernel.stats.cache_misses:
            print(kernel.__name__, signature)
