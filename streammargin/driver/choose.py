"""The solver for a problem: the first of several that serves it within the memory budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from streammargin.compiled.overloads import expose
from streammargin.errors import UsageError
from streammargin.solvers.base import Method
from streammargin.solvers.problem import Problem

Fitted = TypeVar("Fitted")


def choose(
    methods: Sequence[Method],
    problem_for: Callable[[Method], Problem],
    fit: Callable[[Method, Problem], Fitted],
) -> tuple[Method, Fitted]:
    """The solver, and what `fit` makes of its problem. Raises the last one's UsageError where none of them will do.

    problem_for: with the solver's own loss and C where these were left out; fit says how it is planned, or raises
    UsageError for a budget that is too small. With a budget of 0 a method leaves out what it may do without, so that
    the error names the least.
    """
    refusal = UsageError("there is no solver to try")
    for method in methods:
        problem = problem_for(method)
        expose(type(problem.loss))
        expose(type(problem.norm))
        try:
            method.check(problem)
        except UsageError as error:
            refusal = error
            continue
        for share in (1.0, 0.75, 0.5, 0.0):  # what it holds may leave too little for blocks that cannot be small
            try:
                return method, fit(method, replace(problem, budget=int(share * problem.budget)))
            except UsageError as error:
                refusal = error
    raise refusal
