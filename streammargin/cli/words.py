"""The output of `losses`, `penalties` and `solvers`: a list of words, or the fields of one."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from streammargin.cli.options import add_common
from streammargin.wording import in_shell
from streammargin.words import Family, Thing

if TYPE_CHECKING:
    from streammargin.solvers.base import Method

LONG, WIDTH = 32, 100  # characters: of a word with its fields, of a line


def add_options(parser: argparse.ArgumentParser, option: str) -> None:
    """[NAME]"""
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"show all about this {option}")
    add_common(parser)


def first_line(cls: type[Any]) -> str:
    """The first line of a docstring; empty under python -OO."""
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def listing(classes: Mapping[str, type[Any]]) -> list[str]:
    """The text on each word: one line, or two where the word and its fields are long."""
    words = {name: _with_fields(cls) for name, cls in classes.items()}
    width = max(len(word) for word in words.values() if len(word) <= LONG)
    return [
        f"{words[name]:<{width}}" + f"\n{'':<{width}}" * (len(words[name]) > width) + f"  {first_line(cls)}"
        for name, cls in classes.items()
    ]


def _with_fields(cls: type[Any]) -> str:
    entries = cls.entries() if issubclass(cls, Thing) else []
    return ":".join([cls.name, ",".join(line.name for line in entries)] if entries else [cls.name])


def print_packages(family: Family[Any]) -> None:
    """A line of the words that installed packages add, where they do."""
    if words := family.words_of_packages():
        print(f"of installed packages: {', '.join(words)}")


def served_by(serves: Callable[[Method, type[Any]], bool], cls: type[Any]) -> str:
    """The line of the solvers that serve a loss or a penalty."""
    from streammargin.solvers.registry import make_solver, names

    solvers = [name for name in names()[1:] if serves(make_solver(name), cls)]
    return f"served by {', '.join(solvers) or 'none of the solvers here'}"


def show(family: Family[Any], name: str | None, served: Callable[[type[Any]], list[str]]) -> int:
    """Print one line for each word, or all about this one. served: lines on what it serves, or what serves it."""
    if name is None:
        print("\n".join(listing(family.classes)))
        print_packages(family)
        return 0
    cls = family.find(name)
    print(f"{cls.name}: {inspect.getdoc(cls) or ''}\n")
    print(in_shell(family.spelling(cls)))
    for line in served(cls):
        print(textwrap.fill(in_shell(line), WIDTH, subsequent_indent="  ", break_on_hyphens=False))
    return 0
