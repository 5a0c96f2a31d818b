"""Whether the first line of delimited text has names, and what is worth a word about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streammargin.errors import DataError
from streammargin.tables.unnamed import names_of
from streammargin.wording import short, warn

LABEL_NAMES = ("label", "class", "target", "y")
_MISSING = {"na", "n/a", "null", "none", "?", "-"}  # in a first line of data, not names
_LISTED = 10  # names of a list


@dataclass(frozen=True)
class Expected:
    """Facts of a text before it is read.

    label: the name of the label, or its number from 0 (-1 is the last); None if it is not known. labelled: whether
    there is one. names: columns that a model was trained on. separator: between fields; None: found out.
    """

    label: str | int | None = None
    labelled: bool = True
    names: frozenset[str] = frozenset()
    separator: str | None = None


ANYTHING = Expected()


def is_number(field: Any) -> bool:
    """Whether Python parses a field, or takes another value, as a number."""
    try:
        float(field)
    except (TypeError, ValueError):
        return False
    return True


def _is_value(field: str) -> bool:
    """Whether a field is a number, or True or False."""
    return is_number(field) or field.strip().lower() in ("true", "false")


def is_header(first: Sequence[str], second: Sequence[str], expected: Expected) -> bool:
    """Whether the first line is a header.

    It is one if it holds no value, if it has names above values of the second line, or if it holds the names that are
    expected. Text in the label column is ignored, unless it is one of the usual names, as labels may be text.
    """
    if not any(map(_is_value, first)):
        return True
    called = names_of(first)
    if expected.label in called and position(expected.label or "", len(first)) is None:
        return True
    if expected.names and expected.names <= set(called):
        return True
    names = [field.lower() for field in first]
    own = list(filter(None, names))  # some columns have none, as an index
    if len(set(own)) < len(own) or _MISSING & set(own):
        return False
    label = len(names) - 1 if expected.labelled else None
    if expected.label is not None:
        label = position(expected.label, len(names))
    return any(
        name and not _is_value(name) and _is_value(below) and (column != label or name in LABEL_NAMES)
        for column, (name, below) in enumerate(zip(names, second, strict=False))
    )


def position(text: str | int, width: int) -> int | None:
    """The column of this number, from 0; -1 is the last. None if it is no such number."""
    try:
        place = int(text)
    except ValueError:
        return None
    return place % width if -width <= place < width else None


def say_doubts(path: str, columns: Sequence[str], known: bool) -> None:
    """Warn of a first line with names that was probably a row; known: whether something told that it is none."""
    if not known and not any(name.lower() in LABEL_NAMES for name in columns):
        numbers = [name for name in columns if is_number(name)]
        if numbers:
            warn(
                f"{path}: the first line is read as a header though it has numbers: "
                f"{all_of(numbers)}; if it is a row, correct its texts"
            )


def all_of(names: Sequence[str]) -> str:
    """Names in a message: all if few, else the first ones and the last, as the label is often last."""
    if len(names) <= _LISTED:
        return ", ".join(map(short, names))
    return f"{', '.join(map(short, names[: _LISTED - 2]))}, ... and {short(names[-1])} ({len(names)} in all)"


def check_different(name: str, columns: Sequence[str]) -> None:
    """DataError for a name that two columns of the table `name` share."""
    if twice := [column for column, times in Counter(columns).items() if times > 1]:
        raise DataError(f"{name} has several columns called {short(twice[0])}; give each a name of its own")
