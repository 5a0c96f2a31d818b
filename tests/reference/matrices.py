"""Completion of a matrix in NumPy, from definitions alone: entry by entry; and optima by an interior-point method."""

import clarabel
import numpy as np
import scipy.sparse as sp

LEVELS, AT = (1.0, 2.0, 3.0, 4.0), (0.0, 3.0, 6.0, 9.0)
HINGE = "hinge:levels=1,2,3,4,at=0,3,6,9"


def terms(loss, value):
    """[(z, low, high, bend)] of an entry with this value."""
    if loss == "absolute_error":
        return [(value, -1.0, 1.0, 0.0)]
    if loss == "squared_error":
        return [(value, -np.inf, np.inf, 1.0)]
    return [(at + 1.0, -1.0, 0.0, 0.0) if value > level else (at - 1.0, 0.0, 1.0, 0.0)
            for level, at in zip(LEVELS, AT, strict=True)]  # fmt: skip


def loss_at(loss, x, value):
    """The loss of an entry: of each term the larger of two slopes, or half a square."""
    return sum(
        0.5 * (x - z) ** 2 if bend else max(low * (x - z), high * (x - z)) for z, low, high, bend in terms(loss, value)
    )


def primal(X, i, j, values, loss, C):
    """||X||_* + C sum of the losses."""
    norm = np.linalg.svd(X, compute_uv=False).sum()
    return norm + C * sum(loss_at(loss, X[a, b], value) for a, b, value in zip(i, j, values, strict=True))


def soft_duals(factors, rows, i, j, values, loss, centres, softness):
    """(duals (terms, n), their soft losses summed): each argmax of u (x - z) - bend u^2 / 2 - softness/2 (u - a)^2."""
    found, total = np.zeros_like(centres), 0.0
    for e, (a, b, value) in enumerate(zip(i, j, values, strict=True)):
        x = sum(factors[a, k] * factors[rows + b, k] for k in range(factors.shape[1]))
        for t, (z, low, high, bend) in enumerate(terms(loss, value)):
            centre = centres[t, e]
            u = min(max((x - z + softness * centre) / (bend + softness), low), high)
            found[t, e] = u
            total += u * (x - z) - bend * u * u / 2 - softness / 2 * (u - centre) ** 2
    return found, total


def optimum(shape, i, j, values, loss, C):
    """The least objective, by a semidefinite program: ||X||_* is the least trace/2 of [[P, X], [X^T, Q]] >= 0."""
    m, n = shape
    size = m + n
    places = {}
    for column in range(size):  # clarabel: upper triangle, column by column, with root 2 off the diagonal
        for row in range(column + 1):
            places[row, column] = len(places)
    wide = len(places)
    pieces = [(e, term) for e, value in enumerate(values) for term in terms(loss, value)]
    count = wide + len(pieces)
    square, cost = np.zeros(count), np.zeros(count)
    for k in range(size):
        cost[places[k, k]] = 0.5
    rows, columns, data, bounds, at = [], [], [], [], 0

    def line(parts, bound):
        nonlocal at
        for column, value in parts:
            rows.append(at), columns.append(column), data.append(value)
        bounds.append(bound)
        at += 1

    zeros = 0
    for k, (e, (z, _, _, bend)) in enumerate(pieces):  # of a square: slack = x - z
        if bend:
            square[wide + k] = C
            line([(places[i[e], m + j[e]], np.sqrt(0.5)), (wide + k, -1.0)], z)
            zeros += 1
    for k, (e, (z, low, high, bend)) in enumerate(pieces):
        if not bend:
            cost[wide + k] = C
            for slope in {low, high}:  # slope (x - z) <= slack
                line([(places[i[e], m + j[e]], slope * np.sqrt(0.5)), (wide + k, -1.0)], slope * z)
    others = at - zeros
    for place in range(wide):
        line([(place, -1.0)], 0.0)
    cones = [clarabel.ZeroConeT(zeros)] if zeros else []
    cones += [clarabel.NonnegativeConeT(others)] if others else []
    cones += [clarabel.PSDTriangleConeT(size)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    matrix = sp.csc_matrix((data, (rows, columns)), (at, count))
    return (
        clarabel.DefaultSolver(sp.diags_array(square).tocsc(), cost, matrix, np.array(bounds), cones, settings)
        .solve()
        .obj_val
    )


def ratings(m=25, n=35, count=350, seed=0, rank=3):
    """(i, j, values from 1 to 5) of entries in every row and column."""
    random = np.random.default_rng(seed)
    cells = set(zip(range(m), random.integers(0, n, m), strict=True)) | set(
        zip(random.integers(0, m, n), range(n), strict=True)
    )
    cells = {(int(a), int(b)) for a, b in cells}
    while len(cells) < count:
        cells.add((int(random.integers(m)), int(random.integers(n))))
    i, j = np.array(sorted(cells)).T
    order = random.permutation(i.size)
    i, j = i[order], j[order]
    X = random.standard_normal((m, rank)) @ random.standard_normal((rank, n)) / np.sqrt(rank)
    values = np.clip(np.round(3.0 + X[i, j] + 0.3 * random.standard_normal(i.size)), 1, 5)
    return i, j, values
