"""streammargin predict MODEL DATA [-o OUT]"""

from __future__ import annotations

import argparse
import functools
import sys
from contextlib import closing, nullcontext
from typing import Any

from streammargin.cli.options import add_scoring, argument, name, to_score
from streammargin.cli.predicted import (
    Part,
    Wanted,
    Write,
    small,
    write_hdf5,
    write_npy,
    write_obs,
    write_parquet,
    write_text,
)
from streammargin.cli.remarks import Remarks
from streammargin.errors import UsageError
from streammargin.files import check_apart, check_output, replacing
from streammargin.kinds import ALL, Column, Names, threads_of
from streammargin.options.table import read_by
from streammargin.ordered import files_read, is_ordered
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
    parser.add_argument("--id", type=argument(Names().read), default=(), metavar="NAME[,NAME]",
                        help="columns to put first in each line: of a table, or datasets beside the rows, FILE:NAME "
                        "or FILE.npy; of single cells a name for their barcodes")  # fmt: skip
    parser.add_argument("--obs", type=name, metavar="NAME",
                        help="write a copy of an .h5ad file with the labels as this column of obs")  # fmt: skip
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--decision", action="store_true", help="write scores instead of labels, below a header of classes or outputs"
    )
    shown.add_argument("--probability", action="store_true", help="write probabilities of classes (logistic loss)")
    add_scoring(parser)
    parser.add_argument("--force", action="store_true", help="replace an existing OUT")


def run(options: argparse.Namespace) -> int:
    """Predict block by block."""
    from streammargin.sources.base import Source

    if options.output:
        check_output(options.output, options.force)
        inputs = files_read(options.data, **read_by(vars(options)))
        inputs += [file for name in options.id for file in Column("NAME").files(name)]
        check_apart({"the output": options.output}, [options.model, *inputs])
    model, data, asked = to_score(options)
    wanted = _wanted(model, options)
    write = _writer(options, model.outputs)
    with (
        Remarks(),
        model.rows_of(data, id=options.id, **asked) as rows,
        closing(Workers(threads_of(options.threads or ALL))) as workers,
    ):
        scored = model.score_blocks(rows, asked["memory"], options.missing_columns, workers, wanted.values)
        blocks = small(Part(part.start, part.scores, part.ids) for part in scored)
        with replacing(options.output, options.force) if options.output else nullcontext("") as path:
            if write is not None:
                write(path, blocks, rows.rows if isinstance(rows, Source) else None, wanted)
                return 0
            with open(path, "w", encoding="utf-8") if path else nullcontext(sys.stdout) as out:
                write_text(out, blocks, wanted, options.id)
    return 0


def _writer(options: argparse.Namespace, outputs: list[str] | None) -> Write | None:
    """The writer of a binary output; None for text. Raises UsageError for options that do not fit it."""
    output, id = options.output or "", options.id
    if options.obs:
        if outputs is not None:
            raise UsageError("--obs adds one column of labels, and the model predicts several; name an output of text")
        if is_ordered(options.data[0]):
            raise UsageError(f"--obs adds labels to a copy of an .h5ad file, and {options.data[0]} is not one; name "
                             "an output of text with -o")  # fmt: skip
        if len(options.data) > 1 or not output or options.decision or options.probability or id or options.mask:
            raise UsageError("--obs adds labels to a copy of one .h5ad file: name it with -o, and omit --decision, "
                             "--probability, --mask and --id")  # fmt: skip
        return functools.partial(write_obs, options.data[0], options.obs)
    if output.endswith(".parquet"):
        return functools.partial(write_parquet, id)
    if id and output.endswith((".h5", ".npy")):
        raise UsageError("--id needs lines of text or .parquet; name an output that ends in neither .h5 nor .npy")
    return write_npy if output.endswith(".npy") else write_hdf5 if output.endswith(".h5") else None


def _wanted(model: Any, options: argparse.Namespace) -> Wanted:
    """Raises UsageError for probabilities of a model that has none."""
    import numpy as np

    if model.of_pairs:
        of = np.asarray if options.decision else lambda scores: model.labels_of(scores)[:, None]
        return Wanted("scores", of, 1, "f8", np.empty(0))
    several = None if model.outputs is None else np.array(model.outputs)
    if options.probability:
        of = model.probabilities_of()
        columns = model.classes_ if several is None else several
        return Wanted("probabilities", of, len(columns), "f8", columns, several is not None)
    if options.decision:
        count = 1 if model.tasks else model.answer.outputs
        columns = model.classes_[-count:] if several is None else several
        return Wanted("scores", lambda scores: scores, count, "f8", columns, several is not None)
    if several is not None:
        return Wanted("labels", model.labels_of, len(several), model.classes_.dtype, several, True)
    return Wanted(
        "labels", lambda scores: model.labels_of(scores)[:, None], 1, model.classes_.dtype, model.classes_[:0]
    )
