"""What the console shows: time left, and lines that fit."""

import os
import pty

import pytest

from streammargin.sinks.console import Console


def shown(columns, max_seconds, monkeypatch):
    """The progress line on a terminal of so many columns (0: it does not say), with so much time left."""
    monkeypatch.setattr(os, "get_terminal_size", lambda number: os.terminal_size((columns, 24)))
    monkeypatch.setenv("TERM", "xterm")
    leader, follower = pty.openpty()
    with open(follower, "w", encoding="utf-8") as stream:
        console = Console(stream=stream, max_seconds=max_seconds)
        console._last = -1e9
        console(
            {"event": "progress", "phase": "pass", "pass": 3, "block": 1, "blocks": 2, "rows": 500, "seconds": 0.5,
             "bytes_read": 0, "wait_seconds": 0.0, "estimate": 0.25, "elapsed": 1.0}
        )  # fmt: skip
        text = os.read(leader, 4096).decode()
    os.close(leader)
    assert text.startswith("\r\x1b[K")
    return text.removeprefix("\r\x1b[K")


@pytest.mark.parametrize("columns", [0, 100])
def test_a_line_is_whole_where_it_fits(columns, monkeypatch):
    assert shown(columns, 3.0, monkeypatch) == "pass 3  50%  1,000 rows/s  gap ~2.5e-01  ~2.0s left"


def test_a_narrow_terminal_gets_whole_parts(monkeypatch):
    assert shown(45, 3.0, monkeypatch) == "pass 3  50%  1,000 rows/s  gap ~2.5e-01"
    assert shown(30, 3.0, monkeypatch) == "pass 3  50%  1,000 rows/s"


def test_a_time_beyond_reason_is_left_out(monkeypatch):
    assert shown(100, 99.0 * 3600, monkeypatch).endswith("98h59m left")
    assert shown(100, 1538.0 * 3600, monkeypatch).endswith("gap ~2.5e-01")
    assert shown(100, None, monkeypatch).endswith("gap ~2.5e-01")
