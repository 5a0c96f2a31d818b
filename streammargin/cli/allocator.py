"""Freed arrays go back to the system, so that a process takes what its budget counts.

The C library of GNU keeps freed arrays for later ones, and larger and larger ones, up to 32 MiB, the more of them are
freed: with rows that come and go it held up to a fifth of a budget of 256 MiB that nobody used.
"""

from __future__ import annotations

import contextlib
import ctypes

MMAP_THRESHOLD = -3  # mallopt's name of it
# bytes from which on an array has pages of its own (below, what freed rows leave between others stays); setting it
# stops it from growing
APART = 1 << 17


def return_freed_arrays() -> None:
    """From here on, for this whole process; nothing happens where the C library is another one."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, APART)
