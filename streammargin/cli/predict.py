"""streammargin predict MODEL DATA [-o OUT]"""

from __future__ import annotations

import argparse
import csv
import functools
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from streammargin.cli.options import add_scoring, argument, name, to_score
from streammargin.cli.remarks import Remarks, say
from streammargin.errors import DataError, ReadWriteError, UsageError
from streammargin.files import check_apart, check_output, replacing, short_reason, writes
from streammargin.kinds import ALL_THREADS, ColumnName, ColumnNames, threads_of
from streammargin.options.table import read_by
from streammargin.ordered import files_read, is_ordered
from streammargin.sources.base import Source
from streammargin.sources.names import listed
from streammargin.wording import counted, one_line, short, warn
from streammargin.workers import Workers


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of prediction."""
    parser.add_argument(
        "-o",
        "--output",
        type=name,
        metavar="OUT",
        help="text, or binary if it ends in .h5, .npy or .parquet; default stdout",
    )
    parser.add_argument("--id", type=argument(ColumnNames().read), default=(), metavar="NAME[,NAME]",
                        help="columns to put first in each line: of a table, or datasets beside the rows, FILE:NAME "
                        "or FILE.npy; `barcode` names single cells")  # fmt: skip
    parser.add_argument("--obs", type=name, metavar="NAME",
                        help="write a copy of an .h5ad file with the labels as this column of obs; --probability adds "
                        "probabilities as obsm/NAME_probability")  # fmt: skip
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--decision", action="store_true", help="write scores instead of labels, below a header of classes or outputs"
    )
    shown.add_argument("--probability", action="store_true", help="write probabilities of classes (logistic loss)")
    add_scoring(parser)
    parser.add_argument("--force", action="store_true", help="replace an existing OUT")
    parser.add_argument("-q", "--quiet", action="store_true", help="print warnings only")


def run(options: argparse.Namespace) -> int:
    """Predict block by block."""
    if options.output:
        check_output(options.output, options.force)
        inputs = files_read(options.data, **read_by(vars(options)))
        inputs += [file for name in options.id for file in ColumnName("NAME").files(name)]
        check_apart({"the output": options.output}, [options.model, *inputs])
    model, data, asked = to_score(options)
    wanted = _wanted(model, options)
    write = _writer(options, model.outputs)
    with (
        Remarks(),
        model.rows_of(data, id=options.id, **asked) as rows,
        closing(Workers(threads_of(options.threads or ALL_THREADS))) as workers,
    ):
        scored = model.score_blocks(rows, asked["memory"], options.missing_columns, workers, wanted.values)
        ends: list[int] = [0]
        blocks = _noted(small(Lines(part.start, part.scores, part.ids) for part in scored), ends)
        with replacing(options.output, options.force) if options.output else nullcontext("") as path:
            if write is not None:
                write(path, blocks, rows.rows if isinstance(rows, Source) else None, wanted)
            else:
                with open(path, "w", encoding="utf-8") if path else nullcontext(sys.stdout) as out:
                    write_text(out, blocks, wanted, options.id)
    if options.output and not options.quiet:
        say(f"{wanted.name} of {counted(ends[-1], 'row')} written to {options.output}")
    return 0


def _noted(parts: Iterator[Lines], ends: list[int]) -> Iterator[Lines]:
    """The same parts; ends: gets the number of rows so far."""
    for part in parts:
        ends[-1] = part.start + len(part.values)
        yield part


def _writer(options: argparse.Namespace, outputs: list[str] | None) -> Write | None:
    """The writer of a binary output; None for text. Raises UsageError for options that do not fit it."""
    output, id = options.output or "", options.id
    if options.obs:
        if outputs is not None:
            raise UsageError("--obs adds one column of labels, and the model predicts several; name an output of text")
        if is_ordered(options.data[0]):
            raise UsageError(f"--obs adds labels to a copy of an .h5ad file, and {options.data[0]} is not one; name "
                             "an output of text with -o")  # fmt: skip
        if len(options.data) > 1 or not output or options.decision or id or options.mask:
            raise UsageError("--obs adds labels to a copy of one .h5ad file: name it with -o, and omit --decision, "
                             "--mask and --id")  # fmt: skip
        return functools.partial(write_obs, options.data[0], options.obs)
    if output.endswith(".parquet"):
        return functools.partial(write_parquet, id)
    if id and output.endswith((".h5", ".npy")):
        raise UsageError("--id needs lines of text or .parquet; name an output that ends in neither .h5 nor .npy")
    return write_npy if output.endswith(".npy") else write_hdf5 if output.endswith(".h5") else None


def _wanted(model: Any, options: argparse.Namespace) -> Fields:
    """Raises UsageError for probabilities of a model that has none."""
    if model.of_pairs:
        of = np.asarray if options.decision else lambda scores: model.labels_of(scores)[:, None]
        return Fields("scores", of, 1, "f8", np.empty(0))
    several = None if model.outputs is None else np.array(model.outputs)
    if options.probability:
        of = model.probabilities_of()
        columns = model.classes_ if several is None else several
        if options.obs:
            both = lambda scores: np.column_stack([model.places_of(scores), of(scores)])  # noqa: E731
            return Fields("labels and probabilities", both, 1 + len(columns), "f8", columns)
        return Fields("probabilities", of, len(columns), "f8", columns, several is not None)
    if options.decision:
        count = 1 if model.tasks else model.answer.outputs
        columns = model.classes_[-count:] if several is None else several
        return Fields("scores", lambda scores: scores, count, "f8", columns, several is not None)
    if several is not None:
        return Fields("labels", model.labels_of, len(several), model.classes_.dtype, several, True)
    return Fields(
        "labels", lambda scores: model.labels_of(scores)[:, None], 1, model.classes_.dtype, model.classes_[:0]
    )


OF_ANNDATA = {"X", "obs", "var", "uns", "obsm", "varm", "layers", "raw", "obsp", "varp"}  # and raw.X, raw.var, ...
WRITTEN_CHARACTERS = 16 << 20  # characters of text that are written at a time


class Lines(NamedTuple):
    """Values (m, columns) of the rows from `start` on, and their names, arrays (m,), if asked for."""

    start: int
    values: Any
    ids: tuple[Any, ...] = ()


def small(blocks: Iterator[Lines]) -> Iterator[Lines]:
    """The same rows, fewer at a time if their texts, which rows share, exceed WRITTEN_CHARACTERS when written."""
    for part in blocks:
        texts = [of for of in (part.values, *part.ids) if of.dtype.hasobject and of.size]
        longest = sum(max(len(str(text)) for text in of.ravel().tolist()) for of in texts)
        rows = max(1, WRITTEN_CHARACTERS // max(1, longest))
        for low in range(0, len(part.values), rows):
            here = slice(low, low + rows)
            yield Lines(part.start + low, part.values[here], tuple(each[here] for each in part.ids))


@dataclass(frozen=True)
class Fields:
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


def write_text(out: Any, blocks: Iterator[Lines], wanted: Fields, id: Sequence[str]) -> None:
    """One line per row, after a line of the classes or outputs; with names of rows it is CSV with a header."""
    head = csv.writer(out, delimiter="," if id else " ", lineterminator="\n")
    for start, values, ids in blocks:
        if start == 0 and (id or len(wanted.classes)):  # only now: invalid rows print nothing
            columns = list(map(one_line, map(str, wanted.classes.tolist()))) or [wanted.name.removesuffix("s")]
            head.writerow([*map(one_line, id), *columns])
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
    """Names (m,) as they are written: times as text, and text without control characters."""
    written = (np.datetime_as_string(names) if names.dtype.kind == "M" else names).tolist()
    return [one_line(name) if isinstance(name, str) else name for name in written]


Write = Callable[[str, Iterator[Lines], "int | None", Fields], None]  # to a path; rows: None if they are not known


def write_npy(path: str, blocks: Iterator[Lines], rows: int | None, wanted: Fields) -> None:
    """Write in order by ordinary writes, so that a full disk is an error of one of them.

    rows: None if they are counted while they are written; then the header is written again at the end.
    """
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


def write_hdf5(path: str, blocks: Iterator[Lines], rows: int | None, wanted: Fields) -> None:
    """A dataset of this name, and one of the classes or outputs of its columns.

    rows: None if they are counted meanwhile.
    """
    import h5py

    from streammargin.sources.hdf5.write import writable

    tail = wanted.tail
    text = np.dtype(wanted.dtype).kind in "UO"
    grows: dict[str, Any] = {} if rows is not None else {"maxshape": (None, *tail), "chunks": (1 << 14, *tail)}
    with writes(path, (OSError, RuntimeError)), writable(path) as (file, disk):
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


def write_parquet(id: Sequence[str], path: str, blocks: Iterator[Lines], rows: int | None, wanted: Fields) -> None:
    """A column of the labels, or one for each class; after the names of rows, if they are asked for."""
    from streammargin.arrow import pa, parquet

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


def write_obs(data: str, name: str, path: str, blocks: Iterator[Lines], rows: int | None, wanted: Fields) -> None:
    """A copy of an .h5ad file with the labels as the column `name` of obs: text as categories, numbers as they are.

    Rows of probabilities begin with the place of the label. The others become obsm/NAME_probability
    (rows, classes), whose columns uns/NAME_classes names.
    """
    import h5py

    from streammargin.sources.hdf5.nodes import opened
    from streammargin.sources.hdf5.write import writable

    classes, probable, likely = wanted.classes, f"obsm/{name}_probability", len(wanted.classes) > 0
    names = f"uns/{name}_classes"
    with opened(data) as file:
        order = _columns_of_obs(file, data, name)
        if likely and (there := [place for place in (probable, names) if place in file]):
            raise UsageError(f"{data} has {short(there[0])} already; give --obs another name")
    shutil.copyfile(data, path)
    text = (classes if likely else np.empty(0, wanted.dtype)).dtype.kind in "UO"
    parts = []
    with writes(path, (OSError, RuntimeError)), writable(path, "r+") as (file, disk):
        obs = file["obs"]
        others = [other for other in sorted(file.keys() - OF_ANNDATA) if not other.startswith("raw.")]
        if others:
            warn(f"the copy of {data} leaves out {listed(others)}: anndata loads no file with more than the cells")
        for other in others:
            del file[other]
        if likely:
            table = _within(file, "obsm").create_dataset(probable, (rows or 0, len(classes)), "f8")
            told = classes.astype(h5py.string_dtype()) if text else classes
            columns = _within(file, "uns").create_dataset(names, data=told)
            table.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
            kind = "string-array" if text else "array"
            columns.attrs.update({"encoding-type": kind, "encoding-version": "0.2.0"})
        for start, values, _ in blocks:
            if likely:
                table[start : start + len(values)] = values[:, 1:]
                disk.check()
            parts.append(classes[values[:, 0].astype(np.intp)] if likely else values[:, 0])
        found = np.concatenate(parts)
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


def _within(file: Any, group: str) -> Any:
    """The file, in which this group is one of anndata."""
    file.require_group(group).attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})
    return file


def _columns_of_obs(file: Any, data: str, name: str) -> list[str]:
    """The columns of obs in order. Raises DataError if there are none, UsageError if `name` is one."""
    from streammargin.sources.hdf5.columns import OBS

    obs = file.get(OBS)
    order = obs.attrs.get("column-order") if hasattr(obs, "attrs") else None
    if order is None:
        raise DataError(f"{data} has no table obs as anndata writes it since 0.7; name an .h5ad file, or an output of "
                        "text with -o")  # fmt: skip
    if name in obs:
        taken = name.endswith("_predicted") or f"{name}_predicted" in obs
        hint = "" if taken else f", as --obs {short(name)}_predicted"
        raise UsageError(f"{data} has obs/{short(name)} already; name another column{hint}")
    if "/" in name:
        raise UsageError("--obs is the name of a column, which has no slash; give another name")
    return [one if isinstance(one, str) else one.decode() for one in order]
