"""streammargin-data split IN TRAIN.h5 TEST.h5: an exact share of the rows, chosen by a seed, for testing."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence

import numpy as np

from streammargin.cli.options import add_lines, named, number
from streammargin.data_tools.rows import batches, check_name, check_seed, kept_name, label_of, say_left_out, table_of
from streammargin.errors import UsageError
from streammargin.files import check_apart, check_output, replacing
from streammargin.sources.hdf5.write import writing
from streammargin.sources.open import open_source


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of split."""
    parser.add_argument("input", nargs="+", metavar="IN", help="HDF5 file; several are shards of one data set")
    parser.add_argument("train", metavar="TRAIN.h5")
    parser.add_argument("test", metavar="TEST.h5")
    parser.add_argument(
        "--test-size", type=number, default=0.2, metavar="SHARE", help="share of test rows (default 0.2)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the random choice (default 0)")
    parser.add_argument("--force", action="store_true", help="replace existing outputs")
    add_lines(parser, ("x", "y"))


def run(options: argparse.Namespace) -> str:
    """Split files given on the command line; returns what to say about it."""
    train, test = split(options.input, **named(split, options))
    return f"{options.train}: {train} rows, {options.test}: {test} rows"


def split(
    data: str | Sequence[str],
    train: str,
    test: str,
    *,
    test_size: float = 0.2,
    seed: int = 0,
    x: str | None = None,
    y: str | None = None,
    force: bool = False,
) -> tuple[int, int]:
    """Write round(n * test_size) rows to `test`, the others to `train`, both in their order.

    Returns (training rows, test rows). Every choice of that many rows is equally likely. Either both files are written
    completely or none is. One exception: if the second of the two final renames fails, or a signal ends the process
    before it, only the test file exists.
    Raises the errors of streammargin.errors.
    """
    if not 0.0 < test_size < 1.0:
        raise UsageError(f"the share of test rows must lie between 0 and 1, not {test_size}")
    check_seed(seed)
    check_apart({"the training part": train, "the test part": test}, [])
    check_name(train, test)
    check_output(train, force)
    check_output(test, force)
    with open_source(data if isinstance(data, str) else list(data), x=x, y=y) as source:
        check_apart({"the training part": train, "the test part": test}, source.files())
        wanted = round(source.rows * test_size)
        if not 0 < wanted < source.rows:
            raise UsageError(f"{test_size} of {source.rows} rows leaves one file empty; choose another `test_size`")
        names = source.feature_names()
        say_left_out(source, y)
        kind = (source.dtype, source.sparse, source.features, names, label_of(source), kept_name(x))
        generator = np.random.default_rng([seed, source.rows])
        left, rows_left = wanted, source.rows
        with contextlib.ExitStack() as stack:
            # write both files completely before renaming the first
            hidden = [stack.enter_context(replacing(path, force)) for path in (train, test)]
            train_rows = stack.enter_context(writing(train, force, *kind, hidden=hidden[0]))
            test_rows = stack.enter_context(writing(test, force, *kind, hidden=hidden[1]))
            for writer in (train_rows, test_rows):
                writer.file.attrs.update(table_of(source))
            for batch in batches(source):
                # draw how many rows of a simple random sample are in this batch, and then which
                here = int(generator.hypergeometric(left, rows_left - left, batch.rows)) if left else 0
                chosen = np.zeros(batch.rows, bool)
                chosen[generator.choice(batch.rows, here, replace=False)] = True
                test_rows.append(batch.take(np.flatnonzero(chosen)))
                train_rows.append(batch.take(np.flatnonzero(~chosen)))
                left -= here
                rows_left -= batch.rows
    return source.rows - wanted, wanted
