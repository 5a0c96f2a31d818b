"""A command as a process: signals that leave no half file, and standard streams that may be closed or full."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from streammargin.cli import last_resort

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
READER_LOOK_SECONDS = 0.2  # between two looks for a reader
PIPE_BYTES = getattr(select, "PIPE_BUF", 512)  # that a pipe takes at once
AGAIN = 1.0  # seconds within which a second signal is the same request: `timeout` sends each to the child twice

hurried = False  # whether a signal came that a run handles itself; what no reader takes is lost then
before_leaving: list[Callable[[], object]] = []  # what a process does before it ends at once, the last one first
leaving: list[int] = []  # once it ends: the exit code, which stays the first of these


def guarded(program: str, load: Callable[[], Callable[[], int]]) -> int:
    """Run the main function that `load` imports, and end the process; the exit code if a standard stream fails.

    A signal ends the process, by 128 + its number.
    """

    def end(number: int, frame: object = None) -> None:
        if not leaving:
            leaving.append(128 + number)
            what = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}.get(number, "hung up")  # type: ignore[call-overload]
            clear = "\r\x1b[K" if os.isatty(2) else ""  # a line of progress
            with contextlib.suppress(OSError):  # past the stream, whose lock a thread may hold that waits for a reader
                if _takes(2):
                    signal.alarm(1)  # should another thread fill the pipe just now
                    try:
                        os.write(2, f"{clear}{program}: {what}\n".encode())
                    finally:
                        signal.alarm(0)
        elif frame is not None:  # a handler, which interrupts what the first signal began: that goes on
            return
        leave(leaving[0])

    try:
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # an ignored one (nohup) stays ignored
                signal.signal(number, end)
        repair_streams()
        last_resort.start([int(number) for number in SIGNALS], AGAIN, end)
        return_freed_arrays()
        code = load()()
        sys.stdout.flush()  # what --help wrote, say
        sys.stderr.flush()
        leave(code)  # the interpreter would take .3 s of CPU to unload what was imported
    except BrokenPipeError:
        return 0
    except OSError as error:
        print(f"{program}: error: {error}", file=sys.stderr)
        return 74


def leave(code: int) -> NoReturn:
    """End the process at once, without unwinding, but for the files that would stay half written."""
    leaving.append(code)
    for do in reversed(before_leaving):
        do()
    # modules that are not imported yet, or only in part, have begun nothing
    for worker in getattr(sys.modules.get("multiprocessing.process"), "active_children", list)():
        worker.kill()  # it would wait for work for ever
    getattr(sys.modules.get("streammargin.files"), "remove_unfinished", list)()
    os._exit(leaving[0])


def _takes(handle: int, seconds: float = 0.0) -> bool:
    """Whether a write of at most PIPE_BUF bytes will not block, now or within this time."""
    try:
        return bool(select.select([], [handle], [], seconds)[1])
    except (OSError, ValueError):  # a write says what is wrong
        return True


class _Stream(io.FileIO):
    """Waits for a reader only until a signal comes: its handler may let the write go on, which would block again."""

    def write(self, data: Any) -> int:
        while not _takes(self.fileno(), 0.0 if hurried else READER_LOOK_SECONDS):
            if hurried:
                return self.unread(data)
        return super().write(memoryview(data)[:PIPE_BYTES])

    def unread(self, data: Any) -> int:
        """Loses text that nobody reads."""
        return len(data)


class _Messages(_Stream):
    """Standard error: text that cannot be written is lost, without an error."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


class _Results(_Stream):
    """Standard output: a failed write is an error, raised once."""

    def unread(self, data: Any) -> int:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # the rest as well, at exit
        return len(data)

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            # what is still buffered would fail once more at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(error, BrokenPipeError):
                raise
            from streammargin.errors import ReadWriteError

            raise ReadWriteError(f"cannot write to standard output ({error.strerror}); the results are lost") from error


def repair_streams() -> None:
    """Make the standard streams safe: closed ones exist, results are UTF-8, as in files, and messages always fit."""
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):  # writing results fails, messages are lost
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number, which is this one
    for name, number, kind in (("stdout", 1, _Results), ("stderr", 2, _Messages)):
        old = getattr(sys, name)
        raw = kind(number, "w", closefd=False)
        encoding, lines = (old.encoding, old.line_buffering) if old is not None else ("utf-8", False)
        if number == 1:  # labels that the encoding lacks must not turn into other labels
            encoding = "utf-8"
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=lines or number == 2
        )
        setattr(sys, name, stream)


MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of mallopt
# larger arrays get pages of their own, which go back when they are freed; once set, the threshold no longer grows
OWN_PAGES = 1 << 17


def return_freed_arrays() -> None:
    """Return freed arrays to the system, for the whole process, before Arrow is imported: memory stays in the budget.

    The GNU C library keeps freed arrays for later ones. The more are freed, the larger the arrays that it keeps, up to
    32 MiB. With blocks of rows it held up to a fifth of a budget of 256 MiB unused. Arrow has an allocator of its own.
    It kept 20 to 50 MiB of what its threads had freed beside the budget of a training. Another C library is left alone.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, OWN_PAGES)
