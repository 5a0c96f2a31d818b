"""Kinds of values: parse and check the value of an option, or of a field of a word."""

from __future__ import annotations

import math
import numbers
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import SupportsFloat, SupportsIndex

from streammargin.errors import UsageError
from streammargin.files import as_path, is_url
from streammargin.sizes import parse_size
from streammargin.wording import shown
from streammargin.workers import cores

ALL_THREADS, MOST_THREADS = "all", 1024
NUMBERS = float, int, SupportsFloat, SupportsIndex  # the classes first: to ask a protocol takes a hundred times as long


class Kind:
    """Any value; in the shell a text."""

    metavar: str | None = None  # placeholder in the help
    choices: Sequence[str] | None = None  # all allowed words, if these are a list
    alone = False  # whether the option may be given without a value, which is True then

    def read(self, text: str) -> object:
        """Parse a text. Raises UsageError for an invalid one."""
        return text

    def check(self, what: str, value: object) -> object:
        """The value (never None), converted and checked; what: the option or field, named in the UsageError."""
        return value


@dataclass(frozen=True)
class Name(Kind):
    """The name of a file, a dataset or a label: any nonempty text."""

    metavar: str

    def read(self, text: str) -> float | str:
        if not text:
            raise UsageError("the name is empty; leave out the option for its default")
        return text


@dataclass(frozen=True)
class InputName(Name):
    """The name of an input; `table.read_by` finds these, so that no output can overwrite an input file."""


@dataclass(frozen=True)
class Dataset(InputName):
    """A dataset or group in the files of rows."""


@dataclass(frozen=True)
class RowsFile(InputName):
    """A file of rows."""


@dataclass(frozen=True)
class SavedModel(InputName):
    """A model file; in Python also a model."""


@dataclass(frozen=True)
class ColumnName(InputName):
    """A dataset NAME beside the rows, FILE:NAME or FILE.npy; any_file: a FILE of another name as well."""

    any_file: bool = False

    def column(self, value: str) -> str:
        """The name of the column in the value."""
        return value

    def files(self, value: str) -> list[str]:
        """Files other than those of the rows that the value may name."""
        value = self.column(value)
        named = [value] if self.any_file or value.endswith(".npy") else []
        return named + [file for file in [value.rpartition(":")[0]] if file]


@dataclass(frozen=True)
class FolderPath(Name):
    """The path of a directory."""

    def check(self, what: str, value: object) -> str:
        path = as_path(value, what)
        if is_url(path):
            raise UsageError(f"{what} must be a folder on a disk, not the address {path}")
        return path


@dataclass(frozen=True)
class Label(Name):
    """One label."""

    def check(self, what: str, value: object) -> object:
        if not _is_label(value):
            raise UsageError(f"{what} must be a label, not {shown(value)}")
        return value


@dataclass(frozen=True)
class Word(Kind):
    """One of a few words; others: words that are not here, with what to give instead."""

    choices: Sequence[str]
    others: Mapping[str, str] = field(default_factory=dict)

    def check(self, what: str, value: object) -> object:
        if not isinstance(value, str) or value not in self.choices:
            listed = f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
            hint = self.others.get(value) if isinstance(value, str) else None
            raise UsageError(f"{what} must be {listed}, not {shown(value)}{'' if hint is None else f'; {hint}'}")
        return value


@dataclass(frozen=True)
class Switch(Word):
    """Given alone, True in Python, or one of a few words."""

    alone = True

    def read(self, text: str) -> object:
        try:
            return self.check("the value", text)
        except UsageError as error:
            raise UsageError(f"{error.raw}; to give none, write the option after DATA") from None

    def check(self, what: str, value: object) -> object:
        return bool(value) if _is_bool(value) else super().check(what, value)


@dataclass(frozen=True)
class Number(Kind):
    """A float for which `fits` is true, as `what` describes; or one of the `words`."""

    what: str = "a number"
    fits: Callable[[float], bool] = lambda value: True
    words: tuple[str, ...] = ()
    metavar: str | None = None

    def read(self, text: str) -> float | str:
        return text if text in self.words else read_number(text)

    def check(self, what: str, value: object) -> float | str:
        return value if isinstance(value, str) and value in self.words else self.number(what, value)

    def number(self, what: str, value: object) -> float:
        """The value if it is no word. Raises UsageError."""
        try:
            if isinstance(value, str) or _is_bool(value) or not isinstance(value, NUMBERS):
                raise TypeError
            given = float(value)
            if not self.fits(given):
                raise ValueError
        except (TypeError, ValueError, ArithmeticError):  # OverflowError: an integer too large for a float
            words = "".join(f" or {word}" for word in self.words)
            raise UsageError(f"{what} must be {self.what}{words}, not {shown(value)}") from None
        return given


@dataclass(frozen=True)
class NumberOrColumn(ColumnName):
    """A number for all rows, or a column with one for each; in Python an array (n,) too, whose values are not checked.

    A text that Python reads as a number is one.
    """

    number: Number = Number()

    @staticmethod
    def like_a_field(text: str) -> bool:
        """Whether a text begins like a field, KEY=."""
        return re.match(r"\w+=", text) is not None

    def read(self, text: str) -> float | str:
        try:
            float(text)
        except ValueError:
            if self.like_a_field(text):
                raise UsageError(f"{shown(text)} begins like a parameter; write /{text} for the dataset") from None
            return super().read(text)
        return self.number.read(text)

    def check(self, what: str, value: object) -> object:
        if isinstance(value, (str, os.PathLike)):
            value = self.read(os.fspath(value))
        if isinstance(value, (str, list, tuple)) or getattr(value, "ndim", 0) > 0:
            return value
        return self.number.check(what, value)


def exponent() -> Number:
    """The p of an lp penalty, or the word sparse, which is resolved once the number of columns is known."""
    return Number("a number in (1, 2]", lambda p: 1.0 < p <= 2.0, ("sparse",), "P|sparse")


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number >= `least`."""

    least: int
    metavar: str | None = None

    def read(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"{shown(text)} is not a whole number") from None

    def check(self, what: str, value: object) -> int:
        if not isinstance(value, numbers.Integral) or _is_bool(value) or value < self.least:
            raise UsageError(f"{what} must be a whole number and at least {self.least}, not {shown(value)}")
        return int(value)


@dataclass(frozen=True)
class Threads(Kind):
    """A number of threads, or all: the cores that the process may use."""

    metavar: str | None = "N|all"

    def read(self, text: str) -> int | str:
        if text == ALL_THREADS:
            return text
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"{shown(text)} is neither a whole number nor {ALL_THREADS}") from None

    def check(self, what: str, value: object) -> int | str:
        if isinstance(value, str) and value == ALL_THREADS:
            return ALL_THREADS
        given = int(value) if isinstance(value, numbers.Integral) and not _is_bool(value) else 0
        if not 1 <= given <= MOST_THREADS:
            raise UsageError(
                f"{what} must be a whole number from 1 to {MOST_THREADS}, or {ALL_THREADS}, not {shown(value)}"
            )
        return given


def threads_of(value: object) -> int:
    """The number of threads; None: 1. Raises UsageError."""
    given = 1 if value is None else Threads().check("`threads`", value)
    return given if isinstance(given, int) else cores()


@dataclass(frozen=True)
class YesNo(Kind):
    """True or False, in the shell the word yes or no."""

    choices: Sequence[str] = ("yes", "no")

    def check(self, what: str, value: object) -> bool:
        if isinstance(value, str) and value in self.choices:
            return value == "yes"
        if not _is_bool(value):
            raise UsageError(f"{what} must be yes or no, in Python True or False, not {shown(value)}")
        return bool(value)


@dataclass(frozen=True)
class ByteSize(Kind):
    """Bytes, as a number or as text like 512M; stored as given."""

    metavar: str = "SIZE"

    def check(self, what: str, value: object) -> object:
        parse_size(value, what)
        return value


@dataclass(frozen=True)
class LabelList(Kind):
    """Several labels."""

    metavar: str = "A,B,..."

    def read(self, text: str) -> list[str]:
        labels = text.split(",")
        if not all(labels):
            raise UsageError(f"{shown(text)} names an empty label; write A,B,...")
        return labels

    def check(self, what: str, value: object) -> list[object]:
        labels: list[object] = []
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and getattr(value, "ndim", 1) > 0:
            labels = list(value)
        if not labels:
            raise UsageError(f"{what} must be a list of labels, not {shown(value)}")
        for label in labels:
            if not _is_label(label):
                raise UsageError(f"{what} must be labels, not {shown(label)}")
        return labels


class ColumnNames(Kind):
    """Names of columns of a table; a column without a name is the empty one."""

    metavar: str = "NAME,..."

    def read(self, text: str) -> tuple[str, ...]:
        return tuple(text.split(","))

    def check(self, what: str, value: object) -> tuple[str, ...]:
        names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else ()
        if not names or not all(isinstance(name, str) for name in names):
            raise UsageError(f"{what} must be names of columns, not {shown(value)}")
        return names


class Mask(ColumnName):
    """The rows with a value in a column beside them, COLUMN=VALUE; the column is named as any other."""

    def column(self, value: str) -> str:
        return value.partition("=")[0]

    def check(self, what: str, value: object) -> str:
        if not isinstance(value, str) or not all(value.partition("=")):
            raise UsageError(f"{what} must be COLUMN=VALUE, such as obs/tissue=lung, not {shown(value)}")
        return value


class Texts(Kind):
    """Columns of text, NAME or NAME,ngrams=N."""

    metavar: str = "NAME[,ngrams=N]"

    def check(self, what: str, value: object) -> str:
        name, _, grams = value.partition(",") if isinstance(value, str) else ("", "", "")
        if grams and "=" not in grams:
            raise UsageError(f"{what} takes one column of text, not {shown(value)}; join the columns first")
        if not name or (grams and grams not in [f"ngrams={n}" for n in range(1, 6)]):
            raise UsageError(
                f"{what} must be the name of a column, or NAME,ngrams=N with N from 1 to 5, not {shown(value)}"
            )
        return str(value)


@dataclass(frozen=True)
class ClassFactors(Kind):
    """A factor for each of some labels, or the word balanced."""

    metavar: str = "balanced|LABEL=W,..."

    def read(self, text: str) -> str | dict[str, float]:
        if text == "balanced":
            return text
        table = {}
        for part in text.split(","):
            label, equals, weight = part.rpartition("=")
            if not equals:
                raise UsageError(f"{shown(part)} is neither LABEL=WEIGHT nor balanced")
            table[label] = read_number(weight)
        return table

    def check(self, what: str, value: object) -> object:
        if isinstance(value, str) and value == "balanced":
            return value
        if not isinstance(value, Mapping):
            raise UsageError(f"{what} must be balanced or a factor for each label, not {shown(value)}")
        for label, factor in value.items():
            if not _is_label(label):
                raise UsageError(f"{what} must be a factor for each label, but {shown(label)} is not a label")
            if not 0.0 < Number().number(what, factor) < math.inf:
                raise UsageError(f"the class weight of {shown(label)} must be a positive number, not {shown(factor)}")
        return value


def _is_bool(value: object) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # NumPy's, without importing it


def _is_label(value: object) -> bool:
    """Whether this is a single value that is not missing."""
    if value is None or isinstance(value, (list, tuple, dict, set)) or getattr(value, "ndim", 0) > 0:
        return False
    if type(value).__name__ in ("MaskedConstant", "NAType"):  # NumPy's and pandas' missing values, without an import
        return False
    try:
        str(value)  # models and logs need it; it fails for an integer of thousands of digits
        return bool(value == value)
    except (TypeError, ValueError, ArithmeticError):  # a signalling NaN, say
        return False


def read_number(text: str) -> float:
    """Parse a float; inf is allowed. Raises UsageError."""
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{shown(text)} is not a number") from None
    if math.isnan(value):
        raise UsageError("nan is not allowed as a number")
    if math.isinf(value) and "inf" not in text.lower():
        raise UsageError(f"{text} is too large for a float; write inf if you mean that")
    return value
