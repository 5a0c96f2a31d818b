"""Which spellings of numbers and dates fit all values of a column of text."""

from __future__ import annotations

import functools
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammargin.tables import dates, spellings

PATTERNS = spellings.PATTERNS | dates.PATTERNS
ALL = frozenset(PATTERNS)
ORDER = (*spellings.MARKS, *sorted(ALL.difference(spellings.MARKS)))
SPELLINGS = {"", *spellings.NAMES, *spellings.PAIRS, *dates.NAMES}  # that a schema may have
NUMBERS, DATES = "number", "date"
LONGEST = 64  # bytes of a number or a date


@functools.cache
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(PATTERNS[form])


def of_word(word: str, forms: frozenset[str] = ALL) -> frozenset[str]:
    """Those of these forms that fit a word; none if it is no number and no date."""
    if len(word) > LONGEST or not re.search("[0-9]", word):
        return frozenset()
    tried = [*spellings.HELPERS, *spellings.MARKS]
    tried += dates.NAMES if dates.POSSIBLE.search(word) else []
    tried += spellings.WITH_UNIT if re.search(spellings.UNIT, word) else []
    found = {form for form in tried if _pattern(form).match(word)}
    for mark in found.intersection(spellings.MARKS):
        found.update(spellings.MONEY[mark])
    found &= forms
    return frozenset() if found <= spellings.HELPERS else frozenset(found)


def fitting(forms: frozenset[str], words: pa.Array) -> frozenset[str]:
    """Those of these forms that fit all of these words."""
    if not forms or not len(words):
        return forms
    forms = of_word(words[0].as_py(), forms)  # most columns of words end here
    for form in ORDER:
        mark = form.partition(" ")[0]
        without = mark in forms and form in spellings.MONEY.get(mark, ())  # all words lack a unit, as money may
        if form in forms and not without and not (fit := fits(words, form)).all():
            forms = of_word(words[int(np.argmin(fit))].as_py(), forms)
    return forms


def fits(words: pa.Array, form: str) -> np.ndarray:
    """Whether the form fits each of these words (m,)."""
    return _match(words, PATTERNS[form])


def _match(words: pa.Array, pattern: str) -> np.ndarray:
    return np.asarray(pc.match_substring_regex(words, pattern).to_numpy(zero_copy_only=False))


def of_kind(words: pa.Array, kind: str) -> np.ndarray:
    """Whether each of these words (m,) is a number, or a date, in one of the spellings."""
    found = np.zeros(len(words), bool)
    if 2 * np.count_nonzero(_match(words, "[0-9]")) < len(words):  # hardly any of them
        return found
    for name in spellings.MARKS if kind == NUMBERS else dates.NAMES:
        found |= fits(words, name)
    if kind == NUMBERS:
        with_unit = np.flatnonzero(~found & _match(words, spellings.UNIT))
        rest = words.take(pa.array(with_unit))
        for name in spellings.WITH_UNIT if len(rest) else ():
            found[with_unit] |= fits(rest, name)
    return found


def read(column: pa.Array, spelling: str) -> tuple[pa.Array, int]:
    """(words as numbers or dates, the first row whose word does not fit the spelling, or -1). column: a dictionary."""
    words = column.dictionary.cast(pa.string())
    if spelling in dates.PATTERNS:
        values = dates.parsed(words, spelling)
    else:
        values = pa.array(spellings.numbers_in(words, spelling), pa.float64(), from_pandas=True)
    found = values.take(column.indices)
    if found.null_count == column.null_count:
        return found, -1
    odd = pc.and_(found.is_null(), column.is_valid())
    return found, int(pc.index(odd, True).as_py())
