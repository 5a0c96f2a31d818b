"""Return freed arrays to the system, so that a process takes no more memory than its budget counts.

The GNU C library keeps freed arrays for later ones. The more are freed, the larger the arrays that it keeps, up to
32 MiB. With blocks of rows it held up to a fifth of a budget of 256 MiB unused. Arrow has an allocator of its own. It
kept 20 to 50 MiB of what its threads had freed beside the budget of a training.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of mallopt
# larger arrays get pages of their own, which go back when they are freed; once set, the threshold no longer grows
OWN_PAGES = 1 << 17


def return_freed_arrays() -> None:
    """Set this for the whole process, before Arrow is imported; without effect for another C library."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, OWN_PAGES)
