"""Columns that are ids, dates, gaps and more are refused at once, and what the sentence says mends it."""

import itertools
import re
import shlex

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from table_rows import in_form

import streammargin as sm
from streammargin.errors import DataError
from streammargin.tables.tally import Rising, Tallied

ROWS = 800
RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=ROWS)
PLAIN = pd.DataFrame({"x": X, "y": np.where(X > 0, "p", "q")})


FORMS = ["csv", "parquet", "feather", "stream", "pandas", "polars"]


@pytest.mark.parametrize("form", FORMS)
def test_an_id_is_refused_with_what_mends_it(tmp_path, form):
    frame = PLAIN.assign(customer=[f"c{k:04}" for k in RANDOM.permutation(ROWS)])
    with pytest.raises(DataError) as caught:
        sm.train(in_form(frame, form, tmp_path), y="y")
    assert re.fullmatch(
        r"\S.*: customer looks like an id \(800 different texts in 800 rows, such as 'c\d{4}'\): drop=\"customer\", "
        r"or keep it with categorical=\"customer\"", str(caught.value)
    )  # fmt: skip
    assert sm.train(in_form(frame, form, tmp_path), y="y", drop="customer").model.feature_names_in_.tolist() == ["x"]
    model = sm.train(in_form(frame, form, tmp_path), y="y", categorical="customer", passes=2).model
    assert len(model.schema.columns[1].words) == 800


@pytest.mark.parametrize("rows", [19, 20, 21, 100, 999, 2001])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.51, 0.6, 1.0])
def test_more_than_half_of_the_rows_decide_at_any_size_from_20_on(rows, share):
    once = int(np.floor(share * rows))
    words = [f"u{k}" for k in range(once)] + [f"w{k % max(1, (rows - once) // 2)}" for k in range(rows - once)]
    counts = pd.Series(words).value_counts()
    alone = int((counts == 1).sum())
    frame = pd.DataFrame({"id": RANDOM.permutation(words), "x": np.arange(rows) / rows, "y": np.arange(rows) % 2})
    refused = rows >= 20 and (2 * alone > rows or len(counts) > max(1000, rows // 2))
    if refused:
        with pytest.raises(DataError, match=rf"id looks like an id \({len(counts)} different texts in {rows} r"):
            sm.train(frame, y="y")
    else:
        assert sm.train(frame, y="y", passes=1).model.schema.columns[0].kind == "category"


def test_rows_without_a_word_say_nothing():
    few = PLAIN.assign(note=[f"n{k}" if k < 15 else None for k in range(ROWS)])
    assert sm.train(few, y="y", missing="zero", passes=1).model.schema.columns[-1].kind == "category"
    with pytest.raises(DataError, match=r"note looks like an id \(100 different texts in 800 rows, such"):
        sm.train(few.assign(note=[f"n{k}" if k < 100 else None for k in range(ROWS)]), y="y", missing="zero")


def test_text_and_labels_are_no_ids(tmp_path):
    pytest.importorskip("sklearn")
    frame = PLAIN.assign(review=[f"a review, the number {k}" for k in range(ROWS)])
    assert sm.train(frame, y="y", text="review", passes=1).model.coef_.shape == (1, (1 << 18) + 1)
    with pytest.raises(DataError, match=r"review looks like free text \(800 .*; count the words of it with text=\"rev"):
        sm.train(frame, y="y")
    for column in ("customer", "task"):
        ids = PLAIN.assign(**{column: [f"c{k % 40}" for k in range(ROWS)]})
        assert sm.train(ids, y="y", passes=1).model is not None


@pytest.mark.parametrize("once", [190, 210, 390])  # of 800 rows
@pytest.mark.parametrize("form", ["csv", "parquet", "pandas"])
def test_a_warning_names_texts_of_which_more_than_a_quarter_of_the_rows_have_their_own(tmp_path, caplog, form, once):
    codes = [f"c{k if k < once else k % 5}" for k in range(ROWS)]
    rows = in_form(PLAIN.assign(code=codes, note=[f"a note on {code}" for code in codes]), form, tmp_path)
    assert sm.train(rows, y="y", passes=1).model.schema.columns[2].kind == "category"
    said = "texts that look like sentences count as categories: note; count the words of one with text, or name them in"
    assert (said in caplog.text) == (once > ROWS // 4)
    caplog.clear()
    sm.train(rows, y="y", passes=1, categorical="note")
    assert "sentences" not in caplog.text
    more = PLAIN.assign(review="so good", note=[f"a note on {code}" for code in codes])
    sm.train(in_form(more, form, tmp_path), y="y", passes=1, text="review")
    assert ("as categories: note; name them in drop or categorical" in caplog.text) == (once > ROWS // 4)


@pytest.mark.parametrize("form", ["csv", "parquet", "pandas", "stream"])
def test_one_refusal_names_all_and_its_command_mends_all(tmp_path, form):
    days = pd.date_range("2024-01-01", periods=ROWS).strftime("%Y-%m-%d")
    frame = PLAIN.assign(
        customer=[f"c{k}" for k in range(ROWS)], order=[f"o{k // 2 if k < 100 else k}" for k in range(ROWS)],
        when=days, age=np.where(np.arange(ROWS) % 7 == 0, np.nan, X), none=None, old="1",
    )  # fmt: skip
    with pytest.raises(DataError) as caught:
        sm.train(in_form(frame, form, tmp_path), y="y", drop="old")
    said = str(caught.value)
    assert said.count("\n") == 0
    for part in (
        r": 2 columns look like ids: customer \(800 different texts in 800 rows, such as 'c0'\), order \(750",
        r"1 column holds dates, as in .*: when", r"column age: the value is missing, as in 114 more rows",
        r"1 column holds no value at all: none",
    ):  # fmt: skip
        assert re.search(part, said), said
    mends = eval(f"dict({said.rpartition('; use ')[2]})")
    assert mends == {"dates": True, "missing": "mean", "drop": "old,customer,order,none"}
    schema = sm.train(in_form(frame, form, tmp_path), y="y", passes=1, **mends).model.schema
    assert [(column.name, column.kind) for column in schema.columns] == [
        ("x", "number"), ("when", "date"), ("age", "number")
    ]  # fmt: skip


def test_ids_are_dropped_and_the_longest_text_is_counted_in_one_command(tmp_path):
    pytest.importorskip("sklearn")
    frame = PLAIN.assign(ticket=FAULTY["id"], title=[f"the title {k}" for k in range(ROWS)])
    frame["body"] = [f"a text that is longer, and is cut in a message as it is long, {k}" for k in range(ROWS)]
    with pytest.raises(DataError) as caught:
        sm.train(frame[["y", "ticket", "title", "body"]], y="y")
    said, _, command = str(caught.value).rpartition("; use ")
    assert said.endswith("such as 'a text that is longer, and is cut in a message as it is lo...')")
    mends = eval(f"dict({command})")
    assert mends == {"drop": "ticket,title", "text": "body"}
    assert sm.train(frame, y="y", passes=1, **mends).model.schema.columns[1].kind == "text"
    with pytest.raises(DataError, match=r'of body with text="body" and drop="ticket,title", or leave them out with dr'):
        sm.train(frame, y="y", drop="ticket")
    with pytest.raises(DataError, match=r'title looks like free text .*; leave it out with drop="ticket,title"$'):
        sm.train(frame, y="y", drop="ticket", text="body")
    with pytest.raises(sm.UsageError, match=r"beside body, y; leave fewer out with drop, or count .* with text"):
        sm.train(frame[["y", "body"]], y="y", drop="body")


FAULTY = {
    "id": [f"c{k}" for k in range(ROWS)],
    "few": ["free" if k % 50 == 0 else str(k % 7) for k in range(ROWS)],
    "many": ["free" if k % 50 == 0 else f"{x:.9f}" for k, x in enumerate(X)],
    "unlike": ["1,234.5" if k % 2 else "1.234,5" for k in range(ROWS)],
    "when": pd.date_range("2024-01-01", periods=ROWS).strftime("%Y-%m-%d"),
    "gap": [None if k % 7 == 0 else x for k, x in enumerate(X)],
    "none": [None] * ROWS,
}
KEPT = {"few": "category", "unlike": "category", "when": "date", "gap": "number"}
ONE_FAULT = {"few", "many", "unlike"}  # several of these are one fault
PAIRS = [pair for pair in itertools.combinations(FAULTY, 2) if not set(pair) <= ONE_FAULT]


@pytest.mark.parametrize("names", [*PAIRS, tuple(FAULTY)], ids=",".join)
def test_the_options_at_the_end_keep_all_columns_that_can_be_read(tmp_path, monkeypatch, names):
    monkeypatch.setattr("streammargin.tables.learn.MOST_WORDS", 100)
    path = in_form(PLAIN.assign(**{name: FAULTY[name] for name in names}), "csv", tmp_path)
    with pytest.raises(DataError) as caught:
        sm.train(path, y="y")
    mends = eval(f"dict({str(caught.value).rpartition('; use ')[2]})")
    schema = sm.train(path, y="y", passes=1, **mends).model.schema
    assert {column.name: column.kind for column in schema.columns if column.name != "x"} == {
        name: KEPT[name] for name in names if name in KEPT
    }


def test_the_user_chooses_if_values_may_be_read_in_two_ways(tmp_path):
    frame = PLAIN.assign(price=["1,234"] * ROWS, day=["01/02/2024"] * ROWS, id=FAULTY["id"], none=None)
    with pytest.raises(DataError) as caught:
        sm.train(in_form(frame, "csv", tmp_path), y="y")
    assert str(caught.value).endswith(
        '; use drop="id,none", and choose with decimal="point" or decimal="comma", and expand it with '
        'dates="day-first" or dates="month-first"'
    )
    options = {"drop": "id,none", "decimal": "comma", "dates": "month-first"}
    schema = sm.train(in_form(frame, "csv", tmp_path), y="y", passes=1, **options).model.schema
    assert [column.kind for column in schema.columns] == ["number", "number", "date"]


def test_the_command_of_the_shell_is_what_it_says(tmp_path, here):
    frame = PLAIN.assign(**{"customer no": [f"c{k}" for k in range(ROWS)], "when": "2024-01-31", "e-mail": "a"})
    frame["e-mail"] = [f"a{k}@b.c" for k in range(ROWS)]
    frame.to_csv(tmp_path / "t.csv")  # with its index
    words = ["train", "t.csv", "--y", "y", "-o", "m.npz"]
    done = here(*words, cwd=tmp_path)
    assert done.returncode == 65 and not (tmp_path / "m.npz").exists()
    [line] = [line for line in done.stderr.splitlines() if "look like ids" in line]
    options = shlex.split(line.rpartition("; use ")[2])
    assert options[0] == "--dates" and here(*words, *options, cwd=tmp_path).returncode == 0
    assert [column.name for column in sm.load_model(tmp_path / "m.npz").schema.columns] == ["x", "when"]


@pytest.mark.parametrize("name", ["name, as known", "x,", "two\nlines", ","])
def test_a_name_with_commas_or_line_ends_is_named_as_a_message_has_it(tmp_path, name):
    words = [f"word {k}" for k in range(30)]
    path = str(tmp_path / "t.csv")
    pd.DataFrame({"a": range(30), name: words, "b": words, "label": ["p", "q"] * 15}).to_csv(path, index=False)
    with pytest.raises(DataError) as caught:
        sm.train(path)
    drop = re.search(r"drop=\"(.*?)\"", str(caught.value))[1]
    assert sm.train(path, drop=tuple(drop.split(","))).model.feature_names_in_.tolist() == ["a"]
    assert sm.train(path, drop=drop, y="label").model.feature_names_in_.tolist() == ["a"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_ids_of_digits_and_letters_are_ids_beside_others(tmp_path, form):
    """In text they are numbers here, and words there."""
    mixed = [f"{k}" if k % 5 else f"A{k}" for k in range(ROWS)]
    frame = PLAIN.assign(code=[f"A{k}" if k % 5 else f"{k}" for k in range(ROWS)], id=[f"i{k}" for k in range(ROWS)])
    with pytest.raises(DataError, match=r"2 columns look like ids: code \(800 .*, id \(800"):
        sm.train(in_form(frame, form, tmp_path), y="y")
    with pytest.raises(DataError, match=r"column code: 'A0' is not a finite number.*categorical=.code"):
        sm.train(in_form(frame.assign(code=mixed), form, tmp_path), y="y", drop="id")
    model = sm.train(in_form(frame, form, tmp_path), y="y", categorical="code", drop="id", passes=1).model
    assert len(model.schema.columns[1].words) == 800


@pytest.mark.parametrize("form", ["csv", "parquet", "stream"])
def test_words_without_end_stay_within_memory(tmp_path, monkeypatch, form):
    """Words after the most are not counted; a category that is asked for has the most frequent of the others."""
    monkeypatch.setattr("streammargin.tables.tally.MOST_DISTINCT", 300)
    frame = PLAIN.assign(id=[f"u{k}" for k in range(ROWS)], when="2024-01-31")
    with pytest.raises(
        DataError, match=r"id looks like an id \(more than 300 different texts in 800 rows, such as 'u0'\); 1 column h"
    ):
        sm.train(in_form(frame, form, tmp_path), y="y")
    frame = PLAIN.assign(id=["a", "b"] * 200 + [f"u{k // 2}" for k in range(0, 800, 1)][:400])
    frame = pd.concat([frame, frame.assign(id=[f"v{k // 3}" for k in range(ROWS)])])
    where = "line 1096" if form == "csv" else "row 1094"
    with pytest.raises(DataError, match=rf"{where}, column id: more than 300 different texts are too many for cat"):
        sm.train(in_form(frame, form, tmp_path), y="y")
    column = sm.train(in_form(frame, form, tmp_path), y="y", categorical="id", passes=1).model.schema.columns[1]
    assert len(column.words) == 300 and column.other and {"a", "b", "u0", "u199", "v0"} <= set(column.words)


def test_tallies_of_parts_are_those_of_the_whole(monkeypatch):
    monkeypatch.setattr("streammargin.tables.tally.MOST_DISTINCT", 3)
    first, second = Tallied(), Tallied()
    for word in "aab":
        first.count(word, 1)
    for word in "bcde":
        second.count(word, 1)
    first.add(second)
    assert dict(first.words) == {"a": 2, "b": 2, "c": 1} and first.full


def test_gaps_and_nan_of_one_column_are_gaps():
    y, x = pa.array([0, 1] * 3), pa.array(range(6))
    some, none = pa.array([None, np.nan, 1.0, 2.0, np.nan, 3.0]), pa.array([None, np.nan] * 3)
    with pytest.raises(DataError, match="row 0, column x: the value is missing, as in 2 more rows"):
        sm.train(pa.table({"x": some, "y": y}), y="y")
    with pytest.raises(DataError, match="1 column holds no value at all: x"):
        sm.train(pa.table({"x": none, "z": x, "y": y}), y="y")
    schema = sm.train(pa.table({"x": some, "y": y}), y="y", missing="mean").model.schema
    assert schema.columns[0].fill == 2.0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("plain", [True, False])
def test_numbers_that_rise_from_row_to_row_are_named(tmp_path, caplog, form, plain):
    """In tables of numbers alone, and beside text."""
    frame = PLAIN.assign(
        number=np.arange(ROWS) + 1, seconds=1_700_000_000 + 7 * np.arange(ROWS), shuffled=RANDOM.permutation(ROWS),
        half=np.arange(ROWS) / 2, twice=np.arange(ROWS) // 2,
    )  # fmt: skip
    if plain:
        frame["y"] = (X > 0).astype(int)
    sm.train(in_form(frame, form, tmp_path), y="y", drop="x", passes=1)
    said = "number (1 to 800), seconds (1700000000 to 1700005593) rise from row to row, as ids and times do; unless"
    assert said in caplog.text and 'leave them out with drop="x,number,seconds"' in caplog.text
    assert "float32" not in caplog.text or plain
    caplog.clear()
    sm.train(in_form(frame, form, tmp_path), y="y", columns=["number", "half"], drop="x", passes=1)
    sm.train(in_form(frame[:19], form, tmp_path), y="y", passes=1)  # too few rows to tell
    sm.train(in_form(frame, form, tmp_path), y="y", drop=["number", "seconds"], passes=1)
    assert "from row to row" not in caplog.text


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_whole_numbers_that_need_float64_are_named(tmp_path, caplog, form):
    caplog.set_level("INFO")
    frame = PLAIN.assign(account=RANDOM.permutation(ROWS) + (1 << 24), small=RANDOM.permutation(ROWS))
    model = sm.train(in_form(frame, form, tmp_path), y="y", passes=1).model
    assert model.schema.dtype == "float64" and "float32 would change values of account; if" in caplog.text
    assert 'leave it out with drop="account"' in caplog.text
    caplog.clear()
    assert sm.train(in_form(frame, form, tmp_path), y="y", drop="account", passes=1).model.schema.dtype == "float32"
    assert "float32 would" not in caplog.text


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("plain", [True, False])
def test_a_spool_that_is_used_again_says_again_what_was_said_of_its_columns(tmp_path, caplog, form, plain):
    caplog.set_level("INFO")
    frame = PLAIN.assign(number=np.arange(ROWS) + 1)
    frame = frame.assign(y=(X > 0).astype(int)) if plain else frame.assign(kg=[f"{k % 30} kg" for k in range(ROWS)])
    rows, said = in_form(frame, form, tmp_path), []
    for _ in range(3):
        sm.train(rows, y="y", drop="x", passes=1, spool=str(tmp_path / "spool"))
        said.append([record.getMessage() for record in caplog.records if record.filename == "learn.py"] if not said else
                    [record.getMessage() for record in caplog.records])  # fmt: skip
        caplog.clear()
    assert any("number (1 to 800) rises" in text for text in said[0])
    assert plain or any("differ by their digits" in text for text in said[0])
    for later in said[1:]:
        assert [text for text in later if text in said[0]] == said[0] and "nothing has changed" in "".join(later)
    for damaged in ("[", "[3]", 7, [1, 2]):
        with h5py.File(next((tmp_path / "spool").glob("*.rows.h5")), "r+") as file:
            file.attrs["streammargin-remarks"] = damaged
        sm.train(rows, y="y", drop="x", passes=1, spool=str(tmp_path / "spool"))
        assert "nothing has changed" in caplog.text and "rises" not in caplog.text
        caplog.clear()


def test_rising_of_parts_is_that_of_the_whole():
    for numbers in (np.arange(9.0), np.arange(9.0) / 2, np.array([0.0, 1.0, 1.0, 2.0, 3.0]), np.arange(9.0)[::-1]):
        for cut in range(len(numbers) + 1):
            whole, first, second = Rising(), Rising(), Rising()
            whole.add(numbers)
            first.add(numbers[:cut])
            second.add(numbers[cut:])
            first.join(second)
            assert first.holds == whole.holds == bool(np.array_equal(numbers, np.arange(9)))
            assert not whole.holds or (first.low, first.high) == (whole.low, whole.high) == (0.0, 8.0)
