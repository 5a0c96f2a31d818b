"""streammargin predict MODEL DATA [-o OUT]"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from streammargin.cli.options import add_common, add_missing_columns, name
from streammargin.cli.remarks import Remarks
from streammargin.errors import ReadWriteError, StreamMarginError
from streammargin.files import check_apart, check_output, replacing, short_reason
from streammargin.options.table import read_by
from streammargin.wording import one_line


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of prediction."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("data", nargs="+", metavar="DATA", help="HDF5 file; several are shards of one data set")
    parser.add_argument(
        "-o", "--output", type=name, metavar="OUT", help="text, or binary if it ends in .h5 or .npy; default stdout"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--decision", action="store_true", help="write scores instead of labels, after a line of classes"
    )
    shown.add_argument("--probability", action="store_true", help="write probabilities of classes (logistic loss)")
    parser.add_argument("--x", type=name, metavar="NAME", help="dataset or group of the rows (default X)")
    add_missing_columns(parser)
    parser.add_argument(
        "--memory", default="256M", metavar="SIZE", help="memory for the model and blocks of rows (default 256M)"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing OUT")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    """Predict block by block."""
    from streammargin.sources.open import files_read, open_source

    if options.output:
        check_output(options.output, options.force)
        inputs = files_read(options.data, **read_by(vars(options)))
        check_apart({"the output": options.output}, [options.model, *inputs])
    from streammargin.model.io import load_model
    from streammargin.sizes import parse_size

    memory = parse_size(options.memory)
    model = load_model(options.model, memory)
    wanted = _wanted(model, options)
    data = options.data if len(options.data) > 1 else options.data[0]
    with Remarks(), open_source(data, x=options.x) as source:
        blocks = ((start, wanted.values(scores))
                  for start, _, scores in model.score_blocks(source, memory, options.missing_columns))  # fmt: skip
        if options.output and options.output.endswith((".h5", ".npy")):
            write = _write_npy if options.output.endswith(".npy") else _write_hdf5
            with replacing(options.output, options.force) as temporary:
                write(temporary, blocks, source.rows, wanted)
            return 0
        place = replacing(options.output, options.force) if options.output else nullcontext(None)
        with place as part, open(part, "w", encoding="utf-8") if part else nullcontext(sys.stdout) as out:
            _write_text(out, blocks, wanted)
    return 0


@dataclass(frozen=True)
class _Wanted:
    """What is written for each row: labels, scores or probabilities.

    values: of scores (m, k) an array (m, columns) of `dtype`. classes: those of the columns; none of labels or numbers.
    """

    name: str
    values: Callable[[Any], Any]
    columns: int
    dtype: Any
    classes: Any


def _wanted(model: Any, options: argparse.Namespace) -> _Wanted:
    """Raises UsageError for probabilities of a model that has none."""
    if options.probability:
        from streammargin.model.probability import probabilities

        loss = model.check_probabilities()
        count = len(model.classes_)
        return _Wanted("probabilities", lambda scores: probabilities(loss, scores), count, "f8", model.classes_)
    if options.decision:
        count = model.answer.outputs
        return _Wanted("scores", lambda scores: scores, count, "f8", model.classes_[-count:])
    return _Wanted(
        "labels", lambda scores: model.labels_of(scores)[:, None], 1, model.classes_.dtype, model.classes_[:0]
    )


def _write_text(out: Any, blocks: Iterator[tuple[int, Any]], wanted: _Wanted) -> None:
    """One line per row, after a line of the classes of the columns; a class with blanks is in quotes."""
    head = csv.writer(out, delimiter=" ", lineterminator="\n")
    for start, values in blocks:
        if start == 0 and len(wanted.classes):  # only now: invalid rows print nothing
            head.writerow(map(one_line, map(str, wanted.classes.tolist())))
        if wanted.name == "labels":
            lines = (one_line(str(row[0])) for row in values.tolist())
        else:
            lines = (" ".join(map(repr, row)) for row in values.tolist())
        out.write("\n".join(lines) + "\n")
    out.flush()


def _write_npy(path: str, blocks: Iterator[tuple[int, Any]], rows: int, wanted: _Wanted) -> None:
    """Write in order by ordinary writes, so that a full disk is an error of one of them."""
    import numpy as np

    kind = np.dtype(wanted.dtype)
    shape = (rows,) if wanted.columns == 1 else (rows, wanted.columns)
    with open(path, "wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for _, values in blocks:
            file.write(np.ascontiguousarray(values, kind).tobytes())


def _write_hdf5(path: str, blocks: Iterator[tuple[int, Any]], rows: int, wanted: _Wanted) -> None:
    """A dataset of this name, and one of the classes of its columns."""
    import h5py
    import numpy as np

    shape = (rows,) if wanted.columns == 1 else (rows, wanted.columns)
    text = np.dtype(wanted.dtype).kind == "U"
    try:
        with h5py.File(path, "w") as file:
            if len(wanted.classes):
                texts = wanted.classes.dtype.kind == "U"
                file["classes"] = wanted.classes.astype(h5py.string_dtype()) if texts else wanted.classes
            dataset = file.create_dataset(wanted.name, shape, dtype=h5py.string_dtype() if text else wanted.dtype)
            for start, values in blocks:
                part = values[:, 0] if wanted.columns == 1 else values
                dataset[start : start + len(values)] = part.astype(object) if text else part
    except (OSError, RuntimeError) as error:
        cause = error.__context__ if isinstance(error.__context__, StreamMarginError) else error
        if isinstance(cause, StreamMarginError):  # of the rows, even if closing failed on top
            raise cause from None
        raise ReadWriteError(f"cannot write the output ({short_reason(error)}); free some space") from error
