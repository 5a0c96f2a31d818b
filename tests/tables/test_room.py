"""Readers keep to their share of the memory, whatever the sizes of row groups and batches; the rows are the same."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import HANGS
from pyarrow import csv as pa_csv
from pyarrow import feather, parquet

import streammargin as sm
from streammargin.errors import DataError, UsageError
from streammargin.sources.hdf5.write import RowWriter
from streammargin.tables.open import open_table
from streammargin.tables.readers import arrow, unit
from streammargin.tables.readers.base import Room


@pytest.fixture(scope="module")
def table():
    """Numbers, words, a dictionary, gaps and booleans."""
    random = np.random.default_rng(0)
    words = random.choice(["a", "Bern, old town", "é"], 5000)
    columns = {f"x{k}": pa.array(random.standard_normal(5000), mask=random.random(5000) < 0.1) for k in range(6)}
    columns |= {"w": pa.array(words), "d": pa.array(words[::-1]).dictionary_encode(), "b": pa.array(words == "a")}
    return pa.table(columns)


def rows_of(reader, columns):
    return pa.Table.from_batches(list(reader.batches(columns, frozenset())))


def plain(table):
    return table.set_column(table.column_names.index("d"), "d", table["d"].cast(pa.string())).to_pydict()


@pytest.mark.parametrize("memory", [1 << 18, 1 << 22, 1 << 28])
@pytest.mark.parametrize("form", ["parquet", "folder"])
def test_a_row_group_is_the_same_rows_however_few_columns_are_decoded_at_a_time(
    table, tmp_path, monkeypatch, memory, form
):
    (tmp_path / "parts").mkdir()
    path = tmp_path / "parts" / "t.parquet"
    parquet.write_table(table, path, row_group_size=3000)
    written = []
    write = unit._written
    monkeypatch.setattr(unit, "_written", lambda *given: written.append(given) or write(*given))
    room = Room(memory, str(tmp_path / "rows"))
    reader = open_table(str(path if form == "parquet" else path.parent), room=room)
    columns = ["w", "x3", "d", "x0", "b", "x5", "x1"]
    assert plain(rows_of(reader, columns)) == plain(table.select(columns))
    assert all(batch.num_rows <= room.rows(7) for batch in reader.batches(columns, frozenset()))
    assert bool(written) == (memory < 1 << 20) and os.listdir(tmp_path) == ["parts"]


MOST = """
import sys
import pyarrow
from streammargin.tables.open import open_table
from streammargin.tables.readers.base import Room
reader = open_table(sys.argv[1], room=Room(int(sys.argv[2]), sys.argv[1]))
for _ in reader.batches(reader.columns, frozenset()):
    pass
print(pyarrow.default_memory_pool().max_memory())
"""


def most_bytes(path, memory):
    """Bytes of Arrow at most while the table is read, in a process of its own."""
    command = [sys.executable, "-c", MOST, str(path), str(memory)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANGS).stdout)


def test_numbers_that_take_a_byte_in_a_file_are_counted_as_they_are_in_memory(tmp_path):
    """A row group of 5 MB has 64 MB of numbers."""
    digits = np.random.default_rng(0).integers(0, 4, (20, 400_000))
    parquet.write_table(pa.table({f"x{k}": each for k, each in enumerate(digits)}), tmp_path / "t.parquet")
    assert os.path.getsize(tmp_path / "t.parquet") < 8 << 20
    assert most_bytes(tmp_path / "t.parquet", 32 << 20) < 32 << 20
    assert os.listdir(tmp_path) == ["t.parquet"]


def test_columns_have_their_buffers_one_after_the_other(tmp_path):
    """Side by side each has a page, and the dictionary that its writer began with: 3 MB a column here."""
    numbers = np.random.default_rng(0).standard_normal((30, 150_000))
    parquet.write_table(pa.table({f"x{k}": each for k, each in enumerate(numbers)}), tmp_path / "t.parquet")
    assert most_bytes(tmp_path / "t.parquet", 48 << 20) < 24 << 20


def test_a_column_that_memory_never_holds_is_read_piece_by_piece(tmp_path):
    """A row group of 100 KB has 80 MB of numbers in a column."""
    numbers = np.arange(10_000_000) % 2
    whole = pa.table({"x": numbers.astype(float), "y": numbers, "w": np.where(numbers, "a", "b")})
    parquet.write_table(whole, tmp_path / "t.parquet", row_group_size=len(numbers))
    assert most_bytes(tmp_path / "t.parquet", 32 << 20) < 16 << 20
    rows = 0
    for batch in open_table(str(tmp_path / "t.parquet"), room=Room(8 << 20)).batches(["w", "y", "x"], frozenset()):
        if rows % (1 << 20) < batch.num_rows:
            assert pa.types.is_dictionary(batch.schema.field("w").type)
            here = whole.select(["w", "y", "x"]).slice(rows, batch.num_rows)
            assert pa.table(batch).cast(here.schema).equals(here)
        rows += batch.num_rows
    assert rows == len(numbers)


def test_a_batch_of_a_wide_table_has_few_rows():
    frame = pd.DataFrame(np.zeros((2000, 5000)))
    reader = arrow.of_object(frame.set_axis(map(str, range(5000)), axis=1))
    batches = list(reader.batches(reader.columns, frozenset()))
    assert sum(batch.num_rows for batch in batches) == 2000
    assert max(batch.nbytes for batch in batches) < 17 << 20


def test_a_batch_of_feather_that_memory_has_no_room_for_is_named_with_the_least_memory(table, tmp_path):
    path = str(tmp_path / "t.feather")
    feather.write_feather(table, path, chunksize=5000)
    with pytest.raises(UsageError, match=r"t.feather has batches of .*, and each .*; use memory=.1M. or more, or"):
        rows_of(open_table(path, room=Room(1 << 18)), ["x0", "x1", "x2", "x3", "x4", "x5", "w"])
    feather.write_feather(table, path, chunksize=500)
    assert rows_of(open_table(path, room=Room(1 << 18)), ["x0"])["x0"].to_pylist() == table["x0"].to_pylist()


@pytest.mark.parametrize("form", ["feather", "parquet"])
def test_a_file_that_is_cut_while_it_is_read_is_an_error(table, tmp_path, form):
    path = tmp_path / f"t.{form}"
    if form == "feather":
        feather.write_feather(table, path, chunksize=500)
    else:
        parquet.write_table(table, path, row_group_size=500)
    found = open_table(str(path)).batches(table.column_names, frozenset())
    next(found)
    os.truncate(path, 900)
    with pytest.raises(DataError, match=r"t\.\w+ is damaged .*; write or fetch it again"):
        list(found)


@pytest.mark.parametrize("form", ["csv", "parquet", "svm"])
def test_rows_that_change_while_they_are_read_are_no_spool(table, tmp_path, monkeypatch, form):
    """Its key would be that of the new file, its rows those of the old one."""
    path = tmp_path / f"t.{form}"
    frame = table.select(["x0", "x1"]).to_pandas().fillna(0.0).assign(y=[0, 1] * 2500)
    if form == "svm":
        path.write_text("".join(f"{k % 2} 1:{k}\n" for k in range(1, 5000)))
    else:
        frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
    append = RowWriter.append

    def and_change(self, batch):
        append(self, batch)
        os.utime(path, ns=(1, 1))

    monkeypatch.setattr(RowWriter, "append", and_change)
    with pytest.raises(DataError, match=r"was changed while it was read; start again"):
        sm.train(str(path), y=None if form == "svm" else "y", spool=str(tmp_path))
    assert os.listdir(tmp_path) == [path.name]
    monkeypatch.undo()
    model = sm.train(str(path), y=None if form == "svm" else "y").model
    monkeypatch.setattr(type(model), "score_blocks", changing(type(model).score_blocks, path))
    with pytest.raises(DataError, match=r"was changed while it was read; start again"):
        model.predict(str(path))


def changing(score_blocks, path):
    """`score_blocks`, and the file changes meanwhile."""

    def changed(*given, **options):
        for part in score_blocks(*given, **options):
            os.utime(path, ns=(2, 2))
            yield part

    return changed


@pytest.mark.parametrize("form", ["text", "parquet", "npy"])
def test_a_budget_that_no_plan_fits_is_refused_before_the_spool_is_written(tmp_path, monkeypatch, form):
    def writing(*given, **options):
        raise AssertionError("rows are written")

    options = {"y": "y", "spool": str(tmp_path)}
    if form == "text":
        pytest.importorskip("sklearn")
        pd.DataFrame({"w": ["so bad", "good"] * 20, "y": [0, 1] * 20}).to_csv(tmp_path / "t.csv", index=False)
        data, least = tmp_path / "t.csv", 27  # 7 vectors of 2^18 columns and a constant, and 12M
        options["text"] = "w"
    elif form == "parquet":
        columns = {f"x{k}": np.arange(4.0) for k in range(9000)}
        pd.DataFrame({**columns, "y": [0, 1] * 2}).to_parquet(tmp_path / "t.parquet")
        data, least = tmp_path / "t.parquet", 13
    else:
        np.save(tmp_path / "X.npy", np.zeros((4, 90_000), np.float32))
        data, least = tmp_path / "X.npy", 18
        options["y"] = np.arange(4) % 2
    with monkeypatch.context() as patch:
        patch.setattr(RowWriter, "append", writing)
        with pytest.raises(UsageError, match=rf"of 12M is too small for .*: its columns alone need {least}M; with "):
            sm.train(str(data), memory="12M", **options)
        assert os.listdir(tmp_path) == [data.name]
    with pytest.raises(UsageError, match=rf"a memory budget of {least}M is too small for .*use memory="):
        sm.train(str(data), memory=f"{least}M", **options)  # now it says what it needs in all


def test_text_is_parsed_in_smaller_pieces(table, tmp_path):
    table.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    reader = open_table(str(tmp_path / "t.csv"), room=Room(1 << 20))
    batches = list(reader.batches(["x0"], frozenset()))
    assert len(batches) > 5 and sum(batch.num_rows for batch in batches) == 5000


def peak_bytes(path, folder):
    """Resident bytes at most of a training with 24M, its spool included."""
    command = [sys.executable, "-m", "streammargin", "train", str(path), "-o", str(folder / "m.npz"), "--memory", "24M",
               "--spool", str(folder), "--force", "-q"]  # fmt: skip
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_maxrss << 10


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are those of Linux")
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_training_with_its_spool_keeps_to_the_budget(tmp_path, form):
    """Words, labels of text, and what the allocator of Arrow would keep were 30 to 60 MiB above it."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{k}": random.standard_normal(600_000).round(4) for k in range(12)})
    frame["w"] = random.choice(["Bern", "Rome", "Oslo"], len(frame))
    frame["y"] = np.where(frame["x0"] + random.standard_normal(len(frame)) > 0.0, "yes", "no")
    peaks = {}
    for rows in (len(frame), 100):
        path = tmp_path / f"t{rows}.{form}"
        pa_csv.write_csv(pa.table(frame[:rows]), path) if form == "csv" else frame[:rows].to_parquet(path, index=False)
        if rows == len(frame):
            peak_bytes(path, tmp_path)  # compiles
            os.unlink(tmp_path / f"{path.name}.rows.h5")
        peaks[rows] = peak_bytes(path, tmp_path)
    assert peaks[len(frame)] - peaks[100] <= 24 << 20
