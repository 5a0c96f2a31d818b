"""The expansion of the pass with the smallest held-out error, and its exact figures from one more read."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import look, smo
from streammargin.points.expansion import SCORED_ROWS, Expansion
from streammargin.rows.blocks import Block, alone, part
from streammargin.rows.labels import RowLabels
from streammargin.solvers.expansion.form import form_of
from streammargin.solvers.expansion.found import Found, merged, set_found
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best, bounded
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.kept import BestKept, of_margins
from streammargin.solvers.proof.margins import sum_margins
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.proof.rounding import EPS, TERM
from streammargin.solvers.state import labels_for
from streammargin.solvers.visits import Visit


def keep(problem: Problem, found: Found, now: Found, trials: list[int]) -> None:
    """Replace the lines of these values of C by those of `now`."""
    lines = np.isin(np.arange(problem.count) // problem.per_trial, trials)
    set_found(found, *merged(found, now, lines))


def last_read(problem: Problem, found: Found, point: Expansion, unit: float, best: Best) -> Visit:
    """The read of the expansion that is kept, and its point; best: the best bounds of the training.

    unit: a bound on the error of a score, and of a squared length, for coefficients whose sizes add up to 1.
    """
    off = unit * np.abs(point.coef).sum(axis=1) + 4.0 * EPS * np.abs(point.constants)
    free = point.with_constants(np.zeros(point.outputs))

    def end(problem: Problem, kept: BestKept, *given: object) -> list[Figures]:
        return _figures(problem, kept, found, unit, best)

    return Visit("last read", _add, (free, point.constants, off), lines=problem.count, end=end)


def _add(
    problem: Problem, kept: BestKept, free: Expansion, constants: np.ndarray, off: np.ndarray, block: Block, first: int
) -> None:
    """Add one block, in any order. free: the point without its constants; off (K,): how wrong a score may be."""
    for low in range(0, block.rows(), SCORED_ROWS):
        high = min(block.rows(), low + SCORED_ROWS)
        f = np.ascontiguousarray(free.decide(alone(part(block, low, high))._replace(bias=0.0)).T)
        start, stop = np.searchsorted(free.numbers, [first + low, first + high])
        at = free.numbers[start:stop] - (first + low)
        kept.lengths += (free.coef[:, start:stop] * f[:, at]).sum(axis=1)  # coef.K coef
        if problem.hard:
            labels = labels_for(kept.labels.cut(first + low, first + high), problem.outputs)
            sum_margins(problem, labels, f + constants[:, None], kept.smallest, kept.mistakes, kept.wrong)
        else:
            _add_losses(problem, kept, f, constants, off, kept.labels.cut(first + low, first + high))


def _add_losses(
    problem: Problem, kept: BestKept, f: np.ndarray, constants: np.ndarray, off: np.ndarray, labels: RowLabels
) -> None:
    """The losses of rows with these labels and scores f (K, m) without the constants."""
    for k, sums in enumerate(kept.losses):
        form = form_of(problem, labels, k)
        at = problem.loss, f[k], 1.0, constants[k], form.sign, form.target, form.caps, off[k]
        losses, slip, missed = smo.losses_at(*at)
        sums[look.SUM_OF_LOSSES] += losses
        sums[look.ROUNDING] += slip + EPS * abs(sums[look.SUM_OF_LOSSES])
        sums[look.SUM_OF_MISTAKES] += missed
    if problem.compared:
        scores = (f + constants[:, None]).reshape(problem.trials, problem.per_trial, -1)
        known, each = labels_for(labels, problem.outputs), problem.per_trial
        kept.wrong += [known.confused_of(trial * each, of) for trial, of in enumerate(scores)]


def _figures(problem: Problem, kept: BestKept, found: Found, unit: float, best: Best) -> list[Figures]:
    """Exact figures of all groups, once all blocks are added."""
    masses = np.abs(found.coef).sum(axis=1)
    squares, blurs = kept.lengths, unit * masses * masses
    if problem.hard:
        off = unit * masses + 4.0 * EPS * np.abs(found.constants)
        candidates = _margins(problem, kept, off, squares, blurs)
    else:
        each = zip(kept.losses, squares.tolist(), blurs.tolist(), strict=True)
        candidates = [_objective(sums, square, error) for sums, square, error in each]
    return bounded(problem, candidates, best)


def _objective(sums: np.ndarray, square: float, error: float) -> Candidate:
    primal = float(sums[look.SUM_OF_LOSSES]) + 0.5 * square
    rounding = float(sums[look.ROUNDING]) + TERM * abs(primal) + 0.5 * error
    return Candidate(primal, -math.inf, int(sums[look.SUM_OF_MISTAKES]), rounding)


def _margins(
    problem: Problem, kept: BestKept, off: np.ndarray, squares: np.ndarray, blurs: np.ndarray
) -> list[Candidate]:
    """The margins of groups, rounded down; off, squares, blurs (K,): errors of scores, and lengths with theirs."""
    off, squares, blurs = (problem.by_group(each) for each in (off, squares, blurs))
    smallest = problem.by_group(kept.smallest).min(axis=1)
    sure = smallest - (1.0 + problem.joint) * off.max(axis=1) - 4.0 * EPS * np.abs(smallest)
    square, error = squares.sum(axis=1), blurs.sum(axis=1)
    lengths = np.sqrt(np.maximum(square + np.where(sure > 0.0, error, -error), 0.0))
    lower = np.full(problem.groups, -math.inf)
    np.divide(sure, lengths, out=lower, where=lengths > 0.0)
    return of_margins(problem, kept, lower - 4.0 * EPS * np.abs(lower))
