"""Second-order steps in memory begin on a sample of the rows: its rows, and the time it saves."""

import numpy as np
import pytest
from reference.training import binary

import streammargin as sm
from streammargin.solvers.newton import newton, sample


def overlapping(rows, features=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    return X, np.where(X @ rng.standard_normal(features) + 2 * rng.standard_normal(rows) > 0, 1, -1)


def train(X, y, **options):
    return sm.train((X, y), **{"solver": "newton", "tol": 1e-3, "passes": 100, "bias": 0, **options})


@pytest.mark.parametrize("rows, size", [(3000, 187), (900, 112), (150, 150)])
def test_a_sample_has_one_row_of_each_stretch_and_weighs_as_much_as_all(rows, size, monkeypatch):
    seen, draw = [], sample.draw
    monkeypatch.setattr(sample, "draw", lambda *given: (seen.append(draw(*given)), seen[-1])[1])
    X, y = overlapping(rows)
    weights = np.ones(rows)
    weights[::7] = 0.0
    train(X, y, sample_weight=weights)
    [(block, labels)] = seen
    assert block.rows() == size
    taken = np.array([np.flatnonzero((x == X).all(axis=1))[0] for x in block.X])
    assert np.array_equal(taken // (rows // size), np.arange(size))
    assert np.array_equal(labels.codes, y[taken] > 0)
    assert labels.weights @ (weights[taken] > 0) == pytest.approx(weights.sum())


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_it_saves_multiplications(C, monkeypatch):
    X, y = overlapping(4000, 10)
    work = {}
    for enough in (True, False):
        monkeypatch.setattr(sample, "samples", lambda problem, enough=enough: enough)
        result = train(X, y, C=C)
        problem, w = binary(X, y, C=C), result.model.coef_[0]
        assert result.converged and result.certificate["primal"] == pytest.approx(problem.primal(w), rel=1e-10)
        work[enough] = next(event["multiplications"] for event in result.history[::-1] if "multiplications" in event)
    assert work[True] < 0.8 * work[False]


def test_so_few_rows_that_all_are_taken_end_with_the_first_step():
    X, y = overlapping(100, 10)
    result = train(X, y)
    assert result.converged and result.passes <= 4


def test_of_many_columns_a_sample_waits_for_a_pass_that_may_be_enough(monkeypatch):
    called, start_from = [], sample.start_from

    def count(*args):
        done = start_from(*args)
        called.extend([1] if done else [])  # its last unit
        return done

    monkeypatch.setattr(sample, "start_from", count)
    X, y = overlapping(7200, newton.CHEAP_STEP_COLUMNS + 5)
    for C, samples in ((1e-4, 0), (10.0, 1)):
        called.clear()
        result, problem = train(X, y, C=C, tol=1e-2), binary(X, y, C=C)
        assert result.converged and len(called) == samples
        assert result.certificate["primal"] == pytest.approx(problem.primal(result.model.coef_[0]), rel=1e-10)
