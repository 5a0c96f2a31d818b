"""HDF5's Fletcher-32 checksum behind the bytes of a chunk."""

from __future__ import annotations

from typing import Any

import numpy as np

SUM = 4  # bytes of a checksum
_LINE = 1024  # words that are added up together
_MODULUS = 0xFFFF


def checked(raw: Any) -> np.ndarray:
    """The bytes before the checksum; OSError if it is not theirs."""
    data = np.frombuffer(raw, np.uint8)
    data, stored = data[:-SUM], data[-SUM:].tobytes()
    found = fletcher32(data).to_bytes(SUM, "little")
    # HDF5 1.6.2 and before wrote each half with its bytes swapped on some machines
    if stored not in (found, found[1::-1] + found[:1:-1]):
        raise damaged("bytes that are not those of its checksum")
    return data


def fletcher32(data: np.ndarray) -> int:
    """The checksum of bytes (n,): the sum of big-endian words of 16 bits, and that of its partial sums, modulo 65535.

    A sum that is a multiple of 65535 is 65535, and 0 only of zeros.
    """
    count, whole = -(-len(data) // 2), len(data) // 2
    words = np.zeros(-(-count // _LINE) * _LINE, np.uint16)
    first = len(words) - count  # zeros in front add nothing
    words[first : first + whole] = data[: 2 * whole].view(">u2")
    if whole < count:
        words[-1] = int(data[-1]) << 8
    lines = words.reshape(-1, _LINE)
    of_lines, of_columns = (lines.sum(axis=axis, dtype=np.uint64) for axis in (1, 0))
    if not of_lines.any():
        return 0
    of_lines, of_columns = of_lines % _MODULUS, of_columns % _MODULUS
    behind, left = np.arange(len(lines), dtype=np.uint64)[::-1], np.arange(_LINE, 0, -1, dtype=np.uint64)
    one = int(of_lines.sum())
    two = _LINE * int(of_lines @ behind) + int(of_columns @ left)
    return (two % _MODULUS or _MODULUS) << 16 | (one % _MODULUS or _MODULUS)


def damaged(what: str) -> OSError:
    """The error for a chunk that decompresses to `what`; without errno, which marks an error of the disk."""
    return OSError(f"a compressed chunk decompresses to {what}")
