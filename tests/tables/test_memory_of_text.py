"""Long text takes its bytes once, not once a row: labels, words, names of rows, and what is written of them."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from conftest import HANGS
from pyarrow import feather, parquet

import streammargin as sm
from streammargin.cli.main import main
from streammargin.errors import DataError, UsageError
from streammargin.model.io import load_model
from streammargin.numpy_model import texts_of
from streammargin.sources.batch import Batch
from streammargin.sources.labels import WIDEST, as_values, census, is_text
from streammargin.sources.names import packed_texts
from streammargin.tables.matrices.compressed import Spill
from streammargin.tables.open import open_table
from streammargin.tables.readers import messages
from streammargin.tables.readers.base import Room
from streammargin.tables.tally import MOST_LETTERS, Tallied, coded
from streammargin.tables.textfile import Text

ROWS, LONG = 4_000, 60_000  # a row each of them: 240 MB
# the exit code of each command, and the peak of this process in MiB beyond that of a training on few rows
PEAK = """
import resource, sys
import numpy, pyarrow.compute, pyarrow.csv, pyarrow.parquet, streammargin.tables.spool, streammargin.training.tables
import streammargin as sm
from streammargin.cli.main import main
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
main(["train", sys.argv[1], "-o", "small.npz", "-q", "--force", "--memory", "64M"])
before = peak()
for command in sys.argv[2:]:
    code = main(command.split())
    print(code, (peak() - before) // 1024)
"""


def peaks_of(folder, small, *commands):
    """(exit code, MiB beyond those of a training on `small`) of commands, one after the other, in one process."""
    line = [sys.executable, "-c", PEAK, small, *(f"{command} --force --memory 64M" for command in commands)]
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr[-2000:]
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()[-len(commands) :]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One word of 60 kB in 4,000 rows, as a dictionary of each format, and plain in Parquet; and 100 rows."""
    home = tmp_path_factory.mktemp("text")
    random = np.random.default_rng(0)
    word = pa.DictionaryArray.from_arrays(pa.array(np.zeros(ROWS, np.int8)), pa.array(["x" * LONG]))
    numbers = random.normal(size=ROWS)
    table = pa.table({"a": numbers, "w": word, "label": np.where(numbers > 0, "yes", "no")})
    feather.write_feather(table, home / "x.feather")
    with pa.OSFile(str(home / "x.arrows"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    parquet.write_table(table, home / "x.parquet")
    parquet.write_table(table.set_column(1, "w", word.dictionary_decode()), home / "plain.parquet")
    few = table.slice(0, 100).set_column(1, "w", pa.array(["u", "v"] * 50))
    feather.write_feather(few, home / "few.feather")
    return home


@pytest.mark.parametrize("form", ["x.feather", "x.arrows", "x.parquet", "plain.parquet"])
def test_a_long_word_of_a_dictionary_takes_its_bytes_once(folder, form):
    commands = (f"train {form} -o m.npz -q", f"predict m.npz {form} --id w -o p.parquet")
    trained, predicted = peaks_of(folder, "few.feather", *commands)
    assert trained <= (0, 64) and predicted <= (0, 128)  # the names of rows are written, some at a time


def test_one_long_label_among_rows_takes_its_bytes_once(folder):
    random = np.random.default_rng(0)
    long = "z" * 300_000
    with open(folder / "l.csv", "w") as file:
        file.write("a,label\n")
        for row, x in enumerate(random.normal(size=1000).tolist()):
            file.write(f"{x:.4f},{('yes' if x > 0 else 'no') + (long if row == 7 else '')}\n")
    assert peaks_of(folder, "few.feather", "train l.csv -o l.npz -q") <= [(0, 64)]
    model = load_model(folder / "l.npz")
    assert model.classes_.dtype == object and [each.rstrip("z") for each in model.classes_] == ["no", "yes", "yes"]
    assert main(["verify", str(folder / "l.npz"), str(folder / "l.csv.rows.h5")]) == 0
    for output in ("p.csv", "p.h5", "p.parquet"):
        command = ["predict", str(folder / "l.npz"), str(folder / "l.csv"), "-o", str(folder / output), "--force"]
        assert main(command) == 0
    lines = (folder / "p.csv").read_text().splitlines()
    assert lines == parquet.read_table(folder / "p.parquet")["label"].to_pylist() and len(lines) == 1000


def test_labels_are_of_fixed_width_only_if_they_are_short():
    short, long = ["a", "b" * WIDEST], ["a", "b" * (WIDEST + 1)]
    assert as_values(np.array(short, object)).dtype.kind == "U"
    found = as_values(np.array(long, object))
    assert found.dtype == object and is_text(found)
    classes, codes, counts = census([np.array(long * 3, object)], 6)
    assert classes.tolist() == long and codes.tolist() == [0, 1] * 3 and counts.tolist() == [3, 3]
    assert texts_of(packed_texts(classes)).tolist() == long
    plain = np.array(short)
    assert packed_texts(plain) is plain and texts_of(plain) is plain


def test_texts_that_are_spilled_take_their_own_length(tmp_path):
    spill = Spill(str(tmp_path))
    labels = np.array(["", "é" * 50_000, "b"] * 100, object)
    spill.append(0, Batch(np.zeros((300, 1)), None, None, None, labels[:200], None))
    spill.append(0, Batch(np.zeros((100, 1)), None, None, None, labels[200:], None))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 100 * 2 * 50_000 + 20_000
    found = spill.read(0)
    assert found.labels.tolist() == labels.tolist() and len(set(map(id, found.labels))) == 3


def test_words_are_codes_of_those_that_occur_and_gaps_are_null():
    given = pa.DictionaryArray.from_arrays(
        pa.array([3, 0, None, 3, 1, 2], pa.int8()), pa.array(["a", None, "", "b", "c"])
    )
    for column in (given, given.cast(pa.string())):
        found = coded(column, [""])
        assert found.dictionary.to_pylist() == ["b", "a"] and found.to_pylist() == ["b", "a", None, "b", None, None]
    assert coded(given[1:3]).to_pylist() == ["a", None]
    assert coded(pa.array([1.5, None]).dictionary_encode()).to_pylist() == [1.5, None]


def test_the_words_that_are_counted_are_bounded_by_their_letters():
    found = Tallied()
    assert found.count("a" * (MOST_LETTERS - 1), 1) and not found.count("bb", 1) and found.count("c", 2)
    assert found.full and found.count("c", 1) and found.words["c"] == 3


# batches of Arrow


@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_a_batch_is_refused_before_it_is_read_if_what_it_decodes_to_has_no_room(tmp_path, form, compression):
    """160 MB of zeros are some kB in a file."""
    table, path = pa.table({"a": np.zeros(20_000_000), "label": np.zeros(20_000_000, np.int8)}), tmp_path / "t"
    make = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as file, make(file, table.schema, options=options) as writer:
        writer.write_table(table)
    before = pa.total_allocated_bytes()
    with pytest.raises(UsageError, match=r"t has batches of 17\d.*M, and each .* use memory=.2\d\dM. or more"):
        list(open_table(str(path), room=Room(64 << 20)).batches(["a"], frozenset()))
    assert pa.total_allocated_bytes() - before < 1 << 20
    if form == "stream":
        with open(path, "rb") as file, pytest.raises(UsageError, match="has batches of"):
            pa.ipc.open_stream(messages.Checked(file, "t", Room(64 << 20))).read_all()


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_messages_pass_unchanged_and_their_sizes_are_those_of_arrow(tmp_path, compression, monkeypatch):
    random = np.random.default_rng(0)
    words = pa.array(random.choice(["a", "b" * 500], 4000))
    table = pa.table({"x": random.normal(size=4000), "w": words, "d": words.dictionary_encode()})
    path = tmp_path / "t.arrows"
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema, options=options) as stream:
        stream.write_table(table, max_chunksize=1000)
    sizes = []
    monkeypatch.setattr(messages.Needed, "check_size", lambda needed, nbytes: sizes.append(nbytes))
    with open(path, "rb") as file:
        assert pa.ipc.open_stream(messages.Checked(file, "t", Room())).read_all().equals(table)
    sizes.clear()
    messages.check_file(str(path), "t", Room(), 0)
    batches = [batch.select(["x", "w"]).get_total_buffer_size() for batch in pa.ipc.open_stream(path.read_bytes())]
    assert len(sizes) == 5
    for size, batch in zip(sizes[1:], batches, strict=True):
        assert 0.9 * batch < size < 1.3 * batch + 8192


# rows and fields of text


def written(path, field, rows=60, at=7):
    with open(path, "w") as file:
        file.write("a,t,label\n")
        for row in range(rows):
            file.write(f"{row % 9}.5,{field if row == at else 'w'},{'yes' if row % 2 else 'no'}\n")
    return str(path)


def read(path, memory, columns=("a", "t")):
    return list(open_table(path, room=Room(memory)).batches(columns, frozenset()))


@pytest.mark.parametrize("field", ["q" * 5_000_000, '"' + "q" * 5_000_000 + '"', '"' + "q\n" * 2_500_000 + '"'])
def test_a_long_field_is_read_if_memory_has_room_and_else_refused_with_the_least_budget(tmp_path, field):
    path = written(tmp_path / "t.csv", field)
    texts = [text for batch in read(path, 256 << 20) for text in batch.column("t").to_pylist()]
    assert texts[7] == field.strip('"') and texts[8] == "w" and len(texts) == 60
    with pytest.raises(UsageError, match=r"t.csv, line 9: a row of 4.7\dM, which takes 17 .* use memory=.82M. or"):
        read(path, 32 << 20)
    assert len(read(path, 82 << 20))


def test_a_field_that_is_longer_than_any_may_be_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("streammargin.tables.readers.delimited.LONGEST_LINE", 100_000)
    path = written(tmp_path / "t.csv", "q" * 100_001)
    with pytest.raises(DataError, match=r"t\.csv, line 9, column t: longer than 100000 bytes; shorten it"):
        read(path, 256 << 20)
    assert read(path, 256 << 20, ["a"])  # of a column that is not used
    assert read(written(tmp_path / "t.csv", "q" * 100_000), 256 << 20)


@pytest.mark.parametrize("where", ["row", "header"])
def test_an_open_quote_ends_the_reading_of_a_large_file_soon(tmp_path, where, monkeypatch):
    monkeypatch.setattr("streammargin.tables.readers.delimited.LONGEST_LINE", 1 << 18)
    path = tmp_path / "t.csv"
    with open(path, "w") as file:
        file.write("a,t,label\n" if where == "row" else 'a,"t,label\n')
        file.write("1.5,w,yes\n" * 5)
        file.write('1.5,"w,yes\n' if where == "row" else "1.5,w,yes\n")
        file.writelines(["1.5,w,yes\n"] * 1_000_000)
    read_bytes = []
    plain = Text.pieces
    monkeypatch.setattr(
        Text, "pieces", lambda text: ((line, read_bytes.append(len(raw)) or raw) for line, raw in plain(text))
    )
    with pytest.raises(DataError, match="quote"):
        read(str(path), 4 << 20)
    assert sum(read_bytes) < 3 << 20 < path.stat().st_size


def test_a_line_of_a_text_of_numbers_keeps_to_the_memory_too(tmp_path):
    path = tmp_path / "t.svm"
    path.write_text("1 1:1\n0 " + " ".join(f"{place}:1" for place in range(1, 300_000)) + "\n")
    with pytest.raises(UsageError, match=r"t.svm, line 2: a row of 2.\d*M, which takes 17 times .* use memory=.4\dM"):
        sm.train(str(path), memory="32M", spool=str(tmp_path))
