"""The base class of losses, and functions on the terms that kernels use."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from streammargin.kinds import Number
from streammargin.words import Thing, entry

POSITIVE = Number("a positive number", lambda value: 0.0 < value < math.inf)
NOT_NEGATIVE = Number("a finite number >= 0", lambda value: 0.0 <= value < math.inf)

SMOOTH = 2.0  # with phi'' <= SMOOTH Newton's method needs no proximal term


class Loss(Thing, ABC):
    """phi(u) of the margin u = y (x . w), or, for a regression, of the residual u = x . w - y.

    The first line of a subclass's docstring is its help. only_hard: it supports C = inf only (interpolation).
    """

    only_hard: ClassVar[bool] = False

    @abstractmethod
    def terms(self) -> Any:
        """The form that kernels use: a named tuple of floats with the methods described in `losses/__init__.py`."""

    def of_one(self) -> Any:
        """The terms for a single line of weights; they differ for a loss of several targets."""
        return self.terms()

    def joint(self) -> Any:
        """The same for one loss of all lines of weights together, with `coupled_step`; None: it has no such form."""
        return None


class Largest(Loss):
    """A loss of which only the largest may count.

    With top = M the duals are bound by sum_i alpha_i <= M C (Pdprox paper, eq. (19)). In a regression each |alpha_i| is
    divided by the largest one of its sign, `reach` of the terms. So a loss that is linear beyond its kink counts for
    the M largest losses and no others.
    """

    top: float | None = entry(
        None, Number("a positive finite number", lambda value: 0.0 < value < math.inf, metavar="ROWS"),
        "how many of the largest losses count, in rows; none: all of them (pdprox)", kw_only=True,
    )  # fmt: skip


def middle_share(loss: Any) -> float:
    """The midpoint of the feasible interval of a dual, as a share of its cap; 0 if it has no end."""
    if not has(loss, "feasible"):
        return 0.0
    found = 0.5 * (loss.feasible(-math.inf, 1.0) + loss.feasible(math.inf, 1.0))
    return float(found) if math.isfinite(found) else 0.0


def has(loss: Any, method: str) -> bool:
    """Whether a loss, or its class, has this method; a user's field of that name does not count."""
    return callable(getattr(loss, method, None))


def coupled(terms: Any) -> bool:
    """Whether a row's loss is one of all its lines together."""
    return has(terms, "coupled_step")


def called(terms: Any) -> str:
    """The name of a loss in messages: its class's."""
    return type(terms).__name__.removesuffix("Terms")


def largest_bend(loss: Any) -> float:
    """The bound on phi''; inf if the loss has none."""
    return float(loss.curvature_bound()) if has(loss, "curvature_bound") else math.inf


def quadratic(loss: Any) -> bool:
    """Whether phi'' is the same everywhere, so that one Newton step is exact."""
    return has(loss, "quadratic") and bool(loss.quadratic())


def smooth(loss: Any) -> bool:
    """Whether Newton's method works without a proximal term."""
    return largest_bend(loss) <= SMOOTH


def attained(loss: Any, u: Any, cap: Any) -> tuple[Any, Any, Any, Any]:
    """(-cap phi'(u), primal, dual, slope) for a smooth loss; of numbers or of arrays (m,), as the functions below."""
    return loss.attained(u, cap) if has(loss, "attained") else attained_one_by_one(loss, u, cap)


def attained_one_by_one(loss: Any, u: Any, cap: Any) -> tuple[Any, Any, Any, Any]:
    """The same for a loss without `attained`."""
    alpha = loss.step(0.0, u, 0.0, cap)
    return alpha, loss.primal(u, cap), loss.dual(alpha, cap), slope_of(loss, alpha, 0.0, cap)


def slope_of(loss: Any, alpha: Any, L: Any, cap: Any) -> Any:
    """-d step / du; 0 for a loss without `slope`."""
    return loss.slope(alpha, L, cap) if has(loss, "slope") else 0.0


def gap_of(loss: Any, alpha: Any, u: Any, cap: Any) -> Any:
    """primal - dual + alpha u, by the method of the loss if it has one: that may round less."""
    return loss.gap(alpha, u, cap) if has(loss, "gap") else loss.primal(u, cap) - loss.dual(alpha, cap) + alpha * u


def distance_of(loss: Any, u: float) -> float:
    """The distance of u from the nearest kink or curved part of phi; 0 for a loss without `distance`."""
    return loss.distance(u) if has(loss, "distance") else 0.0


def lifted(loss: Any, multiplier: float) -> Any:
    """The loss with the multiplier of the bound on the duals' sum; unchanged for classes."""
    return loss.lifted(multiplier) if has(loss, "lifted") else loss


def share_of(plain: Any, loss: Any, alpha: float, cap: float, share: float) -> float:
    """The dual of `plain` at alpha; share: the dual of the same loss with a multiplier (`lifted`)."""
    return plain.dual(alpha, cap) if has(loss, "lifted") else share


def margin_shift(loss: Any, multiplier: float) -> float:
    """The multiplier's part in the margins of classes; 0 for a regression."""
    return 0.0 if has(loss, "lifted") else multiplier


def part_of(loss: Any, p: float, own: bool) -> float:
    """A line's part of a coupled loss's dual, for the share p of a row in it; 0 for a loss without `part`."""
    return loss.of_share(p, own) if has(loss, "of_share") else 0.0
