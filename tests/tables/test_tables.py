"""Tables go in as they are, and are scored as they are: against pandas, and rows of numbers made by hand."""

import json
import logging
import os
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import call
from pyarrow import dataset, feather, ipc, parquet

import streammargin as sm
from streammargin.cli.main import main
from streammargin.data_tools.convert import convert
from streammargin.errors import DataError, InputMissingError, OutputError, UsageError
from streammargin.sources.schema import Column, Schema
from streammargin.tables.asked import Asked
from streammargin.tables.readers import arrow
from streammargin.tables.spool import OfTable
from streammargin.tables.table import with_roles

N = 400


def people(seed=0, rows=N):
    """A frame of numbers, booleans and words with gaps, and its labels."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, rows).astype(float)
    city = rng.choice(["Rome", "Oslo", "Bern, old town"], rows)
    member = rng.random(rows) < 0.5
    income = np.where(age + 20 * (city == "Rome") + 10 * member + rng.normal(0, 6, rows) > 60, ">50K", "<=50K")
    age[rng.random(rows) < 0.1] = np.nan
    frame = pd.DataFrame({"age": age, "city": city, "member": member, "hours": rng.normal(40, 5, rows).round(3)})
    frame.loc[rng.random(rows) < 0.05, "city"] = None
    return frame.assign(income=income)


def by_hand(frame):
    """The numbers that the frame stands for, with the mean in gaps: names and values (n, d) float32."""
    mean = frame.age.mean()
    columns = {"age": frame.age.fillna(mean)}
    for word in sorted(frame.city.dropna().unique()):
        columns[f"city={word}"] = (frame.city == word).astype(float)
    columns |= {"member": frame.member.astype(float), "hours": frame.hours}
    return list(columns), np.column_stack(list(columns.values())).astype(np.float32)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same table in every form: name -> path or object."""
    folder, frame = tmp_path_factory.mktemp("tables"), people()
    frame.to_csv(folder / "p.csv", index=False)
    frame.to_csv(folder / "p.csv.gz", index=False)
    frame.to_csv(folder / "p.tsv", index=False, sep="\t")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    parquet.write_table(table, folder / "p.parquet", row_group_size=70)
    feather.write_feather(table, folder / "p.feather", compression="uncompressed")
    (folder / "parts").mkdir()
    for k in range(4):
        parquet.write_table(table.slice(100 * k, 100), folder / "parts" / f"{k}.parquet")
    for k in range(2):
        frame.iloc[200 * k : 200 * k + 200].to_csv(folder / f"half{k}.csv", index=False)
    paths = {name: str(folder / name) for name in ("p.csv", "p.csv.gz", "p.tsv", "p.parquet", "p.feather", "parts")}
    return {
        **paths, "halves": [str(folder / f"half{k}.csv") for k in range(2)], "frame": frame, "table": table,
        "dataset": dataset.dataset(folder / "p.parquet"), "views": as_views(table),
    }  # fmt: skip


def as_views(table):
    """The table with its text as polars has it: views, and the first column of words as a dictionary of these."""
    view = getattr(pa, "string_view", pa.large_string)()  # older releases have none
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    words = columns["city"].dictionary_encode()
    columns["city"] = pa.DictionaryArray.from_arrays(words.indices, words.dictionary.cast(view))
    return pa.table({**columns, "income": columns["income"].cast(view)})


FORMS = ["p.csv", "p.csv.gz", "p.tsv", "p.parquet", "p.feather", "parts", "halves", "frame", "table", "dataset",
         "views"]  # fmt: skip
OPTIONS = {"y": "income", "missing": "mean", "scale": "std"}


@pytest.fixture(scope="module")
def truth():
    """The model of the numbers made by hand."""
    frame = people()
    names, X = by_hand(frame)
    return names, X, sm.train(X, frame.income.to_numpy(str), scale="std").model


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_model_of_the_numbers(files, truth, form):
    names, X, model = truth
    result = sm.train(files[form], **OPTIONS)
    assert result.model.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(result.model.coef_, model.coef_)
    assert result.model.classes_.tolist() == ["<=50K", ">50K"]
    predicted = result.model.predict(files[form])
    np.testing.assert_array_equal(predicted, model.predict(X))
    figures = result.model.evaluate(files[form])
    assert figures["accuracy"] == np.mean(predicted == people().income)


def test_polars_goes_in_as_frame(files, truth):
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(files["frame"])
    words = frame.with_columns(polars.col("city").cast(polars.Categorical))
    for given in (frame, words):
        model = sm.train(given, **OPTIONS).model
        np.testing.assert_array_equal(model.coef_, truth[2].coef_)
        np.testing.assert_array_equal(model.predict(given), model.predict(files["p.csv"]))
        assert model.evaluate(given) == model.evaluate(files["p.csv"])


def test_a_query_is_told_to_run_first():
    query = type("LazyFrame", (), {"collect": None})()
    with pytest.raises(UsageError, match=r"or a Source, not LazyFrame; give what its collect\(\) returns"):
        sm.train(query)


def test_a_frame_that_arrow_does_not_take_is_an_error_of_ours():
    frame = pd.DataFrame({"w": ["a", 1, 2.5] * 4, "z": [1j] * 12, "n": range(12), "y": [0, 1, 0] * 4})
    for drop, message in (
        (None, r"the table, row 1, column w: Arrow does not take it \(int, but row 0 has str\); .* with drop=.w"),
        ("w", r"the table, column z: Arrow does not take it \(Unsupported .*one type, or leave it out with drop=.z"),
    ):
        with pytest.raises(DataError, match=message):
            sm.train(frame, y="y", drop=drop)
    assert sm.train(frame, y="y", drop="w,z").model.feature_names_in_.tolist() == ["n"]
    with pytest.raises(DataError, match=r"column w: it is sparse; give its values as .sparse.to_dense\(\) has them"):
        sm.train(frame.assign(w=pd.arrays.SparseArray([0.0, 1.0] * 6)), y="y", drop="z")
    odd = "a\ud800"
    values, names = pd.Series([odd] * 12, dtype=object), pd.Index(["w", "z", odd, "y"], dtype=object)
    for given in (frame.assign(w=values), frame.set_axis(names, axis=1)):
        with pytest.raises(DataError, match=r"the table: 'a\\ud800' holds half a letter of UTF-16"):
            sm.train(given, y="y", drop="z")


@pytest.mark.parametrize(
    "first, told", [("1", "the text '1'; store n"), ("", "the text ''; store n"), (None, "missing; ")]
)
def test_weights_that_are_text_are_told_so(first, told, tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1], "w": pd.Series([first, "2"], dtype=object)})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=f"row 0: the sample weight is {told}"):
        sm.train(str(tmp_path / "t.parquet"), y="y", sample_weight="w")


@pytest.mark.parametrize(
    ("mixed", "message"),
    [
        ({"a": [1.5, "many"]}, "row 1, column a: 'many' is not a number, as it was in training"),
        ({"a": ["many", 3]}, "row 0, column a: 'many' is not a number, as it was in training"),
        ({"w": ["x", 7]}, "row 1, column w: unknown category '7'"),
        ({"w": [None, 7.0, "x"]}, "row 0, column w: the value is missing"),
        ({"a": [1, 1j]}, r"column a: Arrow does not take it [^,;]*; [^,;]*$"),
        ({"y": ["x", 1]}, r"row 1, column y: Arrow does not take it \(int, but row 0 has str\); give[^,;]*one type$"),
    ],
)
def test_numbers_and_texts_in_a_column_of_a_frame_are_texts_for_a_model(mixed, message):
    model = sm.train(pd.DataFrame({"a": [1, 2, 3] * 8, "w": ["x", "z", "1"] * 8, "y": [0, 1, 1] * 8}), y="y").model
    (size,) = map(len, mixed.values())
    frame = pd.DataFrame({"a": [2] * size, "w": ["x"] * size} | mixed)
    with pytest.raises(DataError, match=f"^the table, {message}"):
        model.evaluate(frame) if "y" in mixed else model.predict(frame)
    numbers = frame.assign(a=pd.Series([2, " 3.0"], dtype=object), w=pd.Series(["z", 1.0], dtype=object)).head(2)
    assert model.predict(numbers).tolist() == model.predict(numbers.assign(a=[2, 3], w=["z", "1"])).tolist()


def test_a_stream_of_batches_is_spooled_and_leaves_nothing(files, truth, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    table = files["table"]
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(30))
    np.testing.assert_array_equal(sm.train(stream, **OPTIONS).model.coef_, truth[2].coef_)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("form", ["text", "arrow"])
def test_standard_input_is_trained_on_and_scored(files, truth, tmp_path, form):
    if form == "text":
        given = Path(files["p.csv"]).read_bytes()
    else:
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, files["table"].schema) as out:
            out.write_table(files["table"])
        given = sink.getvalue().to_pybytes()
    model = tmp_path / "m.npz"
    words = ["train", "-", "--y", "income", "--missing", "mean", "--scale", "std", "-o", model]
    done = call(*words, input=given, text=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(sm.load_model(model).coef_, truth[2].coef_)
    assert sorted(os.listdir(tmp_path)) == ["m.npz", "standard input.rows.h5"]
    done = call("predict", model, "-", input=given, text=False)
    assert done.returncode == 0 and done.stdout.decode().split("\n")[:-1] == truth[2].predict(truth[1]).tolist()


def test_a_spool_is_used_again_only_while_nothing_changes(tmp_path, caplog):
    caplog.set_level(logging.INFO, "streammargin")
    path = tmp_path / "p.csv"
    people().to_csv(path, index=False)

    def trained(**more):
        """The weights, and whether the spool was used again."""
        caplog.clear()
        model = sm.train(str(path), spool=str(tmp_path), **{**OPTIONS, **more}).model
        return model.coef_, "as nothing has changed" in caplog.text

    first, again = trained()
    assert not again and (tmp_path / "p.csv.rows.h5").exists()
    assert trained(C=10.0)[1] and np.array_equal(trained()[0], first)
    assert not trained(missing="zero")[1] and not trained(drop=["hours"])[1]
    trained()
    people(1).to_csv(path, index=False)  # as many rows
    changed, again = trained()
    assert not again and not np.array_equal(changed, first)
    (tmp_path / "p.csv.rows.h5").write_bytes(b"something else")
    with pytest.raises(OutputError, match="was not written from a table"):
        trained()
    assert (tmp_path / "p.csv.rows.h5").read_bytes() == b"something else"


def test_a_run_says_where_its_rows_are_and_how_many_bytes(files, tmp_path, here):
    words = ["train", files["p.csv"], "--y", "income", "--missing", "mean", "--spool", "kept", "--force"]
    (tmp_path / "kept").mkdir()
    spool = os.path.join("kept", "p.csv.rows.h5")
    first, again = (here(*words, cwd=tmp_path).stderr.splitlines() for _ in range(2))
    assert (
        re.search(rf"its 400 rows are written to {spool}, [\d.]+K of numbers at most$", first[0])
        and "400 rows," in first[2]
    )
    assert re.search(rf"rows are read from {spool}, as nothing has changed", again[0])
    assert here(*words, "-q", cwd=tmp_path).stderr == ""


def test_the_size_of_words_is_not_foretold(tmp_path, caplog):
    parquet.write_table(pa.table({"doc": ["one two three", "two words"] * 20, "y": ["u", "v"] * 20}), tmp_path / "t")
    table = with_roles(arrow.of_parquet(str(tmp_path / "t")), Asked(y="y", text=(("doc", 1),)))
    with caplog.at_level("INFO", "streammargin"):
        OfTable(table).write(str(tmp_path / "a.h5"), False)
    assert re.search(r"its 40 rows are written to \S+, as large as their words need$", caplog.messages[-1])


def test_the_model_keeps_the_schema(files, tmp_path):
    model = sm.train(files["p.csv"], **OPTIONS).model
    model.save(tmp_path / "m.npz")
    kept = sm.load_model(tmp_path / "m.npz").schema
    assert kept == model.schema and [column.name for column in kept.columns] == ["age", "city", "member", "hours"]
    assert kept.columns[0].fill == pytest.approx(people().age.mean()) and kept.labels == ("income",)


def test_an_indicator_tells_gaps(files):
    model = sm.train(files["p.csv"], y="income", missing="indicator", scale="std").model
    names = model.feature_names_in_.tolist()
    assert names[:2] == ["age", "age is missing"] and names[2:6] == [
        "city=Bern, old town", "city=Oslo", "city=Rome", "city is missing"
    ]  # fmt: skip
    frame = people()
    own = np.column_stack([frame.age.fillna(frame.age.mean()), frame.age.isna(), *by_hand(frame)[1].T[1:4],
                           frame.city.isna(), frame.member, frame.hours]).astype(np.float32)  # fmt: skip
    expected = model.classes_[(own @ model.coef_[0] + model.intercept_[0] > 0.0).astype(int)]
    np.testing.assert_array_equal(model.predict(files["frame"]), expected)


def test_gaps_are_an_error_that_names_all_columns(files):
    with pytest.raises(DataError, match=r"2 columns have missing values, .*: age \(\d+\), city \(\d+\); .*missing="):
        sm.train(files["p.csv"], y="income")
    complete = people().dropna()
    model = sm.train(complete, y="income", scale="std").model
    with pytest.raises(DataError, match=r"line \d+, column age: the value is missing"):
        model.predict(files["p.csv"])


def test_a_word_that_training_had_not_is_an_error_or_nothing(tmp_path, here):
    frame = people().dropna()
    model = sm.train(frame, y="income", scale="std").model
    other = frame.head(3).assign(city=["Oslo", "Paris", "Rome"])
    other.to_csv(tmp_path / "o.csv", index=False)
    with pytest.raises(DataError, match=r"line 3, column city: unknown category 'Paris'"):
        model.predict(str(tmp_path / "o.csv"))
    zero = model.decision_function(str(tmp_path / "o.csv"), unknown="zero")
    as_none = other.assign(city=["Oslo", "Oslo", "Rome"])
    place = model.feature_names_in_.tolist().index("city=Oslo")
    expected = model.decision_function(as_none) - np.array([0.0, model.coef_[0, place], 0.0])
    np.testing.assert_allclose(zero, expected, rtol=1e-12)
    done = here("predict", "m.npz", "o.csv", cwd=_saved(model, tmp_path))
    assert done.returncode == 65 and "--unknown zero" in done.stderr and done.stdout == ""
    done = here("predict", "m.npz", "o.csv", "--unknown", "zero", "--id", "city", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "city,label" and done.stdout.splitlines()[2].startswith("Paris,")
    counted = "o.csv: unknown categories count as zeros: city (1)"
    assert counted in done.stderr


def test_a_word_of_the_training_is_no_gap_in_text(tmp_path):
    """Parquet tells "?" from a gap, and text does not."""
    frame = pd.DataFrame({"w": ["?", "NA", "a"] * 40, "y": [0, 1, 1] * 40})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = sm.train(str(tmp_path / "t.parquet"), y="y").model
    assert model.predict(str(tmp_path / "t.csv")).tolist() == frame.y.tolist()
    model = sm.train(frame.assign(n=1.0), y="y", missing="mean").model
    pd.DataFrame({"w": ["?", "null"], "n": ["?", "1"]}).to_csv(tmp_path / "o.csv", index=False)
    expected = model.decision_function(pd.DataFrame({"w": ["?", None], "n": [1.0, 1.0]}))
    np.testing.assert_array_equal(model.decision_function(str(tmp_path / "o.csv")), expected)


def test_words_that_count_as_none_are_counted(caplog):
    frame = people().dropna().assign(work=lambda f: np.where(f.member, "own", "state"))
    model = sm.train(frame, y="income").model
    other = frame.head(30).assign(work="new")
    other.loc[other.index[:3], "city"] = ["Paris", "Bonn", "Paris"]
    with caplog.at_level(logging.WARNING):
        model.evaluate(other, unknown="zero")
    assert caplog.messages == ["the table: unknown categories count as zeros: city (3), work (30)"]


def test_convert_takes_the_columns_of_a_model_and_lets_new_words_count_as_none(tmp_path):
    frame = people().dropna()
    model = sm.train(frame, y="income").model
    model.save(tmp_path / "m.npz")
    frame.assign(city="Paris").to_csv(tmp_path / "o.csv", index=False)
    given = {"like": str(tmp_path / "m.npz")}
    with pytest.raises(DataError, match=r"line 2, column city: unknown category 'Paris'.*unknown="):
        convert(str(tmp_path / "o.csv"), str(tmp_path / "o.h5"), **given)
    convert(str(tmp_path / "o.csv"), str(tmp_path / "o.h5"), **given, unknown="zero")
    expected = model.decision_function(frame.assign(city="Paris"), unknown="zero")
    np.testing.assert_allclose(model.decision_function(str(tmp_path / "o.h5")), expected, rtol=1e-12)


def test_rare_words_of_held_out_rows_may_count_as_none(files, caplog):
    other = people().assign(city="Paris")
    with caplog.at_level(logging.WARNING):
        result = sm.train(files["p.csv"], valid=other, unknown="zero", **OPTIONS)
    assert "unknown categories count as zeros: city (400)" in caplog.text
    expected = result.model.evaluate(other, unknown="zero")["error"]
    assert result.certificate.valid_error == pytest.approx(expected)


def _saved(model, folder):
    model.save(folder / "m.npz")
    return folder


def test_rare_words_share_a_column(monkeypatch):
    monkeypatch.setattr("streammargin.tables.learn.MOST_WORDS", 3)
    words = np.repeat(["a", "b", "c", "d", "e"], [50, 40, 30, 20, 10])
    frame = pd.DataFrame({"w": words, "n": np.arange(150.0), "y": np.arange(150) % 2})
    model = sm.train(frame, y="y").model
    assert model.feature_names_in_.tolist() == ["w=a", "w=b", "w=c", "w=other", "n"]
    assert len(model.decision_function(frame.assign(w="z"))) == 150  # counts as other


def test_text_is_counted(tmp_path):
    pytest.importorskip("sklearn")
    reviews = ["good film", "bad film", "awful, and bad", "good good", None] * 30
    frame = pd.DataFrame({"review": reviews, "stars": [5.0, 1.0, 1.0, 5.0, 3.0] * 30, "y": [1, 0, 0, 1, 0] * 30})
    result = sm.train(frame, y="y", text="review,ngrams=2", drop="stars")
    assert result.model.coef_.shape == (1, 1 << 18) and result.certificate.train_error == 0.0
    frame.to_csv(tmp_path / "r.csv", index=False)
    assert (result.model.predict(str(tmp_path / "r.csv")) == frame.y).all()
    both = sm.train(frame, y="y", text="review").model
    assert both.coef_.shape == (1, (1 << 18) + 1) and both.coef_[0, -1] != 0.0


def test_fields_in_quotes_may_have_line_ends(tmp_path):
    frame = pd.DataFrame({"note": ["a\nb", "c", 'say "x"', "a\nb"] * 20, "n": range(80), "y": ["u", "v"] * 40})
    frame.to_csv(tmp_path / "q.csv", index=False)
    model = sm.train(str(tmp_path / "q.csv"), y="y").model
    assert model.feature_names_in_.tolist() == ["note=a\nb", "note=c", 'note=say "x"', "n"]
    np.testing.assert_array_equal(model.predict(str(tmp_path / "q.csv")), model.predict(frame))


def test_held_out_tables_take_the_schema_of_the_training(files):
    result = sm.train(files["p.csv"], valid=files["frame"], **OPTIONS)
    assert result.certificate.valid_error == pytest.approx(result.certificate.train_error)


BAD = [
    ("a,b,y\n1,2,0\n3,x,1\n4,5,0\n6,7,1\n", {}, r"line 3, column b: 'x' is not a finite number, as most"),
    ("a,b,y\n1,2,0\n3,4\n", {}, r"line 3: 2 columns, but the first line has 3"),
    ("a,b,y\n1,2,0\n3,inf,1\n", {}, r"line 3, column b: the value is infinite"),
    ("1,2,0\n3,4,1\n", {"y": "kind"}, "kind for y; it has 3 columns without names, which are called 0 to 2"),
    ("a,b,y\n1,2,\n3,4,1\n", {}, r"missing; drop the row, in pandas by table.dropna\(subset='y'\), or give it a label"),
    ("1,2,x\n1,2,\n3,4,z\n", {"y": "2"}, r"line 2: the label is missing; drop the row or give it a label"),
    ("a,b,y\n1,2,\n3,4,1\n5,6,\n", {}, r"line 2: .* missing, as in 1 more row; drop these rows, in .*, or give them"),
    ("a,d,y\n1,2020-01-01,0\n2,2020-01-02,1\n", {}, r"1 column holds dates, as in line 2: d; .*drop"),
    ("a,a,y\n1,2,0\n", {}, r"several columns called a"),
    ('a,b,y\n1,"2,0\n3,4,1\n', {}, r"quote"),
    ("a,b,y\n1,2,0\n3,4,1\n", {"drop": "c"}, r"no column c for drop; it has a, b, y"),
    ("a,b,y\n1,2,0\n3,4,1\n", {"y": "z"}, r"no column z for y; it has a, b, y"),
    ("a,b,y\n1,2,0\n3,4,1\n", {"columns": "y"}, r"no column of values left"),
    ("a,b,y\n1,2,0\n3,4,1\n", {"tasks": "y"}, r"y is the label; name another column with tasks"),
    ("a,b,y\n1,2,0\n3,4,1\n", {"sample_weight": "y"}, r"y is the label; name another column with sample_weight"),
    ("a,y,w\n1,0,1\n3,1,\n", {"sample_weight": "w"}, r"line 3: the sample weight is missing"),
    ("a,y,w\n1,0,1\n3,1,lots\n", {"sample_weight": "w"}, r"line 3: the sample weight is the text 'lots'; store num"),
    ("a,y,\n1,0,\n3,1,\n", {}, r'1 column holds no value at all: Unnamed: 2; leave it out with drop="Unnamed: 2"'),
    ("a,y\n1,0\n3,1\n", {"drop": ""}, r"no column '' for drop"),
    ("a,b,y\n", {}, r"has no rows"),
    ("a,b,y\n1,,0\n2,,1\n", {"missing": "mean"}, r"1 column holds no value at all: b"),
    ("a,y\n1e308,0\n1e308,1\n,0\n", {"missing": "mean"}, r"column a: the sum of its values overflows"),
]  # fmt: skip


def test_a_quote_within_a_field_hides_the_number_of_a_line_alone(tmp_path):
    """Arrow reads `"p"q` as pq, and Python's reader, which counts the lines of fields with line breaks, does not."""
    (tmp_path / "a.csv").write_text("a,b,y\n" + 600 * "t,2,1\nu,3,0\n" + '"p"q,1,0\n"r\ns",,1\nt,2,1\n')
    with pytest.raises(DataError, match=r"a.csv, row 1201, column b: the value is missing"):
        sm.train(str(tmp_path / "a.csv"), y="y")


def test_a_column_without_a_name_can_be_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,y,\n1,2,0,\n3,4,1,\n")
    assert sm.train(str(tmp_path / "a.csv"), drop="").model.feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.parametrize("text, options, message", BAD)
def test_bad_tables_are_one_sentence_and_leave_nothing(tmp_path, text, options, message):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises((DataError, UsageError), match=message):
        sm.train(str(tmp_path / "bad.csv"), spool=str(tmp_path), **options)
    assert os.listdir(tmp_path) == ["bad.csv"]


def _hdf5(path):
    sm.write_hdf5([(np.eye(4), [0, 1, 0, 1])], path)


def _twice(path):
    parquet.write_table(pa.table([[1.0, 2.0], [3.0, 4.0], [0, 1]], names=["a", "a", "y"]), path)


def _no_utf8(path):
    """A column's name has bytes that are no text."""
    people().dropna().rename(columns={"age": "oldage"}).to_feather(path)
    path.write_bytes(path.read_bytes().replace(b"oldage", b"old\xf0\x08e"))


def _cut(path):
    people().dropna().to_parquet(path)
    path.write_bytes(path.read_bytes()[:-100])


OF_ANOTHER_KIND = [
    ("a.csv", lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99)), r"a.csv, line 2: a control character"),
    ("a.csv", lambda path: path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(99)), r"a.csv is compressed by zstd.*unpack"),
    ("a.csv", lambda path: path.write_text("a,y\n1,2\n", encoding="utf-16"), r"if it is UTF-16, .*: iconv -f UTF-16"),
    ("a.csv", lambda path: path.write_text(""), r"a.csv is empty"),
    ("a.parquet", lambda path: path.write_text("hello\n"), r"is not an HDF5 file, nor in another format whose rows"),
    ("a.parquet", _twice, r"several columns called a; give each a name of its own"),
    ("a.parquet", _cut, r"a.parquet is damaged .*; write or fetch it again"),
    ("a.feather", _no_utf8, r"a.feather is damaged .*; write or fetch it again"),
    ("a.svm", lambda path: None, r"a.svm: no such file"),
]  # fmt: skip


@pytest.mark.parametrize("name, make, message", OF_ANOTHER_KIND)
def test_files_that_are_not_what_they_should_be(tmp_path, name, make, message):
    make(tmp_path / name)
    before = os.listdir(tmp_path)
    for use in (
        lambda: sm.train(str(tmp_path / name), y="y", spool=str(tmp_path)),
        lambda: sm.train((np.eye(2), [0, 1])).model.predict(str(tmp_path / name)),
    ):
        with pytest.raises((DataError, InputMissingError), match=message) as error:
            use()
        assert "\n" not in str(error.value) and os.listdir(tmp_path) == before


def test_content_decides_over_a_name(tmp_path):
    _hdf5(tmp_path / "rows.csv")
    assert sm.train(str(tmp_path / "rows.csv")).model.classes_.tolist() == [0, 1]
    people().dropna().to_parquet(tmp_path / "people.csv")
    assert sm.train(str(tmp_path / "people.csv"), y="income").model.classes_.tolist() == ["<=50K", ">50K"]


def test_numbers_without_end_are_no_classes(tmp_path):
    frame = pd.DataFrame({"a": np.arange(1600.0), "price": np.arange(1600)})
    frame.to_csv(tmp_path / "p.csv", index=False)
    for data in (frame, str(tmp_path / "p.csv")):
        with pytest.raises(DataError, match=r"1600 different whole numbers, .*for a regression use loss="):
            sm.train(data, y="price")


def test_a_stream_that_ends_in_the_middle_is_an_error(files, tmp_path):
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, files["table"].schema) as out:
        out.write_table(files["table"], 50)
    whole, text = sink.getvalue().to_pybytes(), Path(files["p.csv.gz"]).read_bytes()
    for given in (whole[: len(whole) * 2 // 3], text[: len(text) // 2]):
        done = call("train", "-", "--y", "income", "--missing", "mean", "-o", "m.npz", input=given, text=False,
                    cwd=tmp_path)  # fmt: skip
        assert done.returncode == 65 and done.stderr.count(b"\n") == 1, done.stderr
        assert os.listdir(tmp_path) == []


def test_places_in_text_are_right_for_the_rows_of_another_table(tmp_path):
    """Held-out rows are checked when their numbers are made, which is from what was parsed before."""
    frame = people(rows=200).dropna().reset_index(drop=True)
    frame.to_csv(tmp_path / "p.csv", index=False)
    frame.loc[150, "city"] = "Paris"
    frame.to_csv(tmp_path / "v.csv", index=False)
    with pytest.raises(DataError, match=r"v.csv, line 152, column city: unknown category 'Paris'"):
        sm.train(str(tmp_path / "p.csv"), y="income", valid=str(tmp_path / "v.csv"))


@pytest.mark.parametrize("kind", ["float32", "float64", "int8", "int64", "bool", "large", "gap", "infinite", "decimal"])
def test_numbers_alone_are_written_in_one_pass_as_in_two(tmp_path, monkeypatch, kind, caplog):
    random = np.random.default_rng(4)
    values = random.normal(size=(300, 5)).round(3)
    frame = pd.DataFrame(values, columns=list("abcde"))
    frame["d"] *= 1e4
    if kind in ("float32", "int8", "int64", "bool"):
        frame = (frame.clip(-100, 100) if kind == "int8" else frame).astype(kind)
    if kind in ("large", "gap", "infinite"):
        frame.loc[299, "c"] = {"large": 2.0**24 + 1, "gap": np.nan, "infinite": np.inf}[kind]
    table = pa.Table.from_pandas(frame.assign(y=np.where(values[:, 0] > 0, "u", "v")), preserve_index=False)
    if kind == "decimal":
        table = table.set_column(0, "a", table["a"].cast(pa.decimal128(10, 3)))
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=64)
    reads = []
    batches = arrow.Batches.batches
    monkeypatch.setattr(arrow.Batches, "batches", lambda self, *given: (reads.append(1), batches(self, *given))[1])

    def spool(name):
        found = with_roles(arrow.of_parquet(str(tmp_path / "t.parquet")), Asked(y="y"))
        OfTable(found).write(str(tmp_path / name), False)
        with h5py.File(tmp_path / name) as file:
            return file["X"][:], file["y"][:].tolist(), dict(file.attrs)

    def outcome(name):
        reads.clear()
        try:
            return spool(name)
        except DataError as error:
            return str(error)

    with caplog.at_level("INFO", "streammargin"):
        once = outcome("one.h5")
    sizes = [re.sub(r".*: ", "", line) for line in caplog.messages if line.endswith(" at most")]
    assert re.fullmatch(r"its 300 rows are written to \S+, [\d.]+K of numbers at most", sizes[0])
    assert sizes[1:] == (["its numbers need float64, so they take 11.7K at most"] if kind == "large" else [])
    if kind not in ("large", "gap", "infinite"):
        assert len(reads) == 1
    monkeypatch.setattr("streammargin.tables.spool.is_plain", lambda table: False)
    twice = outcome("two.h5")
    if isinstance(once, str):
        assert once == twice and kind in ("gap", "infinite")
    else:
        np.testing.assert_array_equal(once[0], twice[0])
        assert once[0].dtype == twice[0].dtype and once[1:] == twice[1:]


@pytest.mark.parametrize("listed", ["files", "folders", "relative", "one folder"])
def test_names_of_folders_are_columns_of_files_in_a_list(tmp_path, monkeypatch, listed):
    """Folders like year=2020 are a column, of numbers or words, also where their files are listed, in this order."""
    people().assign(year=np.arange(N) % 2 + 2020).to_parquet(tmp_path / "all", partition_cols=["year", "member"])
    whole = sm.train(str(tmp_path / "all"), y="income", missing="mean")
    files = sorted(map(str, (tmp_path / "all").rglob("*.parquet")))
    monkeypatch.chdir(tmp_path)
    data = {
        "files": files,
        "folders": sorted({str(Path(file).parents[1]) for file in files}),
        "relative": [os.path.relpath(file) for file in files],
        "one folder": files[:2],  # all of one year
    }[listed]
    if listed != "one folder":
        found = sm.train(data, y="income", missing="mean")
        assert found.model.feature_names_in_.tolist() == whole.model.feature_names_in_.tolist()
        np.testing.assert_array_equal(found.model.coef_, whole.model.coef_)
    expected = whole.model.predict(str(tmp_path / "all"))
    np.testing.assert_array_equal(whole.model.predict(data), expected[: N // 2 if listed == "one folder" else N])
    if listed == "files":
        backwards = whole.model.predict(data[::-1])
        assert (backwards != expected).any() and sorted(backwards) == sorted(expected)


def test_info_says_in_words_how_a_model_reads_a_table(tmp_path, capsys):
    frame = people().assign(review=["a good film", "so bad"] * (N // 2), id=[f"u{k % 130}" for k in range(N)])
    model = sm.train(frame, y="income", missing="indicator", text="review,ngrams=2", passes=1).model
    model.save(tmp_path / "m.npz")
    assert main(["info", str(tmp_path / "m.npz")]) == 0
    text = capsys.readouterr().out
    table = text[text.index("\ntable ") :].splitlines()[1:]
    fills = [column.fill for column in model.schema.columns]
    assert [line[13:] for line in table] == [
        "6 columns, labels in income, read as float32:",
        f"  age: numbers; {fills[0]:.6g} if missing, with a column of its own",
        '  city: 3 categories ("Bern, old town", Oslo, Rome); zeros if missing, with a column of its own',
        f"  member: numbers; {fills[2]:.6g} if missing",
        f"  hours: numbers; {fills[3]:.6g} if missing",
        "  review: text, sequences of up to 2 words",
        f"  id: 130 categories ({', '.join(sorted(set(frame.id))[:20])}, ... (130 in all)); zeros if missing",
    ]
    assert "{" not in text and "'" not in text
    assert main(["info", str(tmp_path / "m.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["table"] == model.schema.to_plain()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_word_that_is_too_many_has_its_row_named(tmp_path, monkeypatch, form):
    monkeypatch.setattr("streammargin.tables.tally.MOST_DISTINCT", 2000)
    words = ["Rome", None] * 20_000 + [f"u{k}" for k in range(3000)]
    frame = pd.DataFrame({"n": range(len(words)), "id": words, "y": [0, 1] * (len(words) // 2)})
    path = tmp_path / f"t.{form}"
    frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
    where = "line 42001" if form == "csv" else "row 41999"
    with pytest.raises(DataError, match=rf"t.{form}, {where}, column id: more than 2000 different texts are too many"):
        sm.train(str(path), y="y", missing="zero", spool=str(tmp_path))
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("form", ["p.parquet", "p.feather", "parts"])
def test_a_name_that_arrow_does_not_take_is_no_damage(files, tmp_path, form):
    copy = shutil.copytree if form == "parts" else shutil.copy
    path = os.path.join(tmp_path, os.fsdecode(b"\xe1-") + form)
    copy(files[form], path)
    with pytest.raises(InputMissingError, match="cannot be read, as its name is not UTF-8; rename it"):
        sm.train(path, y="income", missing="mean")
    if form == "parts":
        with pytest.raises(InputMissingError, match="as the path of a file there is not UTF-8; rename it"):
            sm.train(str(tmp_path), y="income", missing="mean")


def several(rows=200):
    """A frame of numbers, and of three columns of labels that depend on them; the numbers and labels apart."""
    rng = np.random.default_rng(2)
    X, W = rng.normal(size=(rows, 4)).astype(np.float32), rng.normal(size=(4, 3))
    Y = (X @ W + 0.1 * rng.normal(size=(rows, 3))).round(4)
    frame = pd.DataFrame({**{f"x{k}": X[:, k] for k in range(4)}, **{f"y{k}": Y[:, k] for k in range(3)}})
    return frame, X, Y


@pytest.mark.parametrize("form", ["csv", "parquet", "frame"])
def test_labels_of_several_columns_are_several_outputs(tmp_path, form):
    frame, X, Y = several()
    data = frame if form == "frame" else str(tmp_path / f"s.{form}")
    if form != "frame":
        frame.to_csv(data, index=False) if form == "csv" else frame.to_parquet(data, index=False)
    expected = sm.train((X, Y), loss="l2_error").model
    for y in (["y0", "y1", "y2"], "y0,y1,y2"):
        result = sm.train(data, y=y, loss="l2_error", valid=data)
        np.testing.assert_array_equal(result.model.coef_, expected.coef_)
        assert result.model.outputs == ["y0", "y1", "y2"]
        assert result.certificate.valid_error == pytest.approx(result.model.evaluate(data)["loss"])
    model = result.model
    np.testing.assert_array_equal(model.predict(frame[["x3", "x0", "x2", "x1"]]), expected.predict(X))
    figures = model.evaluate(data)
    assert figures["r2"] == pytest.approx(expected.evaluate((X, Y))["r2"])
    assert figures == model.evaluate(data, y=["y0", "y1", "y2"]) and figures["r2"] > 0.9 > model.evaluate(
        data, y="y2,y1,y0"
    )["r2"]  # fmt: skip
    words = sm.train(frame.assign(**{f"y{k}": Y[:, k] > 0.0 for k in range(3)}), y="y0,y1,y2").model
    assert words.classes_.tolist() == [0, 1] and words.outputs == ["y0", "y1", "y2"]


def test_labels_of_several_columns_from_the_shell(tmp_path, here):
    frame = several()[0]
    frame.to_csv(tmp_path / "s.csv", index=False)
    words = ["train", "s.csv", "--y", "y0,y1,y2", "--loss", "l2_error", "-o", "m.npz", "-q"]
    assert here(*words, cwd=tmp_path).returncode == 0
    done = here("predict", "m.npz", "s.csv", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "y0 y1 y2" and len(done.stdout.splitlines()) == 201
    assert json.loads(here("evaluate", "m.npz", "s.csv", "--json", cwd=tmp_path).stdout)["r2"] > 0.9
    convert(str(tmp_path / "s.csv"), str(tmp_path / "s.h5"), y="y0,y1,y2")
    model = sm.train(str(tmp_path / "s.h5"), loss="l2_error").model
    np.testing.assert_array_equal(model.coef_, sm.load_model(tmp_path / "m.npz").coef_)
    assert model.evaluate(str(tmp_path / "s.csv"))["r2"] > 0.9 and model.schema.labels == ("y0", "y1", "y2")
    convert(str(tmp_path / "s.csv"), str(tmp_path / "t.h5"), like=str(tmp_path / "m.npz"))
    assert model.evaluate(str(tmp_path / "t.h5"))["r2"] > 0.9


@pytest.mark.parametrize(
    "y, text, message",
    [("y0,z", None, "has no column z for y"), ("y0,y0", None, "y names the column y0 twice"),
     ("y0,y1", "much", "line 5: 'much' is one of several labels, and not a number"),
     ("y0,y1", "", "line 5, column y1: the label is missing")],
)  # fmt: skip
def test_bad_labels_of_several_columns_are_named(tmp_path, y, text, message):
    frame = several()[0].astype(object)
    if text is not None:
        frame.loc[3, "y1"] = text
    frame.to_csv(tmp_path / "s.csv", index=False)
    with pytest.raises((DataError, UsageError), match=message):
        sm.train(str(tmp_path / "s.csv"), y=y, loss="squared_error")


LINES = [
    ("train", {"y": "lots"}, r"{} line 6: the label of row 3 is 'lots'"),
    ("train --transform sqrt", {"a": -1.0}, r"{} line 6, column a is -1"),
    ("evaluate", {"y": "lots"}, r"{} line 6: the label of row 3 is 'lots'"),
    ("predict", {"a": 1e300}, r"{} line 6: the score of row 3 overflows"),
    ("predict --root", {"a": -1.0}, r"{} line 6, column a is -1"),
    ("evaluate --root", {"a": -1.0}, r"{} line 6, column a is -1"),
    ("verify", {"y": "lots"}, r"b.csv: the label of row 3 is 'lots', and not a number; name others with --y"),
    ("verify", {"a": 1e300}, r"b.csv: the value 1e\+300 is too large for float32; replace such values, or train again"),
    ("verify", {"a": 16777217}, r"b.csv: .* is stored as 16777216; replace such values, or train again with them"),
]


@pytest.mark.parametrize("words, bad, message", LINES)
def test_rows_of_text_are_told_by_their_lines(words, bad, message, tmp_path, here, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0] * 8, "w": ["two\nlines", "x", "z"] * 8, "y": [0.5, 1.0, 2.5] * 8})
    frame.to_csv("g.csv", index=False)
    odd = frame.astype(object)
    odd.loc[3, [*bad]] = [*bad.values()]
    odd.to_csv("b.csv", index=False)
    options = ["--loss", "squared_error", "--y", "y", "-q", "-o", "m.npz"]
    command, *more = words.split()
    if command == "train":
        done = here(command, "b.csv", *options, *more, cwd=tmp_path)
    else:
        assert here("train", "g.csv", *options, *["--transform", "sqrt"] * len(more), cwd=tmp_path).returncode == 0
        done = here(command, "m.npz", "b.csv", cwd=tmp_path)
    assert done.returncode == 65 and re.search(message.format("b.csv,"), done.stderr), done.stderr


@pytest.mark.parametrize(
    "plain",
    [3, {"columns": 3}, {"columns": [], "labels": []}, {"columns": [{"name": "a"}, {"name": "a"}], "labels": []},
     {"columns": [{"name": "a", "kind": "x"}], "labels": [], "dtype": "float32", "named": True},
     {"columns": [{"name": "a", "fill": float("nan")}], "labels": [], "dtype": "float32", "named": True},
     {"columns": [{"name": "a", "words": [1]}], "labels": [], "dtype": "float32", "named": True},
     *({"columns": [{"name": "a", **fields}], "labels": [], "dtype": "float32", "named": True} for fields in (
         {"kind": "date"}, {"kind": "date", "spelling": "day-first"}, {"words": ["b"]}, {"first": "2024-01-01"},
         {"kind": "date", "spelling": "day-first", "first": "2024-02-30"}, {"year": float("inf")}, {"year": 2024.0},
         {"kind": "date", "spelling": "day-first", "first": "2024-01-01", "other": True}, {"spelling": 3},
         {"kind": "category", "words": ["b"], "spelling": "point"}, {"kind": "date", "words": ["hour=3"]})),
     {"columns": [{"name": "a"}], "labels": [], "dtype": "object", "named": True},
     {"columns": [{"name": "a"}], "labels": "y", "dtype": "float32", "named": True}],
)  # fmt: skip
def test_no_schema_is_refused(plain):
    with pytest.raises(ValueError):
        Schema.from_plain(plain)


def test_a_schema_survives_json():
    columns = (Column("a"), Column("b", "category", ("x", "y"), True, 0.0, True), Column("t", "text", ngrams=2),
               Column("p", spelling="comma €"), Column("h", "date", ("hour=3",), spelling="time of the day"),
               Column("d", "date", ("month=1",), False, 2.5, True, spelling="day-first", first="2024-01-01",
                      year=2024.5))  # fmt: skip
    schema = Schema(columns, ("y",), "float64", True)
    assert Schema.from_plain(json.loads(json.dumps(schema.to_plain()))) == schema
    assert schema.features == 1 + 4 + (1 << 18) + 1 + 1 + 4 and schema.names() is None


def test_binary_outputs_of_a_table(files, tmp_path, here):
    model = sm.train(files["p.csv"], **OPTIONS).model
    folder = _saved(model, tmp_path)
    for name in ("o.npy", "o.h5"):
        assert here("predict", "m.npz", files["p.csv"], "--decision", "-o", name, cwd=folder).returncode == 0
    expected = model.decision_function(files["p.csv"])
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), expected)
    with h5py.File(tmp_path / "o.h5") as file:
        np.testing.assert_array_equal(file["scores"][:], expected)


def test_labels_and_names_of_rows_keep_every_byte(tmp_path, here):
    """NA is a gap among values, and a class among labels; 007 is the name of a row."""
    (tmp_path / "l.csv").write_text(
        "row,x,y\n" + "".join(f"{k:03},{k % 2},{'NA' if k % 2 else 'EU'}\n" for k in range(8))
    )
    model = sm.train(str(tmp_path / "l.csv"), y="y", drop="row", C=100.0).model
    assert model.classes_.tolist() == ["EU", "NA"] and model.evaluate(str(tmp_path / "l.csv"))["accuracy"] == 1.0
    done = here("predict", "m.npz", "l.csv", "--id", "row", cwd=_saved(model, tmp_path))
    assert done.stdout.splitlines()[:3] == ["row,label", "000,EU", "001,NA"]
    (tmp_path / "g.csv").write_text("x,y\nNA,1\n2,0\n")
    with pytest.raises(DataError, match=r"line 2, column x: the value is missing;"):
        sm.train(str(tmp_path / "g.csv"), y="y")


@pytest.mark.parametrize("name", ["y", "label", "obs/label"])
def test_labels_of_held_out_hdf5_are_called_y_or_as_those_of_the_table(tmp_path, name):
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.repeat([0, 1], 30)
    X[:, 0] += 3.0 * y
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(label=y)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["X"], file[name] = X, y
        file["other/label" if name == "y" else "other/y"] = 1 - y
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = [str(tmp_path / "t.csv"), "-o", str(tmp_path / "m.npz"), "--valid", str(tmp_path / "v.h5"), "-q"]
    assert main(["train", *words]) == 0
    model = sm.load_model(tmp_path / "m.npz")
    certificate = model.header["certificate"]
    assert certificate["valid_error"] == certificate["train_error"] < 0.3
    assert model.evaluate(str(tmp_path / "v.h5"))["error"] == certificate["valid_error"]
    assert main(["verify", str(tmp_path / "m.npz"), words[0], "--valid", words[4]]) == 0
    with h5py.File(tmp_path / "v.h5", "a") as file:
        del file[name]
    with pytest.raises(DataError, match=r"v.h5 has no .*y"):
        sm.train(frame, y="label", C=1.0, valid=str(tmp_path / "v.h5"))


def test_a_folder_that_is_not_there_is_made_for_spools(tmp_path):
    frame = people()
    frame.to_csv(tmp_path / "p.csv", index=False)
    result = sm.train(str(tmp_path / "p.csv"), spool=str(tmp_path / "new" / "spool"), **OPTIONS)
    assert result.converged and os.listdir(tmp_path / "new" / "spool") == ["p.csv.rows.h5"]
    with pytest.raises(OutputError, match=r"cannot make the folder .*p.csv.*: .*; name another one"):
        sm.train(str(tmp_path / "p.csv"), spool=str(tmp_path / "p.csv" / "spool"), **OPTIONS)


def test_held_out_tables_are_matched_and_spooled_apart(files, tmp_path):
    (tmp_path / "other").mkdir()
    frame = people()
    frame.to_csv(tmp_path / "p.csv", index=False)
    other = frame[frame.columns[::-1]].assign(day="2020-01-01")
    other.to_csv(tmp_path / "other" / "p.csv", index=False)
    options = {**OPTIONS, "spool": str(tmp_path)}
    result = sm.train(str(tmp_path / "p.csv"), valid=str(tmp_path / "other" / "p.csv"), **options)
    assert result.certificate.valid_error == pytest.approx(result.certificate.train_error)
    assert {"p.csv.rows.h5", "p.csv.valid.h5"} < set(os.listdir(tmp_path))
    (tmp_path / "p.csv.valid.h5").write_bytes(b"something else")
    with pytest.raises(OutputError, match="was not written from a table"):
        sm.train(str(tmp_path / "p.csv"), valid=str(tmp_path / "other" / "p.csv"), **options)
    assert (tmp_path / "p.csv.valid.h5").read_bytes() == b"something else"
    with pytest.raises(DataError, match=r"lacks 1 column .*: city"):
        sm.train(frame, valid=frame.drop(columns="city"), **OPTIONS)


def test_a_table_without_rows_has_no_predictions(files, tmp_path):
    model = sm.train(files["p.csv"], **OPTIONS).model
    people().head(0).to_csv(tmp_path / "none.csv", index=False)
    with pytest.raises(DataError, match="has no rows"):
        model.predict(str(tmp_path / "none.csv"))
    done = call("predict", "m.npz", "-", cwd=_saved(model, tmp_path), input=(tmp_path / "none.csv").read_text())
    assert done.returncode == 65 and "has no rows" in done.stderr and done.stdout == ""


def test_a_frame_with_a_name_twice_is_an_error_of_ours():
    frame = people().dropna()
    with pytest.raises(DataError, match=r"the table has several columns called age; give each a name of its own"):
        sm.train(pd.concat([frame, frame[["age"]]], axis=1), y="income")


def test_an_unknown_word_for_unknown_words():
    model = sm.train(people().dropna(), y="income").model
    with pytest.raises(UsageError, match="unknown must be error or zero"):
        model.predict(people().dropna(), unknown="nothing")


def test_columns_of_very_different_ranges_are_named(tmp_path, caplog):
    frame = people().dropna().assign(salary=lambda f: 1e6 * f.hours)
    frame.to_csv(tmp_path / "p.csv", index=False)
    for _ in range(2):  # a spool that is used again knows them too
        caplog.clear()
        events = []
        sm.train(str(tmp_path / "p.csv"), y="income", passes=3, spool=str(tmp_path), listeners=[events.append])
        found = [record.getMessage() for record in caplog.records if getattr(record, "code", "") == "scale"]
        assert len(found) == 1 and re.search(
            r"max \|x\| is .* in column salary and 1 in column (city|work).*scale=.maxabs", found[0]
        )
    caplog.clear()
    for scale in ("std", "auto"):
        sm.train(str(tmp_path / "p.csv"), y="income", scale=scale)
    sm.train(str(tmp_path / "p.csv"), y="income", drop="salary")
    assert not [record for record in caplog.records if getattr(record, "code", "") == "scale"]


def test_a_schema_of_many_long_words_is_kept(tmp_path):
    words = [f"{k:04}" + "x" * 100 for k in range(900)] * 2
    frame = pd.DataFrame({"w": words, "y": [0, 1] * 900})
    for _ in range(2):
        assert (
            len(sm.train(frame.assign(n=1.0), y="y", passes=2, spool=str(tmp_path)).model.schema.columns[0].words)
            == 900
        )


@pytest.mark.parametrize(
    "frame, message",
    [({"w": ["a\0b", "c"], "y": [0, 1]}, "column w: .* has a NUL"), ({"w\0": [1.0, 2.0], "y": [0, 1]}, "has a NUL"),
     ({"w": [1.0, 2.0], "y": ["a\0b", "c"]}, "row 0: the label has a NUL"),
     ({"w": [1.0, 2.0], "y\0": ["a", "c"]}, "has a NUL")],
)  # fmt: skip
def test_what_no_file_can_hold_is_refused(frame, message):
    with pytest.raises(DataError, match=message):
        sm.train(pd.concat([pd.DataFrame(frame)] * 5), y=list(frame)[1])


def test_damaged_bytes_of_a_stream_or_file_are_errors_of_ours(tmp_path):
    """Offsets and texts are checked before Arrow follows them."""
    random = np.random.default_rng(5)
    frame = pd.DataFrame({"a": np.arange(300.0), "w": random.choice(list("abc"), 300), "y": [0, 1] * 150})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    feather.write_feather(table, tmp_path / "t.feather", compression="uncompressed")
    for name, opened in (("t.parquet", arrow.of_parquet), ("t.feather", arrow.of_ipc)):
        whole = (tmp_path / name).read_bytes()
        refused = 0
        for _ in range(60):
            raw = bytearray(whole)
            for place in random.integers(8, len(raw) - 8, 4):
                raw[place] = random.integers(256)
            (tmp_path / "x").write_bytes(raw)
            try:
                OfTable(with_roles(opened(str(tmp_path / "x")), Asked(y="y"))).write(str(tmp_path / "o.h5"), True)
            except DataError:
                refused += 1
        assert refused > 20


def test_a_frame_of_numbers_may_have_its_labels_beside_it():
    frame = people().dropna()
    X, y = frame[["age", "hours"]], (frame.income == ">50K").to_numpy()
    for given in ((X, y), (X, pd.Series(y))):
        model = sm.train(*given, sample_weight=np.ones(len(y))).model
        assert model.evaluate(X, y=y)["accuracy"] == np.mean(model.predict(X) == y)
    with pytest.raises(UsageError, match="drop is for tables"):
        sm.train(X, y, drop="age")
    model = sm.train(X.assign(y=y), y="y").model
    assert model.evaluate(X, y=y)["accuracy"] == np.mean(model.predict(X) == y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"early_stop": 3}, "early_stop scores every pass"),
        ({"kernel": "rbf", "map": "rff:5"}, "give one of them"),
        ({"init": "absent.npz"}, "absent.npz: no such model file"),
        ({"valid": "absent.csv"}, "absent.csv: no such file"),
        ({"valid": ["t.csv", "absent.csv"]}, "absent.csv: no such file"),
    ],
)
def test_what_needs_no_row_is_refused_before_rows_are_written(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,y\n1,p\n2,q\n3,p\n")
    with pytest.raises(sm.StreamMarginError, match=message):
        sm.train("t.csv", y="y", spool=".", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize("name", ["g.npy", "g.txt"])
def test_a_file_of_groups_that_is_absent_is_named_beside_a_table(tmp_path, name):
    (tmp_path / "t.csv").write_text("a,y\n1,p\n2,q\n3,p\n")
    with pytest.raises(sm.InputMissingError, match=name):
        sm.train(str(tmp_path / "t.csv"), y="y", penalty=f"group:{tmp_path / name}")
