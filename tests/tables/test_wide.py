"""The work for a wide table grows as its columns do: comparisons of names, and bytes of a header, are counted."""

from dataclasses import replace

import pytest

from streammargin.errors import DataError, UsageError
from streammargin.sources.schema import Column, Schema
from streammargin.tables.asked import Asked
from streammargin.tables.learn import learn
from streammargin.tables.open import open_table
from streammargin.tables.readers.delimited import _row_end
from streammargin.tables.table import as_trained, matched, with_roles

FEW, TIMES = 500, 8


class Name(str):
    """A name that counts how often it is compared or hashed."""

    work = 0
    __slots__ = ()

    def __eq__(self, other):
        Name.work += 1
        return str.__eq__(self, other)

    def __hash__(self):
        Name.work += 1
        return str.__hash__(self)


def named(count):
    return [Name(f"gene{place}") for place in range(count)]


class Wide:
    """A table with these columns, of which nothing is read."""

    name, named, typed, once, numeric, categories, gaps = "t.csv", True, True, False, frozenset(), frozenset(), ()

    def __init__(self, columns):
        self.columns = columns


def trained(count, more=()):
    return Schema(tuple(Column(name) for name in [*named(count), *more]), ("label",))


def work_of(do, count):
    Name.work = 0
    do(count)
    return Name.work


def check_columns(count):
    with_roles(Wide([*named(count), "label"]), Asked(), weight=None)


def chosen(count):
    names = [*named(count), "label"]
    with_roles(Wide(names), Asked(columns=tuple(named(count)), drop=tuple(named(count // 2))))


def several_labels(count):
    with_roles(Wide([*named(count), "x"]), Asked(y=tuple(named(count))))


def predicted(count):
    matched(Wide([*named(count)[::-1], "label"]), trained(count), ("label",))


def lacking(count):
    with pytest.raises(DataError, match=r"lacks \d+ columns"):
        matched(Wide([*named(count), "label"]), trained(count, [Name(f"other{k}") for k in range(count)]), ("label",))


def twice(count):
    with pytest.raises(DataError, match="has several columns called gene0"):
        matched(Wide([*named(count), "label"]), trained(count, named(count)), ("label",))


def by_place(count):
    matched(Wide([*named(count), "label"]), replace(trained(count), named=False), ("label",))


def converted(count):
    names = [*named(count), *(Name(f"other{k}") for k in range(count)), "label"]  # left out, with a warning
    as_trained(Wide(names), trained(count), Asked(), True, "m.npz", "label")


def asked_for_twice(count):
    with pytest.raises(UsageError, match="names the column gene0 twice"):
        with_roles(Wide([*named(count), "x"]), Asked(y=(*named(count), *named(count))))


def learnt(count):
    table = with_roles(Wide([*named(count), "label"]), Asked())
    learn(table, Schema((Column("gene0"),)), tally=lambda *given: {"label": Tally()})


class Tally:
    rows = gaps = 0


@pytest.mark.parametrize("do", [
    check_columns, chosen, several_labels, predicted, lacking, twice, by_place, converted, asked_for_twice, learnt,
])  # fmt: skip
def test_names_are_compared_a_few_times_each(do):
    few, many = work_of(do, FEW), work_of(do, TIMES * FEW)
    assert 0 < many <= 1.5 * TIMES * few and many <= 40 * TIMES * FEW


class Text(bytes):
    """Bytes that count those that a search passes over."""

    work = 0

    def find(self, part, start=0, end=None):
        found = super().find(part, start, len(self) if end is None else end)
        Text.work += (found if found >= 0 else len(self) if end is None else end) - start + 1
        return found

    def count(self, part, start=0, end=None):
        end = len(self) if end is None else end
        Text.work += end - start
        return super().count(part, start, end)

    def __getitem__(self, place):
        found = super().__getitem__(place)
        Text.work += len(found) if isinstance(place, slice) else 1
        return Text(found) if isinstance(place, slice) else found


@pytest.mark.parametrize("header", ['"a' + "\n" * 3000 + '",b\n', '""' * 3000 + "\n", '"a\n",' * 3000 + "b\n",
                                    "a" * 3000 + '"' * 3000 + "\n"])  # fmt: skip
@pytest.mark.parametrize("rest", ["", "1,2\n" * 3000, '"\n' * 3000])
def test_the_end_of_a_header_is_found_in_one_look(header, rest):
    Text.work = 0
    text = Text((header + rest).encode())
    assert _row_end(text) == len(header) and Text.work <= 4 * len(header) + 8


def test_a_wide_table_of_text_is_read_in_few_pieces(tmp_path):
    """Each column of a piece takes a processor as long as hundreds of its rows."""
    columns, rows = 20_000, 40
    names, row = ",".join(f"c{k}" for k in range(columns)), ",".join(["-0.123456"] * columns)
    (tmp_path / "t.csv").write_text("\n".join([names, *[row] * rows, ""]))
    reader = open_table(str(tmp_path / "t.csv"))
    found = [batch.num_rows for batch in reader.batches(reader.columns, frozenset())]
    assert sum(found) == rows and len(found) <= 2
