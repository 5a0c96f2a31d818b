"""Files that anndata itself wrote, read as they are."""

import re

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from source_checks import all_labels, assert_rows, random_sparse

import streammargin as sm
from streammargin.sources.open import open_source
from streammargin.verification.verify import verify

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")

CELLS, GENES = 40, 12
CUTS = (3, 4, 19)
KIND = ["T", "B", "NK", "B"] * 10


def cells(X):
    obs = pd.DataFrame(
        {
            "kind": pd.Categorical(KIND),
            "text": pd.Series([f"{k}-{i}" for i, k in enumerate(KIND)], dtype=object).to_numpy(),
            "number": np.arange(CELLS) % 2,
            "dose": pd.Categorical(np.where(np.arange(CELLS) % 2, 0.5, 2.0)),
            "treated": np.arange(CELLS) % 3 == 0,
            "nullable": pd.array(np.arange(CELLS) % 2, dtype="Int64"),
            "gaps": pd.array([1, None] * (CELLS // 2), dtype="Int64"),
            "unknown": pd.Categorical([None if i == 7 else k for i, k in enumerate(KIND)]),
        },
        index=[f"cell-{i}" for i in range(CELLS)],
    )
    return anndata.AnnData(X, obs=obs, var=pd.DataFrame(index=[f"gene-{j}" for j in range(GENES)]))


@pytest.fixture(scope="module")
def h5ad(tmp_path_factory):
    """Writes an AnnData and returns the path."""
    folder = tmp_path_factory.mktemp("h5ad")

    def write(data, name="cells", **options):
        path = folder / f"{name}.h5ad"
        data.write_h5ad(path, **options)
        return str(path)

    return write


@pytest.mark.parametrize("compression", [None, "gzip", "lzf"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_rows(h5ad, compression, container, dtype):
    X = random_sparse(CELLS, GENES, dtype=dtype).toarray()
    with open_source(h5ad(cells(container(X)), compression=compression), y="obs/kind") as source:
        assert source.sparse == (container is not np.asarray)
        assert_rows(source, X, CUTS)


def test_labels_of_obs(h5ad, tmp_path):
    data = cells(random_sparse(CELLS, GENES))
    path = h5ad(data)
    for name in ("kind", "text", "number", "dose", "treated", "nullable"):
        with open_source(path, y=f"obs/{name}") as source:
            np.testing.assert_array_equal(all_labels(source), data.obs[name].to_numpy())
    for name, row in (("gaps", 1), ("unknown", 7)):
        with open_source(path, y=f"obs/{name}") as source, pytest.raises(sm.DataError) as found:
            all_labels(source)
        lacking = rf"cells\.h5ad: obs/{name}: row {row} has no value.*; drop the.*, in anndata by (.*), or give "
        code = re.match(rf".*{lacking}", str(found.value))[1]
        eval(code.replace("kept", str(tmp_path / name)), {"cells": data})
        with open_source(str(tmp_path / f"{name}.h5ad"), y=f"obs/{name}") as source:
            assert len(all_labels(source)) == source.rows == data.obs[name].notna().sum()
    with open_source(path, y="obs") as source, pytest.raises(sm.DataError, match='y="obs/NAME"'):
        all_labels(source)
    with open_source(path) as source:
        assert not source.has_labels()


def test_labels_that_pandas_lacks():
    labels = pd.Series(["a", pd.NA, "b"], dtype="string")
    with pytest.raises(sm.DataError, match="row 1 has no label"):
        sm.train((np.eye(3), labels))


def test_categories_of_old_files(h5ad):
    path = h5ad(cells(random_sparse(CELLS, GENES)), "old")
    with h5py.File(path, "r+") as file:  # anndata 0.7: codes that refer to their categories
        codes, categories = file["obs/kind/codes"][:], file["obs/kind/categories"][:]
        del file["obs/kind"]
        file["obs/__categories/kind"] = categories
        file["obs/kind"] = codes
        file["obs/kind"].attrs["categories"] = file["obs/__categories/kind"].ref
    with open_source(path, y="obs/kind") as source:
        assert all_labels(source).tolist() == KIND
    saved = path.replace(".h5ad", ".npz")
    sm.train(path, y="obs/kind", passes=3).model.save(saved)
    assert all(check.agrees is not False for check in verify(saved, path))


def test_training_and_layers(h5ad):
    data = cells(random_sparse(CELLS, GENES))
    data.layers["other"] = random_sparse(CELLS, GENES, seed=5)
    path = h5ad(data, "layers")
    assert sm.train(path, y="obs/kind", passes=1).model.classes_.tolist() == ["B", "NK", "T"]
    with open_source(path, x="layers/other") as source:
        assert_rows(source, data.layers["other"].toarray(), CUTS)


def test_a_table_in_one_dataset_is_told(tmp_path):
    """What anndata wrote before 0.7: obs is one dataset of records."""
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        file["X"] = np.arange(12.0).reshape(6, 2)
        file["obs"] = np.zeros(6, [("index", "S1"), ("kind", "i1"), ("batch", "i4")])
    again = "if anndata before 0.7 wrote it, read and write it with a newer one"
    path = str(tmp_path / "old.h5ad")
    for y, words in (("obs", "is a table of index, kind, batch"), ("obs/kind", "obs is a table in one dataset")):
        with open_source(path, y=y) as source, pytest.raises(sm.DataError, match=f"{words}; {again}"):
            all_labels(source)


def test_a_bare_name_is_a_column_of_obs_where_nothing_else_has_it(h5ad):
    path = h5ad(cells(random_sparse(CELLS, GENES)), "bare")
    for name in (path + ":kind", "kind"):
        with open_source(path, y=name) as source:
            assert all_labels(source).tolist() == KIND
    with h5py.File(path, "r+") as file:
        file["kind"] = np.arange(CELLS) % 2
    with open_source(path, y="kind") as source:
        assert all_labels(source).tolist() == [0, 1] * (CELLS // 2)


def test_what_could_be_labels_is_listed(h5ad):
    path = h5ad(cells(random_sparse(CELLS, GENES)), "listed")
    with h5py.File(path, "r+") as file:
        file["extra"], file["table"] = np.zeros(CELLS), np.zeros((CELLS, 2))
        file["lost"] = h5py.SoftLink("/nowhere")
    listed = "extra, " + ", ".join(f"obs/{name}" for name in sorted(cells(np.eye(CELLS, GENES)).obs))
    for y in ("cell_type", f"{path}:cell_type"):
        with open_source(path, y=y) as source, pytest.raises(sm.DataError, match=f"labels could be {listed}; name one"):
            all_labels(source)
