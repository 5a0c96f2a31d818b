"""The kinds of points, by their names in model files. A new kind is one file here, and one line below."""

from __future__ import annotations

from streammargin.points.base import Answer, Point
from streammargin.points.expansion import Expansion
from streammargin.points.factors import Factors
from streammargin.points.linear import LinearPoint
from streammargin.points.mapped import Mapped

KINDS: dict[str, type[Point]] = {"linear": LinearPoint, "expansion": Expansion, "mapped": Mapped, "factors": Factors}


def kind_of(answer: Answer) -> str:
    """The name of its kind."""
    return next(name for name, kind in KINDS.items() if kind is type(answer))
