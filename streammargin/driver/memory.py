"""The bytes that a method keeps for each row, for the message of a budget that is too small."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from streammargin.errors import UsageError
from streammargin.losses import terms
from streammargin.sizes import format_size
from streammargin.solvers.base import Method
from streammargin.solvers.outputs import Outputs
from streammargin.solvers.problem import Problem
from streammargin.solvers.registry import make_solver, names
from streammargin.solvers.word import Auto

WORTH = 1 << 16  # least bytes of all rows that are told
FREE = ("newton", "mirror")  # what keeps no number of a row and is named first: for a finite C, for the hard margin


def numbers_of_rows(method: Method, problem: Problem, others: Sequence[Method]) -> str:
    """The end of a refusal: bytes a row, in all, and who keeps none; empty if the method itself keeps none.

    others: methods that `auto` would take.
    """
    each = method.row_bytes(problem)
    if each * problem.rows < WORTH:
        return ""
    said = f"; {method.called} keeps {each} bytes a row, {format_size(each * problem.rows)} in all"
    rest = (name for name in (*FREE, *names()) if name != Auto.name)
    for other in (*others, *map(make_solver, rest)):
        with suppress(UsageError):
            other.check(problem)
            if not other.row_bytes(problem):
                return f"{said}; `solver={other.called}` keeps none"
    return f"{said}; every method for this problem keeps some"


def usual_bytes(method: Method) -> int:
    """Bytes that it keeps of each row out of core: two classes, float32 values, one value of C, the penalty l2."""
    cost = math.inf if math.isinf(method.default_C) else 1.0
    return method.row_bytes(Problem(
        rows=1, features=1, dtype=np.dtype(np.float32), loss=terms(method.default_loss),
        outputs=Outputs(np.array([1]), np.full((1, 2), cost)), trials=1, tol=1e-3, seed=0, present=1, resident=False,
    ))  # fmt: skip
