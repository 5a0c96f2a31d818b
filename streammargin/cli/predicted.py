"""Write predictions block by block: text, CSV, .npy, HDF5, Parquet, or a column of a copy of an .h5ad file."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from streammargin.errors import DataError, ReadWriteError, StreamMarginError, UsageError
from streammargin.files import short_reason
from streammargin.wording import one_line, short

STEP = 16 << 20  # characters of text that are written at a time


class Part(NamedTuple):
    """Values (m, columns) of the rows from `start` on, and their names, arrays (m,), if asked for."""

    start: int
    values: Any
    ids: tuple[Any, ...] = ()


def small(blocks: Iterator[Part]) -> Iterator[Part]:
    """The same rows, fewer at a time if their texts, which rows share, would take more than STEP when written."""
    for part in blocks:
        texts = [of for of in (part.values, *part.ids) if of.dtype.hasobject and of.size]
        longest = sum(max(len(str(text)) for text in of.ravel().tolist()) for of in texts)
        rows = max(1, STEP // max(1, longest))
        for low in range(0, len(part.values), rows):
            here = slice(low, low + rows)
            yield Part(part.start + low, part.values[here], tuple(each[here] for each in part.ids))


@dataclass(frozen=True)
class Wanted:
    """The fields of each row: labels, scores or probabilities.

    values: of scores (m, k) an array (m, columns) of `dtype`. classes: those of the columns; none of one label or
    number a row. several: the columns are outputs; their names are in place of classes, for one output too.
    """

    name: str
    values: Callable[[Any], Any]
    columns: int
    dtype: Any
    classes: Any
    several: bool = False

    @property
    def tail(self) -> tuple[int, ...]:
        """The shape of a row of a binary output."""
        return () if self.columns == 1 and not self.several else (self.columns,)


def write_text(out: Any, blocks: Iterator[Part], wanted: Wanted, id: Sequence[str]) -> None:
    """One line per row, after a line of the classes or outputs; with names of rows it is CSV with a header."""
    head = csv.writer(out, delimiter="," if id else " ", lineterminator="\n")
    for start, values, ids in blocks:
        if start == 0 and (id or len(wanted.classes)):  # only now: invalid rows print nothing
            columns = list(map(one_line, map(str, wanted.classes.tolist()))) or [wanted.name.removesuffix("s")]
            head.writerow([*id, *columns])
        if wanted.name == "labels":
            fields = [[one_line(str(value)) for value in row] for row in values.tolist()]
        else:
            fields = [list(map(repr, row)) for row in values.tolist()]
        if id:
            head.writerows((*names, *row) for *names, row in zip(*map(_spelt, ids), fields, strict=True))
        else:
            out.write("\n".join(map(" ".join, fields)) + "\n")
    out.flush()


def _spelt(names: Any) -> list[Any]:
    """Names (m,) as they are written: times as text."""
    import numpy as np

    return (np.datetime_as_string(names) if names.dtype.kind == "M" else names).tolist()


Write = Callable[[str, Iterator[Part], "int | None", Wanted], None]  # to a path; rows: None if they are not known


def write_npy(path: str, blocks: Iterator[Part], rows: int | None, wanted: Wanted) -> None:
    """Write in order by ordinary writes, so that a full disk is an error of one of them.

    rows: None if they are counted while they are written; then the header is written again at the end.
    """
    import numpy as np

    kind = np.dtype(wanted.dtype)
    if kind.hasobject:
        raise UsageError("the labels are too long for an array of NumPy; name an output of text or .h5")

    def header(count: int) -> None:
        told = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (count, *wanted.tail)}
        np.lib.format.write_array_header_1_0(file, told)  # has room for a larger number of rows

    with open(path, "wb") as file:
        header(0 if rows is None else rows)
        start, done = file.tell(), 0
        for part in blocks:
            file.write(np.ascontiguousarray(part.values, kind).tobytes())
            done += len(part.values)
        if rows is None:
            file.seek(0)
            header(done)
            if file.tell() != start:
                raise ReadWriteError("the output has too many rows for the header of .npy; name one that ends in .h5")


def write_hdf5(path: str, blocks: Iterator[Part], rows: int | None, wanted: Wanted) -> None:
    """A dataset of this name, and one of the classes or outputs of its columns.

    rows: None if they are counted meanwhile.
    """
    import h5py
    import numpy as np

    from streammargin.sources.hdf5.disk import writable

    tail = wanted.tail
    text = np.dtype(wanted.dtype).kind in "UO"
    grows: dict[str, Any] = {} if rows is not None else {"maxshape": (None, *tail), "chunks": (1 << 14, *tail)}
    try:
        with writable(path) as (file, disk):
            if len(wanted.classes):
                texts = wanted.classes.dtype.kind in "UO"
                file["outputs" if wanted.several else "classes"] = (
                    wanted.classes.astype(h5py.string_dtype()) if texts else wanted.classes
                )
            dtype = h5py.string_dtype() if text else wanted.dtype
            dataset = file.create_dataset(wanted.name, (rows or 0, *tail), dtype=dtype, **grows)
            for start, values, _ in blocks:
                if rows is None:
                    dataset.resize(start + len(values), axis=0)
                part = values[:, 0] if not tail else values
                dataset[start : start + len(values)] = part.astype(object) if text else part
                disk.check()
    except (OSError, RuntimeError) as error:
        if isinstance(error, StreamMarginError):  # of the rows
            raise
        raise ReadWriteError(f"cannot write the output ({short_reason(error)}); free some space") from error


def write_parquet(id: Sequence[str], path: str, blocks: Iterator[Part], rows: int | None, wanted: Wanted) -> None:
    """A column of the labels, or one for each class; after the names of rows, if they are asked for."""
    import pyarrow as pa
    from pyarrow import parquet

    names = list(map(str, wanted.classes.tolist())) or [wanted.name.removesuffix("s")]
    names = [*id, *names]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"--id {twice} is the name of another column of the output too; name an output of text")
    writer = None
    try:
        for part in blocks:
            columns = [pa.array(values) for values in (*part.ids, *part.values.T)]
            table = pa.table(columns, names=names)
            if writer is None:
                writer = parquet.ParquetWriter(path, table.schema)
            writer.write_table(table.cast(writer.schema))
    except pa.ArrowException as error:
        raise DataError(
            f"the predictions do not fit into Parquet ({short_reason(error)}); name an output of text"
        ) from error
    finally:
        if writer is not None:
            writer.close()


def write_obs(data: str, name: str, path: str, blocks: Iterator[Part], rows: int | None, wanted: Wanted) -> None:
    """A copy of an .h5ad file with the labels as the column `name` of obs: text as categories, numbers as they are."""
    import h5py
    import numpy as np

    from streammargin.sources.hdf5.disk import writable
    from streammargin.sources.hdf5.storage import opened

    with opened(data) as file:
        order = _columns_of_obs(file, data, name)
    shutil.copyfile(data, path)
    text = np.dtype(wanted.dtype).kind in "UO"
    found = np.concatenate([part.values[:, 0] for part in blocks])
    try:
        with writable(path, "r+") as (file, _):
            obs = file["obs"]
            if text:
                categories, codes = np.unique(found, return_inverse=True)
                column = obs.create_group(name)
                column.attrs.update({"encoding-type": "categorical", "encoding-version": "0.2.0", "ordered": False})
                column["codes"] = codes.astype(np.min_scalar_type(-len(categories)))
                column["categories"] = categories.astype(h5py.string_dtype())
                arrays = {"array": column["codes"], "string-array": column["categories"]}
            else:
                arrays = {"array": obs.create_dataset(name, data=found)}
            for kind, node in arrays.items():
                node.attrs.update({"encoding-type": kind, "encoding-version": "0.2.0"})
            obs.attrs["column-order"] = np.array([*order, name], h5py.string_dtype())
    except (OSError, RuntimeError) as error:
        raise ReadWriteError(f"cannot write the output ({short_reason(error)}); free some space") from error


def _columns_of_obs(file: Any, data: str, name: str) -> list[str]:
    """The columns of obs in order. Raises DataError if there are none, UsageError if `name` is one."""
    from streammargin.sources.hdf5.labels import OBS

    obs = file.get(OBS)
    order = obs.attrs.get("column-order") if hasattr(obs, "attrs") else None
    if order is None:
        raise DataError(f"{data} has no table obs as anndata writes it since 0.7; write it again by anndata")
    if name in obs:
        raise UsageError(f"{data} has obs/{short(name)} already; give --obs another name")
    if "/" in name:
        raise UsageError("--obs is the name of a column, which has no slash; give another name")
    return [one if isinstance(one, str) else one.decode() for one in order]
