"""streammargin solvers [NAME]"""

from __future__ import annotations

import argparse
from typing import Any

from streammargin.cli import losses, penalties, words
from streammargin.solvers.registry import CLASSES, FAMILY, SHELVES, SHORT
from streammargin.solvers.word import Auto


def add_options(parser: argparse.ArgumentParser) -> None:
    """[NAME]"""
    words.add_options(parser, "solver")


def run(options: argparse.Namespace) -> int:
    """Print one line for each solver, under three headings, or all about one."""
    if options.name is not None:
        return words.show(FAMILY, options.name, served)
    from streammargin.driver.memory import usual_bytes
    from streammargin.solvers.registry import make_solver

    print("first column: bytes that are kept of each row out of core (two classes, float32, one value of C)")
    lines = dict(zip(CLASSES, words.listing(CLASSES), strict=True))
    for shelf in dict.fromkeys(SHELVES.values()):
        print(f"{shelf}:")
        for word in (word for word in lines if CLASSES.shelf(word) == shelf):
            each = "" if word == Auto.name else str(usual_bytes(make_solver(word)))
            print(f"{each:>4}  " + lines[word].replace("\n", "\n      "))
            for short in short_words(word):
                print(f"        {short} is {SHORT[short]}")
    words.print_packages(FAMILY)
    return 0


def short_words(word: str) -> list[str]:
    """Other words for this solver."""
    return [short for short, meant in SHORT.items() if meant.partition(":")[0] == word]


def served(cls: type[Any]) -> list[str]:
    """Lines on what a solver serves, one for each of its words."""
    if not cls.has_defaults():
        return []
    own = [word for word in short_words(cls.name) if SHORT[word] != cls.name]  # not those that mean the same
    return [_served(word) for word in (cls.name, *own) if word != "auto"]


def _served(word: str) -> str:
    from streammargin.losses import LOSSES
    from streammargin.penalties import PENALTIES
    from streammargin.solvers.base import StreamSolver
    from streammargin.solvers.registry import make_solver

    method = make_solver(word)
    hard, either = method.default_C == float("inf"), "has_hard_margin" in method.required()
    costs = "C = inf" if hard else "any C" if either else "a finite C"
    able = [name for name, cls in LOSSES.items() if losses.serves(method, cls)]
    kinds = [name for name, cls in PENALTIES.items() if penalties.serves(method, cls)]
    beside = ["`multiclass=joint`"] * method.joint + list(method.takes)
    beside += ["streams"] * isinstance(method, StreamSolver)
    more = f"; {', '.join(beside)}" if beside else ""
    name = word if word not in SHORT else f"{word}, which is {SHORT[word]},"
    return f"{name} serves {costs}; the losses {', '.join(able)}; the penalties {', '.join(kinds)}{more}"
