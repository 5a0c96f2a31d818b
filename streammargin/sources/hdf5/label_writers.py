"""Write labels in the narrowest type that holds all of them, which is known after the last one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.matching import EXACT, MAX_CLASSES, number_in, plain, spelt
from streammargin.sources.hdf5.disk import Appender
from streammargin.sources.label_column import values_of
from streammargin.wording import shown

TEXT = h5py.string_dtype()
_NUMBERS = [np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.float64)]  # the narrowest first


class LabelWriter:
    """Labels of a dataset: text to the byte; numbers as integers if all are; numbers among text as text.

    width: of numbers (n, width), else None.
    """

    def __init__(self, group: h5py.Group, name: str, width: int | None = None) -> None:
        self.group: Any = group
        self.name: str = name
        self.width: int | None = width
        self._inner: Appender | None = None
        self._among_text = _AmongText()

    def append(self, labels: np.ndarray) -> None:
        """Add labels. Raises DataError for numbers that no type holds, and for a number that text spells otherwise."""
        labels = np.asarray(labels)
        kind = _narrowest(labels)
        if self.width is not None:
            labels = labels.reshape(-1, self.width)
        if self._inner is None:
            self._inner = Appender(self.group, self.name, kind, self.width)
        elif _rank(kind) > _rank(self._inner.dtype):
            self._inner = replaced(self._inner, kind, lambda part: self._as(part, kind))
        self._inner.append(self._as(labels, self._inner.dtype))

    def _as(self, labels: np.ndarray, kind: np.dtype) -> np.ndarray:
        return self._among_text.texts(labels.tolist()) if kind == TEXT else _converted(labels, kind)

    def close(self) -> None:
        """Write the rest."""
        if self._inner is not None:
            self._inner.close()


class _AmongText:
    """Makes text of labels that are written as such. A number that is spelt otherwise among the text is an error.

    More than MAX_CLASSES of either are no classes, and are not compared.
    """

    def __init__(self) -> None:
        self._numbers: set[float] = set()
        self._spelt: dict[float, str] = {}  # by number: a text that is not its shortest spelling

    def texts(self, labels: list[Any]) -> np.ndarray:
        """The labels as text. Raises DataError."""
        if set(map(type, labels)) == {str}:
            self._note(set(labels))
            return np.array(labels, object)
        found = [plain(label) for label in labels]
        self._note(set(found))
        return np.array([label if isinstance(label, str) else spelt(label) for label in found], object)

    def _note(self, labels: set[Any]) -> None:
        """Remember numbers and their spellings among these. Raises DataError."""
        few = max(len(self._numbers), len(self._spelt)) <= MAX_CLASSES
        for label in labels if few else ():
            if not isinstance(label, str):
                self._numbers.add(label)
            elif (number := number_in(label)) is not None and label != spelt(number):
                self._spelt.setdefault(number, label)
        if both := self._numbers & self._spelt.keys():
            number = min(both)
            raise DataError(
                f"the labels are text and numbers, and the text {shown(self._spelt[number])} may be the number "
                f"{spelt(number)}; give all labels as text, or all as numbers"
            )


class SpeltWriter:
    """Labels as a text file spells them: `values_of` says what they are, after the last one.

    Until then codes of the spellings are written. A text that is no number, or more than MAX_CLASSES spellings, decide
    at once.
    """

    def __init__(self, group: h5py.Group, name: str) -> None:
        self._codes: dict[str, int] = {}  # of each spelling, in order of appearance
        self._coded: Appender | None = Appender(group, name, np.int16)
        self._inner = self._coded
        self._rows = 0

    def append(self, labels: np.ndarray) -> None:
        """Add spellings (m,). Raises DataError for a text after too many different numbers to be classes."""
        spellings = labels.tolist()
        if self._coded is not None:
            before = len(self._codes)
            for text in spellings:
                self._codes.setdefault(text, len(self._codes))
            new = islice(self._codes, before, None)
            if len(self._codes) > MAX_CLASSES or any(number_in(text) is None for text in new):
                self._decide(list(islice(self._codes, MAX_CLASSES + 1)))
        if self._coded is not None:
            self._inner.append(np.array([self._codes[text] for text in spellings], np.int16))
        else:
            self._inner.append(labels if self._inner.dtype == TEXT else self._numbers(spellings))
        self._rows += len(spellings)

    def _decide(self, spellings: Sequence[str]) -> None:
        """Write what the codes stand for in their place, and these spellings' kind of labels from now on."""
        assert self._coded is not None
        values = values_of(spellings)
        kind = TEXT if values.dtype == object else values.dtype
        if len(spellings) > MAX_CLASSES and kind != TEXT:
            kind = np.dtype(np.float64)  # of those to come
        self._inner = replaced(self._coded, kind, lambda codes: values[codes])
        self._coded, self._codes = None, {}

    def _numbers(self, spellings: Sequence[str]) -> np.ndarray:
        try:
            return np.array(spellings, object).astype(np.float64)
        except ValueError:
            place, text = next((k, text) for k, text in enumerate(spellings) if number_in(text) is None)
            raise DataError(
                f"row {self._rows + place} has the label {shown(text)}, after more than {MAX_CLASSES} different "
                "numbers, which are no classes; drop the row or give it a number"
            ) from None

    def close(self) -> None:
        """Write what the labels are."""
        if self._coded is not None:
            self._decide(list(self._codes))
        self._inner.close()


def replaced(old: Appender, kind: Any, change: Callable[[np.ndarray], np.ndarray]) -> Appender:
    """An Appender of another type in place of this one, with its values changed."""
    old.close()
    aside = f"{old.name} (narrow)"
    old.group.move(old.name, aside)
    new, source = Appender(old.group, old.name, kind, *old.tail), old.group[aside]
    for start in range(0, source.shape[0], new.chunk):
        part = source[start : start + new.chunk]
        new.append(change(part))
    del old.group[aside]
    return new


def _narrowest(labels: np.ndarray) -> np.dtype:
    """The narrowest type of a dataset for these labels. Raises DataError for other than numbers and text."""
    if labels.dtype.kind == "u" and labels.size and int(labels.max()) >= 2**63:
        return _NUMBERS[1]
    if labels.dtype.kind in "biu":
        return _NUMBERS[0]
    if labels.dtype.kind == "f":
        integral = np.all(labels == np.trunc(labels)) and np.all(np.abs(labels) < EXACT)
        return _NUMBERS[0] if integral else _NUMBERS[2]
    if labels.dtype.kind not in "OSU":
        raise DataError(f"labels must be numbers or text, not {labels.dtype}; write them differently")
    if not any(isinstance(label, (str, bytes)) for label in labels.tolist()):
        raise DataError("no type of numbers holds all of the labels as they are; give them as text")
    return TEXT


def _rank(kind: np.dtype) -> int:
    return _NUMBERS.index(kind) if kind in _NUMBERS else len(_NUMBERS)


def _converted(labels: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Numbers as a wider type. Raises DataError if it does not hold them exactly."""
    wide = labels.astype(kind)
    if kind.kind == "u" and labels.dtype.kind != "u" and np.any(labels < 0):
        raise DataError(f"no type of numbers holds the label {labels.min()} beside 2^63 or more; give labels as text")
    if kind.kind == "f" and labels.dtype.kind in "iu" and labels.size and np.abs(wide).max() > EXACT:
        raise DataError(f"no type of numbers holds labels as {labels.max()} beside fractions; give labels as text")
    return wide
