"""Which solvers for which problem."""

from __future__ import annotations

from streammargin.solvers.base import Problem


def candidates(problem: Problem) -> list[str]:
    """Names of the solvers that `auto` stands for, the best one first; the next is for what that one cannot do.

    That is an option or a loss that it does not serve, or a memory budget too small for it. The problem is as it was
    asked for: where C or the loss were left out, it has those of most solvers, and the one taken may have others.
    """
    if problem.joint:
        return ["dual-momentum"]
    if problem.hard and problem.p == 2.0 and not problem.targets.size:
        return ["active-set", "asdca"]
    return ["asdca" if problem.hard and problem.p < 2.0 else "sdca"]
