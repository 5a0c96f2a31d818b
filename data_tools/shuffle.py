"""streammargin-data shuffle IN [IN ...] OUT.h5: a seeded random order, on disk, within a memory budget.

Every row is dealt to a random bucket on disk; every bucket is then read, permuted in memory and
written. All orders are equally likely.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from streammargin.cli.options import add_lines, named
from streammargin.data_tools.rows import batches, check_name, check_seed, kept_name, label_of, say_left_out, table_of
from streammargin.files import check_apart, check_output, temporary_folder
from streammargin.reading.plan import least_budget
from streammargin.sizes import parse_size
from streammargin.sources.base import Source
from streammargin.sources.hdf5.write import writing
from streammargin.sources.open import open_source
from streammargin.tables.matrices.compressed import Spill, buckets_for, by_bucket


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of shuffle."""
    parser.add_argument("input", nargs="+", metavar="IN", help="HDF5 file; several are shards of one data set")
    parser.add_argument("output", metavar="OUT.h5")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random order (default 0)")
    parser.add_argument("--memory", default="256M", metavar="SIZE", help="memory for blocks of rows (default 256M)")
    parser.add_argument("--force", action="store_true", help="replace an existing OUT.h5")
    add_lines(parser, ("x", "y"))


def run(options: argparse.Namespace) -> str:
    """Shuffle files given on the command line; returns what to say about it."""
    rows, features = shuffle(options.input, **named(shuffle, options))
    return f"{options.output}: {rows} rows, {features} columns"


def stored_bytes(source: Source) -> int:
    """Estimated bytes of the rows."""
    item, outputs = source.dtype.itemsize, len(source.outputs() or [""]) if source.has_labels() else 1
    beside = 8 * (1 + outputs) * source.rows
    return source.nnz * (item + 4 * source.sparse) + beside


def shuffle(
    data: str | Sequence[str],
    output: str,
    *,
    seed: int = 0,
    memory: str | int = "256M",
    x: str | None = None,
    y: str | None = None,
    force: bool = False,
) -> tuple[int, int]:
    """Write the rows of `data` (path or paths) to `output` in an order that depends on the seed alone.

    The order also depends on the memory budget, which sets the number of buckets. While running, the output's disk
    needs twice the output's size. Returns (rows, columns). Raises the errors of streammargin.errors.
    """
    budget = parse_size(memory)
    check_seed(seed)
    check_name(output)
    check_output(output, force)
    given = data if isinstance(data, str) else list(data)
    with open_source(given, x=x, y=y) as source, temporary_folder(output) as folder:
        check_apart({"the output": output}, source.files())
        say_left_out(source, y)
        spill = Spill(folder)
        least = least_budget(source)
        held = source.names_bytes()
        count = buckets_for(stored_bytes(source), budget, least, held)
        names = source.feature_names()
        generator = np.random.default_rng([seed, source.rows])
        # a file of large compressed chunks may take more than a quarter
        reading = max((budget - held) // 4, least)
        for batch in batches(source, reading):
            bucket = generator.integers(count, size=batch.rows)
            for k, chosen in by_bucket(bucket, count):
                spill.append(k, batch.take(chosen))
        kind = source.dtype, source.sparse, source.features, names, label_of(source), kept_name(x)
        with writing(output, force, *kind) as writer:
            writer.file.attrs.update(table_of(source))
            for k in range(count):
                found = spill.read(k)
                if found is not None:
                    writer.append(found.take(generator.permutation(found.rows)))
        return source.rows, source.features
