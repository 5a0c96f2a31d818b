"""Our decorator for compiled functions: nogil, and cached on disk without ever being stale.

Numba stamps a cached kernel with its own source file alone, so a change in a loss or in a row
operation would go unnoticed. Here the stamp is a digest of all of specs/ and kernels/.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba.core import caching, config, event

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


class _Files(caching.IndexDataCacheFile):
    """Files named by their contents' signature and sources.

    Numba numbers them, so that two processes that compile at the same time give one name to two kernels.
    """

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except Exception as error:  # cut short by a crash or a full disk
            logger.info("the cache index %s cannot be read (%s)", self._index_path, error)
            return {}

    def save(self, key: Any, data: Any) -> None:
        overloads = self._load_index()
        base = self._index_name.removesuffix(".nbi")
        if not overloads:  # the sources have changed, and nobody will look for the old files again
            for old in Path(self._cache_path).glob(f"{glob.escape(base)}.*.nbc"):
                old.unlink(missing_ok=True)
        digest = hashlib.sha256(repr((self._source_stamp, self._version, key)).encode()).hexdigest()
        overloads[key] = f"{base}.{digest[:16]}.nbc"
        self._save_data(overloads[key], data)
        self._save_index(overloads)


class _Cache(caching.FunctionCache):
    _impl_class = _Implementation

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        self._cache_file: Any = _Files(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # likewise; it is compiled and written again
            logger.info("a cached kernel of %s cannot be read (%s)", self._name, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_once(error)


class _CompileClock(event.Listener):
    """Adds up the seconds spent on compiling, with what is compiled on the way of another kernel counted once."""

    def __init__(self) -> None:
        self.seconds, self._depth, self._started = 0.0, 0, 0.0

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._started = time.perf_counter()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._started


_clock = _CompileClock()
event.register("numba:compile", _clock)


def compile_seconds() -> float:
    """Seconds that this process has spent on compiling kernels; reading them from the cache is not counted."""
    return _clock.seconds


def kernel(function: Callable | None = None, *, wide_sums: bool = False) -> Any:
    """Compile on first call for each set of argument types; plain Python under NUMBA_DISABLE_JIT=1.

    wide_sums: LLVM may add in another order, and so several numbers at a time.
    """
    if function is None:
        return functools.partial(kernel, wide_sums=wide_sums)
    if config.DISABLE_JIT:
        return function
    fastmath = {"reassoc", "contract"} if wide_sums else False
    # numpy's error model: a division by zero gives inf, as the pure Python twin never does one
    dispatcher = numba.njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
    try:
        dispatcher._cache = _Cache(function)
    except (RuntimeError, OSError) as error:  # read-only install and no home directory
        _warn_once(error)
    return dispatcher
