"""The inner solver for penalties known by their prox: its minimum by Fenchel's equality, and beside the other one."""

import numpy as np
import pytest

from streammargin.compiled.quadratic import minimise_quadratic
from streammargin.penalties.base import Norm, PenalisedColumns
from streammargin.penalties.groups import Exclusive, GroupLasso, Groups
from streammargin.penalties.lines import EachLine
from streammargin.penalties.norms import L2Norm, Linf
from streammargin.penalties.outputs import L21, ColumnLengths, L1inf, Trace
from streammargin.penalties.singular import nuclear_bound
from streammargin.solvers.newton import proximal_model
from streammargin.solvers.newton.proximal_model import minimise_by_prox
from streammargin.solvers.proof.objectives.soft_margin import SoftMargin

LINES, D = 4, 6
COLUMNS = PenalisedColumns(D, np.asarray, lines=LINES)
PENALTIES = {
    **{str(word): word.of_columns(COLUMNS) for cls in (L21, L1inf, Trace) for word in (cls(), cls(0.6))},
    "exclusive": Exclusive().of_columns(COLUMNS),
    "exclusive, line by line": EachLine.of(Exclusive([0, 1, 0, 1, 2, 2]).of_columns(COLUMNS)),
    "linf, line by line": EachLine.of(Linf()),
    "l2norm, line by line": EachLine.of(L2Norm()),
}


def model(rng, width, scales, apart, rows=60):
    """(H, slope) of a few rows under columns of these scales, coupled by a rank of one unless the lines are apart."""
    X = rng.standard_normal((rows, width)) @ rng.standard_normal((width, width)) * scales
    H = np.zeros((LINES * width, LINES * width))
    p = rng.dirichlet(np.ones(LINES), rows)
    for k in range(LINES):
        for other in range(LINES):
            weight = p[:, k] * ((k == other) - (0.0 if apart else p[:, other]))
            if k == other or not apart:
                H[k * width : (k + 1) * width, other * width : (other + 1) * width] = (X * weight[:, None]).T @ X
    chosen = rng.integers(LINES, size=rows)
    slope = X.T @ (p - np.eye(LINES)[chosen])
    return H + 1e-6 * np.eye(len(H)), slope.T.ravel()


def blocks(H, apart):
    """The blocks on the diagonal of H, one for each line if these are apart."""
    width = len(H) // LINES
    return H.reshape(LINES, width, LINES, width)[range(LINES), :, range(LINES)] if apart else H[None]


def off_optimum(objective, H, slope, start, v):
    """How far the optimality conditions are missed at v, relative to the slope at the start.

    R(v) + R*(-gradient) = -gradient.v says that the gradient is one of -R. Of a norm, the gauge is at most 1.
    """
    gradient = (slope + H @ (v - start).ravel()).reshape(v.shape)
    pull, own, penalty = -objective.penalised(gradient), objective.penalised(v), objective.penalty
    free = np.abs(gradient[:, -1]).max() / np.abs(slope).max() if objective.free else 0.0
    value, scale = penalty.value(own), 1.0
    beyond = conjugate = 0.0
    if isinstance(penalty, Norm):
        scale = max(1.0, penalty.gauge(objective.penalised(slope.reshape(v.shape))))
        beyond = (penalty.gauge(pull) - 1.0) / scale
    else:
        conjugate = penalty.conjugate(pull)
    return max(free, beyond, abs(value + conjugate - float(np.sum(pull * own))) / (scale * value + conjugate))


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("name", PENALTIES)
def test_what_it_finds_is_the_minimum(name, apart, free):
    rng, objective = np.random.default_rng(0), SoftMargin(PENALTIES[name], False, free=free)
    for scales in (1.0, np.geomspace(0.03, 30.0, D + free)):
        for C in (0.1, 30.0):
            H, slope = (C * part for part in model(rng, D + free, scales, apart))
            start = 0.1 * rng.standard_normal((LINES, D + free))
            v, work = minimise_by_prox(blocks(H, apart), slope, objective, start, 1e-12, 5000)
            assert off_optimum(objective, H, slope, start, v) < 1e-4 and work > 0.0


def test_of_one_line_and_for_blocks_it_is_the_other_solver():
    rng = np.random.default_rng(1)
    groups = Groups(np.array([0, 1, 0, 1, 2, 2]))
    for penalty, shape in ((GroupLasso(groups), (D + 1,)), (ColumnLengths(), (LINES, D + 1))):
        objective = SoftMargin(penalty, False, free=True)
        H, slope = model(rng, D + 1, 1.0, True)
        size = int(np.prod(shape))
        H, slope, start = H[:size, :size], slope[:size], np.zeros(shape)
        order, pieces = objective.pieces(shape)
        v = np.zeros(size)
        ordered = np.ascontiguousarray(H[np.ix_(order, order)])
        minimise_quadratic(ordered, slope[order], pieces, v, 1e-10, 5000, 1e9)
        found, _ = minimise_by_prox(H[None], slope, objective, start, 1e-12, 5000)
        np.testing.assert_allclose(found.ravel()[order], v, atol=1e-5 * np.abs(v).max())


@pytest.mark.parametrize("name", ["l1inf:1", "trace:1"])
def test_it_stops_once_the_missing_part_of_the_fall_is_proven(name):
    rng, objective = np.random.default_rng(2), SoftMargin(PENALTIES[name], False, free=True)
    H, slope = model(rng, D + 1, np.geomspace(0.1, 10.0, D + 1), False)
    start = np.zeros((LINES, D + 1))

    def value(v):
        return float(slope @ v.ravel() + 0.5 * v.ravel() @ H @ v.ravel()) + objective.regulariser(v)

    least = value(minimise_by_prox(H[None], slope, objective, start, 1e-12, 5000)[0])
    works = []
    for part in (0.5, 1e-2, 1e-4, 1e-6):
        v, work = minimise_by_prox(H[None], slope, objective, start, part, 20_000)
        assert value(v) - least <= part * -value(v) + 1e-12 * abs(least)
        works.append(work)
    assert works == sorted(works) and works[0] < works[-1]


def test_no_fall_leaves_the_start():
    """At the minimum, and if the first iterations lead up, it does not go on from there."""
    rng, objective = np.random.default_rng(3), SoftMargin(PENALTIES["trace:1"], False, free=True)
    H, slope = model(rng, D + 1, 1.0, False)
    best, _ = minimise_by_prox(H[None], slope, objective, np.zeros((LINES, D + 1)), 1e-14, 20_000)
    again, _ = minimise_by_prox(H[None], slope + H @ best.ravel(), objective, best, 1e-3, 2000)
    np.testing.assert_allclose(again, best, atol=1e-3)
    far = 10.0 * rng.standard_normal(best.shape)
    found, _ = minimise_by_prox(H[None], np.zeros(slope.size), objective, far, 1e-3, 1)
    assert objective.regulariser(found) <= nuclear_bound(far[:, :-1])


def test_lines_apart_are_decomposed_one_by_one():
    rng = np.random.default_rng(4)
    for apart in (True, False):
        H, _ = model(rng, D, 1.0, apart)
        found = proximal_model.spectrum(blocks(H, apart))
        assert found.vectors.shape == ((LINES, D, D) if apart else (1, LINES * D, LINES * D))
        x = rng.standard_normal(LINES * D)
        np.testing.assert_allclose(found.out_of(found.values * found.into(x)), H @ x, rtol=1e-8)
