"""streammargin losses [NAME]"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from streammargin.cli import words
from streammargin.losses.base import Loss

if TYPE_CHECKING:
    from streammargin.solvers.base import Method


def add_options(parser: argparse.ArgumentParser) -> None:
    """[NAME]"""
    words.add_options(parser, "loss")


def serves(method: Method, cls: type[Loss]) -> bool:
    """Whether a solver serves a loss."""
    from streammargin.losses import is_numeric
    from streammargin.losses.base import has

    terms, needed = cls().terms(), method.required()
    able = all(has(terms, one) for one in needed) if needed else cls.name == method.default_loss
    if cls.only_hard:
        able = able and "has_hard_margin" in needed
    elif method.default_C == float("inf") and "has_hard_margin" in needed:
        able = able and terms.has_hard_margin()
    return able and (method.numeric or not is_numeric(terms))


def run(options: argparse.Namespace) -> int:
    """Print one line for each loss, or all about one."""
    from streammargin.losses import FAMILY

    return words.show(FAMILY, options.name, lambda cls: [words.served_by(serves, cls)] if cls.has_defaults() else [])
