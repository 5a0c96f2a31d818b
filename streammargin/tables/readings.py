"""How each column of text is read, as numbers, dates or words, and what is at fault with those that it cannot be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from streammargin.matching import number_in, spelt
from streammargin.sources.names import listed
from streammargin.tables import dates, spellings
from streammargin.tables.asked import Asked
from streammargin.tables.forms import DATES, NUMBERS, of_kind, of_word, read
from streammargin.tables.header import all_of
from streammargin.tables.readers.base import Reader
from streammargin.tables.tally import Tally, first_word
from streammargin.wording import joined, short, shown, warn

WORDS = ""


class Reading(NamedTuple):
    """NUMBERS, DATES or WORDS; for the first two their spelling, or several that differ in the values."""

    kind: str = WORDS
    spellings: tuple[str, ...] = ()

    @property
    def spelling(self) -> str:
        """The only one; "" for words, and for numbers of programs."""
        return self.spellings[0] if self.spellings else ""


class Said(NamedTuple):
    """What is at fault with some columns, and the remedies. where: the place of the only column, "" for several.

    ids: whether the columns are ids.
    """

    what: str
    hint: str
    columns: list[str]
    where: str = ""
    ids: bool = False


def hold(names: Sequence[str]) -> str:
    """The beginning of a sentence about these columns."""
    return "1 column holds" if len(names) == 1 else f"{len(names)} columns hold"


def reading_of(found: Tally, asked: Asked, typed: bool) -> Reading:
    """How a column is read."""
    if found.dates.count:
        return Reading(DATES, (dates.TIME if found.dates.first is None else dates.NATIVE,))
    if not found.words or found.numbers or found.category:
        return Reading()
    if not found.many and (pair := spellings.pair_of(found.words)):
        return Reading(NUMBERS, (pair,))
    if typed and spellings.WHOLE in found.forms:  # a table that has numbers, too, has digits as text on purpose
        return Reading()
    if numbers := spellings.readings(found.forms, asked.decimal):
        return Reading(NUMBERS, tuple(numbers))
    if days := dates.readings(found.forms, asked.dates):
        return Reading(DATES, tuple(days))
    return Reading()


def mixed(reader: Reader, tallies: Mapping[str, Tally], readings: Mapping[str, Reading]) -> Iterator[Said]:
    """Columns of numbers, or of dates, with some words in them, or in several spellings."""
    left = {
        name: found
        for name, found in tallies.items()
        if readings[name].kind == WORDS and found.words and not found.category
    }
    for kind in (NUMBERS, DATES):
        odd = {name: words for name, found in left.items() if (words := _strangers(found, kind))}
        left = {name: found for name, found in left.items() if name not in odd}
        if not odd:
            continue
        name = next(iter(odd))
        where, word = first_word(reader, name, odd[name])
        hint = f"replace what is not a {kind}, or make categories of all with `categorical={joined(list(odd))}`"
        what = "is not a finite number" if kind == NUMBERS else "is not a date"
        if len(odd) > 1:
            said = f"{len(odd)} columns of {kind}s hold text, as {shown(word)} in {where}: {all_of(list(odd))}"
            yield Said(said, hint, list(odd))
            continue
        if other := _otherwise(tallies[name], kind, word):
            said = f"{shown(word)} is not written like {shown(other)}, and no format fits both"
            yield Said(said, f"write all {kind}s alike", [name], f"{where}, column {short(name)}")
            continue
        times = sum(tallies[name].words[each] for each in odd[name]) - 1
        more = f", nor are {times} more" if times else ""
        said = f"{shown(word)} {what}, as most of its values are{more}"
        yield Said(said, hint, [name], f"{where}, column {short(name)}")


def _strangers(found: Tally, kind: str) -> set[str]:
    """The words among the numbers, or dates, of a column; none if most of its values are words.

    If all are numbers or dates, that no spelling fits: those that the spellings of the first do not fit.
    """
    if found.forms:
        return set()
    words = list(found.words)
    fits = of_kind(pa.array(words, pa.string()), kind).tolist()
    inside = {word for word, fit in zip(words, fits, strict=True)
              if fit or (kind == NUMBERS and number_in(word) is not None)}  # fmt: skip
    values = sum(found.words[word] for word in inside) + (found.numbers if kind == NUMBERS else 0)
    if not values or 2 * values < found.rows - found.gaps:
        return set()
    if (others := set(words) - inside) or found.numbers:
        return others
    forms = of_word(words[0])
    for word in words:
        forms &= of_word(word)
        if not forms:
            return {word}
    return set()


def _otherwise(found: Tally, kind: str, word: str) -> str:
    """The first value, if this is a number or a date like it, in another spelling; else ""."""
    first = next(iter(found.words))
    both = of_kind(pa.array([first, word], pa.string()), kind).all()
    return first if both and not found.numbers and first != word else ""


def undecided(
    reader: Reader, tallies: Mapping[str, Tally], readings: Mapping[str, Reading], asked: Asked
) -> Iterator[Said]:
    """Columns that may be read in several ways, and dates unless they were asked for."""
    numbers = [name for name, reading in readings.items() if reading.kind == NUMBERS and len(reading.spellings) > 1]
    if numbers:
        name = numbers[0]
        word = next(word for word in tallies[name].words if "," in word or "." in word)
        both = [spelt(_value(word, spelling)) for spelling in readings[name].spellings]
        where, word = first_word(reader, name, {word})
        said = f"{shown(word)} may be {both[0]} or {both[1]}"
        hint = "choose with `decimal=point` or `decimal=comma`"
        if len(numbers) == 1:
            yield Said(said, hint, numbers, f"{where}, column {short(name)}")
        else:
            yield Said(f"{len(numbers)} columns hold ambiguous numbers, as in {where}, where {said}: "
                       f"{all_of(numbers)}", hint, numbers)  # fmt: skip
    days = [name for name, reading in readings.items() if reading.kind == DATES]
    doubtful = [name for name in days if len(readings[name].spellings) > 1]
    if days and (asked.dates is None or doubtful):
        names = days if asked.dates is None else doubtful
        where = next(place for kind, place in tallies[names[0]].first.items() if kind != "gap")
        said = f"{hold(names)} dates, as in {where}: {all_of(names)}"
        hint = "expand them with `dates=True`"
        if doubtful:
            word = next(iter(tallies[doubtful[0]].words))
            ways = " or ".join(dict.fromkeys(readings[doubtful[0]].spellings))
            said += f"; {shown(word)} may be {ways}"
            hint = "expand them with `dates=day-first` or `dates=month-first`"
        yield Said(said, hint.replace("them", "it") if len(names) == 1 else hint, names)


def _value(word: str, spelling: str) -> float:
    return float(spellings.numbers_in(pa.array([word]), spelling)[0])


def told(tallies: Mapping[str, Tally], readings: Mapping[str, Reading]) -> str:
    """The columns that are read as numbers or dates though they are written otherwise, with an example each."""
    said = []
    for name, reading in readings.items():
        words = [word for word in tallies[name].words if number_in(word) is None]
        if words and reading.kind == NUMBERS and reading.spelling != spellings.TRUTH:
            said.append(f"{short(name)} ({shown(words[0])} is {spelt(_value(words[0], reading.spelling))})")
        elif words and reading.kind == DATES:
            value = read(pa.array(words[:1]).dictionary_encode(), reading.spelling)[0][0]
            said.append(f"{short(name)} ({shown(words[0])} is {value})")
    return listed(said)


def say_dates(table: str, names: list[str]) -> None:
    """Warn of columns of whole numbers that all read as dates."""
    if names:
        are = "looks like dates, and counts as a number" if len(names) == 1 else "look like dates, and count as numbers"
        hint = "write dates as 2024-01-31, and expand them with `dates=True`"
        warn(f"{table}: {all_of(names)} {are}, as 20240131; {hint}")
