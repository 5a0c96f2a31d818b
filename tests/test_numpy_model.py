"""A model file predicts by NumPy alone what the package predicts; what takes more is refused by name."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import streammargin as sm
from streammargin import numpy_model
from streammargin.numpy_model import NumpyModel
from streammargin.tables import learn

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((90, 4))
TWO = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.0, "yes", "no")
THREE = np.array(["a", "b", "a word of " + 80 * "x"], object)[np.digitize(X[:, 0], [-0.5, 0.5])]
NUMBERS = 3.0 * X[:, 0] - X[:, 1] + 40.0
SPARSE = sp.csr_array(np.where(RANDOM.random(X.shape) < 0.3, X, 0.0))
ROWS = {  # labels and options of a training on X
    "two classes": (TWO, {}),
    "hard margin": (TWO, {"C": math.inf}),
    "probabilities": (TWO, {"loss": "logistic", "scale": "std"}),
    "softmax": (THREE, {"loss": "logistic", "scale": "std"}),
    "one against the rest": (THREE, {"loss": "logistic", "multiclass": "ovr"}),
    "numbers": (NUMBERS, {"loss": "squared_error"}),
    "several outputs": ((X[:, :2] > 0.0).astype(int), {"loss": "logistic"}),
    "several numbers": (np.column_stack([NUMBERS, X[:, 1]]), {"loss": "squared_error"}),
    "rff": (TWO, {"map": "rff:31,gamma=0.2", "scale": "std", "loss": "logistic"}),
}
PROGRAM = """
import json, sys
class Nothing:  # else can be imported
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in {*sys.stdlib_module_names, "numpy", "numpy_model"}:
            raise ImportError(f"{name} is not there")
before = set(sys.modules)  # what an installation imports at its start
sys.meta_path.insert(0, Nothing())
sys.path.insert(0, sys.argv[1])
import numpy as np
from numpy_model import NumpyModel
found = {}
for name, data in json.load(open("asked.json")).items():
    model = NumpyModel(name + ".npz")
    data = np.load(name + ".npy") if data is None else data
    found[f"{name} scores"], found[f"{name} labels"] = model.decision_function(data), model.predict(data).astype(str)
    try:
        found[f"{name} probabilities"] = model.predict_proba(data)
    except ValueError as error:
        assert "has no probabilities; use predict" in str(error), error
np.savez("found.npz", **found)
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))
"""


def people(rows=120):
    """A table with gaps, words, a word of few rows, numbers as words, truth, pairs and dates."""
    random = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 90, rows).astype(float),
            "hours": random.normal(40.0, 10.0, rows),
            "work": random.choice(["private", "state", "own"], rows).astype(object),
            "grade": pd.Categorical(random.integers(1, 4, rows)),
            "member": random.random(rows) < 0.5,
            "paid": random.choice(["yes", "no"], rows),
            "since": pd.Timestamp("2023-11-05") + pd.to_timedelta(random.integers(0, 9999, rows), unit="h"),
        }
    )
    frame["income"] = np.where(frame["hours"] + 10 * (frame["work"] == "own") > 43, "high", "low")
    frame.loc[::7, "age"] = np.nan
    frame.loc[3::11, "work"] = None
    frame.loc[5::13, "since"] = pd.NaT
    frame.loc[[1, 50], "work"] = ["rare", "rarer"]
    return frame


def plain(frame):
    """The rows of a frame as JSON has them."""
    return json.loads(frame.to_json(orient="records", date_format="iso", date_unit="s", double_precision=15))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the files of all models, and by name: the model, and its data."""
    folder, found = tmp_path_factory.mktemp("models"), {}
    for name, (y, options) in ROWS.items():
        found[name] = sm.train((X, y), tol=0.1, **options).model, X
    found["sparse rff"] = sm.train((SPARSE, TWO), map="rff:20", scale="maxabs", tol=0.1).model, SPARSE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learn, "MOST_WORDS", 3)
        for name, missing in (("table", "mean"), ("marked gaps", "indicator"), ("mapped table", "zero")):
            more = {"map": "rff:20,gamma=0.01", "scale": "std"} if name == "mapped table" else {"loss": "logistic"}
            model = sm.train(people(), y="income", missing=missing, dates=True, tol=0.1, **more).model
            found[name] = model, people().drop(columns="income")
    for name, (model, _) in found.items():
        model.save(folder / f"{name}.npz")
    return folder, found


def agree(found, expected, tol=1e-9):
    np.testing.assert_allclose(found, expected, rtol=tol, atol=tol * max(1.0, np.abs(expected).max()))


def test_it_predicts_where_numpy_alone_is_installed(trained, tmp_path):
    folder, known = trained
    asked = {}
    for name, (_, data) in known.items():
        asked[name] = plain(data) if isinstance(data, pd.DataFrame) else None
        np.save(folder / f"{name}.npy", data.toarray() if data is SPARSE else data)
    (folder / "asked.json").write_text(json.dumps(asked))
    (tmp_path / "numpy_model.py").write_text(Path(numpy_model.__file__).read_text())
    words = [sys.executable, "-I", "-c", PROGRAM, str(tmp_path)]
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stderr
    assert set(ran.stdout.split()) == {"numpy", "numpy_model"}
    found = np.load(folder / "found.npz")
    for name, (model, data) in known.items():
        agree(found[f"{name} scores"], model.decision_function(data))
        if model.numeric:
            agree(found[f"{name} labels"].astype(float), model.predict(data))
        else:
            assert found[f"{name} labels"].tolist() == model.predict(data).astype(str).tolist(), name
        probable = name in ("probabilities", "softmax", "one against the rest", "several outputs", "rff", "table",
                            "marked gaps")  # fmt: skip
        assert (f"{name} probabilities" in found) == probable
        if probable:
            agree(found[f"{name} probabilities"], model.predict_proba(data))


def test_frames_columns_and_sparse_rows_are_the_same_rows(trained):
    folder, known = trained
    for name in ("table", "marked gaps", "mapped table"):
        model, frame = known[name]
        for data in (frame, frame.to_dict("list"), frame.to_dict("records")):
            agree(NumpyModel(folder / f"{name}.npz").decision_function(data), model.decision_function(frame))
    model, rows = known["sparse rff"]
    agree(NumpyModel(folder / "sparse rff.npz").decision_function(rows), model.decision_function(rows))
    model = known["two classes"][0]
    agree(NumpyModel(folder / "two classes.npz").decision_function(SPARSE), model.decision_function(SPARSE))


def test_the_rows_of_a_table_are_those_of_the_training(trained):
    folder, known = trained
    model, frame = known["marked gaps"]
    rows = NumpyModel(folder / "marked gaps.npz").rows(frame)
    names = model.feature_names_in_.tolist()
    assert rows.shape == (len(frame), len(names)) and any(name.startswith("work=other") for name in names)
    gap = frame["age"].isna().to_numpy()
    assert np.array_equal(rows[:, names.index("age is missing")], gap)
    assert np.allclose(rows[gap, names.index("age")], frame["age"].mean(), rtol=1e-6)
    assert np.array_equal(rows[:, names.index("work=own")], frame["work"] == "own")
    assert np.array_equal(rows[:, names.index("work=other")], frame["work"].isin(["rare", "rarer"]))
    assert np.array_equal(rows[:, names.index("paid")], frame["paid"] == "yes")
    dates = frame["since"]
    assert np.array_equal(rows[:, names.index("since: month=3")], dates.dt.month == 3)
    assert np.array_equal(rows[:, names.index("since: day of the week=Friday")], dates.dt.day_name() == "Friday")
    year = next(name for name in names if name.startswith("since: years since "))
    assert np.array_equal(rows[~dates.isna(), names.index(year)], dates.dropna().dt.year - int(year[-4:]))


@pytest.mark.parametrize(
    "change, words",
    [
        (
            {"work": "unheard"},
            "row 1, column work: the category 'unheard' is unknown; replace it, or give unknown=.zero",
        ),
        ({"work": ""}, "row 1, column work: the category '' is unknown; .*; None is a missing value$"),
        ({"hours": None}, "row 1, column hours: the value is missing, and no training row lacked it"),
        ({"hours": "12%"}, "row 1, column hours: .*12%"),
        ({"hours": " "}, "row 1, column hours: '' is text; give the number, .*; None is a missing value"),
        ({"paid": "maybe"}, "row 1, column paid: 'maybe' is text; give the number"),
        ({"since": "5/11/2023"}, "row 1, column since: Error parsing datetime"),
        ({"hours": math.inf}, "row 1: a value is not finite"),
    ],
)
def test_a_bad_row_is_named(tmp_path, change, words):
    frame = people().dropna()
    model = sm.train(frame, y="income", dates=True, tol=0.1).model
    model.save(tmp_path / "m.npz")
    rows = plain(frame.drop(columns="income"))[:2]
    with pytest.raises(ValueError, match=words):
        NumpyModel(tmp_path / "m.npz").predict([rows[0], {**rows[1], **change}])


@pytest.mark.parametrize("fields", [{"work"}, {"work", "hours"}])
def test_a_field_that_one_of_the_dicts_lacks_is_never_a_missing_value(tmp_path, fields):
    sm.train(people(), y="income", dates=True, missing="mean", tol=0.1).model.save(tmp_path / "m.npz")
    model, rows = NumpyModel(tmp_path / "m.npz"), plain(people().drop(columns="income"))[:3]
    assert len(model.predict(rows)) == len(model.predict([rows[0], rows[1] | {"id": 3}, rows[2] | {"work": None}])) == 3
    rows[1] = {name: value for name, value in rows[1].items() if name not in fields} | {"wrok": "own"}
    with pytest.raises(ValueError, match="or a row lacks that field; None is a missing value"):
        model.predict(rows)
    with pytest.raises(ValueError, match=r"lacks the column age, .*; all rows have wrok$"):
        model.predict({"wrok": ["own"]})


def test_a_row_of_a_table_without_names_has_all_fields(tmp_path):
    (tmp_path / "t.csv").write_text("".join(f"{age},{age % 3},{'ab'[age % 2]}\n" for age in range(40)))
    sm.train(str(tmp_path / "t.csv"), y="-1", tol=0.5).model.save(tmp_path / "m.npz")
    model, rows = NumpyModel(tmp_path / "m.npz"), [{"age": 3, "rest": 0}, {"age": 4}]
    assert model.predict(rows[:1]).shape == (1,)
    with pytest.raises(ValueError, match="the columns have no names, or a row lacks a field"):
        model.predict(rows)
    with pytest.raises(ValueError, match=r"the table has 3, not 2: .*; all rows have a, b, c$"):
        model.predict({"a": [1.0], "b": [2.0], "c": ["a"]})


def test_one_dict_is_one_row(tmp_path):
    frame = people().dropna()
    sm.train(frame, y="income", dates=True, tol=0.1).model.save(tmp_path / "m.npz")
    model, rows = NumpyModel(tmp_path / "m.npz"), plain(frame.drop(columns="income"))[:3]
    agree(np.concatenate([model.decision_function(row) for row in rows]), model.decision_function(rows))
    with pytest.raises(ValueError, match="row 0, column hours: the value is missing"):
        model.predict({**rows[0], "hours": None})


def test_unknown_categories_count_as_zeros_if_asked(tmp_path):
    frame = people().dropna()
    sm.train(frame, y="income", dates=True, tol=0.1).model.save(tmp_path / "m.npz")
    model, ours = NumpyModel(tmp_path / "m.npz"), sm.load_model(tmp_path / "m.npz")
    rows = frame.drop(columns="income").assign(work="unheard")
    agree(model.decision_function(rows, unknown="zero"), ours.decision_function(rows, unknown="zero"))
    with pytest.raises(ValueError, match="the table lacks the column work"):
        model.predict(rows.drop(columns="work"))
    with pytest.raises(ValueError, match=r"the rows have the shape \(3, 2\), not \(n, \d+\)"):
        model.predict(np.zeros((3, 2)))


class Doubled(sm.maps.Map):
    """The columns, twice."""

    @property
    def width(self):
        return 8

    def learn(self, seen):
        return {"twice": np.ones(2)}

    def rows(self, X, learned):
        return np.kron(learned["twice"], X)


def test_models_that_take_more_than_numpy_are_refused_by_name(tmp_path):
    texts = pd.DataFrame({"said": ["a good one", "so bad"] * 20, "y": [1, 0] * 20})
    for model, words in (
        (sm.train((X, TWO), kernel="rbf:0.2", tol=0.1).model, "it is of the kind expansion"),
        (sm.train((X, TWO), tasks=np.arange(90) % 2, tol=0.1).model, "each of its tasks has weights of its own"),
        (sm.train((X, TWO), map=Doubled(), tol=0.1).model, "its map .*oubled is not rff"),
        (sm.train((X, TWO), map="nystroem:9", tol=0.1).model, "its map nystroem:9,.* is not rff"),
        (sm.train(texts, y="y", text="said", tol=0.1).model, "scikit-learn hashes the free text of its column said"),
    ):
        model.save(tmp_path / "m.npz", force=True)
        with pytest.raises(ValueError, match=f"needs more than NumPy: {words}; use streammargin.load_model"):
            NumpyModel(tmp_path / "m.npz")
    np.savez(tmp_path / "n.npz", header=np.array("{}"))
    with pytest.raises(ValueError, match="not a model of streammargin"):
        NumpyModel(tmp_path / "n.npz")


def test_the_file_is_short_enough_to_be_copied():
    text = Path(numpy_model.__file__).read_text()
    assert len(text.splitlines()) <= 250 and "import streammargin" not in text and "from streammargin" not in text
