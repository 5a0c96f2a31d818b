"""Learn the schema of a table in one pass: numbers, booleans, categories and gaps of each column."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

from streammargin.errors import DataError
from streammargin.sources.base import MUCH
from streammargin.sources.names import listed
from streammargin.sources.schema import CATEGORY, DATE, MOST_WORDS, NUMBER, TEXT, Column, Schema
from streammargin.tables.asked import INDICATOR, ZERO
from streammargin.tables.dates import Dates, iso
from streammargin.tables.forms import DATES, NUMBERS
from streammargin.tables.readers.base import Reader, words_of
from streammargin.tables.readings import WORDS, Reading, faults_of, gaps, ids, reading_of, refused, say_dates, told
from streammargin.tables.spellings import COMMA, PAIRS, TRUTH
from streammargin.tables.table import Table
from streammargin.tables.tally import Counting, Tally, no_label, tally
from streammargin.wording import note, short, shown

Tallying = Callable[[Reader, Counting], dict[str, Tally]]


class Learnt(NamedTuple):
    """The result of one pass over a table: its schema, its number of rows, and a warning about ranges ("" for none)."""

    schema: Schema
    rows: int
    ranges: str = ""


def learn(table: Table, schema: Schema | None = None, tally: Tallying = tally) -> Learnt:
    """The schema of a table, and its number of rows. schema: given if it is that of another table.

    tally: counts what the columns hold, here or elsewhere.

    Reads the table once, and once more if a column holds words here and numbers there. Raises DataError.
    """
    reader, text = table.reader, dict(table.asked.text)
    values = [] if schema is not None else [name for name in table.values if name not in text]
    # read here though nothing is learnt of them, so that all that is needed is parsed at once
    own = set(values)
    others = [name for name in [*table.values, table.weight] if name and name not in own]
    categories = own & {*table.asked.categorical, *reader.categories}
    words = frozenset([*([] if reader.typed else table.beside.spelt),
                       *([*text, *categories] if schema is None else words_of(schema, reader))])  # fmt: skip
    if table.asked.decimal == COMMA and not reader.typed:  # 1.234 is 1234 then
        words |= frozenset(values)
    spelt = dict.fromkeys(categories, "")
    tallies = tally(reader, Counting([*table.labels, *values], others, words, table.labels, spelt))
    rows = max((found.rows for found in tallies.values()), default=0)
    for name in table.labels:
        labels = tallies.pop(name)
        if labels.gaps:
            raise no_label(table.name, labels.first["gap"], name if len(table.labels) > 1 else "")
    if schema is not None:
        return Learnt(schema, rows)
    found, readings = _settled(table, tallies, words, tally, categories)
    columns = [
        Column(name, TEXT, ngrams=text[name])
        if name in text
        else _category(name, found[name], table.asked.missing, name in reader.numeric)
        if name in categories
        else _column(table, name, found[name], readings[name])
        for name in table.values
    ]
    dtype = "float32" if all(each.narrow for each in found.values()) else "float64"
    ranges = ranges_of({key: size for name, each in found.items() for key, size in _sizes(name, each).items()})
    schema = Schema(tuple(columns), table.labels, dtype, reader.named, weight=table.weight)
    return Learnt(schema, rows, ranges)


def _settled(
    table: Table, tallies: dict[str, Tally], words: frozenset[str], tally: Tallying, categories: Set[str]
) -> tuple[dict[str, Tally], dict[str, Reading]]:
    """(what the columns hold once each is read in one way, how others than categories are read).

    categories: the columns whose values are words whatever they look like. Raises DataError if some cannot be read.
    """
    reader = table.reader

    def counted_again(names: Set[str], spelt: Mapping[str, str] = {}) -> dict[str, Tally]:
        own = [name for name in table.values if name in names]
        others = [name for name in dict.fromkeys([*table.values, *table.beside.given]) if name not in names]
        return tallies | tally(reader, Counting(own, others, words, (), spelt))

    perhaps = {name for name, found in tallies.items() if found.words and found.numbers and found.forms}
    if perhaps:  # some numbers are as people write them, so perhaps all are
        words |= perhaps
        tallies = counted_again(perhaps)
    readings = {name: reading_of(found, table.asked, reader.typed)
                for name, found in tallies.items() if name not in categories}  # fmt: skip
    faults = faults_of(reader, tallies, readings, table.asked)
    faulty = {name for fault in faults for name in fault.columns}
    both = {name for name in readings if tallies[name].words and tallies[name].numbers and name not in faulty}
    if both:
        words |= both
        tallies = counted_again(both)
    left = {name: tallies[name] for name, how in readings.items() if name not in faulty and how.kind == WORDS}
    if faults := [*ids(left, table.asked), *faults, *gaps(tallies, table.asked)]:
        raise refused(table.name, faults, table.asked)
    _check_texts(table, tallies)
    say_dates(table.name, [name for name, found in tallies.items() if found.numbers and found.dated])
    if remark := told(tallies, readings):
        note(f"{table.name}: read as numbers: {remark}")
    spelt = {name: reading.spelling for name, reading in readings.items()
             if reading.spelling and reading.spelling not in PAIRS and tallies[name].words}  # fmt: skip
    if spelt:
        words |= set() if reader.typed else spelt.keys()
        tallies = counted_again(spelt.keys(), spelt)
    return tallies, readings


def _sizes(name: str, found: Tally) -> dict[str, float]:
    """The largest |x| of the columns of numbers that a column becomes; words are columns of 0 and 1."""
    dates = found.dates
    if dates.first is not None and dates.last is not None:
        return {f"{name}: year": dates.years / dates.count, f"{name}: days": float(dates.last - dates.first)}
    return {name: 1.0 if found.words or dates.count else found.largest}


def ranges_of(largest: dict[str, float]) -> str:
    """A warning that names the columns whose ranges differ by more than MUCH; "" if none do. largest: of |x|."""
    largest = {name: size for name, size in largest.items() if size > 0.0}
    if not largest or max(largest.values()) <= MUCH * min(largest.values()):
        return ""
    middle = math.sqrt(max(largest.values()) * min(largest.values()))
    high = listed(f"{name} ({size:.3g})" for name, size in largest.items() if size > middle)
    low = listed(f"{name} ({size:.3g})" for name, size in largest.items() if size <= middle)
    return (
        f"the ranges of the columns differ by more than a thousandfold: max |x| of {high} is far above that of {low}; "
        "training takes more passes, and the penalty weighs most on small columns; try `scale=std`"
    )


def _check_texts(table: Table, tallies: dict[str, Tally]) -> None:
    """DataError for names and words that no file of ours can hold."""
    for name in (*tallies, *table.labels):
        words = tallies[name].words if name in tallies else ()
        bad = next((text for text in (name, *words) if "\0" in text), None)
        if bad is not None:
            raise DataError(
                f"{table.name}, column {short(name)}: {shown(bad)} has a NUL character; remove it from the table"
            )


def _column(table: Table, name: str, found: Tally, reading: Reading) -> Column:
    """The column of a schema for what was found."""
    indicator = table.asked.missing == INDICATOR and found.gaps > 0
    if reading.kind == DATES:
        return _date(table, name, found.dates, reading.spelling, indicator)
    if reading.kind == NUMBERS or not found.words:
        return _number(table, name, found, reading.spelling, indicator)
    return _category(name, found, table.asked.missing)


def _category(name: str, found: Tally, missing: str | None, numeric: bool = False) -> Column:
    """The column of a category: its most frequent words, and whether there are others."""
    frequent = sorted(found.words, key=lambda word: (-found.words[word], word))
    fill = None if missing is None else 0.0
    indicator = missing == INDICATOR and found.gaps > 0
    kept = tuple(sorted(frequent[:MOST_WORDS]))
    return Column(name, CATEGORY, kept, found.full or len(frequent) > MOST_WORDS, fill, indicator, numeric=numeric)


def _number(table: Table, name: str, found: Tally, spelling: str, indicator: bool) -> Column:
    missing = table.asked.missing
    true = PAIRS.get(spelling, PAIRS[TRUTH])[0]
    total = found.total + sum(times for word, times in found.words.items() if word.lower() == true)
    mean = total / max(1, found.numbers + found.words.total())
    if missing is not None and not math.isfinite(mean):
        raise DataError(
            f"{table.name}, column {short(name)}: the sum of its values overflows, so there is no mean; "
            "divide the column by a constant"
        )
    fill = None if missing is None else mean if missing != ZERO else 0.0
    return Column(name, NUMBER, fill=fill, indicator=indicator, spelling="" if spelling == TRUTH else spelling)


def _date(table: Table, name: str, found: Dates, spelling: str, indicator: bool) -> Column:
    """A date becomes numbers, if it has a day, and a column for each month, day of the week and hour that occur."""
    missing, words = table.asked.missing, found.words(spelling)
    if found.first is None:
        return Column(name, DATE, words, fill=None if missing is None else 0.0, indicator=indicator, spelling=spelling)
    fill = None if missing is None else found.days / found.count - found.first if missing != ZERO else 0.0
    year = found.years / found.count if missing not in (None, ZERO) else 0.0
    return Column(name, DATE, words, False, fill, indicator, spelling=spelling, first=iso(found.first), year=year)
