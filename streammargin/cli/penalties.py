"""streammargin penalties [NAME]"""

from __future__ import annotations

import argparse
from dataclasses import MISSING
from typing import TYPE_CHECKING

from streammargin.cli import words
from streammargin.penalties.base import PenaltyWord

if TYPE_CHECKING:
    from streammargin.solvers.base import Method


def add_options(parser: argparse.ArgumentParser) -> None:
    """[NAME]"""
    words.add_options(parser, "penalty")


def serves(method: Method, cls: type[PenaltyWord]) -> bool:
    """Whether a solver serves a penalty, with some values of its fields."""
    import numpy as np

    from streammargin.penalties.base import Columns
    from streammargin.penalties.lp import Lp, LpSquare

    names = {line.name for line in cls.entries()}
    given = {"groups": [0, 0]} if "groups" in names else {}
    others = [{}, {"l1_ratio": 0.5}] if "l1_ratio" in names else [{}]
    others = [{"p": 1.5}] if issubclass(cls, Lp) else others  # lp:2 is l2
    columns = Columns(2, lambda groups: np.asarray(groups), lines=2)
    made = [cls(**given, **other).of_columns(columns) for other in others]
    return any(
        method.serves(one, False) and (method.any_p or not isinstance(one, LpSquare) or one.p == 2.0) for one in made
    )


def run(options: argparse.Namespace) -> int:
    """Print one line for each penalty, or all about one."""
    from streammargin.penalties import FAMILY

    def lines(cls: type[PenaltyWord]) -> list[str]:
        known = cls.has_defaults() or [line.name for line in cls.entries() if line.default is MISSING] == ["groups"]
        return [words.served_by(serves, cls)] if known else []

    return words.show(FAMILY, options.name, lines)
