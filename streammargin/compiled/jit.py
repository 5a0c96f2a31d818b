"""The decorator for compiled functions: nogil, cached on disk (cache.py), plain Python while that is faster."""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
from numba.core import config, event
from numba.core.errors import TypingError
from numba.core.registry import CPUDispatcher

from streammargin.compiled.cache import Cache, warn_once

# Seconds that a kernel may run in plain Python before it is compiled, which takes about as long; 0: compile at once
PLAIN_SECONDS = float(os.environ.get("STREAMMARGIN_PATIENCE") or "2")
A_VALUE = 1e-7  # seconds of plain Python for a value that is looked at once
OFTEN = 100  # how often a kernel looks at each value of its arguments: a Hessian of d x d is factorised
MOMENT = 0.5  # seconds of compiling before it is reported
READY: list[str] = []  # names of kernels that were compiled or read from disk, once for each form


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


class _Calls(threading.local):
    """Of this thread; plain: whether a kernel call in plain Python is running."""

    plain = False


_calls = _Calls()
_expected = ContextVar("expected", default=math.inf)  # seconds that such a call takes; threads of a pool know it too


@contextlib.contextmanager
def small_calls(seconds: float) -> Iterator[None]:
    """Set the seconds that a kernel call in plain Python is expected to take, within this context.

    A kernel that is neither compiled nor on disk runs as plain Python for PLAIN_SECONDS in total. So small problems are
    solved sooner than a kernel is compiled.
    """
    before = _expected.set(seconds)
    try:
        yield
    finally:
        _expected.reset(before)


class CompiledKernel(CPUDispatcher):
    """A compiled function that runs as plain Python if `small_calls` expects that to be faster."""

    spent: float  # seconds in plain Python
    scans = False  # whether it looks at each value once, so that its time is known

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.spent = 0.0
        self._missing: set[Any] = set()  # signatures known not to be on disk

    def _compile_for_args(self, *arguments: Any, **none: Any) -> Any:
        """Called by Numba for arguments of new types; it calls the function returned."""
        seconds = _expected.get()
        if seconds < math.inf:
            once = A_VALUE * _values(arguments)
            seconds = once if self.scans else max(seconds, OFTEN * once)
        if _calls.plain or (self.spent + seconds < PLAIN_SECONDS and not self._on_disk(arguments)):
            return self._in_python
        found = super()._compile_for_args(*arguments, **none)
        READY.append(self.py_func.__name__)
        return found

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Called by Numba for another kernel that calls this one."""
        found = super().get_call_template(args, kws)
        if isinstance(self._cache, Cache) and not self._cache.linkable(tuple(found[2]), self.targetctx):
            name = f"{self.__module__}.{self.__name__}"
            raise TypingError(f"{name} comes compiled, to be called from Python alone; set STREAMMARGIN_SHIPPED=0")
        return found

    def _on_disk(self, arguments: Any) -> bool:
        signature = tuple(map(self.typeof_pyval, arguments))
        if signature not in self._missing:
            if isinstance(self._cache, Cache) and self._cache.holds(signature, self.targetctx):
                return True
            self._missing.add(signature)
        return False

    def _in_python(self, *arguments: Any) -> Any:
        if _calls.plain:
            return self.py_func(*arguments)
        _calls.plain, started = True, time.thread_time()
        try:
            return self.py_func(*arguments)
        finally:
            _calls.plain = False
            self.spent += time.thread_time() - started


def _values(arguments: tuple[Any, ...]) -> int:
    """The values of these arrays, and of those in named tuples."""
    parts = (part for one in arguments for part in (one if isinstance(one, tuple) else (one,)))
    return sum(part.size for part in parts if isinstance(part, np.ndarray))


def kernel(function: Callable | None = None, *, wide_sums: bool = False, scans: bool = False) -> Any:
    """Compile on first call for each set of argument types; plain Python under NUMBA_DISABLE_JIT=1.

    wide_sums: LLVM may reorder additions, and so vectorise sums. scans: it looks at each value once.
    """
    if function is None:
        return functools.partial(kernel, wide_sums=wide_sums, scans=scans)
    if config.DISABLE_JIT:
        return function
    fastmath = {"reassoc", "contract"} if wide_sums else False
    # numpy's error model: a division by zero gives inf instead of raising
    options = {"nopython": True, "nogil": True, "error_model": "numpy", "fastmath": fastmath}
    dispatcher = CompiledKernel(function, targetoptions=options)
    dispatcher.scans = scans
    try:
        dispatcher._cache = Cache(function)
    except (RuntimeError, OSError) as error:  # NUMBA_CACHE_LOCATOR_CLASSES names none that can be used
        warn_once(error)
    return dispatcher
