"""streammargin solvers|losses|penalties [NAME]: a list of names, or the parameters of one."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

import numpy as np

from streammargin import losses, penalties
from streammargin.losses.base import Loss, coupled, has
from streammargin.losses.ratings import RATINGS
from streammargin.penalties.base import PenalisedColumns, PenaltyWord
from streammargin.penalties.lp import Lp, LpSquare
from streammargin.solvers import registry
from streammargin.solvers.registry import SHELVES, SHORT_WORDS, SOLVER_CLASSES, make_solver
from streammargin.solvers.word import Auto
from streammargin.wording import in_shell
from streammargin.words import Family, Thing

if TYPE_CHECKING:
    from streammargin.solvers.base import Method

LONG_WORD, WIDTH = 32, 100  # characters: of a word with its fields, of a line


def add_options(parser: argparse.ArgumentParser) -> None:
    """[NAME]"""
    parser.add_argument("name", nargs="?", metavar="NAME", help="show all about this one")


def run(options: argparse.Namespace) -> int:
    """Print one line for each word, or all about one."""
    if options.verb == "solvers" and options.name is None:
        return _list_solvers()
    kinds: dict[str, tuple[Family[Any], Callable[[Any], list[str]]]] = {
        "solvers": (registry.FAMILY, _served_by_solver),
        "losses": (losses.FAMILY, lambda cls: [_supporters(serves_loss, cls)] if cls.has_defaults() else []),
        "penalties": (penalties.FAMILY, _served_penalty),
    }
    family, served = kinds[options.verb]
    if options.name is None:
        print("\n".join(_listing(family.classes)))
        _print_packages(family)
        return 0
    cls = family.find(options.name)
    print(f"{cls.name}: {inspect.getdoc(cls) or ''}\n")
    print(in_shell(family.spelling(cls)))
    for line in served(cls):
        print(textwrap.fill(in_shell(line), WIDTH, subsequent_indent="  ", break_on_hyphens=False))
    return 0


def _listing(classes: Mapping[str, type[Any]]) -> list[str]:
    """The text on each name: one line, or two if the name and its parameters are long."""
    words = list(map(_with_fields, classes.values()))
    helps = ((inspect.getdoc(cls) or "").partition("\n")[0] for cls in classes.values())  # empty under python -OO
    width = max(len(word) for word in words if len(word) <= LONG_WORD)
    return [
        f"{word:<{width}}" + f"\n{'':<{width}}" * (len(word) > width) + f"  {help}"
        for word, help in zip(words, helps, strict=True)
    ]


def _with_fields(cls: type[Any]) -> str:
    entries = cls.entries() if issubclass(cls, Thing) else []
    return ":".join([cls.name, ",".join(line.name for line in entries)] if entries else [cls.name])


def _print_packages(family: Family[Any]) -> None:
    """A line of the words that installed packages add, if they do."""
    if words := family.words_of_packages():
        print(f"of installed packages: {', '.join(words)}")


def _supporters(supports: Callable[[Method, type[Any]], bool], cls: type[Any]) -> str:
    """The line of the solvers that support a loss or a penalty."""
    solvers = [name for name in registry.names()[1:] if supports(make_solver(name), cls)]
    return f"solvers that take it: {', '.join(solvers) or 'none here'}"


def serves_loss(method: Method, cls: type[Loss]) -> bool:
    """Whether a solver supports a loss."""
    from streammargin.solvers.base import NUMBERS

    terms, needed = cls().terms(), method.required()
    if coupled(terms):
        return bool(method.couples) and all(has(terms, one) for one in method.couples)
    able = all(has(terms, one) for one in needed) if needed else cls.name == method.default_loss
    if cls.only_hard:
        able = able and "has_hard_margin" in needed
    elif method.default_C == float("inf") and "has_hard_margin" in needed:
        able = able and terms.has_hard_margin()
    return able and (NUMBERS in method.takes or not losses.is_numeric(terms))


def serves_penalty(method: Method, cls: type[PenaltyWord]) -> bool:
    """Whether a solver supports a penalty, with some values of its fields."""
    from streammargin.solvers.base import ANY_P

    names = {line.name for line in cls.entries()}
    given = {"groups": [0, 0]} if "groups" in names else {}
    others = [{}, {"l1_ratio": 0.5}] if "l1_ratio" in names else [{}]
    others = [{"p": 1.5}] if issubclass(cls, Lp) else others  # lp:2 is l2
    columns = PenalisedColumns(2, lambda groups: np.asarray(groups), lines=2)
    made = [cls(**given, **other).of_columns(columns) for other in others]
    return any(
        method.lacks(one, False) is None and (ANY_P in method.takes or not isinstance(one, LpSquare) or one.p == 2.0)
        for one in made
    )


def _served_penalty(cls: type[PenaltyWord]) -> list[str]:
    known = cls.has_defaults() or [line.name for line in cls.entries() if line.default is MISSING] == ["groups"]
    return [_supporters(serves_penalty, cls)] if known else []


# solvers


def _list_solvers() -> int:
    """One line for each solver, under three headings."""
    from streammargin.training.fitting import usual_bytes

    print("first column: bytes kept for each row out of core (two classes, float32, one value of C)")
    lines = dict(zip(SOLVER_CLASSES, _listing(SOLVER_CLASSES), strict=True))
    for shelf in dict.fromkeys(SHELVES.values()):
        print(f"{shelf}:")
        for word in (word for word in lines if SOLVER_CLASSES.shelf(word) == shelf):
            each = "" if word == Auto.name else str(usual_bytes(make_solver(word)))
            print(f"{each:>4}  " + lines[word].replace("\n", "\n      "))
            for short in _short_words(word):
                print(f"        {short} is {SHORT_WORDS[short]}")
    _print_packages(registry.FAMILY)
    return 0


def _short_words(word: str) -> list[str]:
    """Other words for this solver."""
    return [short for short, meant in SHORT_WORDS.items() if meant.partition(":")[0] == word]


def _served_by_solver(cls: type[Any]) -> list[str]:
    """Lines on what a solver supports, one for each of its words."""
    if not cls.has_defaults():
        return []
    own = [word for word in _short_words(cls.name) if SHORT_WORDS[word] != cls.name]  # not those that mean the same
    return [_served(word) for word in (cls.name, *own) if word != "auto"]


def _served(word: str) -> str:
    from streammargin.solvers.base import FOLDS, JOINT, MATRICES, PATH, TOP, StreamSolver

    method = make_solver(word)
    if MATRICES in method.takes:
        return f"{word} is for `streammargin complete`: a finite C, and the losses {', '.join(RATINGS.classes)}"
    hard, either = method.default_C == float("inf"), "has_hard_margin" in method.required()
    costs = "C = inf" if hard else "any C" if either else "a finite C"
    able = [name for name, cls in losses.LOSSES.items() if serves_loss(method, cls)]
    kinds = [name for name, cls in penalties.PENALTIES.items() if serves_penalty(method, cls)]
    beside = [one for one in (JOINT, PATH, TOP, FOLDS) if one in method.takes]
    beside += ["streams"] * isinstance(method, StreamSolver)
    more = f"; {', '.join(beside)}" if beside else ""
    name = word if word not in SHORT_WORDS else f"{word}, which is {SHORT_WORDS[word]},"
    return f"{name} takes {costs}; the losses {', '.join(able)}; the penalties {', '.join(kinds)}{more}"
