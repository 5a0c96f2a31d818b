"""Open HDF5 files and look up their objects. The values of a dataset must be there, in this file or in others.

HDF5 waits for ever on a pipe. It overflows the stack on a virtual dataset that is its own source, and silently uses
fill values for a missing source. Every failure on a damaged file becomes a DataError of one sentence.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError, InputMissingError, StreamMarginError
from streammargin.files import check_input, short_reason
from streammargin.sources.hdf5.heap import check_virtual, text_attribute
from streammargin.stored import beside, check_written, missing, open_hdf5, source_of

_METADATA = 1 << 20  # bytes of HDF5's metadata cache; in memory it takes seven times as much
_DEPTH = 16  # longest chain of links


def opened(path: str, hint: str = "copy or convert it again") -> h5py.File:
    """Open an HDF5 file for reading, without HDF5's chunk cache and with a small metadata cache.

    Raises DataError, ReadWriteError or InputMissingError for anything else.
    """
    file = open_hdf5(path, hint, rdcc_nbytes=0)
    config = file.id.get_mdc_config()
    config.min_size = config.max_size = config.initial_size = _METADATA
    config.set_initial_size = True
    config.incr_mode = config.flash_incr_mode = config.decr_mode = 0
    file.id.set_mdc_config(config)
    return file


def has_link(group: h5py.Group, name: str) -> bool:
    """Whether a group has a link of this name, dangling or not."""
    return group.id.links.exists(name.encode())


def followed(home: h5py.Group, name: str, path: str, depth: int = 0) -> list[str]:
    """The other files on the link path to an object; only regular files are opened.

    The path ends where the object is missing, or links form a cycle. Raises InputMissingError for a pipe, ValueError
    for an object on which HDF5 might hang.
    """
    found: list[str] = []
    node = home.file["/"] if name.startswith("/") else home
    parts = [part for part in name.split("/") if part not in ("", ".")]
    for k, part in enumerate(parts):
        if depth > _DEPTH or not isinstance(node, h5py.Group) or not has_link(node, part):
            break
        info = node.id.links.get_info(part.encode())
        kind = info.type
        if kind == h5py.h5l.TYPE_HARD:
            check_virtual(node.file, info.u)
            node = node[part]
            continue
        value = node.id.links.get_val(part.encode())
        target = "/".join([os.fsdecode(value[1] if isinstance(value, tuple) else value), *parts[k + 1 :]])
        if kind == h5py.h5l.TYPE_SOFT:
            return followed(node, target, path, depth + 1)
        where = beside(os.fsdecode(value[0]), node.file.filename)
        if where is not None:
            _check_regular(where, f"{path}: {name} is a link to another file")
            with opened(where) as other:
                found = [where, *followed(other, target, where, depth + 1)]
        break
    return found


def storage_files(dataset: h5py.Dataset) -> list[str]:
    """Other files that contain values of a dataset.

    Raises DataError if a source of a virtual dataset, or a file of raw values, is missing, virtual itself or too small.
    Raises InputMissingError if it is a pipe.
    """
    name = f"{dataset.file.filename}: {dataset.name.lstrip('/')}"
    plist = dataset.id.get_create_plist()
    found: list[str] = []
    for k in range(plist.get_external_count()):
        raw, offset, size = plist.get_external(k)
        where = os.fsdecode(raw)
        _check_regular(where, f"{name} has its values in another file")
        if size == h5py.h5f.UNLIMITED:
            size = dataset.id.get_storage_size()
        if offset + size > os.path.getsize(where):
            raise DataError(f"{where} is too short for the raw values of {name}; fetch it again")
        found.append(where)
    if dataset.is_virtual:
        found.extend(_sources(dataset, name))
    return found


def _sources(dataset: h5py.Dataset, name: str) -> Iterator[str]:
    """The source files of a virtual dataset; DataError if they do not fill it."""
    filled = 0
    for part in dataset.virtual_sources():
        try:
            size = int(part.vspace.get_select_npoints())
        except RuntimeError:  # of an unlimited selection
            raise DataError(f"{name} is virtual, and grows with its sources; copy the rows into one dataset") from None
        where, inside = source_of(part, dataset)
        if where is None:
            raise missing(part, name)
        _check_regular(where, f"{name} is virtual")
        with opened(where) as file:
            followed(file, inside, where)
            source = file.get(inside)
            if not isinstance(source, h5py.Dataset):
                raise DataError(f"{name} is virtual, and its source {where} has no dataset {inside}")
            if source.is_virtual or source.id.get_create_plist().get_external_count():
                raise DataError(f"{name} is virtual, and so is its source in {where}; copy the rows into one dataset")
            chosen = part.src_space
            every = chosen.get_select_type() == h5py.h5s.SEL_ALL
            fits = source.dtype == dataset.dtype and (every or source.ndim == chosen.get_simple_extent_ndims())
            if fits and not every:
                fits = bool(np.all(np.array(chosen.get_select_bounds()[1]) < source.shape))
            if not fits or size != (source.size if every else int(chosen.get_select_npoints())):
                raise DataError(f"{name} is virtual, and its source in {where} has another type or shape; correct it")
            check_written(source, f"{where}: {inside}")
            filled += size
        yield where
    if filled != dataset.size:
        raise DataError(f"{name} is virtual, and its sources fill {filled} of its {dataset.size} values; correct it")


def _check_regular(where: str, whose: str) -> None:
    try:
        check_input(where)
    except InputMissingError as error:
        raise InputMissingError(f"{whose}: {error}") from error


@contextlib.contextmanager
def decoding(path: str) -> Iterator[None]:
    """Turn errors of HDF5 or NumPy on a damaged file into a DataError."""
    try:
        yield
    except StreamMarginError:
        raise
    except (OSError, RuntimeError, LookupError, ValueError, TypeError, ArithmeticError, AttributeError) as error:
        reason = short_reason(error).strip("'\"") or type(error).__name__
        raise DataError(f"{path} cannot be decoded ({reason}); it is damaged; copy or convert it again") from error


def look_up(home: Any, name: str, path: str, files: list[str] | None = None) -> Any:
    """The object of this name, None if there is none; DataError for a dangling link.

    files: other files that contain it are appended. InputMissingError if one of them is a pipe.
    """
    if not isinstance(home, h5py.Group):
        return None
    with decoding(f"{path}: {name}"):
        on_the_way = followed(home, name, path)
        if name not in home:
            return None
        try:
            node = home[name]
        except (KeyError, RuntimeError, OSError):
            link = home.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                raise DataError(f"{path}: {name} is a link to {link.path}, which cannot be followed") from None
            if isinstance(link, h5py.ExternalLink):
                raise DataError(
                    f"{path}: {name} is a link to {link.path} in the file {link.filename}, which cannot be followed; "
                    "put that file where the link points"
                ) from None
            raise
        if isinstance(node, h5py.Dataset):
            on_the_way += storage_files(node)
        if files is not None:
            files.extend(on_the_way)
        return node


def attribute(node: h5py.Group | h5py.Dataset, *names: str) -> Any:
    """The first of these attributes that exists, or None; text as str."""
    for name in names:
        if name not in node.attrs:
            continue
        kind = node.attrs.get_id(name).get_type()
        if isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str():
            return text_attribute(node, name)
        kind = node.attrs.get_id(name).dtype
        if kind.hasobject and h5py.check_ref_dtype(kind) is not h5py.Reference:
            raise ValueError(f"its attribute {name} is neither text nor numbers")
        value = node.attrs[name]
        return value.decode(errors="replace") if isinstance(value, bytes) else value
    return None


def children(home: h5py.Group) -> str:
    """The names in a group, for messages; the first 20."""
    found = sorted(name if isinstance(name, str) else repr(name) for name in home)  # bytes: not UTF-8
    return ", ".join(found[:20]) + (", ..." if len(found) > 20 else "") or "nothing"
