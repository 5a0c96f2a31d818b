"""The problem to be solved: groups of lines, each with an objective of its own, over the same rows."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from streammargin.kernels.base import Kernel
from streammargin.losses.base import called, coupled, has, quadratic, smooth
from streammargin.penalties.base import Penalty
from streammargin.penalties.lines import EachLine
from streammargin.penalties.lp import Lp, LpSquare
from streammargin.penalties.mirror_maps import L2, Shrunk, lp_norm, make_norm
from streammargin.rows.labels import Parts
from streammargin.rows.products import AHEAD, MANY_LINES
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.objectives.base import Objective
from streammargin.solvers.proof.objectives.hard_margin import HardMargin, JointMargin
from streammargin.solvers.proof.objectives.interpolation import Interpolation
from streammargin.solvers.proof.objectives.soft_margin import SoftMargin
from streammargin.workers import ALONE, Workers

# least and most values of rows that NumPy visits, and most columns (docs/benchmarks/first_fit.md)
IN_ARRAYS, NARROW = (10_000, 2_000_000), 200

EQUAL = 1e-12  # relative distance of mean errors that is rounding


class Outputs(NamedTuple):
    """The K lines of a problem, the rows of its weights.

    `positive`  (K,) int64: the class with sign +1.
    `caps`      (K, classes) float64: C times the class weight, inf for the hard margin.
    `costs`     (K,): C, before the weights of classes and rows.
    `mass`      (K, classes): the weights of the rows of each class, summed. (0, 0) if nothing asks for it.
    `several`   each line has a label or target of the rows of its own.
    `tasks`     how many tasks the rows have, 0 for none. A line of a value of C is one task, with rows of its own. The
                classes of all others have a cap of 0. The classes of a task follow those of the one before.
    `parts`     how the codes of rows are read. Each line may be trained without some folds of them.
    """

    positive: np.ndarray
    caps: np.ndarray
    costs: np.ndarray = np.ones(1)
    mass: np.ndarray = np.zeros((0, 0))
    several: bool = False
    tasks: int = 0
    parts: Parts = Parts()

    def at(self, factor: float) -> Outputs:
        """The same at `factor` times each C."""
        return self._replace(costs=self.costs * factor, caps=self.caps * factor)

    def tasks_of(self, codes: np.ndarray) -> np.ndarray:
        """The tasks (m,) of rows of these classes of tasks; below 0 for absent rows."""
        return codes // (self.caps.shape[1] // self.tasks)

    def knows(self, codes: np.ndarray) -> bool:
        """Whether these codes are of classes of the problem, and of no absent row."""
        return bool(np.all((codes >= 0) & (self.parts.class_of(codes) < self.caps.shape[1])))

    def weight(self, line: int) -> float:
        """C sum_i s_i, with the weights of classes and rows."""
        return float(self.caps[line] @ self.mass[line])

    def largest_cap(self, line: int) -> float:
        """The largest of its caps, before the weights of rows."""
        return float(self.caps[line].max())


class Tried(NamedTuple):
    """Trials of folds: each of `values` values of C without a fold, for so many folds, and, if `whole`, of all rows.

    rows (folds + whole,): what each is trained on. rule: how C is chosen by the errors of the folds, best or 1se.
    """

    values: int
    folds: int
    whole: bool
    rows: np.ndarray
    rule: str

    def fold(self, trial: int) -> int | None:
        """The fold that a trial is judged on; None for one of all rows."""
        fold = trial // self.values
        return fold if fold < self.folds else None

    def chosen(self, errors: np.ndarray | None, costs: np.ndarray) -> int:
        """The trial that is kept, by the errors (trials,) and values of C (values,); the first, if errors are unknown.

        The smallest C of equal errors is taken; with the rule 1se the smallest C within one standard error of the best.
        """
        first = self.values * self.folds if self.whole else 0
        if errors is None:
            return first
        each = errors.reshape(-1, self.values)[: self.folds]
        mean = each.mean(axis=0)
        best = smallest(costs, mean)
        if self.rule == "1se" and self.folds > 1:
            best = smallest(costs, mean, standard_errors(each)[best])
        return first + best


def smallest(costs: np.ndarray, means: np.ndarray, beyond: float = 0.0) -> int:
    """The index of the smallest C whose mean is the least, or is above it by at most `beyond`.

    Means that rounding may have parted are equal. One that is not a number comes last.
    """
    most = np.fmin.reduce(means) + beyond
    near = means <= most + EQUAL * abs(most)
    return int(np.lexsort((costs, np.where(near, most, means)))[0])


def standard_errors(errors: np.ndarray) -> np.ndarray:
    """The standard deviation of the folds' errors (folds, values) over the root of their number, (values,)."""
    found: np.ndarray = errors.std(axis=0, ddof=1) / math.sqrt(len(errors))
    return found


@dataclass(frozen=True)
class Problem:
    """Groups of lines over the same n rows of d features.

    A line is a row of the weights (K, d+1). A group is consecutive lines with one objective and one C: it has one
    figure, and is what is proven and what stops. One against the rest has a group of one line, a binary problem, for
    each class and value of C. The groups of a value of C follow each other; all have the same number of lines.

    Labels and weights are kept where the rows are (`RowLabels`).

    `entries`                    values stored for all rows, 0 if unknown.
    `sparse`                     they come with their column indices.
    `largest_square`             about the largest ||x||^2 of a row, inf if unknown.
    `mapped`                     each read maps the rows anew.
    `scaled`                     values are scaled, and so rounded, but the answer is for values as they are stored.
    `outputs`                    the lines, with their classes and costs.
    `trials`                     the number of values of C, for each fold and all rows.
    `tried`                      which trial is without which fold, None without folds.
    `lines`                      how many a group has. Above 1 they are the classes of one problem and share a margin,
                                 (x.U_c - x.U_c') / ||U||.
    `present`                    the number of rows of positive weight whose class is trained on.
    `numeric`                    rows have numbers, and all codes are 0. Several numbers of a row have a line each
                                 (`Outputs.several`).
    `penalty`                    R(w).
    `free`                       it leaves the constant column out.
    `penalty_word`, `loss_word`  what messages call the two.
    `kernel`                     that of a kernel machine, whose answer is an expansion over rows. None: the answer is
                                 linear.
    `sides`                      rows and columns of a matrix to be completed, whose entries are the rows. (0, 0): there
                                 is none.
    `tol`                        the relative gap that solvers aim at.
    `absolute`                   the bound on the mean gap, if one was asked for.
    `least_tol`                  the smallest tolerance before the training was resumed. The arithmetic stays fit for
                                 it.
    `path`                       C goes up during the training.
    `keeps_pass`                 early stopping keeps one of the passes.
    `top`                        how many losses of rows count, at most: the largest.
    `alone`                      no other process may go on with this training, which has no checkpoint.
    `from_weights`               the training begins from given weights.
    `column`                     the value of the constant column, 0 for none.
    `resident`                   all rows are in memory, as one block.
    `holders`                    the number of places where rows lie.
    `budget`                     bytes for state and blocks.
    `workers`                    the threads that visit leaves.
    `copies`                     how many copies of a solver's sums have room. With fewer than two no block is split
                                 (leaves.py).
    """

    rows: int
    features: int
    dtype: np.dtype
    loss: Any
    outputs: Outputs
    trials: int
    tol: float
    seed: int
    present: int
    lines: int = 1
    penalty: Penalty = field(default_factory=lambda: Lp(2.0))
    penalty_word: str = ""
    loss_word: str = ""
    kernel: Kernel | None = None
    sides: tuple[int, int] = (0, 0)
    free: bool = False
    resident: bool = True
    path: bool = False
    tried: Tried | None = None
    keeps_pass: bool = False
    alone: bool = False
    from_weights: bool = False
    top: float = math.inf
    numeric: bool = False
    largest_target: float = 0.0
    budget: int = 1 << 30
    entries: int = 0
    largest_square: float = math.inf
    mapped: bool = False
    scaled: bool = False
    sparse: bool = False
    absolute: float | None = None
    least_tol: float = math.inf
    column: float = 0.0
    holders: int = 1
    copies: int = 0
    workers: Workers = field(default=ALONE, compare=False, repr=False)

    @property
    def asked(self) -> float:
        """The tolerance that was asked for, a relative or an absolute one."""
        return self.tol if self.absolute is None else self.absolute

    @property
    def margin_of_zeros(self) -> float:
        """The bound on the margin if a row is 0: 0 is a proof, but scaled values may be 0 by rounding."""
        return sys.float_info.min if self.scaled else 0.0

    @property
    def loss_called(self) -> str:
        """The name of the loss in messages: several words have terms of one class."""
        return self.loss_word or called(self.loss)

    def at(self, factor: float) -> Problem:
        """The same at `factor` times each C."""
        return replace(self, outputs=self.outputs.at(factor))

    def mean_gap(self, group: int, figures: Figures) -> float | None:
        """(primal - dual) / (C sum_i s_i) of a group, rounded up as the gap is; None for a hard margin."""
        if self.hard or figures.gap is None:
            return None
        return figures.gap * max(abs(figures.primal), abs(figures.dual)) / self._weight(group)

    def _weight(self, group: int) -> float:
        """C sum_i s_i of a group: of all its tasks, or the least of a line, so that no gap is too small."""
        lines = range(group * self.lines, (group + 1) * self.lines)
        weights = [self.outputs.weight(line) for line in lines]
        return math.fsum(weights) if self.outputs.tasks else min(weights)

    def reached(self, group: int, figures: Figures) -> bool:
        """Whether exact figures of a group prove the tolerance."""
        if self.absolute is None:
            return self.objective.reached(figures, self.tol)
        gap = self.mean_gap(group, figures)
        return gap is not None and gap <= self.absolute

    def aiming(self, figures: Sequence[Figures], active: np.ndarray) -> Problem:
        """The same with the relative tolerance that, at these figures, is the absolute one of all active groups."""
        if self.absolute is None:
            return self
        sizes = {k: max(abs(figures[k].primal), abs(figures[k].dual)) for k in active.tolist()}
        known = {k: size for k, size in sizes.items() if 0.0 < size < math.inf}
        parts = [self.absolute * self._weight(k) / size for k, size in known.items()]
        return replace(self, tol=min([1.0, *parts])) if parts else self

    @property
    def width(self) -> int:
        """The numbers of a vector of a line: of each column and the constant, or two of each row (space.py)."""
        return 2 * self.rows if self.kernel is not None else self.features + 1

    @property
    def values(self) -> int:
        """The number of stored values of all rows."""
        return self.entries or self.rows * self.features

    @property
    def ridge(self) -> bool:
        """Whether the penalty is half the sum of squared weights."""
        return self.lp and self.p == 2.0

    @property
    def quadratic(self) -> bool:
        """Whether the objective is: its Hessian is the same everywhere, and a Newton step ends at the minimum."""
        return self.ridge and quadratic(self.loss)

    @property
    def in_arrays(self) -> bool:
        """Whether NumPy visits the rows (arrays/): few dense ones, and a loss of all scores that takes arrays."""
        able = self.joint and has(self.loss, "takes_arrays") and smooth(self.loss)
        plain = self.ridge and not (self.free or self.numeric or self.path or self.outputs.tasks)
        small = IN_ARRAYS[0] <= self.values <= IN_ARRAYS[1] and self.features <= NARROW and not self.sparse
        return able and plain and small and self.alone and self.resident and self.holders == 1

    @property
    def by_products(self) -> bool:
        """Whether products of matrices, by NumPy, are worth it: many lines and columns, a smooth loss of all lines."""
        return self.lines >= MANY_LINES and self.features >= AHEAD // 2 and not self.sparse and smooth(self.loss)

    @property
    def size(self) -> int:
        """Bytes of the rows: values, and for sparse rows their indices."""
        return self.values * (self.dtype.itemsize + 4 * self.sparse) + 8 * self.rows * self.sparse

    @property
    def count(self) -> int:
        """K, the number of lines."""
        return len(self.outputs.positive)

    @property
    def groups(self) -> int:
        """The number of groups."""
        return self.count // self.lines

    @property
    def joint(self) -> bool:
        """Whether a group has several lines."""
        return self.lines > 1

    @property
    def all_scores(self) -> bool:
        """Whether a row has one loss, or one margin, of its scores by all lines of a group."""
        return self.joint and (self.hard or coupled(self.loss))

    def lines_of(self, groups: int | np.ndarray) -> np.ndarray:
        """The lines of a group, or of these groups, one after the other (int64)."""
        return (np.atleast_1d(groups)[:, None] * self.lines + np.arange(self.lines)).ravel()

    def done(self, active: np.ndarray) -> np.ndarray:
        """The groups that are not among these (int64)."""
        return np.setdiff1d(np.arange(self.groups), active)

    def view(self, rows: np.ndarray, group: int) -> np.ndarray:
        """The rows of the lines of a group, of an array (K, ...) with a row for each line."""
        return rows[group * self.lines : (group + 1) * self.lines]

    def of_group(self, rows: np.ndarray, group: int) -> np.ndarray:
        """The same as an array (...) for a group of one line, and (lines, ...) for one of several."""
        return rows[group] if self.lines == 1 else self.view(rows, group)

    def by_line(self, each: np.ndarray) -> np.ndarray:
        """An entry for each line, from an array with one for each group."""
        return np.repeat(each, self.lines, axis=0)

    def by_group(self, each: np.ndarray) -> np.ndarray:
        """An array (groups, lines, ...) of one with an entry for each line."""
        return each.reshape(self.groups, self.lines, *each.shape[1:])

    @cached_property
    def objective(self) -> Objective:
        """The objective, with its bounds."""
        shared, lp = self.compared, Lp(self.p)
        if self.hard and self.numeric:
            return Interpolation(lp, shared, self.largest_target, signed=True)
        if self.hard:
            return JointMargin(lp, shared, self.lines) if self.joint else HardMargin(lp, shared)
        penalty = self.penalty if self.penalty.of_lines or not self.joint else EachLine.of(self.penalty)
        alone, blurred = shared and not self.joint, self.kernel is not None
        return SoftMargin(penalty, alone, free=self.free, signed=self.numeric, blurred=blurred)

    @property
    def margin(self) -> HardMargin:
        """The objective of a hard margin."""
        assert isinstance(self.objective, HardMargin)
        return self.objective

    def lengths(self, sizes: np.ndarray) -> np.ndarray:
        """The norms (groups,) of weights, from those (K,) of their lines."""
        return np.array([lp_norm(each, self.p) for each in self.by_group(sizes)]) if self.joint else sizes

    @property
    def counts(self) -> bool:
        """Whether rows can be counted as right or wrong; not in a regression with a finite C."""
        return self.hard or not self.numeric

    @property
    def per_trial(self) -> int:
        """Lines per value of C: 1, or one per class."""
        return self.count // self.trials

    @property
    def compared(self) -> bool:
        """Whether the class of the largest score is predicted: lines of a value of C share one label of a row."""
        return self.per_trial > 1 and not (self.outputs.several or self.outputs.tasks)

    def rows_of(self, trial: int) -> int:
        """The present rows that a value of C is trained on."""
        return self.present if self.tried is None else int(self.tried.rows[trial // self.tried.values])

    def of_all_rows(self, lines: np.ndarray) -> np.ndarray:
        """The lines (m,) of all rows with the C and class of these (m,); the same ones without such a trial."""
        if self.tried is None or not self.tried.whole:
            return lines
        values = self.tried.values * self.per_trial  # lines of all values of C
        return self.tried.folds * values + lines % values

    def groups_of(self, trial: int) -> slice:
        """The groups of a value of C."""
        size = self.groups // self.trials
        return slice(trial * size, (trial + 1) * size)

    @property
    def lp(self) -> bool:
        """Whether R(w) is 1/2 ||w||_p^2."""
        return isinstance(self.penalty, LpSquare)

    @property
    def p(self) -> float:
        """The exponent; 2 for other penalties."""
        return self.penalty.p if isinstance(self.penalty, LpSquare) else 2.0

    @cached_property
    def norm(self) -> Any:
        """The penalty for the kernels of coordinate ascent."""
        return self.penalty.norm or make_norm(2.0)

    @property
    def q(self) -> float:
        """The dual exponent p / (p - 1)."""
        return float(self.norm.q)

    @property
    def linear(self) -> bool:
        """Whether w = A^T alpha at the optimum, so that coordinate ascent needs one vector for both."""
        return isinstance(self.norm, L2)

    @property
    def keeps_powers(self) -> bool:
        """Whether coordinate ascent stores a second vector beside A^T alpha."""
        return not isinstance(self.norm, (L2, Shrunk))

    @cached_property
    def hard(self) -> bool:
        """True for the hard margin, C = inf."""
        return math.isinf(float(self.outputs.caps.max()))
