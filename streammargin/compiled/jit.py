"""The decorator for compiled functions: nogil, and cached on disk with a digest of all sources.

Numba checks a cached kernel against its own source file only, so it would miss a change in a loss or a row operation.
Here the stamp is a digest of all of losses/, penalties/, rows/ and compiled/; for a user's own loss, also of the file
that defines it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import glob
import hashlib
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from numba.core import caching, config, event, types
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys

# Seconds that a kernel may run in plain Python before it is compiled, which takes about as long; 0: compile at once
PATIENCE = float(os.environ.get("STREAMMARGIN_PATIENCE") or "2")
MOMENT = 0.5  # seconds of compiling before it is reported
logger = logging.getLogger("streammargin")
_warned = False


def _source_digest() -> str:
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for folder in ("compiled", "losses", "penalties", "rows"):
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


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold a lock, if the file system has locks and `path` is no link; else the index written last is kept."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class _Files(caching.IndexDataCacheFile):
    """Cache files named by a digest of signature and sources.

    Numba numbers them, so two processes that compile at the same time would give one name to two kernels.
    """

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except Exception as error:  # cut short by a crash or a full disk
            logger.info("the cache index %s cannot be read (%s)", self._index_path, error)
            return {}

    def save(self, key: Any, data: Any) -> None:
        with _locked(os.path.join(self._cache_path, ".lock")):
            self._save(key, data)

    def _save(self, key: Any, data: Any) -> None:
        overloads = self._load_index()
        base = self._index_name.removesuffix(".nbi")
        if not overloads:  # the sources have changed: the old files are useless
            for old in Path(self._cache_path).glob(f"{glob.escape(base)}.*.nbc"):
                old.unlink(missing_ok=True)
        digest = hashlib.sha256(repr((self._source_stamp, self._version, key)).encode()).hexdigest()
        overloads[key] = f"{base}.{digest[:16]}.nbc"
        self._save_data(overloads[key], data)
        self._save_index(overloads)


def _classes(arguments: Iterable[Any]) -> Iterator[type]:
    """The classes of all named tuples among these types, nested ones included."""
    for one in arguments:
        if isinstance(one, types.BaseNamedTuple):  # type: ignore[attr-defined]
            yield one.instance_class
            yield from _classes(one)


class _Cache(caching.FunctionCache):
    """Kernels with classes from outside this package have a separate index, as it can only be read where these can be
    imported.
    """

    _impl_class = _Implementation

    def _files(self, sig: Any) -> _Files | None:
        """The cache files for this signature; None for classes that another process could not import."""
        name, stamp = self._impl.filename_base, _DIGEST
        foreign = {cls for cls in _classes(sig) if cls.__module__.partition(".")[0] != __name__.partition(".")[0]}
        for cls in sorted(foreign, key=lambda cls: (cls.__module__, cls.__qualname__)):
            module = sys.modules.get(cls.__module__)
            path = getattr(module, "__file__", None)
            if cls.__module__ == "__main__" or path is None or getattr(module, cls.__qualname__, None) is not cls:
                return None
            name += f"+{cls.__module__}.{cls.__qualname__}"
            stamp += hashlib.sha256(Path(path).read_bytes()).hexdigest()
        return _Files(self._cache_path, name, stamp)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        files = self._files(sig)
        data = None if files is None else files.load(self._index_key(sig, target_context.codegen()))
        return None if data is None else self._impl.rebuild(target_context, data)

    def _save_overload(self, sig: Any, data: Any) -> None:
        files = self._files(sig)
        if files is not None and self._impl.check_cachable(data):
            self._impl.locator.ensure_cache_path()
            files.save(self._index_key(sig, data.codegen), self._impl.reduce(data))

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Whether the kernel compiled for this signature is on disk."""
        files = self._files(sig)
        return files is not None and self._index_key(sig, target_context.codegen()) in files._load_index()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            # initialise the runtime only: Numba would also import the compiler, which takes longer than a short
            # training
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)
        except Exception as error:  # a damaged file: the kernel is compiled and written again
            logger.info("a cached kernel of %s cannot be read (%s)", self._name, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_once(error)


class _CompileClock(event.Listener):
    """Adds up the seconds spent on compiling; nested compilations count once."""

    def __init__(self) -> None:
        self.seconds, self._depth, self._started, self._collects = 0.0, 0, 0.0, True
        self.waiting: dict[Callable[[], None], float] = {}  # functions to call once so many seconds were spent

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._started, self._collects = time.perf_counter(), gc.isenabled()
            gc.disable()  # garbage collection would take a fifth of the time, and find nothing
        self._depth += 1
        spent = self.seconds + time.perf_counter() - self._started
        for tell in [tell for tell, enough in self.waiting.items() if spent > enough]:
            del self.waiting[tell]
            tell()

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._started
            if self._collects:
                gc.enable()


_clock = _CompileClock()
event.register("numba:compile", _clock)


@contextlib.contextmanager
def told_of_compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` once if compiling takes longer than a MOMENT within this context."""
    _clock.waiting[tell] = _clock.seconds + MOMENT
    try:
        yield
    finally:
        _clock.waiting.pop(tell, None)


def compile_seconds() -> float:
    """Seconds that this process has spent on compiling kernels, without reading them from the cache."""
    return _clock.seconds


class _Expected(threading.local):
    """Per thread: how long a kernel call in plain Python is expected to take."""

    seconds = math.inf
    plain = False  # whether such a call is running


_expected = _Expected()


@contextlib.contextmanager
def small_calls(seconds: float) -> Iterator[None]:
    """Set the seconds that a kernel call in plain Python is expected to take, within this context and thread.

    A kernel that is neither compiled nor on disk runs as plain Python for PATIENCE seconds in total. So small problems
    are solved sooner than a kernel is compiled.
    """
    before, _expected.seconds = _expected.seconds, seconds
    try:
        yield
    finally:
        _expected.seconds = before


class Kernel(CPUDispatcher):
    """A compiled function that runs as plain Python where `small_calls` expects that to be faster."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.spent = 0.0  # seconds in plain Python
        self._missing: set[Any] = set()  # signatures known not to be on disk

    def _compile_for_args(self, *arguments: Any, **none: Any) -> Any:
        """Called by Numba for arguments of new types; it calls the function returned."""
        if _expected.plain or (self.spent + _expected.seconds < PATIENCE and not self._on_disk(arguments)):
            return self._in_python
        return super()._compile_for_args(*arguments, **none)

    def _on_disk(self, arguments: Any) -> bool:
        signature = tuple(map(self.typeof_pyval, arguments))
        if signature not in self._missing:
            if isinstance(self._cache, _Cache) and self._cache.holds(signature, self.targetctx):
                return True
            self._missing.add(signature)
        return False

    def _in_python(self, *arguments: Any) -> Any:
        if _expected.plain:
            return self.py_func(*arguments)
        _expected.plain, started = True, time.thread_time()
        try:
            return self.py_func(*arguments)
        finally:
            _expected.plain = False
            self.spent += time.thread_time() - started


def kernel(function: Callable | None = None, *, wide_sums: bool = False) -> Any:
    """Compile on first call for each set of argument types; plain Python under NUMBA_DISABLE_JIT=1.

    wide_sums: LLVM may reorder additions, and so vectorise sums.
    """
    if function is None:
        return functools.partial(kernel, wide_sums=wide_sums)
    if config.DISABLE_JIT:
        return function
    fastmath = {"reassoc", "contract"} if wide_sums else False
    # numpy's error model: a division by zero gives inf instead of raising
    options = {"nopython": True, "nogil": True, "error_model": "numpy", "fastmath": fastmath}
    dispatcher = Kernel(function, targetoptions=options)
    try:
        dispatcher._cache = _Cache(function)
    except (RuntimeError, OSError) as error:  # read-only install and no home directory
        _warn_once(error)
    return dispatcher
