"""Labels and sample weights: beside the rows, in other files, as arrays; of any type and length."""

import shlex
import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
from source_checks import all_labels, check_all, two_labels, write_dense

import streammargin as sm
from streammargin.errors import UsageError
from streammargin.sources.labels import census, distinct
from streammargin.sources.open import open_source

ROWS = 10
X = np.random.default_rng(0).normal(size=(ROWS, 3))
TEXT = ["no", "yes", "né"] * 3 + ["no"]
COLUMNS = {
    "integers": np.arange(ROWS) % 3 - 1,
    "bytes": np.arange(ROWS, dtype=np.uint8) % 2,
    "reals": np.where(np.arange(ROWS) % 2, 0.5, -1.5),
    "halves": two_labels(ROWS).astype("f2"),
    "big-endian": two_labels(ROWS).astype(">i4"),
    "booleans": two_labels(ROWS).astype(bool),
}


def stored(tmp_path, column, **options):
    path = write_dense(tmp_path / "d.h5", X)
    with h5py.File(path, "r+") as file:
        del file["y"]
        file.create_dataset("y", data=column, **options)
    return path


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("options", [{}, {"chunks": (4,)}, {"chunks": (4,), "compression": "gzip"}])
@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_numbers(tmp_path, name, options, chunk):
    with open_source(stored(tmp_path, COLUMNS[name], **options)) as source:
        assert source.has_labels()
        found = all_labels(source, chunk)
        np.testing.assert_array_equal(found, COLUMNS[name])
        classes, codes, counts = census(source.labels(chunk), ROWS)
        expected, inverse = np.unique(COLUMNS[name], return_inverse=True)
        assert classes.tolist() == expected.tolist() and codes.tolist() == inverse.tolist()
        assert counts.tolist() == np.bincount(inverse).tolist()


@pytest.mark.parametrize("kind", [h5py.string_dtype(), h5py.string_dtype(length=5), "S5"])
def test_text(tmp_path, kind):
    path = stored(tmp_path, np.array([t.encode() for t in TEXT], kind))
    with open_source(path) as source:
        assert all_labels(source, 4).tolist() == TEXT
        classes, codes, _ = census(source.labels(4), ROWS)
        assert classes[codes].tolist() == TEXT


def test_trained_classes_keep_their_values(tmp_path):
    result = sm.train(stored(tmp_path, [t.encode() for t in TEXT]), classes=["no", "yes"], passes=1)
    assert result.model.classes_.tolist() == ["no", "yes"]
    result = sm.train(stored(tmp_path, COLUMNS["reals"]), passes=1)
    assert result.model.classes_.tolist() == [-1.5, 0.5]


def test_named_in_the_file_in_another_and_in_npy(tmp_path):
    path = write_dense(tmp_path / "d.h5", X)
    other, array = COLUMNS["integers"], np.array(TEXT)
    with h5py.File(path, "r+") as file:
        file["meta/kind"] = other
    with h5py.File(tmp_path / "labels.h5", "w") as file:
        file["deep/y"] = other
    np.save(tmp_path / "labels.npy", array)
    for name, expected in (
        ("y", two_labels(ROWS)),
        ("meta/kind", other),
        (f"{tmp_path}/labels.h5:deep/y", other),
        (f"{tmp_path}/labels.npy", array),
        (other, other),
        (TEXT, array),
    ):
        with open_source(path, y=name) as source:
            assert source.has_labels()
            np.testing.assert_array_equal(all_labels(source, 4), expected)
            np.testing.assert_array_equal(all_labels(source, 100), expected)  # and once more


def test_labels_that_cannot_be_had(tmp_path):
    path = write_dense(tmp_path / "d.h5", X)
    with h5py.File(path, "r+") as file:
        file["cube"], file["none"] = np.zeros((ROWS, 2, 2)), np.zeros((ROWS, 0))
        file["one"], file["short"] = 1.0, np.zeros(ROWS - 1)
        file["group/inner"] = np.zeros(ROWS)
    np.save(tmp_path / "short.npy", np.zeros(ROWS - 1))
    np.save(tmp_path / "cube.npy", np.zeros((ROWS, 2, 2)))
    np.save(tmp_path / "objects.npy", np.array([1, "a"], object))
    (tmp_path / "empty.npy").touch()
    (tmp_path / "text.txt").write_text("1\n2\n")
    here = str(tmp_path)
    for name, error, match in (
        (
            "Y",
            sm.DataError,
            r"d\.h5 has no labels under the name Y; did you mean y\? it has X, "
            r".*y=.NAME. or y=.FILE:NAME.",
        ),
        ("cube", sm.DataError, r"d\.h5: cube has the shape \(10, 2, 2\); store it as one column"),
        ("none", sm.DataError, r"d\.h5: none has the shape \(10, 0\)"),
        ("one", sm.DataError, r"d\.h5: one has the shape \(\)"),
        ("short", sm.DataError, r"d\.h5: short has 9 entries but .*d\.h5 has 10 rows"),
        ("group", sm.DataError, r"d\.h5: group is a group, .*y=.group/NAME"),
        (f"{here}/gone.npy", sm.InputMissingError, r"gone\.npy: no such file"),
        (f"{here}/short.npy", sm.DataError, r"short\.npy has 9 entries but"),
        (f"{here}/cube.npy", sm.DataError, r"cube\.npy has the shape \(10, 2, 2\)"),
        (f"{here}/objects.npy", sm.DataError, r"objects\.npy is not an array of labels .*numpy\.save"),
        (f"{here}/empty.npy", sm.DataError, r"empty\.npy is not an array of labels"),
        (f"{here}/gone.h5:y", sm.InputMissingError, r"gone\.h5: no such file"),
        (f"{path}:gone", sm.DataError, r"d\.h5 has no dataset gone; it has X, .*FILE:NAME"),
        (f"{path}:", sm.DataError, r"d\.h5 has no dataset ; it has X"),
        (f"{path}:short", sm.DataError, r"d\.h5: short has 9 entries but"),
        (f"{path}:cube", sm.DataError, r"d\.h5: cube has the shape"),
        (f"{here}/text.txt:y", sm.DataError, r"text\.txt cannot be opened as HDF5"),
        (np.zeros(9), sm.DataError, r"y has shape \(9,\) but .*d\.h5 has 10 rows"),
        (np.zeros((ROWS, 1, 1)), sm.DataError, r"y has shape \(10, 1, 1\) but"),
    ):
        with pytest.raises(error, match=match):
            check_all(path, y=name)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_labels_in_a_table_are_refused_with_the_command_that_writes_them(tmp_path, monkeypatch, ending):
    monkeypatch.chdir(tmp_path)
    path, kinds = write_dense(tmp_path / "d.h5", X), ["a", "b"] * (ROWS // 2)
    table = pd.DataFrame({"a kind": kinds})
    table.to_csv("cells.csv", index=False) if ending == "csv" else table.to_parquet("cells.parquet")
    with pytest.raises(sm.DataError, match="is a table, and labels in another file are") as refused:
        check_all(path, y=f"cells.{ending}:a kind")
    command = shlex.split(str(refused.value).partition("write the column with: ")[2])
    subprocess.run([sys.executable, *command[1:]], check=True)
    with open_source(path, y="a kind.npy") as source:
        assert all_labels(source).tolist() == kinds


def test_rows_without_labels_can_be_opened(tmp_path):
    path = write_dense(tmp_path / "d.h5", X)
    with h5py.File(path, "r+") as file:
        del file["y"]
    with open_source(path) as source:
        assert not source.has_labels()
        with pytest.raises(sm.DataError, match="has no labels under the name y"):
            all_labels(source)


def test_census_refuses_what_is_no_class():
    with pytest.raises(sm.DataError, match="the label of row 5 is NaN; drop the row or give it a label"):
        census([np.zeros(4), np.array([1.0, np.nan])], 6)
    for missing in (None, np.nan):
        with pytest.raises(sm.DataError, match="row 5 has no label; drop the row or give it a label"):
            census([np.zeros(4), np.array(["a", missing], object)], 6)
    many = "the label of row 1 is NaN, as in at least 2 more rows; drop these rows or give them labels"
    with pytest.raises(sm.DataError, match=many):
        census([np.array([0.0, np.nan, np.inf, np.nan, np.nan])], 5)
    with pytest.raises(sm.DataError, match="labels must be numbers or text, not complex128"):
        census([np.zeros(4, complex)], 4)
    with pytest.raises(sm.DataError, match="more than 32767 different labels"):
        census([np.arange(40_000)], 40_000)
    with pytest.raises(sm.DataError, match="3 labels for 4 rows"):
        census([np.zeros(3)], 4)
    with pytest.raises(sm.DataError, match="more labels than the 2 rows"):
        census([np.zeros(3)], 2)


def test_one_class_only(tmp_path):
    path = stored(tmp_path, np.ones(ROWS, int))
    with pytest.raises(sm.DataError, match=r"d\.h5: all 10 rows have the label 1; training needs two classes"):
        sm.train(path)


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<i4", "?"])
def test_sample_weight(tmp_path, dtype):
    weights = (np.arange(ROWS) % 4).astype(dtype)
    path = write_dense(tmp_path / "d.h5", X)
    with open_source(path) as source:
        assert source.sample_weight() is None
    with h5py.File(path, "r+") as file:
        file["sample_weight"], file["other"] = weights, weights[::-1]
    np.save(tmp_path / "w.npy", weights)
    for name, expected in (
        (None, weights),
        ("other", weights[::-1]),
        (f"{tmp_path}/w.npy", weights),
        (f"{path}:other", weights[::-1]),
        (weights[::-1], weights[::-1]),
    ):
        with open_source(path, sample_weight=name) as source:
            found = source.sample_weight()[:]
            assert found.dtype == np.float64
            np.testing.assert_array_equal(found, expected)


def test_sample_weights_that_are_none(tmp_path):
    path = write_dense(tmp_path / "d.h5", X)
    with h5py.File(path, "r+") as file:
        file["short"], file["text"], file["negative"] = np.ones(9), [b"x"] * ROWS, -np.ones(ROWS)
    for name, match in (
        ("gone", "has no weights under the name gone"),
        ("short", "short has 9 entries but .* has 10 rows"),
        ("text", r"sample weights of .*d\.h5: text are not numbers"),
        (np.ones(9), r"sample_weight has shape \(9,\) but .*d\.h5 has 10 rows"),
        (["x"] * ROWS, "are not numbers"),
        ("negative", r"d\.h5: the sample weight of row 0 is -1\.0; sample weights must be finite and >= 0"),
    ):
        with pytest.raises(sm.DataError, match=match):
            sm.train(path, sample_weight=name)


def test_numbers_and_text_mix_wherever_the_chunks_end():
    labels = np.array([1, 2, 1, "1", "a", 2, "2"], object)
    for cut in range(len(labels)):
        chunks = [part for part in (labels[:cut], labels[cut:]) if len(part)]
        classes, codes, _ = census(chunks, len(labels))
        assert classes.tolist() == ["1", "2", "a"] and classes[codes].tolist() == [str(v) for v in labels]


@pytest.mark.parametrize("kind", ["S1", object])
def test_labels_of_bytes_are_text_and_said_to_be(kind, caplog):
    y = np.array([b"n", b"p"] * 5, kind)
    model = sm.train((X, y)).model
    assert model.classes_.tolist() == ["n", "p"] and "y holds bytes, but predictions are text" in caplog.text
    assert model.evaluate(X, y=y)["accuracy"] == np.mean(model.predict(X) == np.char.decode(y.astype("S")))
    caplog.clear()
    assert sm.train((X, np.char.decode(y.astype("S")))) and "bytes" not in caplog.text


def test_a_source_has_its_own_names():
    with pytest.raises(UsageError, match="its own sample_weight"):
        sm.train(open_source((X, two_labels(ROWS))), sample_weight=np.ones(ROWS))


def test_a_number_among_text_is_the_text_that_spells_it():
    labels = np.array([1, "01", "b", 2.0, 2, True], object)
    for cut in range(1, len(labels)):
        classes, codes, counts = census([labels[:cut], labels[cut:]], len(labels))
        assert classes[codes].tolist() == ["01", "01", "b", "2", "2", "01"] and counts.tolist() == [3, 2, 1]
    with pytest.raises(sm.DataError, match="number 1 may be the class '01' or '1', which are text"):
        census([labels, np.array(["1"])], 7)


def test_whole_numbers_that_a_float_would_round_are_told_apart_or_refused():
    near = [2**53, 2**53 + 1]
    for chunks in ([np.array(near)], [np.array([*near, "x"], object)], [np.array(near), np.array(["x"])]):
        assert {int(c) for c in census(chunks, sum(map(len, chunks)))[0].tolist() if c != "x"} == set(near)
    assert census([np.array([2**63 + 1, 0], np.uint64)], 2)[0].tolist() == [0, 2**63 + 1]
    for other in (np.array([0.5]), np.array([-1]), np.array([0.5, 1, "x"][:2], object)):
        with pytest.raises(sm.DataError, match=r"no type of numbers holds the label .* write them as text"):
            census([np.array([2**63 + 1], np.uint64), other], 1 + len(other))


@pytest.mark.parametrize("kind", ["i1", "u1", ">i4", "i8", "u8"])
def test_whole_numbers_of_a_small_range_are_found_as_by_sorting(kind):
    """At both ends of their type, and over more than half of that of one byte."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    spread = np.linspace(-100, 127, 7).astype(np.int64) if kind == "i1" else np.arange(5)
    for some in ([low, low + 2, low + 3], [high - 4, high, high - 1], spread):
        labels = np.array(np.tile(np.array(some, object), 100), kind)
        known, inverse = np.unique(labels, return_inverse=True)
        values, places = distinct(labels)
        assert values.tolist() == known.tolist() and places.tolist() == inverse.tolist()
        assert values.dtype == labels.dtype.newbyteorder("=")
