"""A table with roles: which of its columns are values, which one is the label."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from streammargin.errors import DataError, UsageError
from streammargin.sources.names import listed
from streammargin.tables.asked import Asked
from streammargin.tables.header import LABEL_NAMES
from streammargin.tables.readers.base import Reader
from streammargin.tables.schema import Schema
from streammargin.version import __version__
from streammargin.wording import counted, one_line


@dataclass(frozen=True)
class Table:
    """The columns of a reader by role. values: in the order of the table; label, weight: "" where there is none."""

    reader: Reader
    asked: Asked
    values: tuple[str, ...]
    label: str
    weight: str = ""

    @property
    def name(self) -> str:
        """The path, for messages."""
        return self.reader.name

    def key(self) -> str:
        """A text that changes with the files of the table, its options and this package; "" for objects."""
        files = self.reader.fingerprint()
        told = repr((files, self.values, self.label, self.weight, self.asked, __version__))
        return hashlib.blake2b(told.encode(), digest_size=16).hexdigest() if files else ""


def with_roles(reader: Reader, asked: Asked, weight: str | None = None, labelled: bool = True) -> Table:
    """The table with the roles that the options give its columns. Raises UsageError for a name that it lacks."""
    label = _label(reader, asked, labelled)
    beside = {one for one in (label, weight) if one}
    for option, names in (("columns", asked.columns), ("drop", asked.drop), ("text", [name for name, _ in asked.text])):
        lacking = [name for name in names if name not in reader.columns]
        if lacking:
            raise UsageError(
                f"{reader.name} has no column {one_line(lacking[0])} for `{option}`; it has {listed(reader.columns)}"
            )
    if weight is not None and weight not in reader.columns:
        raise UsageError(f"{reader.name} has no column {one_line(weight)} for `sample_weight`; it has "
                         f"{listed(reader.columns)}")  # fmt: skip
    chosen = asked.columns or reader.columns
    values = tuple(name for name in chosen if name not in beside and name not in asked.drop)
    if not values:
        raise UsageError(f"{reader.name} has no column of values left; name some with `columns`")
    return Table(reader, asked, values, label, weight or "")


def _label(reader: Reader, asked: Asked, labelled: bool) -> str:
    """The column of the labels. Raises UsageError where it is not known."""
    if not labelled or asked.y == "":
        return ""
    if asked.y is not None:
        if asked.y not in reader.columns:
            raise UsageError(
                f"{reader.name} has no column {one_line(asked.y)} for `y`; it has {listed(reader.columns)}"
            )
        return asked.y
    found = [name for name in reader.columns if name.lower() in LABEL_NAMES]
    if len(found) == 1:
        return found[0]
    what = "several columns may be the label" if found else f"no column is called {' or '.join(LABEL_NAMES)}"
    raise UsageError(
        f"{reader.name}: {what}; name the label with `y=NAME`; the columns are {listed(found or reader.columns)}"
    )


def matched(reader: Reader, schema: Schema, label: str = "", id: str = "") -> Schema:
    """The schema of a training for another table: columns by name, or by position where one of them has no names.

    label, id: columns that the table must have too; "" for none. Raises DataError for what it lacks.
    """
    if not (schema.named and reader.named):
        own = [name for name in reader.columns if name != label]
        if len(own) != len(schema.columns):
            raise DataError(
                f"{reader.name} has {counted(len(own), 'column')} beside the label but the model was trained on "
                f"{len(schema.columns)}, and there are no names to match them by; write a table with these columns"
            )
        columns = tuple(replace(column, name=name) for column, name in zip(schema.columns, own, strict=True))
        schema = replace(schema, columns=columns, named=False)
    needed = [*(column.name for column in schema.columns), *(name for name in (label, id) if name)]
    lacking = [name for name in needed if name not in reader.columns]
    if lacking:
        raise DataError(
            f"{reader.name} lacks {counted(len(lacking), 'column')} that the model was trained on, or that were "
            f"asked for: {listed(lacking)}; it has {listed(reader.columns)}"
        )
    return schema
