"""Labels and weights of a table that lie outside it: in an array, a .npy, a dataset, or a column of another table."""

from __future__ import annotations

import os
import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
import scipy.io
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

import streammargin as sm
from streammargin.cli.main import main
from streammargin.errors import DataError, InputMissingError, UsageError

N, D = 240, 3
RNG = np.random.default_rng(4)
X = RNG.standard_normal((N, D)).astype(np.float32)
WORDS = np.where(X @ [2.0, -1.0, 0.5] + RNG.standard_normal(N) > 0, "007", "7")
WEIGHTS = RNG.random(N)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), D)
    table = pa.table({"emb": lists})
    pq.write_table(table, "emb.parquet")
    pyarrow.feather.write_feather(table, "emb.arrow")
    np.savetxt("emb.csv", X, fmt="%.9g", delimiter=",", header="a,b,c", comments="")
    np.save("emb.npy", X)
    np.save("kind.npy", WORDS)
    pq.write_table(pa.table({"name": [str(k) for k in range(N)], "kind": WORDS, "w": WEIGHTS}), "beside.parquet")
    with open("beside.csv", "w") as file:
        file.write("kind\n" + "".join(f"{word}\n" for word in WORDS))
    with h5py.File("beside.h5", "w") as file:
        file["kind"] = WORDS.astype("S")


PLACES = ["kind.npy", "beside.parquet:kind", "beside.csv:kind", "beside.h5:kind", WORDS]


@pytest.mark.parametrize("data", ["emb.parquet", "emb.arrow", "emb.csv", "emb.npy"])
def test_labels_of_another_file_are_taken_in_the_order_of_the_rows(files, data):
    expected = sm.train((X, WORDS), C=0.1, sample_weight=WEIGHTS).model
    for y in PLACES:
        weight = WEIGHTS if isinstance(y, np.ndarray) else "beside.parquet:w"
        model = sm.train(data, y=y, C=0.1, sample_weight=weight).model
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert model.classes_.tolist() == ["007", "7"]
        assert model.evaluate(data, y=y)["accuracy"] == np.mean(expected.predict(X) == WORDS)
        assert model.predict(data).tolist() == expected.predict(X).tolist()


@pytest.mark.parametrize("data", ["emb.parquet", "emb.npy"])
def test_as_many_labels_as_rows(files, data):
    model = sm.train((X, WORDS)).model
    for wrong in (WORDS[:-1], np.append(WORDS, "7")):
        np.save("wrong.npy", wrong)
        pq.write_table(pa.table({"kind": wrong}), "wrong.parquet")
        for y in ("wrong.npy", "wrong.parquet:kind", wrong):
            with pytest.raises(DataError, match=rf"{len(wrong)}.* {data} has"):
                sm.train(data, y=y)
            with pytest.raises(DataError, match=rf"{len(wrong)}.* {data} has"):
                model.evaluate(data, y=y)
    with pytest.raises(DataError, match=r"beside.parquet has no column nix of labels; it has name, kind, w"):
        sm.train(data, y="beside.parquet:nix")
    with pytest.raises(InputMissingError, match=r"nix\.npy"):
        sm.train(data, y="nix.npy")


def test_held_out_tables_have_no_labels_then(files):
    with pytest.raises(UsageError, match=r"`y` has labels only of the training rows|y has labels only"):
        sm.train("emb.parquet", y="kind.npy", valid="emb.arrow", spool="s")
    assert not os.path.exists("s")  # before a row is read
    assert sm.train("emb.parquet", y="kind.npy", valid="20%").model.classes_.tolist() == ["007", "7"]


def test_held_out_rows_never_take_the_labels_of_the_training_rows(files, capsys):
    assert main(["train", "emb.parquet", "--y", "kind.npy", "-o", "m.npz"]) == 0
    assert main(["verify", "m.npz", "emb.parquet", "--valid", "emb.arrow"]) == 2
    assert "emb.arrow has held-out rows, and the labels of m.npz were in no column" in capsys.readouterr().err
    np.savez("valid.npz", X=X[:100], y=WORDS[:100])
    command = ["train", "emb.npy", "--y", "kind.npy", "--valid", "valid.npz", "-o", "n.npz", "--report", "r.html"]
    assert main(command) == 0
    assert "no figures" not in capsys.readouterr().err


@pytest.mark.parametrize("data", ["emb.parquet", "emb.npy"])
def test_one_weight_for_all_rows_is_refused_in_words_of_the_data(files, data):
    with pytest.raises(DataError, match=rf"^sample_weight is 1.5, one number for all {N} rows of {data}; give one for"):
        sm.train(data, y="kind.npy", sample_weight=1.5)


def test_a_missing_weight_is_called_so(files):
    pq.write_table(pa.table({"w": [None, *WEIGHTS[1:]]}), "gap.parquet")
    with pytest.raises(DataError, match=r"gap.parquet, row 0: the weight is missing; .* give it a weight"):
        sm.train("emb.npy", y="kind.npy", sample_weight="gap.parquet:w")


def test_a_column_of_this_name_comes_first(files):
    table = pq.read_table("emb.parquet").append_column("kind.npy", pa.array(WORDS[::-1]))
    pq.write_table(table.append_column("label", pa.array(np.zeros(N))), "both.parquet")
    expected = sm.train((X, WORDS[::-1])).model
    np.testing.assert_array_equal(sm.train("both.parquet", y="kind.npy", drop="label").model.coef_, expected.coef_)


def test_a_spool_is_used_again_while_the_labels_stay(files, capsys):
    command = [
        "train",
        "emb.parquet",
        "--y",
        "kind.npy",
        "--sample-weight",
        "beside.parquet:w",
        "-o",
        "m.npz",
        "--spool",
        "s",
    ]
    assert main(command) == 0
    assert main([*command, "--force"]) == 0
    assert "nothing has changed" in capsys.readouterr().err
    first = sm.load_model("m.npz").coef_
    assert main(["verify", "m.npz", "emb.parquet"]) == 0
    np.save("kind.npy", WORDS[::-1])
    assert main([*command, "--force"]) == 0
    assert "nothing has changed" not in capsys.readouterr().err
    assert not np.array_equal(sm.load_model("m.npz").coef_, first)
    sm.train("emb.parquet", y=WORDS).model.save("array.npz")
    assert main(["verify", "array.npz", "emb.parquet"]) == 2
    assert "were an array; name them with --y" in capsys.readouterr().err
    np.save("kind.npy", WORDS)
    assert main(["verify", "array.npz", "emb.parquet", "--y", "kind.npy"]) == 0


def _save_shards():
    """Six files of the same rows in two shards each, by their names."""
    half = N // 2
    for k, part in enumerate((slice(0, half), slice(half, N))):
        np.save(f"{k}.npy", X[part])
        np.savez(f"{k}.npz", X=X[part])
        safetensors.numpy.save_file({"X": X[part]}, f"{k}.safetensors")
        sp.save_npz(f"{k}.sparse.npz", sp.csr_matrix(X[part]))
        scipy.io.mmwrite(f"{k}.mtx", sp.coo_matrix(X[part]), precision=9)
        dump_svmlight_file(X[part], np.zeros(half), f"{k}.svm", zero_based=False)
    endings = ".npy", ".npz", ".safetensors", ".sparse.npz", ".mtx", ".svm"
    return [[f"{k}{ending}" for k in (0, 1)] for ending in endings]


def test_labels_of_several_files_go_on_from_one_to_the_next(files):
    expected, half = sm.train((X, WORDS), C=0.1, sample_weight=WEIGHTS).model, N // 2
    np.save("w.npy", WEIGHTS)
    np.save("half.npy", WORDS[:half])
    np.save("half.w.npy", WEIGHTS[:half])
    pq.write_table(pa.table({"kind": WORDS[:half]}), "half.parquet")
    for shards in _save_shards():
        by_order = not shards[0].endswith(".mtx")  # those of a table go by the names of its rows
        for y in ("kind.npy", "beside.h5:kind", *(["beside.csv:kind"] if by_order else [])):
            model = sm.train(shards, y=y, C=0.1, sample_weight="w.npy").model
            np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-5)
            assert model.classes_.tolist() == ["007", "7"]
        assert model.evaluate(shards, y="kind.npy")["accuracy"] == np.mean(expected.predict(X) == WORDS)
        for y in ("half.npy", *(["half.parquet:kind"] if by_order else [])):
            with pytest.raises(DataError, match=rf"has {half} labels, fewer than {shards[0]} and 1 more has rows"):
                sm.train(shards, y=y)
        with pytest.raises(DataError, match=rf"half.w.npy has {half} weights, fewer than {shards[0]} and 1 more"):
            sm.train(shards, y="kind.npy", sample_weight="half.w.npy")


@pytest.mark.filterwarnings("ignore:Writing zarr v2")
def test_labels_of_another_file_are_not_masked_with_several_files(files):
    made = anndata.AnnData(X, pd.DataFrame({"kind": WORDS}, index=[str(k) for k in range(N)]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what the next versions write
        made.write_zarr("one.zarr")
        made.write_zarr("two.zarr")
    with pytest.raises(UsageError, match=r"with several files, `?y`? must name"):
        sm.train(["one.zarr", "two.zarr"], y="kind.npy", mask="obs/kind=7")
