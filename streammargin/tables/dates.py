"""Dates as people write them, and the columns that a date becomes: year, days, month, day of the week, hour."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streammargin.arrow import pa, pc

DAY_FIRST, MONTH_FIRST = "day-first", "month-first"
YEAR_FIRST, SHORT_YEAR_FIRST, TIME = "year-first", "year-first in two digits", "time of the day"
NATIVE = YEAR_FIRST  # the spelling of a table whose types are dates
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAY = 86400  # seconds
_PIVOT = 69  # two digits from here on are of the 20th century, as POSIX has it

_D = "(?P<d>0?[1-9]|[12][0-9]|3[01])"
_M = "(?P<m>0?[1-9]|1[0-2])"
_Y = "(?P<y>[0-9]{4})"
_ANY_Y = "(?P<y>[0-9]{4}|[0-9]{2})"
_B = ("(?P<b>(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
      r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?)")  # fmt: skip
_W = "(?:(?i:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?i:day)?[.,]? +)?"
_TH = "(?i:st|nd|rd|th)?"
_BY = "[-/. ]{0,2}"
_ZONE = "(?: ?(?P<z>Z|z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?))?"
_CLOCK = (r"(?P<H>[01]?[0-9]|2[0-3]):(?P<M>[0-5][0-9])(?::(?P<S>[0-5][0-9]|60)(?:[.,](?P<f>[0-9]{1,9}))?)?"
          r"(?: ?(?P<p>[AaPp]\.?[Mm]\.?))?")  # fmt: skip
_AT = f"(?:(?:[T_:]|,? +){_CLOCK}{_ZONE})?"
# what ISO 8601 allows beside: the hour alone, and digits without colons
_ISO_AT = (r"(?:[T ](?P<H>[01][0-9]|2[0-3])(?::?(?P<M>[0-5][0-9])(?::?(?P<S>[0-5][0-9]|60)"
           rf"(?:[.,](?P<f>[0-9]{{1,9}}))?)?)?(?: ?(?P<p>[AaPp][Mm]))?{_ZONE})")  # fmt: skip

PATTERNS = {
    YEAR_FIRST: rf"^{_Y}[-/.]{_M}[-/.]{_D}{_ISO_AT}?$",
    "year-first without marks": f"^{_Y}(?P<m>0[1-9]|1[0-2])(?P<d>0[1-9]|[12][0-9]|3[01]){_ISO_AT}$",
    DAY_FIRST: rf"^{_W}{_D}[-/.] ?{_M}[-/.] ?{_ANY_Y}{_AT}$",
    MONTH_FIRST: rf"^{_W}{_M}[-/.] ?{_D}[-/.] ?{_ANY_Y}{_AT}$",
    SHORT_YEAR_FIRST: f"^(?P<y>[0-9]{{2}})-{_M}-{_D}{_AT}$",
    "day, month by name, year": rf"^{_W}{_D}{_TH}{_BY}{_B},?{_BY}{_ANY_Y}{_AT}$",
    "month by name, day, year": rf"^{_W}{_B}{_BY}{_D}{_TH}(?:,? +|[-/.]){_ANY_Y}{_AT}$",
    "year, month by name, day": f"^{_Y}{_BY}{_B}{_BY}{_D}{_AT}$",
    "weekday, month, day, time, year": f"^{_W}{_B} +{_D} +{_CLOCK}{_ZONE} +{_Y}$",
    "year and month": "^(?P<y>19[0-9]{2}|20[0-9]{2})[-/](?P<m>0[1-9]|1[0-2])$",
    "month and year": "^(?P<m>0?[1-9]|1[0-2])[-/](?P<y>19[0-9]{2}|20[0-9]{2})$",
    "month by name, year": rf"^{_B}(?:[-/. ]{{1,2}}(?P<y>[0-9]{{4}})|-(?P<yy>[0-9]{{2}}))$",
    TIME: f"^{_CLOCK}{_ZONE}$",
}  # fmt: skip
MONTHLY = {"year and month", "month and year", "month by name, year"}  # without a day
DATE_SPELLINGS = list(PATTERNS)
POSSIBLE = re.compile("[0-9](?:[/:]|.*[-/.A-Za-z ].*[0-9])|[A-Za-z]{3}")  # quickly told from a number
DATE_PARTS = {  # parts of a date or time, and the names of their columns
    "month": [f"month={month}" for month in range(1, 13)],
    "day of the week": [f"day of the week={day}" for day in WEEKDAYS],
    "hour": [f"hour={hour}" for hour in range(24)],
}


def readings(fitting: Collection[str], order: object) -> list[str]:
    """The spellings of a column of dates, of those that fit all of its values; several: they differ in the values.

    order: DAY_FIRST or MONTH_FIRST if it was asked for.
    """
    found = [name for name in DATE_SPELLINGS if name in fitting]
    return [str(order)] if order in found else found


def parsed(words: pa.Array, spelling: str) -> pa.Array:
    """Different words as timestamps in seconds, or times of the day; null for those that do not fit, as 30 February.

    A time with a zone is taken in UTC.
    """
    found = pc.extract_regex(words, PATTERNS[spelling])
    texts = {field.name: found.field(place) for place, field in enumerate(found.type)}

    def number(name: str, empty: int) -> np.ndarray:
        if name not in texts:
            return np.full(len(words), empty)
        given = pc.if_else(pc.equal(texts[name], ""), str(empty), texts[name])
        return np.asarray(pc.cast(given, pa.int64()).to_numpy(zero_copy_only=False))

    fits = found.is_valid().to_numpy(zero_copy_only=False)
    seconds = (_hours(number("H", 0), texts) * 60 + number("M", 0)) * 60 + number("S", 0) - _offsets(words, texts)
    if spelling == TIME:
        return pa.array((seconds % DAY).astype(np.int32), pa.time32("s"), mask=~fits)
    if "yy" in texts:  # of two digits, beside one of four
        texts["y"] = pc.if_else(pc.equal(texts["y"], ""), texts["yy"], texts["y"])
    years, months = number("y", 1970), number("m", 1)
    short = pc.equal(pc.binary_length(texts["y"]), 2).to_numpy(zero_copy_only=False)
    years = years + np.where(short, np.where(years >= _PIVOT, 1900, 2000), 0)
    if "b" in texts:
        start = pc.utf8_lower(pc.utf8_slice_codeunits(texts["b"], 0, 3))
        months = 1 + np.asarray(pc.index_in(start, value_set=pa.array(MONTHS)).fill_null(0))
    month = ((years - 1970) * 12 + months - 1).astype("datetime64[M]")
    days = month.astype("datetime64[D]") + (number("d", 1) - 1)
    fits = fits & (days.astype("datetime64[M]") == month)  # 30 February is a day of March
    return pa.array(days.astype(np.int64) * DAY + seconds, pa.timestamp("s"), mask=~fits)


def _hours(hours: np.ndarray, texts: dict[str, pa.Array]) -> np.ndarray:
    """Hours from 0 to 23: 12 AM is 0, and 1 PM is 13."""
    if "p" not in texts:
        return hours
    half = pc.utf8_lower(pc.utf8_slice_codeunits(texts["p"], 0, 1))
    later, early = (pc.equal(half, letter).to_numpy(zero_copy_only=False) for letter in "pa")
    return hours + 12 * (later & (hours < 12)) - 12 * (early & (hours == 12))


def _offsets(words: pa.Array, texts: dict[str, pa.Array]) -> np.ndarray:
    """Seconds that clocks of a time's zone are ahead of UTC."""
    if "z" not in texts:
        return np.zeros(len(words), np.int64)
    zones = texts["z"].dictionary_encode()
    ahead = np.array([_offset(zone) for zone in zones.dictionary.to_pylist()], np.int64)
    return ahead[zones.indices.to_numpy(zero_copy_only=False)]


def _offset(zone: str) -> int:
    if zone[:1] not in ("+", "-"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (int(digits[:2]) * 60 + int(digits[2:])) * 60 * (-1 if zone[0] == "-" else 1)


class DateParts(NamedTuple):
    """Parts of dates (m,) int64: days since 1970, years, or None for times of the day; others, by DATE_PARTS, from 0.

    timed: whether one is not at midnight.
    """

    days: np.ndarray | None
    years: np.ndarray | None
    others: dict[str, np.ndarray]
    timed: bool


def is_time(type_: pa.DataType) -> bool:
    """Whether this is a time of the day, without a date."""
    return bool(pa.types.is_time(type_))


def parts_of(dates: pa.Array) -> DateParts:
    """The parts of dates or times without gaps, of any type of Arrow for them; of times with a zone in UTC."""
    if is_time(dates.type):
        return DateParts(None, None, {"hour": np.asarray(pc.hour(dates))}, True)
    instants = dates.to_numpy(zero_copy_only=False)
    days, months, years = (instants.astype(f"datetime64[{unit}]") for unit in "DMY")
    since = days.astype(np.int64)
    others = {
        "month": months.astype(np.int64) % 12,
        "day of the week": (since + 3) % 7,  # 1970 began on a Thursday
        "hour": (instants.astype("datetime64[h]") - days).astype("timedelta64[h]").astype(np.int64),
    }
    return DateParts(since, years.astype(np.int64) + 1970, others, bool((instants != days).any()))


@dataclass
class Dates:
    """The dates of a column: how many, sums of days and years, the first one, and the parts that occur."""

    count: int = 0
    days: int = 0
    years: int = 0
    first: int | None = None
    others: frozenset[tuple[str, int]] = frozenset()
    timed: bool = False

    @classmethod
    def of(cls, dates: pa.Array) -> Dates:
        """Those of an array without gaps, of one date or more."""
        found = parts_of(dates)
        others = frozenset((part, number) for part, each in found.others.items() for number in np.unique(each).tolist())
        if found.days is None or found.years is None:
            return cls(len(dates), others=others, timed=found.timed)
        first = int(found.days.min())
        return cls(len(dates), int(found.days.sum()), int(found.years.sum()), first, others, found.timed)

    def __add__(self, other: Dates) -> Dates:
        """Those of both."""
        firsts = [each for each in (self.first, other.first) if each is not None]
        return Dates(
            self.count + other.count, self.days + other.days, self.years + other.years, min(firsts, default=None),
            self.others | other.others, self.timed or other.timed,
        )  # fmt: skip

    def words(self, spelling: str) -> tuple[str, ...]:
        """The names of the columns of 0 and 1: of months, days of the week and hours that occur, if dates have them."""
        without = {"day of the week"} if spelling in MONTHLY else set()
        without |= set() if self.timed else {"hour"}
        return tuple(
            name
            for part, names in DATE_PARTS.items()
            for number, name in enumerate(names)
            if part not in without and (part, number) in self.others
        )


def places_of(parts: DateParts, words: tuple[str, ...]) -> Iterator[np.ndarray]:
    """The places (m,) of month, day of the week and hour among these words; -1 for one that is not there."""
    at = {word: place for place, word in enumerate(words)}
    for part, found in parts.others.items():
        own = np.array([at.get(name, -1) for name in DATE_PARTS[part]])
        if (own >= 0).any():
            yield own[found]


def like_dates(numbers: np.ndarray) -> bool:
    """Whether all of these (m,) are whole numbers that read as dates, as 20240131."""
    if not len(numbers) or not (numbers.min() >= 1900_01_01 and numbers.max() <= 2100_12_31):
        return False
    whole = numbers.astype(np.int64)
    months, days = whole // 100 % 100, whole % 100
    return bool(((whole == numbers) & (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)).all())
