"""Print what the library logs to standard error."""

from __future__ import annotations

import logging
import sys
import time

from streammargin.wording import LOG, Message, printable, watchers

OFTEN = 0.5  # seconds between two lines on how far it is


def shell_text(record: logging.LogRecord) -> str:
    """The message, with options as the command line spells them."""
    return record.msg.in_shell if isinstance(record.msg, Message) else record.getMessage()


def say(text: str) -> None:
    """Print a message to standard error, on one line; what a file holds in it does not steer the terminal."""
    print(printable(text), file=sys.stderr)


class Remarks(logging.Handler):
    """Within this context, print records of this level or above; `before` precedes a warning.

    With level INFO, show on a terminal how far a long read or write is.
    """

    def __init__(self, level: int = logging.WARNING, before: str = "") -> None:
        super().__init__(level)
        self.before = before
        self._told = time.monotonic()
        self._open = False

    def far(self, text: str) -> None:
        """Show how far it is, on a line that the next one replaces."""
        if time.monotonic() - self._told >= OFTEN:
            self._told, self._open = time.monotonic(), True
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._open:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self._open = False

    def emit(self, record: logging.LogRecord) -> None:
        self._clear()
        mark = f"{self.before}warning: " if record.levelno >= logging.WARNING else ""
        say(f"{mark}{shell_text(record)}")

    def __enter__(self) -> Remarks:
        self.usual: int = LOG.level
        LOG.addHandler(self)
        LOG.setLevel(self.level)
        if self.level <= logging.INFO and sys.stderr.isatty():
            watchers.append(self.far)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.far in watchers:
            watchers.remove(self.far)
        self._clear()
        LOG.removeHandler(self)
        LOG.setLevel(self.usual)
