"""Tables and files of numbers for `verify`: their rows are written once more, as the schema in the model reads them.

Nothing of the training is used again, neither its spool nor what it learnt of the columns, but for that schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from streammargin.errors import DataError, UsageError
from streammargin.files import reading
from streammargin.ordered import is_table
from streammargin.saved.header import read_saved
from streammargin.sources.labels import lie_inside
from streammargin.sources.open import paths_of
from streammargin.sources.schema import Schema
from streammargin.tables.asked import ERROR, Asked
from streammargin.tables.elsewhere import lie_outside
from streammargin.tables.header import Expected
from streammargin.tables.matrices.base import How
from streammargin.tables.open import open_table
from streammargin.tables.readers.base import Room
from streammargin.tables.spool import OfMatrix, OfTable, again, spooled
from streammargin.tables.table import Table, apart, matched, places_of


@dataclass(frozen=True)
class RespooledRows:
    """The rows of the data of a model, by the header of its file.

    `names`     the options of `verify` that name columns.
    `memory`    bytes for reading.
    `folder`    where spools stay. None: they are removed with the stack.
    `unknown`   ERROR, or ZERO: a word that no row of the training had counts as none.
    `weighted`  False for rows without weights, though the training has some.
    """

    model: str
    header: Mapping[str, Any]
    stack: ExitStack
    names: Mapping[str, Any]
    memory: int
    folder: str | None = None
    unknown: str = ERROR
    weighted: bool = True

    def written(self, data: Sequence[str], suffix: str = ".verify.h5") -> str:
        """The path of a spool of these rows. Raises DataError, InputMissingError, OutputError, UsageError."""
        made = self._table(list(data)) if is_table(list(data)) else self._matrix(data)
        source = self.stack.enter_context(spooled(made, self.folder, suffix, read=[self.model, *data]))
        return source.source.files()[0]

    def held_out(self) -> RespooledRows:
        """The same of held-out rows: without weights, and without labels in another file, which are of the others."""
        y = self.names["y"]
        inside = y is None or lie_inside(y)
        return replace(self, names={**self.names, "sample_weight": None, "y": y if inside else None}, weighted=False)

    def _table(self, data: list[str]) -> OfTable:
        plain = self.header.get("table")
        if plain is None:
            told = ", ".join(data)
            raise DataError(f"{told} is a table, and {self.model} was trained on other rows; give the file of its rows")
        schema = Schema.from_plain(plain)
        known = self.header["problem"]["names"] if self.weighted else {}  # in other files: they are of these rows alone
        y, weight = self.names["y"] or schema.labels or known.get("y"), self.names["sample_weight"] or ""
        if not y and not self.weighted:
            raise UsageError(f"{', '.join(data)} has held-out rows, and the labels of {self.model} were in no column; "
                             "put labels into a column of both tables, and name it with `y`")  # fmt: skip
        if not y:
            raise UsageError(f"the labels of {self.model} were an array; name them with `y`, as `y=FILE.npy`")
        own = None if lie_outside(y, ()) else y
        expected = Expected(own if isinstance(own, str) else next(iter(own or ()), None), own is not None, schema.known)
        reader = again(self.stack, open_table(data, expected, room=Room(self.memory)), self.folder)
        others: Any = [
            each if lie_outside(each, reader.columns) else None for each in (y, weight or known.get("sample_weight"))
        ]
        labels = () if others[0] is not None else places_of(reader, apart(y, reader))
        if self.weighted and not weight:
            weight = schema.weight
        weight = "" if others[1] is not None else weight
        if self.weighted and self.header["problem"]["weighted"] and not weight and others[1] is None:
            raise UsageError(f"the rows of {self.model} have weights; name their column with `sample_weight`")
        if weight and weight not in reader.columns:
            raise UsageError(f"{reader.name} has no column {weight} for `sample_weight`")
        tasks = self.names["tasks"] or self.header["problem"]["names"]["tasks"] or ""
        schema = matched(reader, schema, labels, tasks=tasks)
        if shared := {*labels, weight, tasks}.intersection(schema.values):
            raise UsageError(f"{reader.name}: the column {min(shared)} is one that {self.model} was trained on; name "
                             "another with `y`, `sample_weight` or `tasks`")  # fmt: skip
        table = Table(reader, Asked(unknown=self.unknown), schema.values, labels, weight, tasks)
        return OfTable(table, schema, told=False, y=others[0], weight=others[1] if self.weighted else None)

    def _matrix(self, data: Sequence[str]) -> OfMatrix:
        given = {name: value for name, value in self.names.items() if value is not None}
        names = {**self.header["problem"]["names"], **given}
        if not self.weighted:
            names |= {"y": names["y"] if lie_inside(names["y"]) else None, "sample_weight": None}
        how = How("", self.stack, names["x"], names["y"], names["sample_weight"], self.memory,
                  self.header.get("features"), mask=names.get("mask"), columns=names.get("columns"))  # fmt: skip
        return OfMatrix(paths_of(data), how, labelled=True)


def header_of(model: str, memory: int) -> dict[str, Any]:
    """The header of a model that was certified. Raises DataError, InputMissingError, UsageError."""
    with reading(model, "is not a model, or damaged", "train it again: streammargin train DATA -o MODEL"):
        header = read_saved(model, memory)[1]
    if header["problem"] is None:
        raise UsageError(f"{model} is of a stream, so nothing was certified; train it for longer")
    return header
