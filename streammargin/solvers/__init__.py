"""Solvers: each has a state, steps that change it row by row or pass by pass, and bounds that certify the result.

They never open files and know nothing of passes over them. Here are the classes of all solvers, `solvers.Newton`, and
the base classes for your own, loaded on first use; `roles` has the annotations of a state. Pass a name or an instance
as `solver` to `streammargin.train`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "Method": "base",
    "Solver": "base",
    "StreamSolver": "base",
    "Stage": "base",
    "LinearSolver": "linear",
    "LinearState": "linear",
    "PassReport": "base",
    "Problem": "problem",
    "State": "state",
    "Visit": "visits",
    "labels_of": "state",
    "Certified": "proof.sweep",
    "CertifiedBySweep": "proof.sweep",
    "FAMILY": "registry",
    "names": "registry",
    "make_solver": "registry",
}

if TYPE_CHECKING:
    from streammargin.solvers import roles as roles
    from streammargin.solvers.base import Method as Method
    from streammargin.solvers.base import PassReport as PassReport
    from streammargin.solvers.base import Solver as Solver
    from streammargin.solvers.base import Stage as Stage
    from streammargin.solvers.base import StreamSolver as StreamSolver
    from streammargin.solvers.linear import LinearSolver as LinearSolver
    from streammargin.solvers.linear import LinearState as LinearState
    from streammargin.solvers.problem import Problem as Problem
    from streammargin.solvers.proof.sweep import Certified as Certified
    from streammargin.solvers.proof.sweep import CertifiedBySweep as CertifiedBySweep
    from streammargin.solvers.registry import FAMILY as FAMILY
    from streammargin.solvers.registry import make_solver as make_solver
    from streammargin.solvers.registry import names as names
    from streammargin.solvers.state import State as State
    from streammargin.solvers.state import labels_of as labels_of
    from streammargin.solvers.visits import Visit as Visit


def _classes() -> dict[str, str]:
    """The word of each class of a solver."""
    registry = import_module(f"{__name__}.registry")
    return {registry.class_of(word): word for word in registry.CLASSES}


def __getattr__(name: str) -> Any:
    if name == "roles":
        return import_module(f"{__name__}.roles")
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    if name[:1].isupper() and name in (classes := _classes()):
        return import_module(f"{__name__}.registry").CLASSES[classes[name]]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(["roles", *_HOME, *_classes()])
