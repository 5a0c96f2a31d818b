"""A pipeline of scikit-learn predicts what its model does, alone in a process; what cannot become one says so."""

import math
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import streammargin as sm
from streammargin.tables import learn

RANDOM = np.random.default_rng(12)
X = RANDOM.standard_normal((90, 4))
NEW = RANDOM.standard_normal((50, 4))
TWO = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.0, "yes", "no")
THREE = np.array(["c", "a", "a word of " + 80 * "x"], object)[np.digitize(X[:, 0], [-0.5, 0.5])]
NUMBERS = 3.0 * X[:, 0] - X[:, 1] + 40.0
ROWS = {  # labels and options of a training on X
    "hinge": (TWO, {}),
    "hard margin": (TWO, {"C": math.inf}),
    "squared hinge of three": (THREE, {"loss": "squared_hinge", "scale": "std"}),
    "smooth hinge": (TWO, {"loss": "smooth_hinge"}),
    "Crammer-Singer": (THREE, {"multiclass": "joint", "loss": "hinge"}),
    "logistic": (TWO, {"loss": "logistic", "scale": "std"}),
    "softmax": (THREE, {"loss": "logistic", "scale": "std"}),
    "one against the rest": (THREE, {"loss": "logistic", "multiclass": "ovr"}),
    "two of three": (THREE, {"loss": "logistic", "positive": "c"}),
    "numbers": (NUMBERS, {"loss": "quantile:0.3"}),
    "several labels": ((X[:, :3] > 0.0).astype(int), {"loss": "hinge"}),
    "several probabilities": ((X[:, :2] > 0.0).astype(int), {"loss": "logistic"}),
    "several numbers": (np.column_stack([NUMBERS, X[:, 1]]), {"loss": "squared_error"}),
    "rff": (TWO, {"map": "rff:31,gamma=0.2", "scale": "std", "loss": "logistic"}),
    "nystroem": (TWO, {"map": "nystroem:20,kernel=poly:2,gamma=0.5,coef0=1,weight=3"}),
    "nystroem of numbers": (NUMBERS, {"map": "nystroem:20,kernel=rbf:0.2", "scale": "std", "loss": "squared_error"}),
}


def people(rows=200):
    """A table with gaps, words, words of few rows, numbers as words, and truth."""
    random = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 90, rows).astype(float),
            "work": random.choice(["private", "state", "own"], rows).astype(object),
            "hours": random.normal(40.0, 10.0, rows),
            "grade": pd.Categorical(random.integers(1, 4, rows)),
            "member": random.random(rows) < 0.5,
        }
    )
    frame["income"] = np.where(frame["hours"] + 10 * (frame["work"] == "own") > 43, "high", "low")
    return frame


def with_gaps(frame):
    """The frame with missing numbers and words, and two rare words."""
    frame = frame.copy()
    frame.loc[::7, "age"] = np.nan
    frame.loc[3::11, "work"] = None
    frame.loc[5::13, "grade"] = np.nan
    frame.loc[[1, 50], "work"] = ["rare", "rarer"]
    return frame


def same(model, made, data, tol=1e-9):
    """Labels are equal, scores and probabilities up to rounding."""
    expected = model.decision_function(data)
    size = max(1.0, np.abs(expected).max())
    if model.numeric:
        np.testing.assert_allclose(made.predict(data), model.predict(data), rtol=0.0, atol=tol * size)
        return
    np.testing.assert_allclose(made.decision_function(data), expected, rtol=0.0, atol=tol * size)
    assert np.array_equal(made.predict(data), model.predict(data))
    assert hasattr(made, "predict_proba") == (model.header["loss"] == "logistic")
    if hasattr(made, "predict_proba"):
        np.testing.assert_allclose(made.predict_proba(data), model.predict_proba(data), rtol=0.0, atol=tol)


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_numbers(name):
    y, options = ROWS[name]
    model = sm.train((X, y), tol=0.1, **options).model
    made = model.to_sklearn()
    assert isinstance(made, Pipeline) and made.n_features_in_ == 4
    same(model, made, NEW, 1e-6 if "map" in options else 1e-12)  # mapped rows are float32
    if "map" not in options:
        same(model, made, sp.csr_array(np.where(NEW > 0.5, NEW, 0.0)), 1e-12)
    if not model.numeric and model.outputs is None:
        assert made.classes_.tolist() == model.classes_.tolist()
    assert clone(made).steps[-1][0] == made.steps[-1][0]


def test_sparse_landmarks_and_scale():
    rows = sp.csr_array(np.where(RANDOM.random(X.shape) < 0.4, X, 0.0))
    model = sm.train((rows, TWO), map="nystroem:20", scale="maxabs", tol=0.1).model
    same(model, model.to_sklearn(), rows, 1e-6)


def test_columns_by_name():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = sm.train((frame, TWO), tol=0.1).model
    made = model.to_sklearn()
    assert made.feature_names_in_.tolist() == list("abcd")
    same(model, made, frame)
    with pytest.raises(ValueError, match="feature names"):
        made.predict(frame[list("dcba")])


TABLES = {
    "as they are": (people(), {}),
    "gaps": (with_gaps(people()), {"missing": "mean"}),
    "marked gaps": (with_gaps(people()), {"missing": "indicator", "scale": "std"}),
    "zeros": (with_gaps(people()), {"missing": "zero", "loss": "logistic"}),
}


@pytest.mark.parametrize("words", [3, 1000])
@pytest.mark.parametrize("name", TABLES)
def test_tables(name, words, monkeypatch):
    monkeypatch.setattr(learn, "MOST_WORDS", words)
    frame, options = TABLES[name]
    model = sm.train(frame, y="income", tol=0.1, **options).model
    made = model.to_sklearn()
    rows = frame.drop(columns="income")
    same(model, made, rows)
    same(model, made, frame)  # columns that the model does not know are left out
    odd = rows.assign(work="unheard")
    if any(column.other for column in model.schema.columns):
        same(model, made, odd)
        return
    for bad, words in ((odd, "unknown categories"), (rows.assign(hours="many"), "could not convert string")):
        with pytest.raises(ValueError, match=words):
            made.predict(bad)
    if options:
        same(model, made, rows.assign(hours=math.nan))
        return
    with pytest.raises(ValueError, match="contains NaN"):
        made.predict(rows.assign(hours=math.nan))


@pytest.mark.parametrize("options", [{}, {"missing": "indicator"}, {"map": "rff:20,gamma=0.1"}], ids=str)
def test_categories_of_numbers_in_any_order_of_their_texts(options):
    random = np.random.default_rng(4)
    frame = people().drop(columns="grade").assign(code=random.choice([9, 10, 100, 0.5], 200))
    frame["kind"] = pd.Categorical(random.choice([9, 10], 200))
    frame["known"] = random.random(200) < 0.5
    if "missing" in options:
        frame.loc[::9, "code"] = np.nan
    frame["income"] = np.where((frame["code"] == 10) | (frame["kind"] == 9), "high", "low")
    model = sm.train(frame, y="income", categorical=["code", "known"], tol=0.1, **options).model
    assert ("0.5", "10", "100", "9") in [column.words for column in model.schema.columns]
    same(model, model.to_sklearn(), frame.drop(columns="income"), 1e-6 if "map" in options else 1e-9)


def test_maps_of_tables():
    frame = people()
    model = sm.train(frame, y="income", map="rff:40,gamma=0.01", scale="std", tol=0.1).model
    made = model.to_sklearn()
    same(model, made, frame.drop(columns="income"), 1e-6)
    with pytest.raises(ValueError, match="unknown categories"):
        made.predict(frame.assign(work="unheard"))


def test_steps_on_the_rows_of_tables():
    frame = people().assign(spent=RANDOM.poisson(3.0, 200))
    ways = {"transform": "total:100,log1p,tfidf,unit,sqrt", "scale": "std:clip=1", "loss": "logistic"}
    model = sm.train(frame, y="income", tol=0.1, **ways).model
    made = model.to_sklearn()
    same(model, made, frame.drop(columns="income"), 1e-5)
    assert np.abs(made[:-1].transform(frame)).max() == 1.0
    counts = sp.csr_array(RANDOM.poisson(0.3, (90, 4)).astype(float))
    with pytest.raises(sm.UsageError, match="cannot clip sparse rows, as clipped:2 does"):
        sm.train((counts, TWO), scale="std:clip=2", tol=0.1).model.to_sklearn()
    mapped = sm.train(frame, y="income", tol=0.1, transform="log1p", map="rff:40,gamma=0.1", scale="std").model
    same(mapped, mapped.to_sklearn(), frame.drop(columns="income"), 1e-5)


def test_free_text_beside_numbers():
    texts = RANDOM.choice(["a good film", "so bad", "good, not bad", "bad", "a film"], 120)
    good = np.char.find(texts, "good") >= 0
    frame = pd.DataFrame({"review": texts.astype(object), "stars": RANDOM.integers(1, 6, 120), "y": good})
    frame.loc[[3, 9], "review"] = [None, math.nan]
    model = sm.train(frame, y="y", text="review,ngrams=2", tol=0.1).model
    rows = frame.drop(columns="y")
    same(model, model.to_sklearn(), rows, 1e-6)
    same(model, model.to_sklearn(), pd.DataFrame({"review": ["never seen, good"], "stars": [3]}), 1e-6)


def test_a_table_without_names(tmp_path):
    frame = people()[["age", "work", "hours", "income"]]
    frame.to_csv(tmp_path / "t.csv", index=False, header=False)
    model = sm.train(str(tmp_path / "t.csv"), y=3, tol=0.1).model
    rows = frame.drop(columns="income")
    rows.to_csv(tmp_path / "n.csv", index=False, header=False)
    made = model.to_sklearn()
    assert np.array_equal(made.predict(rows.to_numpy()), model.predict(str(tmp_path / "n.csv")))


def as_people_write(rows=120, gaps=True):
    """Dates and numbers as people write them, in text."""
    random = np.random.default_rng(8)
    spent, day = random.gamma(2.0, 900.0, rows), pd.Timestamp("2022-11-20 07:30", tz=None)
    days = pd.Series([day + pd.Timedelta(hours=37 * k) for k in range(rows)])
    frame = pd.DataFrame(
        {
            "when": days.dt.strftime("%Y-%m-%d %H:%M"),
            "seen": days.dt.strftime("%d/%m/%Y"),
            "born": days.dt.strftime("%m/%d/%Y"),
            "stamp": days,
            "spent": [f"${value:,.2f}" for value in spent],
            "profit": [f"({-value:.2f})" if value < 0 else f"{value:.2f}" for value in spent - 1500.0],
            "prix": [f"{value:,.2f} €".replace(",", " ").replace(".", ",") for value in spent],
            "share": [f"{value / 99.0:.1f}%" for value in spent],
            "paid": random.choice(["yes", "No"], rows),
            "y": np.where(spent > 1500.0, "high", "low"),
        }
    )
    for place, name in enumerate(frame.columns[:-1] if gaps else ()):
        frame.loc[place :: 11 + place, name] = None
    return frame


@pytest.mark.parametrize("options", [{}, {"missing": "mean"}, {"missing": "indicator", "scale": "std"}], ids=str)
def test_dates_and_numbers_as_people_write_them(options):
    frame = as_people_write(gaps=bool(options))
    model = sm.train(frame, y="y", dates=True, loss="logistic", tol=0.1, **options).model
    assert [column.spelling for column in model.schema.columns][1:5] == ["day-first", "month-first", "year-first",
                                                                         "point $"]  # fmt: skip
    made = pickle.loads(pickle.dumps(model.to_sklearn()))
    same(model, made, frame.drop(columns="y"), 1e-6)
    later = frame.drop(columns="y").assign(when="1999-12-31T23:59:59Z", share="7%", spent=12.5)
    same(model, made, later[frame["profit"].notna()].head(1).assign(spent="$12.5"), 1e-6)
    with pytest.raises(ValueError, match="could not convert string to float: 'much'"):
        made.predict(later.assign(spent="much"))


PROGRAM = """
import pickle, sys
class Ours:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("streammargin", "numba", "h5py", "pyarrow"):
            raise ImportError(f"{name} is not there")
sys.meta_path.insert(0, Ours())
for path in sys.argv[1:]:
    made, data, expected = pickle.load(open(path, "rb"))
    if isinstance(data, dict):  # text of pandas 3 is Arrow's where that is there
        import pandas
        data = pandas.DataFrame(data)
    assert (made.predict(data) == expected).all(), path
"""


def test_it_needs_scikit_learn_alone(tmp_path):
    frame, written = with_gaps(people()), as_people_write()
    rows = frame.drop(columns="income")
    dated = sm.train(written, y="y", dates=True, missing="mean", tol=0.1).model
    table = sm.train(frame, y="income", missing="indicator", tol=0.1).model
    mapped = sm.train((X, TWO), map="rff:31,gamma=0.2", scale="std", tol=0.1).model
    files = []
    for name, model, data in (("table", table, rows), ("mapped", mapped, NEW), ("dated", dated, written)):
        files.append(str(tmp_path / name))
        with open(files[-1], "wb") as file:
            given = data.to_dict("list") if isinstance(data, pd.DataFrame) else data
            pickle.dump((model.to_sklearn(), given, model.predict(data)), file)
    ran = subprocess.run([sys.executable, "-I", "-c", PROGRAM, *files], capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stderr


def test_what_has_no_pipeline_says_so(tmp_path):
    days = pd.date_range("2024-01-01", periods=60)
    dates = pd.DataFrame({"when": days.strftime("%d %B %Y"), "y": np.arange(60) % 2})
    (tmp_path / "prices.csv").write_text("".join(f"{k}%,{k // 30}\n" for k in range(60)))
    gaps = with_gaps(people())
    for trained, words in (
        (
            lambda: sm.train((X, TWO), kernel="rbf:0.2", tol=0.1),
            "a machine of the kernel rbf:0.2,weight=1 cannot be exported",
        ),
        (
            lambda: sm.train((X, TWO), tasks=np.arange(90) % 2, tol=0.1),
            "weights for each of 2 tasks cannot be exported",
        ),
        (lambda: sm.train((X, TWO), map="nystroem:9,kernel=rbf:1+linear", tol=0.1), "no map nystroem.* of one kernel"),
        (lambda: sm.train(dates, y="y", dates=True, tol=0.1), r"cannot read dates as those of when \(day, month by"),
        (
            lambda: sm.train(str(tmp_path / "prices.csv"), y=1, tol=0.1),
            "point % by pandas, and the column 0 has no name",
        ),
        (lambda: sm.train(gaps, y="income", missing="indicator", map="rff:9", tol=0.1), "work .*front of a map"),
    ):
        with pytest.raises(sm.UsageError, match=words):
            trained().model.to_sklearn()
    ratings = sm.complete((np.arange(40) % 5, np.arange(40) // 5, np.arange(40) % 3 + 1.0)).model
    with pytest.raises(sm.UsageError, match="a completed matrix cannot be exported as a pipeline"):
        ratings.to_sklearn()
