"""A run: visits one block after the other, and goes from phase to phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streammargin.driver.course import Course, Shared
from streammargin.driver.phases.base import Phase
from streammargin.driver.phases.bias import FindBias
from streammargin.driver.phases.certificate import Certificate
from streammargin.driver.phases.held_out import HeldOut
from streammargin.driver.phases.identity import Identity
from streammargin.driver.phases.last_read import LastRead
from streammargin.driver.phases.passes import Pass
from streammargin.driver.phases.predictions import Look
from streammargin.driver.phases.prologue import Prologue
from streammargin.driver.phases.scaling import FindScale
from streammargin.driver.phases.scores import Scores
from streammargin.driver.prefetch import BlockReader, Labelled
from streammargin.driver.progress import (
    BIAS,
    CERTIFICATE,
    HELD_OUT,
    IDENTITY,
    LAST_READ,
    PASS,
    PREDICTIONS,
    PROLOGUE,
    SCALING,
    SCORES,
    Progress,
)
from streammargin.driver.telling import progress_event
from streammargin.solvers.base import UNIT, Method
from streammargin.solvers.cache.rows import LOOK
from streammargin.solvers.problem import Problem


class Run(Course):
    """Visits the blocks in phases: scaling, prologue, passes with certificates and held-out errors, bias, predictions.

    A resumed training whose files may have changed begins with the phase "identity". All phases except passes split
    rows in memory into chunks of one unit of work.
    """

    def __init__(
        self, shared: Shared, problem: Problem, costs: Sequence[float], method: Method, state: Any = None,
        watch: Any = None, progress: Progress | None = None,
    ) -> None:  # fmt: skip
        super().__init__(shared, problem, costs, method, state, watch, progress)
        rows = max(1, int(UNIT * problem.rows / (LOOK * problem.count * max(1, problem.values))))
        self._pieces = self.reader.pieces(rows)
        self.identity: Identity = Identity(self, self._pieces)
        self.phases: dict[str, Phase] = {
            IDENTITY: self.identity,
            PROLOGUE: Prologue(self, self._pieces),
            PASS: Pass(self, self.reader),
            CERTIFICATE: Certificate(self, self._pieces),
        }
        if self.scaling is not None:
            self.phases[SCALING] = FindScale(self, self.scaling.reader)
        if self.validator is not None:
            held_out = self.validator.reader.pieces(rows)
            self.phases[HELD_OUT] = HeldOut(self, held_out, self.validator)
            if self.early is not None:
                self.phases[SCORES] = Scores(self, held_out, self.validator, self.early)
                self.phases[LAST_READ] = LastRead(self, self._pieces, self.early)
        if self.bias is not None:
            self.phases[BIAS] = FindBias(self, self._pieces, self.bias)
        if self.predictions is not None:
            self.phases[PREDICTIONS] = Look(self, self.predictions.reader.pieces(rows), self.predictions)
        self._blocks: Iterator[list[Labelled]] | None = None
        self._group: list[Labelled] = []  # being visited

    def following(self, problem: Problem, costs: Sequence[float]) -> Run:
        """A run of another problem (the next C of a path) that begins with the state of this one."""
        p, now = self.progress, self.progress.number
        # judged = number: no certificate before the next pass
        fresh = replace(self.blank(), phase=PASS, stage=p.stage, due=p.due, number=now, judged=now, told=now,
                        validated=now, round=p.round, estimate=p.estimate, ranges=p.ranges)  # fmt: skip
        return Run(self.shared, problem, costs, self.method, self.state, self.watch, fresh)

    def identify(self) -> None:
        """Called once before the first step: read and compare rows of files that may have changed."""
        self.identity.put_off()

    def met(self) -> str | None:
        """Why to end before the next unit: a limit that is reached, or a signal; None to continue.

        Limits are checked between units only, so a limited run makes the same first steps as an unlimited one.
        """
        p = self.progress
        if p.phase == PASS and p.number >= self.limits.passes and not p.order.size:
            return "passes"
        longest, afterwards = self.clock.longest, None
        if p.phase in (SCALING, PROLOGUE, PASS):
            sweep = max([seconds for phase, seconds in longest.items() if phase not in (HELD_OUT, SCORES)], default=0.0)
            afterwards = self.limits.sweeps * sweep + longest.get(HELD_OUT, 0.0) if p.number else 0.0
        if self.clock.up(afterwards):
            return "seconds"
        should_stop = self.shared.should_stop
        return "signal" if should_stop is not None and should_stop() is not None else None

    def advance(self, reason: str | None) -> None:
        """Do the next unit of work, or end for this reason."""
        if reason is None:
            self.step()
        else:
            self.stop_reading()
            self.phases[self.progress.phase].break_off(reason)

    def step(self) -> None:
        """Do one unit of work, and change the phase where it was the last."""
        p = self.progress
        phase = self.phases[p.phase]
        if not p.order.size:
            phase.begin()
            self.clock.set_off(phase.reader.counts)
        if p.position < len(p.order):
            self._visit(phase)
            if p.position < len(p.order):
                return
            self.stop_reading()
            self.clock.over(p.phase, self.spent())
        share = phase.end()
        if share is not None:
            self._tell(share, 1)
        elif self.progress.order.size:  # a read that waited for the identity check
            self.clock.set_off(self.current_reader.counts)

    def _visit(self, phase: Phase) -> None:
        """Do one unit of a visit; a visit of a group of blocks may take several."""
        p = self.progress
        if self._blocks is None:
            self._blocks = phase.reader.groups(p.order[p.position :], phase.blocks_per_step)
        group = self._group = self._group or next(self._blocks)
        labels = group[0][3]
        share = phase.visit([(start, block._replace(bias=self.column)) for start, _, block, _ in group], labels)
        if share is None:
            self._group, self.state.labels = [], self.shared.labels
            p.position += len(group)
            p.rows += sum(stop - start for start, stop, *_ in group)
        begun = (share or 0.0) * sum(stop - start for start, stop, *_ in group)
        self._tell(p.position + (share or 0.0) * len(group), len(p.order), int(begun))

    def spent(self) -> tuple[float, ...]:
        """Seconds, seconds reading, seconds waiting and bytes of the current read."""
        return self.clock.spent(self.progress.spent, self.current_reader.counts)

    def _tell(self, done: float, of: int, begun: int | None = None) -> None:
        """Publish progress: blocks done of the current read, and rows of a block begun; without rows, of its end."""
        if self.history.listeners:
            self.history.progress(progress_event(self.progress, self.clock, self.spent(), done, of, begun))

    # reading

    @property
    def bounds(self) -> np.ndarray:
        """Block bounds of the current read."""
        return self.current_reader.bounds

    @property
    def current_reader(self) -> BlockReader:
        """The reader of the current phase."""
        phase = self.phases.get(self.progress.phase)
        return self._pieces if phase is None else phase.reader

    def stop_reading(self) -> None:
        """Release the blocks and end the reader thread."""
        self._group = []
        if self._blocks is not None:
            self._blocks.close()  # type: ignore[attr-defined]
            self._blocks = None
