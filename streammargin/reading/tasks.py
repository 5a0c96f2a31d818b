"""The tasks of rows: their names, and the number of that of each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.matching import Codes
from streammargin.reading.labels import recoded
from streammargin.sources.arrays import as_array, of_obs
from streammargin.sources.base import Slices, Source
from streammargin.sources.labels import Origin, census, class_values, distinct, lie_inside, shifted
from streammargin.sources.names import ALL_COLUMNS
from streammargin.sources.open import open_source
from streammargin.sources.views import View
from streammargin.wording import in_list, shown
from streammargin.workers import ALONE, Workers

LISTED = 20  # most tasks that an error lists
NOUN = "task"


class GivenTasks(View):
    """Rows whose labels are the tasks (n,) in an array."""

    def __init__(self, values: Any, source: Source) -> None:
        super().__init__(source)
        self._values = as_array(values, "tasks")
        if self._values.shape != (self.rows,):
            raise DataError(
                f"tasks has shape {self._values.shape} but {self.name} has {self.rows} rows; give one task for each row"
            )

    def labels(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        yield self._values

    def label_place(self, row: int) -> tuple[str, int]:
        return self.source.place(row)

    def label_column(self) -> None:
        return None

    def rereads_labels(self) -> str:
        return ""


class Tasks(NamedTuple):
    """names (T,), sorted, and the number (n,) int16 of the task of each row; column: where they stand, if they do."""

    names: np.ndarray
    codes: Slices
    column: str | None


def column_of(
    stack: ExitStack, given: Any, data: Any, x: str | None, source: Source, noun: str = "tasks"
) -> Source:  # fmt: skip
    """The column of tasks, or of another noun, as labels of rows.

    It is an array, the name of one in the files of `data`, or FILE:NAME.

    stack: closes it; x: as for `open_source`; source: the rows of `data`. Raises DataError, InputMissingError and
    UsageError.
    """
    given = of_obs(data, given, "tasks")
    if not isinstance(given, str):
        return GivenTasks(given, source)
    if isinstance(data, Source):
        while isinstance(data, View):  # as the rows of a spool are
            data = data.source
        if (beside := data.task_column()) is not None:
            return beside
        files = data.files()
        data = files[0] if len(files) == 1 else None
    if data is None or not source.files():
        raise UsageError(f"{source.name} has no column {shown(given)} of {noun}; give `{noun.split()[0]}` as an array")
    column = open_source(data, x=x, y=given, mask=source.mask, columns=ALL_COLUMNS)
    stack.callback(column.close)
    try:
        outputs = column.outputs() or ()
    except DataError as error:
        option = "cv=K,by=" if "`cv`" in noun else "tasks="
        told = error.raw.replace("labels", noun.split()[0]).replace("`y=", f"`{option}")
        raise type(error)(told) from error
    if len(outputs) > 1:
        raise DataError(f"{source.name}: {given} has several columns, and {noun} are one column; name one of them")
    return column


def learn(column: Source, given: object, workers: Workers = ALONE) -> Tasks:
    """The tasks of the rows of a training, of a column given so. DataError if a row has none, or an empty name."""
    names, codes = _census(column, workers)
    told = column.label_column()
    name = told if isinstance(told, str) and told else given if isinstance(given, str) and lie_inside(given) else None
    return Tasks(names, recoded(column, names, codes, np.arange(len(names))), name)


def _census(column: Source, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
    again = bool(column.rereads_labels())
    names, codes, _ = census(column.labels(), column.rows, column.name, column.label_place, not again, NOUN, workers)
    _check_names(names.tolist(), column.name)
    return names, codes


def _check_names(names: Sequence[Any], name: str) -> None:
    if any(isinstance(one, str) and not one.strip() for one in names):
        raise DataError(f"{name}: there are rows whose task has an empty name; give each task a name, or drop them")


def matched(column: Source, names: Sequence[Any], workers: Workers = ALONE) -> Slices:
    """The numbers of the tasks of other rows among `names`. DataError for those that are none of them."""
    values, codes = _census(column, workers)
    return recoded(column, values, codes, _among(names, values, column.name))


def numbers_of(raw: np.ndarray, names: Sequence[Any], name: str, origin: Origin, start: int) -> np.ndarray:
    """The same of some rows (m,), the first of which is row `start`."""
    values, inverse = distinct(class_values(raw, name, shifted(origin, start), NOUN))
    _check_names(values.tolist(), name)
    return _among(names, values, name)[inverse]


def _among(names: Sequence[Any], values: np.ndarray, name: str) -> np.ndarray:
    found = np.array(Codes(names, None, name).of(values), np.int16)
    unknown = [in_list(value) for value in values[found < 0].tolist()]
    if unknown:
        more = f" and {len(unknown) - LISTED} more" if len(unknown) > LISTED else ""
        said = ", ".join(unknown[:LISTED])
        what = f"the task {said} has" if len(unknown) == 1 else f"the tasks {said}{more} have"
        told = ", ".join(in_list(one) for one in names[:LISTED]) + (", ..." if len(names) > LISTED else "")
        raise DataError(
            f"{name}: {what} no weights in the model, which was trained on {told}; drop their rows, or train with them"
        )
    return found
