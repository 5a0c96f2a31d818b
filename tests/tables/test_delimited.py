"""Delimited text in pieces of any size is what Python's csv module wrote, and each row's line is known."""

import csv
import io
import re

import pandas as pd
import pytest
from conftest import traced
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streammargin as sm
from streammargin.errors import DataError
from streammargin.tables.header import is_blank
from streammargin.tables.open import open_table
from streammargin.tables.textfile import Text

WORDS = st.text('ab,"\n é;x\r\v\f\x1b\x01\x85', max_size=6).map("w{}w".format)
ROWS = st.lists(st.tuples(st.sampled_from([1.5, -3e5, 7.0]), WORDS, st.integers(0, 9)), min_size=1, max_size=12)
PIECES = Text.pieces


@settings(max_examples=200)
@given(ROWS, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "end", "more"]), st.sampled_from([8, 33, 1 << 20]))
@example([(1.5, "w\rw", 0), (7.0, "w\vw", 1), (7.0, 'w,\r"w', 1)], "\r\n", "more", 33)
@example([(1.5, "ww", 0), (1.5, "w;;w", 0), (-3e5, "w;\n\n \n;w", 0)], "\n", "", 8)  # a piece of quoted blanks alone
def test_rows_and_their_lines(tmp_path_factory, rows, end, last, size):
    """Line ends and controls in quotes, CRLF, a last line without an end or blank lines behind, however it is cut."""
    rows = [(n, re.sub("\r+\n", "\n", word), m) for n, word, m in rows]
    out = io.StringIO(newline="")
    quoting = csv.QUOTE_NONNUMERIC if any("\r" in word for _, word, _ in rows) else csv.QUOTE_MINIMAL
    writer = csv.writer(out, lineterminator=end, quoting=quoting)
    writer.writerow(["n", "w", "m"])
    lines = []
    for row in rows:
        lines.append(1 + out.getvalue().count("\n"))
        writer.writerow(row)
    text = out.getvalue() + end * 2 if last == "more" else out.getvalue().removesuffix(end if last == "end" else "")
    path = tmp_path_factory.getbasetemp() / "pieces.csv"
    path.write_text(text, encoding="utf-8", newline="")
    found = []
    Text.pieces = lambda self, _=None: PIECES(self, size)
    try:
        reader = open_table(str(path))
        for batch in reader.batches(["n", "w", "m"], frozenset(["w"])):
            places = [reader.place(len(found) + k) for k in range(batch.num_rows)]
            found += zip(*(column.to_pylist() for column in batch.columns), places, strict=True)
    finally:
        Text.pieces = PIECES
    assert found == [(*row, f"line {line}") for row, line in zip(rows, lines, strict=True)]
    assert list(pd.read_csv(path).itertuples(index=False, name=None)) == rows


@pytest.mark.parametrize("row", [0, 2])
def test_a_field_may_be_as_long_as_a_line(tmp_path, row):
    """Python's csv has a limit of 131,072 bytes, and only first lines and messages are read by it."""
    texts = ["a b", "b c", "c d"]
    texts[row] = 40_000 * "long " + "one"
    path = tmp_path / "t.csv"
    path.write_text("text,x,y\n" + "".join(f'"{text}",{k},{k % 2}\n' for k, text in enumerate(texts)))
    limit = csv.field_size_limit()
    batches = list(open_table(str(path)).batches(["text"], frozenset(["text"])))
    assert [text for batch in batches for text in batch.column(0).to_pylist()] == texts
    assert csv.field_size_limit() == limit
    path.write_text(path.read_text() + "few\n")
    with pytest.raises(DataError, match="line 5: 1 column, but the first line has 3"):
        list(open_table(str(path)).batches(["text"], frozenset(["text"])))


@pytest.mark.parametrize("many", [2, 40])
def test_a_hexadecimal_number_is_a_word_whatever_is_beside_it(tmp_path, many):
    """Arrow takes 0x10 for 16 among whole numbers, and for text among others."""
    path = tmp_path / "t.csv"
    path.write_text("a,b,word,y\n7,0x10,0x,yes\n" + "8,12,x,no\n" * many + "9,0XfF,y,no\n10,13,y,yes\n")
    with pytest.raises(DataError, match=r"line 2, column b: '0x10' is not a finite number"):
        sm.train(str(path), y="y", drop="word")
    assert sm.train(str(path), y="y", drop="b,word").model.schema.columns[0].kind == "number"
    path.write_text("id,y\n" + "0x1F,yes\n0x20,no\n" * many)
    kept = sm.train(str(path), y="y").model.schema.columns[0]
    assert (kept.kind, kept.words) == ("category", ("0x1F", "0x20"))
    path.write_text("user,film,stars\n1,2,0x10\n1,3,2\n2,2,1\n")
    with pytest.raises(DataError, match=r"line 2: the rating is '?0x10"):
        sm.complete(str(path))


def test_quotes_beside_another_separator_are_no_fault_of_the_comma(tmp_path):
    """R's write.csv2 has quotes, semicolons and decimal commas; write.table has blanks between fields."""
    path = tmp_path / "t.csv"
    path.write_text('"";"a";"label"\n' + "".join(f'"{k}";{k},5;"{"pq"[k % 2]}"\n' for k in range(1, 9)))
    reader = open_table(str(path))
    assert (reader.columns, reader.separator) == (["Unnamed: 0", "a", "label"], ";")
    path.write_text('"a" "b"\n1 "p"\n')
    with pytest.raises(DataError, match=r"""line 1: ',' expected after '"'; .*in '"a" "b"""):
        open_table(str(path))
    path.write_text("a,b\n1,p\n" * 9 + '1,"p\n' + "1,p\n" * 9)
    with pytest.raises(DataError, match="line 19 or later: unexpected end of data; is a quote missing"):
        list(open_table(str(path)).batches(["a"], frozenset()))


def test_a_carriage_return_in_quotes_stays_where_blanks_beside_quotes_are_taken_off(tmp_path):
    (tmp_path / "t.csv").write_bytes(b'w,m\n"a\rb",1\n "c",2\n"\v, d" ,3\n')
    (batch,) = open_table(str(tmp_path / "t.csv")).batches(["w", "m"], frozenset(["w"]))
    assert [column.to_pylist() for column in batch.columns] == [["a\rb", "c", "\v, d"], [1, 2, 3]]


def test_the_search_for_carriage_returns_takes_little_memory(tmp_path):
    text = b'"a",1\n' * 500_000
    (tmp_path / "t.csv").write_bytes(b'w,m\n"a\rb",1\n' + text)
    with traced() as allocated:
        rows = sum(batch.num_rows for batch in open_table(str(tmp_path / "t.csv")).batches(["w"], frozenset(["w"])))
    assert rows == 500_001 and allocated.peak < 24 << 20


@pytest.mark.parametrize("text, words", [
    (b"w\n\v\n\f\n", ["\v", "\f"]), (b"w\n\n \n\v\n\n", ["\v"]), (b"w\n \n\n", []), (b"w\tm\n\t\n", [""]),
])  # fmt: skip
def test_only_blanks_are_no_row(tmp_path, text, words):
    (tmp_path / "t.tsv").write_bytes(text)
    batches = open_table(str(tmp_path / "t.tsv")).batches(["w"], frozenset(["w"]))
    assert [word for batch in batches for word in batch.column(0).to_pylist()] == words
    assert [is_blank(word) for word in words] == [not word for word in words]
