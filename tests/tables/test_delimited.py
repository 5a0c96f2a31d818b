"""Delimited text in pieces of any size is what Python's csv module wrote, and each row's line is known."""

import csv
import io

from hypothesis import given, settings
from hypothesis import strategies as st

from streammargin.tables.open import open_table
from streammargin.tables.textfile import Text

WORDS = st.text('ab,"\n é;x', max_size=6).map("w{}w".format)
ROWS = st.lists(st.tuples(st.sampled_from([1.5, -3e5, 7.0]), WORDS, st.integers(0, 9)), min_size=1, max_size=12)
PIECES = Text.pieces


@settings(max_examples=200)
@given(ROWS, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "end", "more"]), st.sampled_from([8, 33, 1 << 20]))
def test_rows_and_their_lines(tmp_path_factory, rows, end, last, size):
    """Line ends in quotes, CRLF, a last line without an end or blank lines behind it, however the text is cut."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=end)
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
