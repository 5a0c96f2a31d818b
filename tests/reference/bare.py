"""Trainings with losses of the user's that have what a solver says it requires, and no more than one method besides."""

import json
import math
import sys
import traceback
from typing import Any, NamedTuple

import numpy as np
from reference.datasets import noisy, separable
from reference.linear import names
from reference.sources import CountingSource

import streammargin as sm
from streammargin.compiled.sdca import sdca_turns
from streammargin.losses import is_numeric, terms
from streammargin.losses.base import Loss
from streammargin.solvers.base import NUMBERS
from streammargin.solvers.registry import make_solver

SOLVERS_OF_LOSSES = [name for name in names()[1:] if make_solver(name).requires]
PENALTIES = {"pdprox": ("l1", "linf", "elasticnet"), "prox-newton": ("l1", "elasticnet")}


def methods_of(loss):
    """The names of its methods that are none of a tuple's."""
    return [name for name in vars(type(loss)) if not name.startswith("_") and callable(getattr(loss, name))]


def stub(known, methods):
    """A loss with the numbers of this one, and of its methods these alone."""
    cls = NamedTuple("Stub", [(name, float) for name in known._fields])
    for name in methods:
        setattr(cls, name, getattr(type(known), name))
    return cls(*known)


def with_called(known, methods):
    """These methods of a loss, and those that they call of it."""
    found = list(methods)
    for name in found:
        called = getattr(getattr(type(known), name), "__code__", None)
        found += [own for own in methods_of(known) if called and own in called.co_names and own not in found]
    return found


class Own(Loss):
    """A loss of which kernels take this."""

    made: Any

    def terms(self):
        return self.made


def own(made):
    """An object of a loss of the user's for these terms."""
    return Own(made)


def models(solver):
    """Known losses that this solver supports."""
    method, hard = make_solver(solver), make_solver(solver).default_C == math.inf
    for name in (
        "hinge",
        "logistic",
        "exponential",
        *(("absolute_error", "squared_error") if NUMBERS in method.takes else ()),
    ):
        known = terms(name)
        allowed = not hard or "has_hard_margin" not in method.required() or known.has_hard_margin()
        if allowed and set(method.required()) <= set(methods_of(known)):
            yield name, known


def least(solver, known):
    """The methods that this solver requires of such a loss; one of numbers says so."""
    return [*make_solver(solver).required(), *(["of_numbers"] if is_numeric(known) else [])]


def run():
    """{training: None, or the error that it ended in}; more rows and passes reach no other line that calls a loss."""
    answers = {}
    for solver in SOLVERS_OF_LOSSES:
        hard = make_solver(solver).default_C == math.inf
        ways = [{}] if hard else [{"C": 0.3}, {"C": 30.0}]
        ways += [{"C": 0.3, "penalty": penalty} for penalty in PENALTIES.get(solver, ())]
        for name, known in models(solver):
            X, y = separable(12, 3) if hard else noisy(12, 3)
            if is_numeric(known):
                y = X[:, 0] + np.sqrt(np.arange(12))
            required = least(solver, known)
            for more in (None, *(method for method in methods_of(known) if method not in required)):
                loss = own(stub(known, with_called(known, [*required, *([more] if more else [])])))
                for options in ways:
                    for form, data in (("in memory", (X, y)), ("blocks", CountingSource(X, y, np.arange(0, 13, 4)))):
                        case = f"{solver}: {name} and {more}, {form}, {options}"
                        answers[case] = outcome(data, solver=solver, loss=loss, tol=1e-5, passes=6, **options)
    return answers


def outcome(data, **options):
    """None, or the error that a training ends in."""
    try:
        sm.train(data, **options)
    except Exception:
        return traceback.format_exc()


if __name__ == "__main__":
    assert not hasattr(sdca_turns, "signatures"), "run with NUMBA_DISABLE_JIT=1"
    json.dump(run(), sys.stdout)
