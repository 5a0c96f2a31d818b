"""Columns without a name: an index is left out, others are called by position, in every kind of table."""

import csv
import itertools
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import call
from pyarrow import dataset, ipc, parquet

import streammargin as sm
from streammargin.data_tools.convert import convert
from streammargin.errors import UsageError
from streammargin.model.linear import LinearModel
from streammargin.tables.header import Expected, is_header, names_of

ROWS = 60
RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(ROWS, 3)).round(4)
Y = np.where(X[:, 0] + X[:, 2] > 0, "yes", "no")
INDICES = {
    "in order": np.arange(ROWS), "from 1": np.arange(1, ROWS + 1), "shuffled": RANDOM.permutation(ROWS),
    "filtered": np.flatnonzero(RANDOM.random(3 * ROWS) < 0.9)[:ROWS], "below 0": -7 * np.arange(ROWS),
    "floats": np.arange(ROWS).astype(float),
}  # fmt: skip


def table_of(names, columns):
    """A table whose names need not be different."""
    return pa.Table.from_arrays([pa.array(column) for column in columns], names=list(names))


def written(folder, form, table):
    """The path of this table in a file, or an object."""
    path = folder / f"{form}.{form}"
    if form == "csv":
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([table.column_names, *zip(*[c.to_pylist() for c in table.columns], strict=True)])
    elif form == "parquet":
        parquet.write_table(table, path, row_group_size=17)
    elif form in ("feather", "stream"):
        new = ipc.new_file if form == "feather" else ipc.new_stream
        with pa.OSFile(str(path), "wb") as file, new(file, table.schema) as out:
            out.write_table(table, 11)
    elif form == "frame":
        frame = pd.DataFrame({place: column.to_pylist() for place, column in enumerate(table.columns)})
        return frame.set_axis(table.column_names, axis=1)
    elif form == "batches":
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(13))
    else:
        return table
    return str(path)


FORMS = ["csv", "parquet", "feather", "stream", "frame", "table", "batches"]
PLACES = [(), (0,), (1,), (0, 1), (1, 3), (0, 1, 2, 3)]  # of columns without a name


def expected_names(names):
    """As pandas calls them."""
    return [name or f"Unnamed: {place}" for place, name in enumerate(names)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("places", PLACES)
def test_columns_without_a_name_are_called_by_position(tmp_path, form, places):
    names = ["" if place in places else "abc"[place] for place in range(3)] + (
        ["label", ""] if 3 in places else ["label"]
    )
    columns = [*X.T, Y, X[:, 1] ** 2][: len(names)]
    model = sm.train(written(tmp_path, form, table_of(names, columns)), passes=4).model
    called = [name for name in expected_names(names) if name != "label"]
    assert model.feature_names_in_.tolist() == called
    plain = pa.table(dict(zip(expected_names(names), columns, strict=True)))
    np.testing.assert_array_equal(model.coef_, sm.train(plain, passes=4).model.coef_)
    found = model.predict(written(tmp_path, form, table_of(names, columns)))
    np.testing.assert_array_equal(found, model.predict(plain))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", INDICES)
def test_an_index_is_left_out_and_a_warning_says_so(tmp_path, form, kind, caplog):
    table = table_of(["", "a", "", "c", "label"], [INDICES[kind], *X.T, Y])
    model = sm.train(written(tmp_path, form, table)).model
    assert model.feature_names_in_.tolist() == ["a", "Unnamed: 2", "c"]
    [said] = [line for line in caplog.messages if "index" in line]
    assert 'left out, as an index without a name: Unnamed: 0; drop="Unnamed: 0" does so without' in said
    own = sm.train(pa.table({"a": X[:, 0], "Unnamed: 2": X[:, 1], "c": X[:, 2], "label": Y})).model
    np.testing.assert_array_equal(model.coef_, own.coef_)
    others = [
        table, table.select([0, 1, 2, 3]), table_of(["a", "", "c"], X.T), table_of(["a", "", "c", "label"], [*X.T, Y]),
        table_of(["a", "Unnamed: 2", "c"], X.T), table_of(["c", "Unnamed: 2", "a"], X.T[::-1]),
    ]  # fmt: skip
    for other in others:
        np.testing.assert_array_equal(model.predict(written(tmp_path, form, other)), own.predict(others[0]))
    figures, plain = model.evaluate(written(tmp_path, form, table)), own.evaluate(table)
    assert figures.pop("loss") == pytest.approx(plain.pop("loss"), rel=1e-14)  # a stream is summed in other parts
    assert figures == plain


VALUES = {
    "fractions": X[:, 1], "twice": [*range(ROWS - 1), 0], "a gap": [None, *range(1, ROWS)],
    "truth": RANDOM.random(ROWS) < 0.5, "words": RANDOM.choice(["p", "q"], ROWS),
    "one fraction": [0.5, *range(1, ROWS)],
}  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "parquet", "frame", "stream"])
@pytest.mark.parametrize("kind", VALUES)
def test_a_first_column_that_is_no_index_is_a_value(tmp_path, form, kind, caplog):
    table = table_of(["", "a", "label"], [VALUES[kind], X[:, 0], Y])
    model = sm.train(written(tmp_path, form, table), missing="zero", passes=5).model
    assert model.schema.columns[0].name == "Unnamed: 0"
    assert any("the first column has no name, and is used" in line for line in caplog.messages) == (kind == "twice")


def test_the_names_are_those_of_pandas(tmp_path):
    heads = [
        ",,a,", ",Unnamed: 0,a,b", "Unnamed: 1,,Unnamed: 1.1,a", "a,b,,Unnamed: 2", ",Unnamed: 0,Unnamed: 0.1,a",
        "Unnamed: 3,,,", "a, ,b,\t",
    ]  # fmt: skip
    for head in heads:
        (tmp_path / "t.csv").write_text(f"{head}\n1,2,3,4\n")
        known = pd.read_csv(tmp_path / "t.csv").columns.str.strip().tolist()
        assert names_of(part.strip() for part in head.split(",")) == known or " " in head, head
    assert names_of(["a", " ", None, float("nan"), 5]) == ["a", "Unnamed: 1", "Unnamed: 2", "Unnamed: 3", "5"]
    many = names_of([""] * 100_000)
    assert many[-1] == "Unnamed: 99999" and len(set(many)) == 100_000


@pytest.mark.parametrize("form", ["csv", "parquet", "frame", "feather"])
def test_a_name_that_is_there_already_stays_with_its_column(tmp_path, form):
    names = ["Unnamed: 2", "", "", "label"]
    data = written(tmp_path, form, table_of(names, [*X.T, Y]))
    model = sm.train(data).model
    assert model.feature_names_in_.tolist() == ["Unnamed: 2", "Unnamed: 1", "Unnamed: 2.1"]
    plain = sm.train(pa.table({"p": X[:, 0], "q": X[:, 1], "r": X[:, 2], "label": Y})).model
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert model.evaluate(data)["accuracy"] == plain.evaluate(pa.table({"p": X[:, 0], "q": X[:, 1], "r": X[:, 2],
                                                                         "label": Y}))["accuracy"]  # fmt: skip


def test_an_index_that_was_written_twice_is_left_out_twice(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "label": Y})
    frame.to_csv(tmp_path / "once.csv")
    pd.read_csv(tmp_path / "once.csv").to_csv(tmp_path / "twice.csv")
    pd.read_csv(tmp_path / "once.csv").to_csv(tmp_path / "kept.csv", index=False)
    for name in ("once.csv", "twice.csv", "kept.csv"):
        assert sm.train(str(tmp_path / name)).model.feature_names_in_.tolist() == ["a"]
        assert sm.train(pd.read_csv(tmp_path / name)).model.feature_names_in_.tolist() == ["a"]


def test_shards_may_begin_anew(tmp_path, caplog):
    frame = pd.DataFrame({"a": X[:, 0], "label": Y})
    (tmp_path / "parts").mkdir()
    for k in range(3):
        part = frame.iloc[20 * k : 20 * k + 20].reset_index(drop=True).sample(frac=1.0, random_state=k)
        part.to_csv(tmp_path / f"{k}.csv")
        table = table_of(["", "a", "label"], [part.index.to_numpy(), part.a, part.label])
        parquet.write_table(table, tmp_path / "parts" / f"{k}.parquet")
    csvs = [str(tmp_path / f"{k}.csv") for k in range(3)]
    for data in (csvs, str(tmp_path / "parts"), [str(tmp_path / "parts" / f"{k}.parquet") for k in range(3)]):
        assert sm.train(data).model.feature_names_in_.tolist() == ["a"]
    pd.concat([frame, frame]).to_csv(tmp_path / "both.csv")  # one file, whose index begins anew
    assert sm.train(str(tmp_path / "both.csv"), scale="std").model.feature_names_in_.tolist() == ["Unnamed: 0", "a"]
    assert "leave it out with drop=" in caplog.text


def test_the_index_that_pandas_stores_is_left_out(tmp_path, caplog):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": Y})
    plain = sm.train(frame).model
    for name, index in (("numbers", RANDOM.permutation(ROWS)), ("words", [f"u{k}" for k in range(ROWS)]),
                        ("days", pd.date_range("2024-01-01", periods=ROWS)), ("same", [0] * ROWS)):  # fmt: skip
        path = str(tmp_path / f"{name}.parquet")
        frame.set_axis(index).to_parquet(path)
        assert "__index_level_0__" in parquet.read_schema(path).names
        for data in (path, parquet.read_table(path), dataset.dataset(path)):
            caplog.clear()
            model = sm.train(data).model
            np.testing.assert_array_equal(model.coef_, plain.coef_)
            assert "left out, as an index without a name: __index_level_0__" in caplog.text
    frame.to_parquet(tmp_path / "0.parquet")  # no index is stored
    mixed = [str(tmp_path / "0.parquet"), str(tmp_path / "numbers.parquet")]
    for data in (mixed, mixed[::-1]):
        assert sm.train(data).model.feature_names_in_.tolist() == ["a", "b"]
        np.testing.assert_array_equal(plain.predict(data), np.tile(plain.predict(frame), 2))
    taken = sm.train(mixed[1], columns=["__index_level_0__", "a"], scale="std").model
    assert taken.feature_names_in_.tolist() == ["__index_level_0__", "a"]


def test_columns_and_roles_take_it_back(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": Y})
    frame.to_csv(tmp_path / "t.csv")
    data = str(tmp_path / "t.csv")
    model = sm.train(data, columns=["Unnamed: 0", "a"], scale="std").model
    assert model.feature_names_in_.tolist() == ["Unnamed: 0", "a"]
    assert sm.train(data, y="Unnamed: 0", drop="label", loss="squared_error").model.schema.labels == ("Unnamed: 0",)
    assert sm.train(data, sample_weight="Unnamed: 0").model.feature_names_in_.tolist() == ["a", "b"]
    for drop, left in (("", ["a", "b"]), ("Unnamed: 0", ["a", "b"]), (["Unnamed: 0", "b"], ["a"])):
        assert sm.train(data, drop=drop).model.feature_names_in_.tolist() == left
    told = r"no column Unnamed: 1 for drop; did you mean Unnamed: 0\? it has Unnamed: 0, a, b, label"
    with pytest.raises(UsageError, match=told):
        sm.train(data, drop="Unnamed: 1")


def test_the_shell_trains_predicts_evaluates_and_converts(tmp_path, here):
    frame = pd.DataFrame({"a": X[:, 0], "label": Y}).sample(frac=1.0, random_state=1)
    frame.to_csv(tmp_path / "t.csv")
    frame.to_csv(tmp_path / "without.csv", index=False)
    done = here("train", "t.csv", "-o", "m.npz", cwd=tmp_path)
    assert done.returncode == 0
    assert (
        "warning: t.csv: left out, as an index without a name: Unnamed: 0; --drop 'Unnamed: 0' does so without"
        in done.stderr
    )
    done = here("predict", "m.npz", "t.csv", "--id", "Unnamed: 0", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "Unnamed: 0,label"
    assert [line.split(",")[0] for line in done.stdout.splitlines()[1:]] == [str(k) for k in frame.index]
    labels = [line.split(",")[1] for line in done.stdout.splitlines()[1:]]
    assert here("predict", "m.npz", "without.csv", cwd=tmp_path).stdout.splitlines() == labels
    assert call("predict", "m.npz", "-", cwd=tmp_path, input=(tmp_path / "t.csv").read_text()).stdout.split() == labels
    figures = [json.loads(here("evaluate", "m.npz", name, "--json", cwd=tmp_path).stdout)["accuracy"]
               for name in ("t.csv", "without.csv")]  # fmt: skip
    assert figures[0] == figures[1] > 0.7
    convert(str(tmp_path / "t.csv"), str(tmp_path / "t.h5"))
    convert(str(tmp_path / "t.csv"), str(tmp_path / "like.h5"), like=str(tmp_path / "m.npz"))
    for name in ("t.h5", "like.h5"):
        with sm.open_source(str(tmp_path / name)) as source:
            assert source.features == 1
    done = here("train", "t.csv", "-o", "c.npz", "-q", "--columns", "Unnamed: 0,a", "--scale", "std", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert sm.load_model(tmp_path / "c.npz").feature_names_in_.tolist() == ["Unnamed: 0", "a"]


def test_held_out_rows_may_have_an_index_or_not(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "": X[:, 1], "label": Y})
    frame.to_csv(tmp_path / "t.csv")
    frame.to_csv(tmp_path / "v.csv", index=False)
    for train, valid in itertools.product(("t.csv", "v.csv"), repeat=2):
        result = sm.train(str(tmp_path / train), valid=str(tmp_path / valid))
        assert result.certificate.valid_error == pytest.approx(result.certificate.train_error)


def test_a_model_without_names_scores_a_table_with_an_index(tmp_path):
    pd.DataFrame(X, columns=list("abc")).to_csv(tmp_path / "t.csv")
    model = sm.train((X, Y)).model
    np.testing.assert_array_equal(model.predict(str(tmp_path / "t.csv")), model.predict(X))
    np.savetxt(tmp_path / "plain.csv", X, delimiter=",")
    np.testing.assert_array_equal(model.predict(str(tmp_path / "plain.csv")), model.predict(X))


def test_a_model_of_rows_without_names_among_names(tmp_path):
    names = np.array(["", "a"], object)
    model = LinearModel(np.ones((1, 2)), np.zeros(1), np.array([0, 1]), {"loss": "hinge"}, names)
    model.save(tmp_path / "m.npz")
    assert sm.load_model(tmp_path / "m.npz").feature_names_in_.tolist() == ["", "a"]


@pytest.mark.parametrize(
    "first, second, header",
    [(",2019,2020,label", "0,1.5,2,1", True), (",2019,,label", "0,1,2,1", True), (",1,2,x", "3,4,5,y", False),
     ("5,,3,x", "1,2,3,y", False), (",,,", "1,2,3,4", True), ("1,,NA,x", "1,2,3,y", False),
     (",a,2,", "0,1,2,3", True)],
)  # fmt: skip
def test_a_header_may_lack_names(first, second, header):
    assert is_header(first.split(","), second.split(","), Expected()) is header


def test_names_that_a_model_knows_are_a_header():
    known = Expected(names=frozenset(["5", "Unnamed: 1"]))
    assert is_header(["5", "", "7"], ["1", "2", "3"], known) and not is_header(["5", "6", "7"], ["1", "2", "3"], known)


def test_ratings_have_an_index_in_front(tmp_path):
    users, items = np.repeat(np.arange(6), 5), np.tile(np.arange(5), 6)
    frame = pd.DataFrame({"user": users, "item": items, "stars": (users + items) % 5 + 1.0})
    frame.to_csv(tmp_path / "r.csv")
    frame.to_csv(tmp_path / "plain.csv", index=False)
    found, plain = (sm.complete(str(tmp_path / name), C=10.0, passes=30).model for name in ("r.csv", "plain.csv"))
    predicted = plain.predict(str(tmp_path / "plain.csv"))
    assert predicted.any()
    for data in (frame, str(tmp_path / "r.csv")):
        np.testing.assert_array_equal(found.predict(data), predicted)


def test_polars_goes_in_with_an_index(tmp_path):
    polars = pytest.importorskip("polars")
    pd.DataFrame({"a": X[:, 0], "label": Y}).to_csv(tmp_path / "t.csv")
    data = polars.read_csv(tmp_path / "t.csv")
    model = sm.train(data).model
    assert model.feature_names_in_.tolist() == ["a"]
    np.testing.assert_array_equal(model.predict(data), model.predict(str(tmp_path / "t.csv")))
