"""Names of columns: wherever a file has them, they are read, and nothing else is taken for them."""

import h5py
import numpy as np
import pytest

import streammargin as sm
from streammargin.sources.hdf5.columns import write_names
from streammargin.sources.open import open_source

ROWS, COLUMNS = 8, 5
X = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
Y = np.arange(ROWS) % 2
NAMES = ["MT-CO1", "é", "", "a gene with a long name " * 9, "0"]
TEXT = h5py.string_dtype()


def written(path, fill):
    """A file of dense rows, to which fill(file) adds names; its path."""
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = X, Y
        fill(file)
    return str(path)


def table(file, names=NAMES, index="_index", home="var", **attributes):
    group = file.create_group(home)
    group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": index, **attributes})
    group.create_dataset(index, data=names, dtype=TEXT)
    return group


def categorical(file):
    group = table(file)
    del group["_index"]
    group["_index/codes"] = np.array([1, 0, 2, 3, 4], "i1")
    group.create_dataset("_index/categories", data=[NAMES[k] for k in (1, 0, 2, 3, 4)], dtype=TEXT)


PLACES = {
    "as this package writes them": lambda file: write_names(file, np.array(NAMES, object)),
    "anndata's, called otherwise": lambda file: table(file, index="gene_ids"),
    "categories": categorical,
    "a list": lambda file: file.create_dataset("feature_names", data=NAMES, dtype=TEXT),
    "a list of texts of one length": lambda file: file.create_dataset(
        "feature_names", data=np.char.encode(NAMES, "utf-8")
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_names_of_a_file(tmp_path, place):
    with open_source(written(tmp_path / "a.h5", PLACES[place])) as source:
        names = source.feature_names()
        assert names.shape == (COLUMNS,) and names.dtype == object and names.tolist() == NAMES
        assert all(type(name) is str for name in names)
        # more than what Python says of them
        assert source.names_bytes() >= names.nbytes + sum(map(name_size, names))


def name_size(name):
    import sys

    return -(-sys.getsizeof(name) // 16) * 16


def nothing(file):
    pass


OTHER = {
    "no names": nothing,
    "variances": lambda file: file.create_dataset("var", data=np.ones(COLUMNS)),
    "a group that is no table": lambda file: file.create_group("var").create_dataset("x", data=np.ones(3)),
    "a table in one dataset": lambda file: file.create_dataset(
        "var", data=np.array([(name, 1.0) for name in NAMES], [("index", TEXT), ("mean", "f8")])
    ),
}


@pytest.mark.parametrize("other", OTHER)
def test_what_is_no_names_is_not_taken_for_them(tmp_path, other):
    with open_source(written(tmp_path / "a.h5", OTHER[other])) as source:
        assert source.feature_names() is None and source.names_bytes() == 0


def test_names_of_layers_and_raw_rows_and_none_of_obsm(tmp_path):
    def fill(file):
        table(file)
        file["layers/counts"], file["obsm/X_pca"] = X, X
        file["raw/X"] = X[:, :3]
        table(file, ["r", "a", "w"], home="raw/var")

    path = written(tmp_path / "a.h5", fill)
    for x, names in (("X", NAMES), ("layers/counts", NAMES), ("/X", NAMES), ("raw/X", ["r", "a", "w"])):
        with open_source(path, x=x) as source:
            assert source.feature_names().tolist() == names
    with open_source(path, x="obsm/X_pca") as source:
        assert source.feature_names() is None


@pytest.mark.parametrize("ids", ["features/id", "genes"])
def test_the_ids_of_10x_and_not_its_symbols(tmp_path, ids):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("matrix")
        group["data"], group["indices"], group["indptr"] = np.ones(2), [0, 1], [0, 1, 2]
        group["shape"], group["features/name"] = [3, 2], np.array([b"A", b"A", b"B"])
        group[ids] = np.array([b"ENSG1", b"ENSG2", b"ENSG3"])
    with open_source(tmp_path / "a.h5") as source:
        assert source.feature_names().tolist() == ["ENSG1", "ENSG2", "ENSG3"]


FAULTS = {
    "too few": (lambda file: table(file, NAMES[1:]), "var/_index has 4 names but there are 5 columns"),
    "numbers": (
        lambda file: file.create_dataset("feature_names", data=np.ones(COLUMNS)),
        "feature_names: the name of column 0 is not valid UTF-8",
    ),
    "gone": (lambda file: table(file).pop("_index"), "has no var/_index with its names"),
    "a matrix": (lambda file: file.create_dataset("feature_names", data=X), "feature_names has the shape"),
    "NUL": (
        lambda file: file.create_dataset("feature_names", data=np.array([b"a\0b", *b"cdef"], "S3")),
        "the name of column 0 is not valid UTF-8, or contains a NUL",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_names_that_are_none(tmp_path, fault):
    fill, words = FAULTS[fault]
    with open_source(written(tmp_path / "a.h5", fill)) as source, pytest.raises(sm.DataError, match=words):
        source.feature_names()


def test_anndata_reads_what_is_written(tmp_path):
    anndata = pytest.importorskip("anndata")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        write_names(file, np.array(NAMES, object))
        found = anndata.io.read_elem(file["var"])
    assert found.index.tolist() == NAMES and not len(found.columns)


def shard(path, names):
    fill = nothing if names is None else lambda file: write_names(file, np.array(names, object))
    return written(path, fill)


def test_shards_of_the_same_names(tmp_path):
    paths = [shard(tmp_path / name, NAMES) for name in ("a.h5", "b.h5")]
    with open_source(paths) as source:
        assert source.feature_names().tolist() == NAMES
        assert source.names_bytes() == 2 * open_source(paths[0]).names_bytes()
    with open_source([shard(tmp_path / name, None) for name in ("c.h5", "d.h5")]) as source:
        assert source.feature_names() is None and source.names_bytes() == 0


@pytest.mark.parametrize(
    "names, words",
    [
        (["A", *NAMES[1:]], "b.h5 has 5 columns and .*a.h5 has 5, and 4 are in common; train on these with"),
        (None, "b.h5 has no column names, but .*a.h5 has"),
    ],
)
def test_shards_of_other_names_are_refused_by_file(tmp_path, names, words):
    paths = [shard(tmp_path / "a.h5", NAMES), shard(tmp_path / "c.h5", NAMES), shard(tmp_path / "b.h5", names)]
    with pytest.raises(sm.DataError, match=words):
        open_source(paths)


def test_shards_with_their_columns_in_another_order(tmp_path):
    paths = [shard(tmp_path / "a.h5", NAMES), shard(tmp_path / "b.h5", NAMES[::-1])]
    with open_source(paths) as source, open_source(paths[0]) as first:
        assert source.feature_names().tolist() == NAMES
        rows = [one.read(0, one.rows, one.allocate(one.bounds(1 << 20)[[0, -1]])).X for one in (source, first)]
        assert np.array_equal(rows[0], np.concatenate([rows[1], rows[1][:, ::-1]]))


def test_frames_have_names_where_all_are_texts():
    pd = pytest.importorskip("pandas")
    for columns, names in ((NAMES, NAMES), (range(COLUMNS), None), ([*NAMES[1:], 7], None)):
        frame = pd.DataFrame(X, columns=columns)
        for data in ((frame, Y), frame):
            found = open_source(data).feature_names()
            assert found is names or found.tolist() == names
    assert open_source((X, Y)).feature_names() is None
    assert open_source(np.rec.array(X[:, :2])).feature_names() is None


class Polars:
    """What of a frame of polars is looked at: its columns are a list."""

    def __init__(self, X, columns):
        self._X, self.columns, self.shape = X, columns, X.shape

    def __array__(self, dtype=None, copy=None):
        return self._X


def test_frames_of_polars_have_names():
    model = sm.train((Polars(X, NAMES), Y)).model
    assert model.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(model.predict(Polars(X[:, ::-1], NAMES[::-1])), model.predict(Polars(X, NAMES)))


def test_a_name_of_a_frame_that_is_no_text():
    pd = pytest.importorskip("pandas")
    with pytest.raises(sm.DataError, match="X: the name of column 2 is not valid UTF-8, or contains a NUL"):
        open_source((pd.DataFrame(X, columns=["a", "b", "c\0d", "e", "f"]), Y))
