"""streammargin predict MODEL DATA [-o OUT]"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext
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
    parser.add_argument("--decision", action="store_true", help="scores instead of labels")
    parser.add_argument("--x", type=name, metavar="NAME", help="dataset or group of the rows (default X)")
    add_missing_columns(parser)
    parser.add_argument(
        "--memory", default="256M", metavar="SIZE", help="for the model and blocks of rows, default 256M"
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
    data = options.data if len(options.data) > 1 else options.data[0]
    with Remarks(), open_source(data, x=options.x) as source:
        blocks = ((start, scores if options.decision else model.labels_of(scores)[:, None])
                  for start, _, scores in model.score_blocks(source, memory, options.missing_columns))  # fmt: skip
        if options.output and options.output.endswith((".h5", ".npy")):
            columns = model.answer.outputs if options.decision else 1
            dtype = "f8" if options.decision else model.classes_.dtype
            write = _write_npy if options.output.endswith(".npy") else _write_hdf5
            with replacing(options.output, options.force) as temporary:
                write(temporary, blocks, source.rows, columns, dtype, options.decision)
            return 0
        texts = {label: one_line(str(label)) for label in model.classes_.tolist()}
        place = replacing(options.output, options.force) if options.output else nullcontext(None)
        with place as part, open(part, "w", encoding="utf-8") if part else nullcontext(sys.stdout) as out:
            for _, values in blocks:
                if options.decision:
                    lines = (" ".join(f"{score:.17g}" for score in row) for row in values.tolist())
                else:
                    lines = (texts.get(row[0]) or str(row[0]) for row in values.tolist())
                out.write("\n".join(lines) + "\n")
            out.flush()
    return 0


def _write_npy(
    path: str, blocks: Iterator[tuple[int, Any]], rows: int, columns: int, dtype: Any, decision: bool
) -> None:
    """In order and by ordinary writes: where the disk is full, one of them says so."""
    import numpy as np

    kind = np.dtype(dtype)
    shape = (rows,) if columns == 1 else (rows, columns)
    with open(path, "wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for _, values in blocks:
            file.write(np.ascontiguousarray(values, kind).tobytes())


def _write_hdf5(
    path: str, blocks: Iterator[tuple[int, Any]], rows: int, columns: int, dtype: Any, decision: bool
) -> None:
    import h5py
    import numpy as np

    shape = (rows,) if columns == 1 else (rows, columns)
    text = np.dtype(dtype).kind == "U"
    try:
        with h5py.File(path, "w") as file:
            kind = h5py.string_dtype() if text else dtype
            dataset = file.create_dataset("scores" if decision else "labels", shape, dtype=kind)
            for start, values in blocks:
                part = values[:, 0] if columns == 1 else values
                dataset[start : start + len(values)] = part.astype(object) if text else part
    except (OSError, RuntimeError) as error:
        cause = error.__context__ if isinstance(error.__context__, StreamMarginError) else error
        if isinstance(cause, StreamMarginError):  # of the rows, even if closing failed on top
            raise cause from None
        raise ReadWriteError(f"cannot write the output ({short_reason(error)}); free some space") from error
