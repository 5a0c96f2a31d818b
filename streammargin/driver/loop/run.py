"""A run: visits one block after the other, and goes from phase to phase."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streammargin.driver.loop.course import Course, Reading
from streammargin.driver.loop.holders import Holders, Parts
from streammargin.driver.loop.phases import PHASES, Phase
from streammargin.driver.status.clock import Clock, Spent
from streammargin.driver.status.progress import HELD_OUT, PASS, PROLOGUE, SCORES_PHASE, Progress
from streammargin.reading.prefetch import BlockReader, Labelled
from streammargin.solvers import leaves, roles
from streammargin.solvers.base import Share, multiplications
from streammargin.solvers.cache.rows import unit_rows
from streammargin.solvers.problem import Problem


class Run(Course):
    """Visits the blocks in phases: scaling, mapping, prologue, passes with certificates and held-out errors, bias, and
    predictions.

    A resumed training whose files may have changed begins with the phase "identity".
    """

    _reader: BlockReader  # of the current read
    _holders: Holders | None = None  # of its rows, if they are in several places
    _blocks: Generator[list[Labelled]] | None = None
    _group: Sequence[Labelled] = ()  # being visited
    _parts: Generator[tuple[int, Parts] | None] | None = None  # what holders found

    def __init__(self, *given: Any) -> None:
        self._pieces: dict[tuple[BlockReader, int], BlockReader] = {}
        super().__init__(*given)

    def following(self, problem: Problem, costs: Sequence[float]) -> Run:
        """A run of another problem (the next C of a path) that begins with the state of this one."""
        p, now = self.progress, self.progress.number
        # judged = number: no certificate before the next pass
        fresh = replace(self.blank(), phase=PASS, stage=p.stage, due=p.due, number=now, judged=now, told=now,
                        validated=now, round=p.round, estimate=p.estimate, ranges=p.ranges)  # fmt: skip
        return Run(self.shared, problem, costs, self.method, dict(self.states), fresh)

    def met(self) -> str | None:
        """Why to end before the next unit: a limit that is reached, or a signal; None to continue.

        Limits are checked between units only, so a limited run makes the same first steps as an unlimited one.
        """
        p = self.progress
        if p.phase == PASS and p.number >= self.limits.passes and not p.order.size:
            return "passes"
        longest, afterwards = self.clock.longest, None
        if p.phase in (*self.steps, PROLOGUE, PASS):
            sweep = max(
                [seconds for phase, seconds in longest.items() if phase not in (HELD_OUT, SCORES_PHASE)], default=0.0
            )
            afterwards = self.limits.sweeps * sweep + longest.get(HELD_OUT, 0.0) if p.number else 0.0
        if self.clock.up(afterwards):
            return "seconds"
        return "signal" if self.should_stop is not None and self.should_stop() is not None else None

    def advance(self, reason: str | None) -> None:
        """Do the next unit of work, or end for this reason."""
        if reason is None:
            self.step()
        else:
            self.stop_reading()
            PHASES[self.progress.phase].break_off(self, reason)
            self.reading = None

    def step(self) -> None:
        """Do one unit of work, and change the phase if it was the last."""
        p = self.progress
        phase = PHASES[p.phase]
        if not p.order.size:
            self._begin(phase)
        if p.position < len(p.order):
            self._visit(phase, self._current())
            if p.position < len(p.order):
                return
            self.stop_reading()
            self.clock.over(p.phase, self.spent())
        share = phase.end(self)
        if share is not None:
            self._tell(share, 1)
            return
        self.reading = None
        if self.progress.order.size:  # a read that waited for the identity check
            self.clock.set_off(self.current_reader.counts)

    def _begin(self, phase: Phase) -> None:
        """Begin a read; blocks come in the order of the rows unless a visit says otherwise."""
        p, self.reading = self.progress, None
        if phase.clears:
            roles.clear(self.states[phase.clears])
        phase.begin(self)
        visits, blocks = self._current().visits, len(self.bounds) - 1
        p.order = np.arange(blocks)
        for visit, state in visits:
            visit.begin(self.problem, state, *visit.arguments)
            if visit.order is not None:
                p.order = visit.order(self.problem, state, blocks)
        self.clock.set_off(self.current_reader.counts)
        if "ranges" in self.states and self.problem.resident and p.phase in (PROLOGUE, PASS):  # before compiling
            ranges = self.states["ranges"]
            ranges.labels = self.labels
            ranges.add(self.problem, ranges, self.reader.whole(), 0)
            self.tell_ranges()
            self.reading = None  # made again without the visit that would measure them

    def _visit(self, phase: Phase, reading: Reading) -> None:
        """Do one unit of a visit; a visit of a group of blocks may take several."""
        p, share = self.progress, None
        if self._holders is not None:
            rows = self._visit_holder(reading, self._holders)
            group, share = 1, None if rows else 0.0
        elif p.position or not self.problem.resident or (share := self._prepare(reading)) is None:
            if self._blocks is None:
                self._blocks = self._reader.groups(p.order[p.position :], reading.blocks)
            self._group = self._group or next(self._blocks)
            group, rows = len(self._group), sum(stop - start for start, stop, *_ in self._group)
            share = self._carry_out(reading, self._group)
        else:
            group, rows = len(p.order), self.problem.rows
        if share is None:
            self._group = ()
            p.position += group
            p.rows += rows
            if phase.enough(self):
                p.order = p.order[: p.position]
        self._tell(p.position + (share or 0.0) * group, len(p.order), int((share or 0.0) * rows))

    def _prepare(self, reading: Reading) -> Share:
        """One unit of the work on all rows in memory that comes before they are visited."""
        for visit, state in reading.visits:
            if visit.prepare is not None:
                block = reading.reader.whole()._replace(bias=self.problem.column)
                return visit.prepare(self.problem, state, *visit.arguments, block)
        return None

    def _carry_out(self, reading: Reading, group: Sequence[Labelled]) -> Share:
        """Do one unit of all visits of these blocks."""
        blocks = [(start, block._replace(bias=self.problem.column)) for start, _, block, _ in group]
        for visit, state in reading.visits:
            before, state.labels = state.labels, group[0][3]
            share = leaves.carry_out(self.problem, state, visit, blocks)
            state.labels = before
            if share is not None:
                return share
            self.state.multiplications += multiplications(blocks, visit.lines)
        return None

    def _visit_holder(self, reading: Reading, holders: Holders) -> int:
        """Add up what the next holder found; returns how many rows it has, 0 if it has not answered yet."""
        p = self.progress
        if self._parts is None:
            self._parts = holders.visit(self.problem, reading.visits, p.order[p.position :])
        found = next(self._parts)
        if found is None:
            return 0
        rows, parts = found
        for (visit, state), part in zip(reading.visits, parts, strict=True):
            roles.merge(state, part, visit.sums)
            self.state.multiplications += 2.0 * visit.lines * self.problem.values * (rows / self.problem.rows)
        return rows

    def spent(self) -> tuple[float, ...]:
        """Seconds, seconds reading, seconds waiting and bytes of the current read."""
        return self.clock.spent(self.progress.spent, self.current_reader.counts)

    def _tell(self, done: float, of: int, begun: int | None = None) -> None:
        """Publish progress: blocks done of the current read, and rows of a block begun; without rows, of its end."""
        if self.history.listeners:
            self.history.progress(progress_event(self.progress, self.clock, self.spent(), done, of, begun))

    # reading

    def _current(self) -> Reading:
        """The current read, or after the last one that of all rows; finds who has its rows."""
        if self.reading is None:
            phase = PHASES.get(self.progress.phase)
            self.reading = reading = Reading(self.reader, []) if phase is None else phase.reading(self)
            alone = any(visit.alone for visit, _ in reading.visits)
            self._reader = reading.reader if alone else self._in_units(reading)
            self._holders = None if alone or not reading.visits else self.holders.get(reading.reader)
        return self.reading

    def _in_units(self, reading: Reading) -> BlockReader:
        """The reader of these rows; those in memory come a unit of work at a time."""
        problem = self.problem
        cost = max([self.method.look_work(problem), *(visit.cost for visit, _ in reading.visits)])
        rows = unit_rows(cost * problem.values / problem.rows)
        if (reading.reader, rows) not in self._pieces:
            self._pieces[reading.reader, rows] = reading.reader.pieces(rows)
        return self._pieces[reading.reader, rows]

    @property
    def bounds(self) -> np.ndarray:
        """Where the rows of the current read are split: into its blocks, or between holders."""
        reader = self.current_reader
        return reader.bounds if self._holders is None else self._holders.bounds

    @property
    def current_reader(self) -> BlockReader:
        """The reader of the current read."""
        if self.reading is None:
            self._current()
        return self._reader

    def stop_reading(self) -> None:
        """Release the blocks and end the reader thread."""
        self._group = ()
        for stream in (self._blocks, self._parts):
            if stream is not None:
                stream.close()
        self._blocks = self._parts = None


def progress_event(p: Progress, clock: Clock, spent: Spent, done: float, of: int, begun: int | None) -> dict[str, Any]:
    """The event for `done` blocks `of` all, and `begun` rows of the next; begun None: the end of a read is computed.

    The seconds leave out compiling.
    """
    seconds, _, waited, size = spent
    return {
        "event": "progress", "phase": p.phase, "pass": p.number, "block": done, "blocks": of,
        "rows": p.rows + (begun or 0), "seconds": seconds - clock.compiling(), "bytes_read": size,
        "wait_seconds": waited, "reading": begun is not None, "estimate": p.estimate, "elapsed": clock.elapsed(),
    }  # fmt: skip
