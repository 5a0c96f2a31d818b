"""Open what the user gives as data: a Source of a path, shards or arrays; or detect a stream of batches."""

from __future__ import annotations

import contextlib
import glob
import importlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Protocol, TypeAlias, TypeGuard

from streammargin.errors import DataError, InputMissingError, StreamMarginError, UsageError
from streammargin.files import as_path, check_input, is_url, no_file
from streammargin.packages import loaded, points_of
from streammargin.sources.arrays import ArraySource, of_layers, of_obs
from streammargin.sources.base import Source
from streammargin.sources.kinds import first_bytes, is_zarr, kind_of
from streammargin.sources.names import ALL_COLUMNS, Columns, chosen, listed, of_others
from streammargin.wording import shown

Path: TypeAlias = "str | os.PathLike[str]"
HDF5 = (".h5", ".h5ad", ".hdf5")  # endings of its names
# modules of file formats, tried in this order; imported when a file is opened
FORMAT_MODULES = ["streammargin.sources.hdf5.file"]


class Format(Protocol):
    """The interface of the module of a format of files or directories."""

    def sniff(self, path: str, start: bytes) -> bool:
        """Whether a file with the first bytes `start`, or a directory (of none), has this format."""

    def open_file(self, path: str, x: str | None, y: object, sample_weight: object) -> Source:
        """The rows of a file; x, y, sample_weight as for open_source. Raises DataError, InputMissingError."""


def open_source(
    data: object, *, x: str | None = None, y: object = None, sample_weight: object = None, mask: str | None = None,
    columns: Columns = None,
) -> Source:  # fmt: skip
    """A Source of a path, a list of paths (shards), the pair (X, y), an array X, or a Source itself.

    x, y, sample_weight: names of datasets inside a file (y also FILE:NAME), or arrays (n,). Files alone have `mask`:
    COLUMN=VALUE, the rows that are taken, such as obs/tissue=lung. Several files have columns of the same names, in any
    order, or `columns`: "common" (all files have them) or "all". Columns may also be chosen by name. Raises
    InputMissingError, DataError or UsageError.
    """
    if mask is not None:
        check_files(data, y, sample_weight)
    if isinstance(data, Source):
        given = [name for name, value in (("x", x), ("y", y), ("sample_weight", sample_weight)) if value is not None]
        if given:
            raise UsageError(f"a Source has its own `{given[0]}`; name it in open_source instead")
        return data
    if is_path(data) or is_shards(data):
        source = _open_shards(paths_of(data), x, y, sample_weight, mask, columns)
        source.named = {"x": x, "y": y, "sample_weight": sample_weight}
        return source
    if is_stream(data):
        raise UsageError(
            "a stream of batches can be read once only, so use it with train; here give a path, (X, y) or a Source"
        )
    rows = of_layers(data, x)
    if isinstance(data, tuple):
        if len(data) != 2:
            raise UsageError(f"arrays are given as the pair (X, y), not as {len(data)} values")
        X, labels = data
        return ArraySource(X, labels if y is None else y, sample_weight)
    if hasattr(data, "shape"):
        return ArraySource(rows, of_obs(data, y, "y"), of_obs(data, sample_weight, "sample_weight"))
    collect = "; give what its collect() returns" if hasattr(data, "collect") else ""
    raise UsageError(
        "data must be a path, a list of paths, (X, y), a list of batches (X, y) of arrays or a Source, not "
        f"{type(data).__name__}{collect}"
    )


def check_files(data: object, *columns: object) -> None:
    """UsageError for `mask` with anything but files that may have columns beside their rows, and names of these."""
    paths = [data] if is_path(data) else data if is_shards(data) else []
    if not paths or any(os.path.exists(path) and not (is_source(os.fspath(path)) or is_zarr(path)) for path in paths):
        raise UsageError("`mask` is for HDF5 files and stores of zarr with columns beside their rows; select rows of "
                         "arrays, tables and other files before they are given")  # fmt: skip
    if not all(each is None or is_path(each) for each in columns):
        raise UsageError("with `mask`, labels, weights and tasks are columns of the files, as `y=obs/kind`; name them")


def files_read(
    data: object, rows: Sequence[str] = (), x: str | None = None, columns: Sequence[str] = (),
    files: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """All files that a run over `data` reads, targets of links included.

    rows: further files of rows; x: as for open_source; columns: names of datasets read beside the rows; files: others.
    Files that cannot be opened are left out: the run will report them.
    """
    paths = [*paths_of(data), *rows]
    found = [*paths, *files]
    for path in paths:
        for name in (None, *columns):  # each name is resolved as labels are
            with contextlib.suppress(StreamMarginError), opened(path, x=x, y=name) as source:
                found.extend(source.files())
    return list(dict.fromkeys(found))


def paths_of(data: object) -> list[str]:
    """The paths of row files in `data`, or the files of an open source; empty for arrays."""
    if isinstance(data, Source):
        return data.files()
    parts = [data] if is_path(data) else data if isinstance(data, (list, tuple)) else []
    return [os.fspath(part) for part in parts if is_path(part)]


@contextlib.contextmanager
def opened(
    data: object, *, x: str | None = None, y: object = None, sample_weight: object = None, mask: str | None = None,
    columns: Columns = None,
) -> Iterator[Source]:  # fmt: skip
    """`open_source`, closed afterwards unless the caller opened it."""
    source = open_source(data, x=x, y=y, sample_weight=sample_weight, mask=mask, columns=columns)
    try:
        yield source
    finally:
        if source is not data:
            source.close()


def name_of_labels(data: object, names: Sequence[str]) -> str | None:
    """The name of the labels in files of rows, which a table calls so: `y` if it is there, or its name, also in obs.

    names: of the columns of its labels. None: `y`.
    """
    with opened(data, columns=ALL_COLUMNS) as source:
        if source.has_labels() or len(names) != 1:
            return None
    for name in (names[0], f"obs/{names[0]}"):
        with contextlib.suppress(DataError), opened(data, y=name, columns=ALL_COLUMNS) as source:
            source.outputs()
            return name
    return None


def is_stream(data: object) -> TypeGuard[Iterable[object]]:
    """Whether this is a stream of batches: an iterator, a loader that can be iterated over, or a list of batches.

    A tuple is the pair (X, y), a list of paths is shards. Raises UsageError if data are ambiguous.
    """
    if isinstance(data, (Source, str, bytes, os.PathLike, Mapping, Set)) or hasattr(data, "shape"):
        return False
    if isinstance(data, tuple):
        if data and all(_is_batch(part) for part in data):
            raise UsageError("a tuple is the pair (X, y), but this one holds batches; give them as a list")
        return False
    if not isinstance(data, Sequence):
        return hasattr(data, "__iter__")
    batches = [_is_batch(part) for part in data]
    if any(batches) and not all(batches):
        raise UsageError(
            f"item {batches.index(False)} of the list is not a batch, but others are; each must be (X, y) or "
            "(X, y, sample_weight)"
        )
    if len(data) > 1 and not any(batches) and _dimensions(data[0]) == 2:
        raise UsageError("a list holds paths or batches (X, y), but this one holds arrays; give (X, y) as a tuple")
    return any(batches)


def is_path(data: object) -> TypeGuard[Path]:
    """Whether this is a str or os.PathLike."""
    return isinstance(data, (str, os.PathLike))


def matching(path: str) -> list[str]:
    """The files that a pattern matches, in order, or this path. Raises InputMissingError."""
    if os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    if not (found := sorted(glob.glob(path))):
        raise no_file(path) if is_url(path) else InputMissingError(f"no file matches {path}")
    return found


def is_shards(data: object) -> TypeGuard[Sequence[Path]]:
    """Whether this is a list of paths."""
    return isinstance(data, Sequence) and not hasattr(data, "shape") and bool(data) and all(map(is_path, data))


def _is_batch(part: object) -> bool:
    """Whether this is (X, y) or (X, y, weights) with two-dimensional X."""
    return isinstance(part, (tuple, list)) and len(part) in (2, 3) and _dimensions(part[0]) == 2


def parts_of(batch: Any, number: int) -> tuple[Any, Any, Any] | None:
    """(X, y, weights or None) of a batch of a stream; None if X has no rows. UsageError for other objects."""
    if isinstance(batch, Mapping):
        X, y = map(shown, list(batch)[:2] if len(batch) > 1 else ("X", "y"))
        raise UsageError(
            f"batch {number} is a mapping of {listed(list(map(str, batch)))}; name two of them to train, as "
            f"x={X}, y={y}, or give pairs, as ((batch[{X}], batch[{y}]) for batch in batches)"
        )
    if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
        raise UsageError(f"batch {number} must be (X, y) or (X, y, sample_weight), not {type(batch).__name__}")
    shape = getattr(batch[0], "shape", None)
    if isinstance(shape, tuple) and shape[:1] == (0,):
        return None
    return batch[0], batch[1], batch[2] if len(batch) == 3 else None


def pairs_of(batches: Iterable[object], x: str, y: str, sample_weight: str | None) -> Iterator[tuple[object, ...]]:
    """(X, y) or (X, y, sample_weight) of batches that are mappings, by these keys. Raises UsageError."""
    keys = [key for key in (x, y, sample_weight) if key is not None]
    for number, batch in enumerate(batches):
        if not isinstance(batch, Mapping):
            raise UsageError(f"batch {number} is a {type(batch).__name__}, which has no keys; leave out `x` and `y`")
        if lacking := [key for key in keys if key not in batch]:
            raise UsageError(
                f"batch {number} has no {listed(lacking)}; it has {listed(list(map(str, batch)))}; name two with `x` "
                "and `y`"
            )
        if isinstance(batch[x], list) and batch[x] and hasattr(batch[x][0], "shape"):  # of columns, by torch
            raise UsageError(
                f"batch {number}: {x} is a list of {len(batch[x])} arrays, which may be rows or columns; make it one "
                "array, in datasets by data.with_format('torch')"
            )
        yield tuple(batch[key] for key in keys)


def _dimensions(array: object) -> int:
    shape = getattr(array, "shape", ())
    return len(shape) if isinstance(shape, tuple) else 0


def _open_shards(
    paths: list[str], x: str | None, y: object, sample_weight: object, mask: str | None, columns: Columns
) -> Source:
    if not chosen(columns) and len(paths) == 1 and mask is None:
        file = _open_file(paths[0], x, y, sample_weight)
        file.of_others = of_others(columns)
        return file
    from streammargin.sources.columns import alike
    from streammargin.sources.masked import none_has
    from streammargin.sources.shards import ShardedSource, check_inside

    if len(paths) > 1:
        check_inside("y", y)
        check_inside("sample_weight", sample_weight)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_open_file(path, x, y, sample_weight)) for path in paths]
        if mask is not None:
            files = [file.masked(mask) for file in files]
        used = [file for file in files if mask is None or file.rows]
        if not used:
            raise none_has(paths, mask or "")
        source = alike(used, columns)[0] if len(used) == 1 else ShardedSource(used, columns)
        source.of_others = of_others(columns)
        stack.pop_all()
    for file in set(files).difference(used):  # without a row
        file.close()
    return source


def is_source(path: str) -> bool:
    """Whether a format of sources knows this file or directory."""
    start = b""
    with contextlib.suppress(InputMissingError):
        start = first_bytes(path)
    return _format_of(path, start) is not None


def check_rows(path: str) -> None:
    """Raise InputMissingError or DataError unless `path` is a regular file, or a directory that a format reads."""
    if not os.path.isdir(as_path(path)) or _format_of(path, b"") is None:
        check_file(path)


def check_file(path: str) -> None:
    """`check_input`, which of a folder says what it is, or how to name its files."""
    found = [os.path.splitext(name)[1] for name in sorted(os.listdir(path))] if os.path.isdir(path) else []
    ending = next((each for each in found if each in HDF5), None)
    if ending is not None:
        raise InputMissingError(
            f"{path} is a directory; name its files, as {os.path.join(path, '*' + ending)}: several are shards of one "
            "data set"
        )
    if os.path.isdir(path) and (kind := kind_of(path)) is not None:
        raise DataError(f"{path} is {kind[0]}, not an HDF5 file; {kind[1]}")
    check_input(path)


def _open_file(path: str, x: str | None, y: object, sample_weight: object) -> Source:
    if os.path.isdir(as_path(path)) and (folder := _format_of(path, b"")) is not None:
        return folder.open_file(path, x, y, sample_weight)
    check_file(path)
    start = first_bytes(path)
    if not start:
        raise DataError(f"{path} is empty; make a data file with: streammargin-data convert IN OUT.h5")
    known = _format_of(path, start)
    if known is not None:
        return known.open_file(path, x, y, sample_weight)
    kind = kind_of(path, start)
    if kind is not None:
        raise DataError(f"{path} is {kind[0]}, not an HDF5 file; {kind[1]}")
    raise DataError(
        f"{path} is not an HDF5 file, nor in another format whose rows are read in any order; if it is a table or "
        f"text, convert it with: streammargin-data convert {path} OUT.h5"
    )


def _format_of(path: str, start: bytes) -> Format | None:
    """The module of the format of a file with these first bytes, or of a directory; None if none knows it."""
    for name in FORMAT_MODULES:
        module: Format = importlib.import_module(name)
        if module.sniff(path, start):
            return module
    for point in points_of("streammargin.sources"):  # of installed packages, tried last
        module = loaded(point)
        if not (hasattr(module, "sniff") and hasattr(module, "open_file")):
            raise UsageError(
                f"the entry point {point.name} of {point.group} names {point.value}, which has no functions sniff and "
                "open_file; correct its package, or uninstall it"
            )
        if module.sniff(path, start):
            return module
    return None
