"""Recognises other file formats by their first bytes, so that an error can say what a file is."""

from __future__ import annotations

# (first bytes, the format, the remedy) of formats that are sometimes given as data
_CONVERT = "streammargin-data convert reads it"
_TRAIN = f"train reads it, and {_CONVERT}"
_WRITE = "read it in batches and write these with sm.write_hdf5, or write it as CSV or svmlight text"
_KINDS: tuple[tuple[bytes, str, str], ...] = (
    (b"\x1f\x8b", "compressed by gzip", f"if it is text, {_CONVERT}"),
    (b"BZh", "compressed by bzip2", f"if it is text, {_CONVERT}"),
    (b"\xfd7zXZ\x00", "compressed by xz", f"if it is text, {_CONVERT}"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unpack it with: zstd -d"),
    (b"\x04\x22\x4d\x18", "compressed by lz4", "unpack it with: lz4 -d"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it"),
    (b"PAR1", "a Parquet file", _TRAIN),
    (b"%%MatrixMarket", "a Matrix Market file", _TRAIN),
    (b"\x93NUMPY", "an array of numpy.save", _TRAIN),
    (b"PK\x03\x04", "a zip archive", "unpack it; train and streammargin-data convert read .npz files"),
    (b"Obj\x01", "an Avro file", _WRITE),
    (b"MATLAB 5.0 MAT-file", "a MATLAB file", "read it with scipy.io.loadmat, or save it with -v7.3, which is HDF5"),
    (b"CDF\x01", "a NetCDF 3 file", "write it as NetCDF 4, which is HDF5"),
    (b"SQLite format 3\x00", "an SQLite database", _WRITE),
    (b"\xff\xfe", "UTF-16 text", "write it as UTF-8: iconv -f UTF-16 -t UTF-8 IN > OUT"),
    (b"\xfe\xff", "UTF-16 text", "write it as UTF-8: iconv -f UTF-16 -t UTF-8 IN > OUT"),
)
LONGEST = 32  # bytes read


def kind_of(start: bytes) -> tuple[str, str] | None:
    """(format of a file with these first bytes, remedy), or None for an unknown one."""
    return next(((what, remedy) for magic, what, remedy in _KINDS if start.startswith(magic)), None)
