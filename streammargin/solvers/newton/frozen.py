"""The base of steps by products, in memory and out of core: a read looks at their weights."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from streammargin.compiled import look as certificate
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowNumbers
from streammargin.solvers.newton.conjugate_state import ByProducts
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.look import CertifiedByLook
from streammargin.solvers.proof.rounding import blur

B = TypeVar("B", bound=ByProducts)


class Frozen(CertifiedByLook[B]):
    """Base class: the sums of a read are those that certify the weights, and no more."""

    @staticmethod
    def look(
        problem: Problem, state: B, labels: Labels, active: np.ndarray, block: Block, numbers: RowNumbers,
        margins: np.ndarray = certificate.NOWHERE,
    ) -> None:  # fmt: skip
        """Add the sums of these rows at the weights; margins (1, K, n) or (1, K, 0): set to theirs."""
        found, none = state.look, np.zeros((1, problem.count))
        found.rows += block.rows()
        certificate.look(
            block, numbers, labels, problem.loss, problem.lines_of(active),
            certificate.Point(state.w[None], none, blur(state.w)[None]),
            certificate.Prox(np.zeros((problem.count, 0)), np.zeros((problem.count, 0)), none[0], none[0]),
            certificate.Found(
                found.weights[None], found.duals, found.pull, found.wrong[None], margins, found.own, found.parts
            ),
        )  # fmt: skip
