"""Events that tell of the compiler at work: kernels done of how many, and seconds left as measured elsewhere."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from numba.core import event

from streammargin.compiled.jit import READY, compile_seconds, told_of_compiling
from streammargin.solvers.base import Method
from streammargin.solvers.problem import Problem

# kind of training -> kernel -> CPU seconds of each of its forms, by `python -m examples.benchmarks.first_fit --measure`
MEASURED = Path(__file__).with_name("compiling.json")
_READY_FOR: dict[str, list[str]] = {}  # kind of training -> kernels that those of this process made ready
_NAME = "numba:compile"  # Numba's event; kernels that another one calls begin and end within it
_LONG = 5.0  # seconds of compiling before the log says so
_LOG = logging.getLogger("streammargin.compiling")


def kind_of(method: Method, problem: Problem) -> str:
    """What decides which kernels a training needs: its steps, and the form of its rows."""
    rows = "sparse" if problem.sparse else "arrays" if problem.in_arrays else "dense"
    return " ".join([method.name, *method.route(problem), rows])


@functools.cache
def kernels_of(kind: str) -> dict[str, list[float]]:
    """The kernels that a kind of training compiles, and CPU seconds of each form; none if it was not measured.

    Those that trainings of another kind have compiled in this process count as still to do.
    """
    found: dict[str, list[float]] = json.loads(MEASURED.read_text()).get(kind, {})
    return found


class _Kernels(event.Listener):
    """Tells of each kernel before and after it is compiled, with those that it calls, and how many of these are done.

    tell: None: nobody listens; then the log says, once, that the compiler takes long.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None] | None, kind: str) -> None:
        self._listener, self._began, self._kind = tell, compile_seconds(), kind
        self._first, self._done = len(READY), 0
        self._at = self._spent = self._measured = 0.0  # seconds of measured kernels, here and as measured
        self._depth = self._parts = 0
        self.logged = False
        self._timer: threading.Timer | None = None

    def ready(self) -> list[str]:
        """The kernels that this training, or an earlier one of its kind, compiled or found on disk."""
        return [*_READY_FOR.get(self._kind, []), *READY[self._first :]]

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._parts, self._at = 0, compile_seconds()
            self._tell(busy=True)

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            name, ready = event.data["dispatcher"].py_func.__name__, self.ready()
            for seconds in kernels_of(self._kind).get(name, [])[ready.count(name) :][:1]:
                self._measured += seconds
                self._spent += compile_seconds() - self._at
            self._done += 1
            self._tell(busy=False, ended=[name])
        elif self._listener is not None:
            self._parts += 1
            self._listener({"event": "compiling", "parts": self._parts})

    def _tell(self, busy: bool, ended: Sequence[str] = ()) -> None:
        seconds = compile_seconds() - self._began
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            of, left = self._left(ended)
            self._listener({"event": "compiling", "kind": self._kind, "kernels": self._done, "seconds": seconds,
                            "busy": busy, "of": of, "seconds_left": left})  # fmt: skip
        elif busy and not self.logged:
            self._timer = threading.Timer(max(0.0, _LONG - seconds), self._log)
            self._timer.daemon = True
            self._timer.start()

    def _left(self, ended: Sequence[str]) -> tuple[int | None, float | None]:
        """About how many kernels this training compiles, and how long the others take; None if none was measured.

        ended: the one that was compiled just now. The seconds are scaled by those of the kernels done.
        """
        forms, ready = kernels_of(self._kind), Counter([*self.ready(), *ended])
        left = [one for name, each in forms.items() for one in each[ready[name] :]]
        pace = self._spent / self._measured if self._measured else 1.0
        return (self._done + len(left), pace * sum(left)) if forms else (None, None)

    def _log(self) -> None:
        self.logged = True
        _LOG.warning(
            "compiling loops for this machine, once for each kind of problem; it has taken %g s so far; "
            "`streammargin warmup` compiles all of them in advance",
            _LONG,
        )


@contextlib.contextmanager
def told_of_kernels(tell: Callable[[dict[str, Any]], None] | None, kind: str = "") -> Iterator[None]:
    """Tell events `compiling` within this context: one once the compiler takes its time, two for each kernel, parts.

    tell: None: nobody listens, as for `_Kernels`; kind: of `kind_of`.
    """
    listener = _Kernels(tell, kind)
    event.register(_NAME, listener)
    try:
        with contextlib.nullcontext() if tell is None else told_of_compiling(lambda: tell({"event": "compiling"})):
            yield
    finally:
        event.unregister(_NAME, listener)
        _READY_FOR[kind] = listener.ready()
