"""The table of options as parts of docstrings."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from typing import TypeVar

from streammargin.options.table import Line
from streammargin.wording import in_python

T = TypeVar("T")


def parameters(lines: Iterable[Line]) -> str:
    """The paragraphs of a docstring for these options."""
    described = []
    for line in lines:
        described.append(f"{line.name} : {line.type}, default {line.default!r}")
        described += textwrap.wrap(in_python(line.help), 112, initial_indent="    ", subsequent_indent="    ")
    return "\n    ".join(described)


def described(lines: Iterable[Line]) -> Callable[[T], T]:
    """A decorator that replaces {options} in a docstring by these options."""

    def fill(documented: T) -> T:
        if documented.__doc__:  # python -OO leaves none
            documented.__doc__ = documented.__doc__.replace("{options}", parameters(lines))
        return documented

    return fill
