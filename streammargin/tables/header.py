"""The names of columns: whether the first line of delimited text has them, and what columns without a name are called.

The index of a frame among the columns numbers the rows, and is no value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streammargin.arrow import pa, pc
from streammargin.errors import DataError
from streammargin.sources.names import all_of
from streammargin.tables.readers.base import BLANKS, Reader
from streammargin.wording import short, warn

_UNNAMED = re.compile(r"Unnamed: \d+(\.\d+)*")
_FIRST = re.compile(r"Unnamed: 0(\.\d+)*")
_OF_PANDAS = re.compile(r"__index_level_\d+__|__null_dask_index__")  # an index in Parquet, of pandas and of dask


def names_of(names: Iterable[object]) -> list[str]:
    """The names of the columns of a table as text; those without one by position, as pandas has them: `Unnamed: 3`.

    If another column has this name, `.1` is put behind it, or `.2` and so on.
    """
    found = ["" if is_blank(name) else str(name) for name in names]
    taken = set(found)
    for place, name in enumerate(found):
        if name:
            continue
        new, more = f"Unnamed: {place}", 0
        while new in taken:
            more += 1
            new = f"Unnamed: {place}.{more}"
        taken.add(new)
        found[place] = new
    return found


def is_blank(name: object) -> bool:
    """Whether a column has no name if this is what it is called: blanks, None, or NaN, as pandas may have it."""
    return name is None or name != name or (isinstance(name, str) and not name.strip(BLANKS))


def is_unnamed(name: str) -> bool:
    """Whether a column of this name had none."""
    return _UNNAMED.fullmatch(name) is not None


def is_stored_index(name: str) -> bool:
    """Whether pandas or dask wrote the index of a frame as this column."""
    return _OF_PANDAS.fullmatch(name) is not None


def may_be_index(name: str) -> bool:
    """Whether a column of this name is an index, if it holds different whole numbers: the first one without a name."""
    return is_stored_index(name) or _FIRST.fullmatch(name) is not None


class StoredNames:
    """The names that columns have in a file, beside ours.

    names: as they are stored; ours: the same in order, all different unless two columns have the same name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names: list[str] = list(names)
        self.ours: list[str] = names_of(self.names)
        self._of = dict(zip(self.ours, self.names, strict=True))
        self._called: dict[str, list[str]] = {}  # ours of the columns with each stored name
        for name, own in zip(self.names, self.ours, strict=True):
            self._called.setdefault(name, []).append(own)

    def of(self, name: str) -> str:
        """The name that this one of our columns is stored by."""
        return self._of[name]

    def stored(self, columns: Sequence[str]) -> list[str]:
        """The names that these of our columns are stored by; several without a name have one."""
        return list(columns) if self.names == self.ours else list(dict.fromkeys(map(self.of, columns)))

    def called(self, found: Any, columns: Sequence[str]) -> Any:
        """These columns by our names. found: a table or batch with all that have their names; those of one in order."""
        if self.names != self.ours:
            left = {name: iter(self._called[name]) for name in found.schema.names}
            found = type(found).from_arrays(found.columns, names=[next(left[name]) for name in found.schema.names])
        return found.select(list(columns))


LOOKED_AT = 1 << 16  # rows that tell whether a column numbers them


def without_index(reader: Reader, values: Sequence[str], named: Collection[str] = ()) -> tuple[str, ...]:
    """These columns without an index, of which a warning tells. named: those that the user has named, which stay.

    An index is what pandas or dask has stored as one, or a first column without a name that holds different whole
    numbers. If no other column is left, it is a value.
    """
    found = [name for name in values if may_be_index(name) and name not in named]
    twice = {name: False if is_stored_index(name) else repeated(reader, name) for name in found}
    left_out = [name for name in found if twice[name] is False]
    left_out = left_out if len(left_out) < len(values) else []
    if left_out:
        warn(
            f"{reader.name}: left out, as an index without a name: {all_of(left_out)}; `drop={','.join(left_out)}` "
            "does so without this warning; to use it, name it in `columns`, with all other columns"
        )
    for name in found:
        if name not in left_out and twice[name] is not None:
            warn(
                f"{reader.name}: the first column has no name, and is used as a value; if it numbers the rows, leave "
                f"it out with `drop={name}`: their order may reveal the labels"
            )
    return tuple(name for name in values if name not in left_out)


def repeated(reader: Reader, name: str) -> bool | None:
    """Whether a whole number occurs twice in a part of a table, which may begin anew; None if there are other values.

    The first rows tell.
    """
    left = LOOKED_AT
    for part in reader.parts():
        seen: set[int] = set()
        rows = 0
        for batch in part.batches([name], frozenset()):
            found = _whole(batch.column(0))
            if found is None:
                return None
            seen.update(found.tolist())
            rows += len(found)
            if len(seen) < rows:
                return True
            if rows >= left:
                return False
        left -= rows
    return False


def _whole(column: pa.Array) -> np.ndarray | None:
    """The numbers (m,) int64 of a column of whole numbers; None if it has others, words or gaps."""
    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    try:
        return np.asarray(pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:  # a fraction, NaN, or above 2^63
        return None


LABEL_NAMES = ("label", "class", "target", "y")
_MISSING = {"na", "n/a", "null", "none", "?", "-"}  # in a first line of data, not names


@dataclass(frozen=True)
class Expected:
    """Facts of a text before it is read.

    label: the name of the label, or its number from 0 (-1 is the last); None if it is not known. labelled: whether
    there is one. names: columns that a model was trained on. separator: between fields; None: found out. scored: by a
    model.
    """

    label: str | int | None = None
    labelled: bool = True
    names: frozenset[str] = frozenset()
    separator: str | None = None
    scored: bool = False


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

    It is one if it holds no value, if names stand above values of the second line, or if it holds the expected names.
    Text in the label column is ignored, unless it is one of the usual names, as labels may be text.
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


def check_different(name: str, columns: Sequence[str]) -> None:
    """DataError for a name that two columns of the table `name` share."""
    if twice := [column for column, times in Counter(columns).items() if times > 1]:
        raise DataError(f"{name} has several columns called {short(twice[0])}; give each a name of its own")
