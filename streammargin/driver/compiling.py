"""Tells that the compiler is at work, and each kernel that it has done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from numba.core import event

from streammargin.compiled.jit import compile_seconds, told_of_compiling

_NAME = "numba:compile"  # Numba's event; kernels that another one calls begin and end within it


class _Kernels(event.Listener):
    """Tells of each kernel once it is compiled, with those that it calls."""

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell, self._began = tell, compile_seconds()
        self._depth = self._done = 0

    def on_start(self, event: Any) -> None:
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._done += 1
            self._tell({"event": "compiling", "kernels": self._done, "seconds": compile_seconds() - self._began})


@contextlib.contextmanager
def told_of_kernels(tell: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Tell events `compiling` within this context: one once the compiler takes its time, and one for each kernel."""
    listener = _Kernels(tell)
    event.register(_NAME, listener)
    try:
        with told_of_compiling(lambda: tell({"event": "compiling"})):
            yield
    finally:
        event.unregister(_NAME, listener)
