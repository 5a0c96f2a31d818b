"""The model and the log of a training: which existing ones it may replace."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from typing import BinaryIO

from streammargin.errors import OutputError
from streammargin.files import check_output, check_still_apart
from streammargin.json_values import to_plain

LONGEST = 16 << 20  # bytes of the first line of a log


class Outputs:
    """Checks the outputs of a training. Only with `force` it replaces what another training, or anyone, wrote.

    log: None for none, or standard output; asked: the digest of what is asked for, with a checkpoint, else None. A
    model is the training's own if it names this very training, and the checkpoint is of it. A log is compared with the
    checkpoint when the training goes on (JsonLines.go_on).
    """

    def __init__(self, model: str, log: str | None, asked: str | None, force: bool) -> None:
        """Raise OutputError, before anything is read, if the training may not write."""
        self.model: str = model
        self.force: bool = force
        self._own = None if asked is None or force else job_of_model(model)
        check_output(model, force or str(self._own).startswith(f"{asked}-"))
        self._there = [] if self._own is None else [model]  # outputs that are there, and may be the training's own
        if log is None or not os.path.exists(log):
            return
        mode = os.stat(log).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            raise OutputError(f"the log {log} is a pipe or a socket; name a file, or - for standard output")
        if not stat.S_ISREG(mode) or not os.path.getsize(log) or force:
            return
        if asked is None or not is_log(log):
            raise OutputError(f"the log {log} exists; use `force=True` to replace it, or name another")
        self._there.append(log)

    def check_job(self, job: object, start: Mapping[str, object] | None = None) -> None:
        """Raise OutputError if an output is of another training; job: of the one that goes on, None: a new one.

        start: the first event of a new one. A log that begins with it is its own, killed before the first checkpoint.
        """
        if (
            job is None
            and start is not None
            and self._own is None
            and all(was_killed(log, start) for log in self._there)
        ):
            return
        if self._there and (job is None or self._own not in (None, job)):
            raise OutputError(
                f"{self._there[0]} exists, of another training, or of this one without its checkpoint; use "
                "`force=True` to replace it, or name another output"
            )

    def free(self, path: str, job: str | None) -> bool:
        """Whether the training may write its model there, now that it is done."""
        try:
            check_still_apart(path)
        except OutputError:
            return False
        own = path == self.model and self._own == job is not None and job_of_model(path) == job
        return own or (self.force and path == self.model) or not os.path.lexists(path)


def job_of_model(path: str) -> str | None:
    """The name of the training that wrote this model file; None if there is none."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return None
    from streammargin.model.file import job_of

    return job_of(path)


def was_killed(log: str, start: Mapping[str, object]) -> bool:
    """Whether this log begins with the event `start`, and was cut off before a checkpoint."""
    wanted = json.loads(json.dumps(to_plain(dict(start))))
    try:
        with open(log, "rb") as file:
            first = _first(file)
            same = all(first.get(name) == value for name, value in wanted.items())
            return same and not any(b'"event": "checkpoint"' in line or b'"event": "run_end"' in line for line in file)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


def is_log(path: str) -> bool:
    """Whether this begins as the log of a training."""
    try:
        with open(path, "rb") as file:
            return bool(_first(file)["event"] == "run_start")
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def _first(file: BinaryIO) -> dict[str, object]:
    """The first event of a log, but for warnings about options, which come before the run starts."""
    event: dict[str, object] = {"event": "warning"}
    while event["event"] == "warning":
        event = json.loads(file.readline(LONGEST))
    return event
