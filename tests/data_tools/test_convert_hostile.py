"""Files made to mislead convert: what they declare is compared with what they store before it is used."""

import bz2
import gzip
import io
import lzma
import re
import zipfile

import h5py
import numpy as np
import pytest
from conftest import call

from streammargin.data_tools.convert import convert
from streammargin.errors import DataError, OutputError

WRAPS = np.array([0, 2**63 - 1, -2, 5])  # the differences of its neighbours wrap, and do not fall


def write_npz(path, method=zipfile.ZIP_DEFLATED, **changes):
    """What scipy.sparse.save_npz writes of a 3 x 4 matrix, with some arrays replaced by others, or by raw bytes."""
    arrays = {
        "indices": np.array([0, 1, 2, 0, 3]), "indptr": np.array([0, 2, 3, 5]), "format": np.array(b"csr"),
        "shape": np.array([3, 4]), "data": np.arange(1.0, 6.0), **changes,
    }  # fmt: skip
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, array in arrays.items():
            raw = array
            if not isinstance(array, bytes):
                np.save(stream := io.BytesIO(), array)
                raw = stream.getvalue()
            archive.writestr(f"{name}.npy", raw)
    return str(path)


def declared(shape, dtype, stored=b""):
    """A .npy that says it holds an array of this shape, and holds these bytes."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue() + stored


@pytest.mark.parametrize("kind, shape", [(b"csr", [3, 4]), (b"csc", [4, 3])])
@pytest.mark.parametrize("indptr", [WRAPS, WRAPS.astype(np.uint64), np.array([0, 2, 4, 2**40]), np.array([1, 2, 3, 5])])
def test_row_ends_that_leave_the_values(tmp_path, kind, shape, indptr):
    path = write_npz(tmp_path / "a.npz", indptr=indptr, format=np.array(kind), shape=np.array(shape))
    done = call(
        "convert", path, tmp_path / "out.h5", module="streammargin.data_tools"
    )  # read past the end before, and died of it
    assert done.returncode == 65 and "indptr" in done.stderr, done.stderr
    with h5py.File(tmp_path / "b.h5", "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csc_matrix", "shape": [4, 3]})
        group["data"], group["indices"], group["indptr"] = np.ones(5), np.array([0, 1, 2, 0, 3]), indptr
    with pytest.raises(DataError, match="indptr"):
        convert(str(tmp_path / "b.h5"), str(tmp_path / "out.h5"))


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"data": declared((3 * 10**8,), "<f8")}, "is said to be"),
        ({"indptr": declared((10**9,), "<i8")}, "is said to be"),
        ({"shape": np.zeros(10**6, int)}, "far too many"),
        ({"format": declared((), "|S0")}, "is said to be"),
        ({"indptr": np.zeros(9, int)}, "indptr must have 4"),
        ({"shape": np.array([2**62, 4]), "format": np.array(b"csc")}, "the shape of the matrix"),
        ({"indices": b"PK\x03\x04 no array"}, "is not an array"),
    ],
)
def test_sizes_that_are_not_stored(tmp_path, changes, words):
    with pytest.raises(DataError, match=words) as caught:
        convert(write_npz(tmp_path / "a.npz", **changes), str(tmp_path / "out.h5"))
    assert len(str(caught.value)) < 400 and not (tmp_path / "out.h5").exists()


def test_rows_that_cost_nothing_to_declare_must_fit_on_the_disk(tmp_path):
    empty = {"indices": np.empty(0, int), "data": np.empty(0), "indptr": np.zeros(5, int)}
    path = write_npz(tmp_path / "a.npz", format=np.array(b"csc"), shape=np.array([2**46, 4]), **empty)
    with pytest.raises(OutputError, match="would take 512T"):
        convert(path, str(tmp_path / "out.h5"))
    path = write_npz(tmp_path / "a.npz", format=np.array(b"csc"), shape=np.array([3 * 10**6, 4]), **empty)
    assert convert(path, str(tmp_path / "out.h5")) == (3 * 10**6, 4, 0)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damage_inside_an_archive_names_the_file(tmp_path, method):
    path = write_npz(tmp_path / "a.npz", method, data=np.random.default_rng(0).standard_normal(5000),
                     indices=np.zeros(5000, int), indptr=np.array([0, 0, 0, 5000]))  # fmt: skip
    raw = bytearray((tmp_path / "a.npz").read_bytes())
    place = zipfile.ZipFile(path).getinfo("data.npy").header_offset + 200
    raw[place : place + 3000] = bytes(3000)
    (tmp_path / "a.npz").write_bytes(raw)
    with pytest.raises(DataError, match=r"a\.npz"):
        convert(path, str(tmp_path / "out.h5"))


def test_links_that_lead_nowhere_in_a_csc_group(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csc_matrix", "shape": [4, 3]})
        group["data"], group["indices"] = h5py.SoftLink("/X/indices"), h5py.SoftLink("/X/data")
        group["indptr"] = np.zeros(4, int)
    with pytest.raises(DataError, match="is a link to /X/indices, which cannot be followed"):
        convert(str(tmp_path / "a.h5"), str(tmp_path / "out.h5"))


LINES = [f"{k % 2} 1:{k}\n".encode() for k in range(3000)]


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress, gzip.compress])
@pytest.mark.parametrize("damage", ["none", "header", "body", "cut", "rubbish"])
def test_no_stream_of_a_compressed_file_is_left_out(tmp_path, pack, damage):
    first, second = pack(b"".join(LINES[:1000])), bytearray(pack(b"".join(LINES[1000:])))
    if damage == "header":
        second[1] ^= 0xFF
    elif damage == "body":
        second[len(second) // 2] ^= 0xFF
    elif damage == "cut":
        del second[-10:]
    elif damage == "rubbish":
        second += b"rubbish that is no stream"
    (tmp_path / "in.txt").write_bytes(first + second)
    if damage == "none":
        assert convert(str(tmp_path / "in.txt"), str(tmp_path / "out.h5"))[0] == 3000
        return
    with pytest.raises(DataError, match="damaged or cut short"):  # half of the rows and no word before
        convert(str(tmp_path / "in.txt"), str(tmp_path / "out.h5"))


def test_xz_may_be_padded_with_zeros(tmp_path):
    padded = lzma.compress(b"".join(LINES[:1000])) + bytes(8) + lzma.compress(b"".join(LINES[1000:])) + bytes(4)
    (tmp_path / "in.xz").write_bytes(padded)
    assert convert(str(tmp_path / "in.xz"), str(tmp_path / "out.h5"))[0] == 3000


def test_a_line_without_an_end_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("streammargin.tables.textfile.Text.most", 10 << 20)
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"1 1:1\n0 " + b"2:1 " * (5 << 20)))
    with pytest.raises(DataError, match=r"line \d: longer than 10485760 bytes"):
        convert(str(tmp_path / "in.gz"), str(tmp_path / "out.h5"))


@pytest.mark.parametrize("blank", ["\u00a0", "\u2003", "\x1c", "\x1f", "\x85", "\x00", "\v", "\f", "\r", "\x7f"])
def test_only_ascii_blanks_are_blanks(tmp_path, blank):
    for text in (f"1{blank}1:2\n0 1:3\n", f"1 1:2{blank}2:3\n0 1:3\n", f"1 1:{blank}2\n0 1:3\n"):
        (tmp_path / "in.txt").write_bytes(text.encode())
        with pytest.raises(DataError):
            convert(str(tmp_path / "in.txt"), str(tmp_path / "out.h5"))
    before = [] if blank == "\u00a0" else [(f"{blank}1,2\n0,3\n", f"{blank}1")]  # that may stand before a sum of money
    for text, field in (*before, (f"1{blank},2,1\n0,3,4\n", f"1{blank}")):
        (tmp_path / "in.csv").write_bytes(text.encode())
        seen = f"{re.escape(repr(field))}|line 1: a control character, {re.escape(repr(blank))}"
        with pytest.raises(DataError, match=seen):
            convert(str(tmp_path / "in.csv"), str(tmp_path / "out.h5"), y="-1")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n"])
def test_lines_may_end_as_other_systems_write_them(tmp_path, end):
    texts = (("in.txt", ["1 1:2 # \x0b", "", "0\t1:3"], None), ("in.csv", ["1,2,1", "0, 3\t,0"], "-1"))
    for name, lines, label in texts:
        (tmp_path / name).write_bytes(end.join(lines).encode() + end[:-1].encode())
        out = str(tmp_path / "out.h5")
        assert convert(str(tmp_path / name), out, y=label, force=True)[0] == 2


@pytest.mark.parametrize(
    "start, words",
    [
        (b"\x28\xb5\x2f\xfd\x04", "compressed by zstd"),
        (b"MATLAB 5.0 MAT-file, Platform: GLNXA64", "a MATLAB file"),
        (b"1 1:2\x00\x00", "binary"),
    ],
)
def test_what_is_no_text_is_named_and_not_decoded(tmp_path, start, words):
    (tmp_path / "in").write_bytes(start)
    with pytest.raises(DataError, match=f"in is {words}, not text; "):
        convert(str(tmp_path / "in"), str(tmp_path / "out.h5"))
