"""The progress of a training: everything besides the solver's state that decides what comes next."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streammargin.driver.status.stopping import Stopping
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.roles import is_count, is_number

TRANSFORMING, SCALING, MAPPING = "transforming", "scaling", "mapping"  # steps that rows take learn
PROLOGUE, PASS, CERTIFICATE = "prologue", "pass", "certificate"
HELD_OUT, BIAS, CALIBRATION, PREDICTIONS = "held-out errors", "bias", "calibration", "predictions"
DONE = "done"
SCORES_PHASE, LAST_READ = "held-out errors of the pass", "figures of the best pass"  # with early_stop
ENDING = (BIAS, CALIBRATION, PREDICTIONS, DONE)  # the weights are fixed
IDENTITY = "identity"  # the rows are compared with those at the start of the training; never saved


def after_the_last(phases: Collection[str]) -> set[str]:
    """The phases, of those a training can be in, that may follow its last pass."""
    return {SCORES_PHASE, LAST_READ, HELD_OUT, *ENDING} | ({CERTIFICATE} if LAST_READ in phases else set())


@dataclass
class Progress:
    """Plain numbers and small arrays.

    phase : the purpose of the current read;
    order, position : block numbers of this read, empty before it begins, and how many of them were visited;
    rows, spent : rows visited in this read; seconds, seconds reading, seconds waiting and bytes of it so far;
    round : index of the current prologue read;
    number : passes begun;
    done, impossible : (groups,) bool, groups that need no more passes, and those of them without a separator;
    figures, wrong : of the last certificate;
    judged : the pass whose weights `figures` describe;
    told, validated : the passes of the last certificate event, and of `valid_errors`;
    ending : why the current certificate is the last one, None if it is not;
    reason : how the training ended;
    proven : whether the answer is the weights of `figures`, not the latest ones;
    midway : (K,) the midway bias of the answer;
    recount : (trials,) rows that are wrong with that bias, if they were counted;
    predicted : (classes,) rows for which each class is predicted, for each row of it, at least;
    stage, due : the current stage of the solver, and that of the next pass, "" if it is the same;
    ranges : the warning about columns of very different ranges, if any;
    pass_end, certify : the event of a pass whose held-out error is not known yet, and whether a certificate follows
    """

    done: np.ndarray
    impossible: np.ndarray
    stopping: Stopping
    phase: str = PROLOGUE
    order: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    position: int = 0
    rows: int = 0
    spent: tuple[float, ...] = (0.0, 0.0, 0.0, 0)
    round: int = 0
    number: int = 0
    estimate: float | None = None
    figures: list[Figures] | None = None
    wrong: np.ndarray | None = None
    valid_errors: np.ndarray | None = None
    judged: int = 0
    told: int = 0
    validated: int = 0
    ending: str | None = None
    reason: str | None = None
    proven: bool = False
    midway: np.ndarray | None = None
    recount: np.ndarray | None = None
    predicted: np.ndarray | None = None
    ranges: str | None = None
    stage: str = ""
    due: str = ""
    pass_end: dict[str, Any] | None = None
    certify: bool = False

    @property
    def active(self) -> np.ndarray:
        """Indices (int64) of the groups that are not done."""
        return np.flatnonzero(~self.done)

    def go(self, phase: str) -> None:
        """Begin another phase, or another read in the same one."""
        self.phase, self.order, self.position, self.rows = phase, np.empty(0, np.int64), 0, 0
        self.spent = (0.0, 0.0, 0.0, 0)

    def check(self, problem: Problem, phases: Collection[str], blocks: int) -> None:
        """Raise ValueError for values that do not fit the problem and this number of blocks: kernels trust them.

        phases: those that this training can be in.
        """
        groups, trials = problem.groups, problem.trials
        arrays = [(self.done, bool, groups), (self.impossible, bool, groups)]
        optional = [(self.wrong, np.int64, trials), (self.valid_errors, np.float64, trials),
                    (self.recount, np.int64, trials), (self.midway, np.float64, problem.count)]  # fmt: skip
        for array, dtype, size in arrays + [entry for entry in optional if entry[0] is not None]:
            if not isinstance(array, np.ndarray) or (array.dtype, array.shape) != (dtype, (size,)):
                raise ValueError("its progress has arrays of another shape")
        counts = (self.position, self.rows, self.round, self.number, self.judged, self.told, self.validated)
        stopping = self.stopping
        if not all(map(is_count, (*counts, stopping.since, stopping.patience, stopping.idle))):
            raise ValueError(f"its progress has the counters {counts}")
        lists = (stopping.previous, stopping.prediction, stopping.calibration)
        numbers = [*itertools.chain(*lists), *self.spent, 0.0 if self.estimate is None else self.estimate]
        if {len(one) for one in lists} != {groups} or len(self.spent) != 4 or not all(map(is_number, numbers)):
            raise ValueError("its progress has other numbers")
        figures = self.figures
        if (figures is None and self.proven) or (figures is not None and len(figures) != groups):
            raise ValueError("its progress has other figures")
        if not isinstance(self.proven, bool) or not (self.ending is None or isinstance(self.ending, str)):
            raise ValueError(f"it ends by {self.ending!r}, proven: {self.proven!r}")
        if not (self.ranges is None or isinstance(self.ranges, str)):
            raise ValueError(f"its warning about columns is {self.ranges!r}")
        waits = isinstance(self.pass_end, dict) and self.pass_end.get("event") == "pass_end"
        if (self.phase == SCORES_PHASE) != waits or not isinstance(self.certify, bool):
            raise ValueError("the event of its last pass is a different one")
        if self.done.all() and self.phase not in after_the_last(phases):
            raise ValueError(f"it is in the phase {self.phase!r} with nothing left to do")
        ended = isinstance(self.reason, str)
        if self.phase not in phases or (self.phase != HELD_OUT and (self.phase in ENDING) != ended):
            raise ValueError(f"it is in the phase {self.phase!r} and ended by {self.reason!r}")
        self._check_order(blocks)

    def _check_order(self, blocks: int) -> None:
        order = self.order
        if order.dtype != np.int64 or order.ndim != 1 or np.unique(order).size != order.size:
            raise ValueError("its progress names blocks twice")
        last = order.size - (self.phase != PASS)  # the end of a pass may take several units
        if np.any((order < 0) | (order >= blocks)) or self.position > max(0, last):
            raise ValueError("its progress names blocks that do not exist")
        if order.size and self.phase != PASS and not np.array_equal(order, np.arange(blocks)):
            raise ValueError(f"its progress reads {order.size} of {blocks} blocks in the phase {self.phase!r}")
        if order.size and self.phase == PASS and not self.number:
            raise ValueError("its progress is in a pass that has not begun")
