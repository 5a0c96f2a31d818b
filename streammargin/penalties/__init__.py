"""Penalties R(w) of the weights. A new penalty is one new file here.

A penalty file defines subclasses of `Penalty` (base.py describes the methods; `norms.py` is an example), the words of
`penalty` with their fields, and PENALTIES, which lists them.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from streammargin.penalties.base import Penalty, PenaltyWord
from streammargin.words import Family

DEFAULT = "l2"
PEERS = {"elastic_net": "elasticnet", "elastic-net": "elasticnet", "ridge": "l2", "lasso": "l1", "group_lasso": "group"}
PEERS |= {"sparse_group_lasso": "sparse_group", "sparse-group": "sparse_group"}
PEERS |= {"none": "l2` with a large `C=1e4"}  # no penalty at all: of several solutions one must be chosen


def _load() -> dict[str, type[PenaltyWord]]:
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    table = {cls.name: cls for module in modules for cls in getattr(module, "PENALTIES", ())}
    return dict(sorted(table.items(), key=lambda line: line[0] != DEFAULT))


PENALTIES = _load()
FAMILY = Family("penalty", "penalties", PenaltyWord, PENALTIES, PEERS)  # type: ignore[type-abstract]


def __getattr__(name: str) -> Any:
    """The classes of all penalties: `penalties.ElasticNet`."""
    classes: list[type] = [Penalty, *PENALTIES.values()]
    for cls in classes:
        if cls.__name__ == name:
            return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(["Penalty", *(cls.__name__ for cls in PENALTIES.values())])


def make_penalty(value: object) -> PenaltyWord:
    """The penalty of a word, or a penalty object, checked. Raises UsageError."""
    return FAMILY.of(value)
