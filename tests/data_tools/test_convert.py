"""Text, CSV, NPZ and HDF5 to the project's layout, against SciPy and plain Python as the independent truth."""

import bz2
import gzip
import lzma
import os
import subprocess
import sys
from unittest import mock

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from hypothesis import given, settings
from hypothesis import strategies as st

import streammargin as sm
from streammargin.data_tools.convert import convert
from streammargin.data_tools.generate import generate
from streammargin.data_tools.main import main
from streammargin.data_tools.shuffle import shuffle
from streammargin.data_tools.split import split
from streammargin.errors import DataError, OutputError, UsageError
from streammargin.sources.batch import Batch, Ordered
from streammargin.tables.file_format import FileFormat
from streammargin.tables.formats import FORMATS
from streammargin.tables.matrices import svmlight
from streammargin.tables.textfile import TEXT_PIECE, Text


def stored(path):
    """(X, y) of a converted file, read by h5py alone; X as a CSR matrix or an array."""
    with h5py.File(path) as file:
        y = None
        if "y" in file:
            y = file["y"].asstr()[:] if h5py.check_string_dtype(file["y"].dtype) else file["y"][:]
        if isinstance(file["X"], h5py.Dataset):
            return file["X"][:], y
        group = file["X"]
        assert group.attrs["encoding-type"] == "csr_matrix" and group.attrs["encoding-version"] == "0.1.0"
        assert group["indptr"].dtype == np.int64 and group["indices"].dtype == np.int32
        parts = (group["data"][:], group["indices"][:], group["indptr"][:])
        return sp.csr_matrix(parts, shape=tuple(group.attrs["shape"])), y


def same(one, other):
    return one.shape == other.shape and (abs(sp.csr_matrix(one) - sp.csr_matrix(other))).nnz == 0


TEXT = "+1 1:0.5 3:-2\n-1 2:1e-3\n\n# a comment alone\n1 # no entries\n-1 1:1 2:2 3:3 # all\n"
TEXT_X = np.array([[0.5, 0, -2], [0, 1e-3, 0], [0, 0, 0], [1, 2, 3]])


@pytest.mark.parametrize("suffix, opener", [("", open), (".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)])
def test_svmlight_plain_and_compressed(tmp_path, suffix, opener):
    with opener(tmp_path / f"a.txt{suffix}", "wb") as file:
        file.write(TEXT.encode())
    counts = convert(str(tmp_path / f"a.txt{suffix}"), str(tmp_path / "a.h5"), dtype="float64")
    assert counts == (4, 3, 6)
    X, y = stored(tmp_path / "a.h5")
    assert same(X, TEXT_X) and y.tolist() == [1, -1, 1, -1] and y.dtype == np.int64


def test_svmlight_float32_is_the_default_and_features_widens(tmp_path):
    (tmp_path / "a").write_text("1 1:0.1\n-1 1:0.2\n")
    convert(str(tmp_path / "a"), str(tmp_path / "a.h5"), features=7)
    X, _ = stored(tmp_path / "a.h5")
    assert X.dtype == np.float32 and X.shape == (2, 7) and X.data.tolist() == [np.float32(0.1), np.float32(0.2)]


def test_labels_widen_as_they_come(tmp_path, monkeypatch):
    monkeypatch.setattr(Text, "pieces", lambda text: iter([(1, b"1 1:1\n"), (2, b"2.5 1:1\n"), (3, b"-3 1:1\n")]))
    (tmp_path / "a").write_text("1 1:1\n")
    convert(str(tmp_path / "a"), str(tmp_path / "a.h5"))
    y = stored(tmp_path / "a.h5")[1]
    assert y.dtype == np.float64 and y.tolist() == [1.0, 2.5, -3.0]


BAD_LINES = [
    ("1 2:3 x", "line 2: 'x' is not index:value"),
    ("1 2:3 4", "line 2: '4' is not index:value"),
    ("1 a:3", "line 2: 'a:3' is not index:value"),
    ("1 2:3:4", "line 2: '2:3:4' is not index:value"),
    ("1 2: 3", "line 2: '2:' is not index:value"),
    ("cat 1:1", "line 2: the label 'cat' is not a number"),
    ("1 1.5:2", "line 2: '1.5:2' is not index:value"),
    ("1 0:2", "line 2: the index 0, but indices count from 1.*zero_based=True"),
    ("1 -4:2", "line 2: the index -4 is out of range"),
    ("1 3:1 3:2", "line 2: the index 3 occurs twice"),
    ("1 3:1 2:1 3:2", "line 2: the index 3 occurs twice"),
    ("1 1:nan", "line 2: the value of index 1 is nan"),
    ("1 1:inf", "line 2: the value of index 1 is inf"),
    ("nan 1:1", "line 2: the label is nan"),
    ("1 9999999999:1", "line 2: the index 9999999999 is out of range"),
    ("1 qid:x 1:1", "line 2: 'qid:x' is not index:value"),
    ("1 1_0:1", "line 2: '1_0:1' is not index:value"),
    ("1 1:1_0", "line 2: '1:1_0' is not index:value"),
    ("1_0 1:1", "line 2: the label '1_0' is not a number"),
    ("1 1e1:1", "line 2: '1e1:1' is not index:value"),
    ("1 \u0661:1", "line 2: .* is not index:value"),
    ("9007199254740993 1:1", "line 2: the label 9007199254740993 is too large"),
    ("-9007199254740992 1:1", "line 2: the label -9007199254740992 is too large"),
]


@pytest.mark.parametrize("line, message", BAD_LINES)
def test_a_line_that_does_not_parse_is_named(tmp_path, line, message):
    (tmp_path / "a.svm").write_text(f"1 1:1\n{line}\n-1 1:1\n")
    with pytest.raises(DataError, match=message):
        convert(str(tmp_path / "a.svm"), str(tmp_path / "a.h5"))
    assert os.listdir(tmp_path) == ["a.svm"]


def test_line_numbers_go_on_over_pieces(tmp_path, monkeypatch):
    lines = ["1 1:1"] * 500
    lines[321] = "1 1:x"
    (tmp_path / "a").write_text("\n".join(lines))
    whole = Text.pieces
    monkeypatch.setattr(Text, "pieces", lambda text: whole(text, 64))
    with pytest.raises(DataError, match="line 322: "):
        convert(str(tmp_path / "a"), str(tmp_path / "a.h5"))


def test_unsorted_entries_are_sorted_and_zero_based_is_an_option(tmp_path):
    (tmp_path / "a").write_text("1 3:3 0:1\n-1 2:2 1:5\n")
    convert(str(tmp_path / "a"), str(tmp_path / "a.h5"), zero_based=True)
    X, _ = stored(tmp_path / "a.h5")
    assert X.indices.tolist() == [0, 3, 1, 2] and X.data.tolist() == [1, 3, 5, 2]


def test_beyond_features_is_an_error(tmp_path):
    (tmp_path / "a").write_text("1 1:1\n-1 5:1\n")
    with pytest.raises(DataError, match=r"line 2: the index 5 exceeds features=4$"):
        convert(str(tmp_path / "a"), str(tmp_path / "a.h5"), features=4)


@pytest.mark.parametrize("like", [None, "a,y\n1,0\n2,1\n"])
def test_a_value_too_large_for_float32_is_an_error(tmp_path, like):
    (tmp_path / "a").write_text("1 1:1e39\n-1 1:1\n" if like is None else "a,y\n1e39,0\n1,1\n")
    if like is not None:
        (tmp_path / "t.csv").write_text(like)
        sm.train(str(tmp_path / "t.csv"), passes=1).model.save(like := tmp_path / "m.npz")
    with pytest.raises(DataError, match='1e\\+39 is too large for float32; use dtype="float64"'):
        convert(str(tmp_path / "a"), str(tmp_path / "a.h5"), like=like)
    convert(str(tmp_path / "a"), str(tmp_path / "a.h5"), like=like, dtype="float64")
    with h5py.File(tmp_path / "a.h5") as file:
        assert "streammargin-remarks" not in file.attrs


@pytest.mark.parametrize("value, kept", [("123456789", "123456792"), ("-1e-60", "-0"), ("16777217", "16777216")])
def test_what_float32_loses_is_said_once(tmp_path, caplog, value, kept):
    (tmp_path / "a").write_text(f"1 1:{value} 2:0.1 3:16777216\n-1 1:{value}\n")
    convert(str(tmp_path / "a"), str(tmp_path / "a.h5"))
    (record,) = caplog.records
    assert str(record.msg).endswith(f'is stored as {kept}; use dtype="float64"')
    convert(str(tmp_path / "a"), str(tmp_path / "a.h5"), dtype="float64", force=True)
    assert len(caplog.records) == 1


rows = st.lists(
    st.tuples(
        st.integers(-3, 3),
        st.dictionaries(st.integers(1, 30), st.floats(-1e30, 1e30).filter(lambda v: v != 0.0), max_size=8),
        st.sampled_from([" ", "  ", "\t"]),
        st.sampled_from(["", " # note 3:4", " "]),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
).filter(lambda found: any(entries for _, entries, *_ in found))


@settings(max_examples=60)
@given(rows=rows, size=st.integers(5, 400))
def test_any_valid_text_round_trips(tmp_path_factory, rows, size):
    folder = tmp_path_factory.mktemp("round")
    lines, dense = [], np.zeros((len(rows), 30))
    for i, (label, entries, gap, end, rising) in enumerate(rows):
        items = sorted(entries.items(), reverse=not rising)
        lines.append(gap.join([str(label), *(f"{k}:{v!r}" for k, v in items)]) + end)
        for k, v in entries.items():
            dense[i, k - 1] = v
    (folder / "a").write_text("\n".join(lines))
    batches = list(read_in_pieces(folder / "a", size))
    parts = [(b.data, b.indices, b.indptr) for b in batches]
    X = sp.vstack([sp.csr_matrix(p, shape=(len(p[2]) - 1, 30)) for p in parts])
    assert same(X, dense)
    assert np.concatenate([b.labels for b in batches]).tolist() == [r[0] for r in rows]
    assert TEXT_PIECE > 400  # or the pieces above were not cut


def read_in_pieces(path, size):
    whole = Text.pieces
    with mock.patch.object(Text, "pieces", lambda text: whole(text, size)), Text(str(path)) as text:
        yield from svmlight.rows_of(text, zero_based=False, features=None)


CSV = "a,b,label\n1,2,3\n4.5,-6,7\n"


def test_csv_with_a_header(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    convert(str(tmp_path / "a.csv"), str(tmp_path / "a.h5"))
    X, y = stored(tmp_path / "a.h5")
    assert X.tolist() == [[1, 2], [4.5, -6]] and y.tolist() == [3, 7] and X.dtype == np.float32


@pytest.mark.parametrize("option", ["--y", "--label-column"])
@pytest.mark.parametrize("column, y", [("a", [1, 4.5]), ("1", [2, -6]), ("-1", [3, 7])])
def test_the_label_column_has_two_spellings_in_a_shell(tmp_path, capsys, option, column, y):
    (tmp_path / "a.csv").write_text(CSV)
    given = ["convert", str(tmp_path / "a.csv"), str(tmp_path / "a.h5"), option, column]
    assert main(given) == 0 and stored(tmp_path / "a.h5")[1].tolist() == y
    assert main([*given, "--no-label", "--force"]) == 2
    assert "--no-label: not allowed with argument --y/--label-column" in capsys.readouterr().err


def random_matrix(seed, shape=(300, 40), density=0.2):
    return sp.random(*shape, density, "csr", dtype=np.float64, random_state=np.random.default_rng(seed))


def test_csc_in_more_buckets_than_one(tmp_path, monkeypatch):
    from streammargin.tables.matrices import compressed as matrices

    monkeypatch.setattr(matrices, "_ENTRIES", 100)
    monkeypatch.setattr(matrices, "buckets_for", lambda *sizes, held: 7)
    X = random_matrix(2)
    sp.save_npz(tmp_path / "a.npz", X.tocsc())
    convert(str(tmp_path / "a.npz"), str(tmp_path / "a.h5"))
    assert same(stored(tmp_path / "a.h5")[0], X)
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "a.npz"]


def test_csc_group_of_hdf5_is_converted_with_its_labels(tmp_path):
    X, y = random_matrix(3), np.array(["a", "b", "c"] * 100)
    C = X.tocsc()
    with h5py.File(tmp_path / "c.h5", "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csc_matrix", "encoding-version": "0.1.0", "shape": C.shape})
        group["data"], group["indices"], group["indptr"] = C.data, C.indices, C.indptr
        file["y"] = y.astype(h5py.string_dtype())
    convert(str(tmp_path / "c.h5"), str(tmp_path / "a.h5"))
    got, labels = stored(tmp_path / "a.h5")
    assert same(got, X) and labels.tolist() == y.tolist()


def cells(path, **nodes):
    """A file with cells of anndata; its obs has categories by reference, as before 0.8."""
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        file["layers/counts"] = np.eye(6, 4)
        file["obs/__categories/kind"] = np.array(["B", "T"], h5py.string_dtype())
        file["obs/kind"] = np.arange(6) % 2
        file["obs/kind"].attrs["categories"] = file["obs/__categories/kind"].ref
        for name, node in nodes.items():
            del file[name]
            file[name] = node
    return str(path)


def test_obs_and_the_name_of_a_layer_go_along(tmp_path):
    convert(cells(tmp_path / "a.h5ad"), str(tmp_path / "b.h5"), x="layers/counts")
    with sm.open_source(tmp_path / "b.h5", x="layers/counts", y="kind") as source:
        assert np.concatenate(list(source.labels())).tolist() == ["B", "T"] * 3
    with h5py.File(tmp_path / "b.h5") as file:
        assert set(file) == {"layers", "obs"} and np.array_equal(file["layers/counts"], np.eye(6, 4))


@pytest.mark.parametrize(
    "y, said",
    [(None, '; keep its labels with y="obs/NAME"'), ("obs/kind", ", but for the labels"),
     ("kind", ", but for the labels"), ("other", ""), ("labels/own.npy", "")],
)  # fmt: skip
def test_obs_that_stays_behind_is_told(tmp_path, y, said, caplog):
    caplog.set_level("INFO", "streammargin")
    path, out = cells(tmp_path / "a.h5ad"), str(tmp_path / "b.h5")
    with h5py.File(path, "r+") as file:
        file["other"] = np.arange(6) % 2
    (tmp_path / "labels").mkdir()
    np.save(tmp_path / "labels/own.npy", np.arange(6) % 2)
    y = str(tmp_path / y) if y == "labels/own.npy" else y
    shuffle(path, out, x="layers/counts", y=y)
    split(path, out, str(tmp_path / "c.h5"), x="layers/counts", y=y, force=True)
    assert [one.message for one in caplog.records] == 2 * [f"{path}: the table obs is left out{said}"]


@pytest.mark.parametrize("made", ["split", "shuffle", "generate", "convert", "csv"])
def test_what_anndata_does_not_load_is_not_called_h5ad(tmp_path, made, caplog):
    path, out = cells(tmp_path / "a.h5ad"), str(tmp_path / "b.H5AD")
    (tmp_path / "t.csv").write_text("a,y\n1,0\n2,1\n")
    with h5py.File(path, "a") as file:
        file["layers/other"] = np.eye(6, 4)
    sm.train(path, x="layers/other", y="obs/kind", passes=1).model.save(tmp_path / "m.npz")
    there = sorted(os.listdir(tmp_path))
    with pytest.raises(UsageError, match=r"anndata does not load .*b\.H5AD; name it \.h5$"):
        if made == "split":
            split(path, str(tmp_path / "c.h5"), out)
        elif made == "csv":
            convert(str(tmp_path / "t.csv"), out)
        elif made == "generate":
            generate(out, rows=9)
        else:
            options = {"like": tmp_path / "m.npz"} if made == "convert" else {}
            {"shuffle": shuffle, "convert": convert}[made](path, out, x="layers/counts", y="obs/kind", **options)
    assert sorted(os.listdir(tmp_path)) == there and "was trained on" not in caplog.text
    convert(path, out, x="layers/counts")
    assert os.path.exists(out)


def test_like_takes_the_rows_that_the_model_was_trained_on(tmp_path):
    path = cells(tmp_path / "a.h5ad")
    with h5py.File(path, "r+") as file:
        file["X"] = np.zeros((6, 4))
    sm.train(path, x="layers/counts", y="obs/kind", passes=1).model.save(tmp_path / "m.npz")
    convert(path, str(tmp_path / "b.h5"), like=str(tmp_path / "m.npz"))
    with h5py.File(tmp_path / "b.h5") as file:
        assert set(file) == {"layers", "obs"} and np.array_equal(file["layers/counts"], np.eye(6, 4))


def test_obs_of_another_file_does_not_go_along(tmp_path):
    path = cells(tmp_path / "a.h5ad", obs=h5py.ExternalLink("other.h5", "obs"))
    with pytest.raises(DataError, match="obs has its values in other files"):
        convert(path, str(tmp_path / "b.h5"), x="layers/counts")
    assert os.listdir(tmp_path) == ["a.h5ad"]


def test_dense_hdf5_is_copied_with_another_type(tmp_path, blobs):
    X, y = blobs
    convert(write_h5(tmp_path / "a.h5", X.astype(np.float64), y), str(tmp_path / "b.h5"), dtype="float32")
    got, labels = stored(tmp_path / "b.h5")
    assert np.array_equal(got, X) and got.dtype == np.float32 and np.array_equal(labels, y)


def test_npz_of_another_format_or_content_is_refused(tmp_path):
    sp.save_npz(tmp_path / "a.npz", random_matrix(4).tocoo())
    with pytest.raises(DataError, match=r"format coo; save it with X.tocsr\(\)"):
        convert(str(tmp_path / "a.npz"), str(tmp_path / "a.h5"))
    np.savez(tmp_path / "b.npz", A=np.eye(3))
    with pytest.raises(DataError, match=r"format unknown, and no array X; name the rows with x=.NAME.?; it has A"):
        convert(str(tmp_path / "b.npz"), str(tmp_path / "a.h5"))


def test_npz_is_never_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", format=np.array([object()], dtype=object), shape=np.array([1, 1]))
    with pytest.raises(DataError, match="never unpickled"):
        convert(str(tmp_path / "a.npz"), str(tmp_path / "a.h5"))


def test_inputs_and_outputs_that_cannot_be(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "blank").write_text("\n# nothing\n")
    (tmp_path / "good").write_text("1 1:1\n")
    out = str(tmp_path / "o.h5")
    with pytest.raises(DataError, match="blank is not svmlight, but lies in a folder of svmlight files"):
        convert(str(tmp_path), out)
    for name in ("empty", "blank"):
        with pytest.raises(DataError, match=r"is empty|has no rows"):
            convert(str(tmp_path / name), out)
    convert(str(tmp_path / "good"), out)
    before = (tmp_path / "o.h5").read_bytes()
    with pytest.raises(OutputError, match="exists; use force=True"):
        convert(str(tmp_path / "good"), out)
    with pytest.raises(DataError):
        convert(str(tmp_path / "empty"), out, force=True)
    assert (tmp_path / "o.h5").read_bytes() == before


@pytest.mark.parametrize(
    "arguments, code",
    [
        (["convert", "none.txt", "o.h5"], 66),
        (["convert", "bad.txt", "o.h5"], 65),
        (["convert", "good.txt", "no/o.h5"], 73),
        (["convert", "good.txt"], 2),
        (["convert", "good.txt", "o.h5", "--features", "0"], 2),
        (["unknown"], 2),
        (["convert", "good.txt", "o.h5"], 0),
    ],
)
def test_exit_codes(tmp_path, arguments, code, here):
    (tmp_path / "good.txt").write_text("1 1:1\n-1 2:1\n")
    (tmp_path / "bad.txt").write_text("1 1:1\nbad line\n")
    done = here(*arguments, main=main, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr
    if code:
        assert sorted(os.listdir(tmp_path)) == ["bad.txt", "good.txt"] and done.stderr.count("\n") == 1


def test_the_shell_reads_flags_where_python_reads_keywords(tmp_path, here):
    (tmp_path / "a.txt").write_text("1 0:1\n")
    done = here("convert", "a.txt", "o.h5", main=main, cwd=tmp_path)
    assert done.stderr.endswith("if these count from 0, use --zero-based\n")
    with pytest.raises(DataError, match=r"if these count from 0, use zero_based=True$"):
        convert(str(tmp_path / "a.txt"), str(tmp_path / "o.h5"))


def test_a_format_is_an_entry_of_the_registry(tmp_path, monkeypatch):
    """Input that begins with a word of its own, and has one row of one value."""

    def read(text, how):
        rows = Batch(np.array([[-1.0], [1.0]]), None, None, None, np.array([1, 2]), None)
        return Ordered(iter([rows]), False, 1, np.dtype(np.float32))

    monkeypatch.setitem(FORMATS, "own", FileFormat("own", read, starts=(b"OWN",)))
    (tmp_path / "a").write_text("OWN")
    assert convert(str(tmp_path / "a"), str(tmp_path / "a.h5")) == (2, 1, 2)
    assert sm.train(str(tmp_path / "a")).model.predict(str(tmp_path / "a")).tolist() == [1, 2]


def test_a_disk_that_is_full_of_entries_to_be_sorted_is_that_of_the_output(tmp_path):
    """Commands that write rows at once are in tests/sources/test_disk.py."""
    entries = (f"{200_000 - i} {i % 3 + 1} {i}.5\n" for i in range(200_000))
    (tmp_path / "a.mtx").write_text(
        "%%MatrixMarket matrix coordinate real general\n200000 3 200000\n" + "".join(entries)
    )
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20));"
        "from streammargin.data_tools.main import main; sys.exit(main(['convert', 'a.mtx', 'o.h5']))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 74, done.stderr
    assert "cannot write o.h5: " in done.stderr and "free some space" in done.stderr
    assert os.listdir(tmp_path) == ["a.mtx"]


@pytest.mark.slow
def test_classes_do_not_depend_on_where_a_piece_of_the_text_ends(tmp_path):
    many = 600_000  # labels of several pieces, then the first that is no number
    with open(tmp_path / "in.csv", "w") as file:
        file.write("y,x\n" + "1.0,0\n02,1\n" * (many // 2) + "a,2\n1,0\n1.0,3\n")
    convert(str(tmp_path / "in.csv"), str(tmp_path / "out.h5"), y="y")
    labels = stored(tmp_path / "out.h5")[1].tolist()
    assert labels == ["1.0", "02"] * (many // 2) + ["a", "1", "1.0"]
