"""HiGHS through SciPy: l1 and the hinge as a linear program."""

from __future__ import annotations

from typing import Any

from examples.benchmarks.sides import Side

TOLERANCES = (1e-2, 1e-4, 1e-7)


def prepare(X: Any, y: Any, threads: int) -> Any:
    """Of min sum(p + q) + C sum(s), p, q, s >= 0, w = p - q: the rows of y X w + s >= 1."""
    import numpy as np
    import scipy.optimize  # noqa: F401  # imported before the clock runs
    import scipy.sparse as sp

    rows = sp.diags(y.astype(np.float64)) @ sp.csr_matrix(X, dtype=np.float64)
    return sp.hstack([-rows, rows, -sp.identity(len(y))]).tocsc(), X.shape[1]


def solver(method: str) -> Any:
    """The call of one of its methods."""

    def solve(data: Any, loss: Any, C: float, tol: float, limit: float) -> tuple[Any, dict[str, Any]]:
        import numpy as np
        from scipy.optimize import linprog

        rows, d = data
        costs = np.ones(rows.shape[1])
        costs[2 * d :] = C
        options = {"primal_feasibility_tolerance": tol, "dual_feasibility_tolerance": tol}
        if method == "highs-ipm":
            options["ipm_optimality_tolerance"] = tol
        found = linprog(costs, rows, -np.ones(rows.shape[0]), method=method, options={"time_limit": limit, **options})
        if found.x is None:
            raise (TimeoutError if found.status == 1 else RuntimeError)(f"it gave no answer: {found.message}")
        return (found.x[:d] - found.x[d : 2 * d])[None], {}

    return solve


SIDES = {
    f"HiGHS {name}": Side((("hinge", "l1"),), TOLERANCES, prepare, solver(method))
    for name, method in (("simplex", "highs-ds"), ("interior point", "highs-ipm"))
}
