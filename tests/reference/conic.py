"""Optima by an interior-point method for cones, from the definitions of losses and penalties alone."""

import clarabel
import numpy as np
import scipy.sparse as sp

CONES = {
    "zero": clarabel.ZeroConeT, "nonnegative": clarabel.NonnegativeConeT, "second order": clarabel.SecondOrderConeT,
    "exponential": lambda size: clarabel.ExponentialConeT(),
}  # fmt: skip


ACCURACY = 1e-6  # relative, of the values it returns


class Program:
    """min cost.x + 1/2 sum square_j x_j^2 over x, with rows of x in cones."""

    def __init__(self):
        self.size, self.cost, self.square, self.blocks, self.cones = 0, [], [], [], []

    def variables(self, count, cost=0.0, square=0.0):
        """Their numbers."""
        self.cost += [*np.broadcast_to(cost, count)]
        self.square += [*np.broadcast_to(square, count)]
        self.size += count
        return np.arange(self.size - count, self.size)

    def inside(self, cone, constants, terms):
        """constants (m,) + sum of the matrices (m, len(variables)) times their variables lies in the cone."""
        self.blocks.append((np.asarray(constants, float), terms))
        self.cones.append(CONES[cone](len(constants)))

    def solve(self):
        """The value of the optimum, and x there."""
        rows = []
        for constants, terms in self.blocks:
            block = np.zeros((len(constants), self.size))
            for numbers, matrix in terms:
                block[:, numbers] += matrix
            rows.append(block)
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = 1e-7
        found = clarabel.DefaultSolver(
            sp.csc_matrix(np.diag(self.square)), np.array(self.cost), sp.csc_matrix(-np.vstack(rows)),
            np.concatenate([constants for constants, _ in self.blocks]), self.cones, settings,
        ).solve()  # fmt: skip
        apart = abs(found.obj_val - found.obj_val_dual) / abs(found.obj_val)
        assert max(apart, found.r_prim, found.r_dual) <= ACCURACY, (found.status, apart, found.r_prim, found.r_dual)
        return found.obj_val, np.array(found.x)


NUMBERS = ("squared_error", "absolute_error", "epsilon_insensitive", "huber", "quantile")


def _numbers(program, loss, caps, score, y, width, eta):
    """The same of residuals score - y, which are above - below + inside + what eta (a variable, or none) makes free.

    Of the sum of all |alpha_i| each is a part of the largest on its side, so that eta frees as much over that.
    """
    n, one = len(caps), np.eye(len(caps))
    sides = {"squared_error": (0.0, 0.0), "quantile": (caps * (1 - width), caps * width)}
    up, down = {**sides, "huber": (caps * width, caps * width)}.get(loss, (caps, caps))
    square = caps if loss == "squared_error" else 0.0
    above, below = program.variables(n, up, square), program.variables(n, down, square)
    inside = program.variables(n, 0.0, caps if loss == "huber" else 0.0)
    freed = []
    if eta is not None:
        free = program.variables(n)
        freed = [(free, -one)]
        reach = {"quantile": (1 - width, width), "huber": (width, width)}.get(loss, (1.0, 1.0))
        for sign, most in zip((-1, 1), reach, strict=True):
            program.inside("nonnegative", np.zeros(n), [(free, sign * one), (eta, np.full((n, 1), 1.0 / most))])
    program.inside("zero", -y, [*score, (above, -one), (below, one), (inside, -one), *freed])
    for part in (above, below):
        program.inside("nonnegative", np.zeros(n), [(part, one)])
    for sign in () if loss == "huber" else (1, -1):
        program.inside(
            "nonnegative", np.full(n, width if loss == "epsilon_insensitive" else 0.0), [(inside, sign * one)]
        )


def _losses(program, loss, caps, u, width):
    """Adds sum caps_i phi(u_i); u: pairs of variables and their matrices that add up to the margins (n,)."""
    n = len(caps)
    one, minus = np.eye(n), [(numbers, -matrix) for numbers, matrix in u]
    if loss == "logistic":  # t with exp(-u - t) + exp(-t) <= 1
        t, first, second = program.variables(n, caps), program.variables(n), program.variables(n)
        program.inside("nonnegative", np.ones(n), [(first, -one), (second, -one)])
        for i in range(n):
            x, z, line = np.eye(3)[:, :1], np.eye(3)[:, 2:], one[i : i + 1]
            moved = [(numbers, x @ matrix[i : i + 1]) for numbers, matrix in minus]
            program.inside("exponential", [0, 1, 0], [*moved, (t, -x @ line), (first, z @ line)])
            program.inside("exponential", [0, 1, 0], [(t, -x @ line), (second, z @ line)])
        return
    if loss == "generalized_hinge":
        t = program.variables(n, caps)
        program.inside("nonnegative", np.zeros(n), [(t, one)])
        for slope in (1.0, width):
            scaled = [(numbers, slope * matrix) for numbers, matrix in u]
            program.inside("nonnegative", -np.ones(n), [*scaled, (t, one)])
        return
    parts = {
        "hinge": [(caps, 0.0)],
        "squared_hinge": [(0.0, 2 * caps)],
        "smooth_hinge": [(caps, 0.0), (0.0, caps / width)],  # the cheapest split of 1 - u
    }[loss]
    slack = [program.variables(n, *costs) for costs in parts]
    program.inside("nonnegative", -np.ones(n), [*u, *((s, one) for s in slack)])
    for s in slack:
        program.inside("nonnegative", np.zeros(n), [(s, one)])


def _penalty(program, name, w, r, groups):
    """Adds R(w) of the variables w."""
    d = len(w)
    members = [w[groups == g] for g in np.unique(groups)] if groups is not None else [w]

    def sizes(cost):  # a >= |w|
        a = program.variables(d, cost)
        for sign in (1, -1):
            program.inside("nonnegative", np.zeros(d), [(a, np.eye(d)), (w, sign * np.eye(d))])
        return a

    def lengths(cost):  # t >= ||w_g||
        for part in members:
            t = program.variables(1, cost * (np.sqrt(len(part)) if "group" in name else 1.0))
            program.inside("second order", np.zeros(len(part) + 1), [
                (t, np.eye(len(part) + 1)[:, :1]), (part, np.eye(len(part) + 1)[:, 1:])
            ])  # fmt: skip

    if name == "sparse_group":
        sizes(r)
        lengths(1 - r)
        return
    if name in ("l2norm", "group"):
        lengths(r)
    elif name == "linf":
        t = program.variables(1, 1.0)
        for sign in (1, -1):
            program.inside("nonnegative", np.zeros(d), [(t, np.ones((d, 1))), (w, sign * np.eye(d))])
    elif name == "exclusive":
        a = sizes(0.0)
        for part in members:
            total = program.variables(1, 0.0, 1.0)
            program.inside("zero", [0.0], [(total, -np.eye(1)), (a[np.searchsorted(w, part)], np.ones((1, len(part))))])
    elif name != "l2":
        sizes(r)
    for j in w:
        program.square[j] += 1 - r


def _within(program, w, low=-np.inf, high=np.inf, radius=np.inf):
    """low <= w_j <= high, and ||w|| <= radius."""
    d, one = len(w), np.eye(len(w))
    for sign, end in ((1, -low), (-1, high)):
        if end < np.inf:
            program.inside("nonnegative", np.full(d, end), [(w, sign * one)])
    if radius < np.inf:
        program.inside("second order", np.append(radius, np.zeros(d)), [(w, np.eye(d + 1)[:, 1:])])


def solve(
    X, y, caps, penalty, loss="hinge", *, r=None, groups=None, constant=1.0, free=True, width=1.0, budget=None,
    domain=None,
):  # fmt: skip
    """min R(w) + sum caps_i phi(y_i (x_i.w + constant b)): the optimum, w (d,) and constant b.

    width: of the smoothed hinge; the slope of the generalised hinge; for numbers y epsilon, or the quantile.
    budget: a bound on the sum of the duals. Margins may then rise by eta >= 0 at the cost of budget eta. For numbers,
    residuals up to eta cost nothing.
    domain: low, high, radius of w without b.
    free: R does not depend on b; else b is a column like the others, in a group of its own.
    """
    d = X.shape[1]
    sign = np.ones(len(y)) if loss in NUMBERS else y
    A = sign[:, None] * X
    r = {"elasticnet": 0.5, "l2": 0.0, "exclusive": 1.0}.get(penalty, 1.0) if r is None else r
    program = Program()
    w = program.variables(d)
    if not free:
        A, w = np.column_stack([A, constant * sign]), np.append(w, program.variables(1))
        groups = None if groups is None else np.append(groups, groups.max() + 1)
    u = [(w, A)]
    if free and constant:
        b = program.variables(1)
        u.append((b, constant * sign[:, None]))
    eta = None
    if budget is not None:
        eta = program.variables(1, budget)
        program.inside("nonnegative", [0.0], [(eta, np.eye(1))])
        u += [(eta, np.ones((len(y), 1)))] if loss not in NUMBERS else []
    if loss in NUMBERS:
        _numbers(program, loss, caps, u, y, width, eta)
    else:
        _losses(program, loss, caps, u, width)
    _penalty(program, penalty, w, r, groups)
    _within(program, w[:d], **(domain or {}))
    value, x = program.solve()
    last = x[b[0]] if free and constant else (0.0 if free else x[d])
    return value, x[:d], constant * last
