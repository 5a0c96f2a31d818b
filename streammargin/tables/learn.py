"""Learn the schema of a table in one pass: numbers, booleans, categories and gaps of each column.

Each column of text is read as numbers, dates or words. All that is at fault with columns is in one refusal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from streammargin.arrow import pa
from streammargin.errors import DataError
from streammargin.matching import number_in, spelt
from streammargin.sources.labels import mended
from streammargin.sources.names import all_of, listed
from streammargin.sources.schema import CATEGORY, DATE, MOST_WORDS, NUMBER, TEXT, Column, Schema
from streammargin.tables import dates, spellings
from streammargin.tables.asked import INDICATOR, ZERO, Asked
from streammargin.tables.dates import Dates
from streammargin.tables.readers.base import Reader, words_of
from streammargin.tables.spellings import COMMA, DATE_KIND, HELPERS, NUMBER_KIND, PAIRS, TRUTH, of_kind, of_word, read
from streammargin.tables.table import Table
from streammargin.tables.tally import Counting, Rising, Tallied, first_word, no_label, tally
from streammargin.wording import counted, in_list, joined, note, short, shown, warn

WORDS = ""
CATEGORICAL, DATES_EXPANDED, MISSING, DROP, COUNTED = "categorical", "dates", "missing", "drop", "text"  # they mend
KNOWN = {"number", "words", "date", "gap", "more"}  # what columns may hold, and what else has a place
FEWEST = 20  # rows that tell whether a column is an id
LOOKED_AT = 1000  # words that tell whether they are text


class ReadAs(NamedTuple):
    """NUMBER_KIND, DATE_KIND or WORDS; for the first two their spelling, or several that differ in the values."""

    kind: str = WORDS
    spellings: tuple[str, ...] = ()

    @property
    def spelling(self) -> str:
        """The only one; "" for words, and for numbers of programs."""
        return self.spellings[0] if self.spellings else ""


class Said(NamedTuple):
    """What is at fault with some columns, and the remedies. where: the place of the only column, "" for several.

    mends: the columns by the option that mends them; none if the user has to choose by the hint. ids: whether the
    columns are ids.
    """

    what: str
    hint: str
    columns: list[str]
    mends: Mapping[str, list[str]]
    where: str = ""
    ids: bool = False


def hold(names: Sequence[str]) -> str:
    """The beginning of a sentence about these columns."""
    return "1 column holds" if len(names) == 1 else f"{len(names)} columns hold"


def reading_of(found: Tallied, asked: Asked, typed: bool) -> ReadAs:
    """How a column is read."""
    if found.dates.count:
        return ReadAs(DATE_KIND, (dates.TIME if found.dates.first is None else dates.NATIVE,))
    if not found.words or found.numbers or found.category:
        return ReadAs()
    if not found.many and (pair := spellings.pair_of(found.words)):
        return ReadAs(NUMBER_KIND, (pair,))
    if typed and spellings.WHOLE in found.forms:  # a table that has numbers, too, has digits as text on purpose
        return ReadAs()
    if numbers := spellings.readings(found.forms, asked.decimal):
        return ReadAs(NUMBER_KIND, tuple(numbers))
    if days := dates.readings(found.forms, asked.dates):
        return ReadAs(DATE_KIND, tuple(days))
    return ReadAs()


def mixed(reader: Reader, tallies: Mapping[str, Tallied], readings: Mapping[str, ReadAs]) -> Iterator[Said]:
    """Columns of numbers, or of dates, with some words in them, or in several spellings."""
    left = {
        name: found
        for name, found in tallies.items()
        if readings[name].kind == WORDS and found.words and not found.category
    }
    for kind in (NUMBER_KIND, DATE_KIND):
        odd = {name: words for name, found in left.items() if (words := _strangers(found, kind))}
        left = {name: found for name, found in left.items() if name not in odd}
        if not odd:
            continue
        name = next(iter(odd))
        where, word = first_word(reader, name, odd[name].__contains__)
        hint = f"replace what is not a {kind}, or make categories of all with `categorical={joined(list(odd))}`"
        what = "is not a finite number" if kind == NUMBER_KIND else "is not a date"
        few = [name for name in odd if not tallies[name].many and len(tallies[name].words) <= MOST_WORDS]
        mends = {CATEGORICAL: few, DROP: [name for name in odd if name not in few]}
        if len(odd) > 1:
            said = f"{len(odd)} columns of {kind}s hold text, as {shown(word)} in {where}: {all_of(list(odd))}"
            yield Said(said, hint, list(odd), mends)
            continue
        if other := _otherwise(tallies[name], kind, word):
            said = f"{shown(word)} is not written like {shown(other)}, and no format fits both"
            yield Said(said, f"write all {kind}s alike", [name], mends, f"{where}, column {short(name)}")
            continue
        times = sum(tallies[name].words[each] for each in odd[name]) - 1
        more = f", nor are {times} more" if times else ""
        said = f"{shown(word)} {what}, as most of its values are{more}"
        yield Said(said, hint, [name], mends, f"{where}, column {short(name)}")


def _strangers(found: Tallied, kind: str) -> set[str]:
    """The words among the numbers, or dates, of a column; none if most of its values are words.

    If all are numbers or dates, that no spelling fits: those that the spellings of the first do not fit.
    """
    if found.forms:
        return set()
    words = list(found.words)
    fits = of_kind(pa.array(words, pa.string()), kind).tolist()
    inside = {word for word, fit in zip(words, fits, strict=True)
              if fit or (kind == NUMBER_KIND and number_in(word) is not None)}  # fmt: skip
    values = sum(found.words[word] for word in inside) + (found.numbers if kind == NUMBER_KIND else 0)
    if not values or 2 * values < found.rows - found.gaps:
        return set()
    if (others := set(words) - inside) or found.numbers:
        return others
    forms = of_word(words[0])
    for word in words:
        forms &= of_word(word)
        if forms <= HELPERS:
            return {word}
    return set()


def _otherwise(found: Tallied, kind: str, word: str) -> str:
    """The first value, if this is a number or a date like it, in another spelling; else ""."""
    first = next(iter(found.words))
    both = of_kind(pa.array([first, word], pa.string()), kind).all()
    return first if both and not found.numbers and first != word else ""


def undecided(
    reader: Reader, tallies: Mapping[str, Tallied], readings: Mapping[str, ReadAs], asked: Asked
) -> Iterator[Said]:
    """Columns that may be read in several ways, and dates unless they were asked for."""
    numbers = [name for name, reading in readings.items() if reading.kind == NUMBER_KIND and len(reading.spellings) > 1]
    if numbers:
        name = numbers[0]
        values = lambda word: [spelt(_value(word, each)) for each in readings[name].spellings]  # noqa: E731
        differ = lambda word: ("," in word or "." in word) and len({*values(word)}) > 1  # noqa: E731
        where, word = first_word(reader, name, differ)  # it may be none of those that were counted
        both = values(word)
        said = f"{shown(word)} may be {both[0]} or {both[1]}"
        hint = "choose with `decimal=point` or `decimal=comma`"
        if len(numbers) == 1:
            yield Said(said, hint, numbers, {}, f"{where}, column {short(name)}")
        else:
            yield Said(f"{len(numbers)} columns hold ambiguous numbers, as in {where}, where {said}: "
                       f"{all_of(numbers)}", hint, numbers, {})  # fmt: skip
    days = [name for name, reading in readings.items() if reading.kind == DATE_KIND]
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
        mends = {} if doubtful else {DATES_EXPANDED: names}
        yield Said(said, hint.replace("them", "it") if len(names) == 1 else hint, names, mends)


def _value(word: str, spelling: str) -> float:
    return float(spellings.numbers_in(pa.array([word]), spelling)[0])


def told(tallies: Mapping[str, Tallied], readings: Mapping[str, ReadAs], kind: str) -> str:
    """The columns that are read as numbers, or as dates, though they are written otherwise, with an example each."""
    said = []
    for name, reading in readings.items():
        if reading.kind != kind:
            continue
        words = [word for word in tallies[name].words if number_in(word) is None]
        if words and kind == NUMBER_KIND and reading.spelling != spellings.TRUTH:
            said.append(f"{in_list(name)} ({shown(words[0])} is {spelt(_value(words[0], reading.spelling))})")
        elif words and kind == DATE_KIND:
            value = read(pa.array(words[:1]).dictionary_encode(), reading.spelling)[0][0]
            said.append(f"{in_list(name)} ({shown(words[0])} is {value})")
    return listed(said, str)


def say_dates(table: str, names: list[str]) -> None:
    """Warn of columns of whole numbers that all read as dates."""
    if names:
        are = "looks like dates, and counts as a number" if len(names) == 1 else "look like dates, and count as numbers"
        hint = "write dates as 2024-01-31, and expand them with `dates=True`"
        warn(f"{table}: {all_of(names)} {are}, as 20240131; {hint}")


def say_ids(table: Table, rising: Mapping[str, Rising]) -> None:
    """Warn of columns of numbers that rise from row to row, unless `columns` names them."""
    names = [name for name, each in rising.items() if each.holds and name not in table.asked.columns]
    if not names:
        return
    found = [f"{in_list(name)} ({spelt(rising[name].low)} to {spelt(rising[name].high)})" for name in names]
    one = len(names) == 1
    are = "rises from row to row, as an id or a time does" if one else "rise from row to row, as ids and times do"
    hint = f"leave {'it' if one else 'them'} out with `drop={joined([*table.asked.drop, *names])}`"
    unless = "it is a measurement" if one else "they are measured"
    warn(f"{table.name}: {all_of(found, str)} {are}; unless {unless}, {hint}")


def say_wide(table: Table, names: list[str]) -> None:
    """Say which columns of numbers need float64."""
    names = [name for name in names if name not in table.asked.columns]
    if names:
        what, them = ("it is a code or an id", "it") if len(names) == 1 else ("they are codes or ids", "them")
        hint = f"if {what}, leave {them} out with `drop={joined([*table.asked.drop, *names])}`"
        note(f"{table.name}: values are float64, as float32 would change values of {all_of(names)}; {hint}")


def say_codes(table: str, names: list[str]) -> None:
    """Warn of columns of numbers that begin with 0, of which numbers have no zeros in front. names: with examples."""
    if names:
        are = "begins with 0, and counts as a number" if len(names) == 1 else "begin with 0, and count as numbers"
        warn(f"{table}: {all_of(names, str)} {are}; if it is a code, name its column in `categorical`")


def say_digits(table: str, names: list[str]) -> None:
    """Warn of columns of categories that may be numbers."""
    if names:
        hint = "write numbers and dates without units and other signs, or name the columns in `categorical`"
        warn(f"{table}: texts that differ by their digits count as categories: {all_of(names, str)}; {hint}")


def say_texts(table: str, names: list[str], counted: bool) -> None:
    """Warn of columns of categories that may be free text. counted: the words of a column are counted already."""
    if names:
        hint = f"{'' if counted else 'count the words of one with `text`, or '}name them in `drop` or `categorical`"
        warn(f"{table}: texts that look like sentences count as categories: {all_of(names)}; {hint}")


def faults_of(
    reader: Reader, tallies: Mapping[str, Tallied], readings: Mapping[str, ReadAs], asked: Asked
) -> list[Said]:  # fmt: skip
    """Columns that make no numbers. readings: of all columns but categories."""
    read = {name: tallies[name] for name in readings}
    return [*mixed(reader, read, readings), *undecided(reader, read, readings, asked), *_types(read), *_empty(tallies)]


def refused(table: str, faults: Sequence[Said], asked: Asked) -> DataError:
    """The refusal of a table. A single fault has all its remedies; several faults have one command for all of them."""
    said = "; ".join(f"{fault.where}: {fault.what}" if fault.where else fault.what for fault in faults)
    said = f"{table}{', ' if faults[0].where else ': '}{said}"
    if len(faults) > 1:
        choices = [fault.hint for fault in faults if not fault.mends]
        command = _command(faults, asked)
        return DataError(f"{said}; {', and '.join([f'use {command}', *choices] if command else choices)}")
    [fault] = faults
    drop = f"`drop={joined([*asked.drop, *fault.columns])}`"
    if fault.ids:
        return DataError(f"{said}: {drop}, or {fault.hint}")
    leave = f"leave {'it' if len(fault.columns) == 1 else 'them'} out with {drop}"
    return DataError(f"{said}; {f'{fault.hint}, or {leave}' if fault.hint else leave}")


def _command(faults: Sequence[Said], asked: Asked) -> str:
    """The options that keep as many columns as can be, those that were given among them; "" for none."""
    mends: dict[str, list[str]] = {CATEGORICAL: [], DATES_EXPANDED: [], MISSING: [], DROP: [], COUNTED: []}
    for fault in faults:
        for option, names in fault.mends.items():
            mends[option] += names
    values = {
        CATEGORICAL: joined([*asked.categorical, *mends[CATEGORICAL]]), DATES_EXPANDED: "True", MISSING: "mean",
        DROP: joined([*asked.drop, *mends[DROP]]), COUNTED: joined(mends[COUNTED]),
    }  # fmt: skip
    if set(mends[MISSING]) <= set(mends[DROP]):
        mends[MISSING] = []
    return " ".join(f"`{option}={values[option]}`" for option, names in mends.items() if names)


def ids(tallies: Mapping[str, Tallied], asked: Asked) -> Iterator[Said]:
    """Columns whose words are mostly of one row each, and so say nothing of other rows: ids, and texts of sentences."""
    found = {name: tally for name, tally in tallies.items() if _is_id(tally)}
    texts = {name: tally for name, tally in found.items() if _is_text(tally)}
    if plain := {name: tally for name, tally in found.items() if name not in texts}:
        them = "it" if len(plain) == 1 else "them"
        hint = f"keep {them} with `categorical={joined([*asked.categorical, *plain])}`"
        yield Said(_alike(plain, "an id", "ids"), hint, list(plain), {DROP: list(plain)}, ids=True)
    if texts:
        longest = max(texts, key=lambda name: texts[name].letters / len(texts[name].words))
        taken = [] if asked.text else [longest]  # one column at most
        others = [name for name in texts if name not in taken]
        mends = {COUNTED: taken, DROP: others}
        hint = f"count the words of {short(longest) if others else 'it'} with `text={joined(taken)}`"
        hint += f" and `drop={joined([*asked.drop, *others])}`" if others else ""
        yield Said(_alike(texts, "free text", "free text"), hint if taken else "", list(texts), mends)
    for name, known in tallies.items():
        if known.full and name not in found:
            what = f"{_different(known)} different texts are too many for categories"
            hint = (
                f"count its words with `text={joined([name])}`, or take the {MOST_WORDS} most frequent with "
                f"`categorical={joined([*asked.categorical, name])}`"
            )
            place = known.first.get("more", "its rows")
            yield Said(what, hint, [name], {CATEGORICAL: [name]}, f"{place}, column {short(name)}")


def _alike(found: Mapping[str, Tallied], one: str, several: str) -> str:
    """What columns of words look like, with an example each."""
    such = [f"({_different(tally)} different texts in {tally.rows} rows, such as {shown(next(iter(tally.words)))})"
            for tally in found.values()]  # fmt: skip
    names = list(map(in_list, found))
    if len(names) == 1:
        return f"{names[0]} looks like {one} {such[0]}"
    return f"{len(names)} columns look like {several}: {all_of(list(map('{} {}'.format, names, such)), str)}"


def _is_id(found: Tallied, part: int = 2) -> bool:
    """Whether more than 1 / part of the rows with a word have one that occurs once, or there are very many words.

    Words beyond the most are not counted, nor are their rows here: those that are known tell.
    """
    rows = found.words.total()
    if rows < FEWEST:
        return False
    once = sum(times == 1 for times in found.words.values())
    return part * once > rows or (not found.full and len(found.words) > max(MOST_WORDS, rows // 2))


def _different(found: Tallied) -> str:
    return f"more than {len(found.words)}" if found.full else f"{len(found.words)}"


def _is_text(found: Tallied) -> bool:
    """Whether most words are several, as in a sentence."""
    words = list(islice(found.words, LOOKED_AT))
    return 2 * sum(len(word.split()) > 2 for word in words) > len(words)


def _by_digits(found: Tallied) -> bool:
    """Whether most of many words differ by their digits alone, as 12 kg and 3.5 kg."""
    words = list(islice(found.words, LOOKED_AT))
    if len(words) < FEWEST or found.category or spellings.WHOLE in found.forms:
        return False
    return 5 * len({re.sub(r"[\d.,]+", "0", word) for word in words}) <= len(words)


def _types(tallies: Mapping[str, Tallied]) -> Iterator[Said]:
    """Types of neither numbers nor words nor dates."""
    for kind in sorted({kind for found in tallies.values() for kind in found.first} - KNOWN):
        names = [name for name, found in tallies.items() if kind in found.first]
        where = tallies[names[0]].first[kind]
        said = f"{hold(names)} values of type {kind}, as in {where}: {all_of(names)}"
        yield Said(said, "turn them into numbers", names, {DROP: names})


def _empty(tallies: Mapping[str, Tallied]) -> Iterator[Said]:
    """Columns of gaps alone."""
    names = [name for name, found in tallies.items() if found.gaps == found.rows]
    if names:
        yield Said(f"{hold(names)} no value at all: {all_of(names)}", "", names, {DROP: names})


def gaps(tallies: Mapping[str, Tallied], asked: Asked) -> Iterator[Said]:
    """Gaps that nothing stands for, all columns with their counts."""
    found = {name: tally for name, tally in tallies.items() if 0 < tally.gaps < tally.rows}
    if not found or asked.missing is not None:
        return
    where = next(iter(found.values())).first["gap"]
    hint = "fill missing values with `missing=mean`, zero or indicator"
    if len(found) == 1:
        [(name, tally)] = found.items()
        more = f", as in {counted(tally.gaps - 1, 'more row')}" if tally.gaps > 1 else ""
        yield Said(f"the value is missing{more}", hint, [name], {MISSING: [name]}, f"{where}, column {short(name)}")
        return
    counts = all_of([f"{in_list(name)} ({tally.gaps})" for name, tally in found.items()], str)
    said = f"{len(found)} columns have missing values, the first in {where}: {counts}"
    yield Said(said, hint, list(found), {MISSING: list(found)})


Tallying = Callable[[Reader, Counting], dict[str, Tallied]]


class Learnt(NamedTuple):
    """The result of one pass over a table: its schema, and its number of rows."""

    schema: Schema
    rows: int


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
            how = f"pandas by table.dropna(subset={name!r})" if reader.named else ""
            end = mended(labels.gaps, "label", "", how)
            raise no_label(table.name, labels.first["gap"], end, name if len(table.labels) > 1 else "")
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
    schema = Schema(tuple(columns), table.labels, dtype, reader.named, weight=table.weight)
    return Learnt(schema, rows)


def _settled(
    table: Table, tallies: dict[str, Tallied], words: frozenset[str], tally: Tallying, categories: Set[str]
) -> tuple[dict[str, Tallied], dict[str, ReadAs]]:
    """(what the columns hold once each is read in one way, how others than categories are read).

    categories: the columns whose values are words whatever they look like. Raises DataError if some cannot be read.
    """
    reader = table.reader

    def counted_again(names: Set[str], spelt: Mapping[str, str] = {}) -> dict[str, Tallied]:
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
    whole = {name: found for name, found in left.items() if found.numbers == found.rows and not found.dated}
    say_ids(table, {name: found.rising for name, found in whole.items() if found.rows >= FEWEST})
    say_wide(table, [name for name, found in left.items() if found.wide])
    say_codes(table.name, [f"{in_list(name)} ({shown(word)})" for name, word in reader.padded.items()
                           if name in left and left[name].numbers and not left[name].words])  # fmt: skip
    say_digits(table.name, [f"{in_list(name)} ({shown(next(iter(found.words)))})"
                            for name, found in left.items() if _by_digits(found)])  # fmt: skip
    say_texts(table.name, [name for name, found in left.items() if _is_text(found) and _is_id(found, 4)],
              bool(table.asked.text))  # fmt: skip
    for kind in (NUMBER_KIND, DATE_KIND):
        if remark := told(tallies, readings, kind):
            note(f"{table.name}: read as {kind}s: {remark}")
    spelt = {name: reading.spelling for name, reading in readings.items()
             if reading.spelling and reading.spelling not in PAIRS and tallies[name].words}  # fmt: skip
    if spelt:
        words |= set() if reader.typed else spelt.keys()
        tallies = counted_again(spelt.keys(), spelt)
    return tallies, readings


def _check_texts(table: Table, tallies: dict[str, Tallied]) -> None:
    """DataError for names and words that no file of ours can hold."""
    for name in (*tallies, *table.labels):
        words = tallies[name].words if name in tallies else ()
        bad = next((text for text in (name, *words) if "\0" in text), None)
        if bad is not None:
            raise DataError(
                f"{table.name}, column {short(name)}: {shown(bad)} has a NUL character; remove it from the table"
            )


def _column(table: Table, name: str, found: Tallied, reading: ReadAs) -> Column:
    """The column of a schema for what was found."""
    indicator = table.asked.missing == INDICATOR and found.gaps > 0
    if reading.kind == DATE_KIND:
        return _date(table, name, found.dates, reading.spelling, indicator)
    if reading.kind == NUMBER_KIND or not found.words:
        return _number(table, name, found, reading.spelling, indicator)
    return _category(name, found, table.asked.missing)


def _category(name: str, found: Tallied, missing: str | None, numeric: bool = False) -> Column:
    """The column of a category: its most frequent words, and whether there are others."""
    frequent = sorted(found.words, key=lambda word: (-found.words[word], word))
    fill = None if missing is None else 0.0
    indicator = missing == INDICATOR and found.gaps > 0
    kept = tuple(sorted(frequent[:MOST_WORDS]))
    return Column(name, CATEGORY, kept, found.full or len(frequent) > MOST_WORDS, fill, indicator, numeric=numeric)


def _number(table: Table, name: str, found: Tallied, spelling: str, indicator: bool) -> Column:
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
    first = str(np.datetime64(found.first, "D"))
    column = Column(name, DATE, words, False, fill, indicator, spelling=spelling, first=first)
    years = found.years / found.count - column.first_year if missing not in (None, ZERO) else 0.0
    return replace(column, year=years)  # from the first one: 2024 is far from 0, and sparse rows are not centred
