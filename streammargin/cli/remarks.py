"""Print what the library logs to standard error."""

from __future__ import annotations

import logging
import sys

from streammargin.wording import LOG, Message, printable


def shell_text(record: logging.LogRecord) -> str:
    """The message, with options as the command line spells them."""
    return record.msg.in_shell if isinstance(record.msg, Message) else record.getMessage()


def say(text: str) -> None:
    """Print a message to standard error, on one line; what a file holds in it does not steer the terminal."""
    print(printable(text), file=sys.stderr)


class Remarks(logging.Handler):
    """Within this context, print records of this level or above; `before` precedes a warning."""

    def __init__(self, level: int = logging.WARNING, before: str = "") -> None:
        super().__init__(level)
        self.before = before

    def emit(self, record: logging.LogRecord) -> None:
        mark = f"{self.before}warning: " if record.levelno >= logging.WARNING else ""
        say(f"{mark}{shell_text(record)}")

    def __enter__(self) -> Remarks:
        self.usual: int = LOG.level
        LOG.addHandler(self)
        LOG.setLevel(self.level)
        return self

    def __exit__(self, *exc: object) -> None:
        LOG.removeHandler(self)
        LOG.setLevel(self.usual)
