"""Completed matrices against an interior-point method, and definitions in NumPy."""

import logging
import math

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import slow
from reference import matrices

import streammargin as sm
from streammargin.errors import UsageError
from streammargin.solvers.completion import completion as successions
from streammargin.solvers.completion.spectral import spectrum

LOSSES = ("absolute_error", "squared_error", matrices.HINGE)


def matrix_of(model, i, j):
    rows, columns = ([names.index(str(one)) for one in of] for names, of in
                     ((model.row_names_, range(max(i) + 1)), (model.column_names_, range(max(j) + 1))))  # fmt: skip
    return (model.left_ @ model.right_.T)[np.ix_(rows, columns)]


@pytest.mark.parametrize("loss", [*LOSSES[:2], slow(LOSSES[2])])
def test_the_optimum_is_that_of_an_interior_point_method(loss):
    i, j, values = matrices.ratings()
    best = matrices.optimum((25, 35), i, j, values, loss, 0.3)
    for solver in ("factors", "splitting", "auto"):
        result = sm.complete((i, j, values), loss=loss, C=0.3, tol=1e-6, solver=solver, passes=4000)
        found, size = result.certificate, abs(best)
        assert result.converged and found.gap <= 1e-6
        assert found.primal == pytest.approx(
            matrices.primal(matrix_of(result.model, i, j), i, j, values, loss, 0.3), rel=1e-9
        )
        assert best - 1e-7 * size <= found.primal <= best + 1e-6 * size
        assert best - 1e-6 * size <= found.dual <= best + 1e-7 * size


@pytest.mark.parametrize("m, n", [(6, 11), (11, 6), (400, 420)])
def test_the_bound_of_the_largest_singular_value_is_one(m, n):
    random = np.random.default_rng(m)
    T = random.standard_normal((m, 3)) @ random.standard_normal((3, n)) + 0.1 * random.standard_normal((m, n))
    values = np.linalg.svd(T, compute_uv=False)
    gram = np.tril(T @ T.T)
    found = spectrum(gram, 4)
    assert values[0] <= found.upper <= values[0] * (1.0 + 1e-8)
    assert np.allclose(found.values, values[:4], rtol=1e-6)
    left = np.linalg.svd(T)[0][:, :2]
    assert np.allclose(np.abs(np.sum(left * found.vectors[:, :2], axis=0)), 1.0, atol=1e-5)
    assert spectrum(np.zeros((m, m)), 2).upper == 0.0


def test_the_matrix_is_zero_where_the_duals_of_zero_are_small():
    i, j, values = matrices.ratings()
    T = np.zeros((25, 35))
    T[i, j] = 1.0
    C = 1.0 / np.linalg.norm(T, 2)
    for solver in ("factors", "splitting"):
        result = sm.complete((i, j, values), C=0.999 * C, solver=solver, tol=1e-9)
        assert result.converged and result.model.rank == 0 and result.passes == 1
        assert np.array_equal(result.model.predict((i[:3], j[:3])), np.zeros(3))
        assert sm.complete((i, j, values), C=1.01 * C, solver=solver).model.rank >= 1


def test_levels_are_predicted_and_counted():
    i, j, values = matrices.ratings()
    model = sm.complete((i, j, values), loss=matrices.HINGE, C=3.0).model
    X = model.decision_function((i, j))
    levels = 1.0 + np.sum(X[:, None] > np.array(matrices.AT), axis=1)
    assert np.array_equal(model.predict((i, j)), levels)
    figures = model.evaluate((i, j, values))
    assert figures["accuracy"] == pytest.approx(np.mean(levels == values))
    assert figures["rmse"] == pytest.approx(math.sqrt(np.mean((levels - values) ** 2)))
    assert figures["loss"] == pytest.approx(
        np.mean([matrices.loss_at(matrices.HINGE, x, value) for x, value in zip(X, values, strict=True)])
    )
    two = np.where(values > 3, 7.0, -2.0)  # two ratings need no levels
    model = sm.complete((i, j, two), loss="hinge", C=3.0).model
    assert model.header["loss"] == "hinge:-2,at=0" and set(model.predict((i, j))) <= {-2.0, 7.0}
    numbers = sm.complete((i, j, values), loss="squared_error", C=3.0).model
    nearest = np.clip(np.round(numbers.predict((i, j))), 1, 5)
    assert numbers.evaluate((i, j, values))["accuracy"] == pytest.approx(np.mean(nearest == values))


def test_the_order_of_ratings_and_which_side_is_longer_change_nothing_much():
    i, j, values = matrices.ratings()
    plain = sm.complete((i, j, values), C=0.3, tol=1e-7, passes=4000)
    turned = sm.complete(sp.coo_array((values, (j, i))), C=0.3, tol=1e-7, passes=4000)
    assert turned.certificate.primal == pytest.approx(plain.certificate.primal, rel=3e-7)
    assert np.allclose(matrix_of(plain.model, i, j), matrix_of(turned.model, j, i).T, atol=1e-2)


def test_a_high_rank_goes_over_to_dense_matrices(caplog, monkeypatch):
    i, j, values = matrices.ratings(count=700)
    went = []
    follow = successions.follow
    monkeypatch.setattr(successions, "follow", lambda *given: went.append(given) or follow(*given))
    result = sm.complete((i, j, values), C=2.0, tol=1e-5, passes=3000)
    assert went and result.converged and result.model.rank > 25 // successions.HIGH
    small = sm.complete((i, j, values), C=2.0, tol=1e-3, memory="13M", passes=3000)
    alone = sm.complete((i, j, values), C=2.0, tol=1e-3, solver="factors", passes=3000)
    assert small.converged and alone.converged
    assert small.certificate.primal == pytest.approx(result.certificate.primal, rel=1e-3)


def test_what_does_not_fit_into_memory_is_refused_with_the_bytes(caplog):
    random = np.random.default_rng(0)
    m = 3000
    i, j = np.concatenate([[np.arange(m)] * 2, random.integers(0, m, (2, 9000))], axis=1)
    cells = np.unique(i * m + j)
    data = (cells // m, cells % m, random.standard_normal(cells.size))
    with pytest.raises(UsageError, match=r"the smallest plan needs \d+M; use memory"):
        sm.complete(data, solver="splitting", memory="300M", passes=1)
    i, j, values = matrices.ratings(60, 80, 2000, rank=20)
    with caplog.at_level(logging.WARNING, "streammargin"):
        from streammargin.solvers.completion import factors

        result = sm.complete((i, j, values), C=1.0, memory="3M", solver="factors", passes=500)
    assert not result.converged or result.model.rank <= factors.LEAST_RANK
    assert len([one for one in caplog.records if getattr(one, "code", "") == "memory"]) <= 1


def test_a_path_ends_at_the_best_held_out_error():
    i, j, values = matrices.ratings(40, 50, 1200)
    held, rest = np.arange(i.size) % 5 == 0, np.arange(i.size) % 5 != 0
    # rows and columns of held-out ratings need one in the training
    known = held & np.isin(i, i[rest]) & np.isin(j, j[rest])
    train, valid = (i[rest], j[rest], values[rest]), (i[known], j[known], values[known])
    result = sm.complete(train, loss="squared_error", C="path:8", valid=valid, tol=1e-4)
    table = result.run_end["trials"]
    assert len(table) == 8 and table[0]["nonzeros"] == 0 and table[-1]["nonzeros"] > 3
    best = min(table, key=lambda one: one["valid_error"])
    assert (
        result.certificate.valid_error
        == best["valid_error"]
        == pytest.approx(result.model.evaluate(valid)["rmse"], rel=1e-9)
    )
    alone = sm.complete(train, loss="squared_error", C=best["C"], tol=1e-4)
    assert alone.certificate.primal == pytest.approx(result.certificate.primal, rel=2e-4)
    T = np.zeros((40, 50))
    T[train[0], train[1]] = train[2]
    assert table[0]["C"] == pytest.approx(1.0 / np.linalg.norm(T, 2), rel=1e-6)


def test_options_of_other_trainings_are_refused():
    data = matrices.ratings()
    for options, why in (
        ({"solver": "newton"}, "cannot complete a matrix"), ({"C": math.inf}, "needs a finite C"),
        ({"C": [1.0, 2.0]}, "valid"), ({"loss": "logistic"}, "unknown loss"), ({"columns": ("a",)}, "two columns"),
        ({"loss": "hinge:levels=3,1"}, "ascend"), ({"loss": "hinge:1,2,at=0"}, "2 levels"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=why):
            sm.complete(data, **options)
    with pytest.raises(UsageError, match="completes matrices"):
        sm.train((np.eye(4), [0, 1, 0, 1]), solver="factors")
