"""streammargin with one of its solvers: from arrays in memory, start and certificates included.

Every call for the same gap uses another seed. By chance, a call that ends just above the requested gap costs one more
pass and certificate. LIBLINEAR does the same: it continues its random numbers from call to call.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

from examples.benchmarks.sides import Side

PASSES = 10**6


def prepare(X: Any, y: Any, threads: int) -> Any:
    """The arrays as they are: what `train` does to them is in its time."""
    return X, y


def ours(solver: Any, **more: Any) -> Side:
    """The side whose settings are the certified relative gaps that are asked for; solver: its name, or a Solver."""

    calls: Counter = Counter()

    def solve(data: Any, loss: Any, C: float, tol: float, limit: float) -> tuple[Any, dict[str, Any]]:
        import streammargin as sm
        from streammargin.compiled.jit import compile_seconds

        options = {"loss": loss} if isinstance(loss, str) else loss.options
        asked = str(loss), C, tol
        seed, before = calls[asked], compile_seconds()
        calls[asked] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = sm.train(
                data, solver=solver, C=C, tol=tol, passes=PASSES, max_seconds=limit, bias=0, seed=seed,
                **options, **more
            )  # fmt: skip
        facts = {
            "certified_gap": result.certificate["gap"],
            "dual": result.certificate["dual"],
            "proven": result.converged,
            "passes": result.passes,
            "certificates": sum(event["event"] == "certificate" for event in result.history),
            "solver": result.model.header["solver"],
            "seed": seed,
            "compile_seconds": compile_seconds() - before,
        }
        return result.model.coef_, facts

    losses = ("hinge", "squared_hinge", "logistic")
    return Side(losses, (), prepare, solve, stops=True)
