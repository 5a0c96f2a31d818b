"""Categories that look like numbers: zip codes, categories of numbers, keys of folders; and how they are matched."""

import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import call
from pyarrow import parquet
from table_rows import in_form

import streammargin as sm
from streammargin.data_tools.convert import convert
from streammargin.errors import DataError, UsageError
from streammargin.numpy_model import NumpyModel

CODES = ["01001", "02139", "00501", "10001"]
TEXT = np.array(CODES * 10)
NUMBERS = np.array([int(code) for code in TEXT])
LABELS = np.array(list("abba") * 10)


def words_of(model, name="zip"):
    """The words of a column, of which a model has one for each; fails for numbers."""
    [column] = [each for each in model.schema.columns if each.name == name]
    assert column.kind == "category"
    return list(column.words)


FORMS = ["csv", "parquet", "feather", "stream", "pandas", "arrow"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("given", ["zip", ["zip"]])
def test_columns_are_categories_if_they_are_said_to_be(tmp_path, form, given):
    data = in_form(pa.table({"zip": TEXT, "t": LABELS}), form, tmp_path)
    model = sm.train(data, y="t", categorical=given).model
    assert words_of(model) == sorted(CODES)
    assert model.evaluate(in_form(pa.table({"zip": TEXT, "t": LABELS}), form, tmp_path))["accuracy"] == 1.0
    numbers = in_form(pa.table({"zip": NUMBERS, "n": NUMBERS / 7, "t": LABELS}), form, tmp_path)
    model = sm.train(numbers, y="t", categorical=given, scale="std").model
    assert words_of(model) == sorted(str(int(code)) for code in CODES)
    assert model.schema.columns[1].kind == "number"


@pytest.mark.parametrize("form", ["parquet", "feather", "stream", "pandas", "arrow"])
@pytest.mark.parametrize("kind", ["int", "whole floats", "fractions", "decimal", "with gaps"])
def test_a_category_of_numbers_is_one_without_being_asked(tmp_path, form, kind):
    values, words = NUMBERS.tolist(), sorted(str(int(code)) for code in CODES)
    if kind == "whole floats":
        values = NUMBERS.astype(float).tolist()
    elif kind == "fractions":
        values, words = (NUMBERS / 4).tolist(), sorted(str(int(code) / 4) for code in CODES)
        words = sorted(word.removesuffix(".0") for word in words)
    elif kind == "decimal":
        values = [Decimal(int(number)).quantize(Decimal("1.00")) for number in NUMBERS]
    elif kind == "with gaps":
        values[3] = None
    column = pa.array(values).dictionary_encode()
    data = pa.table({"zip": column, "t": LABELS})
    if form == "pandas" and kind in ("int", "with gaps"):
        data = pa.table({"zip": pa.array(pd.Series(values, dtype="Int64").astype("category")), "t": LABELS})
    model = sm.train(in_form(data, form, tmp_path), y="t", missing="zero").model
    assert words_of(model) == words
    np.testing.assert_array_equal(model.predict(in_form(data, form, tmp_path)), model.predict(data))
    plain = pa.table({"zip": column.dictionary_decode(), "t": LABELS})  # the same numbers, and no category
    np.testing.assert_array_equal(model.predict(in_form(plain, form, tmp_path)), model.predict(data))


def test_a_category_of_pandas_scores_as_its_numbers_or_text():
    frame = pd.DataFrame({"zip": pd.Categorical(NUMBERS), "t": LABELS})
    model = sm.train(frame, y="t").model
    for other in (NUMBERS, NUMBERS.astype(float), NUMBERS.astype(str), pd.Categorical(NUMBERS.astype(str)), TEXT):
        assert (model.predict(frame.assign(zip=other)) == LABELS).all()
    with pytest.raises(DataError, match=r"row 0, column zip: unknown category '7'"):
        model.predict(frame.assign(zip=7))


def test_truth_stays_a_number_in_a_dictionary():
    table = pa.table({"a": pa.array([True, False] * 20).dictionary_encode(), "t": LABELS})
    assert sm.train(table, y="t").model.schema.columns[0].kind == "number"


def test_text_of_the_training_is_matched_by_numbers_one_to_one(tmp_path):
    """As labels are: numbers equal numbers, text equals text, and of another kind they match one to one."""
    pd.DataFrame({"zip": TEXT, "t": LABELS}).to_csv(tmp_path / "z.csv", index=False)
    model = sm.train(str(tmp_path / "z.csv"), y="t", categorical="zip").model
    assert words_of(model) == sorted(CODES)
    read = pd.read_csv(tmp_path / "z.csv")  # whose zeros are lost
    assert read.zip.dtype.kind == "i"
    others = [read, read.assign(zip=read.zip.astype(float)), read.assign(zip=read.zip.astype("category"))]
    for same in (str(tmp_path / "z.csv"), pd.read_csv(tmp_path / "z.csv", dtype=str), *others):
        assert (model.predict(same) == LABELS).all()
    read.to_csv(tmp_path / "lost.csv", index=False)
    for text in (str(tmp_path / "lost.csv"), read.astype(str)):  # text that is another one
        with pytest.raises(DataError, match=r"column zip: unknown category '1001'"):
            model.predict(text)
    both = pd.DataFrame({"zip": ["1001", "01001", "7"] * 14, "t": list("aba") * 14})
    model = sm.train(both, y="t", categorical="zip").model
    assert (model.predict(both) == both.t).all()
    with pytest.raises(
        DataError, match=r"column zip: the number 1001 may be the category '\d+' or '\d+', which are text; give values"
    ):
        model.predict(both.assign(zip=both.zip.astype(int)))
    assert (model.predict(both.assign(zip=7)) == "a").all()


def test_gaps_of_numbers_are_gaps(tmp_path):
    frame = pd.DataFrame({"zip": TEXT, "t": LABELS})
    model = sm.train(frame, y="t", categorical="zip", missing="indicator").model
    gaps = frame.assign(zip=NUMBERS.astype(float))
    gaps.loc[::4, "zip"] = np.nan
    words = frame.assign(zip=frame.zip.where(gaps.zip.notna(), None))
    np.testing.assert_array_equal(model.decision_function(gaps), model.decision_function(words))
    own = sm.train(gaps, y="t", categorical="zip", missing="indicator").model
    assert words_of(own) == ["10001", "2139", "501"] and own.feature_names_in_.tolist()[-1] == "zip is missing"
    with pytest.raises(DataError, match="missing"):
        sm.train(gaps, y="t", categorical="zip")


def make(root, codes):
    """A folder of each code with rows of Parquet."""
    for k, code in enumerate(codes):
        (root / f"code={code}").mkdir(parents=True)
        x = np.random.default_rng(k).standard_normal(40)
        parquet.write_table(pa.table({"x": x, "y": np.where(x > k % 2, "p", "q")}), root / f"code={code}" / "a.parquet")
    return str(root)


def test_keys_of_folders_keep_their_text(tmp_path):
    mixed, zeros = make(tmp_path / "m", ["01001", "01002", "11164", "2A001"]), make(tmp_path / "z", ["01001", "01002"])
    with pytest.raises(DataError, match=r"column code: '2A001' is not .*make categories of all with categorical=.code"):
        sm.train(mixed, y="y")
    model = sm.train(mixed, y="y", categorical="code").model
    assert words_of(model, "code") == ["01001", "01002", "11164", "2A001"]
    assert sm.train(zeros, y="y", scale="std").model.schema.columns[1].kind == "number"
    model = sm.train(zeros, y="y", categorical="code").model
    assert words_of(model, "code") == ["01001", "01002"]
    frame = pd.DataFrame({"x": [0.1, -2.0], "code": ["01001", "01002"]})
    expected = model.decision_function(frame)
    np.testing.assert_array_equal(model.decision_function(frame.assign(code=[1001, 1002])), expected)
    with pytest.raises(DataError, match="unknown category '1001'"):
        model.predict(make(tmp_path / "o", ["1001"]))
    assert len(model.predict(zeros)) == 80
    files = sorted(str(path) for path in (tmp_path / "z").rglob("*.parquet"))
    np.testing.assert_array_equal(model.predict(files), model.predict(zeros))


def test_the_shell_keeps_zeros(tmp_path, here):
    pd.DataFrame({"zip": TEXT, "city": "x", "t": LABELS}).to_csv(tmp_path / "z.csv", index=False)
    done = here("train", "z.csv", "--y", "t", "--categorical", "zip,city", "-o", "m.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    model = sm.load_model(tmp_path / "m.npz")
    assert words_of(model) == sorted(CODES) and words_of(model, "city") == ["x"]
    done = here("predict", "m.npz", "z.csv", "--id", "zip", cwd=tmp_path)
    assert done.stdout.splitlines()[1:5] == [f"{code},{label}" for code, label in zip(CODES, "abba", strict=True)]
    assert json.loads(here("evaluate", "m.npz", "z.csv", "--json", cwd=tmp_path).stdout)["accuracy"] == 1.0
    done = call("train", "-", "--y", "t", "--categorical", "zip", "-o", "p.npz", cwd=tmp_path,
                input=(tmp_path / "z.csv").read_text())  # fmt: skip
    assert done.returncode == 0 and words_of(sm.load_model(tmp_path / "p.npz")) == sorted(CODES)
    convert(str(tmp_path / "z.csv"), str(tmp_path / "z.h5"), y="t", categorical="zip,city")
    assert words_of(sm.train(str(tmp_path / "z.h5")).model) == sorted(CODES)
    convert(str(tmp_path / "z.csv"), str(tmp_path / "l.h5"), like=str(tmp_path / "m.npz"))
    assert model.evaluate(str(tmp_path / "l.h5"))["accuracy"] == 1.0


def test_what_looks_like_truth_numbers_or_dates_may_be_a_category(tmp_path):
    frame = pd.DataFrame({"a": ["true", "false"] * 20, "b": [0, 1, 2, 3] * 10, "c": ["1.50", "1.5"] * 20, "d": LABELS})
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = sm.train(str(tmp_path / "t.csv"), y="d", categorical=["a", "b", "c"]).model
    assert [words_of(model, name) for name in "abc"] == [["false", "true"], list("0123"), ["1.5", "1.50"]]
    assert (model.predict(str(tmp_path / "t.csv")) == LABELS).all()
    days = pd.DataFrame({"day": pd.to_datetime(["2024-01-01", "2024-01-02"] * 20), "y": [0, 1] * 20})
    assert len(words_of(sm.train(days, y="y", categorical="day").model, "day")) == 2


SPELLINGS = [("True", "False"), ("true", "false"), ("TRUE", "FALSE"), ("1", "0"), ("1.0", "0.0")]


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda pair: pair[0])
def test_truth_in_text_matches_booleans(tmp_path, spelling):
    """Categories, labels and tasks, in both directions: CSV has no booleans, Parquet and frames do."""
    flag, kept = np.array([True, False, False, True] * 10), np.array([True, True, False, False] * 10)
    typed = pd.DataFrame({"a": flag, "user": kept, "y": flag == kept})
    text = typed.apply(lambda column: np.where(column, *spelling))
    text.to_csv(tmp_path / "t.csv", index=False)
    typed.to_parquet(tmp_path / "t.parquet")
    given = [typed, typed.astype(object), str(tmp_path / "t.parquet"), text, str(tmp_path / "t.csv")]
    for train in given:
        model = sm.train(train, y="a", categorical=["user", "y"]).model
        shared = sm.train(train, y="a", tasks="user", categorical="y").model
        model.save(tmp_path / "m.npz", force=True)
        for rows in given:
            assert model.evaluate(rows, y="a") == model.evaluate(train, y="a")
            assert shared.evaluate(rows, y="a", tasks="user") == shared.evaluate(train, y="a", tasks="user")
        expected = model.decision_function(typed)
        np.testing.assert_allclose(NumpyModel(tmp_path / "m.npz").decision_function(typed), expected, rtol=1e-6)


def test_two_spellings_of_truth_are_no_boolean():
    model = sm.train(pd.DataFrame({"a": ["True", "TRUE", "False", "x"] * 10, "y": LABELS}), y="y").model
    assert words_of(model, "a") == ["False", "TRUE", "True", "x"]
    with pytest.raises(DataError, match="column a: the number True may be the category 'TRUE' or 'True'"):
        model.predict(pd.DataFrame({"a": [True]}))
    with pytest.raises(DataError, match="unknown category 'true'"):
        model.predict(pd.DataFrame({"a": ["true"]}))


def test_many_words_are_kept_if_they_are_asked_for():
    ids = [f"u{k}" for k in range(3000)]
    frame = pd.DataFrame({"id": ids, "n": np.arange(3000.0), "y": [0, 1] * 1500})
    model = sm.train(frame, y="y", categorical="id", passes=2, scale="std").model
    assert len(words_of(model, "id")) == 1000 and model.feature_names_in_.tolist()[1000] == "id=other"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categorical": "none"}, "no column none for categorical; it has zip, t"),
        ({"categorical": "t"}, "the column t is none of the values; leave it out of categorical"),
        ({"categorical": "zip", "text": "zip"}, "the column zip is counted as text; leave it out of categorical"),
        ({"categorical": "zip", "drop": "zip"}, "none of the values|no column of values"),
        ({"categorical": 3}, "categorical must be names of columns, not 3"),
    ],
)
def test_categories_that_cannot_be(options, message):
    with pytest.raises(UsageError, match=message):
        sm.train(pd.DataFrame({"zip": TEXT, "t": LABELS}), y="t", **options)
    with pytest.raises(UsageError, match="categorical is for tables"):
        sm.train((np.eye(2), [0, 1]), categorical="a")
    frame, said = (
        pd.DataFrame({"zip": TEXT}),
        "tables that hold their labels; add them as a column, and name it in y, as",
    )
    for given, more in ((frame, {"y": LABELS}), ((frame, LABELS), {})):
        with pytest.raises(UsageError, match=f"{said} train.frame, y="):
            sm.train(given, categorical="zip", **more)


def test_held_out_rows_are_read_alike(tmp_path):
    frame = pd.DataFrame({"zip": TEXT, "t": LABELS})
    frame.to_csv(tmp_path / "z.csv", index=False)
    for valid in (str(tmp_path / "z.csv"), frame, frame.assign(zip=NUMBERS)):
        result = sm.train(str(tmp_path / "z.csv"), y="t", categorical="zip", valid=valid)
        assert result.certificate.valid_error == 0.0


def test_text_of_numbers_is_read_as_numbers_if_the_training_had_these():
    frame = pd.DataFrame({"a": NUMBERS, "t": LABELS})
    model = sm.train(frame, y="t", scale="std").model
    np.testing.assert_array_equal(model.predict(frame.astype(str)), model.predict(frame))
    with pytest.raises(DataError, match=r"row 1, column a: 'x' is not a number, as it was in training"):
        model.predict(pd.DataFrame({"a": ["01001", "x"]}))


@pytest.mark.parametrize("values", [([1, 2], [3, 4]), (["a", "b"], ["c", "d"])], ids=["numbers", "words"])
def test_a_stream_of_several_dictionaries_is_one_category(values):
    """As streams of pandas' categories are."""
    schema = pa.schema([("zip", pa.dictionary(pa.int8(), pa.array(values[0]).type)), ("y", pa.int64())])
    batches = [
        pa.record_batch([pa.array(part * 10).dictionary_encode().cast(schema[0].type), pa.array([0, 1] * 10)], schema)
        for part in values
    ]
    model = sm.train(pa.RecordBatchReader.from_batches(schema, batches), y="y").model
    assert words_of(model) == list(map(str, values[0] + values[1]))
    assert model.predict(pa.Table.from_batches(batches[1:])).tolist() == [0, 1] * 10
