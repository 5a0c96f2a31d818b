"""Who visits rows for steps by products: compiled loops, or NumPy if the problem is small."""

from __future__ import annotations

from typing import Any

from streammargin.arrays import look as look_by_arrays
from streammargin.arrays import products as products_of_arrays
from streammargin.compiled import look as compiled_look
from streammargin.compiled import products as compiled_products
from streammargin.solvers.problem import Problem


def look(problem: Problem) -> Any:
    """The function `look`."""
    return look_by_arrays.look if problem.in_arrays else compiled_look.look


def products(problem: Problem) -> Any:
    """The module with the sums of products."""
    return products_of_arrays if problem.in_arrays else compiled_products
