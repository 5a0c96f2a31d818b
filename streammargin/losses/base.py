"""What losses are made of, and how."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

SMOOTH = 2.0  # a loss whose second derivative is no larger needs no softness for second-order steps


class Given(NamedTuple):
    """What losses are made of: the numbers of the options with these names, at their defaults."""

    width: float = 1.0
    epsilon: float = 0.0
    slope: float = 2.0
    quantile: float = 0.5


class Maker(NamedTuple):
    """How a loss is made, and the names of what it takes; hard: of C = inf alone."""

    make: Callable[[Given], Any]
    takes: tuple[str, ...] = ()
    hard: bool = False


def has(loss: Any, method: str) -> bool:
    """Whether a loss, or a class of losses, has this method: a number of the user's loss may be called so."""
    return callable(getattr(loss, method, None))


def largest_bend(loss: Any) -> float:
    """Bound of phi'' of a loss: inf where it has none, or says nothing of it."""
    return float(loss.curvature_bound()) if has(loss, "curvature_bound") else math.inf


def smooth(loss: Any) -> bool:
    """Whether plain Newton steps serve a loss as it is, with no softness."""
    return largest_bend(loss) <= SMOOTH


def far(loss, u, most):
    """Whether u is further than `most` from where the loss bends; False for a loss without `distance`."""
    return has(loss, "distance") and loss.distance(u) > most


def attained(loss, u, cap):
    """alpha = -cap phi'(u) of a smooth loss, with `primal`, `dual` and `slope` there; a loss may do it at once."""
    return loss.attained(u, cap) if has(loss, "attained") else attained_one_by_one(loss, u, cap)


def attained_one_by_one(loss, u, cap):
    """The same from the methods that every loss with a dual has."""
    alpha = loss.step(0.0, u, 0.0, cap)
    return alpha, loss.primal(u, cap), loss.dual(alpha, cap), loss.slope(alpha, 0.0, cap)


def derivative(loss, u, cap):
    """-cap phi'(u) of a smooth loss, and `primal` there."""
    return loss.attained(u, cap)[:2] if has(loss, "attained") else derivative_by_step(loss, u, cap)


def derivative_by_step(loss, u, cap):
    """The same from the methods that every loss with a dual has."""
    return loss.step(0.0, u, 0.0, cap), loss.primal(u, cap)
