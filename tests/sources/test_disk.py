"""A disk that is full while HDF5 writes to it: one sentence, and no death, at whatever byte it is."""

import errno
import os
import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
from conftest import HANGS

import streammargin as sm
from streammargin.sources.hdf5 import write as disk
from streammargin.sources.hdf5.write import writable

pytestmark = pytest.mark.usefixtures("inside")

N = 150_000  # some chunks of labels, which are text


def full_after(monkeypatch, size):
    """The disk takes no byte at this place of a file, or behind it."""
    pwrite, truncate = os.pwrite, os.ftruncate

    def some(file, data, place):
        data = memoryview(data)[: max(0, size - place)]
        if not len(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(file, data, place)

    def shorter(file, length):
        if length > size:
            raise OSError(errno.ENOSPC, "No space left on device")
        truncate(file, length)

    monkeypatch.setattr(disk.os, "pwrite", some)
    monkeypatch.setattr(disk.os, "ftruncate", shorter)


def fill(file):
    """Numbers and text of all kinds of storage, which are then read back."""
    X = np.arange(80_000.0).reshape(-1, 8)
    words = np.array([f"word {k}" for k in range(20_000)], object)
    grown = file.create_dataset("grown", (0, 8), maxshape=(None, 8), chunks=(1000, 8), dtype="f8")
    text = file.create_dataset("text", (0,), maxshape=(None,), chunks=(1000,), dtype=h5py.string_dtype())
    for start in range(0, len(words), 1000):
        text.resize(start + 1000, axis=0)
        text[start:] = words[start : start + 1000]
        if start < len(X):
            grown.resize(start + 1000, axis=0)
            grown[start:] = X[start : start + 1000]
    file["whole"] = X
    file.create_dataset("packed", data=X, compression="gzip", chunks=(100, 8))
    file.attrs["told"] = "something"
    assert text.asstr()[:].tolist() == words.tolist() and np.array_equal(grown[:], X)
    file.move("whole", "aside")
    assert np.array_equal(file["aside"][:], X)
    del file["packed"]


def test_the_content_is_that_of_hdf5_alone():
    for mode in ("w", "r+"):
        with h5py.File("theirs.h5", mode) as file:
            fill(file) if mode == "w" else file.create_dataset("more", data=np.arange(10.0))
        with writable("ours.h5", mode) as (file, _):
            fill(file) if mode == "w" else file.create_dataset("more", data=np.arange(10.0))
        with h5py.File("theirs.h5") as theirs, h5py.File("ours.h5") as ours:
            assert set(theirs) == set(ours) and all(np.array_equal(theirs[name][:], ours[name][:]) for name in theirs)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mode", ["w", "r+"])
def test_hdf5_goes_on_and_the_fault_is_raised_afterwards(mode, monkeypatch):
    with writable("whole.h5") as (file, _):
        fill(file)
    size = os.path.getsize("whole.h5")
    for place in [0, 1, 96, 1000, *np.random.default_rng(0).integers(2000, size, 25).tolist(), size - 1]:
        with h5py.File("x.h5", "w") as file:
            file["before"] = np.arange(100.0)
        with monkeypatch.context() as patched:
            full_after(patched, place)
            with pytest.raises(OSError, match="No space left on device"), writable("x.h5", mode) as (file, _):
                fill(file)  # reads back what it wrote
            with pytest.raises(OSError, match="No space left"), writable("x.h5", mode) as (file, disk):
                while True:
                    fill(file.create_group(f"{len(file)}"))
                    disk.check()


# a child for each share of the whole file that an output may have; what it says is in a file of that name
CODE = """
import os, resource, sys
from streammargin.data_tools.main import main
convert = ["convert", sys.argv[1], "--y", "label"]
assert main([*convert, "../whole.h5"]) == 0
size = os.path.getsize("../whole.h5")
for share in sys.argv[2:]:
    sys.stdout.flush()
    if not os.fork():
        os.dup2(os.open("../" + share, os.O_CREAT | os.O_WRONLY), 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(int(float(share) * size), 1000),) * 2)
        sys.exit(main([*convert, "out.h5"]))
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_command_says_one_sentence_and_leaves_nothing(form):
    """Labels are text, and fill some chunks: HDF5 itself died of it."""
    pytest.importorskip("resource")
    n, shares = np.arange(N), ["0.02", "0.34", "0.38", "0.6", "0.9", "0.99"]
    frame = pd.DataFrame({"a": n % 100, "b": n % 7, "label": np.where(n % 3, "yes", "no")})
    os.mkdir("in")
    frame.to_csv("in/t.csv", index=False) if form == "csv" else frame.to_parquet("in/t.parquet")
    run = [sys.executable, "-c", CODE, f"t.{form}", *shares]
    done = subprocess.run(run, cwd="in", capture_output=True, text=True, timeout=HANGS)
    assert done.stdout.split()[-len(shares) :] == ["74"] * len(shares), done
    for share in shares:
        with open(share) as file:
            told = [line for line in file.read().splitlines() if "the label is" not in line]
        assert len(told) == 1, told
        assert told[0].startswith("streammargin-data: error: cannot write out.h5: ")
        assert told[0].endswith("free some space")
    assert os.listdir("in") == [f"t.{form}"]


def test_predictions_of_text_on_a_full_disk(monkeypatch):
    n = np.arange(200)
    frame = pd.DataFrame({"a": n % 10, "label": np.where(n % 10 > 4, "yes", "no")})
    model = sm.train(frame, y="label", passes=1).model
    model.save("m.npz")
    frame.to_csv("t.csv", index=False)
    before = sorted(os.listdir())
    from streammargin.cli.main import main

    for size in (0, 500, 2000, 4000):
        with monkeypatch.context() as patched:
            full_after(patched, size)
            assert main(["predict", "m.npz", "t.csv", "-o", "p.h5"]) == 74
        assert sorted(os.listdir()) == before
    assert main(["predict", "m.npz", "t.csv", "-o", "p.h5"]) == 0


@pytest.mark.parametrize("rows", [3, 30])  # in one piece, and in chunks
def test_long_texts_are_written_a_few_at_a_time(tmp_path, monkeypatch, rows):
    """HDF5 copies each text of a write, and rows with one long word share it in memory until then."""
    monkeypatch.setattr(disk, "CHUNK_BYTES", 640)  # ten texts in a chunk
    written = []
    write = h5py.Dataset.__setitem__
    monkeypatch.setattr(
        h5py.Dataset, "__setitem__",
        lambda dataset, place, values: written.append(sum(map(len, values))) or write(dataset, place, values),
    )  # fmt: skip
    texts = np.array([("no", "yes" * 100)[row % 2] for row in range(rows)], object)
    with writable(str(tmp_path / "t.h5")) as (file, _):
        labels = disk.Appender(file, "y", h5py.string_dtype())
        labels.append(texts)
        labels.close()
    with h5py.File(tmp_path / "t.h5") as file:
        assert file["y"].asstr()[:].tolist() == texts.tolist()
    assert sum(written) == sum(map(len, texts)) and max(written) <= 640 + 300
