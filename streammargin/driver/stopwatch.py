"""The seconds that a training took, and those of them in which kernels were compiled."""

from __future__ import annotations

import time

from streammargin.compiled.jit import compile_seconds


class Stopwatch:
    """Runs from the moment it is made."""

    def __init__(self) -> None:
        self._started, self._compiled = time.perf_counter(), compile_seconds()

    def read(self) -> dict[str, float]:
        """The keys `seconds` and `compile_seconds` of the event run_end."""
        return {"seconds": time.perf_counter() - self._started, "compile_seconds": compile_seconds() - self._compiled}

    def computing(self) -> float:
        """Seconds without those of compiling. A kernel that another thread had begun to compile counts as compiled."""
        seconds, compiling = self.read().values()
        return max(0.0, seconds - compiling)
