"""Find the label and the value columns of a table, from the header line, the options and a model's column names."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.sources.names import equal
from streammargin.wording import Message, counted, one_line

LOG = logging.getLogger("streammargin")
LABEL_NAMES = ("label", "class", "target", "y")
_MISSING = {"", "na", "n/a", "null", "none", "?", "-"}  # in a first line of data, not names
_SHOWN, _LISTED = 40, 10  # characters of a name, names of a list


@dataclass(frozen=True)
class Like:
    """The columns that the model in `path` was trained on: their number, and their names if the model has them.

    label: the column of a table that its labels were from, by name or number; None where it is unknown.
    """

    path: str
    features: int
    names: np.ndarray | None
    label: str | int | None = None


@dataclass(frozen=True)
class Wanted:
    """The options about columns.

    label_column: a name, or a number from 0 (-1 is the last). A text that is both is a name.
    label: whether there is a label.
    """

    label_column: str | int | None
    label: bool
    like: Like | None


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    width: number of columns. header: their names, or None without a header line. label: its position, or None.
    values (d,): positions of the value columns, in output order.
    """

    width: int
    header: list[str] | None
    label: int | None
    values: np.ndarray

    @property
    def names(self) -> np.ndarray | None:
        """The names of the value columns (d,), an object array of str."""
        return None if self.header is None else np.array(self.header, object)[self.values]

    @property
    def label_name(self) -> str | int:
        """The name of the label column, or its number in a table without names."""
        assert self.label is not None
        return self.label if self.header is None else self.header[self.label]

    def called(self, place: int) -> str:
        """A column in a message."""
        return f"column {place}" if self.header is None else f"column {_short(self.header[place])}"


def columns_of(path: str, first: list[str], second: list[str], wanted: Wanted) -> Columns:
    """The columns of a table that begins with these two lines. Logs which column is the label.

    Raises UsageError if the label is ambiguous, DataError if the table lacks columns of the model.
    """
    header = [name.strip(" \t") for name in first] if _is_header(first, second, wanted) else None
    label = _label(path, first, header, wanted)
    values = np.delete(np.arange(len(first)), [] if label is None else [label])
    columns = Columns(len(first), header, label, values)
    if wanted.like is not None:
        columns = Columns(len(first), header, label, _as_trained(path, columns, wanted.like))
    if label is not None:
        LOG.info(Message(f"{path}: the label is {_at(header, label)}"))
    _say_doubts(path, first, columns, wanted)
    return columns


def truth(field: str) -> float | None:
    """1 of True and 0 of False, as pandas, R and polars write them; None of anything else."""
    return {"true": 1.0, "false": 0.0}.get(field.lower())


def is_number(field: str) -> bool:
    """Whether Python parses a field as a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def _is_value(field: str) -> bool:
    """Whether a field is a number, or True or False."""
    return is_number(field) or truth(field.strip()) is not None


def _is_header(first: list[str], second: list[str], wanted: Wanted) -> bool:
    """Whether the first line is a header.

    It is one if it holds no value, if it has names above values of the second line, or if it holds the model's names.
    Text in the label column is ignored, unless it is one of the usual names, as labels may be text.
    """
    if not any(_is_value(field) for field in first):
        return True
    trained = None if wanted.like is None else wanted.like.names
    if trained is not None and set(trained) <= {field.strip() for field in first}:
        return True
    names = [field.strip().lower() for field in first]
    if len(set(names)) < len(names) or _MISSING & set(names):
        return False
    label = len(names) - 1 if wanted.label else None
    if wanted.label_column is not None:
        try:
            label = int(wanted.label_column) % len(names)
        except ValueError:
            return str(wanted.label_column).lower() in names
    return any(
        not _is_value(name) and _is_value(below) and (column != label or name in LABEL_NAMES)
        for column, (name, below) in enumerate(zip(names, second, strict=False))
    )


def _label(path: str, first: list[str], header: list[str] | None, wanted: Wanted) -> int | None:
    """The position of the label, or None. Raises UsageError if it is ambiguous."""
    if not wanted.label:
        return None
    if wanted.label_column is not None:
        return _find(path, wanted.label_column, header, len(first))
    if wanted.like is not None and len(first) == wanted.like.features:
        return None  # as many columns as the model has: all are values
    if wanted.like is not None and (place := _as_before(wanted.like, header, len(first))) is not None:
        return place
    trained = set() if wanted.like is None or wanted.like.names is None else set(wanted.like.names)
    found = [
        place for place, name in enumerate(header or []) if name.lower() in LABEL_NAMES and name not in trained
    ]  # fmt: skip
    if found and header is not None:
        rest = [header[place] for place in found[1:]]
        if rest and not trained:
            LOG.warning(Message(
                f"{path}: {listed(rest)} may be a label too, but is used as a value; if it reveals the label, "
                "remove it from the table; if it is the label, name it with `label_column`"
            ))  # fmt: skip
        return found[0]
    if header is not None and trained:
        return None
    why = "there is no header line" if header is None else f"none is called {' or '.join(LABEL_NAMES)}"
    shown = f"the first row is {listed(first)}" if header is None else f"the columns are {listed(header)}"
    raise UsageError(
        f"{path}: cannot find the label column, since {why}; name it with `label_column`, or use "
        f"`label=False` if there is none; {shown}"
    )


def _as_before(like: Like, header: list[str] | None, width: int) -> int | None:
    """The position of the column that had the labels of the model, None where that is unknown or not here."""
    if header is not None and isinstance(like.label, str):
        named = [place for place, name in enumerate(header) if name == like.label]
        return named[0] if len(named) == 1 else None
    here = header is None and isinstance(like.label, int) and width == like.features + 1
    return like.label if here and isinstance(like.label, int) and like.label < width else None


def _find(path: str, wanted: str | int, header: list[str] | None, width: int) -> int:
    """The position of the column with this name or number."""
    places = [place for place, name in enumerate(header or []) if name == wanted]
    if header is not None and len(places) > 1:
        raise UsageError(
            f"{path} has {len(places)} columns called {_short(header[places[0]])}; give `label_column` one of their "
            f"numbers, which are {listed([str(place) for place in places])}"
        )
    if places:
        return places[0]
    try:
        place = int(wanted)
    except ValueError:
        names = listed(header) if header is not None else "no header line"
        raise UsageError(f"{path} has no column {wanted!r} for `label_column`; it has {names}") from None
    if not -width <= place < width:
        raise UsageError(f"`label_column={place}` is outside the {width} columns of {path} (they count from 0)")
    return place % width


def _as_trained(path: str, columns: Columns, like: Like) -> np.ndarray:
    """The positions of the values in the model's order: matched by name if both have names, else unchanged.

    Repeated names cannot be matched, unless both have the same names in the same order.
    """
    header, label = columns.header, columns.label
    names = columns.names
    if header is None or names is None or like.names is None or equal(names, like.names):
        if len(columns.values) == like.features:
            return columns.values
        besides = "" if label is None else f" besides the label, {_at(header, label)}"
        raise DataError(
            f"{path} has {counted(len(columns.values), 'column')}{besides}, but {like.path} was trained on "
            f"{like.features}, and {'the table' if header is None else 'the model'} has no column names to match"
        )
    places = {name: place for place, name in enumerate(header)}
    missing = [name for name in like.names if name not in places]
    if missing:
        raise DataError(
            f"{path} lacks {counted(len(missing), 'column')} that {like.path} was trained on: {listed(missing)}"
        )
    if label is not None and header[label] in set(like.names):
        raise UsageError(
            f"{path}: {_at(header, label)}, is one that {like.path} was trained on; name another `label_column`, or "
            "use `label=False` if there is no label"
        )
    trained = set(like.names)
    shared = [name for place, name in enumerate(header) if name in trained and places[name] != place]
    shared = shared or [name for name, times in Counter(like.names.tolist()).items() if times > 1]
    if shared:
        raise DataError(
            f"{path}: several columns have the same name ({listed(shared)}), and their order is "
            f"not that of {like.path}; give each column a unique name, and train again"
        )
    return np.array([places[name] for name in like.names], np.int64)


def _say_doubts(path: str, first: list[str], columns: Columns, wanted: Wanted) -> None:
    """Warn of columns that were probably not meant as they are read."""
    header, values, label = columns.header, columns.values, columns.label
    told = wanted.like is not None or (header is not None and wanted.label_column in header)  # that there is a header
    if header is None:
        if len(first) > 2 and [field.strip() for field in first] == [str(place) for place in range(len(first))]:
            LOG.warning(Message(f"{path}: the first line numbers the columns, and is read as a row; if it is a "
                                "header, remove it, or write other names"))  # fmt: skip
        return
    if not told and not any(name.lower() in LABEL_NAMES for name in header):
        numbers = [name for name in header if is_number(name)]
        if numbers:
            LOG.warning(Message(f"{path}: the first line is read as a header though it has numbers: "
                                f"{listed(numbers)}; if it is a row, correct its text fields"))  # fmt: skip
    used = np.zeros(columns.width, bool)
    used[values] = True
    if used[0] and not header[0]:
        LOG.warning(Message(f"{path}: the first column has no name, and is used as a value; if it numbers the rows, "
                            "remove it: their order may reveal the labels"))  # fmt: skip
    if label is None:
        alike = [header[place] for place in np.flatnonzero(used) if header[place].lower() in LABEL_NAMES]
        if alike:
            LOG.warning(Message(f"{path}: used as values, since `label=False`: {listed(alike)}"))
    else:
        used[label] = True
    left_out = [header[place] for place in np.flatnonzero(~used)]
    if left_out:
        mend = "; if one is the label, name it with `label_column`" if wanted.label and label is None else ""
        LOG.warning(Message(f"{path}: left out, as the model was not trained on it: {listed(left_out)}{mend}"))


def listed(names: Sequence[str]) -> str:
    """Names in a message: all if few, else the first ones and the last, as the label is often last."""
    if len(names) <= _LISTED:
        return ", ".join(map(_short, names))
    return f"{', '.join(map(_short, names[: _LISTED - 2]))}, ... and {_short(names[-1])} ({len(names)} in all)"


def _short(name: str) -> str:
    name = one_line(name)
    return f"{name[:_SHOWN]}..." if len(name) > _SHOWN else name or "''"


def _at(header: list[str] | None, place: int) -> str:
    return f"column {place}" if header is None else f"column {place}, {_short(header[place])}"
