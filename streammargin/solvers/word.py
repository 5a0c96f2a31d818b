"""The words of `solver`. Nothing here imports the compiler, so that options can be checked without it."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from streammargin.words import Thing


class SolverWord(Thing, ABC):
    """A word of `solver`; its fields choose variants of the solver.

    The first line of its docstring is its help.
    """


class Auto(SolverWord):
    """Chooses the solver by C, the penalty and the data; the run says which one, and why.

    C = inf: active-set for l2, ascent:momentum=yes for lp, dual-momentum for one margin of all classes.
    With a kernel smo, and dual-momentum for one margin of all classes.
    A finite C: newton if columns are few, else ascent for l2 and lp. For other penalties, a constant that is not
    penalised, and numbers if rows outnumber columns: newton if columns are few, else pdprox.
    If the first choice does not fit into the memory, the next one is tried.
    """

    name: ClassVar[str] = "auto"
