"""Kernel machines in NumPy, from definitions alone: matrices of kernels, and optima by an interior-point method."""

import math

import clarabel
import numpy as np
import scipy.sparse as sp

from streammargin.formulas import LOSS_FORMULAS


def value(word, x, z):
    """K(x, z) of a kernel without words for numbers, as `rbf:0.5`, with loops."""
    name, _, given = word.partition(":")
    named = dict(part.split("=") for part in given.split(",") if "=" in part)
    first = given.split(",")[0]
    dot = math.fsum(a * b for a, b in zip(x, z, strict=True))
    if name == "rbf":
        found = math.exp(-float(first) * math.fsum((a - b) ** 2 for a, b in zip(x, z, strict=True)))
    elif name == "poly":
        found = (float(named["gamma"]) * dot + float(named.get("coef0", 0.0))) ** int(first)
    elif name == "sigmoid":
        found = math.tanh(float(first) * dot + float(named.get("coef0", 0.0)))
    else:
        assert name == "linear"
        found = dot
    return float(named.get("weight", 1.0)) * found


def matrix(word, X, Z):
    """(n, m), of a sum of kernels as well."""
    return np.array([[sum(value(part, x, z) for part in word.split("+")) for z in Z] for x in X])


def optimum(K, y, caps, loss, number, free):
    """(the least of 1/2 b.K b + sum caps phi(K b + constant)), by the conic solver, over b in terms of square roots.

    y: signs of classes, or numbers; loss: of formulas.
    """
    n = len(y)
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # K = root root^T, f = root v, 1/2 ||v||^2
    width = n + 1
    sign, shift = (y, np.zeros(n)) if loss in ("hinge", "squared_hinge", "smooth_hinge") else (np.ones(n), y)
    # u = sign (root v + constant) - shift; slacks s, r >= 0
    rows, bounds, cones = [], [], []
    u = np.column_stack([sign[:, None] * root, sign if free else np.zeros(n)])
    g = number or 0.0
    pieces = {  # phi(u) = the least sum of slope s + bend s^2 / 2 over s >= 0 whose sum is at least side u + constant
        "hinge": [(-1.0, 1.0, [(1.0, 0.0)])], "squared_hinge": [(-1.0, 1.0, [(0.0, 2.0)])],
        "smooth_hinge": [(-1.0, 1.0, [(1.0, 0.0), (0.0, 1.0 / (g or 1.0))])],
        "epsilon_insensitive": [(1.0, -g, [(1.0, 0.0)]), (-1.0, -g, [(1.0, 0.0)])],
        "absolute_error": [(1.0, 0.0, [(1.0, 0.0)]), (-1.0, 0.0, [(1.0, 0.0)])],
        "quantile": [(1.0, 0.0, [(1.0 - g, 0.0)]), (-1.0, 0.0, [(g, 0.0)])],
        "huber": [(1.0, 0.0, [(g, 0.0), (0.0, 1.0)]), (-1.0, 0.0, [(g, 0.0), (0.0, 1.0)])],
        "squared_error": [(1.0, 0.0, [(0.0, 1.0)]), (-1.0, 0.0, [(0.0, 1.0)])],
    }[loss]  # fmt: skip
    size = width + n * sum(len(slacks) for *_, slacks in pieces)
    square, cost = np.zeros(size), np.zeros(size)
    square[:n] = 1.0
    start = width
    for side, constant, slacks in pieces:
        block = np.zeros((n, size))  # side (u - shift) + constant - the slacks <= 0
        block[:, :width] = side * u
        for slope, bend in slacks:
            own = slice(start, start + n)
            start += n
            cost[own], square[own] = caps * slope, caps * bend
            block[:, own] = -np.eye(n)
            positive = np.zeros((n, size))
            positive[:, own] = -np.eye(n)
            rows.append(positive)
            bounds.append(np.zeros(n))
        rows.append(block)
        bounds.append(side * shift - constant)
    start = float(caps @ LOSS_FORMULAS[loss](-shift, number))
    unit = min(1.0, start) if start > 0.0 else 1.0  # the tolerance below is absolute, too
    square, cost = square / unit, cost / unit
    cones = [clarabel.NonnegativeConeT(n * len(rows))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = 1e-9
    found = clarabel.DefaultSolver(
        sp.csc_matrix(np.diag(square)), cost, sp.csc_matrix(np.vstack(rows)), np.concatenate(bounds), cones, settings
    ).solve()  # fmt: skip
    return unit * found.obj_val


def primal(K, coef, constant, y, caps, loss, number):
    """1/2 coef.K coef + sum caps phi at coef (n,) and this constant."""
    f = K @ coef + constant
    u = y * f if loss in ("hinge", "squared_hinge", "smooth_hinge") else f - y
    return 0.5 * coef @ K @ coef + float(caps @ LOSS_FORMULAS[loss](u, number))


def largest_margin(K, y, free):
    """min_i y_i (f_i + c) / ||w|| at its largest: 1 / ||w|| of the least w with y (f + c) >= 1, by the conic solver.

    0.0 if nothing separates the classes. Values are scaled to 1, as the solver finds no weights of millions.
    """
    size = float(np.abs(K).max())
    values, vectors = np.linalg.eigh(K / size)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    n = len(y)
    P = sp.csc_matrix(np.diag([1.0] * n + [0.0]))
    A = -np.column_stack([y[:, None] * root, y if free else 0.0 * y])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(
        P, np.zeros(n + 1), sp.csc_matrix(A), -np.ones(n), [clarabel.NonnegativeConeT(n)], settings
    )
    found = solver.solve().obj_val
    return math.sqrt(0.5 * size / found) if found < math.inf else 0.0
