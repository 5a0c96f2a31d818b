"""Certificates against optima in many digits: no bound lies above the optimum, and no gap is claimed too small."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from conftest import slow
from reference import words
from reference.words import loss_word

import streammargin as sm
from streammargin.losses import terms
from streammargin.solvers.proof.figures import relative_gap, relative_margin_gap

DIGITS = 60
WIDTH = 0.5  # of the smoothed hinge
LOSSES = ("hinge", "squared_hinge", "smooth_hinge", "logistic")
SOFT = [(solver, loss) for solver in ("sdca", "asdca", "newton") for loss in LOSSES] + [("pegasos", "hinge")]
MANY_DIGITS = (("sdca", "logistic"), ("asdca", "logistic"))  # logarithms in many digits; newton has them too
HARD = [
    "sdca", "asdca", "active-set", "adaptive", "dual-momentum", "normalized-gd", "gd", "batch-perceptron", "perceptron",
    "mirror", "diagonal", "inertial-diagonal", "homotopic",
]  # fmt: skip


def entropy(a, cap):
    """cap (-b ln b - (1 - b) ln(1 - b)) of b = a / cap."""
    b = a / cap
    return -cap * sum(part * part.ln() for part in (b, 1 - b) if part > 0)


@pytest.mark.parametrize("cap", [1e-9, 0.3, 360.467, 1e12])
def test_the_logistic_dual_in_fifty_digits(cap):
    loss = terms("logistic")
    shares = [10.0**-e for e in (0, 1, 3, 7, 12, 14, 15, 16, 17, 20, 100, 300)]
    with localcontext() as context:
        context.prec = DIGITS + 300
        for share in shares:
            for alpha in (share * cap, cap - share * cap, np.nextafter(cap, 0.0)):
                exact = entropy(Decimal(float(alpha)), Decimal(cap))
                assert loss.dual(float(alpha), cap) == pytest.approx(float(exact), rel=1e-14, abs=0), (share, alpha)


def phi(loss, u):
    """The loss of a Decimal, and minus its derivative."""
    r = 1 - u
    if loss == "logistic":
        e = (-abs(u)).exp()
        return max(-u, Decimal(0)) + (1 + e).ln(), (1 if u < 0 else e) / (1 + e)
    if r <= 0:
        return Decimal(0), Decimal(0)
    if loss == "hinge":
        return r, Decimal(1)
    if loss == "squared_hinge":
        return r * r, 2 * r
    best = min(r / Decimal(WIDTH), Decimal(1))
    return best * (r - Decimal(WIDTH) / 2 * best), best


def optimum(loss, sizes, caps, norm=False):
    """min t^2 / 2 + sum_i cap_i phi(size_i t) over t, the rows lying along one line, by bisection.

    norm: with |t| in place of t^2 / 2.
    """
    low = high = Decimal(0)
    for size, cap in zip(sizes, caps, strict=True):
        reach = abs(size) * cap * 2 * (1 + sum(caps))  # |t| <= sum cap |phi'| |size|
        reach += 2 * cap  # and sum cap phi(0), for a norm
        low, high = low - reach, high + reach
    for _ in range(int(3.4 * DIGITS) + 200):
        t = (low + high) / 2
        pull = sum(c * s * phi(loss, s * t)[1] for s, c in zip(sizes, caps, strict=True))
        slope = (Decimal(1).copy_sign(t) if norm and t else t) - pull
        low, high = (low, t) if slope > 0 else (t, high)
    return (abs(t) if norm else t * t / 2) + sum(c * phi(loss, s * t)[0] for s, c in zip(sizes, caps, strict=True))


def exact(number):
    """A Fraction or a float as a Decimal."""
    number = Fraction(number)
    return Decimal(number.numerator) / Decimal(number.denominator)


class Line:
    """Rows that are multiples of one vector: their optimum is that of one number, whatever their norms and C."""

    def __init__(self, seed, noisy=True):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(2, 12)), int(rng.integers(1, 5))
        self.along = rng.integers(1, 8, d).astype(float)  # small whole numbers: their multiples are exact
        spread, middle = rng.choice([0.0, 0.5, 3.0]), rng.uniform(-6, 9)
        sizes = np.float32(10.0 ** np.clip(middle + spread * rng.standard_normal(n), -6, 9)).astype(float)
        self.y = rng.permutation(np.where(np.arange(n) % 2, 1, -1))
        flipped = rng.random(n) < (0.3 if noisy else 0.0)
        self.sizes = np.where(flipped, -sizes, sizes)  # of y x
        self.X = (self.y * self.sizes)[:, None] * self.along
        self.C = float(10.0 ** rng.uniform(-9, 9))
        self.tol = float(10.0 ** rng.uniform(-6, -1))

    def optimum(self, loss, gauge=None, norm=False):
        """gauge: the dual norm of the line, if the penalty is another norm, or half the square of one."""
        length = gauge or exact(sum(Fraction(v) ** 2 for v in self.along)).sqrt()
        return optimum(loss, [exact(s) * length for s in self.sizes], [exact(self.C)] * len(self.sizes), norm)

    def objective(self, loss, w, penalty=None):
        w = [Fraction(v) for v in w]
        u = [Fraction(s) * sum(Fraction(v) * t for v, t in zip(self.along, w, strict=True)) for s in self.sizes]
        of_w = exact(sum(t * t for t in w)) / 2 if penalty is None else penalty([exact(t) for t in w])
        return of_w + exact(self.C) * sum(phi(loss, exact(v))[0] for v in u)


def check_figures(result, best, reached):
    """The figures of a training against the optimum and its own objective; best: None if it is not known."""
    end = result.certificate
    best = reached if best is None else best
    least = Decimal(10) ** (20 - DIGITS) * best
    assert exact(end.dual) <= best + least, "a bound above the optimum"
    if math.isfinite(end.gap):
        claimed = exact(end.gap) * max(exact(end.primal), exact(end.dual)) * (1 + Decimal("1e-15"))
        assert reached - best <= claimed + least, "a gap below the true one"
        assert abs(exact(end.primal) - reached) <= claimed + least, "an objective that is not the weights'"


def check_soft(seed, solver, loss):
    """The figures of a training against the optimum in many digits; whether it converged, None for data it refuses."""
    line = Line(seed)
    try:
        result = sm.train(
            (line.X, line.y), loss=loss_word(loss, WIDTH), C=line.C, solver=solver, tol=line.tol, passes=60, bias=0,
        )  # fmt: skip
    except sm.DataError:
        return None
    with localcontext() as context:
        context.prec = DIGITS
        check_figures(result, line.optimum(loss), line.objective(loss, result.model.coef_[0]))
    assert not result.converged or result.certificate.gap <= line.tol
    return result.converged


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver, loss", [slow(*way) if way in MANY_DIGITS else way for way in SOFT])
def test_no_dual_lies_above_the_optimum_and_no_gap_is_too_small(solver, loss):
    found = [check_soft(seed, solver, loss) for seed in range(12)]
    assert found.count(True) >= (1 if solver == "pegasos" else 3)


def lengths(w, groups):
    """||w_g||_2 of each group, and its size."""
    members = [[v for v, g in zip(w, groups, strict=True) if g == one] for one in sorted(set(groups))]
    return [(sum(v * v for v in part).sqrt(), Decimal(len(part)).sqrt(), part) for part in members]


# R(w), and the dual norm if R is a norm or half the square of one
NORMS = {"l1": True, "l2norm": True, "linf": True, "group": True, "sparse_group": True, "exclusive": False}
NORMS["elasticnet"] = None
VALUE = {
    "l1": lambda w, g: sum(map(abs, w)),
    "l2norm": lambda w, g: sum(v * v for v in w).sqrt(),
    "linf": lambda w, g: max(map(abs, w)),
    "group": lambda w, g: sum(length * root for length, root, _ in lengths(w, g)),
    "sparse_group": lambda w, g: (sum(map(abs, w)) + sum(length * root for length, root, _ in lengths(w, g))) / 2,
    "exclusive": lambda w, g: sum(sum(map(abs, part)) ** 2 for _, _, part in lengths(w, g)) / 2,
    "elasticnet": lambda w, g: (sum(map(abs, w)) + sum(v * v for v in w) / 2) / 2,
}


def scale(theta, root):
    """Where ||(|theta| - s/2)_+|| = s root / 2."""
    low, high = Decimal(0), 2 * max(map(abs, theta))
    for _ in range(3 * DIGITS):
        s = (low + high) / 2
        beyond = sum(max(Decimal(0), abs(t) - s / 2) ** 2 for t in theta).sqrt()
        low, high = (s, high) if beyond > s / 2 * root else (low, s)
    return high


DUAL = {
    "l1": VALUE["linf"],
    "l2norm": VALUE["l2norm"],
    "linf": VALUE["l1"],
    "group": lambda w, g: max(length / root for length, root, _ in lengths(w, g)),
    "sparse_group": lambda w, g: max(scale(part, root) for _, root, part in lengths(w, g)),
    "exclusive": lambda w, g: sum(max(map(abs, part)) ** 2 for _, _, part in lengths(w, g)).sqrt(),
}


SERVING = dict.fromkeys(("l1", "group", "sparse_group"), ("pdprox", "prox-newton"))
SERVING["elasticnet"] = ("pdprox", "prox-newton", "sdca")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("penalty", NORMS)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_certificates_of_other_penalties_hold(penalty, loss):
    found = []
    for seed in range(6):
        line = Line(seed)
        groups = np.arange(len(line.along)) % 2
        given = {"groups": groups} if penalty in ("group", "sparse_group", "exclusive") else {}
        for solver in SERVING.get(penalty, ("pdprox",)):
            result = sm.train(
                (line.X, line.y), loss=loss, penalty=words.penalty(penalty, **given), C=line.C, solver=solver,
                tol=line.tol,
                passes=60, bias=0,
            )  # fmt: skip
            with localcontext() as context:
                context.prec = DIGITS
                reached = line.objective(loss, result.model.coef_[0], lambda w, g=groups: VALUE[penalty](w, g))
                dual = DUAL[penalty]([exact(v) for v in line.along], groups) if penalty in DUAL else None
                best = None if dual is None else line.optimum(loss, dual, NORMS[penalty])
                check_figures(result, best, reached)
            found.append(result.converged)
    assert any(found)


def check_hard(seed, solver):
    """The margin interval of a training against the exact margin; whether it converged, None for data it refuses."""
    line = Line(seed, noisy=False)
    try:
        result = sm.train((line.X, line.y), C=math.inf, solver=solver, tol=line.tol, passes=60, bias=0)
    except sm.DataError:
        return None
    end = result.certificate
    with localcontext() as context:
        context.prec = DIGITS
        margin = exact(min(line.sizes)) * exact(sum(Fraction(v) ** 2 for v in line.along)).sqrt()
        w = [Fraction(v) for v in result.model.coef_[0]]
        along = sum(Fraction(v) * t for v, t in zip(line.along, w, strict=True))
        length = exact(sum(t * t for t in w)).sqrt()
        if math.isfinite(end.margin_upper):
            assert exact(end.margin_upper) >= margin, "an upper bound below the margin"
        if math.isfinite(end.margin_lower):
            reached = min(exact(Fraction(s) * along) for s in line.sizes) / length
            assert exact(end.margin_lower) <= reached, "a margin above the one of the weights"
    return result.converged


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", HARD)
def test_the_margin_interval_holds_the_margin(solver):
    assert any(check_hard(seed, solver) for seed in range(12))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["sdca", "asdca", "newton"])
def test_three_rows_that_were_certified_falsely(solver):
    """Duals below 1e-14 of their caps: log(1 - a) was 0, a gap of 4.8e-4 was certified and the true one 1.67e-3."""
    y = np.array([1, -1, 1])
    result = sm.train((9768105.0 * y[:, None], y), loss="logistic", C=360.467, solver=solver, tol=1e-3, bias=0)
    with localcontext() as context:
        context.prec = DIGITS
        best = optimum("logistic", [Decimal(9768105)] * 3, [exact(360.467)] * 3)
        assert exact(result.certificate.dual) <= best
        w = exact(float(result.model.coef_[0, 0]))
        reached = w * w / 2 + 3 * exact(360.467) * phi("logistic", 9768105 * w)[0]
    assert float((reached - best) / reached) <= result.certificate.gap
    assert result.converged == (result.certificate.gap <= 1e-3)


def test_bounds_on_the_wrong_sides_of_each_other_are_an_error():
    with pytest.raises(ArithmeticError, match="negative"):
        relative_gap(1.0, 1.0 + 1e-15)
    with pytest.raises(ArithmeticError, match="negative"):
        relative_gap(1.0, 1.0 + 1e-6, rounding=1e-7)
    assert relative_gap(1.0, 1.0 + 1e-6, rounding=3e-6) == pytest.approx(2e-6)
    with pytest.raises(ArithmeticError, match="empty"):
        relative_margin_gap(1.0 + 1e-15, 1.0)
    assert relative_gap(2.0, 1.0) == 0.5 and relative_gap(1.0, 1.0) == 0.0
    assert math.isinf(relative_gap(math.inf, 1.0))
