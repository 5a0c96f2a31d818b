"""Which solvers there are. A new one is one file in this folder with a subclass named Method."""

from __future__ import annotations

import importlib

from streammargin.errors import UsageError

# name on the command line -> one line of help; a literal table, because --help must not import numba
SOLVERS = {
    "sdca": "dual coordinate ascent, one row at a time; any loss, norm and C; stops by the duality (margin) gap",
}


def names() -> dict[str, str]:
    """Names of the solvers and a line on each."""
    return dict(SOLVERS)


def make_solver(name: str):
    """An instance of the solver of this name. Raises UsageError if unknown."""
    if name not in SOLVERS:
        raise UsageError(f"unknown solver {name!r}; the solvers are {', '.join(SOLVERS)}")
    return importlib.import_module(f"streammargin.solvers.{name.replace('-', '_')}").Method()
