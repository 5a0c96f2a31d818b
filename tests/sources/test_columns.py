"""Files whose columns differ: matched by name, and those that all have, that any has, or that are named."""

import warnings

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import traced, write_h5
from reference.stopped import stop_after
from sklearn.datasets import dump_svmlight_file
from source_checks import assert_rows

import streammargin as sm
from streammargin.cli.main import main
from streammargin.data_tools.main import main as data_main
from streammargin.errors import DataError, UsageError
from streammargin.sources import columns
from streammargin.sources.open import open_source
from streammargin.verification.verify import verify

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")

N, D = 90, 12
RANDOM = np.random.default_rng(0)
GENES = np.array([f"gene {j}" for j in range(D)])
COUNTS = RANDOM.poisson(0.7, (3 * N, D)).astype(np.float32)
KIND = np.where(COUNTS[:, 5] + RANDOM.normal(size=3 * N) > 0.7, "B", "T")
PARTS = [np.arange(D), RANDOM.permutation(D), RANDOM.permutation(D)]  # the same genes, in other orders
OTHERS = [np.r_[3:9, 1], np.r_[8:1:-1], np.r_[5, 4, 9:12, 7]]  # which the files have, by number
CHOSEN = {"common": [4, 5, 7], "all": [3, 4, 5, 6, 7, 8, 1, 2, 9, 10, 11]}
WAYS = {"C": 0.1, "tol": 1e-6, "solver": "sdca"}


def joined(parts, word):
    """The rows as they are to be."""
    rows = []
    for k, part in enumerate(parts):
        here = np.zeros((N, D), np.float32)
        here[:, part] = COUNTS[k * N : (k + 1) * N, part]
        rows.append(here[:, PARTS[0] if word is None else CHOSEN[word]])
    return np.concatenate(rows)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A function that writes the files with these genes."""
    folder, made = tmp_path_factory.mktemp("files"), {}

    def written(parts, form, kind="h5ad", names=GENES):
        if kind == "zarr":
            pytest.importorskip("zarr")
        paths = []
        for k, part in enumerate(parts):
            path = folder / f"{form.__name__}-{'-'.join(map(str, part))}-{len(set(names))}-{k}.{kind}"
            if path not in made:
                rows = slice(k * N, (k + 1) * N)
                obs = pd.DataFrame({"kind": pd.Categorical(KIND[rows]), "row": np.arange(3 * N)[rows] % 2},
                                   index=[f"cell {row}" for row in range(N)])  # fmt: skip
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    data = anndata.AnnData(form(COUNTS[rows, part]), obs=obs, var=pd.DataFrame(index=names[part]))
                    getattr(data, f"write_{kind}")(str(path))
                made[path] = True
            paths.append(str(path))
        return paths

    return written


KINDS = pytest.mark.parametrize("kind", ["h5ad", "zarr"])
FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
WORDS = pytest.mark.parametrize("parts, word", [(PARTS, None), (OTHERS, "common"), (OTHERS, "all")])


@FORMS
@WORDS
@pytest.mark.parametrize("piece", [4, 100, 1 << 20])
def test_rows(files, form, parts, word, piece, monkeypatch):
    monkeypatch.setattr(columns, "IN_ORDER", piece)
    expected = joined(parts, word)
    with open_source(files(parts, form), y="obs/kind", columns=word) as source:
        assert source.feature_names().tolist() == GENES[PARTS[0] if word is None else CHOSEN[word]].tolist()
        assert_rows(source, expected, (0, 1, 40, N, N + 7, source.rows))
        assert source.nnz >= np.count_nonzero(expected) and source.names_bytes() > 0


@FORMS
@WORDS
@KINDS
def test_the_same_training(files, form, parts, word, kind, tmp_path):
    """As on the joined rows, in every plan and on several threads; verify agrees, and so do all commands."""
    paths, rows, model = files(parts, form, kind), form(joined(parts, word)), tmp_path / "model.npz"
    ways = {"y": "obs/kind", "transform": "total:100,log1p", "columns": word, **WAYS}
    found = sm.train(paths, **ways)
    expected = sm.train((rows, KIND), transform="total:100,log1p", **WAYS)
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-5)
    several, one = (sm.train(paths, threads=threads, **ways).model.coef_ for threads in (2, 1))
    assert np.array_equal(several, one)  # by now kernels are compiled, from when on bits are promised
    found.model.save(model)
    assert found.model.evaluate(paths, y="obs/kind")["mistakes"] == found.model.evaluate((rows, KIND))["mistakes"]
    assert main(["verify", str(model), *paths, "--y", "obs/kind"]) == 0


@FORMS
def test_resumes_to_the_same_bits(files, form, tmp_path):
    paths, folder = files(OTHERS, form), str(tmp_path / "checkpoint")
    ways = {**WAYS, "C": 10.0, "y": "obs/kind", "columns": "all", "memory": "24M"}
    sm.train(paths, checkpoint=folder, should_stop=stop_after(3), checkpoint_seconds=1e-9, **ways)
    with pytest.raises(DataError, match="the data have 3 features, not the 11 of the unfinished training"):
        sm.train(paths, checkpoint=folder, **{**ways, "columns": "common"})
    resumed = sm.train(paths, checkpoint=folder, **ways)
    assert np.array_equal(resumed.model.coef_, sm.train(paths, **ways).model.coef_)


@FORMS
@KINDS
def test_other_files_have_other_columns(files, form, kind, tmp_path, caplog):
    """A model of what is in common leaves other columns out; a model of all takes missing ones as 0."""
    paths, [whole] = files(OTHERS, form, kind), files([PARTS[1]], form, kind)
    for word, parts in CHOSEN.items():
        found = sm.train(paths, y="obs/kind", columns=word, transform="total:100", valid=whole, **WAYS)
        model, rows = found.model, COUNTS[:N, parts]
        expected = model.evaluate((form(rows), KIND[:N]))
        assert found.certificate.valid_error == pytest.approx(1.0 - expected["accuracy"])
        assert model.evaluate(whole, y="obs/kind")["loss"] == pytest.approx(expected["loss"], rel=1e-6)
        assert "that the model does not know" in caplog.text and "they are left out" in caplog.text
        model.save(tmp_path / "model.npz", force=True)
        assert main(["verify", str(tmp_path / "model.npz"), *paths, "--y", "obs/kind", "--valid", whole]) == 0
    assert model.evaluate(paths[2], y="obs/kind")["rows"] == N and "they count as 0" in caplog.text
    with pytest.raises(DataError, match="has none of the model's 3 columns"):
        few = files([[0, 1, 2]], form, kind)
        sm.train(paths, y="obs/kind", columns="common", **WAYS).model.evaluate(few, y="obs/kind")


@KINDS
def test_files_whose_layers_have_other_columns(files, kind, tmp_path):
    """A model of a layer scores files that differ as the training found them."""
    paths, layers = files(OTHERS, sp.csr_matrix, kind), []
    for k, path in enumerate(paths):
        data = getattr(anndata, f"read_{kind}")(path)
        data.layers["counts"] = data.X
        layers.append(str(tmp_path / f"{k}.{kind}"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(data, f"write_{kind}")(layers[-1])
    for word in CHOSEN:
        ways = {"y": "obs/kind", "columns": word, **WAYS}
        model, whole = sm.train(layers, x="layers/counts", **ways).model, sm.train(paths, **ways).model
        np.testing.assert_array_equal(model.predict(layers), whole.predict(paths))
        assert model.evaluate(layers, y="obs/kind") == whole.evaluate(paths, y="obs/kind")


@FORMS
@KINDS
@pytest.mark.parametrize("parts", [OTHERS, OTHERS[:1]])
def test_chosen_columns(files, form, kind, parts, tmp_path, capsys):
    """As on rows of these alone: in their order, of several files or one; all commands find them by name."""
    paths, chosen, model = files(parts, form, kind), [7, 4, 5], str(tmp_path / "model.npz")
    rows, y = form(COUNTS[: N * len(parts), chosen]), KIND[: N * len(parts)]
    ways = {"transform": "total:100,log1p", **WAYS}
    expected = sm.train((rows, y), **ways)
    options = ["--y", "obs/kind", "--transform", "total:100,log1p", "-C", "0.1", "--tol", "1e-6", "--solver", "sdca"]
    names, held_out = GENES[chosen].tolist(), ["--valid", files([PARTS[1]], form, kind)[0]]
    assert main(["train", *paths, *options, *held_out, "--columns", ",".join(names), "-o", model, "-q"]) == 0
    found = sm.load_model(model)
    assert found.feature_names_in_.tolist() == names
    assert np.allclose(found.coef_, expected.model.coef_, rtol=1e-4)
    assert found.evaluate(paths, y="obs/kind")["mistakes"] == expected.model.evaluate((rows, y))["mistakes"]
    assert main(["verify", model, *paths, "--y", "obs/kind", *held_out]) == 0
    capsys.readouterr()
    assert main(["predict", model, *paths]) == 0
    assert capsys.readouterr().out.split() == found.predict(rows).tolist()


def test_other_names_are_another_training(files, tmp_path):
    paths, folder = files(OTHERS[:1], np.asarray), str(tmp_path / "checkpoint")
    ways = {**WAYS, "C": 10.0, "y": "obs/kind", "memory": "24M"}
    stop = {"should_stop": stop_after(3), "checkpoint_seconds": 1e-9}
    sm.train(paths, checkpoint=folder, columns=["gene 4", "gene 5"], **stop, **ways)
    with pytest.raises(UsageError, match=r"unfinished training with columns \['gene 4', 'gene 5'\], not"):
        sm.train(paths, checkpoint=folder, columns=["gene 4", "gene 7"], **ways)
    resumed = sm.train(paths, checkpoint=folder, columns=["gene 4", "gene 5"], **ways)
    whole = sm.train(paths, columns=["gene 4", "gene 5"], **ways)
    assert np.array_equal(resumed.model.coef_, whole.model.coef_)


def test_columns_and_a_mask(files):
    paths = files(OTHERS, sp.csr_matrix)
    with open_source(paths, y="obs/kind", mask="row=1", columns="common") as source:
        assert_rows(source, joined(OTHERS, "common")[1::2], (0, 40, source.rows))
        assert np.concatenate(list(source.labels())).tolist() == KIND[1::2].tolist()


@KINDS
def test_a_file_without_rows_has_no_columns_to_match(files, kind, tmp_path):
    [other], paths = files([[0, 11]], sp.csr_matrix, kind), files(OTHERS, sp.csr_matrix, kind)
    if kind == "zarr":
        pytest.importorskip("zarr").open(other, mode="r+")["obs/row"][:] = 7
    else:
        with h5py.File(other, "r+") as file:
            file["obs/row"][:] = 7
    ways = {"y": "obs/kind", "mask": "row=1", "columns": "common", **WAYS}
    found = sm.train([other, *paths], **ways)
    found.model.save(tmp_path / "model.npz")
    assert found.model.header["rows"] == 3 * N // 2
    assert main(["verify", str(tmp_path / "model.npz"), other, *paths, "--y", "obs/kind"]) == 0


@WORDS
def test_the_model_of_an_open_source_knows_what_that_chose(files, parts, word, tmp_path):
    """So it scores the same files, and verify reads the same rows."""
    paths, model = files(parts, sp.csr_matrix), str(tmp_path / "model.npz")
    with open_source(paths, y="obs/kind", mask="row=1", columns=word) as source:
        sm.train(source, **WAYS).model.save(model)
    assert main(["verify", model, *paths, "--y", "obs/kind"]) == 0
    assert sm.load_model(model).evaluate(paths, y="obs/kind")["rows"] == 3 * N


def test_verify_counts_the_columns_of_all_files(tmp_path):
    """A file of few columns takes no more memory than one that has all."""
    paths, many = [], np.array([f"gene {j}" for j in range(1000)])
    for k, names in enumerate((many, many[:10])):
        rows = np.ones((10, 1000) if k == 0 else (4000, 10), np.float32)
        paths.append(write_h5(tmp_path / f"{k}.h5", rows, np.arange(len(rows)) % 2, feature_names=names.astype(object)))
    sm.train(paths, columns="all", tol=0.5, passes=5).model.save(tmp_path / "model.npz")
    with traced() as allocated:
        checks = verify(tmp_path / "model.npz", paths, memory=8 << 20)
    assert allocated.peak < 24 << 20 and all(check.agrees is not False for check in checks)


def test_names_of_rows_and_groups(files, capsys, tmp_path):
    """Columns beside the rows need no columns in common."""
    paths, model = files(OTHERS, np.asarray), str(tmp_path / "model.npz")
    ways = ["--y", "obs/kind", "--columns", "common", "--cv", "2,by=obs/row", "-C", "0.1,1", "-q", "-o", model]
    assert main(["train", *paths, *ways]) == 0
    assert main(["predict", model, *paths, "--id", "obs/row"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [str(row % 2) for row in range(3 * N)]


@KINDS
def test_refused(files, kind, tmp_path):
    paths = files(OTHERS, np.asarray, kind)
    told = r'has 7 columns and .* has 7, and 6 are in common; train on these with columns="common", or on all with'
    with pytest.raises(DataError, match=told):
        sm.train(paths, y="obs/kind")
    with pytest.raises(DataError, match="no column in common"):
        sm.train(files([np.r_[0:3], np.r_[3:9]], np.asarray, kind), y="obs/kind", columns="common")
    twice = GENES.copy()
    twice[5] = twice[4]
    with pytest.raises(DataError, match="has 2 columns named gene 4"):
        sm.train(files(OTHERS[:1], np.asarray, kind) + files(OTHERS, np.asarray, kind, twice)[1:], y="obs/kind")
    for names, told in ((["gene 4", "gene 0"], "has no column gene 0 for columns"),
                        (["common", "all"], "has no column common, all for columns"),
                        (["gene 4", "gene 4"], "columns has 2 columns named gene 4")):  # fmt: skip
        with pytest.raises((DataError, UsageError), match=told):
            sm.train(paths, y="obs/kind", columns=names)
    with pytest.raises(UsageError, match="columns must be common, all or a list of names, not 'ALL'"):
        open_source(paths[:1], columns="ALL")
    with pytest.raises(UsageError, match="columns is for tables"):
        sm.train((COUNTS, KIND), columns="common")
    one = sm.train(files([PARTS[0]], np.asarray, kind), y="obs/kind", columns="common", **WAYS).model
    assert len(one.feature_names_in_) == D


def test_held_out_rows_in_hdf5_beside_stores_have_the_mask_too(files, tmp_path):
    [held_out], model = files([PARTS[2]], np.asarray), str(tmp_path / "model.npz")
    with h5py.File(held_out, "r+") as file:
        file["y"] = KIND[:N].astype("S1")
    ways = ["--y", "obs/kind", "--mask", "row=1", "--valid", held_out, "-o", model, "-q"]
    assert main(["train", *files([PARTS[0]], np.asarray, "zarr"), *ways]) == 0
    assert main(["verify", model, *files([PARTS[0]], np.asarray, "zarr"), "--y", "obs/kind", "--valid", held_out]) == 0


def test_tasks_beside_the_rows_stay():
    with open_source((COUNTS[:N], KIND[:N])) as source:
        source.task_column = lambda: source  # as a piece of a cluster has one
        assert columns.reordered(source, np.array([2, 0, -1]), None).task_column() is source


def test_rows_without_names_have_none_to_choose_from(tmp_path):
    rows, y = COUNTS[:N].round(), np.arange(N) % 2
    for name in ("a.svm", "b.svm"):
        dump_svmlight_file(rows, y, str(tmp_path / name), zero_based=False)
    np.savez(tmp_path / "b.npz", X=rows, y=y)
    paths = [str(tmp_path / "a.svm"), str(tmp_path / "b.svm")]
    with pytest.raises(UsageError, match="has no column names, and columns chooses by name; leave it out"):
        sm.train(paths, columns="common", **WAYS)
    with pytest.raises(DataError, match=r"b\.npz has 12 columns but .*a\.svm has an unknown number of; give"):
        sm.train([paths[0], str(tmp_path / "b.npz")], **WAYS)


def test_an_array_of_zarr_has_no_columns_beside_it(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.save_array(str(tmp_path / "rows.zarr"), COUNTS)
    with pytest.raises(DataError, match="has no column obs/kind of values; it has none"):
        sm.train(str(tmp_path / "rows.zarr"), mask="obs/kind=B", **WAYS)


def test_columns_of_a_converted_table_in_another_order_are_not_taken_by_place(tmp_path):
    """The model kept how the table was read, in its order, and weights in the order that was asked for."""
    frame = pd.DataFrame(RANDOM.normal(size=(N, 3)) * [100.0, 1.0, 1.0], columns=["a", "b", "c"])
    frame["y"] = np.where(frame.a / 100 + 2 * frame.b > 0, "p", "q")
    table, rows = str(tmp_path / "t.csv"), str(tmp_path / "t.h5")
    frame.to_csv(table, index=False)
    assert data_main(["convert", table, rows, "--y", "y"]) == 0
    for some in (["c", "b", "a"], ["b", "c"]):
        model = sm.train(rows, columns=some).model
        assert model.feature_names_in_.tolist() == some
        assert np.array_equal(model.decision_function(rows), model.decision_function(frame[some].to_numpy(np.float32)))
    model = sm.train(rows, columns=["c", "b", "a"]).model
    assert model.decision_function(table) == pytest.approx(model.decision_function(rows), abs=1e-5)


def test_one_file_that_was_opened_keeps_the_word(files):
    path = files(OTHERS, np.asarray)[0]
    with open_source(path, y="obs/kind", columns="common") as source:
        assert source.of_others == "common"
