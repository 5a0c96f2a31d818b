"""Recognises other formats of files and folders, so that an error can say what they are, and how to go on."""

from __future__ import annotations

import json
import os
import re
import shlex
import zipfile

from streammargin.errors import InputMissingError

SNIFFED_BYTES = 1024
_CONVERT = "streammargin-data convert reads it"
_TRAIN = f"train reads it, and {_CONVERT}"
_WRITE = "read it in batches and write these with sm.write_hdf5, or write it as CSV or svmlight text"
_UNZIP = "unpack it; train and streammargin-data convert read .npz files"
_EXCEL = "an Excel workbook"
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
_R = ("a file of R", "in R, write its table with write.csv")
# (the first bytes, the format, the remedy) of formats that are given as data; {read_orc}: by this function of pandas
_KINDS: tuple[tuple[bytes, str, str], ...] = (
    (rb"\x1f\x8b", "compressed by gzip", f"if it is text, {_CONVERT}"),
    (rb"BZh", "compressed by bzip2", f"if it is text, {_CONVERT}"),
    (rb"\xfd7zXZ\x00", "compressed by xz", f"if it is text, {_CONVERT}"),
    (rb"\x28\xb5\x2f\xfd", "compressed by zstd", "unpack it with: zstd -d"),
    (rb"\x04\x22\x4d\x18", "compressed by lz4", "unpack it with: lz4 -d"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it"),
    (rb"Rar!", "a RAR archive", "unpack it"),
    (rb"PAR1", "a Parquet file", _TRAIN),
    (rb"%%MatrixMarket", "a Matrix Market file", _TRAIN),
    (rb"\x93NUMPY", "an array of numpy.save", _TRAIN),
    (rb"Obj\x01", "an Avro file", _WRITE),
    (rb"ORC", "an ORC file", "{read_orc}"),
    (rb"FEA1", "a Feather file of version 1", "{read_feather}"),
    (rb"MATLAB 5\.0 MAT-file", "a MATLAB file",
     "read it with scipy.io.loadmat, or save it with -v7.3, which is HDF5"),
    (rb"CDF\x01", "a NetCDF 3 file", "write it as NetCDF 4, which is HDF5"),
    (rb"SQLite format 3\x00", "an SQLite database",
     "name one of its tables for: sqlite3 -header -csv {path} 'select * from TABLE' > {stem}.csv"),
    (rb".{8}DUCK", "a DuckDB database", "export a table: duckdb {path} \"copy TABLE to 'TABLE.parquet'\""),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _EXCEL, "{read_excel}"),
    (rb"<stata_dta>", "a Stata file", "{read_stata}"),
    (rb"\$FL2", "an SPSS file", "{read_spss}"),
    (rb"HEADER RECORD\*{7}", "a SAS transport file", "{read_sas}"),
    (rb"\x00{12}\xc2\xea\x81\x60", "a SAS file", "{read_sas}"),
    (rb"RDX", *_R),
    (rb"%PDF", "a PDF", "write its table as CSV"),
    (rb"\xff\xfe|\xfe\xff", "UTF-16 text", "write it as UTF-8: iconv -f UTF-16 -t UTF-8 IN > OUT"),
    (rb"\x80[\x02-\x05]", "a pickle", "if you trust it, as it may run any code, {read_pickle}"),
    (rb"(?i)(?=.{0,196}html)\s*<(\?xml|!doctype|html|[a-z]+>)", "a web page", "fetch the file again"),
    (rb"(?i)\s*<(\?xml|!doctype|html|[a-z]+>)", "XML", "{read_xml}"),
)  # fmt: skip
_JSON_START = re.compile(rb'(\xef\xbb\xbf)?\s*(\{\s*["}]|\[\s*[\[{])')
_JSON_NAMES = (".json", ".jsonl", ".ndjson", ".geojson")
_INSIDE = {  # a member of a zip archive -> the format, and its remedy
    "xl/": (_EXCEL, "{read_excel}"),
    "word/": ("a document of Word", "write its table as CSV"),
    ".zarray": ("a zarr store", "unpack it, and write it as HDF5"),
    "/data.pkl": ("a file of torch.save", "write its tensors with numpy.save, or with sm.write_hdf5"),
}
_ZARR = (".zgroup", ".zattrs", ".zarray", ".zmetadata", "zarr.json")


def kind_of(path: str, start: bytes = b"") -> tuple[str, str] | None:
    """(what this is, the remedy) of a file with these first bytes, or of a folder; None if it is not known."""
    if os.path.isdir(path):
        return _folder(path)
    suffix = os.path.splitext(path)[1].lower()
    inner = os.path.splitext(os.path.splitext(path)[0])[1].lower()  # of a compressed file
    if _JSON_START.match(start) or (start.startswith(_PACKED) and inner in _JSON_NAMES):
        return _json(path, suffix if suffix in _JSON_NAMES else inner, start)
    if start.startswith(_PACKED[0]) and suffix in (".rds", ".rda", ".rdata"):
        return _R
    if start.startswith(b"PK\x03\x04"):
        return _archive(path)
    found = next(((what, remedy) for first, what, remedy in _KINDS if re.match(first, start, re.DOTALL)), None)
    return None if found is None else (found[0], _remedy(path, found[1]))


def first_bytes(path: str, hint: str = "") -> bytes:
    """The first bytes of a file as it is. Raises InputMissingError; hint: what else it says."""
    try:
        with open(path, "rb") as file:
            return file.read(SNIFFED_BYTES)
    except OSError as error:
        raise InputMissingError(f"{path} cannot be read ({error.strerror}){hint}") from error


def _remedy(path: str, text: str) -> str:
    known = {"path": shlex.quote(path), "stem": shlex.quote(_stem(path))}
    return re.sub(r"\{(\w+)\}", lambda found: known.get(found[1]) or _by_pandas(path, found[1]), text)


def _by_pandas(path: str, function: str, options: str = "") -> str:
    """The command that writes the file as Parquet."""
    if not os.path.isfile(path):
        return "write it to a file, and name that one for the command that makes Parquet of it"
    read = f"pandas.{function}({json.dumps(path, ensure_ascii=False)}{options})"
    written = json.dumps(f"{_stem(path)}.parquet", ensure_ascii=False)
    code = f"import pandas; {read}.to_parquet({written}, index=False)"
    return f"write it as Parquet: python -c {shlex.quote(code)}"


_TABLES = {".parquet": "read_parquet", ".feather": "read_feather", ".csv": "read_csv", ".tsv": "read_table",
           ".tab": "read_table"}  # fmt: skip


def column_saved(path: str, column: str) -> str | None:
    """The command that writes a column of a table as an array of numpy.save; None if this name is of no table.

    It stops at a missing value, which NumPy would write as the text nan.
    """
    suffix = os.path.splitext(path.removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz"))[1].lower()
    if suffix not in _TABLES:
        return None
    written = f"{os.path.basename(column) or 'y'}.npy"
    named = [json.dumps(text, ensure_ascii=False) for text in (path, column, written)]
    code = "import numpy, pandas; y = pandas.{}({})[{}]; assert y.notna().all(); numpy.save({}, y.tolist())"
    return f"python -c {shlex.quote(code.format(_TABLES[suffix], *named))}"


def _stem(path: str) -> str:
    """The name without its suffixes of a format and of a compression."""
    stem, suffix = os.path.splitext(path)
    return os.path.splitext(stem)[0] if suffix in (".gz", ".bz2", ".xz", ".zst") else stem


def _json(path: str, suffix: str, start: bytes) -> tuple[str, str]:
    """Lines of one object each, or one value."""
    lines = suffix in (".jsonl", ".ndjson") or re.match(rb"\s*\{[^\n]*\}\s*\n\s*\{", start) is not None
    return "JSON lines" if lines else "JSON", _by_pandas(path, "read_json", ", lines=True" if lines else "")


def _archive(path: str) -> tuple[str, str] | None:
    """What a zip archive is, damaged or not; None for arrays of NumPy, and for a pipe."""
    if not os.path.isfile(path):
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            sheet = "mimetype" in names and b"spreadsheet" in archive.open("mimetype").read(100)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError):
        return None if path.endswith(".npz") else ("a zip archive", _UNZIP)
    if any(name.endswith(".npy") for name in names):
        return None
    if sheet:
        return "an OpenDocument spreadsheet", _remedy(path, "{read_excel}")
    for part, (what, remedy) in _INSIDE.items():
        if any(name.startswith(part) or name.endswith(part) for name in names):
            return what, _remedy(path, remedy)
    return "a zip archive", _UNZIP


def is_zarr(path: str | os.PathLike[str]) -> bool:
    """Whether this folder is a store of zarr."""
    return any(os.path.exists(os.path.join(path, name)) for name in _ZARR)


def _folder(path: str) -> tuple[str, str] | None:
    if is_zarr(path):
        code = f"import anndata; anndata.read_zarr({json.dumps(path)}).write_h5ad({json.dumps(_stem(path) + '.h5ad')})"
        return "a zarr folder", f"if anndata wrote it, write it as .h5ad: python -c {shlex.quote(code)}"
    return None
