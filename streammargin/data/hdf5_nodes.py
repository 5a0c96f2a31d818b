"""Objects of an HDF5 file that may be damaged: every failure of HDF5 is one sentence about the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import h5py

from streammargin.errors import DataError, StreamMarginError
from streammargin.files import short_reason


@contextlib.contextmanager
def decoding(path: str) -> Iterator[None]:
    """Where HDF5 or NumPy fail on what a file says of itself: DataError."""
    try:
        yield
    except StreamMarginError:
        raise
    except (OSError, RuntimeError, LookupError, ValueError, TypeError, ArithmeticError, AttributeError) as error:
        reason = short_reason(error).strip("'\"") or type(error).__name__
        raise DataError(f"{path} cannot be decoded ({reason}); it is damaged; copy or convert it again") from error


def look_up(home: h5py.Group, name: str, path: str) -> Any:
    """The object of this name, None where there is none; DataError for a link that leads nowhere."""
    with decoding(f"{path}: {name}"):
        if name not in home:
            return None
        try:
            return home[name]
        except (KeyError, RuntimeError, OSError):
            link = home.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                raise DataError(f"{path}: {name} is a link to {link.path}, which cannot be followed") from None
            if isinstance(link, h5py.ExternalLink):
                raise DataError(
                    f"{path}: {name} is a link to {link.path} in the file {link.filename}, which cannot be followed; "
                    "put that file where the link says"
                ) from None
            raise


def children(home: h5py.Group) -> str:
    """The names in a group, for messages; the first 20."""
    found = sorted(home)
    return ", ".join(found[:20]) + (", ..." if len(found) > 20 else "") or "nothing"
