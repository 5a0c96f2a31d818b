"""Our decorator for compiled functions: nogil, and cached on disk without ever being stale.

Numba stamps a cached kernel with its own source file alone, so a change in a loss or in a row
operation would go unnoticed. Here the stamp is a digest of all of specs/ and kernels/.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba.core import caching, config

logger = logging.getLogger("streammargin")
_warned = False


def _source_digest() -> str:
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for folder in ("kernels", "specs"):
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(str(path.relative_to(package)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


_DIGEST = _source_digest()


def _warn_once(why: object) -> None:
    global _warned
    if not _warned:
        _warned = True
        logger.warning("compiled kernels cannot be cached (%s); set NUMBA_CACHE_DIR to a writable folder", why)


class _Stamp:
    def get_source_stamp(self) -> str:
        return _DIGEST


class _UserProvided(_Stamp, caching.UserProvidedCacheLocator):
    pass


class _InTree(_Stamp, caching.InTreeCacheLocator):
    pass


class _UserWide(_Stamp, caching.UserWideCacheLocator):
    pass


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes: ClassVar[list] = [_UserProvided, _InTree, _UserWide]


class _Cache(caching.FunctionCache):
    _impl_class = _Implementation

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_once(error)


def kernel(function: Callable) -> Any:
    """Compile on first call for each set of argument types; plain Python under NUMBA_DISABLE_JIT=1."""
    if config.DISABLE_JIT:
        return function
    # numpy's error model: a division by zero gives inf, as the pure Python twin never does one
    dispatcher = numba.njit(nogil=True, error_model="numpy")(function)
    try:
        dispatcher._cache = _Cache(function)
    except (RuntimeError, OSError) as error:  # read-only install and no home directory
        _warn_once(error)
    return dispatcher
