"""What notebooks show of a result and a model, and the charts by matplotlib."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import streammargin as sm
from streammargin.cli.main import main
from streammargin.json_values import to_plain

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture(scope="module")
def results():
    """Of two classes, C chosen among three; and of three classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 8)) * np.arange(1, 9)
    y = (X[:, 1] + rng.normal(size=150) > 0.0).astype(int)
    options = {"loss": "logistic", "multiclass": "ovr", "solver": "newton"}
    two = sm.train(X[:100], y[:100], C=[0.01, 0.1, 1.0], valid=(X[100:], y[100:]), **options)
    return two, sm.train(X, np.digitize(X[:, 2], [-1.0, 1.0]), **options), X[:100]


def test_notebooks_show_the_proof_and_the_columns_that_matter(results):
    for result, column in zip(results[:2], (1, 2), strict=True):
        shown, alone = result._repr_html_(), result.model._repr_html_()
        for text in (shown, alone):
            assert "Proven: within" in text and "<script" not in text and len(text) < 12_000
            assert text.count("<style>") == 1 and "body{" not in text  # nothing of the notebook changes
        assert "<svg" in shown and f"<title>column {column}</title>" in alone
    ratings = sm.complete(([0, 0, 1], [0, 1, 1], [1.0, 2.0, 3.0]), C=1.0)
    assert "verdict" in ratings.model._repr_html_() and "verdict" in ratings._repr_html_()


def test_without_matplotlib_a_sentence_says_how_to_install_it(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(sm.UsageError, match="plots need matplotlib; install it with: pip install matplotlib"):
        results[0].plot("gap")
    with pytest.raises(sm.UsageError, match="gap, C or weights, not 'gaps'"):
        results[0].plot("gaps")


@pytest.fixture
def pyplot(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    yield pyplot
    pyplot.close("all")


def test_plots_draw_the_figures_of_the_run(results, pyplot):
    two, three, X = results
    axes = two.plot("C")
    held_out, training = (line.get_xydata() for line in axes.lines[:2])
    trials = two.run_end["trials"]
    np.testing.assert_array_equal(held_out, [(one["C"], one["valid_error"]) for one in trials])
    np.testing.assert_array_equal(training, [(one["C"], one["train_error"]) for one in trials])
    axes = two.plot("weights")
    effects = two.model.coef_[0] * X.std(axis=0)
    order = np.argsort(-np.abs(effects))
    np.testing.assert_allclose([bar.get_width() for bar in axes.patches], effects[order], rtol=1e-6)
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"column {k}" for k in order]
    mine = pyplot.subplots()[1]
    assert three.plot("gap", ax=mine) is mine
    certified = [(one["pass"], one["gap"]) for one in three.history if one["event"] == "certificate"]
    np.testing.assert_array_equal(mine.lines[1].get_xydata(), certified)
    with pytest.raises(sm.UsageError, match="give several in C, with cv or valid"):
        three.plot("C")
    assert len(three.plot("weights").patches) == 8


def test_a_result_writes_the_page_of_the_command(results, tmp_path, monkeypatch):
    """Of files it is the command's own page, but for the place of the model; of arrays it promises no command."""
    monkeypatch.chdir(tmp_path)
    two, _, X = results
    y = np.where(X[:, 1] > 0.0, 1, 0)
    sm.write_hdf5([(X, y)], "train.h5")
    sm.write_hdf5([(X[:50], 1 - y[:50])], "test.h5")
    trained = sm.train("train.h5", loss="logistic", C=1.0)
    trained.model.save("m.npz")
    trained.report("python.html", "test.h5")
    with open("m.log", "w") as log:
        log.writelines(json.dumps(to_plain(event)) + "\n" for event in trained.history)
    assert main(["report", "m.npz", "m.log", "--test", "test.h5", "-o", "shell.html"]) == 0
    mine, theirs = (re.sub(r"<p class=.sub.>.*?</p>", "", Path(f"{by}.html").read_text()) for by in ("python", "shell"))
    assert mine == theirs.replace(" -o m.again.npz", "").replace("verify m.npz", "verify MODEL")
    with pytest.raises(sm.OutputError, match=r"python\.html exists; use force=True"):
        trained.report("python.html")
    with pytest.raises(sm.UsageError, match=r"the report test\.h5 is an input as well"):
        trained.report("test.h5", "test.h5", force=True)
    two.report("python.html", (X, 1 - y), force=True)
    text = Path("python.html").read_text()
    wrong = two.model.evaluate((X, 1 - y))["mistakes"]
    assert f"Of 100 rows of the data given, {wrong} are wrong" in text and "streammargin verify" not in text
    assert "The same call of streammargin.train, on the same rows" in text
