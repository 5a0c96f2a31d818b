"""A run's knowledge of its weights: which are good enough, which are the answer, and the proven figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from streammargin.driver.early_stop import EarlyStop
from streammargin.driver.outcome import Outcome, is_hidden, no_margin
from streammargin.driver.progress import Progress
from streammargin.points.base import Point
from streammargin.solvers.base import Solver
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.kept import Kept


class Answer(NamedTuple):
    """It follows from where the run stands, and changes nothing. solver, state: of the current stage."""

    problem: Problem
    solver: Solver
    state: Any
    progress: Progress
    early: EarlyStop | None

    @property
    def best(self) -> Kept | None:
        """The best passes, with early stopping, once a pass has an error."""
        return self.early.kept if self.early is not None and self.early.keeps else None

    # which weights are good enough

    def over(self, k: int, figures: Figures) -> bool:
        """Whether group k needs no more passes."""
        return self._enough(k, figures) or (self.early is not None and self.early.over(k))

    def _enough(self, k: int, figures: Figures) -> bool:
        return self.problem.reached(k, figures) or self._satisfied(k, figures)

    def _satisfied(self, k: int, figures: Figures) -> bool:
        return self.solver.satisfied(self.problem, self.state, k, figures)

    def _unproven(self) -> np.ndarray:
        """Groups (groups,) bool with which the solver is satisfied though no gap within the tolerance is proven."""
        assert self.progress.figures is not None
        known = enumerate(self.progress.figures)
        return np.array([self._satisfied(k, f) and not self.problem.reached(k, f) for k, f in known])

    def verdict(self) -> str:
        """The reason of the end if all groups are done."""
        p = self.progress
        if p.impossible.any():
            return "not_separable" if any(map(no_margin, self._impossible())) else "small_margin"
        if self.early is not None and self.early.stopped.any():
            return "early_stop"
        return "separated" if self._unproven().any() else "tolerance"

    def _impossible(self) -> list[Figures]:
        """The figures of groups without a separator."""
        p = self.progress
        return [one for one, impossible in zip(p.figures or [], p.impossible, strict=True) if impossible]

    # the weights

    def point(self, proven: bool) -> Point:
        """The weights certified last (proven), or the latest ones."""
        return self.solver.point(self.problem, self.state, self.problem.column, proven)

    def found(self) -> Point:
        """The answer: the weights of the best pass, if one is kept."""
        if self.best is not None:
            return self.solver.point(self.problem, self.state, self.problem.column, True, self.best)
        return self.point(self.progress.proven)

    # what is proven

    def figures_kept(self, best: Kept) -> tuple[list[Figures], np.ndarray | None]:
        """Exact figures of the best passes, and how many rows have their largest score for a wrong class."""
        return self.solver.figures_kept(self.problem, self.state, best), best.wrong.copy()

    def _with_midway(self, figures: list[Figures], midway: np.ndarray) -> tuple[list[Figures], np.ndarray | None]:
        """Figures of the weights, and wrong rows, with mistakes counted with the bias.

        A line with a bias separates its rows, and so makes no mistakes. If each does, no row is wrong.
        """
        found = [replace(one, mistakes=0) if b else one for one, b in zip(figures, midway.tolist(), strict=True)]
        if self.progress.recount is not None:
            return found, self.progress.recount
        return found, np.zeros(self.problem.trials, np.int64) if midway.all() else self.progress.wrong

    def outcome(self) -> Outcome:
        """How the run ended."""
        p = self.progress
        assert p.reason is not None, "the training is not done"
        figures, wrong = (p.figures, p.wrong) if p.proven else (None, None)
        converged = p.done & ~p.impossible & ~self._unproven() if p.proven else np.zeros_like(p.done)
        if figures is not None and p.midway is not None:
            figures, wrong = self._with_midway(figures, p.midway)
        errors, passes = p.valid_errors if p.proven or p.midway is not None else None, None
        reason = p.reason
        if self.best is not None:
            if p.proven:
                figures, wrong = self.figures_kept(self.best)
                converged = ~p.impossible & [self.problem.reached(k, one) for k, one in enumerate(figures)]
                reason = self._reason_kept(reason, figures)
            errors, passes = self.best.errors.copy(), self.best.passes.copy()
        asked, of = None, (self.solver, self.problem, self.state)
        if self.problem.objective.infeasible:
            asked = self.problem.tol * self.solver.mean_norm(self.problem, self.state)
        hidden = reason == "small_margin" and any(is_hidden(*of, one) for one in self._impossible())
        found = self.found()
        return Outcome(
            reason, converged, p.number, found, figures, wrong, errors, p.midway, asked, found.zeros,
            predicted=p.predicted, ranges=p.ranges, kept=passes, hidden=hidden,
        )  # fmt: skip

    def _reason_kept(self, reason: str, figures: list[Figures]) -> str:
        """The reason of the end: `early_stop` if later weights reached what the best passes' figures do not."""
        if reason not in ("tolerance", "separated") or all(self._enough(k, one) for k, one in enumerate(figures)):
            return reason
        return "early_stop"

    def in_doubt(self) -> Outcome:
        """How the run ended if rows may have changed: earlier figures do not count."""
        p = self.progress
        assert p.reason is not None, "the training is not done"
        return Outcome(p.reason, np.zeros_like(p.done), p.number, self.found(), None, None, None)
