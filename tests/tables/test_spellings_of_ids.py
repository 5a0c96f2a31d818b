"""Whole numbers with and without zeros behind a point are one label, one task, one name: pandas writes both."""

import decimal
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from table_rows import in_form

import streammargin as sm
from streammargin.matching import unpointed
from streammargin.sources.labels import values_of
from streammargin.verification.ratings import verify_ratings

pytestmark = pytest.mark.usefixtures("inside")

RATINGS = pd.DataFrame({"u": [1, 1, 2, 2, 10], "i": [7, 8, 7, 8, 8], "r": [1.0, 2.0, 3.0, 4.0, 5.0]})
MORE = pd.DataFrame({"u": [1, 2, 10, 10], "i": [9, 9, 9, 7], "r": [1.0, 2.0, 3.0, 4.0]})


@pytest.mark.parametrize("text, found", [
    ("1.0", "1"), ("-12.000", "-12"), ("0.0", "0"), ("007.0", "007"), ("1", "1"), ("1.", "1."), (".0", ".0"),
    ("1.5", "1.5"), ("1.00e3", "1.00e3"), ("1.0.0", "1.0.0"), ("a.0", "a.0"), ("--1.0", "--1.0"), ("", ""),
    ("٣.0", "٣.0"), ("1.0 ", "1.0 "), ("+1.0", "+1.0"),
])  # fmt: skip
def test_zeros_behind_the_point_of_a_whole_number_are_left_out(text, found):
    assert unpointed(text) == found


@pytest.mark.parametrize("texts, values", [
    (["1", "1.0", "2"], [1, 1, 2]),
    (["1.0", "2.00", "2.0"], [1, 2, 2]),
    (["0.5", "1", "1.0"], [0.5, 1.0, 1.0]),
    (["7", "007"], ["7", "007"]),
    (["7", "007.0"], ["7", "007.0"]),
    (["7", "7e0"], ["7", "7e0"]),
    (["0.5", ".5"], ["0.5", ".5"]),
    (["1.0", "1", "a"], ["1.0", "1", "a"]),
])  # fmt: skip
def test_labels_of_text_are_numbers_unless_one_is_spelt_in_two_other_ways(texts, values):
    found = values_of(texts)
    assert found.tolist() == values and (found.dtype.kind == "O") == isinstance(values[0], str)


def written(frame, kind, name, how):
    """The path of a file, or the table itself, with the ids spelt in this way."""
    spelt = {
        "whole": lambda ids: ids,
        "point": lambda ids: ids.astype(float),
        "float32": lambda ids: ids.astype(np.float32),
        "decimal": lambda ids: ids.map(lambda one: decimal.Decimal(f"{one}.00")),
        "text": lambda ids: ids.astype(str),
        "text with a point": lambda ids: ids.map(lambda one: f"{one}.0"),
        "category": lambda ids: ids.astype(float).astype("category"),
        "nullable": lambda ids: ids.astype("Int64"),
    }[how]
    return in_form(frame.assign(u=spelt(frame["u"])), kind, Path(), name)


KINDS = ["csv", "arrow csv", "parquet", "feather", "pandas", "polars"]
SPELLINGS = ["whole", "point", "float32", "decimal", "text", "text with a point", "nullable"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [*SPELLINGS, "category"])
def test_ratings_have_the_same_names_however_they_are_spelt(kind, how):
    if how in ("decimal", "category") and kind in ("polars", "arrow csv"):
        pytest.skip("not written by this")
    result = sm.complete(written(RATINGS, kind, "ratings", how), loss="squared_error", columns=("u", "i"), y="r")
    want = sm.complete(RATINGS, loss="squared_error").model
    assert list(result.model.row_names_) == ["1", "2", "10"] == list(want.row_names_)
    for other, other_kind in (("whole", "csv"), ("point", "csv"), ("point", "pandas"), (how, kind)):
        pairs = written(RATINGS[["u", "i"]], other_kind, "pairs", other)
        np.testing.assert_array_equal(result.model.predict(pairs), want.predict(RATINGS[["u", "i"]]))
        rated = written(RATINGS, other_kind, "rated", other)
        assert result.model.evaluate(rated)["rmse"] == want.evaluate(RATINGS)["rmse"]
    result.model.save("model.npz")
    for other in ("whole", "point"):
        checks = verify_ratings("model.npz", written(RATINGS, "csv", "again.csv", other))
        assert all(check.agrees is not False for check in checks)


@pytest.mark.parametrize("first", ["whole", "point"])
@pytest.mark.parametrize("kinds", [("csv", "csv"), ("parquet", "parquet"), ("csv", "parquet"), ("parquet", "csv")])
def test_shards_with_both_spellings_rate_the_same_users(first, kinds):
    second = "point" if first == "whole" else "whole"
    shards = [written(RATINGS, kinds[0], "one", first), written(MORE, kinds[1], "two", second)]
    result = sm.complete(shards, loss="squared_error")
    want = sm.complete(pd.concat([RATINGS, MORE], ignore_index=True), loss="squared_error")
    assert list(result.model.row_names_) == ["1", "2", "10"]
    assert result.model.header["certificate"]["primal"] == want.model.header["certificate"]["primal"]
    with pytest.raises(sm.DataError, match=r"row 1, column 7 is there twice, as 1\.0 and 1\.0"):
        sm.complete([shards[0], written(RATINGS, "csv", "three", second)])


def test_ratings_on_disk_are_merged_too(monkeypatch):
    from streammargin.tables.ratings import sorted as on_disk

    monkeypatch.setattr(on_disk, "ENTRIES_BUDGET_SHARE", 1e-9)
    shards = [written(RATINGS, "csv", "one", "point"), written(MORE, "csv", "two", "whole")]
    assert list(sm.complete(shards, loss="squared_error").model.row_names_) == ["1", "2", "10"]


def test_held_out_ratings_may_be_spelt_otherwise():
    held = written(RATINGS[:2], "csv", "held.csv", "point")
    found = sm.complete(written(RATINGS, "csv", "own.csv", "whole"), valid=held, loss="squared_error")
    same = sm.complete(RATINGS, valid=RATINGS[:2], loss="squared_error")
    assert found.certificate.valid_error == same.certificate.valid_error


@pytest.mark.parametrize("ids, names", [
    (["1.0", "1", "A7"], ["1", "1.0", "A7"]),  # text, to the byte
    (["7", "007", "1.0"], ["007", "1.0", "7"]),
    (["1.5", "1", "1.0"], ["1", "1.0", "1.5"]),
    (["-1.0", "-1", "3.000"], ["-1", "3"]),
])  # fmt: skip
def test_other_names_are_text_to_the_byte(ids, names):
    frame = pd.DataFrame({"u": ids * 2, "i": np.arange(2 * len(ids)), "r": np.arange(2.0 * len(ids))})
    frame.to_csv("r.csv", index=False)
    model = sm.complete("r.csv", loss="squared_error").model
    assert sorted(model.row_names_) == sorted(names)
    assert np.isfinite(model.predict("r.csv")).all()


def test_large_ids_of_floats_are_spelt_as_whole_numbers():
    ids = np.array([123456789012345, 1234567890123456, 16777216, 2**52])
    frame = pd.DataFrame({"u": ids, "i": [1, 1, 1, 1], "r": [1.0, 2.0, 3.0, 4.0]})
    want = sorted(map(str, ids), key=int)
    for data in (frame, frame.astype({"u": float}), written(frame, "csv", "f.csv", "point")):
        model = sm.complete(data, loss="squared_error").model
        assert list(model.row_names_) == want
    parquet.write_table(pa.Table.from_pandas(frame.astype({"u": float})), "f.parquet")
    np.testing.assert_array_equal(model.predict("f.parquet"), model.predict(frame))


# labels and tasks


def rows(labels, name="y", **others):
    rng = np.random.default_rng(3)
    a = rng.normal(size=len(labels))
    return pd.DataFrame({"a": a, "b": rng.normal(size=len(labels)), name: labels, **others})


NUMBERS = np.array([1, 2, 10, 1, 2, 10, 2, 1] * 5)


@pytest.mark.parametrize("kinds", [("csv", "csv"), ("csv", "parquet"), ("parquet", "csv"), ("parquet", "parquet")])
def test_labels_of_shards_with_both_spellings_are_the_same_classes(kinds):
    frame = rows(NUMBERS)
    parts = [frame[:20].astype({"y": float}), frame[20:]]
    paths = []
    for place, (part, kind) in enumerate(zip(parts, kinds, strict=True)):
        paths.append(f"part{place}.{kind}")
        part.to_csv(paths[-1], index=False) if kind == "csv" else part.to_parquet(paths[-1])
    model = sm.train(paths, y="y").model
    assert model.classes_.tolist() == [1, 2, 10]
    np.testing.assert_array_equal(model.coef_, sm.train(frame, y="y").model.coef_)


@pytest.mark.parametrize("own, other", [("int", "float"), ("float", "int"), ("float", "both"), ("both", "float")])
def test_labels_are_evaluated_and_held_out_in_another_spelling(own, other):
    frame = rows(NUMBERS)
    half = frame.assign(y=[f"{label}.0" if place % 2 else str(label) for place, label in enumerate(NUMBERS)])
    tables = {"int": frame, "float": frame.astype({"y": float}), "both": half}
    for name, table in tables.items():
        table.to_csv(f"{name}.csv", index=False)
    result = sm.train(f"{own}.csv", y="y", valid=f"{other}.csv", C=0.3)
    want = sm.train(frame, y="y", valid=frame, C=0.3)
    assert result.model.classes_.tolist() == [1, 2, 10]
    assert result.certificate.valid_error == want.certificate.valid_error
    assert result.model.evaluate(f"{other}.csv", y="y") == want.model.evaluate(frame, y="y")


def test_text_labels_of_a_typed_table_stay_to_the_byte():
    frame = rows(["1", "1.0", "007", "7"] * 5)
    assert sm.train(frame, y="y").model.classes_.tolist() == ["007", "1", "1.0", "7"]
    frame.to_csv("t.csv", index=False)
    assert sm.train("t.csv", y="y").model.classes_.tolist() == ["007", "1", "1.0", "7"]
    frame[frame.y.str.startswith("1")].assign(y=lambda f: f.y.where(f.y == "1", "2.0")).to_csv("n.csv", index=False)
    assert sm.train("n.csv", y="y").model.classes_.tolist() == [1, 2]


def test_tasks_with_both_spellings_are_the_same_tasks():
    frame = rows([0, 1] * 20, t=[1, 1, 2, 2] * 10)
    frame.to_csv("whole.csv", index=False)
    frame.astype({"t": float}).to_csv("point.csv", index=False)
    both = sm.train(["whole.csv", "point.csv"], y="y", tasks="t", penalty="l21")
    assert both.model.tasks == [1, 2]
    want = both.model.decision_function(frame)
    for data in ("whole.csv", "point.csv", frame.astype({"t": float})):
        np.testing.assert_allclose(both.model.decision_function(data), want, rtol=1e-12)
    np.testing.assert_allclose(both.model.decision_function(["point.csv", "whole.csv"])[:40], want, rtol=1e-12)


# a pivoted frame


@pytest.mark.parametrize("columns, left", [(4, "; left out: film3"), (6, "; left out: film3, film4, film5")])
def test_a_pivoted_frame_is_told_which_columns_were_taken(columns, left, caplog):
    pivot = pd.DataFrame({f"film{k}": np.roll(np.arange(1.0, 6.0), k) for k in range(columns)})
    sm.complete(pivot, loss="squared_error")
    said = [record for record in caplog.records if "taken for" in record.getMessage()]
    assert len(said) == 1 and said[0].levelno == logging.WARNING
    assert said[0].getMessage() == (
        f"the table: the columns are taken for rows film0, columns film1, ratings film2{left}; name others with "
        "columns and y"
    )


def test_roles_that_are_named_or_that_a_model_knows_are_not_told(caplog):
    caplog.set_level(logging.INFO)
    frame = RATINGS.assign(when=3)
    model = sm.complete(frame, columns=("u", "i"), y="r", loss="squared_error").model
    model.predict(frame)
    model.evaluate(frame)
    assert "taken for" not in caplog.text
    sm.complete(frame, columns=("u", "i"), loss="squared_error")
    assert "rows u, columns i, ratings r; left out: when" in caplog.text
    caplog.clear()
    sm.complete(RATINGS, loss="squared_error")
    assert "rows u, columns i, ratings r; name others" in caplog.text and "left out" not in caplog.text
    assert {record.levelno for record in caplog.records if "taken for" in record.getMessage()} == {logging.INFO}
