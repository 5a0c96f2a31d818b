"""Choose the solver of a problem: the first in a list that supports it and fits the memory budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from streammargin.compiled.overloads import expose
from streammargin.errors import BudgetError, UsageError
from streammargin.solvers.base import Method
from streammargin.solvers.problem import Problem

Fitted = TypeVar("Fitted")


def choose(
    methods: Sequence[Method], problem_for: Callable[[Method], Problem], fit: Callable[[Method, Problem], Fitted]
) -> tuple[Method, Fitted, BudgetError | None]:
    """(The first solver that supports its problem and fits, what `fit` returned, a refusal).

    The refusal is that of the first solver tried that needs more memory, if there was one.

    If none does, raises the UsageError of the one that needs the least memory, or else the last refusal.
    problem_for: the problem, with the solver's own loss and C if these were left out. fit: plans the memory;
    UsageError for a budget that is too small. It is tried with smaller shares of the budget for the solver's optional
    caches; a share of 0 makes the error name the minimum.
    """
    refusal: UsageError | None = None
    too_large: list[UsageError] = []
    before: BudgetError | None = None
    for method in methods:
        problem = problem_for(method)
        expose(type(problem.loss))
        expose(type(problem.norm))
        try:
            method.check(problem)
        except UsageError as error:
            refusal = error
            continue
        for share in (1.0, 0.75, 0.5, 0.0):  # caches may leave too little for blocks that cannot be small
            try:
                return method, fit(method, replace(problem, budget=int(share * problem.budget))), before
            except UsageError as error:
                too_large.append(error)
        if before is None and isinstance(too_large[-1], BudgetError):
            before = too_large[-1]
    none_fits = refusal or UsageError("there is no solver to try")
    raise min(too_large, key=lambda error: getattr(error, "least", math.inf), default=none_fits)
