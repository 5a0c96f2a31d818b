"""Input that is nearly right: refused in one sentence that names the place, or read for what it is; never misread."""

import gzip
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from test_convert import random_matrix, same, stored

from streammargin.data_tools.convert import convert
from streammargin.data_tools.main import main
from streammargin.data_tools.shuffle import shuffle
from streammargin.data_tools.split import split
from streammargin.errors import DataError, UsageError


def converted(tmp_path, content, name="in.csv", **options):
    """(X, y) of a file of this content."""
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    convert(str(tmp_path / name), str(tmp_path / "out.h5"), dtype="float64", **options)
    X, y = stored(tmp_path / "out.h5")
    return (X.toarray() if sp.issparse(X) else X).tolist(), y.tolist()


REFUSED_CSV = [
    ("1,2,0\n3, ,1\n", "line 2, column 1: the value is missing"),
    ("1,2,0\n3,\t,1\n", "line 2, column 1: the value is missing"),
    ("1,2,0\n3,4, \n", "line 2: the label is missing"),
    ("1,2,0\n ,4,1\n", "line 2, column 0: the value is missing"),
    ("1,2,0\n1_0,4,1\n", "line 2, column 0: '1_0' is not a finite number"),
    ("1,2,0\n3,4,1_0\n", "line 2: the label 1_0 is neither"),
    ("1,2,0\n\u0663,4,1\n", "line 2, column 0: '\u0663' is not a finite number"),
    ("1,2,0\n3,4,nan\n", "line 2: the label is nan"),
    ("1,2,0\n3,4,inf\n", "line 2: the label is inf"),
    ("1,2,9007199254740993\n3,4,1\n", "line 1: the label 9007199254740993 is too large"),
    ("1,2,cat\n3,4,9007199254740993\n", "line 2: the label 9007199254740993 is too large"),
    ("1,2,0\r3,4,1\r", "line 1: lines end in carriage returns"),
    ("1,2,0\n3\r,4,x\n", r"line 2: a control character, '\\r', outside of quotes; .*: tr -d"),
    ('a,b,c\n"1\r\n",2,3\n3\r,4,x\n', r"line 4: a control character, '\\r', outside"),
    ("1,2,0\n3,4\x1a,1\n", r"line 2: a control character, '\\x1a'.* Take it out: tr -d '\\032' < IN > OUT"),
    ("1,2,0\n3,4\0,1\n", r"line 2: a control .* OUT; else take it out: tr -d '\\000' < IN > OUT"),
    ("1,2,0\n1," + "x" * 200_000 + ",1\n", "line 2, column 1: 'xxx"),
    ("5.1,NA,0\n4.9,3,1\n", "line 1, column 1: the value is missing"),
    ("1,2,3\n1,nan,3\n", "line 2, column 1: the value is missing"),
    ("1,2,3\n1,2,\n", "line 2: the label is missing"),
]


@pytest.mark.parametrize("text, message", REFUSED_CSV)
def test_csv_is_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        converted(tmp_path, text, y="-1")


@pytest.mark.parametrize("name", ["in.tsv", "in"])
@pytest.mark.parametrize("separator", ["\t", ";", "|"])
def test_other_separators_are_seen_without_the_name(tmp_path, name, separator):
    text = separator.join("120") + "\n" + separator.join("341") + "\n"
    assert converted(tmp_path, text, name, y="-1") == ([[1, 2], [3, 4]], [0, 1])


@pytest.mark.parametrize(
    "text, options, X, y",
    [
        ("1,2,3,label\n4,5,6,0\n", {}, [[4, 5, 6]], [0]),
        ("label,0,1\n7,8,9\n", {}, [[8, 9]], [7]),
        ("x,1,2\n4,5,6\n", {"y": "-1"}, [[4, 5]], [6]),
        ("1,2,name\n4,5,cat\n", {"y": "name"}, [[4, 5]], ["cat"]),
        ("1,2,y\n3,4,n\n", {"y": "-1"}, [[1, 2], [3, 4]], ["y", "n"]),  # labels of text are no names
        ("1,2,a\n3,4,5\n", {"y": "-1"}, [[1, 2], [3, 4]], ["a", "5"]),
        ("a,1,2\n5,3,4\n", {"y": "0"}, [[1, 2], [3, 4]], ["a", "5"]),
        (" 1, 2 ,0\n\n3,\t4,1\n", {"y": "-1"}, [[1, 2], [3, 4]], [0, 1]),
        ("\ufeff1,2,0\n", {"y": "-1"}, [[1, 2]], [0]),
    ],
)
def test_csv_is_read_for_what_it_is(tmp_path, text, options, X, y):
    assert converted(tmp_path, text, **options) == (X, y)


@pytest.mark.parametrize("wrap", [bytes, gzip.compress])
def test_content_decides_not_the_name(tmp_path, wrap):
    assert converted(tmp_path, wrap(b"\xef\xbb\xbf1 1:2\n-1 2:3\n"), "in.txt") == ([[2, 0], [0, 3]], [1, -1])
    (tmp_path / "out.h5").unlink()
    assert converted(tmp_path, wrap(b"1,2\n3,4\n"), "in", y="-1") == ([[1], [3]], [2, 4])


def test_a_pipe_is_read_once(tmp_path):
    rows = 30_000  # more than is looked at to tell the format
    text = "".join(f"{i % 2} 1:{i}\n" for i in range(rows))
    command = [sys.executable, "-m", "streammargin.data_tools", "convert", "/dev/stdin", "out.h5", "--dtype", "float64"]
    done = subprocess.run(command, cwd=tmp_path, input=gzip.compress(text.encode()), capture_output=True)
    assert done.returncode == 0 and done.stderr.startswith(b"out.h5: 30000 rows")
    X, y = stored(tmp_path / "out.h5")
    assert X.data.tolist() == list(range(rows)) and y.tolist() == [i % 2 for i in range(rows)]
    with open(write_h5(tmp_path / "x.h5", np.eye(3)), "rb") as file:
        command = [sys.executable, "-m", "streammargin.data_tools", "convert", "/dev/stdin", "o.h5"]
        done = subprocess.run(command, cwd=tmp_path, input=file.read(), capture_output=True)
    assert done.returncode == 65 and b"pipe" in done.stderr


LARGE = np.array([2**63, 2**63 + 1, 2**64 - 1, 1] * 50, np.uint64)


@pytest.mark.parametrize("verb", ["convert", "shuffle", "split"])
def test_large_labels_stay_exact(tmp_path, verb):
    X = np.arange(200.0)[:, None]
    path, out = write_h5(tmp_path / "in.h5", X, LARGE), str(tmp_path / "out.h5")
    if verb == "split":
        split(path, out, str(tmp_path / "test.h5"))
    else:
        {"convert": convert, "shuffle": shuffle}[verb](path, out)
    values, labels = stored(out)
    assert [int(label) for label in labels] == [int(LARGE[int(i)]) for i in values.ravel()]


def test_shards_of_different_label_types_are_shuffled_exactly(tmp_path):
    kinds = [np.arange(10) % 3, (np.arange(10) % 3).astype(np.float64), (np.arange(10) % 3).astype(np.int8)]
    paths = [write_h5(tmp_path / f"{k}.h5", np.arange(10.0)[:, None] + 10 * k, y) for k, y in enumerate(kinds)]
    shuffle(paths, str(tmp_path / "out.h5"))
    X, y = stored(tmp_path / "out.h5")
    assert y.tolist() == [int(x) % 10 % 3 for x in X.ravel()]


def test_complex_labels_are_refused(tmp_path):
    sp.save_npz(tmp_path / "in.npz", sp.csr_matrix(np.eye(3)))
    np.save(tmp_path / "y.npy", np.array([1j, 0, 1]))
    with pytest.raises(DataError, match="not complex128"):
        convert(str(tmp_path / "in.npz"), str(tmp_path / "out.h5"), y=str(tmp_path / "y.npy"))


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize(
    "change, message",
    [
        ({"shape": np.array([300])}, "the shape of the matrix is"),
        ({"shape": np.array(["300", "40"])}, "shape holds"),
        ({"shape": np.array([300, -40])}, "the shape of the matrix is"),
        ({"shape": np.array([300, 2**40])}, "the shape of the matrix is"),
        ({"format": np.array([b"csr", b"csr"])}, "of format"),
        ({"format": np.array(7)}, "format holds int64"),
        ({"indices": np.full(2400, 0.5)}, "indices holds float64 but must hold integers"),
        ({"data": np.full(2400, 1j)}, "data holds complex128 but must hold real numbers"),
        ({"data": np.ones((2400, 1))}, r"data has the shape \(2400, 1\); store it with one dimension"),
        ({"indptr": np.zeros((301, 1), int)}, r"indptr has the shape \(301, 1\); store it with one dimension"),
        ({"indices": np.full(2400, 999)}, r"the (column|row) index 999,? (is )?outside (of )?0\.\."),
        ({"indices": np.zeros(2400, int)}, "row 0 has column 0 twice"),
        ({"data": np.full(2400, np.nan)}, "row 0, column 14 is nan"),
        ({"indptr": np.r_[0, 2400, np.zeros(299, int)]}, "must not decrease|must have"),
    ],
)
def test_npz_is_refused(tmp_path, kind, change, message):
    X = random_matrix(1).asformat(kind)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape, "format": kind.encode()}
    np.savez(tmp_path / "in.npz", **(parts | change))
    with pytest.raises(DataError, match=message):
        convert(str(tmp_path / "in.npz"), str(tmp_path / "out.h5"))
    assert os.listdir(tmp_path) == ["in.npz"]


def test_npz_of_something_else_than_arrays(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.writestr("format.npy", b"junk, no header")
    with pytest.raises(DataError, match="format is not an array"):
        convert(str(tmp_path / "in.npz"), str(tmp_path / "out.h5"))


def csc_file(path, X, **attributes):
    """A csc group as anndata writes it, or with other attributes."""
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs.update(attributes or {"encoding-type": "csc_matrix", "shape": X.shape})
        group["data"], group["indices"], group["indptr"] = X.data, X.indices, X.indptr
    return str(path)


def test_a_csc_matrix_of_hdf5_is_converted(tmp_path):
    X = random_matrix(3).tocsc()
    convert(csc_file(tmp_path / "in.h5", X), str(tmp_path / "out.h5"))
    assert same(stored(tmp_path / "out.h5")[0], X)


def test_a_column_of_more_values_than_rows_is_refused_before_they_are_sorted(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "streammargin.tables.matrices.compressed.Spill.append", lambda *given: pytest.fail("they are parked")
    )
    X = sp.csc_matrix((np.ones(5), np.zeros(5, int), [0, 0, 5]), shape=(3, 2))
    with pytest.raises(DataError, match="column 1 has 5 values in 3 rows; sum the duplicates first"):
        convert(csc_file(tmp_path / "in.h5", X), str(tmp_path / "out.h5"))
    assert os.listdir(tmp_path) == ["in.h5"]


def test_broken_csc_groups_are_named(tmp_path):
    X, out = random_matrix(3).tocsc(), str(tmp_path / "out.h5")
    with pytest.raises(DataError, match="the shape of the matrix is None"):
        convert(csc_file(tmp_path / "a.h5", X, **{"encoding-type": "csc_matrix"}), out)
    path = csc_file(tmp_path / "b.h5", X)
    with h5py.File(path, "r+") as file:
        del file["X/indices"]
    with pytest.raises(DataError, match="no 1-dimensional dataset indices"):
        convert(path, out)


def test_too_small_a_budget_names_the_least(tmp_path, here):
    path = csc_file(tmp_path / "in.h5", random_matrix(3).tocsc())
    with pytest.raises(UsageError, match='use memory="1M" or more'):
        convert(path, str(tmp_path / "out.h5"), memory=1)
    convert(path, str(tmp_path / "out.h5"), memory="1M")
    path = write_h5(tmp_path / "dense.h5", np.eye(4))
    done = here("shuffle", path, "s.h5", "--memory", "1", main=main, cwd=tmp_path)
    assert done.returncode == 2 and "use --memory " in done.stderr
    least = done.stderr.split("use --memory ")[1].split()[0]
    shuffle(path, str(tmp_path / "s.h5"), memory=least)


def test_a_matrix_by_columns_keeps_its_weights_and_misses_its_labels(tmp_path):
    X, out = random_matrix(3), str(tmp_path / "out.h5")
    path, weights = csc_file(tmp_path / "in.h5", X.tocsc()), np.arange(300) / 7
    with h5py.File(path, "r+") as file:
        file["sample_weight"] = weights
    convert(path, out)
    with h5py.File(out) as file:
        assert np.array_equal(file["sample_weight"][:], weights)
    with h5py.File(path, "r+") as file:
        del file["sample_weight"]
        file["sample_weight"] = weights[1:]
    with pytest.raises(DataError, match=r"299 weights, fewer than .* has rows"):
        convert(path, out, force=True)
    with h5py.File(path, "r+") as file:
        del file["sample_weight"]
        file["y"] = h5py.SoftLink("/gone")
    with pytest.raises(DataError, match="/gone"):
        convert(path, out, force=True)


@pytest.mark.parametrize("user_block", [0, 512, 1024, 2048, 4096, 32768])
@pytest.mark.parametrize("name", ["in.mat", "in"])
def test_hdf5_behind_a_user_block(tmp_path, user_block, name):
    """MATLAB's -v7.3 puts a header of text and zeros there."""
    with h5py.File(tmp_path / name, "w", userblock_size=user_block) as file:
        file["X"], file["y"] = np.eye(3), [0, 1, 0]
    if user_block:
        with open(tmp_path / name, "r+b") as file:
            file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64, HDF5 schema 1.00 .".ljust(124) + b"\0\2IM")
    convert(str(tmp_path / name), str(tmp_path / "out.h5"))
    X, y = stored(tmp_path / "out.h5")
    assert X.tolist() == np.eye(3).tolist() and y.tolist() == [0, 1, 0]


LATIN = "\xe5,1\nn\xe4h,2\n" * 3


def test_text_in_another_encoding_names_the_command_that_mends_it(tmp_path):
    (tmp_path / "in.csv").write_text(LATIN.replace("\xe5", "a", 1), "latin-1")
    (tmp_path / "wide.txt").write_text(LATIN, "utf-16")
    with pytest.raises(
        DataError, match=r"in\.csv, line 2: not UTF-8 text; if it is Latin-1, .*: iconv -f LATIN1 -t UTF-8"
    ):
        convert(str(tmp_path / "in.csv"), str(tmp_path / "out.h5"), y="0")
    (tmp_path / "euro.csv").write_text("a,y\n1,\u20ac\n", "cp1252")
    with pytest.raises(DataError, match=r"if it is Windows-1252, .*: iconv -f CP1252 -t UTF-8"):
        convert(str(tmp_path / "euro.csv"), str(tmp_path / "out.h5"), y="0")
    with pytest.raises(DataError, match=r"wide\.txt is UTF-16 text, .*: iconv -f UTF-16 -t UTF-8 IN > OUT"):
        convert(str(tmp_path / "wide.txt"), str(tmp_path / "out.h5"), y="0")
    (tmp_path / "wide.csv").write_text(LATIN, "utf-16")  # the ending says the format
    with pytest.raises(DataError, match=r"wide\.csv, line 1: .*UTF-16, .*: iconv -f UTF-16 -t UTF-8 IN > OUT"):
        convert(str(tmp_path / "wide.csv"), str(tmp_path / "out.h5"), y="0")
    assert shutil.which("iconv") is None or (
        subprocess.run("iconv -f LATIN1 -t UTF-8 in.csv > utf8.csv", shell=True, cwd=tmp_path).returncode == 0
    )


@pytest.mark.parametrize("kind", ["fixed", "variable", "categories"])
def test_labels_of_hdf5_in_latin_1_are_not_called_damaged(tmp_path, kind):
    values = np.array([b"ja", b"ja", "n\xe4h".encode("latin-1")])
    path = write_h5(tmp_path / "in.h5", np.eye(3), values if kind == "fixed" else None)
    with h5py.File(path, "a") as file:
        texts = values.astype(h5py.string_dtype("ascii")) if kind != "fixed" else None
        if kind == "variable":
            file["y"] = texts
        elif kind == "categories":
            file["y/categories"], file["y/codes"] = texts, np.arange(3, dtype=np.int8)
    with pytest.raises(
        DataError, match=r"text of row 2 is not valid UTF-8 .* if it is Latin-1, .*: iconv -f LATIN1"
    ) as e:
        convert(path, str(tmp_path / "out.h5"))
    assert "damaged" not in str(e.value)
