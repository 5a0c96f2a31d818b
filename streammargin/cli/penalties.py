"""streammargin penalties [NAME]"""

from __future__ import annotations

import argparse

from streammargin.cli import words
from streammargin.penalties.base import PenaltyWord


def add_options(parser: argparse.ArgumentParser) -> None:
    """[NAME]"""
    words.add_options(parser, "penalty")


def served(cls: type[PenaltyWord]) -> list[str]:
    """The solvers that serve a penalty, with some values of its fields."""
    import numpy as np

    from streammargin.penalties.base import Columns
    from streammargin.solvers.registry import make_solver
    from streammargin.solvers.registry import names as words_of_solvers

    names = {line.name for line in cls.entries()}
    given = {"groups": [0, 0]} if "groups" in names else {}
    others = [{}, *({name: value} for name, value in (("l1_ratio", 0.5), ("p", 1.5)) if name in names)]
    columns = Columns(2, lambda groups: np.asarray(groups))
    made = [cls(**given, **other).of_columns(columns) for other in others]
    return [
        name for name in words_of_solvers()[1:]
        if any(make_solver(name).serves(one, False) and (one.proximal or name != "pdprox") for one in made)
    ]  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Print one line for each penalty, or all about one."""
    from streammargin.penalties import FAMILY

    return words.show(FAMILY, options.name, lambda cls: [f"served by {', '.join(served(cls))}"])
