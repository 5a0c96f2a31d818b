"""streammargin solvers [NAME]"""

from __future__ import annotations

import argparse
import inspect

from streammargin.cli import words
from streammargin.errors import UsageError
from streammargin.solvers.registry import SHELVES, make_solver, names


def add_options(parser: argparse.ArgumentParser) -> None:
    """[NAME]"""
    words.add_options(parser, "solver")


def run(options: argparse.Namespace) -> int:
    """Print a line on each solver, by shelf, or all on one."""
    known = names()
    if options.name is None:
        for shelf, listed in SHELVES.items():
            print(f"{shelf}:")
            for name in listed:
                print(f"  {name:<18}{known.pop(name)}")
        if known:  # of a file that was added
            print("others:")
        for name, text in known.items():
            print(f"  {name:<18}{text}")
        return 0
    if options.name == "auto":
        print(f"auto: {known['auto']}")
        return 0
    if options.name not in known:
        raise UsageError(f"unknown solver {options.name!r}; the solvers are {', '.join(known)}")
    method = make_solver(options.name)
    print(f"{method.name}: {known[method.name]}\n\n{inspect.getdoc(type(method)) or ''}")
    return 0
