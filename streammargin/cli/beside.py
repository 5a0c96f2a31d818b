"""What a training writes beside model and log, if it is asked for: a table of the weights."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from streammargin.cli.options import name
from streammargin.errors import StreamMarginError, UsageError
from streammargin.files import check_output
from streammargin.wording import warn

if TYPE_CHECKING:
    from streammargin.result import TrainResult


def add_options(parser: argparse._ActionsContainer) -> None:
    """Options of these files."""
    parser.add_argument(
        "--coef", type=name, metavar="FILE", help="write the weights of a linear model as a table: CSV, or .parquet"
    )


class Beside:
    """The files that were asked for, which are checked before anything is read, and written once the model is."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Raise UsageError for a table of weights of a model that has none."""
        self.force: bool = options.force
        self.coef: str | None = getattr(options, "coef", None)  # a completion has none of them
        if self.coef is not None and (options.kernel is not None or options.map is not None):
            raise UsageError("`coef` writes the weights of columns, and this model has none; leave it out")

    @property
    def paths(self) -> dict[str, str | None]:
        """The files by what they are, None for one that was not asked for."""
        return {"the weights": self.coef}

    def check(self) -> None:
        """Raise OutputError if one cannot be written."""
        for path in self.paths.values():
            if path is not None:
                check_output(path, self.force)

    def write(self, result: TrainResult) -> int:
        """Write the files. Returns the exit code of an error, of which a warning tells; the model is there anyway."""
        code = 0
        for write in self._writers(result):
            try:
                write()
            except StreamMarginError as error:
                warn(error.raw, "output")
                code = error.exit_code
        return code

    def _writers(self, result: TrainResult) -> Iterator[Callable[[], None]]:
        from streammargin.model.weights import write_weights

        if (path := self.coef) is not None:
            yield lambda: write_weights(result.model, path, self.force)
