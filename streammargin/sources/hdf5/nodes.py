"""Open HDF5 files and look up their objects. A dataset has its values in its own file.

HDF5 waits for ever on a pipe. Every failure on a damaged file becomes a DataError of one sentence.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import h5py

from streammargin.errors import DataError, StreamMarginError
from streammargin.files import short_reason
from streammargin.sources.hdf5.heap import is_virtual, text_attribute
from streammargin.stored import check_here, elsewhere, open_hdf5

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


def check_inside(home: h5py.Group, name: str, path: str, depth: int = 0) -> None:
    """Raise DataError if the links to an object lead to another file, or to a virtual dataset.

    The way ends where the object is missing, or links form a cycle.
    """
    node = home.file["/"] if name.startswith("/") else home
    parts = [part for part in name.split("/") if part not in ("", ".")]
    for k, part in enumerate(parts):
        if depth > _DEPTH or not isinstance(node, h5py.Group) or not has_link(node, part):
            return
        info = node.id.links.get_info(part.encode())
        if info.type == h5py.h5l.TYPE_SOFT:
            target = os.fsdecode(node.id.links.get_val(part.encode()))
            return check_inside(node, "/".join([target, *parts[k + 1 :]]), path, depth + 1)
        if info.type != h5py.h5l.TYPE_HARD or is_virtual(node.file, info.u):
            raise elsewhere(f"{path}: {name}")
        node = node[part]


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


def look_up(home: Any, name: str, path: str) -> Any:
    """The object of this name, None if there is none; DataError for a dangling link, and one to another file."""
    if not isinstance(home, h5py.Group):
        return None
    with decoding(f"{path}: {name}"):
        check_inside(home, name, path)
        if name not in home:
            return None
        try:
            node = home[name]
        except (KeyError, RuntimeError, OSError):
            link = home.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                raise DataError(f"{path}: {name} is a link to {link.path}, which cannot be followed") from None
            raise
        if isinstance(node, h5py.Dataset):
            check_here(node, f"{path}: {name}")
        return node


def attribute(node: h5py.Group | h5py.Dataset, name: str) -> Any:
    """An attribute, or None if there is none; text as str."""
    if name not in node.attrs:
        return None
    kind = node.attrs.get_id(name).get_type()
    if isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str():
        return text_attribute(node, name)
    kind = node.attrs.get_id(name).dtype
    if kind.hasobject and h5py.check_ref_dtype(kind) is not h5py.Reference:
        raise ValueError(f"its attribute {name} is neither text nor numbers")
    value = node.attrs[name]
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def children(home: h5py.Group, before: str = "") -> str:
    """The names in a group, for messages, with `before` in front of each; the first 20."""
    found = sorted(before + (name if isinstance(name, str) else repr(name)) for name in home)  # bytes: not UTF-8
    return ", ".join(found[:20]) + (", ..." if len(found) > 20 else "") or "nothing"
