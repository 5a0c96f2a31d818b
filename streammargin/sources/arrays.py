"""Arrays in memory: NumPy, memory-mapped, SciPy CSR; used in place wherever their layout allows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from streammargin.errors import DataError, MisnamedError, UsageError
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock
from streammargin.sources.base import Buffer, Source
from streammargin.sources.labels import output_names
from streammargin.sources.names import frame_names, listed
from streammargin.wording import meant, one_line, shown, warn


def value_dtype(stored: np.dtype, name: str = "X") -> np.dtype:
    """The dtype of a block's values, float32 or float64, for values stored as this type.

    Raises DataError for a type that is not a real number.
    """
    if stored.kind not in "biuf":
        raise DataError(f"{name} holds values of type {stored}; rows must be real numbers")
    exact = (stored.kind == "f" and stored.itemsize <= 4) or (stored.kind in "biu" and stored.itemsize <= 2)
    return np.dtype(np.float32 if exact else np.float64)


def stored_as(given: np.dtype, name: str = "X") -> np.dtype:
    """The dtype in which a file keeps rows of this type: float16 as it is, others as `value_dtype` says."""
    return np.dtype(np.float16) if given.newbyteorder("=") == np.float16 else value_dtype(given, name)


def check_filled(name: str, rows: int, features: int) -> None:
    """DataError if there are no rows, or no columns."""
    if rows == 0 or features == 0:
        raise DataError(f"{name} has {rows} rows and {features} columns; rows need both")


def first_fall(indptr: np.ndarray) -> int:
    """The first row whose end is before its start, or -1. Compares neighbours, as their difference may overflow."""
    falls = indptr[1:] < indptr[:-1]
    return int(falls.argmax()) if falls.any() else -1


def check_wide(raw: np.ndarray, indptr: np.ndarray, start: int, width: int, name: str) -> None:
    """DataError for a 64-bit column index out of range, before a conversion to 32 bits may wrap it into the range.

    raw: column indices of the rows from `start`; indptr: their bounds, from 0.
    """
    if raw.dtype.itemsize <= 4 or not raw.size or (int(raw.min()) >= 0 and int(raw.max()) < width):
        return
    bad = int(np.flatnonzero((raw < 0) | (raw >= width))[0])
    row = start + int(np.searchsorted(indptr, bad, side="right")) - 1
    raise DataError(
        f"{name}: row {row} has the column index {raw[bad]}, outside 0..{width - 1}; "
        "write the data again, with the right shape"
    )


def refuse_masked(values: Any, name: str) -> None:
    """DataError for a masked array with masked values; it names the first such row."""
    if np.ma.is_masked(values):
        row = int(np.argwhere(np.ma.getmaskarray(values))[0][0]) if np.ndim(values) else 0
        raise DataError(f"{name}: row {row} is masked; fill its values, or drop the row")


def as_array(values: Any, name: str) -> np.ndarray:
    """The user's values as an array. Raises DataError for lists of different lengths, and for masked values."""
    refuse_masked(values, name)
    if str(getattr(values, "dtype", "")) == "torch.bfloat16":  # which NumPy lacks, and float32 holds
        values = values.float()
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: of a tensor with a gradient
        raise DataError(f"{name} is not an array ({one_line(str(error))}); give an array of numbers") from error


def bare(X: Any, name: str = "X") -> Any:
    """X of an AnnData object, other sparse matrices as CSR, anything else unchanged.

    Raises DataError for masked values, for an invalid matrix, and for objects that are not arrays.
    """
    if hasattr(X, "X") and hasattr(X, "obs"):  # AnnData; a row of it is an AnnData object, so np.asarray would recurse
        X = X.X
    if hasattr(X, "shape") and not hasattr(X, "tocsr") and not hasattr(X, "__array__"):
        raise DataError(
            f"{name} is a {type(X).__name__}; give an array, a SciPy matrix, the path of a file, or batches (X, y)"
        )
    refuse_masked(X, name)
    return _as_csr(X, name) if hasattr(X, "tocsr") and X.format != "csr" and X.ndim == 2 else X


def is_anndata(data: Any) -> bool:
    """Whether this is an AnnData object."""
    return hasattr(data, "obs") and hasattr(data, "var_names")


class Cells(NamedTuple):
    """Other rows of an AnnData object than its X, in its place."""

    X: Any
    obs: Any
    var_names: Any = None


def of_layers(data: Any, x: str | None) -> Any:
    """The data, or the rows x of an AnnData object, as layers/counts or raw/X. Raises DataError, UsageError."""
    if x in (None, "X"):
        return data
    if not is_anndata(data):
        raise UsageError("`x` names rows in a file or in an AnnData object; leave it out with arrays")
    part, _, name = str(x).strip("/").partition("/")
    if str(x).strip("/") == "raw/X" and data.raw is not None:
        return Cells(data.raw.X, data.obs, data.raw.var_names)
    if part not in ("layers", "obsm") or name not in getattr(data, part):
        has = ["X", *(f"{part}/{name}" for part in ("layers", "obsm") for name in getattr(data, part))]
        raise DataError(
            f"the AnnData object has no {x}; it has {listed(has)}; name other rows with `x`, or give these as its X"
        )
    return Cells(getattr(data, part)[name], data.obs, data.var_names if part == "layers" else None)


def of_obs(data: Any, name: Any, option: str) -> Any:
    """A column of the obs of an AnnData object, if `name` is one or obs/NAME; else `name`. Raises MisnamedError."""
    if not isinstance(name, str) or not hasattr(data, "obs"):
        return name
    column = name.removeprefix("obs/")
    if column not in data.obs:
        has = f"{meant(column, data.obs)}it has {listed(data.obs)}"
        raise MisnamedError(f"obs of the AnnData object has no column {column!r} for `{option}`; {has}")
    return data.obs[column]


def as_rows(X: Any, name: str = "X") -> Any:
    """Rows as an array or a SciPy sparse matrix.

    Raises DataError for anything else, and names the columns of a frame that are neither numbers nor booleans.
    """
    X = bare(X, name)
    if hasattr(X, "tocsr"):
        return X
    return _frame_values(X, name) if hasattr(X, "columns") and hasattr(X, "dtypes") else as_array(X, name)


def _frame_values(frame: Any, name: str) -> np.ndarray:
    """The values (n, d) of a pandas or polars frame."""
    columns, types = list(frame.columns), list(frame.dtypes)
    other = [column for column, kind in zip(columns, types, strict=True) if _kind(kind) not in "biuf"]
    if other:
        raise DataError(
            f"{name}: the columns {listed(map(shown, map(str, other)), str)} hold neither numbers nor booleans; "
            "drop them, convert them to numbers, or train on the frame with its labels as a column, as "
            'train(frame, y="NAME"): text becomes categories'
        )
    if all(isinstance(kind, np.dtype) for kind in types) and len({_kind(kind) == "b" for kind in types}) < 2:
        return np.asarray(frame)
    try:
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)  # pandas; np.asarray would yield objects
    except TypeError:
        return np.asarray(frame.to_numpy(), np.float64)


def refuse_dates(X: Any) -> None:
    """Raise DataError for dates and durations in an array or a frame, which others take for numbers of nanoseconds."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        dated = [str(column) for column, kind in zip(X.columns, X.dtypes, strict=True) if _kind(kind) in "mM"]
        if dated:
            raise DataError(
                f"X: {listed(dated)} {'holds' if len(dated) == 1 else 'hold'} dates or durations; turn them into "
                "numbers, or call streammargin.train with the frame as a table, and `dates=True`"
            )
    elif getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M"):
        raise DataError("X holds dates or durations; turn them into numbers")


def _kind(dtype: Any) -> str:
    """NumPy's kind letter of a pandas type; for polars f for any number, b for booleans, M for dates, O for others."""
    if hasattr(dtype, "kind"):
        return str(dtype.kind)
    return "b" if str(dtype) == "Boolean" else "f" if dtype.is_numeric() else "M" if dtype.is_temporal() else "O"


def labels_of_rows(y: Any) -> tuple[np.ndarray, list[str] | None]:
    """(labels (n,) or (n, outputs), the names of outputs or None) of arrays and frames. DataError for other objects."""
    if hasattr(y, "tocsr"):
        raise DataError("y is a sparse matrix; give an array, as y.toarray() makes it")
    if not (hasattr(y, "columns") and hasattr(y, "dtypes")):
        labels = as_array(y, "y")
        if isinstance(next(iter(labels.flat), None), bytes):
            warn("y holds bytes, but predictions are text, which equals no bytes; decode y before you compare them",
                 "labels")  # fmt: skip
        return labels, output_names(labels.shape[1]) if labels.ndim == 2 else None
    names = [str(name) for name in y.columns]
    if any(_kind(kind) not in "biuf" for kind in y.dtypes):
        return as_array(y, "y"), names  # words, which a loss of one label a row may take
    return _frame_values(y, "y"), names


def as_weights(
    values: Any, rows: int, name: str, noun: str = "sample weights", argument: str = "sample_weight"
) -> np.ndarray:
    """Sample weights, or other numbers of rows, as float64, shape (rows,); DataError for anything else."""
    given = as_array(values, argument)
    try:
        if given.dtype.kind == "c":
            raise TypeError("they are complex")
        weights = np.asarray(given, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"the {noun} of {name} are not numbers ({error}); give one number for each row") from error
    if not weights.ndim:
        raise DataError(
            f"{argument} is {shown(values)}, one number for all {rows} rows of {name}; give one for each row, or leave "
            "it out"
        )
    if weights.shape != (rows,):
        raise DataError(f"{argument} has shape {weights.shape} but {name} has {rows} rows; give one for each row")
    return np.ascontiguousarray(weights)


def writable_view(array: np.ndarray) -> np.ndarray:
    """The same memory, flagged writable. Kernels never write rows; read-only arrays would need another compilation."""
    if array.flags.writeable or array.size == 0:
        return array if array.flags.writeable else array.copy()
    import ctypes

    memory = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    memory._owner = array  # type: ignore[attr-defined]  # keeps the rows alive
    return np.frombuffer(memory, dtype=array.dtype).reshape(array.shape)  # type: ignore[call-overload]


def in_pieces(labels: np.ndarray, outputs: list[str] | None, chunk: int) -> Iterator[np.ndarray]:
    """Labels (n,) or (n, outputs), about `chunk` values at a time; those of one column are (n,)."""
    chunk = max(1, chunk // max(1, len(outputs or ())))
    for start in range(0, len(labels), chunk):
        part = np.asarray(labels[start : start + chunk])
        yield part[:, 0] if part.ndim == 2 and part.shape[1] == 1 else part


class ArraySource(Source):
    """Rows X: array (n, d), any order, a frame, or a SciPy sparse matrix (n, d); y (n,) labels; weights (n,).

    Raises DataError for shapes that disagree and for an invalid indptr. Values and column indices are
    checked when they are first used, as for files. The arrays are never written.
    """

    def __init__(self, X: Any, y: Any = None, sample_weight: Any = None, name: str = "X") -> None:
        self.name = name
        self._names = frame_names(X, name)
        X = as_rows(X, name)
        self.sparse: bool = hasattr(X, "tocsr")
        if getattr(X, "ndim", 2) != 2:
            raise DataError(f"{name} has {X.ndim} dimension(s); rows must be a 2-dimensional array, one row each")
        self.rows: int = int(X.shape[0])
        self.features: int = int(X.shape[1])
        check_filled(name, self.rows, self.features)
        self.dtype: np.dtype = value_dtype(X.dtype, name)
        self.stored: np.dtype = stored_as(X.dtype, name)
        self._block: Block = (
            self._sparse(X) if self.sparse else DenseBlock(writable_view(np.ascontiguousarray(X, self.dtype)), 0.0)
        )
        self.nnz: int = int(self._block.data.size) if isinstance(self._block, CSRBlock) else self.rows * self.features
        labels: tuple[np.ndarray | None, list[str] | None] = (None, None) if y is None else labels_of_rows(y)
        self._y, self._outputs = labels
        called = getattr(y, "name", None)  # of a series of pandas or polars
        self._label_name = called if isinstance(called, str) and called else None
        if self._y is not None and self._y.ndim == 2 and self._y.shape[1] == 0:
            raise DataError("y has no columns; give a label for each row, or a column of them for each output")
        if self._y is not None and (self._y.ndim not in (1, 2) or len(self._y) != self.rows):
            raise DataError(f"y has shape {self._y.shape} but {name} has {self.rows} rows; give one label for each row")
        self._weight = None if sample_weight is None else as_weights(sample_weight, self.rows, name)

    def _sparse(self, X: Any) -> CSRBlock:
        if self.features >= 2**31:
            raise DataError(f"{self.name} has {self.features} columns; at most {2**31 - 1} are supported")
        _check_flat(X, self.name)
        indptr = writable_view(np.ascontiguousarray(X.indptr, np.int64))
        fall = first_fall(indptr)
        if fall >= 0:
            raise DataError(f"{self.name}: indptr decreases at row {fall}; build the matrix again")
        if len(indptr) != self.rows + 1 or indptr[0] != 0 or indptr[-1] > min(len(X.indices), len(X.data)):
            raise DataError(
                f"{self.name}: indptr must have {self.rows + 1} entries, from 0 to at most "
                f"{min(len(X.indices), len(X.data))} stored values; build the matrix again"
            )
        data = np.ascontiguousarray(X.data[: indptr[-1]], self.dtype)
        raw = X.indices[: indptr[-1]]
        check_wide(raw, indptr, 0, self.features, self.name)
        indices = np.ascontiguousarray(raw, np.int32)
        return CSRBlock(writable_view(data), writable_view(indices).view(np.uint32), indptr, self.features, 0.0)

    def whole(self) -> Block | None:
        return self._block

    def _nnz_bytes(self) -> int:
        return self.dtype.itemsize + 4

    def bounds(self, max_bytes: int) -> np.ndarray:
        if isinstance(self._block, CSRBlock):
            return bounds_by_nnz(self._block.indptr, self._nnz_bytes(), 8, max_bytes * 15 // 16)
        rows = max(1, max_bytes // (self.features * self.dtype.itemsize))
        return np.append(np.arange(0, self.rows, rows, dtype=np.int64), self.rows)

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        rows = int(np.diff(bounds).max())
        if isinstance(self._block, CSRBlock):
            return int(np.diff(self._block.indptr[bounds]).max()) * self._nnz_bytes() + 8 * (rows + 1)
        return rows * self.features * self.dtype.itemsize

    def allocate(self, bounds: np.ndarray) -> Buffer:
        rows = int(np.diff(bounds).max())
        if isinstance(self._block, CSRBlock):
            nnz = int(np.diff(self._block.indptr[bounds]).max())
            return Buffer(np.empty(nnz, self.dtype), np.empty(nnz, np.uint32), np.empty(rows + 1, np.int64))
        return Buffer(np.empty((rows, self.features), self.dtype))

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        whole = self._block
        if isinstance(whole, DenseBlock):
            out = buffer.data[: stop - start]
            np.copyto(out, whole.X[start:stop])
            return DenseBlock(out, 0.0)
        low, high = int(whole.indptr[start]), int(whole.indptr[stop])
        assert buffer.indices is not None and buffer.indptr is not None
        data, indices = buffer.data[: high - low], buffer.indices[: high - low]
        indptr = buffer.indptr[: stop - start + 1]
        np.copyto(data, whole.data[low:high])
        np.copyto(indices, whole.indices[low:high])
        np.subtract(whole.indptr[start : stop + 1], low, out=indptr)
        return CSRBlock(data, indices, indptr, self.features, 0.0)

    def has_labels(self) -> bool:
        return self._y is not None

    def labels(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        if self._y is None:
            raise DataError(f"{self.name} has no labels; give them as y")
        yield from in_pieces(self._y, self._outputs, chunk)

    def outputs(self) -> list[str] | None:
        return self._outputs

    def label_column(self) -> str | int | None:
        return self._label_name

    def sample_weight(self) -> np.ndarray | None:
        return self._weight

    def names_bytes(self) -> int:
        return 0 if self._names is None else self._names.nbytes  # the strings belong to the frame

    def feature_names(self) -> np.ndarray | None:
        return self._names

    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr((self.rows, self.features, self.nnz, str(self.dtype))).encode())
        block = self._block
        rows = [block.X.reshape(-1)] if isinstance(block, DenseBlock) else [block.data, block.indices, block.indptr]
        for values in (*rows, self._y, self._weight):
            digest.update(sample(values))
        return digest.hexdigest()[:16]


def _as_csr(X: Any, name: str) -> Any:
    """Check the index arrays, which SciPy trusts, and convert to CSR; DataError if they are invalid."""
    if X.format in ("csc", "coo"):
        _check_flat(X, name)
    try:
        if hasattr(X, "indptr"):
            if first_fall(X.indptr) >= 0:
                raise ValueError("indptr decreases")
            X.check_format(full_check=True)
        elif X.format == "coo":
            for size, places in zip(X.shape, (X.row, X.col), strict=True):
                if len(places) != len(X.data) or (places.size and not 0 <= places.min() <= places.max() < size):
                    raise ValueError("there are row or column numbers out of range")
        elif X.format == "lil" and ([*map(len, X.rows)] != [*map(len, X.data)] or len(X.rows) != X.shape[0]):
            raise ValueError("there are rows with more or fewer values than columns")
    except ValueError as error:
        raise DataError(f"{name} is an invalid {X.format} matrix ({error}); build it again") from error
    return X.tocsr()


def _check_flat(X: Any, name: str) -> None:
    """DataError if values or indices of a matrix have two dimensions."""
    for part in ("data", "indices", "indptr", "row", "col"):
        shape = np.shape(getattr(X, part, [0]))
        if len(shape) != 1:
            raise DataError(f"{name}: {part} has the shape {shape}; make it one-dimensional, as with {part}.ravel()")


def sample(values: np.ndarray | None) -> bytes:
    """Up to about 2048 entries of an array (n,), as bytes, for a fingerprint that costs little time."""
    if values is None:
        return b""
    some = values[:: max(1, len(values) // 1024)]
    return repr(some.tolist()).encode() if some.dtype.hasobject else some.tobytes()


def bounds_by_nnz(indptr: np.ndarray, nnz_bytes: int, row_bytes: int, max_bytes: int) -> np.ndarray:
    """Row bounds of blocks of at most max_bytes each, or one row.

    A block of nnz values and m rows takes nnz * nnz_bytes + (m + 1) * row_bytes.
    """
    cost = indptr * nnz_bytes + row_bytes * np.arange(1, indptr.size + 1)
    bounds = [0]
    rows = indptr.size - 1
    while bounds[-1] < rows:
        limit = cost[bounds[-1]] + max_bytes - row_bytes
        stop = int(np.searchsorted(cost, limit, side="right")) - 1
        bounds.append(min(rows, max(stop, bounds[-1] + 1)))
    return np.array(bounds, np.int64)
