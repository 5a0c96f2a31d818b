"""Dates in every spelling are refused, or become years, days, months, days of the week and hours."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from table_rows import FORMS, in_form, scored, trained

import streammargin as sm
from streammargin.cli.main import main
from streammargin.errors import DataError, UsageError
from streammargin.tables import dates

ROWS = 22
DAYS = [datetime.datetime(2023, 12, 20, 9, 30, 5) + datetime.timedelta(days=3 * k, hours=5 * k) for k in range(ROWS)]
SPELT = (
    "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%d/%m/%Y", "%d/%m/%Y %H:%M", "%m/%d/%Y", "%d.%m.%Y",
    "%d-%b-%Y", "%b %d, %Y", "%Y/%m/%d", "%Y.%m.%d %H:%M:%S", "%d/%m/%y", "%m/%d/%y %I:%M %p", "%d. %m. %Y",
    "%m/%d/%Y %I:%M:%S %p", "%d %B %Y", "%d. %B %Y", "%B %d %Y %H:%M", "%d%b%Y", "%d-%b-%y", "%Y-%b-%d", "%c",
    "%a, %d %b %Y %H:%M:%S +0000", "%A, %B %d, %Y", "%Y%m%dT%H%M%S", "%Y%m%d %H:%M", "%Y-%m-%dT%H:%M:%S.%fZ",
    "%Y-%m-%d %H", "%d/%b/%Y:%H:%M:%S +0000", "%Y-%m-%d %H:%M:%S+00:00",
)  # fmt: skip


def written(form, days=tuple(DAYS)):
    """A frame of dates in a spelling, with labels."""
    values = [day.strftime(form) for day in days]
    return pd.DataFrame({"when": values, "x": range(len(days)), "y": ["ab"[k % 2] for k in range(len(days))]})


def expanded(days, timed, first=None):
    """By Python's own calendar: name -> values of the columns that these days become."""
    first = first or min(days).date()
    names = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    columns = {f"when: years since {first.year}": [day.year - first.year for day in days]}
    columns[f"when: days since {first}"] = [(day.date() - first).days for day in days]
    for month in sorted({day.month for day in days}):
        columns[f"when: month={month}"] = [float(day.month == month) for day in days]
    for place, name in enumerate(names):
        if any(day.weekday() == place for day in days):
            columns[f"when: day of the week={name}"] = [float(day.weekday() == place) for day in days]
    for hour in sorted({day.hour for day in days}) if timed else ():
        columns[f"when: hour={hour}"] = [float(day.hour == hour) for day in days]
    return {**columns, "x": list(range(len(days)))}


def has_time(form):
    return any(part in form for part in ("%H", "%I", "%c"))


@pytest.mark.parametrize("spelt", SPELT)
def test_dates_are_refused_without_the_option_and_expanded_with_it(tmp_path, spelt):
    frame = written(spelt)
    for form in ("csv", "parquet"):
        with pytest.raises(DataError) as found:
            trained(in_form(frame, form, tmp_path), tmp_path)
        where = "line 2" if form == "csv" else "row 0"
        assert f"1 column holds dates, as in {where}: when; expand it with dates=True, or leave it out with " in str(
            found.value
        )
    truth = expanded(DAYS, has_time(spelt))
    for form in {"csv", FORMS[SPELT.index(spelt) % len(FORMS)]}:  # each form has several spellings
        schema, X = trained(in_form(frame, form, tmp_path), tmp_path, dates=True)
        assert list(schema.names()) == list(truth)
        assert X.tolist() == np.column_stack(list(truth.values())).tolist()
        assert schema.columns[0].kind == "date"
    later = [day + datetime.timedelta(days=200) for day in DAYS] + [datetime.datetime(1999, 1, 2, 3)]
    X = scored(in_form(written(spelt, later), "csv", tmp_path), schema)
    assert X[:, 0].tolist() == [day.year - 2023 for day in later]
    assert X[:, 1].tolist() == [(day.date() - DAYS[0].date()).days for day in later] and X[-1, 1] < 0
    assert X[-1, list(truth).index("when: month=1")] == 1.0


NATIVE = {
    "datetime64": lambda days: pd.Series(days),
    "datetime64[s]": lambda days: pd.Series(days).astype("datetime64[s]"),
    "zone": lambda days: pd.Series(days).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
    "dates": lambda days: pd.Series([day.date() for day in days]),
    "dates64": lambda days: pd.Series([day.date() for day in days], dtype=pd.ArrowDtype(pa.date64())),
}


@pytest.mark.parametrize("kind", NATIVE)
@pytest.mark.parametrize("form", ("parquet", "feather", "pandas", "polars", "arrow", "stream"))
def test_dates_of_typed_tables(tmp_path, kind, form):
    frame = pd.DataFrame({"when": NATIVE[kind](DAYS), "x": range(ROWS), "y": ["a", "b"] * (ROWS // 2)})
    with pytest.raises(DataError, match="1 column holds dates, as in row 0: when; expand it with dates=True"):
        trained(in_form(frame, form, tmp_path), tmp_path)
    schema, X = trained(in_form(frame, form, tmp_path), tmp_path, dates=True)
    truth = expanded(DAYS, "dates" not in kind)
    assert list(schema.names()) == list(truth)
    assert X.tolist() == np.column_stack(list(truth.values())).tolist()
    assert scored(in_form(frame, form, tmp_path), schema).tolist() == X.tolist()
    # text as ISO 8601 has it is read alike
    assert scored(in_form(written("%Y-%m-%d %H:%M:%S"), "csv", tmp_path), schema).tolist() == X.tolist()


def test_a_model_of_text_takes_dates_of_typed_tables(tmp_path):
    schema, X = trained(in_form(written("%d/%m/%Y %H:%M"), "csv", tmp_path), tmp_path, dates=True)
    frame = pd.DataFrame({"when": DAYS, "x": range(ROWS)})
    assert scored(frame, schema).tolist() == X.tolist()
    assert scored(in_form(frame, "arrow", tmp_path), schema).tolist() == X.tolist()
    with pytest.raises(DataError, match="values of type int64, but the training had dates"):
        scored(frame.assign(when=20240101), schema)
    with pytest.raises(DataError, match=r"values of type time64.*, but the training had dates"):
        scored(frame.assign(when=datetime.time(9, 30)), schema)


@pytest.mark.parametrize("form", FORMS)
def test_days_and_months_that_may_be_either(tmp_path, form):
    days = [datetime.datetime(2024, 1 + k % 12, 1 + k % 11) for k in range(ROWS)]
    for dated in (None, True):
        with pytest.raises(DataError) as found:
            trained(in_form(written("%d/%m/%Y", days), form, tmp_path), tmp_path, dates=dated)
        assert "'01/01/2024' may be day-first or month-first" in str(found.value)
        assert 'expand it with dates="day-first" or dates="month-first"' in str(found.value)
    for order, spelt in (("day-first", "%d/%m/%Y"), ("month-first", "%m/%d/%Y")):
        schema, X = trained(in_form(written(spelt, days), form, tmp_path), tmp_path, dates=order)
        truth = expanded(days, False)
        assert list(schema.names()) == list(truth) and X.tolist() == np.column_stack(list(truth.values())).tolist()
        assert scored(in_form(written(spelt, days[:3]), form, tmp_path), schema).tolist() == X[:3].tolist()


def test_two_digits_of_a_year_may_be_the_day(tmp_path):
    days = [datetime.datetime(2024, 5, 1 + k) for k in range(ROWS)]
    with pytest.raises(DataError, match="may be day-first or year-first in two digits"):
        trained(written("%y-%m-%d", days), tmp_path, dates=True)
    later = [day + datetime.timedelta(days=365 * 50) for day in days]
    assert (
        trained(written("%y-%m-%d", later), tmp_path, dates=True)[0].columns[0].first[:4] == "1974"
    )  # as POSIX has it


@pytest.mark.parametrize("form", FORMS)
def test_times_of_the_day_have_hours_alone(tmp_path, form):
    for spelt in ("%H:%M:%S", "%I:%M %p", "%H:%M"):
        with pytest.raises(DataError, match="1 column holds dates"):
            trained(in_form(written(spelt), form, tmp_path), tmp_path)
        schema, X = trained(in_form(written(spelt), form, tmp_path), tmp_path, dates=True)
        names = [f"when: hour={hour}" for hour in sorted({day.hour for day in DAYS})]
        assert list(schema.names()) == [*names, "x"]
        assert [names[k] for k in X[:, :-1].argmax(axis=1)] == [f"when: hour={day.hour}" for day in DAYS]
    if form not in ("csv", "shards"):
        native = written("%H").assign(when=[day.time() for day in DAYS])
        native_schema, native_X = trained(in_form(native, form, tmp_path), tmp_path, dates=True)
        assert native_X.tolist() == X.tolist() and native_schema.names().tolist() == schema.names().tolist()


@pytest.mark.parametrize("spelt", ("%Y-%m", "%m/%Y", "%b %Y", "%B-%Y", "%b-%y"))
def test_months_have_no_day_of_the_week(tmp_path, spelt):
    days = [datetime.datetime(2023 + k // 12, 1 + k % 12, 1) for k in range(ROWS)]
    with pytest.raises(DataError, match="1 column holds dates"):
        trained(in_form(written(spelt, days), "csv", tmp_path), tmp_path)
    schema, X = trained(in_form(written(spelt, days), "csv", tmp_path), tmp_path, dates=True)
    months = [f"when: month={k}" for k in range(1, 13)]
    assert list(schema.names()) == ["when: years since 2023", "when: days since 2023-01-01", *months, "x"]
    assert X[:, 0].tolist() == [day.year - 2023 for day in days] and X[13, 1] == 365 + 31


def test_a_zone_is_taken_in_utc(tmp_path):
    for words in (["2024-01-01T00:30:00+02:00", "2024-01-02T10:00:00-05:30"],
                  ["01 Jan 2024 00:30:00 +0200", "02 Jan 2024 10:00 -0530"]):  # fmt: skip
        frame = pd.DataFrame({"when": words * 3, "y": ["a", "b"] * 3})
        schema, X = trained(in_form(frame, "csv", tmp_path), tmp_path, dates=True)
        assert list(schema.names())[:2] == ["when: years since 2023", "when: days since 2023-12-31"]
        assert X[:2, 0].tolist() == [0.0, 1.0] and X[:2, 1].tolist() == [0.0, 2.0]
        assert list(schema.names())[-2:] == ["when: hour=15", "when: hour=22"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("missing", ("mean", "zero", "indicator"))
def test_gaps_among_dates(tmp_path, form, missing):
    frame = written("%d.%m.%Y")
    frame.loc[3, "when"] = None
    with pytest.raises(DataError, match=r"the value is missing.*`?missing"):
        trained(in_form(frame, form, tmp_path), tmp_path, dates=True)
    schema, X = trained(in_form(frame, form, tmp_path), tmp_path, dates=True, missing=missing)
    days = [day for k, day in enumerate(DAYS) if k != 3]
    mean = [np.mean([day.year - 2023 for day in days]), np.mean([(day.date() - DAYS[0].date()).days for day in days])]
    assert X[3, :2] == pytest.approx([0.0, 0.0] if missing == "zero" else mean, rel=1e-6)
    assert X[3, 2:].sum() == 3.0 + (missing == "indicator")  # of x, and of the column that marks it
    assert ("when is missing" in schema.names()) == (missing == "indicator")
    assert scored(in_form(frame, form, tmp_path), schema).tolist() == X.tolist()


@pytest.mark.parametrize("word", ["30.02.2024", "2024-01-05", "31.13.2024", "soon", "5", "1.2.3"])
@pytest.mark.parametrize("form", ("csv", "parquet", "pandas", "polars"))
def test_a_date_that_cannot_be_is_an_error_of_its_row(tmp_path, form, word):
    schema, _ = trained(in_form(written("%d.%m.%Y"), form, tmp_path), tmp_path, dates=True)
    frame = written("%d.%m.%Y")
    frame.loc[5, "when"] = word
    where = "line 7" if form == "csv" else "row 5"
    with pytest.raises(DataError, match=f"{where}, column when: '{word}' is not a date, as it was in training"):
        scored(in_form(frame, form, tmp_path), schema)


def test_a_training_names_the_date_that_cannot_be(tmp_path):
    for word, message in (("30.02.2024", "line 7, column when: '30.02.2024' is not a date"),
                          ("soon", "line 7, column when: 'soon' is not a date, as most of its")):  # fmt: skip
        frame = written("%d.%m.%Y")
        frame.loc[5, "when"] = word
        with pytest.raises(DataError, match=message):
            trained(in_form(frame, "csv", tmp_path), tmp_path, dates=True)
    frame = written("%d.%m.%Y")
    frame.loc[5, "when"] = "2024-01-05"
    with pytest.raises(DataError, match=r"'2024-01-05' is not written like '20\.12\.2023'.*write all dates alike"):
        trained(in_form(frame, "csv", tmp_path), tmp_path, dates=True)


def test_all_columns_of_dates_are_named_in_one_sentence_with_other_faults(tmp_path):
    frame = written("%Y-%m-%d").assign(other=[f"{day:%d/%m/%Y}" for day in DAYS], price=["1,234"] * ROWS)
    with pytest.raises(DataError) as found:
        trained(in_form(frame, "csv", tmp_path), tmp_path)
    said = str(found.value)
    assert "2 columns hold dates, as in line 2: when, other" in said and "'1,234' may be 1234 or 1.234" in said
    assert said.endswith('; use dates=True, and choose with decimal="point" or decimal="comma"')


def test_whole_numbers_that_read_as_dates_are_warned_of_and_kept(tmp_path, caplog):
    frame = written("%Y%m%d").astype({"when": int})
    for form in FORMS:
        for days in (DAYS, [datetime.datetime(2024, 2, 2 * k + 2) for k in range(14)]):  # even ones float32 holds
            caplog.clear()
            frame = written("%Y%m%d", days).astype({"when": int})
            schema, X = trained(in_form(frame, form, tmp_path), tmp_path)
            assert X[:, 0].tolist() == frame["when"].tolist() and schema.columns[0].kind == "number"
            said = [each.getMessage() for each in caplog.records if "looks like dates" in str(each.msg)]
            assert len(said) == 1 and "when looks like dates, and counts as a number, as 20240131" in said[0]
    caplog.clear()
    trained(written("%Y%m%d").assign(when=20240199), tmp_path)
    assert not any("looks like" in str(each.msg) for each in caplog.records)


def test_codes_that_begin_with_zero_are_warned_of_unless_they_are_categories(tmp_path, caplog):
    frame = pd.DataFrame({"zip": [f"{k:05}" for k in range(30)], "size": range(30), "y": [0, 1] * 15})
    path = in_form(frame, "csv", tmp_path)
    schema, _ = trained(path, tmp_path)
    assert [column.kind for column in schema.columns] == ["number", "number"]
    said = [each.getMessage() for each in caplog.records if "begins with 0" in each.getMessage()]
    assert len(said) == 1 and "zip ('00000') begins with 0, and counts as a number; if it is a code" in said[0]
    caplog.clear()
    schema, _ = trained(path, tmp_path, categorical=["zip"])
    assert [column.kind for column in schema.columns] == ["category", "number"]
    assert not any("begins with 0" in each.getMessage() for each in caplog.records)


def test_from_the_shell(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written("%d/%m/%Y").to_csv("d.csv", index=False)
    assert main(["train", "d.csv", "-o", "m.npz", "-q"]) == 65
    assert "expand it with --dates, or leave it out with --drop when" in capsys.readouterr().err
    assert main(["train", "d.csv", "--dates", "-o", "m.npz", "-q", "--passes", "3"]) == 0
    assert main(["train", "d.csv", "--dates", "month-first", "-o", "n.npz", "-q", "--passes", "3"]) == 0
    assert main(["train", "d.csv", "--dates", "week-first", "-o", "n.npz", "-q"]) == 2
    assert "must be day-first or month-first" in capsys.readouterr().err
    written("%d/%m/%Y").drop(columns="y").to_csv("new.csv", index=False)
    assert main(["predict", "m.npz", "new.csv", "-o", "out.txt"]) == 0
    assert len((tmp_path / "out.txt").read_text().split()) == ROWS
    assert main(["info", "m.npz"]) == 0
    assert "when: dates (day-first), days since 2023-12-20, and" in capsys.readouterr().out


def test_a_model_keeps_how_dates_are_read(tmp_path):
    frame = written("%b %d, %Y")
    model = sm.train(frame, y="y", dates=True, passes=3).model
    model.save(str(tmp_path / "m.npz"))
    again = sm.load_model(str(tmp_path / "m.npz"))
    assert again.schema == model.schema and "when: month=12" in list(again.feature_names_in_)
    assert again.predict(frame).tolist() == model.predict(frame).tolist()
    with pytest.raises(UsageError, match="dates must be day-first or month-first"):
        sm.train(frame, y="y", dates="iso")


def test_a_spool_is_one_of_its_options(tmp_path):
    days = [datetime.datetime(2024, 1 + k % 12, 1 + k % 11) for k in range(ROWS)]
    path = in_form(written("%d/%m/%Y", days), "csv", tmp_path)
    found = [
        sm.train(path, y="y", dates=order, spool=str(tmp_path), passes=2).model.schema.columns[0]
        for order in ("day-first", "month-first", "day-first")
    ]
    assert found[0] == found[2] != found[1] and found[1].spelling == "month-first"


def test_years_of_two_digits_and_clocks():
    """Against Python's own parser, for all years, hours and halves of the day."""
    for year in range(100):
        word = f"01-Jul-{year:02}"
        found = dates.parsed(pa.array([word]), "day, month by name, year")[0].as_py()
        assert found == datetime.datetime.strptime(word, "%d-%b-%y")
    for hour in range(1, 13):
        for half in ("AM", "pm"):
            word = f"{hour}:05 {half}"
            found = dates.parsed(pa.array([word]), dates.TIME)[0].as_py()
            assert found == datetime.datetime.strptime(word, "%I:%M %p").time()


def of_polars(data):
    return pytest.importorskip("polars").DataFrame(data)


@pytest.mark.parametrize("made", [pd.DataFrame, of_polars, lambda data: pd.DataFrame(data)[["when"]]])
@pytest.mark.parametrize("estimator", [sm.MarginClassifier, sm.KernelMarginClassifier])
def test_an_estimator_takes_no_date_for_a_number_of_nanoseconds(made, estimator):
    X = made({"x": range(ROWS), "when": DAYS})
    with pytest.raises(DataError, match="X: when holds dates or durations; turn them into numbers, or call"):
        estimator().fit(X, ["a", "b"] * (ROWS // 2))
    with pytest.raises(DataError, match="X holds dates or durations"):
        estimator().fit(np.array(DAYS, "datetime64[s]")[:, None], ["a", "b"] * (ROWS // 2))


def test_dates_before_data_says_where_to_write_it(capsys):
    assert main(["train", "--dates", "t.csv"]) == 2
    assert "not 't.csv'; to give none, write the option after DATA" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (pa.array([1] * ROWS, pa.duration("s")), "duration"),
        (pa.array([(1, 2, 3)] * ROWS, pa.month_day_nano_interval()), "month_day_nano_interval"),
    ],
)
@pytest.mark.parametrize("asked", [None, True])
def test_spans_of_time_are_no_dates(values, told, asked):
    table = pa.table({"v": values, "x": range(ROWS), "y": ["a", "b"] * (ROWS // 2)})
    with pytest.raises(DataError, match=f"1 column holds values of type {told}.*: v; turn them into numbers"):
        sm.train(table, y="y", dates=asked)
