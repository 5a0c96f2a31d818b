"""One against the rest, mistakes are those of the model that is saved, whichever reads its classes end at."""

from functools import partial

import numpy as np
import pytest
from reference.datasets import as_form
from reference.sources import CountingSource
from reference.stopped import until_done

import streammargin as sm

WAYS = {
    "ascent": {"solver": "ascent"},
    "asdca": {"solver": "asdca"},
    "newton": {"solver": "newton"},
    "pdprox": {"solver": "pdprox"},
    "prox-newton": {"solver": "prox-newton", "penalty": "l1", "loss": "logistic"},
    "hard margin": {"solver": "sdca", "C": np.inf, "bias": 1},
}


def classes(seed=0, rows=900):
    """Five classes, some of them far off: each is done after another number of reads."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 5, rows)
    centres = random.standard_normal((5, 6)) * np.array([[0.3], [0.6], [1.0], [4.0], [8.0]])
    return centres[y] + random.standard_normal((rows, 6)), y


def on_disk(X, y, form="dense"):
    """Rows that come in ten blocks."""
    return CountingSource(as_form(X, form), y, np.linspace(0, len(y), 11).astype(int))


def train(data, way, **options):
    return sm.train(
        data, **{"loss": "hinge", "C": 0.3, "tol": 1e-2, "passes": 60, "multiclass": "ovr", **WAYS[way], **options}
    )


def wrong(model, X, y):
    """By NumPy, from what a model file has."""
    return int(np.count_nonzero(model.classes_[np.argmax(X @ model.coef_.T + model.intercept_, axis=1)] != y))


def check(result, X, y, folder):
    result.model.save(folder / "model.npz", force=True)
    found = wrong(sm.load_model(folder / "model.npz"), X, y)
    last = [event for event in result.history if event["event"] == "certificate"]
    assert found > 0 and result.certificate.mistakes == found
    assert found in [event["mistakes"] for event in last[-len(result.run_end.get("trials") or [0]) :]]
    assert result.model.evaluate((X, y))["mistakes"] == found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("of", [on_disk, lambda X, y, form: (as_form(X, form), y)], ids=["on disk", "in memory"])
def test_they_are_those_of_the_saved_model(of, form, way, tmp_path):
    X, y = classes()
    check(train(of(X, y, form), way), X, y, tmp_path)


def test_classes_end_at_different_reads():
    """Else the other tests would show little."""
    X, y = classes()
    result = train(on_disk(X, y), "prox-newton")
    gaps = [[one["gap"] for one in e["per_class"]] for e in result.history if e["event"] == "certificate"]
    done = [sum(gap <= 1e-2 for gap in each) for each in gaps]
    assert any(0 < each < 5 for each in done[:-1])


@pytest.mark.parametrize("way", ["ascent", "newton", "pdprox"])
def test_several_values_of_c_and_held_out_rows(way, tmp_path):
    X, y = classes()
    held = classes(1, 300)
    check(train((X, y), way, C=[0.03, 0.3, 3.0], valid=held), X, y, tmp_path)
    early = train((X, y), way, C=[0.03, 3.0], valid=held, early_stop=1, tol=1e-6)
    check(early, X, y, tmp_path)
    assert train((X, y), way, valid=held, early_stop=1, tol=1e-6).reason == "early_stop"


@pytest.mark.parametrize("way, blocks", [("ascent", 200), ("newton", 17)])
def test_after_stops_they_are_the_same(way, blocks, tmp_path):
    X, y = classes()
    data, options = on_disk(X, y), {"checkpoint": str(tmp_path / "saved")}
    result, starts = until_done(partial(train, data, way, **options), blocks)
    assert starts > 2
    check(result, X, y, tmp_path)
    check(train(data, way, tol=1e-4, **options), X, y, tmp_path)  # classes that were done go on
