"""Rows that other libraries wrote: safetensors, zarr of anndata, and lists in Parquet and Arrow. Each trains the model
of the same rows in memory, and is evaluated, verified and converted. Forged files end in one sentence."""

import contextlib
import json
import pathlib
import shlex
import warnings

import h5py
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import feather, parquet
from reference.stopped import stop_after

import streammargin as sm
from streammargin.cli.main import main
from streammargin.data_tools.main import main as tools
from streammargin.errors import DataError, StreamMarginError, UsageError
from streammargin.tables.matrices.base import How
from streammargin.tables.matrices.open import open_matrix

random = np.random.default_rng(3)
X = random.standard_normal((200, 12)).astype(np.float32)
Y = np.where(X[:, 0] + 0.3 * random.standard_normal(200) > 0.0, 1, 0)
COUNTS = sp.csr_matrix(random.poisson(0.6, (200, 12)).astype(np.float32))
TYPES = np.array(["B", "NK", "T"])[np.argmax(COUNTS[:, :3].toarray() + random.random((200, 3)), axis=1)]
WAYS = {"C": 0.1, "tol": 1e-6}
HALF = (X.view(np.uint32) & 0xFFFF0000).view(np.float32)  # as bfloat16 has them


def same(path, rows, labels, **names):
    """The model of a file is that of the rows in memory, and so are its predictions and figures."""
    ours, other = sm.train(path, **WAYS, **names).model, sm.train((rows, labels), **WAYS).model
    np.testing.assert_array_equal(ours.coef_, other.coef_)
    asked = {name: value for name, value in names.items() if name in ("x", "y")}
    assert ours.evaluate(path, **asked)["mistakes"] == other.evaluate((rows, labels))["mistakes"]
    return ours


def commands(tmp_path, capsys, path, *names):
    """The same by the commands, within a budget, with a copy by convert."""
    assert main(["train", path, *names, "-o", str(tmp_path / "m.npz"), "-q", "--memory", "24M"]) == 0
    assert main(["verify", str(tmp_path / "m.npz"), path, *names]) == 0
    assert "all agree" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "m.npz"), path, *names, "--json"]) == 0
    accuracy = json.loads(capsys.readouterr().out)["accuracy"]
    assert accuracy > 0.7
    if names:  # convert takes the usual ones
        return
    assert tools(["convert", path, str(tmp_path / "copy.h5")]) == 0
    assert main(["evaluate", str(tmp_path / "m.npz"), str(tmp_path / "copy.h5"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["accuracy"] == accuracy


def tensors(path, header, raw):
    """A file with this header, which need not be right."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw)
    return str(path)


def line(kind, shape, start, stop):
    return {"dtype": kind, "shape": shape, "data_offsets": [start, stop]}


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_what_safetensors_wrote_is_read(tmp_path, kind):
    numpy = pytest.importorskip("safetensors.numpy")
    path = str(tmp_path / "rows.safetensors")
    numpy.save_file({"X": X.astype(kind), "y": Y, "other": np.zeros((3, 4))}, path, metadata={"by": "test"})
    same(path, X.astype(kind), Y)
    numpy.save_file({"emb": X.astype(kind)}, path)
    np.save(tmp_path / "y.npy", Y)
    same(path, X.astype(kind), Y, y=str(tmp_path / "y.npy"))


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors", "zarr"])
def test_half_precision_stays_so_in_the_spool(tmp_path, ending):
    """The weights are those of the same values in float32, and a spool takes two bytes a value."""
    rows, path = X.astype(np.float16), str(tmp_path / f"rows.{ending}")
    if ending == "npy":
        np.save(path, rows)
    elif ending == "npz":
        np.savez(path, X=rows)
    elif ending == "safetensors":
        pytest.importorskip("safetensors.numpy").save_file({"X": rows}, path)
    else:
        zarr = pytest.importorskip("zarr")
        zarr.open_group(path, mode="w").create_array("X", data=rows)
    np.save(tmp_path / "y.npy", Y)
    labels, wide = str(tmp_path / "y.npy"), rows.astype(np.float32)
    for scale in ("none", "std"):
        ours = sm.train(path, y=labels, spool=str(tmp_path), scale=scale, **WAYS).model
        np.testing.assert_array_equal(ours.coef_, sm.train((wide, Y), scale=scale, **WAYS).model.coef_)
    with h5py.File(f"{path}.rows.h5") as file:
        assert file["X"].dtype == np.float16
        np.testing.assert_array_equal(file["X"][:], rows)
    np.testing.assert_array_equal(ours.decision_function(path), ours.decision_function(wide))


def test_batches_of_half_precision_are_written_so(tmp_path):
    half, path = X.astype(np.float16), str(tmp_path / "rows.h5")
    assert sm.write_hdf5(((half[low : low + 60], Y[low : low + 60]) for low in range(0, 200, 60)), path) == 200
    with h5py.File(path) as file:
        assert file["X"].dtype == np.float16
        np.testing.assert_array_equal(file["X"][:], half)
    same(path, half.astype(np.float32), Y)
    sm.write_hdf5([(half, Y)], path, dtype="float32", force=True)
    with h5py.File(path) as file:
        assert file["X"].dtype == np.float32
    with pytest.raises(DataError, match='float32 but the first one float16; use dtype="float32"'):
        sm.write_hdf5([(half, Y), (X, Y)], path, force=True)


def test_bfloat16_is_read_and_computed_in_float32(tmp_path, capsys):
    raw = (X.view(np.uint32) >> 16).astype("<u2").tobytes()
    header = {"emb": line("BF16", [200, 12], 0, 4800), "y": line("I64", [200], 4800, 6400)}
    path = tensors(tmp_path / "half.safetensors", header, raw + Y.astype("<i8").tobytes())
    same(path, HALF, Y, x="emb")
    commands(tmp_path, capsys, path)


FORGED = {
    "a header longer than the file": (b"", 'said to take'),
    "no JSON": (b"{" + b"a" * 20, "its header is not that of safetensors"),
    "a list": (b"[" + b" " * 20 + b"]", "not an HDF5 file"),
    "deep": (b'{"X":' + b"[" * 100000 + b"]" * 100000 + b"}", "its header is not that of safetensors"),
    "no table": (b'{"X": 3}', "its header is not that of safetensors"),
    "beyond the end": ({"X": line("F32", [200, 12], 0, 9604)}, "is said to have the shape"),
    "another size": ({"X": line("F32", [200, 13], 0, 9600)}, "is said to have the shape"),
    "huge": ({"X": line("F32", [1 << 62, 1 << 62], 0, 9600)}, "is said to have the shape"),
    "negative": ({"X": line("F32", [-200, -12], 0, 9600)}, "is said to have the shape"),
    "truth": ({"X": line("F32", [True, 2400], 0, 9600)}, "is said to have the shape"),
    "backwards": ({"X": line("F32", [0, 12], 9600, 0)}, "is said to have the shape"),
    "no place": ({"X": {"dtype": "F32", "shape": [200, 12]}}, "is said to have the shape"),
    "another type": ({"X": line("F8_E4M3", [200, 12], 0, 2400)}, "write it as F32, F16 or BF16"),
    "a type that is none": ({"X": line(["F32"], [200, 12], 0, 9600)}, "write it as F32, F16 or BF16"),
    "one dimension": ({"X": line("F32", [2400], 0, 9600)}, "2-dimensional"),
    "no rows": ({"X": line("F32", [0, 12], 0, 0), "y": line("U8", [9600], 0, 9600)}, "rows need both"),
    "two of them": ({"a": line("F32", [2, 2], 0, 16), "b": line("F32", [2, 2], 16, 32)}, "which tensor has the rows"),
    "overlap": ({"X": line("F32", [200, 11], 0, 8800), "b": line("F32", [202], 8792, 9600)}, "begins at the byte 8792"),
    "hole": ({"X": line("F32", [200, 11], 0, 8800), "b": line("F32", [198], 8808, 9600)}, "begins at the byte 8808"),
    "not from the start": ({"X": line("F32", [200, 11], 800, 9600)}, "begins at the byte 800"),
    "bytes behind": ({"X": line("F32", [200, 11], 0, 8800)}, "tensors end at 8800 of 9600"),
    "another one without a place": ({"X": line("F32", [200, 12], 0, 9600), "b": {}}, "the tensor b at None"),
    "metadata": ({"X": line("F32", [200, 12], 0, 9600), "__metadata__": 5}, "__metadata__ is no table"),
    "none": ({}, "which tensor has the rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged_tensors_end_in_a_sentence(tmp_path, name):
    header, said = FORGED[name]
    path = tensors(tmp_path / "f.safetensors", header, X.tobytes())
    if header == b"":
        (tmp_path / "f.safetensors").write_bytes((1 << 30).to_bytes(8, "little") + b"{" + X.tobytes())
    np.save(tmp_path / "y.npy", Y)
    with pytest.raises(StreamMarginError, match=said) as caught:
        sm.train(path, y=str(tmp_path / "y.npy"))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_a_nan_in_a_tensor_is_refused_with_its_row(tmp_path):
    bad = X.copy()
    bad[77, 3] = np.nan
    path = tensors(tmp_path / "f.safetensors", {"X": line("F32", [200, 12], 0, 9600)}, bad.tobytes())
    with pytest.raises(DataError, match="row 77, column 3 is nan"):
        np.save(tmp_path / "y.npy", Y)
        sm.train(path, y=str(tmp_path / "y.npy"))


# lists


def lists(kind):
    flat = pa.array(X.ravel() if kind != "half" else X.astype(np.float16).ravel())
    if kind == "lists":
        return pa.array([row.tolist() for row in X], pa.list_(pa.float32()))
    if kind == "large lists":
        return pa.array([row.tolist() for row in X], pa.large_list(pa.float64()))
    return pa.FixedSizeListArray.from_arrays(flat, 12)


@pytest.mark.parametrize("kind", ["fixed", "half", "lists", "large lists"])
def test_lists_of_one_length_are_columns(tmp_path, kind):
    table = pa.table({"id": [f"row {i}" for i in range(200)], "emb": lists(kind), "label": Y})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=64)
    feather.write_feather(table, str(tmp_path / "rows.feather"))
    rows = X.astype(np.float16).astype(np.float32) if kind == "half" else X
    for data in (table, tmp_path / "rows.parquet", str(tmp_path / "rows.feather")):
        model = same(data, rows, Y, drop="id")
        assert list(model.feature_names_in_) == [f"emb[{place}]" for place in range(12)]
    np.testing.assert_array_equal(sm.train(table, columns="emb", **WAYS).model.coef_, model.coef_)


def test_lists_by_the_commands(tmp_path, capsys):
    parquet.write_table(pa.table({"emb": lists("lists"), "label": Y}), tmp_path / "rows.parquet", row_group_size=50)
    commands(tmp_path, capsys, str(tmp_path / "rows.parquet"))


def test_what_datasets_wrote_is_read(tmp_path):
    datasets = pytest.importorskip("datasets")
    found = datasets.Dataset.from_dict({"emb": list(X), "label": Y.tolist()})
    found.to_parquet(str(tmp_path / "rows.parquet"))
    same(tmp_path / "rows.parquet", X, Y)
    found.save_to_disk(str(tmp_path / "saved"))
    [path] = (tmp_path / "saved").glob("*.arrow")
    same(path, X, Y)


def test_lists_that_are_no_columns_are_refused_with_their_row():
    short, missing = [row.tolist() for row in X], [row.tolist() for row in X]
    short[150] = short[150][:5]
    missing[42] = None
    with pytest.raises(DataError, match="row 150, column emb: the list has 5 numbers, and the first one 12"):
        sm.train(pa.table({"emb": short, "label": Y}))
    for type_ in (pa.list_(pa.float32()), pa.list_(pa.float32(), 12)):
        with pytest.raises(DataError, match="row 42, column emb: the list is missing"):
            sm.train(pa.table({"emb": pa.array(missing, type_), "label": Y}))
    with pytest.raises(StreamMarginError, match="emb"):
        sm.train(pa.table({"emb": [["a", "b"]] * 200, "label": Y}))
    with pytest.raises(StreamMarginError, match=r"emb\[0\]"):
        sm.train(pa.table({"emb": lists("lists"), "emb[0]": Y, "label": Y}))


# zarr


def annotated():
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    pytest.importorskip("zarr")
    third = np.arange(200) % 3 == 0
    obs = {
        "type": pandas.Categorical(TYPES), "text": TYPES, "number": np.arange(200.0), "weight": np.ones(200),
        "gaps": pandas.Categorical([one or None for one in np.where(third, "lung", "")]), "flag": Y == 1,
        "half": pandas.Categorical(np.where(third, TYPES, None)),
        "nullable": pandas.array([None if row % 4 else 2 for row in range(200)], dtype="Int64"),
    }  # fmt: skip
    names = [f"cell {row}" for row in range(200)]
    made = anndata.AnnData(
        X=X.copy(), obs=pandas.DataFrame(obs, index=names), var=pandas.DataFrame(index=[f"gene {j}" for j in range(12)])
    )
    made.layers["counts"] = COUNTS.copy()
    made.layers["columns"] = COUNTS.tocsc()
    return anndata, made


@pytest.fixture(params=[2, 3])
def store(request, tmp_path):
    anndata, made = annotated()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what the next versions write
        if hasattr(anndata.settings, "zarr_write_format"):
            with anndata.settings.override(zarr_write_format=request.param):
                made.write_zarr(str(tmp_path / "cells.zarr"), chunks=(64, 12))
        elif request.param == 3:
            pytest.skip("this anndata writes version 2 alone")
        else:
            made.write_zarr(str(tmp_path / "cells.zarr"), chunks=(64, 12))
    return str(tmp_path / "cells.zarr")


def test_zarr_of_anndata_is_read(store, tmp_path, capsys):
    model = same(store, X, TYPES, y="obs/type")
    assert list(model.feature_names_in_[:2]) == ["gene 0", "gene 1"] and list(model.classes_) == ["B", "NK", "T"]
    for layer in ("layers/counts", "layers/columns"):
        for y in ("obs/type", "obs/text"):
            same(store, COUNTS, TYPES, x=layer, y=y)
    targets = np.arange(200.0)
    ours = sm.train(store, y="obs/number", loss="squared_error", sample_weight="obs/weight").model
    np.testing.assert_array_equal(ours.coef_, sm.train((X, targets), loss="squared_error").model.coef_)
    commands(tmp_path, capsys, store, "--x", "layers/counts", "--y", "obs/type")


LAYER = {"x": "layers/counts", **WAYS}


def test_a_model_of_a_layer_scores_that_layer(store, tmp_path, capsys):
    """The model of a store has the names of its rows and labels, as that of an h5ad file; all commands use them."""
    _, made = annotated()
    made.write_h5ad(tmp_path / "cells.h5ad")
    model = str(tmp_path / "m.npz")
    trained = [sm.train(path, y="obs/type", **LAYER).model for path in (store, str(tmp_path / "cells.h5ad"))]
    trained.append(sm.train(sm.open_source(tmp_path / "cells.h5ad", x="layers/counts", y="obs/type"),
                            **{**LAYER, "x": None}).model)  # fmt: skip
    for one in trained:
        names = one.header["problem"]["names"]
        assert (names["x"], names["y"]) == ("layers/counts", "obs/type")
        wanted = one.decision_function(COUNTS)
        for data in (store, [store], str(tmp_path / "cells.h5ad"), made):
            np.testing.assert_array_equal(one.decision_function(data), wanted)
            assert one.evaluate(data) == one.evaluate((COUNTS, TYPES))
        assert one.evaluate(store, x="X")["loss"] != one.evaluate(store)["loss"]
        one.save(model, force=True)
        for path in (store, str(tmp_path / "cells.h5ad")):
            assert main(["verify", model, path]) == 0
            assert main(["report", model, "--test", path, "-o", str(tmp_path / "r.html"), "--force"]) == 0
    capsys.readouterr()


def test_held_out_rows_have_the_names_of_the_store(store, tmp_path, capsys):
    _, made = annotated()
    other, model = str(tmp_path / "cells.h5ad"), str(tmp_path / "m.npz")
    made.write_h5ad(other)
    errors = [sm.train(store, y="obs/type", valid=valid, **LAYER) for valid in (store, other, made)]
    assert len({one.certificate.valid_error for one in errors}) == 1
    assert errors[0].certificate.valid_error == errors[0].certificate.train_error
    errors[1].model.save(model)
    for valid in (store, other):
        assert main(["verify", model, store, "--valid", valid]) == 0
    assert "all agree" in capsys.readouterr().out


@pytest.mark.parametrize("ways", [WAYS, LAYER])
def test_labels_of_a_part_that_was_split_off_are_judged(tmp_path, caplog, ways):
    path, *parts = (str(tmp_path / name) for name in ("cells.h5ad", "train.h5", "test.h5"))
    annotated()[1].write_h5ad(path)
    assert tools(["split", path, *parts, "--y", "obs/type", "--x", ways.get("x", "X")]) == 0
    model = sm.train(path, y="obs/type", **ways).model
    assert model.evaluate(parts[1]) == model.evaluate(parts[1], y="y")
    assert "was trained on obs/type" in caplog.text and "those of y are judged" in caplog.text


def test_labels_of_a_file_that_was_converted_are_judged(store, tmp_path, caplog, capsys):
    _, made = annotated()
    made.write_h5ad(tmp_path / "cells.h5ad")
    other = str(tmp_path / "other.h5")
    assert tools(["convert", store, other, "--y", "obs/type"]) == 0
    for path in (store, str(tmp_path / "cells.h5ad")):
        model = sm.train(path, y="obs/type", **WAYS).model
        wanted = model.evaluate(path)
        assert not caplog.text and model.evaluate(other) == wanted
        assert "was trained on obs/type" in caplog.text and "those of y are judged" in caplog.text
        caplog.clear()
    model.save(tmp_path / "m.npz")
    assert main(["predict", str(tmp_path / "m.npz"), other, "--obs", "found", "-o", str(tmp_path / "found.h5ad")]) == 65
    assert "has no table obs as anndata writes it since 0.7; name an .h5ad file" in capsys.readouterr().err


def test_data_without_the_layer_of_a_model_are_refused_or_told(store, tmp_path, caplog):
    _, made = annotated()
    model = sm.train(store, y="obs/type", **LAYER).model
    del made.layers["counts"]
    with pytest.raises(DataError, match="the AnnData object has no layers/counts; it has X"):
        model.predict(made)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.write_zarr(str(tmp_path / "less.zarr"))
    with pytest.raises(DataError, match="has no array or group layers/counts; name the rows with x"):
        model.predict(str(tmp_path / "less.zarr"))
    made.write_h5ad(tmp_path / "less.h5ad")
    model.predict(str(tmp_path / "less.h5ad"))
    assert "was trained on layers/counts" in caplog.text and "X is scored instead" in caplog.text
    made.layers["counts"] = COUNTS.tocsc()
    made.write_h5ad(tmp_path / "columns.h5ad")
    both = r"layers/counts is a csc_matrix.*cells\.layers\['counts'\]\.tocsr\(\); or .* OUT\.h5 --x layers/counts$"
    with pytest.raises(DataError, match=both):
        model.predict(str(tmp_path / "columns.h5ad"))
    with pytest.raises(UsageError, match="x names rows in a file or in an AnnData object"):
        sm.train((X, Y), x="layers/counts")


@pytest.mark.parametrize("x", ["X", "layers/counts", "raw/X"])
def test_cells_by_column_that_were_converted_are_those_by_row(tmp_path, monkeypatch, caplog, capsys, x):
    """The command of the error keeps obs and the name of the matrix: models know the rows of all files."""
    monkeypatch.chdir(tmp_path)
    anndata, made = annotated()
    made.X, made.layers["counts"] = 2.0 * COUNTS, COUNTS.copy()
    made.raw = anndata.AnnData(X=3.0 * COUNTS[:, :9], var=made.var[:9])
    made.write_h5ad("by row.h5ad")
    made.X, made.layers["counts"] = made.X.tocsc(), COUNTS.tocsc()
    made.raw = anndata.AnnData(X=made.raw.X.tocsc(), var=made.raw.var)
    made.write_h5ad("by column.h5ad")
    ways = {**WAYS, "y": "type", "x": x, "mask": "obs/flag=false", "transform": "total:10,log1p"}
    with pytest.raises(DataError, match=r"by column.* is a csc_matrix") as caught:
        sm.train("by column.h5ad", **ways)
    anndata_writes, _, command = str(caught.value).partition("convert it with: streammargin-data ")
    assert ("tocsr" in anndata_writes) == (x != "raw/X") and tools(shlex.split(command)) == 0
    ours, other = (sm.train(path, **ways).model for path in ("OUT.h5", "by row.h5ad"))
    assert ours.feature_names_in_.tolist() == other.feature_names_in_.tolist()
    for path in ("by row.h5ad", "OUT.h5"):
        np.testing.assert_array_equal(ours.decision_function(path), other.decision_function("by row.h5ad"))
        assert ours.evaluate(path) == other.evaluate("by row.h5ad")
    assert not caplog.text
    ours.save("m.npz")
    assert main(["verify", "m.npz", "OUT.h5"]) == 0 == main(["verify", "m.npz", "by row.h5ad"])
    assert main(["predict", "m.npz", "OUT.h5", "--obs", "found", "-o", "labelled.h5ad"]) == 0
    assert anndata.read_h5ad("labelled.h5ad").obs.found.tolist() == ours.predict("by row.h5ad").tolist()
    capsys.readouterr()
    if x != "X":  # no model of X scores these rows
        with pytest.raises(DataError, match="has no dataset X of rows"):
            sm.open_source("OUT.h5")


def test_other_rows_than_those_of_the_training_are_told(tmp_path, caplog):
    _, made = annotated()
    made.write_h5ad(tmp_path / "cells.h5ad")
    model = sm.train(str(tmp_path / "cells.h5ad"), y="obs/type", **LAYER).model
    model.evaluate(str(tmp_path / "cells.h5ad"), x="/layers/counts")
    with pytest.raises(DataError, match=r"no dataset layers/count of rows; did you mean layers/counts\?"):
        model.evaluate(str(tmp_path / "cells.h5ad"), x="layers/count")
    assert not caplog.text
    model.evaluate(str(tmp_path / "cells.h5ad"), x="X")
    assert "the model was trained on layers/counts, and X is scored" in caplog.text


@pytest.mark.parametrize("x", [None, "X", "layers/counts", "raw/X", "obsm/part"])
def test_rows_of_an_anndata_object_by_name(x):
    _, made = annotated()
    made.raw = made[:, :9].copy()
    made.obsm["part"] = X[:, :5].copy()
    rows = {"layers/counts": COUNTS, "raw/X": X[:, :9], "obsm/part": X[:, :5]}.get(x, X)
    ours = sm.train(made, y="type", x=x, **WAYS).model
    np.testing.assert_array_equal(ours.coef_, sm.train((rows, TYPES), **WAYS).model.coef_)
    assert (ours.feature_names_in_ is None) == (x == "obsm/part")
    assert ours.evaluate(made) == ours.evaluate((rows, TYPES))


def test_a_model_of_an_archive_scores_its_array(tmp_path, caplog):
    np.savez(tmp_path / "a.npz", X=X, other=-2.0 * X, y=Y)
    np.savez(tmp_path / "b.npz", X=X, y=Y)
    model = sm.train(str(tmp_path / "a.npz"), x="other", **WAYS).model
    np.testing.assert_array_equal(model.decision_function(str(tmp_path / "a.npz")), model.decision_function(-2.0 * X))
    assert not caplog.text
    np.testing.assert_array_equal(model.decision_function(str(tmp_path / "b.npz")), model.decision_function(X))
    assert "X is scored instead" in caplog.text


@pytest.mark.parametrize(("by", "mask"), [("obs/number", None), ("number", "gaps=lung"), ("obs/gaps", "gaps=lung")])
def test_folds_of_groups_are_those_of_an_h5ad_file(store, tmp_path, by, mask):
    """The groups of rows without the value may be missing, as their labels."""
    _, made = annotated()
    made.write_h5ad(tmp_path / "cells.h5ad")
    ways = {**LAYER, "y": "obs/text", "mask": mask, "C": [0.1, 1.0], "cv": f"3,by={by}"}
    if by == "obs/gaps":  # one group
        with pytest.raises(DataError, match="fold"):
            sm.train(store, **ways)
        with pytest.raises(DataError, match=r"row 1 has no obs/gaps, as in \d+ more rows; .*obs\['gaps'\]\.notna"):
            sm.train(store, **{**ways, "mask": None})
        return
    errors = [sm.train(path, **ways).cross_validation.errors for path in (store, str(tmp_path / "cells.h5ad"))]
    np.testing.assert_array_equal(*errors)


def test_groups_of_other_files_of_numbers(store, tmp_path):
    np.savez(tmp_path / "a.npz", X=COUNTS.toarray(), y=TYPES, donor=np.arange(200) // 3)
    np.save(tmp_path / "donor.npy", np.arange(200) // 3)
    (tmp_path / "rows.svm").write_text("1 1:2\n0 1:1\n" * 9)
    ways = {"C": [0.1, 1.0], "tol": 1e-6}
    errors = [sm.train(str(tmp_path / "a.npz"), cv=f"3,by={by}", **ways).cross_validation.errors
              for by in ("donor", tmp_path / "donor.npy")]  # fmt: skip
    np.testing.assert_array_equal(*errors)
    for path, names, said in (
        (store, {"y": "obs/type"}, r"cells\.zarr has no column no of groups; it has obs/"),
        (str(tmp_path / "a.npz"), {}, r"a\.npz has no array no of groups; it has"),
        (str(tmp_path / "rows.svm"), {}, r"rows\.svm has no groups under the name no"),
    ):
        with pytest.raises(DataError, match=said):
            sm.train(path, cv="3,by=no", **names, **ways)


def test_zarr_labels_are_found_by_the_names_of_cells(store, tmp_path):
    lines = [f"cell {row},{TYPES[row]}" for row in reversed(range(200))]
    (tmp_path / "types.csv").write_text("\n".join(["cell,type", *lines]))
    same(store, X, TYPES, y=f"{tmp_path / 'types.csv'}:type")


def test_what_a_store_lacks_is_named(store):
    for names, said in (
        (
            {"x": "layers/none", "y": "obs/type"},
            "has no array or group layers/none; .*; it has layers/columns, layers/counts",
        ),
        ({"y": "obs/kind"}, "has no column obs/kind of labels; it has obs/flag, obs/gaps, .*; name one of these"),
        ({}, 'has no labels; they could be obs/flag, obs/gaps, .*; name them with y="NAME", y="FILE.npy" or,'),
        ({"x": "obs", "y": "obs/type"}, "name an array or a csr_matrix"),
        ({"x": "obs/number", "y": "obs/type"}, "2-dimensional"),
    ):
        with pytest.raises(DataError, match=said):
            sm.train(store, **names)


def test_what_opens_at_random_says_what_a_store_is(store):
    with pytest.raises(DataError, match="is a zarr folder, not an HDF5 file; if anndata wrote it"):
        sm.open_source(store)


def test_a_plain_array_of_zarr_is_rows(tmp_path):
    zarr = pytest.importorskip("zarr")
    array = zarr.open(str(tmp_path / "rows.zarr"), mode="w", shape=X.shape, chunks=(50, 5), dtype="float32")
    array[...] = X
    np.save(tmp_path / "y.npy", Y)
    same(str(tmp_path / "rows.zarr"), X, Y, y=str(tmp_path / "y.npy"))


MASKED = {
    "obs/type=B": TYPES == "B", "text=NK": TYPES == "NK", "obs/number=7.0": np.arange(200) == 7,
    "obs/gaps=lung": np.arange(200) % 3 == 0, "obs/nullable=2": np.arange(200) % 4 == 0, "flag=True": Y == 1,
}  # fmt: skip


@pytest.mark.parametrize("mask", MASKED)
def test_a_mask_takes_rows_of_a_store(store, mask):
    keep = MASKED[mask]
    for x, rows in ((None, X), ("layers/counts", COUNTS), ("layers/columns", COUNTS)):
        with contextlib.ExitStack() as stack:
            found = open_matrix(store, How("", stack, x, "obs/number", mask=mask))
            batches = list(found.read())
            dense = [b.X if b.X is not None else sp.csr_array((b.data, b.indices, b.indptr), (b.rows, 12)).toarray()
                     for b in batches]  # fmt: skip
            np.testing.assert_array_equal(np.concatenate(dense), rows[keep] if x is None else rows[keep].toarray())
            assert np.concatenate([b.labels for b in batches]).tolist() == np.flatnonzero(keep).tolist()
            assert list(found.ids) == [f"cell {row}" for row in np.flatnonzero(keep)] and found.count == keep.sum()


def test_a_mask_by_the_commands(store, tmp_path, capsys):
    """Rows without the value need no label; train, evaluate, predict and verify take the same rows."""
    keep, model = np.arange(200) % 3 == 0, str(tmp_path / "m.npz")
    names = ["--x", "layers/counts", "--y", "obs/half"]
    assert main(["train", store, *names, "--mask", "gaps=lung", "-C", "0.1", "-e", "1e-6", "-o", model, "-q"]) == 0
    alone = sm.train((COUNTS[keep], TYPES[keep]), **WAYS).model
    np.testing.assert_array_equal(sm.load_model(model).coef_, alone.coef_)
    capsys.readouterr()
    assert main(["verify", model, store, *names, "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert checks[0] == {"name": "rows", "certified": 67.0, "found": 67.0, "agrees": True}
    assert main(["evaluate", model, store, *names, "--mask", "gaps=lung", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["rows"], figures["mistakes"]) == (67, alone.evaluate((COUNTS[keep], TYPES[keep]))["mistakes"])
    assert main(["predict", model, store, *names[:2], "--mask", "obs/type=B", "--id", "cell"]) == 0
    lines = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    rows = np.flatnonzero(TYPES == "B")
    assert lines[1:] == [[f"cell {k}", found] for k, found in zip(rows, alone.predict(COUNTS[rows]), strict=True)]


def test_a_mask_that_takes_no_row_of_a_store_is_refused(store):
    for mask, said in (
        ("obs/type=none", r"no row of .* has obs/type=none"),
        ("obs/kind=B", "has no column obs/kind of values"),
        ("X=1", "X has the shape"),
    ):
        with pytest.raises(DataError, match=said):
            sm.train(store, y="obs/type", mask=mask)
    for name, told in (("y", "labels, weights and tasks are columns of the files"), ("tasks", "no tasks of stores")):
        with pytest.raises(UsageError, match=told):
            given = {"y": "obs/type", name: np.ones(200) if name == "y" else "tasks.npy"}
            sm.train(store, mask="obs/type=B", solver="newton", **given)
    with pytest.raises(DataError, match="row 1 has no obs/half"):
        sm.train(store, y="obs/half")


def test_checkpoints_and_held_out_rows_of_a_mask(store, tmp_path):
    ways = {"x": "layers/counts", "y": "obs/half", "mask": "gaps=lung", "solver": "sdca", **WAYS}
    whole = sm.train(store, valid=store, **ways)
    assert whole.certificate.valid_error == pytest.approx(whole.certificate.train_error)
    folder = str(tmp_path / "checkpoint")
    sm.train(store, checkpoint=folder, checkpoint_seconds=1e-9, should_stop=stop_after(2), **ways)
    np.testing.assert_array_equal(sm.train(store, checkpoint=folder, **ways).model.coef_, whole.model.coef_)
    with pytest.raises(UsageError, match="mask is for HDF5 files and stores of zarr"):
        (tmp_path / "rows.svm").write_text("1 1:2\n")
        sm.train(store, valid=str(tmp_path / "rows.svm"), **ways)


def test_stores_in_a_store_are_its_shards(tmp_path):
    """What annbatch writes: a store of version 3 with a group of sharded arrays for each part of the cells."""
    anndata, made = annotated()
    zarr = pytest.importorskip("zarr", minversion="3")
    made.X = COUNTS.copy()
    del made.layers["columns"], made.layers["counts"]
    root = zarr.open_group(str(tmp_path / "cells.zarr"), mode="w", zarr_format=3)
    root.attrs["encoding-type"] = "annbatch-preshuffled"
    order = np.random.default_rng(0).permutation(200)

    def sharded(write, group, key, elem, dataset_kwargs, iospec):
        way = {} if iospec.encoding_type != "csr_matrix" else {"chunks": (50,), "shards": (150,)}
        write(group, key, elem, dataset_kwargs=way)

    for part in range(11):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = order[part * 200 // 11 : (part + 1) * 200 // 11]
            anndata.experimental.write_dispatched(root, f"dataset_{part}", made[rows].copy(), sharded)
    path = str(tmp_path / "cells.zarr")
    model = same(path, COUNTS[order], TYPES[order], y="obs/type")
    assert list(model.feature_names_in_[:2]) == ["gene 0", "gene 1"]
    found = sm.train(path, y="obs/half", mask="obs/gaps=lung", **WAYS).model
    rows = order[order % 3 == 0]
    np.testing.assert_array_equal(found.coef_, sm.train((COUNTS[rows], TYPES[rows]), **WAYS).model.coef_)


def forge(root, what):
    counts = root["layers/counts"]
    if what == "index":
        counts["indices"][5] = 99
    elif what == "falls":
        counts["indptr"][10] = 10**9
    elif what == "shape":
        counts.attrs["shape"] = [200, 10**12]
    elif what == "kind":
        counts.attrs["encoding-type"] = "dataframe"
    elif what == "rows":
        counts.attrs["shape"] = [199, 12]
    elif what == "codes":
        root["obs/type/codes"][7] = 9
    elif what == "gap":
        root["obs/type/codes"][7] = -1
    elif what == "categories":
        root["obs/type/categories"][1] = root["obs/type/categories"][0]
    elif what == "end":
        counts["indptr"][-1] = int(counts["indptr"][-1]) - 1


def stretched(store, parts, entries):
    """The store says that these arrays of its counts have so many entries."""
    for part in parts:
        folder = pathlib.Path(store) / "layers/counts" / part
        path = next(path for path in (folder / "zarr.json", folder / ".zarray") if path.exists())
        path.write_text(json.dumps({**json.loads(path.read_text()), "shape": [entries]}))
    for name in (".zmetadata", "zarr.json"):  # what is told of all parts in one place
        path = pathlib.Path(store) / name
        if path.exists():
            told = {key: value for key, value in json.loads(path.read_text()).items() if key != "consolidated_metadata"}
            path.write_text(json.dumps(told)) if name == "zarr.json" else path.unlink()


@pytest.mark.parametrize("parts", [["data"], ["indices"], ["data", "indices"], ["data", "indices", "indptr"]])
@pytest.mark.parametrize("entries", [2**50, 2**63 - 1, 2**70])
def test_forged_lengths_are_refused_before_anything_is_made_of_them(store, parts, entries):
    stretched(store, parts, entries)
    with pytest.raises(DataError, match=r"write (it|the file|the store) again") as caught:
        sm.train(store, x="layers/counts", y="obs/type")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize("what, said", [("index", "row .* has the column index 99"), ("falls", "indptr must not"),
    ("shape", "shape of the matrix"), ("kind", "is a group of the kind 'dataframe'"), ("rows", "indptr must have 200"),
    ("codes", "codes that are no places"), ("categories", "categories that are the same"),
    ("end", "indptr ends at .* and there are"), ("gap", "row 7 has no obs/type; .*write_zarr")])  # fmt: skip
def test_forged_stores_end_in_a_sentence(store, what, said):
    import zarr

    forge(zarr.open(store, mode="r+"), what)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(store)
    with pytest.raises(DataError, match=said):
        sm.train(store, x="layers/counts", y="obs/type")


def test_damaged_stores_end_in_a_sentence(store, tmp_path):
    files = sorted(
        path for path in (tmp_path / "cells.zarr").rglob("*") if path.is_file() and "layers/counts" in str(path)
    )
    assert len(files) > 5
    for path in files:
        whole = path.read_bytes()
        for raw in (b"", b"{" * 50000, bytes(reversed(whole))):
            path.write_bytes(raw)
            try:  # a chunk without a checksum may hold other numbers
                sm.train(store, x="layers/counts", y="obs/type", passes=1)
            except StreamMarginError as error:
                assert "\n" not in str(error) and len(str(error)) < 500
        path.write_bytes(whole)


@pytest.mark.parametrize("part, said", [("data", "lacks the files of .* chunks of its values"),
    ("indices", "lacks the files of .* chunks of its indices"), ("indptr", "indptr ends at 0")])  # fmt: skip
def test_a_store_whose_chunks_were_lost_is_refused(store, tmp_path, part, said):
    """zarr takes a chunk without a file as zeros."""
    lost = [
        path
        for path in (tmp_path / "cells.zarr/layers/counts" / part).rglob("*")
        if path.is_file() and not path.name.startswith((".z", "zarr.json"))
    ]
    assert lost
    for path in lost:
        path.unlink()
    with pytest.raises(DataError, match=said):
        sm.train(store, x="layers/counts", y="obs/type")


def test_chunks_of_no_entries_are_refused(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.open(str(tmp_path / "rows.zarr"), mode="w", shape=(20, 4), chunks=(10, 4), dtype="float32", zarr_format=2)
    path = tmp_path / "rows.zarr/.zarray"
    path.write_text(path.read_text().replace("10,", "0,"))
    np.save(tmp_path / "y.npy", np.arange(20) % 2)
    with pytest.raises(DataError, match=r"X has chunks of the shape \(0, 4\)|is damaged"):  # zarr 3.4 refuses it
        sm.train(str(tmp_path / "rows.zarr"), y=str(tmp_path / "y.npy"))


def test_a_chunk_that_memory_cannot_hold_is_refused(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.open(str(tmp_path / "rows.zarr"), mode="w", shape=(1 << 20, 64), chunks=(1 << 20, 64), dtype="float32")
    np.save(tmp_path / "y.npy", np.zeros(1 << 20))
    with pytest.raises(UsageError, match=r"a chunk of X .* takes 256M; use memory="):
        sm.train(str(tmp_path / "rows.zarr"), y=str(tmp_path / "y.npy"), memory="64M")


def test_without_zarr_the_extra_is_named(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "zarr", None)
    (tmp_path / "cells.zarr").mkdir()
    (tmp_path / "cells.zarr" / "zarr.json").write_text("{}")
    with pytest.raises(UsageError, match=r"pip install 'streammargin\[zarr\]'"):
        sm.train(str(tmp_path / "cells.zarr"), y="obs/type")


class Tensor:
    """What loaders of torch yield, as far as anybody asks."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)

    def __len__(self):
        return len(self.values)


class Loader:
    """Batches [X, y], as often as asked."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return ([Tensor(self.rows[low : low + 64]), Tensor(Y[low : low + 64])] for low in range(0, 200, 64))

    def __len__(self):
        return 4


class Brain(Tensor):
    """A tensor of bfloat16, which NumPy does not know."""

    dtype = "torch.bfloat16"

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")

    def float(self):
        return Tensor(self.values)


class Tracked(Tensor):
    """A tensor with a gradient."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")


def test_batches_of_tensors_that_numpy_does_not_take(tmp_path):
    rows = X.astype(np.float16).astype(np.float32)
    ways = {"spool": str(tmp_path / "spool"), **WAYS}
    found = sm.train(iter([{"emb": Brain(rows), "label": Tensor(Y)}]), x="emb", y="label", **ways).model
    np.testing.assert_array_equal(found.coef_, sm.train((rows, Y), **WAYS).model.coef_)
    with pytest.raises(DataError, match=r"is not an array \(.*Use tensor\.detach"):
        sm.train(iter([{"emb": Tracked(rows), "label": Tensor(Y)}]), x="emb", y="label", **ways)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_a_loader_of_batches_trains_by_a_spool(tmp_path, kind):
    rows = X.astype(kind)
    ours = sm.train(Loader(rows), spool=str(tmp_path / "spool"), transform="unit", **WAYS).model
    np.testing.assert_array_equal(ours.coef_, sm.train((rows, Y), transform="unit", **WAYS).model.coef_)
