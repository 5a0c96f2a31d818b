"""LIBLINEAR itself (package liblinear-official): its training call alone, on nodes that were made before."""

from __future__ import annotations

from typing import Any

from examples.benchmarks.sides import Side

TOLERANCES = (10.0, 3.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)


def prepare(X: Any, y: Any, threads: int) -> Any:
    """LIBLINEAR's problem; it has one thread in this build."""
    import numpy as np
    import scipy.sparse as sp
    from liblinear.liblinear import problem

    return problem(y.astype(np.float64), sp.csr_matrix(X, dtype=np.float64))


def solver(number: int) -> Any:
    """The call of `-s number`."""

    def solve(data: Any, loss: str, C: float, tol: float, limit: float) -> tuple[Any, dict[str, Any]]:
        import numpy as np
        from liblinear.liblinear import liblinear, parameter, pointer

        model = liblinear.train(data, parameter(f"-s {number} -c {C!r} -e {tol!r} -B -1 -q"))
        found = model.contents
        labels = [found.label[k] for k in range(found.nr_class)]
        columns = 1 if len(labels) == 2 else len(labels)
        W = np.ctypeslib.as_array(found.w, (found.nr_feature, columns)).T.copy()
        liblinear.free_and_destroy_model(pointer(model))
        # its first label is the one of positive scores
        return (W * labels[0] if columns == 1 else W[np.argsort(labels)]), {}

    return solve


SIDES = {
    f"LIBLINEAR -s {number}": Side((loss,), TOLERANCES, prepare, solver(number))
    for number, loss in ((3, "hinge"), (1, "squared_hinge"), (2, "squared_hinge"), (0, "logistic"), (7, "logistic"))
}
