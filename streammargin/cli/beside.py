"""What a training writes beside model and log, if it is asked for: a table of the weights, a report."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from streammargin.cli.options import name
from streammargin.errors import StreamMarginError, UsageError
from streammargin.files import check_output
from streammargin.kinds import ALL
from streammargin.options.table import TABLE
from streammargin.sizes import parse_size
from streammargin.wording import warn

if TYPE_CHECKING:
    from streammargin.result import TrainResult

THEMES = ("data", "table")  # options that header and log do not have, or not as they were given


def add_options(parser: argparse._ActionsContainer) -> None:
    """Options of these files."""
    parser.add_argument(
        "--coef", type=name, metavar="FILE", help="write the weights of a linear model as a table: CSV, or .parquet"
    )
    parser.add_argument(
        "--report", type=name, metavar="FILE", help="write a page on the model as HTML; it judges the rows of --valid, "
        "or the training rows, which takes one more read",
    )  # fmt: skip


class Beside:
    """The files that were asked for, which are checked before anything is read, and written once the model is."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Raise UsageError for a table of weights of a model that has none."""
        self.force: bool = options.force
        self.options = options
        self.coef: str | None = getattr(options, "coef", None)  # a completion has none of them
        self.page: str | None = getattr(options, "report", None)
        self.written: list[str] = []  # lines on what was written
        if self.coef is not None and (options.kernel is not None or options.map is not None):
            raise UsageError("`coef` writes the weights of columns, and this model has none; leave it out")

    @property
    def paths(self) -> dict[str, str | None]:
        """The files by what they are, None for one that was not asked for."""
        return {"the weights": self.coef, "the report": self.page}

    def check(self) -> None:
        """Raise OutputError if one cannot be written."""
        for path in self.paths.values():
            if path is not None:
                check_output(path, self.force)

    def write(self, result: TrainResult, model: str, should_stop: Callable[[], str | None]) -> int:
        """Write the files; model: the file that it is in. Returns the exit code of an error, which a warning tells."""
        code = 0
        for what, write in self._writers(result, model, should_stop):
            try:
                write()
                self.written.append(f"{what} written to {self.paths[what]}")
            except StreamMarginError as error:
                warn(error.raw, "output")
                code = error.exit_code
        return code

    def _writers(
        self, result: TrainResult, model: str, should_stop: Callable[[], str | None]
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        """The files, by what they are, and what writes each."""
        from streammargin.cli.report import write_page
        from streammargin.model.weights import write_weights
        from streammargin.report.page import Facts

        if (coef := self.coef) is not None:
            yield "the weights", lambda: write_weights(result.model, coef, self.force)
        if (page := self.page) is not None:
            rows = self._rows(result, should_stop)
            judged = None if rows is None else self._judged(result, rows, should_stop)
            tested, training = ("", False) if rows is None else (", ".join(rows), self.options.valid is None)
            given = {line.name: getattr(self.options, line.name) for line in TABLE if line.theme in THEMES}
            facts = Facts(
                result.model, model, result.history, tested, judged, training, {**given, "data": self.options.data}
            )
            yield "the report", lambda: write_page(facts, page, self.force)

    def _rows(self, result: TrainResult, should_stop: Callable[[], str | None]) -> list[str] | None:
        """The files of the rows to judge the model on; None if they cannot be read again here, or the run was ended."""
        options = self.options
        rows = options.data if options.valid is None else [options.valid]
        gone = options.dask is not None or should_stop() is not None
        there = all(isinstance(path, str) and os.path.exists(path) for path in rows)  # no pipe, no share of the rows
        return list(rows) if there and not gone else None

    def _judged(
        self, result: TrainResult, rows: list[str], should_stop: Callable[[], str | None]
    ) -> dict[str, Any] | None:
        """The figures of these rows; None, and a warning, if they cannot be judged, such as rows of other classes."""
        from streammargin.model.wrong import Unfinished, wrong_rows

        options = self.options
        asked = {
            "x": options.x,
            "y": options.y,
            "mask": options.mask,
            "tasks": options.tasks if result.model.tasks else None,
        }
        memory, threads = parse_size(options.memory), options.threads or ALL
        data = rows if len(rows) > 1 else rows[0]
        try:
            return wrong_rows(
                result.model, data, memory=memory, threads=threads, should_stop=should_stop,
                unknown=options.unknown or "error", **asked,
            )  # fmt: skip
        except (StreamMarginError, Unfinished) as error:
            why = error.raw if isinstance(error, StreamMarginError) else str(error)
            warn(f"the report has no figures of {', '.join(rows)}: {why}", "output")
            return None
