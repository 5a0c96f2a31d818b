"""What notebooks show of a result and a model, and the charts by matplotlib."""

import sys

import numpy as np
import pytest

import streammargin as sm

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
