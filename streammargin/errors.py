"""One tree of exceptions: each class carries the exit code of the command line."""

from __future__ import annotations

from streammargin.wording import in_python, in_shell


class StreamMarginError(Exception):
    """Base of all errors meant for people: one sentence, where, and how to mend it.

    The sentence names options by marks (see wording.py). As text it is Python's.
    """

    exit_code = 1

    def __str__(self) -> str:  # OSError, another base of some, would put a number before the sentence
        return in_python(self.raw)

    @property
    def in_shell(self) -> str:
        """The sentence as the command line says it."""
        return in_shell(self.raw)

    @property
    def raw(self) -> str:
        """The sentence with its marks, for an error that contains this one."""
        return str(self.args[0]) if self.args else ""


class UsageError(StreamMarginError, ValueError):
    """An option, or a combination of options, that cannot work."""

    exit_code = 2


class DataError(StreamMarginError, ValueError):
    """Input that was found and read but is not valid; the message names file, dataset and row."""

    exit_code = 65


class OtherRowsError(DataError):
    """Rows that are others than the training read before."""


def out_of_range() -> DataError:
    """What to say where figures or weights are no numbers any more."""
    return DataError(
        "the rows, the labels or C are too large or too small to compute with: weights or figures left the range of "
        "numbers; multiply the data by a constant, or use `scale=maxabs`"
    )


class InputMissingError(StreamMarginError, FileNotFoundError):
    """An input file that does not exist or may not be read."""

    exit_code = 66


class OutputError(StreamMarginError, OSError):
    """An output that cannot be created, or exists and may not be overwritten."""

    exit_code = 73


class ReadWriteError(StreamMarginError, OSError):
    """The disk failed while reading or writing (full, unplugged, ...)."""

    exit_code = 74
