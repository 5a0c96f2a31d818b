"""Where a training stands: everything beside the solver's state that decides what comes next."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from streammargin.driver.stopping import Stopping
from streammargin.solvers.figures import Figures

SCALING, PROLOGUE, PASS, CERTIFICATE, BIAS, DONE = "scaling", "prologue", "pass", "certificate", "bias", "done"


@dataclass
class Progress:
    """Plain numbers and small arrays.

    phase : what the rows are being read for
    order, position : block numbers of this read, empty before it begins, and how many of them were visited
    rows, spent : rows visited in this read; seconds, seconds reading, seconds waiting and bytes that it took so far
    round : of the prologue's reads, which one
    number : passes begun
    done, impossible : (K,) bool, problems that are certified, and those of them that were given up: no separator
    figures, wrong : of the last certificate; figures hold the weights that the solver calls certified
    judged, validated : passes whose weights `figures` and `valid_errors` belong to, 0 for none
    ending : why the certificate at work, or the one just made, is the last
    reason : how the training ended
    proven : whether the answer is the weights of `figures`, rather than the latest ones
    midway : (K,) the bias found for the answer
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
    validated: int = 0
    ending: str | None = None
    reason: str | None = None
    proven: bool = False
    midway: np.ndarray | None = None

    @property
    def active(self) -> np.ndarray:
        """Problems (int64) that are not done."""
        return np.flatnonzero(~self.done)

    def go(self, phase: str) -> None:
        """On to another phase, or another read of the same one."""
        self.phase, self.order, self.position, self.rows = phase, np.empty(0, np.int64), 0, 0
        self.spent = (0.0, 0.0, 0.0, 0)
