"""`mask` takes the rows with one value in a column beside them: the same training as on these rows alone."""

import contextlib
import os
import pickle

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from reference.stopped import stop_after
from source_checks import assert_rows, random_sparse

import streammargin as sm
from streammargin.cli.main import main
from streammargin.errors import DataError, UsageError
from streammargin.reading.tasks import column_of
from streammargin.sources.open import open_source
from streammargin.stored import column_in, rows_with
from streammargin.verification.verify import verify

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")

N, D = 300, 7
RNG = np.random.default_rng(0)
TISSUE = RNG.choice(["lung", "liver", "skin"], N)
KEEP = TISSUE == "lung"
X = np.round(random_sparse(N, D).toarray() * 8)
KIND = np.where(X[:, 0] + RNG.normal(size=N) > 0, "B", "T").astype(object)
LABELS = np.where(KEEP, KIND, None)  # other rows have none


def written(path, X, tissue=TISSUE):
    obs = {
        "kind": pd.Categorical(LABELS),
        "tissue": pd.Categorical(tissue),
        "text": pd.Series(tissue.astype(object)).to_numpy(),
        "number": np.where(tissue == "lung", 2, 5),
        "flag": tissue == "lung",
        "nullable": pd.array([2 if one == "lung" else None for one in tissue], dtype="Int64"),
        "gaps": pd.Categorical([one if one == "lung" else None for one in tissue]),
        "donor": pd.Categorical(np.array(list("abcd"))[np.arange(N) % 4]),
    }
    frame = pd.DataFrame(obs, index=[f"cell-{i}" for i in range(N)])
    anndata.AnnData(X, obs=frame).write_h5ad(path)
    return str(path)


@pytest.fixture(scope="module", params=[np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def cells(request, tmp_path_factory):
    return written(tmp_path_factory.mktemp("cells") / "cells.h5ad", request.param(X))


MASKS = ["tissue=lung", "text=lung", "number=2", "number=2.0", "flag=True", "flag=true", "nullable=2", "gaps=lung"]


@pytest.mark.parametrize("mask", MASKS)
def test_rows(cells, mask):
    with open_source(cells, y="obs/kind", mask=f"obs/{mask}") as source:
        assert_rows(source, X[KEEP], (0, 1, 50, source.rows))
        assert np.concatenate(list(source.labels(chunk=16))).tolist() == KIND[KEEP].tolist()
        assert source.place(3) == (cells, np.flatnonzero(KEEP)[3])


def test_rows_of_many_pieces(cells, monkeypatch):
    monkeypatch.setattr("streammargin.sources.masked.MASKED_BYTES", 256)
    monkeypatch.setattr("streammargin.sources.masked.SOME", 16)
    with open_source(cells, y="obs/kind", sample_weight="obs/number", mask="obs/tissue=liver") as source:
        assert_rows(source, X[TISSUE == "liver"], (0, 5, source.rows))
        weights = source.sample_weight()
        assert np.array_equal(weights[3:40], np.full(37, 5.0)) and len(weights) == source.rows


@pytest.mark.parametrize("options", [{"C": 0.1}, {"C": [0.1, 1.0], "cv": "4,by=obs/donor"}, {"C": 0.1, "valid": "20%"}])
def test_the_same_training(cells, tmp_path, options):
    """Bits, certificate and held-out errors are those of the rows alone."""
    found = sm.train(cells, y="obs/kind", mask="obs/tissue=lung", **options)
    alone = X[KEEP]
    with open_source(cells) as whole:
        rows = sp.csr_matrix(alone) if whole.sparse else alone
    if "cv" in options:
        groups = np.array(list("abcd"))[np.arange(N) % 4][KEEP]
        path = tmp_path / "alone.h5ad"
        frame = pd.DataFrame(
            {"kind": pd.Categorical(KIND[KEEP]), "donor": pd.Categorical(groups)},
            index=np.arange(KEEP.sum()).astype(str),
        )
        anndata.AnnData(rows, obs=frame).write_h5ad(path)
        expected = sm.train(str(path), y="obs/kind", **options)
        assert np.array_equal(found.cross_validation.errors, expected.cross_validation.errors)
    else:
        expected = sm.train((rows, KIND[KEEP].astype(str)), **options)
    assert np.allclose(found.model.coef_, expected.model.coef_, rtol=0, atol=1e-12)
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-12)
    model = tmp_path / "model.npz"
    found.model.save(model)
    assert all(check.agrees is not False for check in verify(model, cells))
    figures = found.model.evaluate(cells, mask="obs/tissue=lung")
    assert figures["rows"] == KEEP.sum()
    assert figures["mistakes"] == np.count_nonzero(found.model.predict(alone) != KIND[KEEP])


def test_held_out_rows_are_chosen_too(cells):
    found = sm.train(cells, y="obs/kind", mask="obs/tissue=lung", valid=cells, C=0.1)
    assert found.certificate.valid_error == pytest.approx(found.certificate.train_error)


def test_shards_without_such_rows_are_left_out(cells, tmp_path):
    other = written(tmp_path / "none.h5ad", X, np.full(N, "skin"))
    with open_source([other, cells, cells], y="obs/kind", mask="obs/tissue=lung") as source:
        assert source.rows == 2 * KEEP.sum()
        opened = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        assert cells in opened and other not in opened
        assert source.place(source.rows - 1) == (cells, np.flatnonzero(KEEP)[-1])


def test_prediction(cells, tmp_path, capsys):
    model = tmp_path / "model.npz"
    sm.train(cells, y="obs/kind", mask="obs/tissue=lung", C=0.1).model.save(model)
    assert main(["predict", str(model), cells, "--mask", "obs/tissue=skin", "--id", "obs/donor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    donors = np.array(list("abcd"))[np.arange(N) % 4][TISSUE == "skin"]
    assert [line.split("\t")[0].split(",")[0] for line in lines[-len(donors) :]] == donors.tolist()


def test_resumes_to_the_same_bits(cells, tmp_path):
    options = {"y": "obs/kind", "mask": "obs/tissue=lung", "C": 0.01, "solver": "sdca", "tol": 1e-4}
    whole = sm.train(cells, checkpoint=str(tmp_path / "whole"), **options)  # kernels are compiled, as in the others
    folder = str(tmp_path / "checkpoint")
    sm.train(cells, checkpoint=folder, checkpoint_seconds=1e-9, should_stop=stop_after(2), **options)
    resumed = sm.train(cells, checkpoint=folder, **options)
    assert np.array_equal(resumed.model.coef_, whole.model.coef_)


@pytest.mark.parametrize(
    ("mask", "error", "said"),
    [
        ("tissue", UsageError, "must be COLUMN=VALUE"),
        ("obs/tissue=bone", DataError, "no row of .* has obs/tissue=bone"),
        ("obs/organ=lung", DataError, "no values under the name obs/organ"),
        ("obs/number=two", DataError, "no row of"),
    ],
)
def test_refused(cells, mask, error, said):
    with pytest.raises(error, match=said):
        sm.train(cells, y="obs/kind", mask=mask)


@pytest.mark.parametrize("name", ["y", "sample_weight", "tasks"])
def test_columns_that_are_no_columns_of_the_files_are_refused(cells, name):
    with pytest.raises(UsageError, match="with mask, labels, weights and tasks are columns of the files"):
        sm.train(cells, mask="obs/tissue=lung", **{"y": "obs/kind", name: np.ones(N)})


def test_other_data_are_refused(tmp_path):
    with pytest.raises(UsageError, match="mask is for HDF5 files"):
        sm.train((X, KIND.astype(str)), mask="obs/tissue=lung")
    table = tmp_path / "table.csv"
    table.write_text("a,y\n1,0\n2,1\n")
    with pytest.raises(UsageError, match="mask is for HDF5 files"):
        sm.train(str(table), y="y", mask="a=1")


@pytest.fixture
def rows(tmp_path):
    """Rows that are sorted by two numbers; those of the last half have weights, and a kind."""
    path, later = str(tmp_path / "rows.h5"), np.arange(N) >= N // 2
    with h5py.File(path, "w") as file:
        file["X"], file["y"], file["donor"] = X, KIND == "B", np.arange(N) % 4
        file["dose"] = np.where(later, 0.1, 0.2).astype(np.float32)
        file["large"] = 2**53 + later.astype(np.int64)
        for name, values in (("kind", KIND == "B"), ("weight", np.ones(N))):
            file[f"{name}/values"], file[f"{name}/mask"] = values, ~later
    return path, later


@pytest.mark.parametrize("mask", ["dose=0.1", "large=9007199254740993"])
def test_numbers_are_the_same_to_verify(rows, tmp_path, mask):
    """A number equals its text in the column's type; blocks may have none of the rows."""
    path, later = rows
    with h5py.File(path) as file:
        assert rows_with(file, mask).tolist() == later.tolist()
    sm.train(path, mask=mask, C=0.1).model.save(tmp_path / "model.npz")
    checks = verify(tmp_path / "model.npz", path, memory=1 << 14)
    assert checks[0].found == later.sum() and all(check.agrees is not False for check in checks)
    with h5py.File(path, "r+") as file:
        file["dose"][:], file["large"][:] = 0.0, 0
    with pytest.raises(DataError, match=f"no row of .* has {mask}"):
        verify(tmp_path / "model.npz", path)


def test_missing_values_of_other_rows(rows):
    path, later = rows
    with open_source(path, y="kind", sample_weight="weight", mask="dose=0.1") as source:
        assert {labels.dtype.kind for labels in source.labels()} == {"b"}
        weights = pickle.loads(pickle.dumps(source.sample_weight()))
        assert np.array_equal(weights[0 : len(weights)], np.ones(later.sum()))


@pytest.fixture
def apart(rows, tmp_path):
    """The rows, and a mask in another file."""
    path, later = rows
    with h5py.File(tmp_path / "beside.h5", "w") as file:
        file["half"] = np.where(later, "later", "first").astype(object)
    np.save(tmp_path / "half.npy", later)
    return path, later, str(tmp_path / "beside.h5")


def test_a_mask_in_another_file(apart, tmp_path):
    path, later, beside = apart
    for mask in (f"{beside}:half=later", f"{tmp_path / 'half.npy'}=true"):
        sm.train(path, mask=mask, C=0.1).model.save(tmp_path / "model.npz", force=True)
        checks = verify(tmp_path / "model.npz", path)
        assert checks[0].found == later.sum() and all(check.agrees is not False for check in checks)


def test_a_mask_that_changed_is_another_training(apart, tmp_path):
    path, later, beside = apart
    options = {"mask": f"{beside}:half=later", "solver": "sdca", "C": 0.01, "checkpoint": str(tmp_path / "checkpoint")}
    sm.train(path, checkpoint_seconds=1e-9, should_stop=stop_after(2), **options)
    with h5py.File(beside, "r+") as file:
        one = int(np.flatnonzero((KIND[N // 2] == KIND) & ~later)[-1])  # it takes the first place: all labels stay
        file["half"][one], file["half"][N // 2] = "later", "first"
    with pytest.raises(DataError, match=r"some of the rows .* changed since this training read them"):
        sm.train(path, **options)
    with open_source(path, mask=options["mask"]) as source:
        os.utime(beside, ns=(1, 1))
        with pytest.raises(DataError, match=r"beside\.h5 was changed"):
            source.check_unchanged()


def test_the_file_of_a_mask_is_not_written(apart):
    path, _, beside = apart
    assert main(["train", path, "--mask", f"{beside}:half=later", "-o", beside, "--force", "-q"]) == 2


def test_a_new_label_is_named_by_its_row_in_the_file(rows, tmp_path):
    path, _ = rows
    sm.train(path, mask="dose=0.1", C=0.1).model.save(tmp_path / "model.npz")
    with h5py.File(path, "r+") as file:
        labels = file["y"][:].astype(int)
        labels[N - 20] = 7
        del file["y"]
        file["y"] = labels
    with pytest.raises(DataError, match=f"the label of row {N - 20} is new"):
        verify(tmp_path / "model.npz", path)


def test_labels_that_no_row_has(rows, tmp_path):
    """Categories may be an empty list, if no row that is taken has one."""
    path, later = rows
    with h5py.File(path, "r+") as file:
        file["none/codes"] = np.full(N, -1, np.int8)
        file["none"]["categories"] = np.empty(0, h5py.string_dtype())
        file["none"].attrs["encoding-type"] = "categorical"
    with open_source(path, y="none", mask="dose=0.1") as source:
        with pytest.raises(DataError, match=f"row {N // 2} has no value"):
            list(source.labels())
        assert len(source.source.labels_as(np.asarray)[0:9]) == 9
    with h5py.File(path) as file:
        assert not rows_with(file, "none=7").any() and len(column_in(file, "none", later)[0:9]) == 9


def test_groups_of_several_files(rows):
    path, later = rows
    with open_source([path, path], mask="dose=0.1") as source, contextlib.ExitStack() as stack:
        column = column_of(stack, "donor", [path, path], None, source)
        assert np.concatenate(list(column.labels())).tolist() == [*(np.arange(N) % 4)[later]] * 2
