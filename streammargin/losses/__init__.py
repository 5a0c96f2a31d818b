"""Losses of the margin u = y (x . w), or of the residual u = x . w - y of a number y. A new loss is one new file here.

A loss file defines a named tuple of numbers with these methods, on the C scale of the dual
(0 <= alpha <= cap * U with cap = C s_i; see `hinges.py` for a model), and LOSSES, a table from the
name on the command line to the Maker of the tuple (base.py). The duals of a loss of numbers have both signs
(`residuals.py`).

    step(alpha, u, L, cap)   the new dual variable; L is the curvature along the row
    slope(alpha, L, cap)     -d step / du where the step came to alpha, 0 at a bound: L = 0 gives cap phi''(u)
    distance(u)              how far the margin u is from where phi is not linear; coordinate ascent does without, and
                             its rows at a bound sleep less then (compiled/sleep.py)
    primal(u, cap)           cap * phi(u)
    dual(alpha, cap)         -cap * phi*(-alpha/cap), the row's share of the dual; of a number, without alpha y
    settled(alpha, cap)      True where alpha lies at a bound that a step may leave it at
    attained(u, cap)         alpha = -cap phi'(u), with primal, dual and slope there, of a smooth loss; may be left out
                             (base.py), and pays where they share exponentials
    gap(alpha, u, cap)       primal - dual + alpha u >= 0, the row's share of the duality gap
    feasible(alpha, cap)     the feasible dual next to alpha
    slack(u)                 how far the row is from being missed, in its own units: the margin, or minus the violation
    missed(u)                whether the row is on the wrong side
    has_hard_margin()        whether C = inf makes sense
    of_numbers()             True where u is a residual; may be left out otherwise
    log_likelihood(scores)   the logarithm of the probability of the class that scores speak for (an array, by NumPy
                             alone), where the loss is minus that; may be left out
    level()                  the share of numbers below the constant that is best alone, None (or no method): their mean

A loss may lack the dual (all but `primal` and `has_hard_margin`). Whole-pass methods ask of it, for scores
s = -u, sums of phi and phi' that neither overflow nor vanish, because a running level is taken off:

    level(s)                 log phi'(s), exact or rounded up to a factor of 2: what is taken off
    share(s, level)          phi'(s) exp(-level), the row's part in the gradient
    value(s, level)          phi(s) exp(-level)
    divisor(total, value, level)  phi'(psi) exp(-level) at phi(psi) = sum of phi (dual acceleration paper, eq. (2.1),
                             (2.2)), from the sums of share and value
    steepness(rows)          rho, the smoothness of psi for the largest score (section 5.1)
    curvature_bound()        bound of phi'', inf where it has none; most methods take that where it is left out
    curvature_at_start()     bound of the mean of phi'' over the rows where their risk is at most that of w = 0
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Any

from streammargin.errors import UsageError
from streammargin.losses.base import Given, Maker, has
from streammargin.wording import shown


def _load() -> dict[str, Maker]:
    table: dict[str, Maker] = {}
    for module in pkgutil.iter_modules(__path__):
        table.update(getattr(importlib.import_module(f"{__name__}.{module.name}"), "LOSSES", {}))
    return table


LOSSES = _load()


def make_loss(name: Any, width: float = 1.0, **numbers: float) -> Any:
    """The loss of this name, made of the numbers that were given (base.py; the options table checks them).

    All hinges may be given a width; those that have none ignore it. A named tuple of numbers with methods as above is a
    loss already. Raises UsageError for an unknown name, or a number that the loss has no use for.
    """
    given = Given(width, **numbers)
    if not isinstance(name, str):
        return _own_loss(name, given)
    if name not in LOSSES:
        raise UsageError(f"unknown loss {shown(name)}; the losses are {', '.join(sorted(LOSSES))}")
    maker = LOSSES[name]
    for option, value, default in zip(Given._fields, given, Given(), strict=True):
        if option != "width" and option not in maker.takes and value != default:
            able = " or ".join(f"`loss={other}`" for other, one in sorted(LOSSES.items()) if option in one.takes)
            raise UsageError(f"`{option}` is for {able}; the loss {name} has no use for it")
    return maker.make(given)


def _own_loss(loss: Any, given: Given) -> Any:
    if not (isinstance(loss, tuple) and hasattr(loss, "_fields") and all(isinstance(v, float) for v in loss)):
        named = "a name or a NamedTuple of floats with the methods of a loss"
        raise UsageError(f"`loss` must be {named}, not {shown(loss)}")
    if given != Given():
        named = ", ".join(f"`{name}`" for name in Given._fields)
        raise UsageError(f"{named} belong to losses that are named; give the loss its own numbers")
    return loss


def loss_text(loss: Any) -> str:
    """A loss in a model file and in events: its name, or the text of the user's own object, as in MyLoss(rate=2.0)."""
    return loss if isinstance(loss, str) else repr(loss)


def is_own(text: str) -> bool:
    """Whether this is the text of an object of the user's, of which no more is known here."""
    return text.endswith(")")


def losses_with(methods: Iterable[str], of_numbers: bool = False) -> list[str]:
    """Names of the losses of classes, or of numbers and a finite C, that have all of these methods."""
    made = {name: maker.make(Given()) for name, maker in sorted(LOSSES.items()) if not maker.hard}
    fit = [name for name, loss in made.items() if is_numeric(loss) == of_numbers]
    return [name for name in fit if all(has(made[name], method) for method in methods)]


def is_numeric(loss: Any) -> bool:
    """Whether the loss is one of numbers rather than classes."""
    return has(loss, "of_numbers") and loss.of_numbers()


def is_hard(name: Any) -> bool:
    """Whether the loss of this name knows C = inf alone: numbers are to be met."""
    return isinstance(name, str) and LOSSES[name].hard
