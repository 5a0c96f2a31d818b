"""Files of rows of numbers are trained on, scored and converted as they are: against the arrays they were made of."""

import gzip
import json
import os
import random
import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

import streammargin as sm
from streammargin.data_tools.convert import convert
from streammargin.data_tools.shuffle import shuffle
from streammargin.data_tools.split import split
from streammargin.errors import DataError, OutputError, UsageError
from streammargin.tables.formats import format_of

N, D = 240, 12
CELLS, GENES = [f"CELL{k}-1" for k in range(N)], [f"ENSG{k:03}" for k in range(D)]


def arrays():
    """Rows (N, D) with zeros, and labels."""
    random_ = np.random.default_rng(3)
    X = random_.standard_normal((N, D)).round(3) * (random_.random((N, D)) < 0.4)
    X[5] = 0.0  # a row without values
    return X.astype(np.float32), np.where(X[:, 0] + X[:, 1] + 0.2 * random_.standard_normal(N) > 0.0, 1, -1)


def svmlight(path, X, y, qids=None):
    groups = [""] * len(y) if qids is None else [f" qid:{qid}" for qid in qids]
    lines = [
        f"{label}{group} " + " ".join(f"{j + 1}:{row[j]!r}" for j in np.flatnonzero(row)) + "\n"
        for row, label, group in zip(X.tolist(), y.tolist(), groups, strict=True)
    ]
    path.write_text("".join(lines))


def single_cells(folder, X, genes=GENES, cells=CELLS, before=""):
    """As Cell Ranger writes them: a column for each cell, and names beside it."""
    folder.mkdir(exist_ok=True)
    scipy.io.mmwrite(folder / "plain.mtx", sp.csc_matrix(X.T))
    (folder / f"{before}matrix.mtx.gz").write_bytes(gzip.compress((folder / "plain.mtx").read_bytes()))
    (folder / "plain.mtx").unlink()
    kinds = "".join(f"{gene}\tg{k}\tGene Expression\n" for k, gene in enumerate(genes))
    (folder / f"{before}features.tsv.gz").write_bytes(gzip.compress(kinds.encode()))
    (folder / f"{before}barcodes.tsv.gz").write_bytes(gzip.compress("".join(f"{cell}\n" for cell in cells).encode()))
    return str(folder)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """name -> path, of the same rows in each format; labels are in y.npy if a format has none."""
    folder = tmp_path_factory.mktemp("matrices")
    X, y = arrays()
    np.save(folder / "y.npy", y)
    svmlight(folder / "a.svm", X, y)
    svmlight(folder / "q", X, y, np.arange(N) // 10)  # no ending
    (folder / "a.txt.gz").write_bytes(gzip.compress((folder / "a.svm").read_bytes()))
    np.save(folder / "X.npy", X)
    np.savez(folder / "xy.npz", X=X, y=y)
    np.savez_compressed(folder / "named.npz", rows=X, labels=y)
    sp.save_npz(folder / "csr.npz", sp.csr_matrix(X))
    sp.save_npz(folder / "csc.npz", sp.csc_matrix(X))
    scipy.io.mmwrite(folder / "rows.mtx", sp.csr_matrix(X))
    scipy.io.mmwrite(folder / "columns.mtx", sp.csc_matrix(X))
    paths = {path.name: str(path) for path in folder.iterdir()}
    return {**paths, "cells": single_cells(folder / "cells", X)}


OWN = ["a.svm", "q", "a.txt.gz", "xy.npz"]  # with labels
ALL = [*OWN, "named.npz", "X.npy", "csr.npz", "csc.npz", "rows.mtx", "columns.mtx", "cells"]


def options(files, name):
    if name == "named.npz":
        return {"x": "rows", "y": "labels"}
    return {} if name in OWN else {"y": files["y.npy"]}


@pytest.fixture(scope="module")
def truth():
    """The weights of the same rows in memory, by whether they are sparse."""
    X, y = arrays()
    return {sparse: sm.train((sp.csr_matrix(X) if sparse else X, y)).model for sparse in (True, False)}


def is_sparse(name):
    return name not in ("xy.npz", "named.npz", "X.npy")


@pytest.mark.parametrize("name", ALL)
def test_every_format_gives_the_model_of_the_arrays(files, truth, name):
    X, y = arrays()
    expected = truth[is_sparse(name)]
    model = sm.train(files[name], **options(files, name)).model
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    if name != "named.npz":
        np.testing.assert_array_equal(model.predict(files[name]), expected.predict(X))
    figures = model.evaluate(files[name], **options(files, name))
    assert figures["accuracy"] == np.mean(expected.predict(X) == y)


def test_they_are_scored_in_another_process(files, truth, tmp_path):
    X = arrays()[0]
    names = [name for name in ALL if name != "named.npz"]
    truth[True].save(tmp_path / "m.npz")
    code = (
        "import sys, json, streammargin as sm; model = sm.load_model('m.npz'); "
        "print(json.dumps([model.predict(path).tolist() for path in sys.argv[1:]]))"
    )
    done = subprocess.run([sys.executable, "-c", code, *(files[name] for name in names)], cwd=tmp_path,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [truth[True].predict(X).tolist()] * len(names)


@pytest.mark.parametrize("name", ALL)
def test_convert_writes_the_rows(files, tmp_path, name):
    X, y = arrays()
    assert convert(files[name], str(tmp_path / "o.h5"), **options(files, name))[:2] == (N, D)
    with h5py.File(tmp_path / "o.h5") as file:
        found = file["X"]
        if is_sparse(name):
            found = sp.csr_matrix(tuple(found[part][:] for part in ("data", "indices", "indptr")), X.shape).toarray()
        np.testing.assert_array_equal(found[:], X)
        np.testing.assert_array_equal(file["y"][:], y)
        if name == "q":
            assert set(file) == {"X", "y"}  # numbers of queries are left out
        if name == "cells":
            assert file["var/_index"].asstr()[:].tolist() == GENES


def test_files_are_shards_of_one_data_set(files, truth, tmp_path):
    X, y = arrays()
    for k in range(3):
        svmlight(tmp_path / f"{k}.svm", X[80 * k : 80 * k + 80], y[80 * k : 80 * k + 80])
    paths = [str(tmp_path / f"{k}.svm") for k in range(3)]
    model = sm.train(paths).model
    np.testing.assert_array_equal(model.coef_, truth[True].coef_)
    np.testing.assert_array_equal(model.predict(paths), truth[True].predict(X))
    other = sm.train(files["a.svm"], valid=files["a.svm"])
    assert other.certificate.valid_error == pytest.approx(other.certificate.train_error)


def test_the_spool_is_used_again_only_while_files_and_options_stay(files, tmp_path, caplog):
    caplog.set_level("INFO", "streammargin")
    X, y = arrays()
    path, labels = tmp_path / "X.npy", tmp_path / "y.npy"
    np.save(path, X)
    np.save(labels, y)

    def again(**more):
        caplog.clear()
        sm.train(str(path), **{"y": str(labels), "spool": str(tmp_path), **more})
        return "as nothing has changed" in caplog.text

    assert not again() and again(C=10.0) and again()
    np.save(labels, -y)
    assert not again()
    np.save(path, X[::-1])
    assert not again() and again()
    np.save(tmp_path / "other.npy", y)
    assert not again(y=str(tmp_path / "other.npy"))
    (tmp_path / "X.npy.rows.h5").write_text("mine")
    with pytest.raises(OutputError, match="was not written from a table"):
        again()


def test_labels_and_weights_may_be_arrays(files, truth):
    X, y = arrays()
    model = sm.train(files["X.npy"], y=y).model
    np.testing.assert_array_equal(model.coef_, truth[False].coef_)
    assert model.evaluate(files["X.npy"], y=y)["rows"] == N
    weight = np.linspace(0.5, 1.5, N)
    weighted = sm.train(files["X.npy"], y=y, sample_weight=weight).model
    np.testing.assert_array_equal(weighted.coef_, sm.train((X, y), sample_weight=weight).model.coef_)
    with pytest.raises(DataError, match="has no labels"):
        model.evaluate(files["X.npy"])


def test_labels_of_several_columns_stand_beside_rows_of_numbers(files, tmp_path):
    X = arrays()[0]
    Y = (X @ np.random.default_rng(0).standard_normal((D, 3))).round(3)
    np.save(tmp_path / "Y.npy", Y)
    np.savez(tmp_path / "both.npz", X=X, y=Y)
    expected = sm.train((X, Y), loss="squared_error").model
    for data, y in ((files["X.npy"], str(tmp_path / "Y.npy")), (str(tmp_path / "both.npz"), None), (files["X.npy"], Y)):
        model = sm.train(data, y=y, loss="squared_error").model
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert model.evaluate(data, y=y)["r2"] == pytest.approx(expected.evaluate((X, Y))["r2"])
    np.savez(tmp_path / "few.npz", X=X, y=Y[1:])
    with pytest.raises(DataError, match=r"y has the shape \(239, 3\), and there are 240 rows"):
        sm.train(str(tmp_path / "few.npz"), loss="squared_error")


def test_batches_with_a_spool_give_every_solver_its_passes(tmp_path):
    X, y = arrays()

    def batches():
        for start in range(0, N, 50):
            yield X[start : start + 50], y[start : start + 50]

    for solver in ("newton", "sdca", "auto"):
        result = sm.train(batches(), spool=str(tmp_path), solver=solver)
        np.testing.assert_array_equal(result.model.coef_, sm.train((X, y), solver=solver).model.coef_)
        assert result.converged
    assert os.listdir(tmp_path) == ["batches.rows.h5"]

    def fails():
        yield X, y
        raise OSError("the network is down")

    before = (tmp_path / "batches.rows.h5").read_bytes()
    with pytest.raises(OSError, match="the network is down"):
        sm.train(fails(), spool=str(tmp_path))
    assert (tmp_path / "batches.rows.h5").read_bytes() == before and len(os.listdir(tmp_path)) == 1
    (tmp_path / "batches.rows.h5").write_text("mine")
    with pytest.raises(OutputError, match="was not written from a table"):
        sm.train(batches(), spool=str(tmp_path))


def test_single_cells_go_in_and_out_by_name(files, tmp_path, here):
    X = arrays()[0]
    model = sm.train(files["cells"], y=files["y.npy"]).model
    assert model.feature_names_in_.tolist() == GENES
    order = np.random.default_rng(1).permutation(D)
    single_cells(tmp_path, X[:, order], [GENES[k] for k in order], before="GSM1_")
    other = str(tmp_path / "GSM1_matrix.mtx.gz")
    np.testing.assert_array_equal(model.predict(other), model.predict(files["cells"]))
    model.save(tmp_path / "m.npz")
    done = here("predict", "m.npz", other, "--id", "cell", cwd=tmp_path)
    assert done.stdout.splitlines()[:2] == ["cell,label", f"{CELLS[0]},{model.predict(other)[0]}"]
    single_cells(tmp_path / "fewer", X[:, :-1], GENES[:-1])
    with pytest.raises(DataError, match=r"lacks 1 column of the model \(ENSG011\)"):
        model.predict(str(tmp_path / "fewer"))
    assert len(model.predict(str(tmp_path / "fewer"), missing_columns="zero")) == N


def test_cells_of_anndata_get_a_column_of_labels(tmp_path, here):
    anndata = pytest.importorskip("anndata")
    X, y = arrays()
    kinds = np.where(y > 0, "T cell", "B cell")
    cells = anndata.AnnData(sp.csr_matrix(X), obs={"kind": kinds}, var={"n": np.arange(D)})
    cells.write_h5ad(tmp_path / "cells.h5ad")
    model = sm.train(str(tmp_path / "cells.h5ad"), y="kind").model
    model.save(tmp_path / "m.npz")
    done = here("predict", "m.npz", "cells.h5ad", "--obs", "cell_type", "-o", "cells2.h5ad", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = anndata.read_h5ad(tmp_path / "cells2.h5ad")
    assert found.obs["cell_type"].tolist() == model.predict(X).tolist() and found.obs["kind"].tolist() == kinds.tolist()
    assert (found.X != cells.X).nnz == 0


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_cells_find_their_labels_by_barcode(tmp_path, form):
    X, y = arrays()
    folder, labels = single_cells(tmp_path / "cells", X), str(tmp_path / f"labels.{form}")
    frame = pd.DataFrame({"barcode": CELLS, "n": range(N), "kind": np.where(y > 0, "007", "7")})
    mixed = pd.concat([frame.sample(frac=1.0, random_state=0), frame.head(1).assign(barcode="ANOTHER-1")])

    def write(table):
        table.to_csv(labels, index=False) if form == "csv" else table.to_parquet(labels, index=False)

    write(mixed)
    model = sm.train(folder, y=f"{labels}:kind").model
    np.testing.assert_array_equal(model.coef_, sm.train(sp.csr_matrix(X), frame.kind.to_numpy(str)).model.coef_)
    assert model.classes_.tolist() == ["007", "7"]
    assert model.evaluate(folder, y=f"{labels}:kind")["accuracy"] == np.mean(model.predict(folder) == frame.kind)
    where = "line 3" if form == "csv" else "row 1"
    for table, column, message in (
        (mixed[mixed.barcode != CELLS[3]], "kind", r"no label for 1 of the 240 rows of .*matrix.mtx.gz, as CELL3-1"),
        (pd.concat([mixed.head(1), mixed]), "kind", rf"labels.{form}, {where}: CELL\d+-1 occurs twice"),
        (mixed, "sort", r"no column sort beside a column of names; it has barcode, n, kind"),
        (mixed.assign(kind=mixed.kind.where(np.arange(N + 1) != 1)), "kind", rf"{where}: the label is missing; give"),
    ):
        write(table)
        with pytest.raises(DataError, match=message):
            sm.train(folder, y=f"{labels}:{column}")
    write(mixed)
    scipy.io.mmwrite(tmp_path / "plain.mtx", sp.csc_matrix(X))
    with pytest.raises(DataError, match=r"plain.mtx has no barcodes, by which .* names its labels"):
        sm.train(str(tmp_path / "plain.mtx"), y=f"{labels}:kind")


def test_a_converted_table_keeps_its_schema(tmp_path):
    lines = [f"{k % 2},{'ab'[k % 2]},{'yn'[k % 2]}\n" for k in range(40)]
    (tmp_path / "t.csv").write_text("n,word,label\n" + "".join(lines))
    table, out = str(tmp_path / "t.csv"), str(tmp_path / "t.h5")
    convert(table, out)
    expected = sm.train(table).model
    shuffle(out, str(tmp_path / "s.h5"))
    split(out, str(tmp_path / "p.h5"), str(tmp_path / "q.h5"))
    for path in (out, str(tmp_path / "s.h5"), [str(tmp_path / "p.h5"), str(tmp_path / "q.h5")]):
        model = sm.train(path).model
        assert model.schema == expected.schema and model.predict(table).tolist() == ["y", "n"] * 20
    with h5py.File(out, "r+") as file:
        file.attrs["streammargin-schema"] = '{"columns": [], "label": "y"}'
    assert sm.train(out).model.schema is None


WORDS = "%%MatrixMarket matrix coordinate real general\n"
BAD = [
    ("m.mtx", "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n", r"holds matrix array real general"),
    ("m.mtx", "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 1 1\n", r"is symmetric, and its other half"),
    ("m.mtx", WORDS, r"line 2: the file ends before the size"),
    ("m.mtx", WORDS + "2 x 1\n1 1 1\n", r"line 2: .* is not rows, columns and entries"),
    ("m.mtx", WORDS + "% note\n\n2 2 2\n1 1 1\n", r"has 1 entries, but line 4 says 2; fetch it again"),
    ("m.mtx", WORDS + "2 2 1\n3 1 1\n", r"the entry 3 1 is outside of a matrix of 2 x 2, which counts from 1"),
    ("m.mtx", WORDS + "2 2 1\n0 1 1\n", r"the entry 0 1 is outside"),
    ("m.mtx", WORDS + "2 2 1\n1 1 x\n", r"line 3: '1 1 x' is not an entry of 3 numbers"),
    ("m.mtx", WORDS + "2 2 1\n1 1\n", r"line 3: '1 1' is not an entry of 3 numbers"),
    ("m.mtx", WORDS + "2 2 1\n1 1 nan\n", r"row 0, column 0 is nan"),
    ("m.mtx", WORDS + "2 2 2\n1 1 1\n1 1 2\n", r"row 0 has column 0 twice"),
    ("m.mtx", WORDS + "2 9999999999 1\n1 1 1\n", r"columns \(below 2\^31\)"),
    ("a.svm", "1 1:1\n-1 1:x\n", r"line 2: '1:x' is not index:value"),
    ("X.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4'}", r"is not an array of numpy.save"),
    ("X.npz", b"PK\x03\x04 no archive", r"is not an NPZ file"),
]  # fmt: skip


@pytest.mark.parametrize("name, content, message", BAD)
def test_bad_files_are_one_sentence_and_leave_nothing(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    folder = tmp_path / "spool"
    folder.mkdir()
    for use in (
        lambda: sm.train(str(tmp_path / name), y=None if name == "a.svm" else np.array([0, 1]), spool=str(folder)),
        lambda: convert(str(tmp_path / name), str(tmp_path / "o.h5")),
        lambda: sm.train((np.eye(2), [0, 1])).model.predict(str(tmp_path / name)),
    ):
        with pytest.raises(DataError, match=message) as error:
            use()
        assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == [name, "spool"] or sorted(os.listdir(tmp_path)) == sorted([name, "spool"])
    assert os.listdir(folder) == []


def test_arrays_that_are_no_rows_are_refused(tmp_path):
    for values, message in (
        (np.zeros(4), r"has the shape \(4,\); rows must be a 2-dimensional"),
        (np.zeros((3, 0)), "has 3 rows and 0 columns"),
        (np.array([["a", "b"]]), "rows must be real numbers"),
        (np.array([[1.0, np.nan]]), "row 0, column 1 is nan"),
        (np.asfortranarray(np.eye(3)), "stored by columns, in Fortran order"),
        (np.array([[object()]]), "rows must be real numbers"),
    ):
        np.save(tmp_path / "X.npy", values, allow_pickle=True)
        with pytest.raises(DataError, match=message):
            sm.train(str(tmp_path / "X.npy"), y=np.arange(len(values)))
    np.save(tmp_path / "X.npy", np.eye(100))
    whole = (tmp_path / "X.npy").read_bytes()
    (tmp_path / "X.npy").write_bytes(whole[:-8])
    with pytest.raises(DataError, match=r"is said to be \(100, 100\) of float64"):
        sm.train(str(tmp_path / "X.npy"), y=np.arange(100) % 2)
    np.savez(tmp_path / "X.npz", X=np.eye(4), y=np.arange(3))
    with pytest.raises(DataError, match=r"y has the shape \(3,\), and there are 4 rows"):
        sm.train(str(tmp_path / "X.npz"))


def test_names_must_fit_the_matrix(tmp_path):
    X = arrays()[0]
    single_cells(tmp_path / "c", X, cells=CELLS[:-1])
    with pytest.raises(DataError, match=r"is 12 x 240, but .*barcodes.tsv.gz has 239 lines"):
        sm.train(str(tmp_path / "c"), y=arrays()[1])
    single_cells(tmp_path / "d", X)
    (tmp_path / "d" / "features.tsv.gz").unlink()
    assert sm.train(str(tmp_path / "d"), y=arrays()[1]).model.feature_names_in_ is None


def test_rows_of_another_width_are_refused(files, tmp_path):
    X, y = arrays()
    model = sm.train((X, y)).model
    svmlight(tmp_path / "wide.svm", np.hstack([X, X]), y)
    with pytest.raises(DataError, match=r"has \d+ columns or more, but the model was trained on 12"):
        model.predict(str(tmp_path / "wide.svm"))
    svmlight(tmp_path / "narrow.svm", X[:, :6], y)  # columns that no row has a value in are not in the text
    padded = np.hstack([X[:, :6], np.zeros((N, 6), np.float32)])
    np.testing.assert_array_equal(model.predict(str(tmp_path / "narrow.svm")), model.predict(padded))
    np.save(tmp_path / "n.npy", X[:, :6])
    with pytest.raises(DataError, match="has 6 columns, but the model was trained on 12"):
        model.predict(str(tmp_path / "n.npy"))


def test_options_of_tables_are_refused(files):
    with pytest.raises(UsageError, match="drop is for tables; leave it out"):
        sm.train(files["a.svm"], drop=["a"])


@pytest.mark.parametrize(
    "name, start, kind",
    [("a", "1 1:2\n-1 2:3\n", "svmlight"), ("a", "# note\n\n1 qid:1 3:1e5 # x\n", "svmlight"), ("a", "1,2\n", "csv"),
     ("a", "x;y\n", "csv"), ("a", "word\n", None), ("a", "10:30 at home, b\n", "csv"), ("a.csv", "1 1:2\n", "csv"),
     ("a.parquet", "a,b\n1,2\n", "csv"), ("a.csv", WORDS, "mtx"), ("a", "MATLAB 5.0 MAT-file, b", None),
     ("a.svm", "1\n2\n", "svmlight"), ("a", "", None), ("a.csv", "", "csv")],
)  # fmt: skip
def test_a_format_is_told_by_content_and_name(tmp_path, name, start, kind):
    (tmp_path / name).write_text(start)
    assert format_of(str(tmp_path / name)) == kind


def test_entries_in_any_order_are_the_same_matrix(tmp_path):
    """Dealt to disk, and sorted there."""
    X, y = arrays()
    matrix = sp.coo_matrix(X)
    places = list(range(matrix.nnz))
    random.Random(0).shuffle(places)
    lines = [f"{matrix.row[k] + 1} {matrix.col[k] + 1}  {matrix.data[k]!r}\n" for k in places]
    lines = [line.replace("np.float32(", "").replace(")", "") for line in lines]
    (tmp_path / "m.mtx").write_text(WORDS + f"% by hand\n{N} {D} {matrix.nnz}\n" + "".join(lines))
    model = sm.train(str(tmp_path / "m.mtx"), y=y).model
    np.testing.assert_array_equal(model.coef_, sm.train((sp.csr_matrix(X), y)).model.coef_)


def test_a_model_in_place_of_rows_is_named(tmp_path):
    model = sm.train((np.eye(2), [0, 1]), C=1.0).model
    model.save(tmp_path / "m.npz")
    for use in (sm.train, model.evaluate, model.predict):
        with pytest.raises(sm.DataError, match=r"m\.npz is a model, and has no rows; name a file of rows"):
            use(str(tmp_path / "m.npz"))
