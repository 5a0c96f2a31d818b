"""The exceptions of the package; each class has the exit code of the command line."""

from __future__ import annotations

from streammargin.wording import in_python, in_shell


class StreamMarginError(Exception):
    """Base of all errors: one sentence on what is wrong, where, and how to put it right.

    It has options in backquotes (see wording.py); str() spells them as in Python.
    """

    exit_code = 1

    def __str__(self) -> str:  # OSError, a base class of some, would prepend an error number
        return in_python(self.raw)

    @property
    def in_shell(self) -> str:
        """The sentence with options spelled as on the command line."""
        return in_shell(self.raw)

    @property
    def raw(self) -> str:
        """The sentence with its backquotes, for an error that contains this one."""
        return str(self.args[0]) if self.args else ""


class UsageError(StreamMarginError, ValueError):
    """An option, or a combination of options, that cannot work."""

    exit_code = 2


class Refusal(UsageError):
    """A refusal by a solver: what is wrong, and a hint for callers that cannot try one (training/hints.py)."""

    def __init__(self, wrong: str, hint: str) -> None:
        super().__init__(f"{wrong}; {hint}")
        self.wrong = wrong


class BudgetError(UsageError):
    """A memory budget that is too small; least: the smallest that will do, in bytes."""

    def __init__(self, text: str, least: int) -> None:
        super().__init__(text)
        self.least = least


class DataError(StreamMarginError, ValueError):
    """Input that was read but is invalid; the message names file, dataset and row."""

    exit_code = 65


class MisnamedError(UsageError, DataError):
    """A name that an option gives, of a column that the data lack."""


class NoSuchRowsError(MisnamedError):
    """A name that an option gives, of rows that the data lack."""


class OtherRowsError(DataError):
    """Rows that changed since the training read them first."""


def out_of_range() -> DataError:
    """The error for weights or figures that overflowed."""
    return DataError(
        "the rows, the labels or C are too large or too small to compute with: weights or figures overflowed; "
        "multiply the data by a constant, or use `scale=maxabs`"
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
