"""What `losses`, `penalties` and `solvers` print: the words that there are, and what stands behind one."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from streammargin.cli.options import add_common
from streammargin.wording import in_shell
from streammargin.words import Family, Thing


def add_options(parser: argparse.ArgumentParser, option: str) -> None:
    """[NAME]"""
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"of a {option}: its fields and what serves it")
    add_common(parser)


def first_line(cls: type[Any]) -> str:
    """The help of a class; nothing under python -OO."""
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def listing(classes: Mapping[str, type[Any]]) -> str:
    """A line on each."""
    words = {name: _with_fields(cls) for name, cls in classes.items()}
    width = max(map(len, words.values()))
    return "\n".join(f"{words[name]:<{width}}  {first_line(cls)}" for name, cls in classes.items())


def _with_fields(cls: type[Any]) -> str:
    entries = cls.entries() if issubclass(cls, Thing) else []
    return ":".join([cls.name, ",".join(line.name for line in entries)] if entries else [cls.name])


def show(family: Family[Any], name: str | None, served: Callable[[type[Any]], list[str]]) -> int:
    """Print a line on each, or all on the one of this name. served: lines on what it serves, or what serves it."""
    if name is None:
        print(listing(family.classes))
        return 0
    cls = family.find(name)
    print(f"{cls.name}: {inspect.getdoc(cls) or ''}\n")
    print(in_shell(family.spelling(cls)))
    for line in served(cls):
        print(in_shell(line))
    return 0
