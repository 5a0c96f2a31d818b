"""The last resort of a signal: it ends the process if a library does not return to Python.

Python runs a handler between two instructions of the main thread, which never comes if a library hangs there. But
a signal always writes its number to a pipe at once (signal.set_wakeup_fd). A thread reads that pipe and watches the
main thread. This works while the library has released the interpreter's lock.

If it has not (HDF5 when it reads an attribute), no line of Python runs, and the kernel has to act. A write to the
pipe raises another signal, CARRIER, whose handler is the C library's own alarm(). Its argument is the number of the
signal. So SIGALRM ends the process after as many seconds, unless the thread cancels the alarm.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

CALL_PATIENCE = 30.0  # seconds for a call of a library to return
COMPUTING_PATIENCE = 300.0  # for one that computes: a step of one class may take long, and then returns
CARRIER = int(getattr(signal, "SIGIO", 0))  # 29 on Linux, 23 on macOS: seconds until the alarm
COMPUTING = ("streammargin.solvers", "streammargin.points", "streammargin.compiled", "numba", "llvmlite")


def start(numbers: Collection[int], again: float, end: Callable[[int], None]) -> None:
    """Call end(number), which does not return, for signals that came to nothing, and for a second one.

    again: seconds within which another signal is the same request. Only the main thread may call this.
    """
    out, into = os.pipe()
    os.set_blocking(into, False)
    signal.set_wakeup_fd(into, warn_on_full_buffer=False)
    _raise_alarm(out)
    main = threading.get_ident()
    thread = threading.Thread(target=_watch, args=(out, numbers, again, end, main), name="last resort", daemon=True)
    thread.start()


def _raise_alarm(pipe: int) -> None:
    """Have the kernel set an alarm when the pipe is written to, if the system can."""
    if fcntl is None or not CARRIER or not hasattr(os, "O_ASYNC"):
        return
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
        libc.signal(CARRIER, ctypes.cast(libc.alarm, ctypes.c_void_p))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        if hasattr(fcntl, "F_SETSIG"):
            fcntl.fcntl(pipe, fcntl.F_SETSIG, CARRIER)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def _watch(pipe: int, numbers: Collection[int], again: float, end: Callable[[int], None], main: int) -> None:
    while True:
        number = os.read(pipe, 1)[0]
        if number not in numbers:
            continue
        since, (before, patience) = time.monotonic(), _place(main)
        while time.monotonic() - since < (CALL_PATIENCE if before is None else patience):
            signal.alarm(0)  # this thread runs, so that the alarm is not needed
            if _written(pipe, 0.1) and os.read(pipe, 1)[0] in numbers and time.monotonic() - since > again:
                end(number)
            before = before if before == _place(main)[0] else None
        if before is not None:
            end(number)


def _place(thread: int) -> tuple[Any, float]:
    """The position of a thread, None if it has ended, and how long it may stay there."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return None, CALL_PATIENCE
    here, computes = (id(frame), frame.f_lasti), False
    while frame is not None and not computes:  # it may wait for another thread
        computes, frame = str(frame.f_globals.get("__name__")).startswith(COMPUTING), frame.f_back
    return here, COMPUTING_PATIENCE if computes else CALL_PATIENCE


def _written(pipe: int, seconds: float) -> bool:
    """Whether there is something to read, or comes within this time."""
    import select

    return bool(select.select([pipe], [], [], seconds)[0])
