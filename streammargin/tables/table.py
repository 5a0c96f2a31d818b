"""A table with roles, by the user's options: which of its columns are values, which one is the label."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from streammargin.errors import DataError, MisnamedError, UsageError
from streammargin.sources.names import all_of, listed
from streammargin.sources.schema import Schema
from streammargin.tables.asked import ERROR, ZERO, Asked
from streammargin.tables.header import LABEL_NAMES, is_unnamed, may_be_index, position, say_doubts, without_index
from streammargin.tables.readers.base import Reader
from streammargin.version import __version__
from streammargin.wording import MOST_COMPARED, counted, meant, nearest, note, one_line, short, warn


class NamesBeside(NamedTuple):
    """The names of columns beside the values: labels, weights, names of rows, tasks; "" for none of these."""

    labels: tuple[str, ...] = ()
    weight: str = ""
    id: tuple[str, ...] = ()
    tasks: str = ""

    @property
    def given(self) -> list[str]:
        """The names of those that there are."""
        return [name for name in (*self.labels, self.weight, *self.id, self.tasks) if name]

    @property
    def spelt(self) -> set[str]:
        """The columns whose values stay as bytes: names of rows, tasks, and a label; several of these are numbers."""
        return {*(self.labels if len(self.labels) == 1 else ()), *self.id, self.tasks} - {""}


@dataclass(frozen=True)
class Table:
    """The columns of a reader by role. values: in the order of the table; weight, tasks: "" for none."""

    reader: Reader
    asked: Asked
    values: tuple[str, ...]
    labels: tuple[str, ...]
    weight: str = ""
    tasks: str = ""

    @property
    def name(self) -> str:
        """The path, for messages."""
        return self.reader.name

    @property
    def beside(self) -> NamesBeside:
        """The columns beside the values."""
        return NamesBeside(self.labels, self.weight, tasks=self.tasks)

    def key(self, schema: Schema | None = None) -> str:
        """A text that changes with the files of the table, its options, a schema and this package; "" for objects."""
        files = self.reader.fingerprint()
        told = repr((files, self.values, self.labels, self.weight, self.tasks, self.asked, __version__, schema))
        return hashlib.blake2b(told.encode(), digest_size=16).hexdigest() if files else ""


def with_roles(
    reader: Reader,
    asked: Asked,
    weight: str | None = None,
    labelled: bool = True,
    unlabelled: str = "",
    tasks: str | None = None,
    naming_tasks: str = "tasks",
) -> Table:
    """The table with the roles that the options give its columns. Raises UsageError for a name that it lacks.

    naming_tasks: for messages, the option that names the column `tasks`.

    unlabelled: for messages, what to do if there is no label; "" if there must be one.
    """
    if len(reader.columns) == 1 and labelled and asked.y != "" and not reader.typed:
        raise DataError(
            f"{reader.name}, line 1: one column only, but rows need a label and values; is there another separator "
            f"than a comma, tab, semicolon or bar?"
        )
    chosen, drop, categorical = (_apart(names, reader) for names in (asked.columns, asked.drop, asked.categorical))
    asked = replace(asked, columns=chosen, drop=drop, categorical=categorical)
    texts = [name for name, _ in asked.text]
    labels = _labels(reader, asked, unlabelled) if labelled else ()
    beside = {*labels, *filter(None, [weight, tasks])}
    for option, names in (("columns", chosen), ("drop", drop), ("categorical", categorical), ("text", texts)):
        check_named(reader, names, option)
    for option, name in (("sample_weight", weight), (naming_tasks, tasks)):
        check_named(reader, [name], option)
        if name in labels:
            raise UsageError(f"{reader.name}: {short(str(name))} is the label; name another column with `{option}`")
    left_out = beside.union(drop)
    values = tuple(name for name in asked.columns or reader.columns if name not in left_out)
    if not asked.columns:
        values = without_index(reader, values, {*texts, *asked.categorical})
    if not values:
        fewer = "leave fewer out with `drop`, or count the words of one with `text`"
        raise UsageError(
            f"{reader.name} has no column of values left beside {all_of(sorted(left_out))}; "
            f"{fewer if drop else 'name some with `columns`, or another label with `y`'}"
        )
    for name in asked.categorical:
        if name in texts or name not in values:
            what = "counted as text" if name in texts else "none of the values"
            raise UsageError(f"{reader.name}: the column {short(name)} is {what}; leave it out of `categorical`")
    _say_roles(reader, asked, labels, values, labelled)
    return Table(reader, asked, values, labels, weight or "", tasks or "")


def _apart(names: tuple[str, ...], reader: Reader) -> tuple[str, ...]:
    """Names that were given as one text, as errors and the shell have them: a,b. No name: all columns without one."""
    if not names:
        return names
    there, places = set(reader.columns), _places(reader)
    names = names if there.issuperset(names) else tuple(_divided(",".join(names), reader.columns))
    names = tuple(each for name in names for each in ([name] if name in there else places.get(name, [name])))
    unnamed = tuple(filter(is_unnamed, reader.columns)) if "" in names else ()
    return tuple(name for name in names if name) + unnamed if unnamed else names


def _divided(text: str, columns: Collection[str]) -> Iterator[str]:
    """The names in a text with commas between them, and perhaps in some of them: the longest that are columns.

    A line end in a name may be written as messages have it.
    """
    called = {one_line(name): name for name in columns} | dict(zip(columns, columns, strict=True))
    parts, most, place = text.split(","), 1 + max((name.count(",") for name in columns), default=0), 0
    while place < len(parts):
        ends = range(min(place + most, len(parts)), place, -1)
        names = ((end, ",".join(parts[place:end])) for end in ends)
        place, name = next((each for each in names if each[1] in called), (place + 1, parts[place]))
        yield called.get(name, name)


def _places(reader: Reader) -> dict[str, list[str]]:
    """The columns a[0], a[1], ... of the places in lists, by the name a of their column."""
    found: dict[str, list[str]] = {}
    for name in reader.columns:
        if name.endswith("]"):
            found.setdefault(name.rpartition("[")[0], []).append(name)
    return found


def check_named(reader: Reader, names: Iterable[str | None], option: str) -> None:
    """Raise MisnamedError for the first of these names of columns, but for None, that the table lacks."""
    there = set(reader.columns)
    name = next((name for name in names if name is not None and name not in there), None)
    if name is None:
        return
    count = len(reader.columns)
    has = (
        all_of(reader.columns) if reader.named else f"{count} columns without names, which are called 0 to {count - 1}"
    )
    asked = f"{reader.name} has no column {short(name)} for `{option}`"
    raise MisnamedError(f"{asked}; {meant(name, reader.columns)}it has {has}")


def _say_roles(reader: Reader, asked: Asked, labels: tuple[str, ...], values: tuple[str, ...], labelled: bool) -> None:
    """Say which column is the label unless it was named, and what was probably not meant as it is read."""
    if len(labels) == 1 and not reader.typed and asked.y not in (labels[0], labels):
        named = short(labels[0]) if reader.named else f"column {reader.columns.index(labels[0])}"
        note(f"{reader.name}: the label is {named}")
    alike = [name for name in values if name.lower() in LABEL_NAMES]
    if alike and (not labelled or asked.y == ""):
        why = "`y` names others" if labelled else "`label=False`"
        warn(f"{reader.name}: used as values, since {why}: {all_of(alike)}")
    if reader.named and not reader.typed:
        say_doubts(reader.name, reader.columns, asked.y in reader.columns)


def _labels(reader: Reader, asked: Asked, unlabelled: str) -> tuple[str, ...]:
    """The columns of the labels. Raises UsageError if they are not known."""
    if asked.y == "":
        return ()
    if asked.y is not None:
        return places_of(reader, apart(asked.y, reader))
    found = [name for name in reader.columns if name.lower() in LABEL_NAMES] if reader.named else []
    if len(found) == 1:
        return (found[0],)
    what = "no column is called " + " or ".join(LABEL_NAMES)
    shown = f"the columns are {all_of(found or reader.columns)}"
    if found:
        what = "several columns may be the label"
    elif not reader.named:
        what, shown = "there is no header line", f"it has {counted(len(reader.columns), 'column')}"
    hint = f"name it with `y=NAME`{unlabelled}"
    raise UsageError(f"{reader.name}: cannot find the label column, since {what}; {hint}; {shown}")


def apart(y: str | int | tuple[str, ...], reader: Reader) -> tuple[str | int, ...]:
    """The columns that `y` names; the shell has several as a,b, which may also be the name of one.

    Raises UsageError for a name twice.
    """
    if isinstance(y, str) and "," in y and y not in reader.columns:
        y = tuple(_divided(y, reader.columns))
    if not isinstance(y, tuple):
        return (y,)
    if twice := [name for name, times in Counter(y).items() if times > 1]:
        raise UsageError(f"`y` names the column {short(twice[0])} twice; name each column once")
    return y


def places_of(reader: Reader, labels: tuple[str | int, ...]) -> tuple[str, ...]:
    """The columns with these names, or else these numbers. Raises UsageError if there is none."""
    there = set(reader.columns)

    def found(label: str | int) -> str:
        place = None if label in there else position(label, len(reader.columns))
        if label not in there and place is None:
            check_named(reader, [str(label)], "y")
        return str(label) if place is None else reader.columns[place]

    return tuple(map(found, labels))


def as_trained(
    reader: Reader, schema: Schema, asked: Asked, labelled: bool, model: str, before: object
) -> tuple[Table, Schema]:
    """The columns of a model of this schema: matched by name, or by position if one of both has no names.

    before: the column that its labels were from, by name or number. The label may be absent unless it is asked for.
    Raises DataError for columns that the table lacks, UsageError for a label that is one of them.
    """
    own = schema.known if reader.named else frozenset()
    labels: tuple[str, ...] = ()
    label = ""
    if labelled and asked.y is not None:
        labels = places_of(reader, apart(asked.y, reader))
    elif len(schema.labels) > 1 and set(schema.labels) <= set(reader.columns):
        labels = schema.labels if labelled else ()
    elif labelled and len(reader.columns) > len(schema.columns):
        label = _as_before(reader, schema, before)
        usual = [name for name in reader.columns if name.lower() in LABEL_NAMES and name not in own]
        label = label or (usual[0] if usual and reader.named else "")
    elif labelled and own and isinstance(before, str) and before in reader.columns:
        label = before
    labels = labels or tuple(filter(None, [label]))
    by_place = not (schema.named and reader.named)
    if labelled and not labels and by_place and len(reader.columns) == len(schema.columns) + 1:
        raise UsageError(
            f"{reader.name} has a column more than {model} was trained on; name the label with `y=NAME`, or use "
            "`label=False` if there is none"
        )
    if shared := own & set(labels):
        raise UsageError(
            f"{reader.name}: the column {short(min(shared))} is one that {model} was trained on; name another label "
            "with `y`, or use `label=False` if there is none"
        )
    own_schema = matched(reader, schema, labels)
    used = {*own_schema.values, *labels}
    left_out = [name for name in reader.columns if name not in used]
    if left_out:
        hint = "; if one is the label, name it with `y`" if labelled and not labels else ""
        warn(f"{reader.name}: left out, as the model knows no such column: {all_of(left_out)}{hint}")
    _say_roles(reader, asked, labels, own_schema.values, labelled)
    return Table(reader, asked, own_schema.values, labels), own_schema


def _as_before(reader: Reader, schema: Schema, before: object) -> str:
    """The column that had the labels of the model, "" if that is unknown or not here."""
    if reader.named:
        return before if isinstance(before, str) and before in reader.columns else ""
    here = isinstance(before, int) and len(reader.columns) == len(schema.columns) + 1
    return reader.columns[before] if here and isinstance(before, int) and before < len(reader.columns) else ""


def _unnamed_moved(reader: Reader, schema: Schema, others: set[str]) -> Schema:
    """The schema with columns without a name found in order: one column less in front of them moves all."""
    ours = [column.name for column in schema.columns if is_unnamed(column.name)]
    if set(ours) <= set(reader.columns):
        return schema
    theirs = [name for name in reader.columns if is_unnamed(name) and name not in others]
    if len(theirs) > len(ours):
        theirs = [name for name in theirs if not may_be_index(name)]
    if len(theirs) != len(ours) or set(ours) & set(reader.columns).difference(theirs):
        return schema
    moved = dict(zip(ours, theirs, strict=True))
    return replace(schema, there=tuple(moved.get(name, name) for name in schema.values))


def matched(
    reader: Reader, schema: Schema, labels: Sequence[str] = (), ids: Sequence[str] = (), tasks: str = "",
    missing: str | None = None,
) -> Schema:  # fmt: skip
    """The schema of a training for another table: columns by name, or by position if one of them has no names.

    labels, ids, tasks: columns that the table must have too. missing: ZERO if it may lack some columns of the schema,
    but not all; ERROR or None if not, None if that cannot be asked for. Raises DataError for what it lacks.
    """
    if not (schema.named and reader.named):
        beside = {*labels, tasks}
        own = [name for name in reader.columns if name not in beside]
        if len(own) > len(schema.columns):
            own = [name for name in own if not may_be_index(name)]
        if len(own) != len(schema.columns):
            whose = "the table" if not reader.named else "the model"
            besides = f" beside the label, {all_of(labels)}," if labels else ","
            raise DataError(
                f"{reader.name} has {counted(len(own), 'column')}{besides} but the model was trained on "
                f"{len(schema.columns)}, and {whose} has no column names to match them by; write a table with these "
                "columns"
            )
        schema = replace(schema, named=False, there=tuple(own))
    else:
        schema = _unnamed_moved(reader, schema, {*labels, *ids, tasks})
    twice = [name for name, times in Counter(schema.values).items() if times > 1]
    if twice:
        raise DataError(
            f"the model has several columns called {short(twice[0])}, so those of {reader.name} cannot be matched by "
            "name; train it again with a name for each column"
        )
    _check_there(reader, schema.values, labels, [*labels, *ids, *filter(None, [tasks])], missing)
    return schema


def _check_there(
    reader: Reader, names: Sequence[str], labels: Sequence[str], others: Sequence[str], missing: str | None
) -> None:
    """Raise DataError for columns of a model, or others, that a table lacks; missing: as for `matched`."""
    there = set(reader.columns)
    absent, lacking = ([name for name in each if name not in there] for each in (names, others))
    if missing == ZERO and not lacking and 0 < len(absent) < len(names):
        which = f"{counted(len(absent), 'column')} of the model's {len(names)} ({listed(absent)})"
        warn(f"{reader.name} lacks {which}: they count as 0", "columns")
    elif absent or lacking:
        may = missing == ERROR and len(absent) < len(names)
        hint = "; let those of the model count as 0 with `missing_columns=zero`" if may and absent else ""
        if missing is not None and not absent and set(lacking) <= set(labels):
            hint = "; name the labels with `y`, or use predict, which needs none"
        own, others = (absent or lacking)[0], sorted(there.difference(names))
        if near := nearest(own, others) if len(others) <= MOST_COMPARED else "":
            hint = f"; if {short(near)} is {short(own)}, rename it{hint}"
        why = "that the model was trained on, or that were asked for" if absent else "asked for"
        raise DataError(
            f"{reader.name} lacks {counted(len(absent) + len(lacking), 'column')} {why}: "
            f"{all_of([*absent, *lacking])}; it has {all_of(reader.columns)}{hint}"
        )
