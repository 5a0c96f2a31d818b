"""Numbers as people write them become numbers in every form of a table, in training and in prediction."""

import logging

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from table_rows import FORMS, in_form, scored, trained

import streammargin as sm
from streammargin.data_tools.convert import convert
from streammargin.errors import DataError, UsageError
from streammargin.sources.schema import Column, Schema
from streammargin.tables import spellings, tally

ROWS = 22


def text(values, **others):
    """A frame with a column of text and labels."""
    values = [values[k % len(values)] for k in range(ROWS)]
    return pd.DataFrame({"v": pd.Series(values, dtype=object), **others, "y": ["ab"[k % 2] for k in range(ROWS)]})


SPELT = {
    "thousands": (["1,234.56", "900", "-12,345,678.00", "0.5"], [1234.56, 900.0, -12345678.0, 0.5]),
    "millions": (["1,000,000", "2,500", "7"], [1e6, 2500.0, 7.0]),
    "lakhs": (["12,34,567", "1,000.5"], [1234567.0, 1000.5]),
    "german": (["1.234,56", "12,5", "-7", "1.000.000"], [1234.56, 12.5, -7.0, 1e6]),
    "commas": (["12,5", "3,25", "-0,123"], [12.5, 3.25, -0.123]),
    "percent": (["12.3%", "5 %", "-1.25%", "0", "(3%)"], [12.3, 5.0, -1.25, 0.0, -3.0]),
    "percent, commas": (["12,3 %", "0,5\u202f%"], [12.3, 0.5]),
    "permille": (["1.5‰", "2‰"], [1.5, 2.0]),
    "dollars": (["$9.90", "-$1,200", "($3.50)", "$-4", "$(5)", "12.5"], [9.9, -1200.0, -3.5, -4.0, -5.0, 12.5]),
    "dollars by name": (["USD 9.90", "US$5.5", "7.25 usd"], [9.9, 5.5, 7.25]),
    "euros": (["€ 1.234,50", "9,90 €", "EUR 3,5", "-2,25\u00a0€"], [1234.5, 9.9, 3.5, -2.25]),
    "pounds": (["£1,234.50", "£2"], [1234.5, 2.0]),
    "yen": (["¥1,234,567", "¥980"], [1234567.0, 980.0]),
    "francs": (["CHF 1'234.50", "Fr. 9.5"], [1234.5, 9.5]),
    "blanks": (["1 234", "12 345 678", "900"], [1234.0, 12345678.0, 900.0]),
    "fixed blanks": (["1\u00a0234,5", "1\u202f234\u202f567,25", "1\u2009000,5"], [1234.5, 1234567.25, 1000.5]),
    "apostrophes": (["1'234", "1’234’567.5"], [1234.0, 1234567.5]),
    "brackets": (["(12)", "15", "(1,234.5)"], [-12.0, 15.0, -1234.5]),
    "rupees": (["Rs. 500", "Rs.70"], [500.0, 70.0]),
    "signs": (["+5", "-3", "12-", "\u22127", "+1,000.5"], [5.0, -3.0, -12.0, -7.0, 1000.5]),
    "yes and no": (["yes", "no", "Yes", "NO"], [1.0, 0.0, 1.0, 0.0]),
    "true and false": (["TRUE", "True", "false", "FALSE"], [1.0, 1.0, 0.0, 0.0]),
    "y and n": (["y", "N"], [1.0, 0.0]),
    "t and f": (["t", "f", "F"], [1.0, 0.0, 0.0]),
    "on and off": (["on", "Off"], [1.0, 0.0]),
    "one word": (["no"], [0.0]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SPELT)
def test_numbers_as_people_write_them_are_numbers(tmp_path, name, form):
    words, numbers = SPELT[name]
    schema, X = trained(in_form(text(words), form, tmp_path), tmp_path)
    assert [(each.name, each.kind) for each in schema.columns] == [("v", "number")]
    assert X[:, 0] == pytest.approx([numbers[k % len(words)] for k in range(ROWS)], rel=1e-6)
    new = text(words[::-1]).drop(columns="y")  # in another order, and without labels
    assert scored(in_form(new, form, tmp_path), schema)[:, 0] == pytest.approx(
        [numbers[::-1][k % len(words)] for k in range(ROWS)], rel=1e-6
    )


@pytest.mark.parametrize("form", FORMS)
def test_digits_and_decimals_as_text_of_a_typed_table(tmp_path, form):
    """Decimals are numbers; whole numbers that a typed table has as text are words on purpose, as codes are."""
    frame = text(["12.5", "-3", "1.234"], code=["01001", "94103"] * (ROWS // 2))
    schema, X = trained(in_form(frame, form, tmp_path), tmp_path)
    kinds = [each.kind for each in schema.columns]
    assert kinds == ["number", "number" if form in ("csv", "shards") else "category"]
    assert X[:3, 0] == pytest.approx([12.5, -3.0, 1.234])


@pytest.mark.parametrize("form", FORMS)
def test_two_readings_are_refused_until_one_is_chosen(tmp_path, form):
    frame = text(["1,234", "2,500"], w=["$1.500", "$1.250"] * (ROWS // 2))
    data = lambda: in_form(frame, form, tmp_path)  # noqa: E731
    with pytest.raises(DataError) as found:
        trained(data(), tmp_path)
    said = str(found.value)
    assert "'1,234' may be 1234 or 1.234" in said and 'decimal="point" or decimal="comma"' in said
    assert ": v, w" in said and 'drop="v,w"' in said
    assert trained(data(), tmp_path, decimal="point")[1][:2] == pytest.approx(np.array([[1234, 1.5], [2500, 1.25]]))
    schema, X = trained(data(), tmp_path, decimal="comma")
    assert X[:2] == pytest.approx(np.array([[1.234, 1500], [2.5, 1250]]))
    assert scored(in_form(text(["7,5"], w=["$2.000,25"] * ROWS), form, tmp_path), schema)[0].tolist() == [7.5, 2000.25]


def test_a_comma_that_was_asked_for_is_that_of_whole_columns_of_text(tmp_path):
    """Points are marks of thousands then, and numbers that no comma fits stay as they are."""
    frame = text(["1.234", "900"], w=["1.5", "2.25"] * (ROWS // 2), k=range(ROWS))
    schema, X = trained(in_form(frame, "csv", tmp_path), tmp_path, decimal="comma")
    assert X[:2].tolist() == [[1234.0, 1.5, 0.0], [900.0, 2.25, 1.0]]
    assert scored(in_form(frame, "csv", tmp_path), schema)[:2].tolist() == X[:2].tolist()
    assert trained(in_form(frame, "csv", tmp_path), tmp_path)[1][0] == pytest.approx([1.234, 1.5, 0.0])


@pytest.mark.parametrize(
    "word", ["12 kg", "1,23", "12.3%", "€5", "$5", "1,2,3", "yes", "01/02/2024", "inf", "--5", "1 23"]
)
@pytest.mark.parametrize("form", ("csv", "parquet", "pandas", "polars"))
def test_a_value_in_another_spelling_is_an_error_of_its_row(tmp_path, form, word):
    schema, _ = trained(in_form(text(["1,234.5", "900"]), form, tmp_path), tmp_path)
    new = text(["12.5"])
    new.loc[4, "v"] = word
    where = "line 6" if form == "csv" else "row 4"
    with pytest.raises(DataError, match=f"{where}, column v: '.*' is not a number, as it was in training"):
        scored(in_form(new, form, tmp_path), schema)


def test_typed_numbers_are_taken_if_they_have_the_unit_of_the_training(tmp_path):
    new = pd.DataFrame({"v": [1.5, 2.0]})
    assert scored(new, trained(text(["$9.90", "$1,200"]), tmp_path)[0])[:, 0].tolist() == [1.5, 2.0]
    assert scored(new, trained(text(["1.234,5", "12,5"]), tmp_path)[0])[:, 0].tolist() == [1.5, 2.0]
    shares, _ = trained(text(["12.3%", "5%"]), tmp_path)
    with pytest.raises(
        DataError, match=r"row 0, column v: numbers without the sign that they had in training \(point %\)"
    ):  # 0.015 or 1.5?
        scored(new, shares)


def test_a_number_with_two_readings_behind_thousands_of_others_is_named(tmp_path):
    """More words than are counted (MOST_SPELT) stand before it."""
    words = [str(k) for k in range(5000)] + ["1,234"]
    frame = pd.DataFrame({"v": words, "y": ["a", "b"] * 2500 + ["a"]})
    with pytest.raises(DataError, match=r"line 5002, column v: '1,234' may be 1234 or 1\.234"):
        trained(in_form(frame, "csv", tmp_path), tmp_path)


@pytest.mark.parametrize("kinds", [["{} kg"], ["{:.1f}°"], ["2024-W{:02}"], ["{}. März 2024", "{}. Mai 2024"]])
def test_many_categories_that_differ_by_their_digits_are_said(tmp_path, caplog, kinds):
    words = [kinds[k % len(kinds)].format(k) for k in range(20)]
    frame = text(words * 3)
    frame = pd.concat([frame] * 3)
    schema, _ = trained(frame, tmp_path)
    assert schema.columns[0].words == tuple(sorted(words))
    assert f"texts that differ by their digits count as categories: v ('{words[0]}')" in caplog.text
    caplog.clear()
    trained(frame, tmp_path, categorical="v")
    assert "digits" not in caplog.text


@pytest.mark.parametrize(
    "words, message",
    [
        (["12.3%", "5%", "unknown"], "'unknown' is not a finite number, as most of its values are"),
        (["1.5", "2,5"], "'2,5' is not written like '1.5', and no format fits both; write all numbers alike"),
        (["$9.90", "€9.90"], r"'€9.90' is not written like '\$9.90'"),
        (["12.3%", "0.5"], "'0.5' is not written like '12.3%'"),
        (["1,234.5", "1.234,5"], "is not written like"),
        (["$5", "€6"], r"'€6' is not written like '\$5'"),
        (["5%", "6"], "'6' is not written like '5%'"),
        (["Rs. 500", "Rs. 1,500"], "'Rs. 1,500' may be 1500 or 1.5"),
    ],
)
@pytest.mark.parametrize("form", ("csv", "parquet", "pandas"))
def test_mixtures_are_refused_and_never_words(tmp_path, words, message, form):
    with pytest.raises(DataError, match=message):
        trained(in_form(text(words), form, tmp_path), tmp_path)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "words", [["Rome", "Oslo 12"], ["a1", "b2"], ["yes", "no", "maybe"], ["3-4", "5-6"], ["5G", "4G"]]
)
def test_words_stay_words(tmp_path, words, form):
    schema, _ = trained(in_form(text(words), form, tmp_path), tmp_path)
    assert schema.columns[0].kind == "category" and set(schema.columns[0].words) == set(words)


@pytest.mark.parametrize("form", ("parquet", "feather", "pandas", "polars", "arrow", "stream"))
def test_a_type_of_categories_keeps_its_words(tmp_path, form):
    words = {"v": ["$9.90", "$1"], "w": ["yes", "no"], "d": ["2024-01-01", "2024-02-01"], "n": ["1,234", "2,345"]}
    frame = pd.DataFrame({name: pd.Categorical(each * 11) for name, each in words.items()}).assign(y=["a", "b"] * 11)
    schema, _ = trained(in_form(frame, form, tmp_path), tmp_path)
    assert {each.name: sorted(each.words) for each in schema.columns} == {k: sorted(v) for k, v in words.items()}


def test_a_model_converts_and_evaluates_tables_of_its_spelling(tmp_path):
    frame = text(["1.234,5", "12,5", "-3"], when=[f"{1 + k}/02/2024" for k in range(ROWS)])
    path, out = in_form(frame, "csv", tmp_path), str(tmp_path / "rows.h5")
    model = sm.train(path, y="y", dates=True, valid=path, passes=3).model
    model.save(str(tmp_path / "m.npz"))
    convert(path, out, y="y", dates="day-first")
    assert sm.open_source(out).schema() == model.schema.to_plain()
    convert(path, str(tmp_path / "like.h5"), y="y", like=str(tmp_path / "m.npz"))
    assert model.evaluate(path) == model.evaluate(out) == model.evaluate(str(tmp_path / "like.h5"))
    assert model.predict(out).tolist() == model.predict(frame).tolist()
    with pytest.raises(UsageError, match=r"does not use decimal"):
        convert(out, str(tmp_path / "again.h5"), decimal="comma")


def test_a_model_of_a_spelling_that_is_not_known_is_an_error(tmp_path):
    schema = Schema((Column("v", spelling="roman"),))
    with pytest.raises(DataError, match="reads a column by the spelling 'roman', which this version does not know"):
        scored(text(["XII"]), schema)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("missing", ("mean", "zero", "indicator"))
def test_gaps_among_them(tmp_path, form, missing):
    frame = text(["$1,000.00", "$3,000.00"])
    frame.loc[2, "v"] = None
    with pytest.raises(DataError, match="the value is missing"):
        trained(in_form(frame, form, tmp_path), tmp_path)
    schema, X = trained(in_form(frame, form, tmp_path), tmp_path, missing=missing)
    kept = [1000.0 if k % 2 == 0 else 3000.0 for k in range(ROWS) if k != 2]
    assert X[2, 0] == pytest.approx(0.0 if missing == "zero" else np.mean(kept), rel=1e-6)
    assert X[:, 1:].ravel().tolist() == ([float(k == 2) for k in range(ROWS)] if missing == "indicator" else [])
    assert scored(in_form(frame, form, tmp_path), schema).tolist() == X.tolist()


def test_pieces_of_text_with_other_spellings_are_one_column(tmp_path, monkeypatch):
    """A piece of plain numbers comes before one of others: 1.234 is 1234 then, as it is in the others."""
    values = ["1.234"] * 400 + ["12,5"] * 400 + ["900"] * 400
    path = tmp_path / "t.csv"
    path.write_text("v;w;y\n" + "".join(f"{v};{k};{'ab'[k % 2]}\n" for k, v in enumerate(values)))
    monkeypatch.setattr("streammargin.tables.textfile.TEXT_PIECE", 2000)
    monkeypatch.setattr("streammargin.tables.readers.delimited.TEXT_PIECE", 2000)
    schema, X = trained(str(path), tmp_path)
    assert X[:, 0].tolist() == [1234.0] * 400 + [12.5] * 400 + [900.0] * 400
    assert scored(str(path), schema).tolist() == X.tolist()


def test_many_different_numbers_are_not_counted_as_words(tmp_path, monkeypatch):
    monkeypatch.setattr(tally, "MOST_SPELT", 50)
    monkeypatch.setattr(tally, "MOST_DISTINCT", 100)
    words = [f"{k:,}.25" for k in range(0, 400_000, 500)]
    frame = pd.DataFrame({"v": words, "y": ["a", "b"] * 400})
    _, X = trained(in_form(frame, "csv", tmp_path), tmp_path)
    assert X[:, 0].tolist() == [k + 0.25 for k in range(0, 400_000, 500)]
    frame.loc[700, "v"] = "none yet"
    monkeypatch.setattr("streammargin.tables.readers.arrow.MOST_BATCH_ROWS", 100)
    with pytest.raises(DataError, match="row 700, column v: 'none yet' is not written like the others"):
        trained(frame, tmp_path)


def test_each_spelling_is_said_once(tmp_path, caplog):
    frame = text(["$1,234.50"], share=["12.3%"] * ROWS, plain=range(ROWS), b=["yes", "no"] * (ROWS // 2))
    with caplog.at_level("INFO", logging.getLogger("streammargin").name):
        trained(in_form(frame, "csv", tmp_path), tmp_path)
    said = [each.getMessage() for each in caplog.records if "read as" in each.getMessage()]
    assert len(said) == 1 and said[0].endswith("v ('$1,234.50' is 1234.5), share ('12.3%' is 12.3), b ('yes' is 1)")


def test_dates_are_said_as_dates(tmp_path, caplog):
    with caplog.at_level("INFO", logging.getLogger("streammargin").name):
        trained(
            pd.DataFrame({"share": ["12.3%"] * ROWS, "on": ["31/01/2024"] * ROWS, "y": [0, 1] * (ROWS // 2)}),
            tmp_path,
            dates=True,
        )
    said = [each.getMessage().partition(": read as ")[2] for each in caplog.records]
    assert list(filter(None, said)) == [
        "numbers: share ('12.3%' is 12.3)", "dates: on ('31/01/2024' is 2024-01-31 00:00:00)",
    ]  # fmt: skip


def test_labels_tasks_and_names_keep_their_text(tmp_path):
    n = 40
    frame = pd.DataFrame({
        "x": np.arange(n) % 7, "id": [f"{k},000" for k in range(n)], "task": ["1,000", "2,000"] * (n // 2),
        "y": ["12.3%" if k % 7 > 3 else "yes" for k in range(n)],
    })  # fmt: skip
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = sm.train(str(tmp_path / "t.csv"), y="y", drop="id,task").model
    assert set(model.classes_) == {"12.3%", "yes"}
    model = sm.train(str(tmp_path / "t.csv"), y="y", drop="id", tasks="task", passes=3).model
    assert sorted(map(str, model.tasks)) == ["1,000", "2,000"]


def test_what_fits_is_one_rule_for_words_and_columns():
    """The quick test of a word, and the one of many words, are of one mind with the pattern of each form."""
    words = [word for given, _ in SPELT.values() for word in given] + [
        "1,234", "$1.500", "0", "0.0", "0,0", "5", "x", "", "12:30", "01/02/2024", "2024-01-01 10:00", "Jan 5, 2024",
    ]  # fmt: skip
    fits = {form: spellings.fits(pa.array(words), form) for form in spellings.ALL_SPELLINGS}
    for place, word in enumerate(words):
        alone = {form for form in spellings.ALL_SPELLINGS if fits[form][place]}
        alone = set() if alone <= spellings.HELPERS or not any(c.isdigit() for c in word) else alone
        assert spellings.of_word(word) == alone, word
        assert spellings.fitting(spellings.ALL_SPELLINGS, pa.array([word])) == alone, word
    for pair in (["5", "$9"], ["0", "5%"], ["0", "5"], ["1,234", "1.5"], ["€5", "5"], ["01/02/2024", "13/02/2024"]):
        each = spellings.of_word(pair[0]) & spellings.of_word(pair[1])
        assert spellings.fitting(spellings.ALL_SPELLINGS, pa.array(pair)) == (
            set() if each <= spellings.HELPERS else each
        ), pair


@pytest.mark.parametrize("decimal", ["dot", ",", 1])
def test_the_decimal_mark_is_a_word(decimal):
    with pytest.raises(UsageError, match="decimal must be point or comma"):
        sm.train(text(["1,234"]), y="y", decimal=decimal)
