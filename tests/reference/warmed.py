"""Prints the kernels that had to be compiled although `warmup` ran, one a line."""

from itertools import product

import numpy as np
from reference.datasets import as_form, noisy

import streammargin as sm
from streammargin.kernels import certificate, check, columns, predict, sdca
from streammargin.kernels.warmup import warmup


def kernels():
    modules = (certificate, check, columns, predict, sdca)
    return {f for module in modules for f in vars(module).values() if hasattr(f, "signatures")}


def use_everything():
    X, y = noisy(30, 5)
    options = {"loss": ("hinge", "logistic"), "norm": (2, 1.5), "scale": ("none", "std"), "tol": (1e-2, 1e-6)}
    for dtype, form, labels in product((np.float32, np.float64), ("dense", "csr"), (y, np.arange(30) % 3)):
        data = as_form(X, form, dtype), labels
        for weights, *chosen in product((None, np.ones(30)), *options.values()):
            named = dict(zip(options, chosen, strict=True))
            model = sm.train(data, sample_weight=weights, passes=2, **named).model
        model.evaluate(data)
        model.predict(data[0])


if __name__ == "__main__":
    warmup()
    before = {f: len(f.signatures) for f in kernels()}
    assert all(before.values()), "warmup left a kernel out"
    use_everything()
    for f, count in before.items():
        for signature in f.signatures[count:]:
            print(f.__name__, signature)
