"""A spool is used again only while its files are what they were, whatever their sizes and times say."""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import streammargin as sm
from streammargin.tables.readers import base as stamps
from streammargin.tables.readers.base import stamp

pytestmark = pytest.mark.usefixtures("inside")

N, ROOT = 2000, Path(sm.__file__).parents[1]
FORMS = ["csv", "tsv", "parquet", "feather", "svm", "folder"]


def frame(altered=None, rows=N):
    """Rows of numbers with as many digits each; one of them may be altered."""
    x = np.random.default_rng(0).integers(100_000, 999_999, rows)
    y = np.where(x % 2, "odd", "even")
    if altered is not None:
        x[altered] = 1_099_998 - x[altered]
    return pd.DataFrame({"x": x, "y": y})


def write(path, form, altered=None):
    table = frame(altered)
    if form == "folder":
        os.makedirs(path, exist_ok=True)
        for k in range(2):
            table[k * N // 2 : (k + 1) * N // 2].to_csv(f"{path}/{k}.csv", index=False)
    elif form == "parquet":
        parquet.write_table(pa.Table.from_pandas(table), path, compression="none", use_dictionary=False)
    elif form == "feather":
        feather.write_feather(table, path, compression="uncompressed", chunksize=1000)
    elif form == "svm":
        with open(path, "w") as file:
            file.writelines(f"{x % 2} 1:{x}\n" for x in table.x)
    else:
        table.to_csv(path, index=False, sep="\t" if form == "tsv" else ",")


def put_in_place(path, form, altered, times):
    """Alter a row in the file itself, and put its times back."""
    write("other", form, altered)
    for name in ["0.csv", "1.csv"] if form == "folder" else [""]:
        to = os.path.join(path, name) if name else path
        with open(os.path.join("other", name) if name else "other", "rb") as source, open(to, "r+b") as file:
            new = source.read()
            assert len(new) == os.path.getsize(to)
            file.write(new)
        os.utime(to, ns=times)


@pytest.fixture
def again(caplog):
    """Trains on a path with a spool; whether it was used again."""
    caplog.set_level("INFO", "streammargin")

    def trained(path, form):
        caplog.clear()
        sm.train(path, y=None if form == "svm" else "y", spool=".", passes=1, solver="pegasos")
        return "nothing has changed" in caplog.text

    return trained


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", [0, N // 2 + 1, N - 1])
def test_a_row_that_is_altered_in_place_is_noticed(form, row, again):
    path = f"t.{form}"
    write(path, form)
    for name in [path, *(f"{path}/{k}.csv" for k in range(2) if form == "folder")]:
        os.utime(name, ns=(10**18, 10**18))
    assert not again(path, form) and again(path, form)
    before = [(os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files(path)]
    put_in_place(path, form, row, (10**18, 10**18))
    assert [(os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files(path)] == before
    assert not again(path, form) and again(path, form)


def files(path):
    return sorted(f"{path}/{name}" for name in os.listdir(path)) if os.path.isdir(path) else [path]


@pytest.mark.parametrize("form", ["csv", "parquet", "folder"])
def test_another_mode_or_a_link_makes_the_spool_anew_and_is_no_error(form, again):
    path = f"t.{form}"
    write(path, form)
    assert not again(path, form)
    for file in files(path):
        os.chmod(file, 0o600)
        os.link(file, f"_{os.path.basename(file)}")
    again(path, form)
    assert again(path, form)
    shutil.move(path, "moved")
    shutil.move("moved", path)
    again(path, form)
    assert again(path, form)


@pytest.mark.parametrize("row", [0, N // 3, N - 1])
@pytest.mark.parametrize("form", ["csv", "parquet", "feather"])
def test_bytes_are_compared_where_no_time_of_the_status_is_kept(form, row, monkeypatch):
    """As on some disks, and for two writes within one tick of the clock: what the sample has is noticed."""

    class Status:
        def __init__(self, real):
            self.st_size, self.st_mtime_ns, self.st_ctime_ns, self.st_ino = real.st_size, 1, 1, 1

    write("t", form)
    fstat = os.fstat
    monkeypatch.setattr(stamps.os, "fstat", lambda file: Status(fstat(file)))
    before = stamp(["t"])
    put_in_place("t", form, row, (1, 1))
    assert stamp(["t"]) != before
    put_in_place("t", form, None, (1, 1))
    assert stamp(["t"]) == before


@pytest.mark.parametrize("form", ["parquet", "feather"])
def test_the_footer_is_read_whole(form, monkeypatch):
    """It has the least and the largest values of Parquet, and lies between the places that are looked at."""
    columns = {f"column {k:03}": np.arange(3.0) for k in range(500)}
    table = pa.table(columns)
    parquet.write_table(table, "t", compression="none") if form == "parquet" else feather.write_feather(
        table, "t", compression="uncompressed"
    )
    with open("t", "rb") as file:
        whole = file.read()
    place = whole.rindex(b"column 250")
    assert len(whole) - place > 2 * stamps.STAMPED_BYTES
    monkeypatch.setattr(stamps, "STAMPED_PLACES", 4)
    before = stamp(["t"])
    altered = whole[:place] + b"Column" + whole[place + 6 :]
    with open("t", "r+b") as file:
        file.write(altered)
    with open("t", "r+b") as file:  # what differs is a sample of bytes alone
        pass
    os.utime("t", ns=(os.stat("t").st_atime_ns, 10**18))
    found = stamp(["t"])
    assert found.split()[-1] != before.split()[-1]


def test_files_of_any_size_and_number_have_a_stamp():
    sizes = stamps.STAMPED_BYTES - 1, stamps.STAMPED_BYTES, stamps.STAMPED_BYTES + 1, 10 * stamps.STAMPED_BYTES
    for size in (0, 1, 7, 8, 9, 12, *sizes):
        for end in (b"", b"PAR1", b"\xff\xff\xff\xffPAR1", b"\xff\xff\xff\xffARROW1"):
            with open("f", "wb") as file:
                file.write(bytes(size) + end)
            found = stamp(["f"])
            assert len(found.split()) == 5
            if 1 < size <= stamps.STAMPED_BYTES * stamps.STAMPED_PLACES:
                with open("f", "r+b") as file:
                    file.seek(size // 2)
                    file.write(b"x")
                assert stamp(["f"]).split()[-1] != found.split()[-1]
    many = [f"{k}" for k in range(2000)]
    for name in many:
        with open(name, "wb") as file:
            file.write(name.zfill(4).encode() * 10_000)
    assert len(set(stamp(many).split()[4::5])) == 2000 and stamp([]) == ""


def test_a_file_that_is_gone_is_an_error():
    with pytest.raises(sm.InputMissingError, match=r"gone.csv: no such file"):
        stamp(["gone.csv"])


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_training_goes_on_after_chmod_and_a_move_of_its_table(form, tmp_path):
    """The spool is made anew, and its rows are those that the checkpoint knows."""
    path = f"t.{form}"
    frame(rows=200).to_csv(path, index=False) if form == "csv" else frame(rows=200).to_parquet(path)
    options = {"y": "y", "spool": ".", "tol": 1e-12, "solver": "sdca"}
    straight = sm.train(path, checkpoint="other", passes=6, **options).model
    events = []
    sm.train(path, checkpoint="points", passes=3, **options)
    os.chmod(path, 0o600)
    shutil.copy2(path, "copy")
    os.replace("copy", path)
    found = sm.train(path, checkpoint="points", passes=6, listeners=[events.append], **options)
    assert "resumed" in {event["event"] for event in events}
    np.testing.assert_array_equal(found.model.coef_, straight.coef_)
    assert found.model.schema == straight.schema


def test_a_spool_whose_header_is_damaged_is_refused(tmp_path):
    """HDF5 opens it, and fails on its root."""
    rows = "".join(f"{k % 7},{'yes' if k % 7 > 3 else 'no'}\n" for k in range(40))
    (tmp_path / "x.csv").write_text(f"a,label\n{rows}")
    sm.train(str(tmp_path / "x.csv"), spool=str(tmp_path))
    spool = tmp_path / "x.csv.rows.h5"
    raw = bytearray(spool.read_bytes())
    raw[raw.index(b"OHDR") + 8] ^= 0xFF
    spool.write_bytes(raw)
    with pytest.raises(sm.StreamMarginError, match=r"x\.csv\.rows\.h5 exists, and was not written from a table"):
        sm.train(str(tmp_path / "x.csv"), spool=str(tmp_path))


TWO = """
import sys
import time
import streammargin as sm
print(sm.train("table.csv", y="y", C=float(sys.argv[1]), missing=sys.argv[2] or None, spool=".").certificate.primal)
"""


@pytest.mark.parametrize("missing", [("", ""), ("mean", "zero")], ids=["one spool", "two spools"])
def test_two_trainings_of_one_table_at_once(tmp_path, missing):
    """The second one waits for the rows of the first, or writes its own if its options make others of them."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20_000, 8))
    lines = [",".join(f"{value:.6f}" for value in row) + f",{int(row[0] > 0)}\n" for row in rows]
    gap = "" if not missing[0] else ",1,1,1,1,1,1,1,1\n" * 50
    (tmp_path / "table.csv").write_text("a,b,c,d,e,f,g,h,y\n" + "".join(lines) + gap)
    costs = ("0.001", "0.01")
    command = [sys.executable, "-c", TWO]
    at_once = [
        subprocess.Popen([*command, C, how], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={**os.environ, "PYTHONPATH": str(ROOT)})
        for C, how in zip(costs, missing, strict=True)
    ]  # fmt: skip
    ended = [process.communicate() for process in at_once]
    assert [process.returncode for process in at_once] == [0, 0], ended
    for (out, _), C, how in zip(ended, costs, missing, strict=True):
        alone = sm.train(str(tmp_path / "table.csv"), y="y", C=float(C), missing=how or None)
        assert float(out) == pytest.approx(alone.certificate.primal, rel=1e-9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.csv", "table.csv.rows.h5"]


def test_a_training_that_waits_for_the_spool_of_another_says_so(monkeypatch, caplog):
    caplog.set_level("INFO", "streammargin")
    frame(rows=50).to_csv("t.csv", index=False)
    with open("t.csv") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(other, fcntl.LOCK_UN))  # who waits sees its end
        sm.train("t.csv", y="y", tol=0.5, spool=".")
    assert "t.csv: waiting for the program that has locked it, such as another training" in caplog.messages
