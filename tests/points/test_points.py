"""The driver never looks into the answer of a training: another kind of point works too."""

import ast
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from reference.datasets import noisy
from reference.stopped import stop_after, until_done

import streammargin as sm
from streammargin.points.linear import LinearPoint
from streammargin.points.table import KINDS
from streammargin.saved import fields
from streammargin.solvers.registry import make_solver

ROOT = Path(sm.__file__).parent
X, Y = noisy(120)
X = X * np.arange(1, X.shape[1] + 1)
VALID = (X[:30], Y[:30])


class Closed:
    """A linear point that shows nothing of itself but what a point must have; its scores are twice as large."""

    def __init__(self, inner):
        self.__inner = inner

    @classmethod
    def restored(cls, arrays):
        return cls(LinearPoint(0.5 * arrays["doubled"][:, :-1], 1.0))

    @property
    def outputs(self):
        return self.__inner.outputs

    @property
    def features(self):
        return self.__inner.features

    @property
    def zeros(self):
        return self.__inner.zeros

    def score(self, block, first, scores):
        self.__inner.score(block, first, scores)
        scores *= 2.0

    def arrays(self):
        coef, intercept = self.__inner.arrays().values()
        return {"doubled": np.column_stack([2.0 * coef, 2.0 * intercept, intercept])}

    def finite(self):
        return self.__inner.finite()

    def nonzeros(self):
        return self.__inner.nonzeros()

    def copy(self):
        return Closed(self.__inner.copy())

    def chosen(self, outputs):
        return Closed(self.__inner.chosen(outputs))

    def with_constants(self, constants):
        return Closed(self.__inner.with_constants(0.5 * constants))

    def unscaled(self, center, factor, shift):
        return Closed(self.__inner.unscaled(center, factor, 0.5 * shift))


def closed(name):
    """The method of this name, whose stages find closed points."""
    method = make_solver(name)
    stages = {name: replace(stage, solver=with_closed_points(stage.solver)) for name, stage in method.stages().items()}
    method.stages = lambda: stages
    return method


def with_closed_points(solver):
    found = copy(solver)
    found.point = lambda *given, **named: Closed(solver.point(*given, **named))
    return found


@pytest.fixture(autouse=True)
def kind(monkeypatch):
    monkeypatch.setitem(KINDS, "closed", Closed)
    monkeypatch.setitem(fields.KINDS, "closed", {"closed"})
    own = fields.SavedArray("doubled", "closed", fields.FLOAT, "K w")
    monkeypatch.setattr(fields, "ARRAYS", (*fields.ARRAYS, own))


@pytest.mark.parametrize("solver, options", [
    ("sdca", {"valid": VALID, "C": [0.1, 1.0], "scale": "std"}),
    ("sdca", {"valid": VALID, "early_stop": 2, "scale": "std"}),
    ("sdca", {"C": np.inf, "bias": "midway", "passes": 40}), ("sdca", {"y": np.arange(90) % 3, "C": 0.1}),
    ("pdprox", {"valid": VALID, "C": "path:4", "penalty": "l1", "loss": "logistic"}),
])  # fmt: skip
def test_another_kind_of_point_is_trained_validated_and_written(tmp_path, solver, options):
    rows = (X[30:], options.pop("y", Y[30:]))
    given = {"tol": 1e-4, **options}
    known = sm.train(rows, solver=solver, **given)
    result = sm.train(rows, solver=closed(solver), **given)
    assert result.certificate == known.certificate and result.run_end.get("trials") == known.run_end.get("trials")
    scores = known.model.decision_function(X)
    np.testing.assert_array_equal(result.model.decision_function(X), 2.0 * scores)
    result.model.save(tmp_path / "model")
    np.testing.assert_array_equal(sm.load_model(tmp_path / "model").decision_function(X), 2.0 * scores)


def test_a_path_keeps_it_in_its_checkpoint(tmp_path):
    options = {"valid": VALID, "C": "path:4", "penalty": "l1", "loss": "logistic", "tol": 1e-4}
    straight = sm.train((X[30:], Y[30:]), solver=closed("pdprox"), **options)
    kept = [one["valid_error"] for one in straight.run_end["trials"]]
    assert int(np.argmin(kept)) < 3  # that it is of a value before the last

    go_on = partial(sm.train, (X[30:], Y[30:]), solver=closed("pdprox"), checkpoint=str(tmp_path), **options)
    assert go_on(should_stop=stop_after(1)).reason == "signal"
    result, _ = until_done(go_on, 7)
    np.testing.assert_array_equal(result.model.decision_function(X), straight.model.decision_function(X))
    assert result.run_end["zeros"] == straight.run_end["zeros"]


def test_a_path_names_the_zeros_of_its_best_value_and_not_of_its_last():
    labels = np.random.default_rng(0).choice([-1, 1], 90)  # noise: of no use are all columns but the first
    given = {"valid": (X[:30], np.where(Y[:30] > 0, 1, -1)), "C": "path:5,high=100", "penalty": "l1"}
    result = sm.train((X[30:], labels), solver="pdprox", loss="logistic", tol=1e-6, **given)
    best = int(np.argmin([one["valid_error"] for one in result.run_end["trials"]]))
    nonzeros = [one["nonzeros"] for one in result.run_end["trials"]]
    assert best < 4 and nonzeros[best] < nonzeros[4]
    assert len(result.run_end["zeros"]) > X.shape[1] - nonzeros[4]


def test_the_driver_and_what_is_shown_open_no_point():
    for path in [*(ROOT / "driver").rglob("*.py"), ROOT / "result.py", *(ROOT / "estimators").glob("*.py")]:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        assert "streammargin.points.linear" not in {getattr(node, "module", None) for node in nodes}, path
        assert "w" not in {node.attr for node in nodes if isinstance(node, ast.Attribute)}, path
