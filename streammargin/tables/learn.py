"""Learn the schema of a table in one pass: numbers, booleans, categories and gaps of each column."""

from __future__ import annotations

import math
from typing import NamedTuple

from streammargin.errors import DataError
from streammargin.sources.base import MUCH
from streammargin.sources.names import listed
from streammargin.tables.asked import INDICATOR, ZERO
from streammargin.tables.readers.base import Reader
from streammargin.tables.schema import CATEGORY, MOST_WORDS, NUMBER, TEXT, Column, Schema
from streammargin.tables.table import Table
from streammargin.tables.tally import BOOLEANS, Tally, first_word, tally, too_many
from streammargin.wording import counted, one_line

SHOWN = 40  # characters of a value in a message


class Learnt(NamedTuple):
    """What one pass over a table finds: its schema, its number of rows, and a warning about ranges ("" for none)."""

    schema: Schema
    rows: int
    ranges: str = ""


def learn(table: Table, schema: Schema | None = None) -> Learnt:
    """The schema of a table, and its number of rows. schema: given where it is that of another table.

    Reads the table once, and once more where a column holds words here and numbers there. Raises DataError.
    """
    reader, text = table.reader, dict(table.asked.text)
    values = [] if schema is not None else [name for name in table.values if name not in text]
    label = [table.label] if table.label else []
    # read here though nothing is learnt of them, so that all that is needed is parsed at once
    others = [name for name in [*table.values, table.weight] if name and name not in values]
    words = frozenset([*([] if reader.typed else label), *(text if schema is None else schema.worded)])
    tallies = tally(reader, [*label, *values], others, words, table.label)
    labels = tallies.pop(table.label, Tally())
    if labels.gaps:
        where = labels.first["gap"]
        raise DataError(f"{table.name}, {where}: the label is missing; drop the row or give it a label")
    rows = max((found.rows for found in [labels, *tallies.values()]), default=0)
    if schema is not None:
        return Learnt(schema, rows)
    for name, found in tallies.items():
        _check_mixed(reader.plain(), name, found)
    both = frozenset(name for name, found in tallies.items() if found.words and found.numbers)
    if both:
        tallies = tally(reader, values, [*label, *others], words | both)
    _check_types(table.name, tallies)
    _check_gaps(table, tallies)
    _check_texts(table, tallies)
    columns = [
        Column(name, TEXT, ngrams=text[name]) if name in text else _column(table, name, tallies[name])
        for name in table.values
    ]
    dtype = "float32" if all(found.narrow for found in tallies.values()) else "float64"
    return Learnt(Schema(tuple(columns), table.label, dtype, reader.named), rows, _ranges(tallies))


def _ranges(tallies: dict[str, Tally]) -> str:
    """A warning that names the columns whose ranges differ by more than MUCH; "" where none do."""
    largest = {name: 1.0 if found.words else found.largest for name, found in tallies.items()}
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


def _check_mixed(reader: Reader, name: str, found: Tally) -> None:
    """DataError for a column of numbers with some words in it."""
    if not found.words:
        return
    numbers = found.numbers + sum(times for word, times in found.words.items() if _is_number(word))
    others = [word for word in found.words if not _is_number(word)]
    if not others or not numbers or 2 * numbers < found.rows - found.gaps:
        return
    where, word = first_word(reader, name, set(others))
    word = one_line(word)[:SHOWN]
    mend = "write decimals with a point" if _is_number(word.replace(",", ".")) else "replace it"
    raise DataError(
        f"{reader.name}, {where}, column {one_line(name)}: {word!r} is not a finite number, as most of its values are; "
        f"{mend}, or leave the column out with `drop={one_line(name)}`"
    )


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word)) and "_" not in word
    except ValueError:
        return False


def _check_types(table: str, tallies: dict[str, Tally]) -> None:
    """DataError for dates and other types, all columns at once."""
    for kind in sorted({kind for found in tallies.values() for kind in found.first} - {"number", "words", "gap"}):
        names = [name for name, found in tallies.items() if kind in found.first]
        what = "dates" if kind == "date" else f"values of type {kind}"
        raise DataError(
            f"{table}: {counted(len(names), 'column')} hold {what}, as in {tallies[names[0]].first[kind]}: "
            f"{listed(names)}; turn them into numbers, or leave them out with `drop={','.join(map(one_line, names))}`"
        )
    empty = [name for name, found in tallies.items() if found.gaps == found.rows]
    if empty:
        raise DataError(
            f"{table}: {counted(len(empty), 'column')} hold no value at all: {listed(empty)}; leave them out with "
            f"`drop={','.join(map(one_line, empty))}`"
        )


def _check_texts(table: Table, tallies: dict[str, Tally]) -> None:
    """DataError for names and words that no file of ours can hold."""
    for name in (*tallies, table.label):
        words = tallies[name].words if name in tallies else ()
        bad = next((text for text in (name, *words) if "\0" in text), None)
        if bad is not None:
            raise DataError(
                f"{table.name}, column {one_line(name)}: {bad[:SHOWN]!r} has a NUL character; remove it from the table"
            )


def _check_gaps(table: Table, tallies: dict[str, Tally]) -> None:
    """DataError for gaps that nothing stands for, all columns with their counts."""
    gaps = {name: found for name, found in tallies.items() if found.gaps}
    if not gaps or table.asked.missing is not None:
        return
    counts = listed(f"{name} ({found.gaps})" for name, found in gaps.items())
    first = next(iter(gaps.values())).first["gap"]
    raise DataError(
        f"{table.name}: {counted(len(gaps), 'column')} have missing values, the first in {first}: {counts}; fill them "
        "with `missing=mean`, zero or indicator, or leave the columns out with `drop`"
    )


def _column(table: Table, name: str, found: Tally) -> Column:
    """The column of a schema for what was found."""
    missing = table.asked.missing
    indicator = missing == INDICATOR and found.gaps > 0
    if not found.words or {word.lower() for word in found.words} <= BOOLEANS.keys():
        total = found.total + sum(BOOLEANS[word.lower()] * times for word, times in found.words.items())
        mean = total / max(1, found.numbers + found.words.total())
        fill = None if missing is None else mean if missing != ZERO else 0.0
        return Column(name, NUMBER, fill=fill, indicator=indicator)
    if len(found.words) > max(MOST_WORDS, found.rows // 2):
        raise too_many(table.name, name, found)
    frequent = sorted(found.words, key=lambda word: (-found.words[word], word))
    fill = None if missing is None else 0.0
    kept = tuple(sorted(frequent[:MOST_WORDS]))
    return Column(name, CATEGORY, kept, len(frequent) > MOST_WORDS, fill, indicator)
