"""Decimals, as warehouses write whole numbers and amounts: labels, tasks, weights and ratings are read as numbers."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from table_rows import in_form

import streammargin as sm
from streammargin.errors import DataError
from streammargin.tables.types import of_decimals

ROWS = 60
X = np.random.default_rng(0).standard_normal(ROWS)
AMOUNTS = np.round(10.0 + 3.0 * X, 2)
FLAGS = (X > 0).astype(int)
SMALL, WHOLE, LONG = pa.decimal128(10, 2), pa.decimal128(38, 0), pa.decimal256(60, 4)


def decimals(values, kind):
    """These numbers as decimals."""
    return pa.array([Decimal(str(value)) for value in values.tolist()], kind)


FORMS = ["arrow", "pandas", "parquet", "feather", "polars"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [SMALL, LONG])
def test_amounts_are_labels_of_a_regression(tmp_path, form, kind):
    if form == "polars" and kind == LONG:
        pytest.skip("polars has no longer decimals")
    plain = sm.train(pa.table({"x": X, "y": AMOUNTS}), loss="squared_error").model
    table = pa.table({"x": X, "y": decimals(AMOUNTS, kind)})
    data = in_form(table, form, tmp_path, batch=100)  # sums in the order of the plain ones
    model = sm.train(data, loss="squared_error", valid=data).model
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert model.evaluate(data) == plain.evaluate(pa.table({"x": X, "y": AMOUNTS}))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [WHOLE, SMALL])
def test_whole_numbers_are_classes(tmp_path, form, kind, here):
    flags = FLAGS * 10
    data = in_form(pa.table({"x": X, "y": decimals(flags, kind)}), form, tmp_path)
    model = sm.train(data).model
    assert model.classes_.tolist() == [0, 10] and model.classes_.dtype.kind == "i"
    plain = pa.table({"x": X, "y": flags})
    np.testing.assert_array_equal(model.coef_, sm.train(plain).model.coef_)
    for other in (data, plain):
        assert model.evaluate(other)["accuracy"] == 1.0
    model.save(tmp_path / "m.npz")
    table = pa.table({"x": X, "y": decimals(flags, kind)})
    parquet.write_table(table, tmp_path / "t.parquet")
    done = here("predict", "m.npz", "t.parquet", "--id", "y", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "y,label"
    assert [line.split(",")[1] for line in done.stdout.splitlines()[1:]] == list(map(str, flags))


def test_fractions_are_the_nearest_numbers():
    random = np.random.default_rng(1)
    for scale in (1, 2, 4, 7):
        values = [Decimal(int(k)).scaleb(-scale) for k in random.integers(-(10**9), 10**9, 2000)]
        found = of_decimals(pa.array(values, pa.decimal128(20, scale)))
        assert found.to_pylist() == list(map(float, values))
    tens = of_decimals(pa.array([Decimal(120)], pa.decimal128(5, -1)))
    assert tens.type == pa.int64() and tens.to_pylist() == [120]
    large = of_decimals(pa.array([Decimal(10) ** 30, Decimal(1)], WHOLE))
    assert large.type == pa.float64() and large.to_pylist() == [1e30, 1.0]


def test_a_column_of_numbers_and_one_of_decimals_agree(tmp_path):
    """Shards of one data set, of which one was written by a warehouse."""
    halves = [slice(0, 30), slice(30, ROWS)]
    paths = [str(tmp_path / f"{k}.parquet") for k in range(2)]
    parquet.write_table(pa.table({"x": X[halves[0]], "y": FLAGS[halves[0]]}), paths[0])
    parquet.write_table(pa.table({"x": X[halves[1]], "y": decimals(FLAGS[halves[1]], WHOLE)}), paths[1])
    model = sm.train(paths).model
    assert model.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(model.coef_, sm.train(pa.table({"x": X, "y": FLAGS})).model.coef_)


def test_tasks_weights_outputs_and_ratings(tmp_path):
    table = pa.table({"x": X, "y": X, "g": decimals(FLAGS, pa.decimal128(3, 0)), "w": decimals(AMOUNTS, SMALL)})
    plain = pa.table({"x": X, "y": X, "g": FLAGS, "w": AMOUNTS})
    for options in ({"tasks": "g", "drop": "w"}, {"sample_weight": "w", "drop": "g"}):
        found, own = (sm.train(data, loss="squared_error", **options).model for data in (table, plain))
        np.testing.assert_allclose(found.coef_, own.coef_, rtol=1e-12)
        assert found.tasks == own.tasks
    outputs = pa.table({"x": X, "a": decimals(AMOUNTS, SMALL), "b": decimals(FLAGS, WHOLE)})
    own = sm.train(pa.table({"x": X, "a": AMOUNTS, "b": FLAGS}), y=["a", "b"], loss="squared_error").model
    np.testing.assert_array_equal(sm.train(outputs, y=["a", "b"], loss="squared_error").model.coef_, own.coef_)
    users, items = np.repeat(np.arange(6), 5), np.tile(np.arange(5), 6)
    stars = (users + items) % 5 + 1
    ratings = [pa.table({"u": users, "i": items, "stars": each}) for each in (stars, decimals(stars, SMALL))]
    own, found = (sm.complete(data, C=10.0, passes=20).model.predict(ratings[0]) for data in ratings)
    np.testing.assert_array_equal(own, found)


def test_a_missing_decimal_is_a_missing_label(tmp_path):
    labels = pa.array([None, *decimals(FLAGS, WHOLE).to_pylist()[1:]], WHOLE)
    with pytest.raises(DataError, match="row 0: the label is missing"):
        sm.train(pa.table({"x": X, "y": labels}))
