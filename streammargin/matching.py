"""Which class a label is: the one place that says when two labels are equal.

Numbers equal numbers, whatever their type: 1, 1.0 and True. Text equals text, to the byte: "7" is not "007". A number
and a text are of different kinds; a shell can only give text. They match if the text spells the number, and no other
text does: no other class, and no other label that was looked up before. True and False spell 1 and 0, in any case.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from streammargin.errors import DataError, StreamMarginError
from streammargin.wording import in_list, shown

EXACT_BELOW = 2.0**53  # from here on, float64 cannot tell neighbouring whole numbers apart
LISTED = 20  # classes in a message
MAX_CLASSES = 32767  # codes of classes are int16
TRUTH = {"true": "1", "false": "0"}


def is_plain(text: str) -> bool:
    """Whether a text is printable ASCII without underscores: Python reads 1_000 as a number, other programs do not."""
    return "_" not in text and text.isascii() and text.isprintable()


def strict_number(text: str) -> float:
    """The number that a text means in every programming language. Raises ValueError."""
    if not is_plain(text):
        raise ValueError(text)
    return float(text)


def number_in(text: str) -> int | float | None:
    """The finite number that a text spells, whole ones exactly; None for other texts."""
    try:
        number = strict_number(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    try:
        return int(text)
    except ValueError:
        return number


def truth_as_number(text: str) -> str:
    """1 and 0 for True and False, as files of text have a column of booleans; any other text as it is."""
    return TRUTH.get(text.lower(), text)


def unpointed(text: str) -> str:
    """A whole number without the zeros behind its point, any other text as it is.

    The one rule for labels, tasks and names of ratings that are all numbers: pandas writes 7 as 7.0 if the column has,
    or had, a gap.
    """
    whole, point, rest = text.partition(".")
    zeros = point and rest and not rest.strip("0")
    return whole if zeros and whole.isascii() and whole.removeprefix("-").isdigit() else text


def spelt(number: float) -> str:
    """The shortest spelling of a number: 7, 3.1, 1e+300; the same for numbers that are equal."""
    if isinstance(number, float) and not (number.is_integer() and abs(number) < EXACT_BELOW):
        return repr(number)
    return str(int(number))


def plain(label: Any) -> Any:
    """A label as Python's number or text."""
    label = label.item() if getattr(label, "ndim", None) == 0 and hasattr(label, "item") else label
    return label.decode("utf-8", "backslashreplace") if isinstance(label, bytes) else label


def text_fault(values: np.ndarray) -> int:
    """Index of the first invalid string in an array of text (n,), or -1; by code points, which never raises."""
    unit = np.dtype(np.uint32).newbyteorder(values.dtype.byteorder)
    codes = np.ascontiguousarray(values).view(unit).reshape(len(values), values.dtype.itemsize // 4)
    bad = (codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))
    bad[:, :-1] |= (codes[:, :-1] == 0) & (codes[:, 1:] != 0)
    rows = bad.any(axis=1)
    return int(rows.argmax()) if rows.any() else -1


class Matcher:
    """Finds the classes that labels are.

    `classes`  labels of any kind, all different.
    `name`     that of the data, for messages.
    `error`    raised if a label of another kind does not match one to one.
    `what`     the classes and labels, in messages.
    """

    def __init__(
        self, classes: Iterable[Any], name: str, error: type[StreamMarginError] = DataError,
        what: tuple[str, str] = ("class", "labels"),
    ) -> None:  # fmt: skip
        self.classes: list[Any] = [plain(label) for label in classes]
        self.name: str = name
        self.error: type[StreamMarginError] = error
        self._class, self._labels = what
        self._codes = {label: code for code, label in enumerate(self.classes)}
        self._spelt: dict[float, list[str]] = {}  # the texts among the classes that spell a number
        for label in self.classes:
            if isinstance(label, str) and (number := number_in(truth_as_number(label))) is not None:
                self._spelt.setdefault(number, []).append(label)
        self._met: dict[int, Any] = {}  # by code: the label of another kind that was matched

    def find(self, label: Any) -> int | None:
        """The code of a label, or None. Raises `error` if it is of another kind, and not one to one."""
        label = plain(label)
        if (code := self._codes.get(label)) is not None:
            return code
        if isinstance(label, str):
            number = number_in(truth_as_number(label))
            code = None if number is None else self._codes.get(number)
        else:
            texts = self._spelt.get(label, [])
            if len(texts) > 1:
                raise self.error(
                    f"{self.name}: the number {shown(label)} may be the {self._class} {shown(texts[0])} or "
                    f"{shown(texts[1])}, which are text; give {self._labels} as text too"
                )
            code = self._codes[texts[0]] if texts else None
        met = unpointed(truth_as_number(label)) if isinstance(label, str) else label
        if code is not None and self._met.setdefault(code, met) != met:
            raise self.error(
                f"{self.name}: {shown(self._met[code])} and {shown(label)} are different {self._labels}, but both "
                f"spell the {self._class} {shown(self.classes[code])}; give {self._labels} as numbers, or as text "
                "everywhere"
            )
        return code

    def find_all(self, labels: Iterable[Any]) -> list[int]:
        """The codes of labels that options name. Raises `error` for an unknown one, and for two of one class."""
        named: dict[int, Any] = {}
        found = []
        for label in labels:
            code = self.find(label)
            if code is None:
                raise self.error(f"there is no label {shown(label)} in {self.name}; its labels are {self.listed()}")
            if named.setdefault(code, label) != label:
                raise self.error(
                    f"{shown(named[code])} and {shown(label)} both name the class {shown(self.classes[code])} of "
                    f"{self.name}; leave one of them out"
                )
            found.append(code)
        return found

    def listed(self) -> str:
        """The classes in a message."""
        return ", ".join(map(in_list, self.classes[:LISTED]))


class Codes:
    """The codes of rows by their labels: numbers of the classes, -1 for a label that is none of them.

    rest: the class that was told from all others, or None; it has the code 1, and all other labels have 0.
    """

    def __init__(self, classes: Iterable[Any], rest: Any, name: str) -> None:
        self.matcher: Matcher = Matcher(classes if rest is None else [rest], name)
        self._one_of_all = rest is not None

    def of(self, labels: Iterable[Any]) -> list[int]:
        """The code of each label. Raises DataError if labels of another kind are not one to one."""
        found = [self.matcher.find(label) for label in labels]
        if self._one_of_all:
            return [int(code is not None) for code in found]
        return [-1 if code is None else code for code in found]


def of_one_kind(labels: Sequence[Any], name: str) -> tuple[list[Any], list[int]]:
    """(labels of one kind, the place of each of the given ones among them) of different numbers and texts.

    Numbers among texts become the text that spells them, or their shortest spelling if there is none. Raises
    DataError for two texts that spell one number.
    """
    texts = [label for label in labels if isinstance(label, str)]
    if len(texts) in (0, len(labels)):
        return list(labels), list(range(len(labels)))
    matcher = Matcher(texts, name)
    places = []
    for label in labels:
        place = matcher.find(label)
        if place is None:
            place = len(texts)
            texts.append(spelt(label))
        places.append(place)
    return texts, places
