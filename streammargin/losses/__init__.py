"""Losses phi(u) of the margin u = y (x . w), or, for a regression, of the residual u = x . w - y. A new loss is a file.

A loss file defines subclasses of `Loss` (base.py), the words of `loss` with their fields, and LOSSES, which lists them.
`terms` of a loss returns what kernels use: a named tuple of floats with the methods below. Duals are on the scale of C:
0 <= alpha <= cap * U, with cap = C s_i (see `hinges.py` for an example). Duals of a regression loss have both signs
(`residuals.py`). Methods of one margin take numbers or arrays alike (`choices.py`).

    step(alpha, u, L, cap)   the new dual variable; L is the curvature along the row
    slope(alpha, L, cap)     -d step / du if the step gave alpha, 0 at a bound; for L = 0 that is cap phi''(u)
    distance(u)              distance of u from the nearest kink or curved part of phi; optional: with it coordinate
                             ascent skips more rows at a bound (compiled/sleep.py)
    primal(u, cap)           cap * phi(u)
    dual(alpha, cap)         -cap * phi*(-alpha/cap), the row's share of the dual; for a regression, without alpha y
    settled(alpha, cap)      True if alpha is at a bound or kink of the dual, if steps often leave it
    attained(u, cap)         for a smooth loss, alpha = -cap phi'(u), with primal, dual and slope there; optional
                             (base.py): faster if they share exponentials
    gap(alpha, u, cap)       primal - dual + alpha u >= 0, the row's share of the duality gap
    feasible(alpha, cap)     the nearest feasible dual
    slack(u)                 the margin of the row; for a regression, minus the violation of |u| <= epsilon
    missed(u)                whether the row is on the wrong side
    has_hard_margin()        whether C = inf makes sense
    quadratic()              whether phi'' is the same everywhere: a Newton step is exact; may be left out
    of_numbers()             True if u is a residual; may be left out otherwise
    log_likelihood(scores)   the logarithm of the probability of the class that scores speak for (an array, by NumPy
                             alone), where the loss is minus that; may be left out
    level()                  the share of numbers below the constant that is best alone, None (or no method): their mean
    reach()                  of numbers, for the field `top`: the largest |alpha| / cap, for alpha > 0 and for alpha < 0
    lifted(e)                the loss once e |alpha| / reach is taken off its dual; with `reach`, for numbers alone
    dual_form()              for kernel machines, (low, high, slope, over, under, g): on [low cap, high cap] the
                             dual is slope alpha - (under if alpha > 0 else over) |alpha| - g alpha^2 / (2 cap)
    pair()                   (f, c, f', c') of phi(u) = max(0, c - f u, c' - f' u), if the Pdprox paper has a dual for
                             either line; None, or no method: one dual a row (eq. (4) and appendix A there)
    most()                   if that is the mean with errors no larger than this, inf (or no method) if with all

`Loss.joint` returns the terms of a loss of all K lines of weights together, of classes or of targets, if there is one.
For classes sign_g is 1 for the row's own class and -1 for the others, u_g = sign_g z_g. For numbers u_g = z_g - y_g and
sign_g = 1. The dual a_g pulls line g by sign_g a_g, minus cap times the derivative of phi by z_g. Arguments that are
arrays have an entry for each line. No method may make another array.

    coupled_step(u, signs, off, centres, cap, L, a)  fills a with the feasible duals of the largest
                             share(a) - a.u - L/2 ||a - centres||^2; inf: the feasible duals at the centres.
                             Returns (cap phi, share, slip): the row's share of the dual, for numbers without a.y,
                             and the largest growth of cap phi if each u_g is wrong by at most off_g
    coupled_slopes(u, signs, centres, cap, L, a, straight, crossed)  minus the derivative of the pulls by z, at the step
                             that gave a: fills straight and crossed (K,) of diag(straight) - crossed crossed^T
    coupled_dual(signs, cap, a)      the share of feasible duals
    coupled_feasible(signs, cap, a)  changes a to feasible duals nearby
    coupled_middle(signs, cap, a)    fills a with the middle of the feasible duals
    of_share(p, own)         a line's part of minus the dual, for the share p = a / cap of another class, 1 - a / cap of
                             its own; of duals that add up to 0 over the lines; convex, 0 at 0, its slope at most 1
    log_likelihoods(scores)  (m, K) by NumPy: the logarithms of the classes' probabilities; may be left out
    curvature_bound()        bound on the largest eigenvalue of phi'' by z; may be left out if phi is not smooth
    takes_arrays()           True if, at L = 0, coupled_step and coupled_slopes take u, signs, off, a (lines, m) and cap
                             (m,) of m rows too, so that NumPy trains on few rows (arrays/); may be left out

A loss without a dual has only `primal` and `has_hard_margin` of these. Whole-pass methods need, for scores s = -u, sums
of phi and phi' that neither over- nor underflow, because they are scaled by exp(-level):

    level(s)                 log phi'(s), up to a factor of 2
    share(s, level)          phi'(s) exp(-level), the row's weight in the gradient
    value(s, level)          phi(s) exp(-level)
    divisor(total, value, level)  phi'(psi) exp(-level) at phi(psi) = sum of phi (dual acceleration paper, eq. (2.1),
                             (2.2)), from the sums of share and value
    steepness(rows)          rho, the smoothness of psi for the largest score (section 5.1)
    curvature_bound()        bound on phi''; inf, or no method: unbounded
    curvature_at_start()     bound on the mean of phi'' over the rows while the risk is at most that of w = 0
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streammargin.errors import Refusal
from streammargin.losses.base import Loss, has
from streammargin.words import Family, called, classes_in

PEERS = {  # names in scikit-learn, LIBLINEAR and Vowpal Wabbit
    "log": "logistic", "log_loss": "logistic", "hinge_loss": "hinge", "squared": "squared_error",
    "squared_loss": "squared_error", "mse": "squared_error", "mae": "absolute_error", "pinball": "quantile",
    "l1": "hinge", "l2": "squared_hinge", "svr": "epsilon_insensitive", "softmax": "logistic",
    "modified_huber": "smooth_hinge", "crammer_singer": "hinge", "multinomial": "logistic",
}  # fmt: skip


def is_numeric(terms: Any) -> bool:
    """Whether these terms are of a regression loss."""
    return has(terms, "of_numbers") and terms.of_numbers()


def _order(cls: type[Loss]) -> tuple[bool, bool]:
    return cls.has_defaults() and is_numeric(cls().terms()), cls.name != "hinge"


LOSSES: dict[str, type[Loss]] = {
    cls.name: cls for cls in sorted(classes_in(__name__, __path__, "LOSSES"), key=_order)
}  # fmt: skip
FAMILY = Family("loss", "losses", Loss, LOSSES, PEERS)  # type: ignore[type-abstract]


def __getattr__(name: str) -> Any:
    """The classes of all losses: `losses.Hinge`."""
    return called(name, [Loss, *LOSSES.values()], __name__)


def __dir__() -> list[str]:
    return sorted(["Loss", *(cls.__name__ for cls in LOSSES.values())])


def make_loss(value: object) -> Loss:
    """The loss of a word, or a `Loss` object, checked. Raises UsageError."""
    return FAMILY.of(value)


def terms(value: object) -> Any:
    """The kernels' named tuple of a loss or word."""
    return make_loss(value).terms()


def losses_with(methods: Iterable[str], of_numbers: bool = False, joint: bool = False) -> list[str]:
    """Words of the losses for classes, or for regression with a finite C, that have all of these methods.

    joint: in their form for all classes at once.
    """
    every = [cls() for _, cls in sorted(LOSSES.items()) if not cls.only_hard]
    made = {loss.name: loss.joint() if joint else loss.terms() for loss in every}
    fit = [name for name, loss in made.items() if is_numeric(loss) == of_numbers]
    return [name for name in fit if all(has(made[name], method) for method in methods)]


def terms_of(loss: Loss, joint: bool, lines: int) -> Any:
    """The terms of a loss, or of its form for all classes at once. Refusal if it has no such form."""
    if not joint:
        return loss.of_one() if lines == 1 else loss.terms()
    joint = loss.joint()
    if joint is None:
        able = " and ".join(losses_with(["coupled_step"], joint=True))
        wrong = (
            f"the loss {loss} has no form for all classes at once, `multiclass=joint` at a finite C; {able} have one"
        )
        raise Refusal(wrong, "use `multiclass=ovr`")
    return joint
