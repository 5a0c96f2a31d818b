"""BLAS on one thread: with several, sums have other bits."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def one_thread(wanted: bool) -> AbstractContextManager[Any]:
    """Within it BLAS has one thread, if that is wanted."""
    found: AbstractContextManager[Any] = _pools().limit(limits=1, user_api="blas") if wanted else nullcontext()
    return found


@functools.cache
def _pools() -> Any:
    """The libraries loaded so far, which takes a millisecond to find out."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
