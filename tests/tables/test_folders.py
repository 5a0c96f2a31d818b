"""Folders of tables and text: what is read of them, in which order, and what no output may replace."""

import gzip
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import call
from pyarrow import dataset

import streammargin as sm
from streammargin.cli.main import main
from streammargin.data_tools.convert import convert
from streammargin.errors import DataError, InputMissingError, UsageError
from streammargin.ordered import files_read
from streammargin.tables.formats import FOLDERS, files_of, format_of, is_parquet
from streammargin.tables.open import open_table

pytestmark = pytest.mark.usefixtures("inside")

KINDS = ["parquet", "csv", "csv.gz", "tsv", "feather", "arrow"]


def rows(start, stop):
    """Rows start to stop of a table whose column `n` numbers them."""
    n = np.arange(start, stop)
    return pd.DataFrame({"n": n, "a": np.cos(n), "label": np.where(np.cos(n) > 0, "yes", "no")})


def write(frame, path):
    """A frame as a file of the kind of its name."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    ending = path.rpartition(".")[2]
    if ending == "parquet":
        frame.to_parquet(path, index=False)
    elif ending == "feather":
        frame.to_feather(path)
    elif ending == "arrow":
        table = pa.Table.from_pandas(frame)
        with pa.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
    elif ending in ("svm", "libsvm"):
        lines = [f"{int(label == 'yes')} 1:{n} 2:{a}\n" for n, a, label in frame.itertuples(index=False)]
        with open(path, "w") as file:
            file.writelines(lines)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in path else ",")
    return path


def read(data, *columns):
    """The columns of a table, as lists."""
    parts = list(open_table(data).batches(list(columns), frozenset()))
    found = [[value for part in parts for value in part.column(k).to_pylist()] for k in range(len(columns))]
    return found[0] if len(columns) == 1 else found


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_any_kind_of_table_is_read_in_the_order_of_paths(kind):
    for k, name in enumerate(["b", "a/z", "a", "b-2"]):
        write(rows(10 * k, 10 * k + 10), f"F/{name}.{kind}")
    order = sorted([("F/b." + kind, 0), ("F/a/z." + kind, 10), ("F/a." + kind, 20), ("F/b-2." + kind, 30)])
    assert read("F", "n") == [n for _, first in order for n in range(first, first + 10)]
    assert files_of("F") == open_table("F").files() == [path for path, _ in order]
    assert is_parquet("F") == (kind == "parquet") and format_of("F") in FOLDERS.values()
    model = sm.train("F", y="label", drop="n").model
    np.testing.assert_array_equal(model.predict("F"), model.predict(pd.concat([rows(20, 30), rows(10, 20), rows(30, 40),
                                                                              rows(0, 10)])))  # fmt: skip
    assert model.evaluate("F")["accuracy"] > 0.9
    assert sm.train("F", y="label", drop="n", valid="F/a").certificate.valid_error is not None
    convert("F", "out.h5", y="label", drop="n")
    with sm.open_source("out.h5") as source:
        assert source.rows == 40
    with pytest.raises(InputMissingError, match="F is a directory"):
        sm.open_source("F")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("listed", [False, True])
def test_names_like_key_value_are_columns_of_folders_of_any_kind(kind, listed):
    expected = []
    for k, (year, city) in enumerate([(2023, "Rome"), (2023, "a%20b"), (2024, "Oslo")]):
        write(rows(10 * k, 10 * k + 10), f"F/year={year}/city={city}/x.{kind}")
    for year, city, first in ((2023, "Rome", 0), (2023, "a b", 10), (2024, "Oslo", 20)):
        expected += [(n, year, city) for n in range(first, first + 10)]
    data = ["F/year=2023", "F/year=2024"] if listed else "F"
    columns = read(data, "n", "year", "city")
    assert list(zip(*columns, strict=True)) == expected
    assert open_table(data).columns == ["n", "a", "label", "year", "city"]
    assert read(data, "year") == [2023] * 20 + [2024] * 10  # no column of the files at all
    model = sm.train(data, y="label", drop="n").model
    assert [column.name for column in model.schema.columns] == ["a", "year", "city"]
    frame = pd.DataFrame(expected, columns=["n", "year", "city"]).assign(a=lambda f: np.cos(f.n))
    np.testing.assert_array_equal(model.decision_function(data), model.decision_function(frame))


def test_keys_are_those_of_arrow():
    values = {"i": ["1", "-20"], "z": ["007", "1"], "s": ["1", "b"], "m": ["1", "__HIVE_DEFAULT_PARTITION__"]}
    for name, pair in values.items():
        for k, value in enumerate(pair):
            write(rows(k, k + 1), f"{name}/{name}={value}/x.parquet")
        found = dataset.dataset(name, format="parquet", partitioning="hive")
        table = found.to_table().sort_by("n")
        pairs = dict(zip(*read(name, "n", name), strict=True))
        assert [pairs[n] for n in table["n"].to_pylist()] == table[name].to_pylist()
        assert open_table(name).types[name] == found.schema.field(name).type


def test_a_key_that_is_text_keeps_its_zeros():
    for code in ("01001", "1001"):
        write(rows(0, 1), f"F/code={code}/x.csv")
    [batch, other] = open_table("F").batches(["code"], frozenset(["code"]))
    assert [*batch.column(0).to_pylist(), *other.column(0).to_pylist()] == ["01001", "1001"]


def test_spools_follow_the_names_of_folders(caplog):
    """A renamed folder is another value, and its files are what they were."""
    caplog.set_level("INFO", "streammargin")
    for year in (1, 2):
        write(rows(10 * year, 10 * year + 10), f"F/year={year}/x.csv")

    def trained():
        caplog.clear()
        model = sm.train("F", y="label", drop="n", spool=".").model
        return model.coef_.tolist(), "nothing has changed" in caplog.text

    first = trained()
    assert trained() == (first[0], True)
    os.rename("F/year=1", "F/year=0")
    assert trained()[1] is False and trained()[1] is True
    write(rows(0, 10), "F/year=2/w.csv")
    assert trained()[1] is False


@pytest.mark.parametrize("kind", ["parquet", "csv", "feather", "svm"])
def test_what_cannot_be_read_is_named(kind):
    name = write(rows(0, 30), f"F/a.{kind}")
    other = f"F/b.{kind}"
    os.symlink("/not/mounted/b", other)
    check_refused(f"{other} is a link to /not/mounted/b, which is not there; restore it, or remove {other}")
    os.unlink(other)
    os.mkfifo(other)
    check_refused(f"{other} is a device, a pipe or a socket, in a folder that is read; move it elsewhere, or begin its")
    os.unlink(other)
    os.symlink(os.path.basename(other), other)
    check_refused(f"{other} cannot be read .Too many levels of symbolic links.; move it")
    os.unlink(other)
    os.makedirs("F/deep/er")
    os.symlink("../..", "F/deep/er/up")
    os.symlink("../../deep", "F/deep/er/one")
    assert files_of("F") == [name]  # a folder counts once, whatever leads to it


def test_two_links_may_lead_to_each_other():
    write(rows(0, 30), "F/a/x.csv")
    write(rows(0, 30), "F/b/y.csv")
    os.symlink("../b", "F/a/to")
    assert len(files_of("F")) == 2
    os.symlink("../a", "F/b/to")
    assert len(files_of("F")) == 2


def check_refused(message, kinds=(InputMissingError, DataError)):
    """Training, prediction, evaluation, held-out rows and convert refuse the folder F, and write nothing."""
    frame = rows(0, 30)
    model = sm.train(frame, y="label", drop="n", passes=1).model
    if format_of("F") == "svmlight":
        model = sm.train((frame[["n", "a"]].to_numpy(), frame.label), passes=1).model
    before = sorted(os.listdir("."))
    with pytest.raises(kinds, match=message):
        files_read("F")
    for act in (lambda: sm.train("F"), lambda: model.predict("F"), lambda: model.evaluate("F"),
                lambda: convert("F", "out.h5")):  # fmt: skip
        with pytest.raises(kinds, match=message):
            act()
    assert sorted(os.listdir(".")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser reads all")
def test_a_file_or_folder_without_permission_is_named():
    write(rows(0, 30), "F/a.csv")
    write(rows(0, 30), "F/sub/b.csv")
    for path in ("F/sub", "F/sub/b.csv"):
        mode = os.stat(path).st_mode
        os.chmod(path, 0)
        try:
            check_refused(f"{path} cannot be read .Permission denied.")
        finally:
            os.chmod(path, mode)


@pytest.mark.parametrize("kind", ["parquet", "csv.gz", "feather", "svm"])
def test_a_file_is_read_once_and_that_is_said(kind, caplog):
    name = write(rows(0, 30), f"F/m.{kind}")
    write(rows(30, 40), f"else/x.{kind}")
    os.symlink(os.path.basename(name), f"F/a.{kind}")
    os.link(name, f"F/z.{kind}")
    os.symlink("../else", "F/k")
    os.symlink("k", "F/again")
    files = files_of("F")
    assert len(files) == 2 and len({os.stat(file).st_ino for file in files}) == 2
    assert files == [f"F/again/x.{kind}", name] or files == [f"F/k/x.{kind}", name]
    if kind != "svm":
        assert read("F", "n") == [*range(30, 40), *range(30)]
    else:
        assert sm.train("F").model.evaluate("F")["rows"] == 40
    assert "lead" in caplog.text and "each file is read once" in caplog.text


def test_a_file_of_a_folder_and_its_name_beside_it_are_an_error():
    write(rows(0, 30), "F/a.parquet")
    os.link("F/a.parquet", "b.parquet")
    for other in ("F/a.parquet", "b.parquet"):
        with pytest.raises(UsageError, match=r"F/a.parquet is F/a.parquet|F/a.parquet is b.parquet|b.parquet is F/a"):
            sm.train([other, "F"], y="label")


@pytest.mark.parametrize("kind", ["parquet", "csv", "feather", "svm"])
def test_names_that_begin_so_are_left_out_and_others_are_named(kind):
    name = write(rows(0, 30), f"F/a.{kind}")
    for other in ("_SUCCESS", ".b.crc", ".hidden/x.txt", "_delta/0.json", f"_c.{kind}", f".d.{kind}", "state.json"):
        os.makedirs(os.path.dirname(f"F/{other}"), exist_ok=True)
        with open(f"F/{other}", "w") as file:
            file.write("no rows")
    key = write(rows(30, 40), f"F/_year=1/b.{kind}")
    if kind == "svm":
        check_refused(f"{key} lies in a folder that is called key=value")
    else:
        assert files_of("F") == [key, name]
    shutil.rmtree("F/_year=1")
    for other, text in (("README.md", "A table, of rows\n"), ("notes.txt", "a,b\n1,2\n"), ("x", "")):
        with open(f"F/{other}", "w") as file:
            file.write(text)
        called = {"parquet": "Parquet", "csv": "CSV", "feather": "Arrow", "svm": "svmlight"}[kind]
        check_refused(f"F/{other} is not {called}, but lies in a folder of {called} files; move it elsewhere, or begin")
        os.unlink(f"F/{other}")


@pytest.mark.parametrize(("one", "other"), [("parquet", "csv"), ("csv", "feather"), ("svm", "csv"), ("parquet", "svm")])
def test_a_folder_of_two_kinds_names_a_file_of_each(one, other):
    for k in range(2):
        write(rows(0, 30), f"F/a{k}.{one}")
    write(rows(0, 30), f"F/b.{other}")
    check_refused(f"F/b.{other} is not .*, but lies in a folder of .* files; .*F/a0.{one} is one")


def test_the_content_of_a_file_tells_what_it_is():
    frame = rows(0, 30)
    write(frame, "F/a.parquet")
    shutil.copy("F/a.parquet", "F/b")
    frame.to_parquet("F/c.parquet.gz")
    assert files_of("F") == ["F/a.parquet", "F/b", "F/c.parquet.gz"] and len(read("F", "n")) == 90
    with open("F/d.parquet.gz", "wb") as file, open("F/a.parquet", "rb") as whole:
        file.write(gzip.compress(whole.read()))
    check_refused("F/d.parquet.gz is compressed by gzip, and Parquet is read as it is; unpack it")


@pytest.mark.parametrize("kind", ["parquet", "feather", "svm"])
@pytest.mark.parametrize("ending", [".bak", ".inprogress", "~"])
def test_a_copy_under_another_ending_is_no_shard(kind, ending):
    name = write(rows(0, 30), f"F/a.{kind}")
    shutil.copy(name, name + ending)
    check_refused(f"{name}{ending} has another ending than the .* files beside it; rename it, or move it elsewhere")


def test_a_key_that_is_a_column_too_is_said(caplog):
    write(rows(0, 30), "F/a=7/x.csv")
    write(rows(0, 30), "F/a=8/x.csv")
    assert read("F", "a") == [7] * 30 + [8] * 30
    assert "F/a=7/x.csv has columns that names of folders have, too, and these names count: a" in caplog.text


def test_files_without_endings_are_known_by_their_first_bytes():
    write(rows(0, 30), "x.svm")
    os.makedirs("F")
    for k in range(2):
        shutil.copy("x.svm", f"F/part-0000{k}")
    assert format_of("F") == "svmlight"
    assert sm.train("F").model.evaluate("F")["rows"] == 60


def test_svmlight_has_no_names_for_keys():
    write(rows(0, 30), "F/year=1/a.svm")
    check_refused("F/year=1/a.svm lies in a folder that is called key=value")
    assert sm.train(["F/year=1/a.svm"]).model.evaluate("F/year=1")["rows"] == 30


def test_many_files_of_svmlight_are_open_one_at_a_time():
    resource = pytest.importorskip("resource")
    for k in range(200):
        write(rows(k, k + 2), f"F/{k:03}.svm")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(120, hard), hard))
    try:
        convert("F", "out.h5")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with sm.open_source("out.h5") as source:
        assert source.rows == 400


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_a_file_that_lacks_a_column_is_named(kind):
    write(rows(0, 30), f"F/a.{kind}")
    write(rows(30, 60).drop(columns="a"), f"F/b.{kind}")
    with pytest.raises(DataError, match=rf"F/b.{kind} lacks the column a, which other files here have"):
        sm.train("F", y="label")


def test_files_of_a_folder_that_differ_are_named(caplog):
    write(rows(0, 30), "F/a.csv")
    write(rows(30, 60).drop(columns="a"), "F/b.csv")
    with pytest.raises(DataError, match=r"F/b.csv lacks the column a, which other files here have; add it, or move"):
        sm.train("F", y="label")
    write(rows(30, 60).assign(more=1.0), "F/b.csv")
    assert sm.train("F", y="label").model.feature_names_in_.tolist() == ["n", "a"]
    assert caplog.text.count("F/b.csv has the column more, which F/a.csv lacks; it is left out") == 1
    rows(30, 60).to_csv("F/b.csv", index=False, header=False)
    with pytest.raises(DataError, match=r"F/a.csv and F/b.csv differ by a header; give all files the same columns"):
        sm.train("F", y="label")
    rows(30, 60)[["label", "a", "n"]].to_csv("F/b.csv", index=False)
    assert read("F", "n") == [*range(60)]


def test_a_message_names_the_file_and_the_line():
    write(rows(0, 30), "F/a.csv")
    frame = rows(30, 60)
    frame.loc[4, "a"] = np.nan
    write(frame, "F/b.csv")
    model = sm.train("F/a.csv", y="label").model
    with pytest.raises(DataError, match=r"line 6 of F/b.csv.*a"):
        model.predict("F")


def test_folders_of_hdf5_and_of_other_files_say_what_to_name():
    os.makedirs("F")
    with pytest.raises(InputMissingError, match=r"F is a directory; name the file in it"):
        sm.train("F")
    convert(write(rows(0, 30), "x.csv"), "F/a.h5", y="label")
    with pytest.raises(InputMissingError, match=r"F is a directory; name its files, as F/\*.h5: several are shards"):
        sm.train("F")


# no output replaces what is read

OUTPUTS = {
    "train": ["train", "F", "--y", "label", "-q", "--force", "-o"],
    "log": ["train", "F", "--y", "label", "-q", "--force", "-o", "free.npz", "--log-json"],
    "valid": ["train", "mine.parquet", "--y", "label", "-q", "--force", "--valid", "F", "-o"],
    "predict": ["predict", "m.npz", "F", "--force", "-o"],
    "complete": ["complete", "F", "-q", "--columns", "n,a", "--y", "a2", "--force", "-o"],
}


@pytest.mark.parametrize("way", ["itself", "folder", "file", "hard", "nested"])
@pytest.mark.parametrize("verb", OUTPUTS)
def test_no_output_replaces_a_file_that_is_read(verb, way, capfd):
    write(rows(0, 30).assign(a2=1.0), "F/a.parquet")
    write(rows(30, 60).assign(a2=1.0), "other/x.parquet")
    write(rows(0, 30), "mine.parquet")
    if way == "itself":
        os.renames("other/x.parquet", "F/x.parquet")
    elif way == "folder":
        os.symlink("../other", "F/sub")
    elif way == "file":
        os.symlink("../other/x.parquet", "F/x.parquet")
    elif way == "hard":
        os.link("other/x.parquet", "F/x.parquet")
    else:
        os.makedirs("between")
        os.symlink("../other", "between/to")
        os.symlink("../between", "F/sub")
    if verb == "predict":
        sm.train("mine.parquet", y="label", passes=1).model.save("m.npz")
    path = Path("F/x.parquet" if way == "itself" else "other/x.parquet")
    before = path.read_bytes()
    assert main([*OUTPUTS[verb], str(path)]) == 2
    assert "is an input as well" in capfd.readouterr().err
    assert path.read_bytes() == before


def test_convert_and_checkpoints_replace_no_file_of_a_folder():
    write(rows(0, 30), "F/a.csv")
    os.makedirs("points")
    write(rows(30, 60), "points/slot-a.csv")
    os.rename("points/slot-a.csv", "points/slot-a")
    os.symlink("../points/slot-a", "F/b.csv")
    for act in (lambda: convert("F", "points/slot-a", force=True), lambda: sm.train("F", checkpoint="points")):
        with pytest.raises(UsageError, match="is an input as well"):
            act()
    assert sorted(os.listdir("points")) == ["slot-a"] and read("F", "n") == [*range(60)]


def test_a_spool_replaces_no_file_that_is_read():
    """The rows of another table are held out, from their spool."""
    write(rows(0, 30), "t.csv")
    sm.train("t.csv", y="label", spool=".", passes=1)
    before = Path("t.csv.rows.h5").read_bytes()
    write(rows(0, 31), "t.csv")
    with pytest.raises(UsageError, match=r"t.csv.rows.h5 is a file that is read, and the rows of t.csv are to be"):
        sm.train("t.csv", y="label", spool=".", valid="./t.csv.rows.h5")
    assert Path("t.csv.rows.h5").read_bytes() == before


def test_the_file_behind_standard_input_is_not_replaced():
    write(rows(0, 30), "t.csv")
    sm.train("t.csv", y="label", passes=1).model.save("m.npz")
    with open("t.csv", "rb") as file:
        before = file.read()
        done = call("predict", "m.npz", "-", "-o", "t.csv", "--force", stdin=file)
    assert done.returncode == 2 and "is an input as well" in done.stderr
    with open("t.csv", "rb") as file:
        assert file.read() == before


def test_single_cells_are_read_beside_other_files_and_known_by_all_of_them(caplog):
    scipy_io, sparse = pytest.importorskip("scipy.io"), pytest.importorskip("scipy.sparse")
    caplog.set_level("INFO", "streammargin")
    counts = sparse.random(5, 20, 0.5, random_state=0, format="csc")
    os.makedirs("cells")
    scipy_io.mmwrite("cells/matrix.mtx", counts)
    for name, size in (("features", 5), ("barcodes", 20)):
        with open(f"cells/{name}.tsv", "w") as file:
            file.writelines(f"{name}{k}\n" for k in range(size))
    write(rows(0, 20), "cells/kinds.csv")
    assert format_of("cells") == "mtx"
    assert sorted(files_of("cells")) == ["cells/barcodes.tsv", "cells/features.tsv", "cells/matrix.mtx"]
    y = np.arange(20) % 2

    def again():
        caplog.clear()
        sm.train("cells", y=y, spool=".", passes=1)
        return "nothing has changed" in caplog.text

    assert not again() and again()
    with open("cells/features.tsv", "r+") as file:
        file.write("F")
    assert not again()


def test_the_folder_of_a_cluster_is_read():
    """What Spark leaves: markers, checksums, and files whose names have no meaning."""
    for k, name in enumerate(("part-00000-c0ffee.csv", "part-00001-c0ffee.csv")):
        write(rows(10 * k, 10 * k + 10), f"F/{name}")
        with open(f"F/.{name}.crc", "wb") as file:
            file.write(b"crc\0")
    with open("F/_SUCCESS", "wb"):
        pass
    assert read("F", "n") == [*range(20)]
