"""The kinds of point, by the names that model files have for them. A new one is a file here, and a line."""

from __future__ import annotations

from streammargin.points.base import Answer, Point
from streammargin.points.linear import LinearPoint

KINDS: dict[str, type[Point]] = {
    "linear": LinearPoint,
}


def kind_of(answer: Answer) -> str:
    """The name of its kind."""
    return next(name for name, kind in KINDS.items() if kind is type(answer))
