"""Learn the schema of a table in one pass: numbers, booleans, categories and gaps of each column."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from streammargin.errors import DataError
from streammargin.matching import number_in
from streammargin.sources.base import MUCH
from streammargin.sources.names import listed
from streammargin.sources.schema import CATEGORY, MOST_WORDS, NUMBER, TEXT, Column, Schema
from streammargin.tables.asked import INDICATOR, ZERO
from streammargin.tables.header import all_of
from streammargin.tables.readers.base import Reader
from streammargin.tables.table import Table
from streammargin.tables.tally import BOOLEANS, Tally, Tallying, first_word, no_label, tally, too_many
from streammargin.wording import counted, short, shown


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
    words = frozenset([*([] if reader.typed else table.beside.spelt), *(text if schema is None else schema.worded)])
    tallies = tally(reader, [*table.labels, *values], others, words, table.labels)
    rows = max((found.rows for found in tallies.values()), default=0)
    for name in table.labels:
        labels = tallies.pop(name)
        if labels.gaps:
            raise no_label(table.name, labels.first["gap"], name if len(table.labels) > 1 else "")
    if schema is not None:
        return Learnt(schema, rows)
    _check(table, reader.plain(), tallies)
    both = frozenset(name for name, found in tallies.items() if found.words and found.numbers)
    if both:
        tallies = tally(reader, values, [*table.labels, *others], words | both, ())
    _check_texts(table, tallies)
    columns = [
        Column(name, TEXT, ngrams=text[name]) if name in text else _column(table, name, tallies[name])
        for name in table.values
    ]
    dtype = "float32" if all(found.narrow for found in tallies.values()) else "float64"
    # words are columns of 0 and 1
    ranges = ranges_of({name: 1.0 if found.words else found.largest for name, found in tallies.items()})
    return Learnt(Schema(tuple(columns), table.labels, dtype, reader.named), rows, ranges)


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


class _Fault(NamedTuple):
    """The message on some columns, with a hint. where: the place of the only column, "" for several."""

    what: str
    hint: str
    columns: list[str]
    where: str = ""


def _check(table: Table, reader: Reader, tallies: dict[str, Tally]) -> None:
    """DataError for columns that make no numbers, all at once. reader: the one that parses."""
    found = [_mixed(reader, tallies), *_types(tallies), _empty(tallies), _gaps(table, tallies)]
    faults = [fault for fault in found if fault is not None]
    if not faults:
        return
    columns = [name and short(name) for name in dict.fromkeys(name for fault in faults for name in fault.columns)]
    hints = list(dict.fromkeys(fault.hint for fault in faults if fault.hint))
    leave = f"leave {'it' if len(columns) == 1 else 'them'} out with `drop={','.join(columns)}`"
    said = "; ".join(f"{fault.where}: {fault.what}" if fault.where else fault.what for fault in faults)
    apart = ", " if faults[0].where else ": "
    raise DataError(f"{table.name}{apart}{said}; {', or '.join([', '.join(hints), leave] if hints else [leave])}")


def _mixed(reader: Reader, tallies: dict[str, Tally]) -> _Fault | None:
    """Columns of numbers with some words in them, or of numbers with decimal commas."""
    others = {name: words for name, found in tallies.items() if (words := _strangers(found))}
    if not others:
        return None
    name = next(iter(others))
    where, word = first_word(reader, name, others[name])
    commas = number_in(word.replace(",", ".")) is not None
    hint = "write decimals with a point" if commas else "replace what is no number"
    if len(others) == 1:
        times = sum(tallies[name].words[each] for each in others[name]) - 1
        more = f", nor are {times} more" if times else ""
        what = f"{shown(word)} is not a finite number, as most of its values are{more}"
        return _Fault(what, hint, [name], f"{where}, column {short(name)}")
    what = f"{len(others)} columns of numbers hold words, as {shown(word)} in {where}: {all_of(list(others))}"
    return _Fault(what, hint, list(others))


def _strangers(found: Tally) -> set[str]:
    """The words among the numbers of a column; none if most of its values are words."""
    if not found.words:
        return set()
    numbers = found.numbers + sum(times for word, times in found.words.items() if number_in(word) is not None)
    others = {word for word in found.words if number_in(word) is None}
    commas = sum(found.words[word] for word in others if number_in(word.replace(",", ".", 1)) is not None)
    return others if numbers + commas and 2 * (numbers + commas) >= found.rows - found.gaps else set()


def _types(tallies: dict[str, Tally]) -> Iterator[_Fault]:
    """Dates and other types."""
    for kind in sorted({kind for found in tallies.values() for kind in found.first} - {"number", "words", "gap"}):
        names = [name for name, found in tallies.items() if kind in found.first]
        what = "dates" if kind == "date" else f"values of type {kind}"
        where = tallies[names[0]].first[kind]
        said = f"{_hold(names)} {what}, as in {where}: {all_of(names)}"
        yield _Fault(said, "turn them into numbers", names)


def _empty(tallies: dict[str, Tally]) -> _Fault | None:
    """Columns of gaps alone."""
    names = [name for name, found in tallies.items() if found.gaps == found.rows]
    if not names:
        return None
    return _Fault(f"{_hold(names)} no value at all: {all_of(names)}", "", names)


def _hold(names: list[str]) -> str:
    return "1 column holds" if len(names) == 1 else f"{len(names)} columns hold"


def _check_texts(table: Table, tallies: dict[str, Tally]) -> None:
    """DataError for names and words that no file of ours can hold."""
    for name in (*tallies, *table.labels):
        words = tallies[name].words if name in tallies else ()
        bad = next((text for text in (name, *words) if "\0" in text), None)
        if bad is not None:
            raise DataError(
                f"{table.name}, column {short(name)}: {shown(bad)} has a NUL character; remove it from the table"
            )


def _gaps(table: Table, tallies: dict[str, Tally]) -> _Fault | None:
    """Gaps that nothing stands for, all columns with their counts."""
    gaps = {name: found for name, found in tallies.items() if 0 < found.gaps < found.rows}
    if not gaps or table.asked.missing is not None:
        return None
    counts = all_of([f"{short(name)} ({found.gaps})" for name, found in gaps.items()])
    where = next(iter(gaps.values())).first["gap"]
    hint = "fill missing values with `missing=mean`, zero or indicator"
    if len(gaps) == 1:
        (name,) = gaps
        more = f", as in {counted(gaps[name].gaps - 1, 'more row')}" if gaps[name].gaps > 1 else ""
        return _Fault(f"the value is missing{more}", hint, [name], f"{where}, column {short(name)}")
    return _Fault(f"{len(gaps)} columns have missing values, the first in {where}: {counts}", hint, list(gaps))


def _column(table: Table, name: str, found: Tally) -> Column:
    """The column of a schema for what was found."""
    missing = table.asked.missing
    indicator = missing == INDICATOR and found.gaps > 0
    if not found.words or {word.lower() for word in found.words} <= BOOLEANS.keys():
        total = found.total + sum(BOOLEANS[word.lower()] * times for word, times in found.words.items())
        mean = total / max(1, found.numbers + found.words.total())
        if missing is not None and not math.isfinite(mean):
            raise DataError(
                f"{table.name}, column {short(name)}: the sum of its values overflows, so there is no mean for gaps; "
                "divide the column by a constant"
            )
        fill = None if missing is None else mean if missing != ZERO else 0.0
        return Column(name, NUMBER, fill=fill, indicator=indicator)
    if len(found.words) > max(MOST_WORDS, found.rows // 2):
        raise too_many(table.name, name, found)
    frequent = sorted(found.words, key=lambda word: (-found.words[word], word))
    fill = None if missing is None else 0.0
    kept = tuple(sorted(frequent[:MOST_WORDS]))
    return Column(name, CATEGORY, kept, len(frequent) > MOST_WORDS, fill, indicator)
