"""Look up objects of an HDF5 file that may be damaged: every failure becomes a DataError of one sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import h5py

from streammargin.errors import DataError, StreamMarginError
from streammargin.files import short_reason
from streammargin.sources.hdf5.heap import text_attribute
from streammargin.sources.hdf5.storage import followed, storage_files


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
