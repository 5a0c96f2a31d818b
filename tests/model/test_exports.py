"""Models for other programs: each form is read by its own reader, and predicts what the model does."""

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import streammargin as sm
from streammargin.cli.export import FORMS
from streammargin.model.exports.files import MADE, NEEDED, export
from streammargin.numpy_model import NumpyModel
from streammargin.tables import learn

RANDOM = np.random.default_rng(13)
X = RANDOM.standard_normal((90, 4)).astype(np.float32)
TWO = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.0, "yes", "no")
THREE = np.array(["c", "a", "b"])[np.digitize(X[:, 0], [-0.5, 0.5])]
NUMBERS = 3.0 * X[:, 0] - X[:, 1] + 40.0
ROWS = {  # labels and options of a training on X
    "hinge": (TWO, {}),
    "hinge of three": (THREE, {"scale": "std", "loss": "hinge"}),
    "logistic": (TWO, {"loss": "logistic"}),
    "softmax": (THREE, {"loss": "logistic"}),
    "one against the rest": (THREE, {"loss": "logistic", "multiclass": "ovr"}),
    "numbers": (NUMBERS, {"loss": "squared_error"}),
    "several labels": ((X[:, :3] > 0.0).astype(int), {"loss": "logistic"}),
    "several hinges": ((X[:, :3] > 0.0).astype(int), {"loss": "hinge"}),
    "several numbers": (np.column_stack([NUMBERS, X[:, 1]]), {"loss": "squared_error"}),
}


def people(rows=200):
    """A table with gaps, words, words of few rows, numbers as words, truth and a pair."""
    random = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 90, rows).astype(float),
            "work": random.choice(["private", "state", "own"], rows).astype(object),
            "hours a week": random.normal(40.0, 10.0, rows),
            "grade": pd.Categorical(random.integers(1, 4, rows)),
            "member": random.random(rows) < 0.5,
            "paid": random.choice(["yes", "no"], rows),
        }
    )
    frame["income"] = np.where(frame["hours a week"] + 10 * (frame["work"] == "own") > 43, "high", "low")
    frame.loc[::7, "age"] = np.nan
    frame.loc[3::11, "work"] = None
    frame.loc[[1, 50], "work"] = ["rare", "rarer"]
    return frame


def table(monkeypatch, loss="logistic", pair=True, words=3, **options):
    """(model, rows) of the table; pair: whether it has the column of yes and no."""
    monkeypatch.setattr(learn, "MOST_WORDS", words)
    frame = people() if pair else people().drop(columns="paid")
    options = {"missing": "indicator", **options}
    return sm.train(frame, y="income", tol=0.1, loss=loss, **options).model, frame.drop(columns="income")


def written(model, form, folder):
    path = str(folder / f"out.{form}")
    export(model, form, path, force=True)
    return path


# JSON: by the scorer of the page


def scorer():
    """The JavaScript of the page."""
    page = (Path(__file__).parents[2] / "docs" / "production.md").read_text()
    [code] = re.findall(r"^```js\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(code.splitlines()) <= 12
    return code


@pytest.fixture
def scored(tmp_path):
    """The scores of JSON rows by node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")

    def run(path, rows):
        (tmp_path / "rows.json").write_text(json.dumps(rows))
        program = scorer() + (
            'const read = name => JSON.parse(require("fs").readFileSync(name));\n'
            "const model = read(process.argv[2]);\n"
            'console.log(JSON.stringify(read("rows.json").map(row => score(model, row))));\n'
        )
        (tmp_path / "score.js").write_text(program)
        ran = subprocess.run([node, "score.js", path], cwd=tmp_path, capture_output=True, text=True, timeout=900)
        if ran.returncode:
            raise ValueError(ran.stderr)
        return np.array(json.loads(ran.stdout))

    return run


@pytest.mark.parametrize("name", ROWS)
def test_json_of_rows_of_numbers(name, scored, tmp_path):
    y, options = ROWS[name]
    model = sm.train((X, y), tol=0.1, **options).model
    path = written(model, "json", tmp_path)
    found, expected = scored(path, X.astype(float).tolist()), model.decision_function(X)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=0.0, atol=1e-12 * np.abs(expected).max())
    stored = json.loads(Path(path).read_text())
    assert stored["format"] == "streammargin-json" and stored["version"] == 1
    assert stored["classes"] == model.classes_.tolist() and stored["outputs"] == model.outputs
    if stored["link"] is None:
        assert not hasattr(model.to_sklearn(), "predict_proba")
        return
    each = np.exp(found) if stored["link"] == "softmax" else 1.0 / (1.0 + np.exp(-found))
    if model.outputs is None and len(model.classes_) == 2:
        each = np.hstack([1.0 - each, each])
    if model.outputs is None:
        each /= each.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(each, model.predict_proba(X), rtol=0.0, atol=1e-12)


def plain(rows):
    """The rows of a frame as JSON has them."""
    return json.loads(rows.to_json(orient="records", double_precision=15))


@pytest.mark.parametrize("words", [3, 1000])
def test_json_of_a_table(words, scored, tmp_path, monkeypatch):
    model, rows = table(monkeypatch, words=words)
    path = written(model, "json", tmp_path)
    asked = plain(rows)
    found = scored(path, asked)[:, 0]
    np.testing.assert_allclose(found, model.decision_function(rows), rtol=0.0, atol=1e-5)  # rows are float32
    other = [{**asked[0], "work": "unheard"}]
    if words == 3:
        np.testing.assert_allclose(scored(path, other)[0], model.decision_function(rows[:1].assign(work="unheard")),
                                   rtol=0.0, atol=1e-5)  # fmt: skip
    for bad, said in ((other, "work: unheard"), ([{**asked[0], "hours a week": "12%"}], "hours a week: 12%"),
                      ([{**asked[0], "work": "constructor"}], "work: constructor")):  # fmt: skip
        if words == 1000 or "work" not in said:
            with pytest.raises(ValueError, match=said):
                scored(path, bad)


def test_json_knows_no_gap_where_the_training_had_none(scored, tmp_path, monkeypatch):
    frame = people().dropna()
    model = sm.train(frame, y="income", tol=0.1).model
    path, rows = written(model, "json", tmp_path), plain(frame.drop(columns="income"))[:2]
    assert scored(path, rows).shape == (2, 1)
    for name in ("age", "work"):
        with pytest.raises(ValueError, match=f"{name}: null"):
            scored(path, [rows[0], {**rows[1], name: None}])


def test_json_finds_numbers_and_truth_among_categories(scored, tmp_path):
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"size": random.choice([1e-07, 0.5, 9, 10, 100, 1e17], 90), "flag": random.random(90) < 0.5})
    frame["y"] = np.where(frame["flag"] ^ (frame["size"] < 10), "a", "b")
    model = sm.train(frame, y="y", categorical=["size", "flag"], tol=0.1).model
    path, rows = written(model, "json", tmp_path), frame.drop(columns="y")
    asked = rows.to_dict(orient="records")
    assert asked[0]["flag"] in (True, False)
    np.testing.assert_allclose(scored(path, asked)[:, 0], model.decision_function(rows), rtol=0.0, atol=1e-6)
    for bad, said in (({"size": 11}, "size: 11"), ({"flag": "true"}, "flag: true"), ({"flag": 2}, "flag: 2")):
        with pytest.raises(ValueError, match=said):
            scored(path, [{**asked[0], **bad}])


def test_words_of_a_pair_are_taken_as_the_reader_takes_them(scored, tmp_path):
    frame = pd.DataFrame({"paid": ["Yes", "NO", "yes", "no "] * 10, "x": np.arange(40.0) % 7, "y": ["a", "b"] * 20})
    model = sm.train(frame, y="y", missing="mean", tol=0.1).model
    path, words = written(model, "json", tmp_path), ["yes", "YES", " Yes", "no", "No\t", True, 0, None]
    for word in words:
        row = pd.DataFrame({"paid": [word], "x": [1.0]})
        found = scored(path, [{"paid": word, "x": 1.0}])[0]
        np.testing.assert_allclose(found, model.decision_function(row), rtol=0.0, atol=1e-6)
    for bad in ("maybe", "constructor", "1"):
        with pytest.raises(ValueError, match=f"paid: {bad}"):
            scored(path, [{"paid": bad, "x": 1.0}])


def test_blanks_around_words_do_not_count_in_any_form(scored, tmp_path):
    frame = pd.DataFrame({"plan": [" basic", "basic\t", "pro", None] * 15, "x": np.arange(60.0) % 7,
                          "y": ["no ", "no", "yes", " yes"] * 15})  # fmt: skip
    frame.to_csv(tmp_path / "t.csv", index=False)
    quoted = frame.assign(y=frame["y"].str.strip())  # a label keeps blanks that are in quotes
    quoted.to_csv(tmp_path / "quoted.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
    options = {"y": "y", "missing": "indicator", "tol": 0.1}
    models = [sm.train(data, **options).model for data in (frame, *map(str, tmp_path.glob("*.csv")))]
    for model in models:
        assert model.classes_.tolist() == ["no", "yes"] and model.schema.columns == models[0].schema.columns
        assert np.array_equal(model.coef_, models[0].coef_)
        assert model.evaluate(frame)["accuracy"] == model.evaluate(str(tmp_path / "t.csv"))["accuracy"]
    rows, expected = frame.drop(columns="y"), models[0].decision_function(frame)
    models[0].save(tmp_path / "m.npz")
    found = scored(written(models[0], "json", tmp_path), plain(rows))[:, 0]
    for other in (found, NumpyModel(tmp_path / "m.npz").decision_function(rows),
                  models[0].to_sklearn().decision_function(rows)):  # fmt: skip
        np.testing.assert_allclose(other, expected, rtol=0.0, atol=1e-5)


def test_json_does_not_guess_between_two_spellings_of_a_number(scored, tmp_path):
    frame = pd.DataFrame({"code": ["07", "7.0", "", "8"] * 10, "y": ["a", "b", "a", "b"] * 10})
    path = written(sm.train(frame, y="y", categorical="code", tol=0.1).model, "json", tmp_path)
    assert scored(path, [{"code": "07"}, {"code": 8}, {"code": ""}]).shape == (3, 1)
    for bad in (7, 0, False):
        with pytest.raises(ValueError, match=f"code: {str(bad).lower()}"):
            scored(path, [{"code": bad}])


def test_json_of_dates_and_of_numbers_with_a_unit(scored, tmp_path):
    days = pd.Series(pd.date_range("2023-11-05 03:00", periods=90, freq="31h"))
    frame = pd.DataFrame({"when": days.astype(str), "spent": [f"${k * 37.5:,.2f}" for k in range(90)], "y": TWO})
    frame.loc[4::9, "when"] = None
    for missing in ("mean", "indicator"):
        model = sm.train(frame, y="y", dates=True, missing=missing, scale="std", tol=0.1).model
        path, gap = written(model, "json", tmp_path), frame["when"].isna()
        parts = pd.DataFrame(
            {
                "when: years since 2023": days.dt.year - 2023,
                "when: days since 2023-11-05": (days - pd.Timestamp("2023-11-05")).dt.days,
                "when: month": days.dt.month,
                "when: day of the week": days.dt.day_name(),
                "when: hour": days.dt.hour,
            }
        ).astype(object)
        parts[gap] = None
        parts["spent"] = [k * 37.5 for k in range(90)]
        found = scored(path, parts.to_dict(orient="records"))[:, 0]
        np.testing.assert_allclose(found, model.decision_function(frame), rtol=0.0, atol=1e-4)


# ONNX: by onnxruntime


@pytest.fixture
def session():
    """What a file computes, by the names of its outputs."""
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")

    def run(path, given):
        opened = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [one.name for one in opened.get_outputs()]
        return dict(zip(names, opened.run(None, given), strict=True))

    return run


def agrees(found, model, rows):
    """Labels are equal; probabilities, scores or numbers to float32."""
    if model.numeric:
        [made] = found.values()
        expected = model.predict(rows)
        np.testing.assert_allclose(made.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)
        return
    labels, second = found.values()
    assert np.array_equal(labels.reshape(model.predict(rows).shape), model.predict(rows))
    if model.header["loss"] == "logistic":
        np.testing.assert_allclose(second, model.predict_proba(rows), rtol=0.0, atol=1e-5)
    else:
        scores = model.decision_function(rows)
        second = second[:, 1] if scores.ndim == 1 and second.ndim == 2 and second.shape[1] == 2 else second
        np.testing.assert_allclose(second.reshape(scores.shape), scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in ROWS if name != "several hinges"])
def test_onnx_of_rows_of_numbers(name, session, tmp_path):
    y, options = ROWS[name]
    model = sm.train((X, y), tol=0.1, **options).model
    agrees(session(written(model, "onnx", tmp_path), {"X": X}), model, X)


@pytest.mark.parametrize("words", [3, 1000])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_onnx_of_a_table(loss, words, session, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "streammargin")
    model, rows = table(monkeypatch, loss, pair=False, words=words)
    given = {name: rows[name].to_numpy()[:, None] for name in rows}
    given["work"] = np.where(rows["work"].isna(), "", rows["work"]).astype(object)[:, None]
    for name in ("age", "hours a week", "member"):
        given[name] = given[name].astype(np.float32)
    given["grade"] = rows["grade"].to_numpy().astype(np.int64)[:, None]
    given["hours_a_week"] = given.pop("hours a week")
    agrees(session(written(model, "onnx", tmp_path), given), model, rows)
    assert caplog.messages[-1].startswith("strip blanks around the text of work before it is scored")


def test_onnx_refuses_what_float32_would_spoil(tmp_path, monkeypatch):
    far = X.astype(np.float64) + [0.0, 1e6, 0.0, 0.0]
    model = sm.train((far, TWO), scale="std", tol=0.1).model
    with pytest.raises(sm.UsageError, match=r"the mean of column 1 is 9.29e\+05 standard deviations from 0"):
        written(model, "onnx", tmp_path)
    numbers = pd.DataFrame({"id": np.arange(90) * 2**20 + 1, "y": TWO})
    with pytest.raises(sm.UsageError, match="whole numbers above 2\\^24"):
        written(sm.train(numbers, y="y", scale="std", tol=0.1).model, "onnx", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_onnx_names_the_command_that_installs_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(sm.UsageError, match=r"skl2onnx; install it with: pip install 'streammargin\[onnx\]'"):
        written(sm.train((X, TWO), tol=0.1).model, "onnx", tmp_path)


# CellTypist


@pytest.mark.parametrize("scale", ["none", "std", "std:clip=10"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("labels", [TWO, THREE], ids=["two types", "three types"])
def test_celltypist_reads_its_model(tmp_path, labels, form, scale):
    celltypist, ad = pytest.importorskip("celltypist"), pytest.importorskip("anndata")
    counts = np.tile(np.exp(X).round(2), (2, 1))
    counts[:, 3] = 50.0 * (np.arange(180) == 7)  # 13 standard deviations, which are cut
    kinds = pd.DataFrame({"kind": np.tile(labels, 2)}, index=[f"c{k}" for k in range(180)])
    cells = ad.AnnData(form(counts), kinds)
    ways = {"transform": "total:10000,log1p", "scale": scale, "C": 10.0, "loss": "logistic"}
    trained = sm.train(cells, y="obs/kind", **ways).model
    export(trained, "celltypist", str(tmp_path / "kinds.pkl"))
    model = celltypist.models.Model.load(str(tmp_path / "kinds.pkl"))
    assert list(model.features) == list(cells.var_names) and "types and 4 features" in repr(model)
    scores, expected = trained.decision_function(cells), list(trained.predict(cells))
    cells.X = np.log1p(10_000.0 * counts / counts.sum(axis=1, keepdims=True))
    found = celltypist.annotate(cells, model)
    assert list(found.predicted_labels["predicted_labels"]) == expected
    its = found.decision_matrix.to_numpy()
    np.testing.assert_allclose(its if len(trained.classes_) > 2 else its[:, 1], scores, rtol=1e-5, atol=1e-5)


# what has no such form


def test_what_has_no_form_says_so_and_leaves_no_file(tmp_path):
    texts = pd.DataFrame({"said": ["a good one", "so bad"] * 20, "y": [1, 0] * 20})
    for trained, form, words in (
        (lambda: sm.train((X, TWO), kernel="rbf:0.2", tol=0.1), "json", "rbf:0.2,weight=1 cannot be exported as JSON"),
        (lambda: sm.train((X, TWO), tasks=np.arange(90) % 2, tol=0.1), "json", "2 tasks cannot be exported as JSON"),
        (lambda: sm.train((X, (X > 0.0).astype(int)), tol=0.1), "onnx", "several labels without probabilities"),
        (
            lambda: sm.train((X, TWO), map="rff:9,gamma=1", tol=0.1),
            "onnx",
            "map rff:9,gamma=1 cannot be exported as ONNX",
        ),
        (lambda: sm.train((X, TWO), map="rff:9,gamma=1", tol=0.1), "csv", "it is not linear"),
        (lambda: sm.train(texts, y="y", text="said", tol=0.1), "json", "said is free text, .*, or use to_sklearn"),
        (lambda: sm.train((X, TWO), tol=0.1), "liblinear", "integers, and .* is none; export it as JSON"),
        (lambda: sm.train((X, TWO), tol=0.1), "celltypist", "cells with the steps total:10000,log1p"),
        (lambda: sm.train((X**2, TWO), transform="total:10000,log1p", tol=0.1), "celltypist", "names of genes"),
        (lambda: sm.train((X, TWO == "yes"), loss="smooth_hinge", tol=0.1), "liblinear", "has no loss smooth_hinge"),
    ):
        with pytest.raises(sm.UsageError, match=words):
            written(trained().model, form, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_the_page_says_what_each_form_takes(tmp_path):
    y, quick = np.where(X[:, 0] > 0.0, "yes", "no"), {"tol": 0.1}
    frame = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=90), "said": ["so bad", "good", "bad"] * 30,
                          "part": [f"{k}%" for k in range(90)], "y": y})  # fmt: skip
    folds = {**quick, "loss": "hinge", "C": 1.0, "cv": 3}
    trained = {
        "--dates": lambda: sm.train(frame[["when", "y"]], y="y", dates=True, **quick),
        "--text": lambda: sm.train(frame[["said", "y"]], y="y", text="said", **quick),
        "numbers such as 12.3%": lambda: sm.train(frame[["part", "y"]], y="y", **quick),
        "--transform": lambda: sm.train((X**2, y), transform="log1p", **quick),
        "--map rff": lambda: sm.train((X, y), map="rff:9", **quick),
        "--map nystroem": lambda: sm.train((X, y), map="nystroem:9,kernel=rbf:1", **quick),
        "--kernel": lambda: sm.train((X, y), kernel="rbf:1", **quick),
        "--tasks": lambda: sm.train((X, y), tasks=np.arange(90) % 2, **quick),
        "--calibrate sigmoid": lambda: sm.train((X, y), calibrate="sigmoid", **folds),
        "--calibrate isotonic": lambda: sm.train((X, y), calibrate="isotonic", **folds),
    }
    page = (Path(__file__).parents[2] / "docs" / "production.md").read_text().replace("`", "")
    lines = [re.split(r" *\| *", line.strip("| ")) for line in page.splitlines() if line.startswith("| ")]
    (_, *forms), *rows = lines
    assert [name for name, *_ in rows] == list(trained)
    for name, *told in rows:
        model, found = trained[name]().model, []
        model.save(tmp_path / "m.npz", force=True)
        for form in forms:
            try:
                if form == "NumPy":
                    NumpyModel(tmp_path / "m.npz")
                elif form == "scikit-learn":
                    model.to_sklearn()
                else:
                    written(model, form.lower(), tmp_path)
                found.append("yes")
            except ValueError as error:  # what cannot go is said before what is not installed
                found.append("yes" if NEEDED in str(error) else "no")
        assert found == told, name


def test_the_command_writes_each_form_once(blobs_file, tmp_path, here):
    assert here("train", blobs_file, "-q", "-o", "m.npz", cwd=tmp_path).returncode == 0
    for form in ("json", "liblinear", "csv"):
        done = here("export", "m.npz", "--to", form, "-o", f"m.{form}", cwd=tmp_path)
        assert done.returncode == 0 and done.stderr == f"model written to m.{form}, as {form}\n"
        again = here("export", "m.npz", "--to", form, "-o", f"m.{form}", cwd=tmp_path)
        assert again.returncode == 73 and "--force" in again.stderr
        assert here("export", "m.npz", "--to", form, "-o", f"m.{form}", "--force", cwd=tmp_path).returncode == 0
    model = sm.load_model(tmp_path / "m.npz")
    with open(tmp_path / "m.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["weight"]) for line in lines] == [*model.intercept_, *model.coef_[0]]
    same = here("export", "m.npz", "--to", "json", "-o", "m.npz", "--force", cwd=tmp_path)
    assert same.returncode == 2 and "is an input as well" in same.stderr
    assert here("export", "m.npz", "--to", "pmml", "-o", "m.pmml", cwd=tmp_path).returncode == 2
    assert {*MADE, "csv"} == set(FORMS)
