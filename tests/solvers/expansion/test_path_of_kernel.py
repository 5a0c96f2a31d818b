"""A path over C of kernel machines: each value goes on from the one before, and is certified by itself."""

import numpy as np
import pytest
from conftest import write_h5
from reference.sources import CountingSource
from reference.stopped import bits, stop_after

import streammargin as sm
from streammargin.verification.verify import verify

RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((150, 3))
SCORES = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * RANDOM.standard_normal(150)
TWO, THREE = np.where(SCORES > 0.0, 1, -1), np.digitize(SCORES, [-0.5, 0.5])
PATH = "path:4,low=0.05,high=20"


def parts(y):
    """Rows to train on, and held-out ones."""
    return (X[50:], y[50:]), (X[:50], y[:50])


def read_in(rows, *bounds):
    """Rows that are read block by block, if there are bounds; else in memory."""
    return CountingSource(*rows, np.array([0, *bounds, len(rows[1])])) if bounds else rows


def resumes(data, folder, stops, **options):
    """Check that a training that is stopped there goes on in the same bits; returns it."""
    straight = sm.train(data(), **options)
    for stop in stops:
        own = {**options, "checkpoint": str(folder / f"{stop}")}
        assert sm.train(data(), **own, should_stop=stop_after(stop)).reason == "signal"
        assert bits(sm.train(data(), **own)) == bits(straight), stop
    return straight


@pytest.mark.parametrize("y, options", [
    (TWO, {}), (THREE, {"loss": "squared_hinge", "class_weight": "balanced"}),
    (SCORES, {"loss": "epsilon_insensitive:0.1", "kernel": "poly:2,coef0=1", "scale": "std"}),
    (TWO, {"solver": "pdprox", "bias": 0.0, "loss": "smooth_hinge", "tol": 1e-2, "high": 1.0}),
])  # fmt: skip
def test_every_value_of_a_path_is_solved_as_if_it_stood_alone(y, options):
    rows, held_out = parts(y)
    options = {"kernel": "rbf:0.5", "tol": 1e-4, **options}
    high = options.pop("high", 20.0)
    result = sm.train(rows, C=f"path:4,low=0.05,high={high}", valid=held_out, **options)
    table = result.run_end["trials"]
    assert result.converged and [one["C"] for one in table] == pytest.approx(np.geomspace(0.05, high, 4))
    for one in table:
        alone = sm.train(rows, C=one["C"], valid=held_out, **options)
        assert one["gap"] <= options["tol"]
        assert one["primal"] >= alone.certificate.dual and alone.certificate.primal >= one["primal"] * (
            1.0 - one["gap"]
        )
    errors = [one["valid_error"] for one in table]
    best = table[int(np.argmin(errors))]
    assert result.model.header["C"] == result.run_end["C"] == best["C"] and best is not table[0]
    assert result.certificate.valid_error == min(errors) and result.certificate.primal == best["primal"]
    assert np.count_nonzero(result.model.answer.coef) == best["nonzeros"]


def test_a_path_multiplies_less_than_trainings_of_their_own():
    rows, held_out = parts(TWO)
    result = sm.train(rows, C=PATH, valid=held_out, kernel="rbf:0.5")
    alone = [sm.train(rows, C=one["C"], kernel="rbf:0.5") for one in result.run_end["trials"]]
    work = [[event["multiplications"] for event in one.history if event["event"] == "certificate"] for one in alone]
    path = [event["multiplications"] for event in result.history if event["event"] == "certificate"]
    assert path[-1] < 0.8 * sum(one[-1] for one in work)


@pytest.mark.parametrize("bounds, stops", [((), (3, 9, 14)), ((40, 70), (6, 23, 40))])
def test_a_path_that_is_stopped_goes_on_in_the_same_bits_and_is_verified(bounds, stops, tmp_path):
    rows, held_out = parts(TWO)
    options = {"C": PATH, "valid": held_out, "kernel": "rbf:0.5", "tol": 1e-3}
    result = resumes(lambda: read_in(rows, *bounds), tmp_path, stops, **options)
    assert result.converged and len(result.run_end["trials"]) == 4
    result.model.save(str(tmp_path / "m.npz"))
    assert not [one for one in verify(tmp_path / "m.npz", write_h5(tmp_path / "a.h5", *rows)) if one.agrees is False]


def test_columns_of_a_path_are_float64_from_the_value_on_that_needs_it(monkeypatch, tmp_path):
    """A resumed training has columns of the same type."""
    from streammargin.solvers.expansion import smo

    monkeypatch.setattr(smo, "WIDE_COLUMN_ROWS", 10)
    rows, held_out = parts(TWO)
    rows, options = (rows[0].astype(np.float32), rows[1]), {"valid": held_out, "kernel": "rbf:0.5", "tol": 1e-4}
    result = resumes(lambda: read_in(rows), tmp_path, (3, 9, 14), C="path:4,low=0.05,high=2000", **options)
    assert result.converged


def test_a_path_needs_its_ends():
    rows, held_out = parts(TWO)
    with pytest.raises(sm.UsageError, match=r"w = 0 is optimal at no C > 0.*low="):
        sm.train(rows, C="path:4", valid=held_out, kernel="rbf:0.5")
