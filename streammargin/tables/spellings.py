"""Numbers as people write them: 1,234.56 or 1.234,56, 12.3%, $9.90, 1 234, (12) for -12; and yes for 1.

Which spellings of numbers and dates fit all values of a column of text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection

import numpy as np

from streammargin.arrow import pa, pc
from streammargin.tables import dates

POINT, COMMA = "point", "comma"  # the decimal mark
PLAIN_NUMBER, WHOLE, UNMARKED = "plain", "whole", "unmarked"  # of programs; without a point; neither point nor comma
SHARE_SIGNS = {"%": "%|％", "‰": "‰"}  # a number without the sign is no share
UNITS = {
    **SHARE_SIGNS,
    "$": r"US ?\$|\$|USD",
    "€": "€|EUR",
    "£": "£|GBP",
    "¥": "¥|￥|JPY",
    "CHF": r"CHF|S?Fr\.|SFr",
    "₹": r"₹|INR|Rs\.?",
    "CNY": "CNY|RMB|CN¥",
    "₩": "₩|KRW",
    "₽": "₽|RUB",
    "kr": r"kr\.?|SEK|NOK|DKK",
    "zł": "zł|PLN",
    "R$": r"R\$|BRL",
    "C$": r"CA?\$|CAD",
    "A$": r"AU?\$|AUD",
}
PAIRS = {"true/false": ("true", "false"), "yes/no": ("yes", "no"), "y/n": ("y", "n"), "t/f": ("t", "f"),
         "on/off": ("on", "off")}  # fmt: skip
TRUTH = "true/false"  # that numbers have without being told

_BLANK = "[ \u00a0\u2007\u2009\u202f]"
_MINUS = "[-\u2212\u2013]"
_FIRST = "[1-9][0-9]{0,2}"  # 0,123 has no thousands
_EXPONENT = "(?:[eE][+-]?[0-9]+)?"
_ZERO = "[+-]?0+(?:[.,]0+)?"  # it may be a share of any kind
_APART = f"{_FIRST}(?:{_BLANK}[0-9]{{3}})+|{_FIRST}(?:['’][0-9]{{3}})+"
_DIGITS = {
    # by lakhs and crores, too: 12,34,567
    POINT: rf"(?:(?:[0-9]+|{_FIRST}(?:,[0-9]{{3}})+|[1-9][0-9]?(?:,[0-9]{{2}})+,[0-9]{{3}}|{_APART})"
           rf"(?:\.[0-9]*)?|\.[0-9]+){_EXPONENT}",
    COMMA: rf"(?:(?:[0-9]+|{_FIRST}(?:\.[0-9]{{3}})+|{_APART})(?:,[0-9]+)?|,[0-9]+)",
}  # fmt: skip


def _pattern(mark: str, unit: str) -> str:
    """A number with this decimal mark, with a sign or brackets, in this unit ("" for none); money may lack its unit."""
    digits, sign = f"{_BLANK}?{_DIGITS[mark]}", f"(?:[+]|{_MINUS})"
    signs = rf"{sign}?{digits}|\({digits}{_BLANK}?\)|{digits}{_BLANK}?{_MINUS}"
    if not unit:
        return f"^(?:{signs})$"
    unit_of = f"(?i:{UNITS[unit]}){_BLANK}?"
    before = rf"{sign}?{unit_of}{digits}|{unit_of}(?:{signs})|\({unit_of}{digits}{_BLANK}?\)"
    behind = rf"{sign}?{digits}{_BLANK}?{unit_of}|\({digits}{_BLANK}?{unit_of}\)|(?:{signs}){_BLANK}?{unit_of}"
    behind += rf"|{digits}{_BLANK}?{unit_of}{_MINUS}"
    alone = _ZERO if unit in SHARE_SIGNS else signs
    return f"^(?:{before}|{behind}|{alone})$"


def _name(mark: str, unit: str) -> str:
    return f"{mark} {unit}" if unit else mark


# all spellings but words of PAIRS; the last three only tell readings apart
OF_NUMBERS = {_name(mark, unit): _pattern(mark, unit) for mark in (POINT, COMMA) for unit in ("", *UNITS)} | {
    PLAIN_NUMBER: rf"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+){_EXPONENT}$",
    WHOLE: "^[+-]?[0-9]+$",
    UNMARKED: "^(?:[^.,]|[A-Za-z][.])*$",  # Rs. 500 has none
}
HELPERS = {PLAIN_NUMBER, WHOLE, UNMARKED}
NUMBER_SPELLINGS = [name for name in OF_NUMBERS if name not in HELPERS]
MARKS = (POINT, COMMA)
MONEY = {mark: [_name(mark, unit) for unit in UNITS if unit not in SHARE_SIGNS] for mark in MARKS}  # they fit numbers
WITH_UNIT = [name for name in NUMBER_SPELLINGS if name not in MARKS]
# what tells quickly that a word may be of these
UNIT = rf"(?i:{'|'.join(UNITS.values())})|^{_ZERO}$"


def readings(fitting: Collection[str], decimal: str | None) -> list[str]:
    """The spellings that a column may have, of those that fit all of its values; several: they differ in the values.

    decimal: the mark that was asked for, if any.
    """
    marks = [name for name in NUMBER_SPELLINGS if name in fitting]
    units = {name.partition(" ")[2] for name in marks}
    unit = "" if "" in units else min(units, default="")  # money may lack its unit, so that all units fit plain numbers
    marks = [mark for mark in (POINT, COMMA) if _name(mark, unit) in marks]
    if decimal in marks:
        marks = [decimal]
    elif len(marks) > 1 and (UNMARKED in fitting or PLAIN_NUMBER in fitting):
        marks = [POINT]
    return [_name(mark, unit) for mark in marks]


def pair_of(words: Collection[str]) -> str:
    """The pair of words, as yes/no, that these are; "" for others."""
    found = {word.lower() for word in words}
    return next((name for name, pair in PAIRS.items() if found <= set(pair)), "")


def numbers_in(words: pa.Array, spelling: str) -> np.ndarray:
    """Different words (m,) as numbers float64; NaN for those that do not fit the spelling."""
    if spelling in PAIRS:
        places = pc.index_in(pc.utf8_lower(words), value_set=pa.array(PAIRS[spelling], words.type)).fill_null(2)
        return np.array([1.0, 0.0, np.nan])[places.to_numpy(zero_copy_only=False)]
    mark, _, unit = spelling.partition(" ")
    fits = pc.match_substring_regex(words, OF_NUMBERS[spelling])
    words = pc.if_else(fits, words, None)
    if unit:
        words = pc.replace_substring_regex(words, f"(?i:{UNITS[unit]})", "")
    negative = pc.match_substring_regex(words, rf"^[^eE]*(?:{_MINUS}|\()|{_MINUS}$")
    # the minus of an exponent stays
    digits = (
        pc.replace_substring_regex(words, "([eE]-?)|[^0-9.]", r"\1")
        if mark == POINT
        else pc.replace_substring(pc.replace_substring_regex(words, "[^0-9,]", ""), ",", ".")
    )
    sizes = pc.cast(digits, pa.float64()).to_numpy(zero_copy_only=False)
    return np.where(negative.fill_null(False).to_numpy(zero_copy_only=False), -sizes, sizes) + 0.0  # no -0


PATTERNS = OF_NUMBERS | dates.PATTERNS
ALL_SPELLINGS = frozenset(PATTERNS)
ORDER = (*MARKS, *sorted(ALL_SPELLINGS.difference(MARKS)))
SPELLINGS = {"", *NUMBER_SPELLINGS, *PAIRS, *dates.DATE_SPELLINGS}  # that a schema may have
NUMBER_KIND, DATE_KIND = "number", "date"
LONGEST_SPELLING = 64  # in bytes, of a number or a date


@functools.cache
def _compiled(form: str) -> re.Pattern[str]:
    return re.compile(PATTERNS[form])


def of_word(word: str, forms: frozenset[str] = ALL_SPELLINGS) -> frozenset[str]:
    """Those of these forms that fit a word; none if it is no number and no date."""
    if len(word) > LONGEST_SPELLING or not re.search("[0-9]", word):
        return frozenset()
    tried = [*HELPERS, *MARKS]
    tried += dates.DATE_SPELLINGS if dates.POSSIBLE.search(word) else []
    tried += WITH_UNIT if re.search(UNIT, word) else []
    found = {form for form in tried if _compiled(form).match(word)}
    for mark in found.intersection(MARKS):
        found.update(MONEY[mark])
    found &= forms
    return frozenset() if found <= HELPERS else frozenset(found)


def fitting(forms: frozenset[str], words: pa.Array) -> frozenset[str]:
    """Those of these forms that fit all of these words."""
    if not forms or not len(words):
        return forms
    forms = of_word(words[0].as_py(), forms)  # most columns of words end here
    for form in ORDER:
        mark = form.partition(" ")[0]
        without = mark in forms and form in MONEY.get(mark, ())  # all words lack a unit, as money may
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
    for name in MARKS if kind == NUMBER_KIND else dates.DATE_SPELLINGS:
        found |= fits(words, name)
    if kind == NUMBER_KIND:
        with_unit = np.flatnonzero(~found & _match(words, UNIT))
        rest = words.take(pa.array(with_unit))
        for name in WITH_UNIT if len(rest) else ():
            found[with_unit] |= fits(rest, name)
    return found


def read(column: pa.Array, spelling: str) -> tuple[pa.Array, int]:
    """(words as numbers or dates, the first row whose word does not fit the spelling, or -1). column: a dictionary."""
    words = column.dictionary.cast(pa.string())
    if spelling in dates.PATTERNS:
        values = dates.parsed(words, spelling)
    else:
        values = pa.array(numbers_in(words, spelling), pa.float64(), from_pandas=True)
    found = values.take(column.indices)
    if found.null_count == column.null_count:
        return found, -1
    odd = pc.and_(found.is_null(), column.is_valid())
    return found, int(pc.index(odd, True).as_py())
