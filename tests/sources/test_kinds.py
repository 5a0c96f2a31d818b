"""Addresses, and files and folders of other formats: a sentence each, with a way out that works."""

import bz2
import gzip
import os
import pickle
import shlex
import sqlite3
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import streammargin as sm
from streammargin.cli.main import main
from streammargin.data_tools.convert import convert
from streammargin.errors import DataError, InputMissingError, OutputError, UsageError
from streammargin.sources.kinds import kind_of

pytestmark = pytest.mark.usefixtures("inside")

LINES = '{"a": 1.5, "y": 0}\n{"a": 2, "y": 1}\n{"a": 3, "y": 1}\n'


def archive(members):
    def write(path):
        with zipfile.ZipFile(path, "w") as file:
            for name, text in members.items():
                file.writestr(name, text)

    return write


def text(content, how=open):
    def write(path):
        with how(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())

    return write


def database(path):
    with sqlite3.connect(path) as opened:
        opened.execute("create table rows (a real, y integer)")
        opened.executemany("insert into rows values (?, ?)", [(1.5, 0), (2.0, 1)])
    opened.close()


def folder(*names):
    def write(path):
        os.mkdir(path)
        for name in names:
            text("{}")(os.path.join(path, name))

    return write


FILES = {
    "rows.jsonl": (text(LINES), "is JSON lines", 'pandas.read_json("rows.jsonl", lines=True)'),
    "rows.ndjson": (text("\n" + LINES), "is JSON lines", "lines=True"),
    "rows": (text(LINES), "is JSON lines", 'to_parquet("rows.parquet", index=False)'),
    "rows.jsonl.gz": (text(LINES, gzip.open), "is JSON lines", 'read_json("rows.jsonl.gz", lines=True)'),
    "rows.json.bz2": (text("[" + LINES, bz2.open), "is JSON,", 'read_json("rows.json.bz2")'),
    "rows.json": (text('[{"a": 1, "y": 0}]'), "is JSON,", 'read_json("rows.json")'),
    "columns.json": (text('{"a":{"0":1,"1":2},"y":{"0":0,"1":1}}'), "is JSON,", 'read_json("columns.json")'),
    "of_spark.json": (text(LINES), "is JSON lines", "lines=True"),
    "rows.xlsx": (archive({"xl/workbook.xml": "<a/>"}), "is an Excel workbook", 'read_excel("rows.xlsx")'),
    "rows.xls": (text(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600)), "is an Excel workbook", "read_excel"),
    "rows.ods": (
        archive({"mimetype": "application/vnd.oasis.opendocument.spreadsheet"}),
        "is an OpenDocument spreadsheet",
        'read_excel("rows.ods")',
    ),
    "rows.zip": (archive({"rows.csv": "a,y\n1,0\n"}), "is a zip archive", "unpack it"),
    "rows.pt": (archive({"rows/data.pkl": "x"}), "is a file of torch.save", "numpy.save"),
    "rows.pkl": (lambda path: text(pickle.dumps([1]))(path), "is a pickle", "if you trust it"),
    "rows.db": (database, "is an SQLite database", "sqlite3 -header -csv rows.db 'select * from TABLE' > rows.csv"),
    "rows.duckdb": (text(bytes(8) + b"DUCK" + bytes(99)), "is a DuckDB database", "duckdb rows.duckdb"),
    "rows.sas7bdat": (text(bytes(12) + bytes.fromhex("c2ea8160b31411cf") + bytes(99)), "is a SAS file", "read_sas"),
    "rows.xpt": (text("HEADER RECORD*******LIBRARY HEADER RECORD!!"), "is a SAS transport file", "read_sas"),
    "rows.dta": (text("<stata_dta><header>"), "is a Stata file", 'read_stata("rows.dta")'),
    "rows.sav": (text("$FL2@(#) SPSS DATA FILE"), "is an SPSS file", "read_spss"),
    "rows.orc": (text(b"ORC\n\x03" + bytes(99)), "is an ORC file", "read_orc"),
    "rows.rds": (text(b"RDX3\n", gzip.open), "is a file of R", "write.csv"),
    "rows.html": (text("<!DOCTYPE html>\n<html></html>"), "is a web page", "fetch the file again"),
    "rows.xml": (text('<?xml version="1.0"?>\n<rows/>'), "is XML", "read_xml"),
}
URLS = [
    ("s3://bucket/rows.parquet", "aws s3 cp s3://bucket/rows.parquet ."),
    ("s3:/bucket/rows.csv", "aws s3 cp s3://bucket/rows.csv ."),
    ("gs://bucket/rows.csv", "gcloud storage cp gs://bucket/rows.csv ."),
    ("https://host/rows.csv?a=1&b=2", "curl -LO 'https://host/rows.csv?a=1&b=2'"),
    ("hdfs://host/rows", "hdfs dfs -get hdfs://host/rows ."),
    ("abfss://at@host/rows.h5", "azcopy copy abfss://at@host/rows.h5 ."),
    ("file:///data/rows.csv", "name it by its path, /data/rows.csv"),
    ("ssh://host/rows.csv", "copy it first, to a disk"),
]


@pytest.mark.parametrize("name", FILES)
def test_another_format_is_said_with_a_way_out_by_every_reader(name):
    write, what, remedy = FILES[name]
    write(name)
    before = sorted(os.listdir())
    for read in (
        lambda: sm.train(name, y="y"),
        lambda: sm.train([name, name], y="y"),
        lambda: sm.open_source(name),
        lambda: sm.complete(name),
        lambda: convert(name, "out.h5"),
    ):
        with pytest.raises(DataError) as found:
            read()
        assert what in str(found.value) and remedy in str(found.value), str(found.value)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.xlsx", "rows.orc"])
def test_the_shell_says_it_as_bad_data_and_writes_nothing(name, capsys):
    FILES[name][0](name)
    for command in (["train", name], ["info", name], ["complete", name, "-o", "out.npz"]):
        assert main(command) == 65
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and FILES[name][2] in error
    assert os.listdir() == [name]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows", "columns.json", "rows.jsonl.gz"])
def test_the_command_that_is_named_works(name):
    FILES[name][0](name)
    with pytest.raises(DataError) as found:
        sm.open_source(name)
    command = shlex.split(str(found.value).partition("Parquet: ")[2])
    assert command[0] == "python"
    subprocess.run([sys.executable, *command[1:]], check=True, timeout=300)
    rows = sm.train(name.partition(".")[0] + ".parquet", y="y").model
    assert rows.feature_names_in_.tolist() == ["a"]


def test_names_and_contents_of_our_formats_are_no_others(tmp_path):
    np.savez("rows.npz", X=np.eye(3), y=np.arange(3))
    text("id,[name]\n1,2\n")("brackets")
    text('{"a"},y\n1,0\n2,1\n')("believed.csv")
    for path in ("rows.npz", "brackets"):
        with open(path, "rb") as file:
            assert kind_of(path, file.read(100)) is None
    assert sm.train("believed.csv", y="y").model.feature_names_in_.tolist() == ['{"a"}']


@pytest.mark.parametrize("path, how", URLS)
def test_an_address_is_said_with_the_command_that_copies(path, how):
    for read in (
        lambda: sm.train(path),
        lambda: sm.train([path, path]),
        lambda: sm.open_source(path),
        lambda: sm.load_model(path),
        lambda: sm.complete(path),
        lambda: convert(path, "out.h5"),
        lambda: sm.train((np.eye(2), [0, 1]), valid=path),
    ):
        with pytest.raises(InputMissingError) as found:
            read()
        assert how in str(found.value) and "is an address, and only files on a disk are read" in str(found.value)
    assert os.listdir() == []


def test_no_output_and_no_folder_is_an_address():
    model = sm.train((np.eye(2), [0, 1])).model
    with pytest.raises(OutputError, match=r"s3://b/m\.npz is an address, and only files on a disk are written"):
        model.save("s3://b/m.npz")
    for option in ("checkpoint", "spool"):
        with pytest.raises(UsageError, match=f"{option} must be a folder on a disk, not the address s3://b/x"):
            sm.train((np.eye(2), [0, 1]), **{option: "s3://b/x"})
    assert os.listdir() == []


def test_a_file_whose_name_is_like_an_address_is_a_file():
    os.makedirs("s3:/b")
    text("a,y\n1,0\n2,1\n3,1\n")("s3://b/rows.csv")
    sm.train("s3://b/rows.csv", y="y").model.save("s3://b/m.npz")
    assert sorted(os.listdir("s3:/b")) == ["m.npz", "rows.csv"]
