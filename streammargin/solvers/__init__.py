"""Solvers: each has a state, steps that change it row by row or pass by pass, and bounds that certify the result.

They never open files and know nothing of passes over them. Here are the classes of all solvers, `solvers.Newton`, and
the base classes for your own, loaded on first use; `roles` has the annotations of a state. Pass a name or an instance
as `solver` to `streammargin.train`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "FAMILY", "Certified", "CertifiedBySweep", "LinearSolver", "LinearState", "Method", "PassReport", "Problem",
    "Solver", "Stage", "State", "StreamSolver", "Visit", "labels_of", "make_solver", "names", "roles",
]  # fmt: skip
_HOME = {
    "base": "Method Solver StreamSolver Stage PassReport", "linear": "LinearSolver LinearState", "problem": "Problem",
    "state": "State labels_of", "visits": "Visit", "proof.sweep": "Certified CertifiedBySweep",
    "registry": "FAMILY names make_solver",
}  # fmt: skip

if TYPE_CHECKING:
    from streammargin.solvers import roles
    from streammargin.solvers.base import Method, PassReport, Solver, Stage, StreamSolver
    from streammargin.solvers.linear import LinearSolver, LinearState
    from streammargin.solvers.problem import Problem
    from streammargin.solvers.proof.sweep import Certified, CertifiedBySweep
    from streammargin.solvers.registry import FAMILY, make_solver, names
    from streammargin.solvers.state import State, labels_of
    from streammargin.solvers.visits import Visit


def _classes() -> dict[str, str]:
    """The word of each class of a solver."""
    registry = import_module(f"{__name__}.registry")
    return {registry.class_of(word): word for word in registry.SOLVER_CLASSES}


def __getattr__(name: str) -> Any:
    for home, found in _HOME.items():
        if name in found.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    if name == "roles":
        return import_module(f"{__name__}.roles")
    if name[:1].isupper() and name in (classes := _classes()):
        return import_module(f"{__name__}.registry").SOLVER_CLASSES[classes[name]]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_classes()])
