"""Where the ranges of columns differ much, the run advises to scale them: once, and if it helps."""

import logging

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import slow, write_h5
from reference.drive import of_codes, problem_of

import streammargin as sm
from streammargin.driver.learn.ranges import MOST_RANGE_ROWS, Ranges
from streammargin.rows.blocks import CSRBlock, DenseBlock
from streammargin.solvers.roles import new


def warned(caplog, *data, **options):
    """The texts of the advice to scale in a training."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "streammargin"):
        sm.train(*data, **{"passes": 3, **options})
    return [record.getMessage() for record in caplog.records if record.code == "scale"]


def rows(factor, n=120):
    """Rows whose column 2 is larger than the others by this factor."""
    random = np.random.default_rng(1)
    X = random.uniform(-1.0, 1.0, (n, 4)) + 0.5
    y = X[:, 0] + random.standard_normal(n) > 0.5
    X[:, 2] *= factor
    return X, y


@pytest.mark.parametrize("solver", ["sdca", "newton", "asdca", "pegasos", "active-set", "gd"])
@pytest.mark.parametrize("form", [np.asarray, slow(np.float32), sp.csr_matrix, "file", "sparse file"])
def test_ranges_that_differ_by_more_than_a_thousand_are_said_once(form, solver, caplog, tmp_path):
    X, y = rows(1e5)
    if isinstance(form, str):
        path = write_h5(tmp_path / "a.h5", sp.csr_matrix(X) if form == "sparse file" else X, y.astype(int))
        found = warned(caplog, path, solver=solver)
    else:
        found = warned(caplog, form(X), y, solver=solver)
    assert len(found) == 1 and "1.5e+05 in column 2" in found[0] and 'try scale="maxabs"' in found[0]


@pytest.mark.parametrize("solver", ["sdca", "newton", "pdprox"])
def test_the_advice_on_rows_in_memory_comes_before_their_first_visit(solver, caplog, tmp_path, monkeypatch):
    path, told, measured, add = write_h5(tmp_path / "a.h5", *rows(1e5)), [], [], Ranges.add
    monkeypatch.setattr(Ranges, "add", staticmethod(lambda *given: measured.append(given) or add(*given)))
    with caplog.at_level(logging.WARNING, "streammargin"):
        sm.train(path, solver=solver, passes=1, listeners=[lambda event: told.append((event["event"], caplog.text))])
    assert "try scale" in next(said for event, said in told if event in ("progress", "compiling"))
    assert [record.code for record in caplog.records].count("scale") == 1 and len(measured) == 1


def test_nothing_is_said_where_it_was_given_or_the_ranges_are_alike(caplog):
    assert not warned(caplog, *rows(1e5), scale="maxabs")
    assert not warned(caplog, *rows(1e5), scale="std")
    for factor in (1.0, 100.0, 1e-2, 0.0):
        assert not warned(caplog, *rows(factor))
    X, y = rows(1.0)
    assert not warned(caplog, 1e-9 * X, y)
    assert not warned(caplog, 0.0 * X, y)


@pytest.mark.parametrize("form", [np.asarray, np.float32])
@pytest.mark.parametrize("options, far, near", [({}, 1e4, 300.0), ({"kernel": "rbf"}, 300.0, 10.0)])
def test_a_column_far_from_0_beside_its_spread_is_said_and_auto_centres_it(form, options, far, near, caplog):
    X, y = rows(1.0)
    X[:, 3] = 0.0
    assert not warned(caplog, form(X + [0.0, near, 0.0, 0.0]), y, **options)
    X = form(X + [0.0, far, 0.0, 0.0])
    (found,) = warned(caplog, X, y, **options)
    assert found.startswith("column 1 is far from 0 for its spread, from ") and 'try scale="std"' in found
    assert not warned(caplog, X, y, scale="auto", **options)
    both = [sm.train(X, y, scale=word, **options).certificate.primal for word in ("auto", "std")]
    assert both[0] == both[1]


def test_columns_beside_hashed_words_are_called_by_name(caplog, tmp_path):
    lines = [f"{('good', 'bad')[k % 2]} word,{1e6 + k},{k % 2}" for k in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["says,chars,label", *lines]))
    (found,) = warned(caplog, str(tmp_path / "a.csv"), y="label", text="says")
    assert "1e+06 in column chars and " in found


def test_a_constant_column_is_not_far_from_0(caplog):
    X, y = rows(1.0)
    X[:, 2] = 500.0
    assert not warned(caplog, X, y, kernel="rbf")


def test_a_class_that_is_never_predicted_as_a_column_is_far_from_0_is_told_to_scale(caplog):
    Z = np.random.default_rng(0).standard_normal((80, 2))
    with caplog.at_level(logging.WARNING, "streammargin"):
        sm.train(np.array([5e5, 5.4e6]) + 8.0 * Z, np.square(Z).sum(axis=1) > 1.3, kernel="rbf", C=10)
    told = {record.code: record.getMessage() for record in caplog.records}
    assert told["never_predicted"].endswith('try scale="std"') and "column 1 is far from 0" in told["scale"]


def test_absent_rows_say_nothing(caplog):
    X, y = rows(1.0)
    X[7, 1] = 1e9
    assert warned(caplog, X, y)
    weight = np.ones(len(y))
    weight[7] = 0.0
    assert not warned(caplog, X, y, sample_weight=weight)


@pytest.mark.parametrize("size", [7, 77, 9000])
def test_of_many_rows_evenly_spread_ones_are_looked_at_whatever_the_blocks(size):
    n = 2 * MOST_RANGE_ROWS + 10
    X = np.ones((n, 3))
    X[3 * 1000, 0], X[3 * 1000 + 1, 1], X[-1, 2] = 1e9, 1e9, 1e4  # of three rows the first is looked at
    X[n - 1 - (n - 1) % 3, 2] = 7.0
    problem = problem_of(X)
    ranges, sparse = (new(Ranges, problem, labels=of_codes(np.zeros(n))) for _ in range(2))
    for first in reversed(range(0, n, size)):
        rows = X[first : first + size]
        ranges.labels = sparse.labels = of_codes(np.zeros(n)).window(first, first + len(rows))
        ranges.add(problem, ranges, DenseBlock(rows, 0.0), first)
        A = sp.csr_matrix(rows)
        block = CSRBlock(A.data, A.indices.astype(np.uint32), A.indptr.astype(np.int64), 3, 0.0)
        sparse.add(problem, sparse, block, first)
    assert ranges.largest.tolist() == sparse.largest.tolist() == [1e9, 1.0, 7.0]


@pytest.mark.parametrize("factor, same", [(1e5, "std"), (100.0, "none")])
def test_auto_scales_where_ranges_differ_by_more_than_a_thousand(factor, same, caplog):
    X, y = rows(factor)
    with caplog.at_level(logging.INFO):
        found = sm.train(X, y, scale="auto")
    told = {
        "std": 'scale="auto" took scale="std", as the ranges of columns differ over a thousandfold',
        "none": 'scale="auto" left the columns as they are: their ranges are alike, and none is far from 0',
    }
    assert caplog.text.count(told[same]) == 1
    np.testing.assert_array_equal(found.model.coef_, sm.train(X, y, scale=same).model.coef_)
    assert not warned(caplog, X, y, scale="auto")
