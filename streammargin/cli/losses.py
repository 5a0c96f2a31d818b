"""streammargin losses [NAME]"""

from __future__ import annotations

import argparse

from streammargin.cli import words
from streammargin.losses.base import Loss


def add_options(parser: argparse.ArgumentParser) -> None:
    """[NAME]"""
    words.add_options(parser, "loss")


def served(cls: type[Loss]) -> list[str]:
    """The solvers that serve a loss."""
    from streammargin.losses import is_numeric
    from streammargin.losses.base import has
    from streammargin.solvers.registry import make_solver, names

    terms, found = cls().terms(), []
    for name in names()[1:]:
        method = make_solver(name)
        needed = method.required()
        able = all(has(terms, one) for one in needed) if needed else cls.name == method.default_loss
        if cls.only_hard:
            able = able and "has_hard_margin" in needed
        elif method.default_C == float("inf") and "has_hard_margin" in needed:
            able = able and terms.has_hard_margin()
        if able and (method.numeric or not is_numeric(terms)):
            found.append(name)
    return found


def run(options: argparse.Namespace) -> int:
    """Print one line for each loss, or all about one."""
    from streammargin.losses import FAMILY

    return words.show(FAMILY, options.name, lambda cls: [f"served by {', '.join(served(cls))}"])
