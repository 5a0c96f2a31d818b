"""Penalties R(w) of the weights. A new penalty is one new file here.

A penalty file defines subclasses of `Penalty` (base.py describes the methods; `norms.py` is an example), the words of
`penalty` with their fields, and PENALTIES, which lists them.
"""

from __future__ import annotations

from typing import Any

from streammargin.penalties.base import Penalty, PenaltyWord
from streammargin.words import Family, called, classes_in

DEFAULT = "l2"
PEERS = {"elastic_net": "elasticnet", "elastic-net": "elasticnet", "ridge": "l2", "lasso": "l1", "group_lasso": "group"}
PEERS |= {"sparse_group_lasso": "sparse_group", "sparse-group": "sparse_group"}
PEERS |= {"none": "l2` with a large `C=1e4"}  # no penalty at all: of several solutions one must be chosen


PENALTIES: dict[str, type[PenaltyWord]] = {
    cls.name: cls for cls in sorted(classes_in(__name__, __path__, "PENALTIES"), key=lambda cls: cls.name != DEFAULT)
}
FAMILY = Family("penalty", "penalties", PenaltyWord, PENALTIES, PEERS)  # type: ignore[type-abstract]


def __getattr__(name: str) -> Any:
    """The classes of all penalties: `penalties.ElasticNet`."""
    return called(name, [Penalty, *PENALTIES.values()], __name__)


def __dir__() -> list[str]:
    return sorted(["Penalty", *(cls.__name__ for cls in PENALTIES.values())])


def make_penalty(value: object) -> PenaltyWord:
    """The penalty of a word, or a penalty object, checked. Raises UsageError."""
    return FAMILY.of(value)
