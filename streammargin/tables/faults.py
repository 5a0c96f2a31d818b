"""What is at fault with the columns of a table: all of it in one refusal, with what mends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from streammargin.errors import DataError
from streammargin.sources.schema import MOST_WORDS
from streammargin.tables.asked import Asked
from streammargin.tables.header import all_of
from streammargin.tables.readers.base import Reader
from streammargin.tables.readings import Reading, Said, hold, mixed, undecided
from streammargin.tables.tally import Tally
from streammargin.wording import counted, joined, short

KNOWN = {"number", "words", "date", "gap", "more"}  # what columns may hold, and what else has a place
FEWEST = 20  # rows that tell whether a column is an id
LOOKED_AT = 1000  # words that tell whether they are text


def faults_of(
    reader: Reader, tallies: Mapping[str, Tally], readings: Mapping[str, Reading], asked: Asked
) -> list[Said]:  # fmt: skip
    """Columns that make no numbers. readings: of all columns but categories."""
    read = {name: tallies[name] for name in readings}
    return [*mixed(reader, read, readings), *undecided(reader, read, readings, asked), *_types(read), *_empty(tallies)]


def refused(table: str, faults: Sequence[Said], asked: Asked) -> DataError:
    """The refusal of a table. Its last words leave out all columns that it names, and those that were left out."""
    columns = list(dict.fromkeys(name for fault in faults for name in fault.columns))
    drop = f"`drop={joined([*asked.drop, *columns])}`"
    hints = list(dict.fromkeys(fault.hint for fault in faults if fault.hint))
    said = "; ".join(f"{fault.where}: {fault.what}" if fault.where else fault.what for fault in faults)
    said = f"{table}{', ' if faults[0].where else ': '}{said}"
    if all(fault.ids for fault in faults):
        return DataError(f"{said}: {', or '.join([drop, *hints])}")
    leave = f"leave {'it' if len(columns) == 1 else 'them'} out with {drop}"
    return DataError(f"{said}; {', or '.join([', '.join(hints), leave] if hints else [leave])}")


def ids(tallies: Mapping[str, Tally], asked: Asked) -> Iterator[Said]:
    """Columns of words that are ids: most rows have one of their own. Such words say nothing of other rows."""
    found = {name: tally for name, tally in tallies.items() if _is_id(tally)}
    if found:
        told = [f"{_different(tally)} different texts in {tally.rows} rows" for tally in found.values()]
        names = [short(name) for name in found]
        one = len(found) == 1
        said = f"{names[0]} looks like an id ({told[0]})"
        if not one:
            each = [f"{name} ({what})" for name, what in zip(names, told, strict=True)]
            said = f"{len(found)} columns look like ids: {all_of(each)}"
        hint = f"keep {'it' if one else 'them'} with `categorical={joined([*asked.categorical, *found])}`"
        texts = [name for name, tally in found.items() if _is_text(tally)]
        if len(texts) == 1 and not asked.text:
            hint += f", or count the words of {'it' if one else short(texts[0])} with `text={joined(texts)}`"
        yield Said(said, hint, list(found), ids=True)
    for name, tally in tallies.items():
        if tally.full and name not in found:
            what = f"{_different(tally)} different texts are too many for categories"
            hint = (
                f"count its words with `text={joined([name])}`, or take the {MOST_WORDS} most frequent with "
                f"`categorical={joined([*asked.categorical, name])}`"
            )
            place = tally.first.get("more", "its rows")
            yield Said(what, hint, [name], f"{place}, column {short(name)}")


def _is_id(found: Tally) -> bool:
    """Whether more than half of the rows with a word have one that occurs once, or there are very many words.

    Words beyond the most are not counted, nor are their rows here: those that are known tell.
    """
    rows = found.words.total()
    if rows < FEWEST:
        return False
    once = sum(times == 1 for times in found.words.values())
    return 2 * once > rows or (not found.full and len(found.words) > max(MOST_WORDS, rows // 2))


def _different(found: Tally) -> str:
    return f"more than {len(found.words)}" if found.full else f"{len(found.words)}"


def _is_text(found: Tally) -> bool:
    """Whether most words are several, as in a sentence."""
    words = list(islice(found.words, LOOKED_AT))
    return 2 * sum(len(word.split()) > 2 for word in words) > len(words)


def _types(tallies: Mapping[str, Tally]) -> Iterator[Said]:
    """Types of neither numbers nor words nor dates."""
    for kind in sorted({kind for found in tallies.values() for kind in found.first} - KNOWN):
        names = [name for name, found in tallies.items() if kind in found.first]
        where = tallies[names[0]].first[kind]
        said = f"{hold(names)} values of type {kind}, as in {where}: {all_of(names)}"
        yield Said(said, "turn them into numbers", names)


def _empty(tallies: Mapping[str, Tally]) -> Iterator[Said]:
    """Columns of gaps alone."""
    names = [name for name, found in tallies.items() if found.gaps == found.rows]
    if names:
        yield Said(f"{hold(names)} no value at all: {all_of(names)}", "", names)


def gaps(tallies: Mapping[str, Tally], asked: Asked) -> Iterator[Said]:
    """Gaps that nothing stands for, all columns with their counts."""
    found = {name: tally for name, tally in tallies.items() if 0 < tally.gaps < tally.rows}
    if not found or asked.missing is not None:
        return
    where = next(iter(found.values())).first["gap"]
    hint = "fill missing values with `missing=mean`, zero or indicator"
    if len(found) == 1:
        [(name, tally)] = found.items()
        more = f", as in {counted(tally.gaps - 1, 'more row')}" if tally.gaps > 1 else ""
        yield Said(f"the value is missing{more}", hint, [name], f"{where}, column {short(name)}")
        return
    counts = all_of([f"{short(name)} ({tally.gaps})" for name, tally in found.items()])
    yield Said(f"{len(found)} columns have missing values, the first in {where}: {counts}", hint, list(found))
