"""Block-wise sequential minimal optimisation: the solver of kernel machines."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from streammargin.errors import Refusal
from streammargin.losses.base import has
from streammargin.penalties.base import Penalty
from streammargin.penalties.lp import LpSquare
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.solvers.base import PATH, PassReport, Share
from streammargin.solvers.expansion.columns import Columns
from streammargin.solvers.expansion.found import SmoState
from streammargin.solvers.expansion.matrices import check_all_symmetric
from streammargin.solvers.expansion.measured import check_rows, given
from streammargin.solvers.expansion.working import Working
from streammargin.solvers.problem import Problem


class Smo(Working):
    """Kernel machines: steps on two coefficients of an expansion at a time; the first choice for `kernel`.

    A round takes the (up to) 128 rows that violate the optimum most, computes their columns of the Gram matrix by one
    product of matrices, and makes steps on these and on up to 896 rows whose columns are stored. If rows are on disk,
    those with steps stay in memory, and a read finds the next ones.

    Source: Platt 1998; Joachims 1999; second rows of steps: Fan, Chen and Lin 2005.
    """

    name = "smo"
    numeric: ClassVar[bool] = True
    several: ClassVar[bool] = True
    kernels: ClassVar[bool] = True
    takes: ClassVar[tuple[str, ...]] = (PATH,)
    any_p: ClassVar[bool] = False

    def check(self, problem: Problem) -> None:
        if problem.kernel is None:
            raise Refusal(f"{self.called} trains kernel machines, and no kernel is given", "give one, as `kernel=rbf`")
        super().check(problem)
        check_rows(problem)

    def _check_hard(self, problem: Problem) -> None:
        if problem.joint:
            raise Refusal(f"{self.called} does not find one hard margin of all classes", "use `multiclass=ovr`")
        if not (has(problem.loss, "has_hard_margin") and problem.loss.has_hard_margin()):
            raise Refusal(f"the loss {problem.loss_called} has no hard margin", "use `loss=hinge`")

    def supports(self, penalty: Penalty, free: bool) -> bool:
        return isinstance(penalty, LpSquare)

    def run_block(self, problem: Problem, state: SmoState, active: np.ndarray, block: Block, first: int) -> Share:
        if not problem.resident:
            return self.look(problem, state, active, block, first)
        self.take(problem, state, block)
        return self.round(problem, state, active, None)

    def take(self, problem: Problem, state: SmoState, block: Block) -> Columns:
        """The cache of columns, of all rows in memory."""
        if state.block is None:
            state.block = block
            if given(problem).of_numbers:
                assert isinstance(block, DenseBlock)
                check_all_symmetric(block.X)
        return self.columns_of(problem, state, block, np.arange(problem.rows))

    def end_pass(self, problem: Problem, state: SmoState, active: np.ndarray) -> PassReport | float:
        if not problem.resident:
            return self.end_read(problem, state, active)
        self.freeze(problem, state)
        still = bool(state.idle[active].all()) and state.best_point.numbers.size > 0
        return PassReport(state.gaps.copy(), self.mistakes(problem, state, active), still=still)
