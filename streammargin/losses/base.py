"""What a loss is: a class with typed fields, which makes what kernels take."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from streammargin.kinds import Number
from streammargin.words import Thing, entry

POSITIVE = Number("a positive number", lambda value: 0.0 < value < math.inf)
NOT_NEGATIVE = Number("a finite number >= 0", lambda value: 0.0 <= value < math.inf)

SMOOTH = 2.0  # a loss whose second derivative is no larger needs no softness for second-order steps


class Loss(Thing, ABC):
    """phi(u) of the margin u = y (x . w), or of the residual u = x . w - y of a number y.

    The first line of its docstring is its help. only_hard: it knows C = inf alone, numbers that are to be met.
    """

    only_hard: ClassVar[bool] = False

    @abstractmethod
    def terms(self) -> Any:
        """What kernels take: a named tuple of floats, with the methods that `losses/__init__.py` describes."""


class Largest(Loss):
    """A loss of which only the largest may count.

    With top = M the duals are bound by sum_i alpha_i <= M C (Pdprox paper, eq. (19)). Of numbers each |alpha_i| counts
    as a part of the largest that its side allows, `reach` of the terms: what is linear beyond its kink then counts for
    the M largest losses and no others.
    """

    top: float | None = entry(
        None, Number("a positive finite number", lambda value: 0.0 < value < math.inf, metavar="ROWS"),
        "how many of the largest losses count, in rows; none: all of them (pdprox)", kw_only=True,
    )  # fmt: skip


def has(loss: Any, method: str) -> bool:
    """Whether a loss, or a class of losses, has this method: a number of the user's loss may be called so."""
    return callable(getattr(loss, method, None))


def called(terms: Any) -> str:
    """What a loss, as kernels take it, is called in a message: the name of its class."""
    return type(terms).__name__.removesuffix("Terms")


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


def lifted(loss, lift):
    """The loss once each dual costs `lift`, the multiplier of the bound on their sum; of classes it stays as it is."""
    return loss.lifted(lift) if has(loss, "lifted") else loss


def share_of(plain, loss, alpha, cap, share):
    """The dual of `plain` at alpha, where `share` is that of the same loss as `lifted` has it."""
    return plain.dual(alpha, cap) if has(loss, "lifted") else share


def raised(loss, lift):
    """What that adds to the margins of classes instead; 0 for numbers."""
    return 0.0 if has(loss, "lifted") else lift


def derivative_by_step(loss, u, cap):
    """The same from the methods that every loss with a dual has."""
    return loss.step(0.0, u, 0.0, cap), loss.primal(u, cap)
