"""The weights of the pass with the smallest held-out error, and their exact figures from one more read."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import look
from streammargin.compiled import row_norms as norms
from streammargin.compiled.look import DUAL_SUMS, Frozen, Looked, Prox
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best, bounded
from streammargin.solvers.proof.bounds import weights_of_group
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.margins import pieces, sum_margins
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.proof.rounding import blur, norm_rounding, score_rounding
from streammargin.solvers.roles import EVERY_COLUMN, TRIALS, K, Shared, Sum, W, b1, f8, i8, of, state
from streammargin.solvers.state import Visited, labels_for

NEEDED = ("slack", "primal", "feasible", "dual", "step")  # methods of a loss that the sums need


@state
class BestKept(Visited):
    """For each value of C: the weights w with the smallest held-out error so far, that error, and their pass, 0 for
    none yet. A kernel machine has its expansion in its own state, beside the rows.

    `in_vain`    passes in a row without a smaller error.
    `counted`    the values of C that the current pass changes.
    `certified`  whether the sums of these weights are complete. These are the losses of compiled/look.py. For a hard
                 margin they are those of margins.py and compiled/row_norms.py.
    `lengths`    squared, of an expansion.
    """

    w: Shared[f8] = of(K, W.where(lambda problem: problem.kernel is None))
    errors: Shared[f8] = of(TRIALS, fill=math.inf)
    passes: Shared[i8] = of(TRIALS)
    in_vain: Shared[i8] = of(TRIALS)
    counted: Shared[b1] = of(TRIALS)
    certified: bool = False
    losses: Sum[f8] = of(K, look.LOSS_SUMS, carried=look.LOSS_CARRIED)
    lengths: Sum[f8] = of(K.where(lambda problem: problem.kernel is not None))
    wrong: Sum[i8] = of(TRIALS)
    smallest: Sum[f8] = of(K, smallest=EVERY_COLUMN)
    mistakes: Sum[i8] = of(K)
    row_norms: Sum[f8] = of(norms.ROW_FIGURES, largest=(norms.LARGEST_NORM,))


def add(problem: Problem, kept: BestKept, block: Block, first: int) -> None:
    """Add one block, in any order; `first` is the number of its first row."""
    labels, numbers = labels_for(kept.labels, problem.outputs), numbered_from(first)
    if problem.hard:
        for seen in pieces(kept.labels, problem.outputs, block, first):
            sum_margins(problem, seen.labels, seen.scores(kept.w), kept.smallest, kept.mistakes, kept.wrong)
        norms.row_norms(block, numbers, labels, 2.0, kept.row_norms)
        return
    K, width = kept.w.shape
    found = Looked(kept.losses[None], np.zeros((K, 0, DUAL_SUMS)), np.zeros((K, 0, width)), kept.wrong[None])
    none, point = np.zeros((K, 0)), Frozen(kept.w[None], np.zeros((1, K)), blur(kept.w)[None])
    rule = Prox(none, none, np.full(K, np.inf), np.zeros(K))
    look.look(block, numbers, labels, problem.loss, np.arange(K), point, rule, found, frozen=True)


def figures(problem: Problem, kept: BestKept, best: Best) -> list[Figures]:
    """Exact figures of all groups, once all blocks are added, with the best bounds of the training."""
    lines = range(0 if problem.hard else problem.groups)
    found = [weights_of_group(problem, k, kept.w, kept.losses, kept.wrong) for k in lines] or _margins(problem, kept)
    return bounded(problem, found, best)


def _margins(problem: Problem, kept: BestKept) -> list[Candidate]:
    sizes = problem.lengths(np.array([lp_norm(w, problem.p) for w in kept.w]))
    lower = np.full(problem.groups, -math.inf)
    np.divide(problem.by_group(kept.smallest).min(axis=1), sizes, out=lower, where=sizes > 0.0)
    largest = float(problem.margin.reported(kept.row_norms[norms.LARGEST_NORM]))
    lower -= score_rounding(2 * problem.features, largest) + norm_rounding(kept.w.size) * np.abs(lower)
    return of_margins(problem, kept, lower)


def of_margins(problem: Problem, kept: BestKept, lower: np.ndarray) -> list[Candidate]:
    """What is known of all groups with these lower bounds (groups,) of their margins."""
    mistakes = (kept.wrong if problem.joint else kept.mistakes).tolist()
    return [Candidate(math.inf, *known) for known in zip(lower.tolist(), mistakes, strict=True)]
