"""The checkpoint from which a killed training resumes: what must be the same, when its slots are written, and which
one is taken.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import time
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np

from streammargin.compiled.cache import SOURCES
from streammargin.compiled.shipped import shipped
from streammargin.driver.loop.runs import Runs
from streammargin.driver.save.slots import LOCK, PART_FILE, SLOTS, Arrays, is_foreign, read_plain, read_slot, write_slot
from streammargin.driver.save.snapshot import restore_runs, save_runs
from streammargin.driver.status.events import History
from streammargin.driver.status.progress import DONE, IDENTITY
from streammargin.errors import DataError, OutputError, StreamMarginError, UsageError
from streammargin.files import short_reason
from streammargin.version import __version__
from streammargin.wording import LOG, shown, warn

PLAN = "block bounds"
# of what is read
SIZES, TEXTS = ("rows", "features"), ("labels", "epsilons", "held-out labels", "names of columns", "first weights")
WIDENS = ("map", "kernel")  # a map decides the features, and either may decide the solver and the blocks
OPTIONAL = {"held-out labels": ("held-out data", "valid"), "first weights": ("a model to begin from", "init")}


def difference(saved: dict[str, Any], known: dict[str, Any], folder: str, lowered: bool) -> StreamMarginError | None:
    """The error for the first item in which the training saved in a folder differs from this one; None for none.

    lowered: whether the tolerance is smaller now.
    """

    # causes before effects: the data's size decides the solver of `auto`, and all options decide the blocks
    def rank(name: str) -> tuple[Any, ...]:
        return name == PLAN, name in TEXTS, name not in WIDENS, name not in SIZES, name != "solver", name

    for name in sorted(saved.keys() | known.keys(), key=rank):
        if name == PLAN and lowered:  # a smaller tol may need float64 vectors, which leave fewer bytes for blocks
            continue
        then, now = saved.get(name), known.get(name)
        if then != now:
            return _differs(name, then, now, folder)
    return None


def _differs(name: str, then: Any, now: Any, folder: str) -> StreamMarginError:
    """The error for an unfinished training that differs from this one in `name`."""
    if name in SIZES or (name in TEXTS and (name not in OPTIONAL or None not in (then, now))):
        which = f"{now} {name}, not the {then}" if name in SIZES else f"other {name} than those"
        have = "the model of `init` has" if name == "first weights" else "the data have"
        return DataError(
            f"{have} {which} of the unfinished training in {folder}; put them back as they were, "
            "delete the directory, or name another"
        )
    if name in OPTIONAL:
        what, hint = OPTIONAL[name]
        differ = f"without {what}; leave out `{hint}`" if then is None else f"with {what}; name it with `{hint}`"
    else:
        differ = f"with {name} {shown(then)}, not {shown(now)}; use {shown(then)} again"
    return UsageError(f"{folder} holds an unfinished training {differ}, delete it, or name another directory")


def machine() -> dict[str, str]:
    """Name -> plain value: versions, the processor, and what kernels are compiled for.

    The processor counts with the kernels of the package as well: BLAS and NumPy choose their code by it.
    """
    features = ",".join(sorted(name for name, there in llvm.get_host_cpu_features().items() if there))
    manifest = shipped(SOURCES)
    return {
        "streammargin": __version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "processor": f"{llvm.get_host_cpu_name()} {hashlib.blake2b(features.encode(), digest_size=4).hexdigest()}",
        "kernels": "this processor" if manifest is None else manifest.processor,
    }


WRITING_TIME_SHARE = 0.02  # of the training's time, at most, is spent on writing checkpoints
HEADER: dict[str, type] = {"serial": int, "least_tol": float, "identity": dict, "marks": list, "progress": dict,
                           "history": dict, "numbers": dict}  # fmt: skip


class OtherTraining(Exception):
    """The directory holds a finished training with other options or data."""


class Checkpoint:
    """Writes the two slots alternately, so that one complete slot is always on disk.

    identity: what must be the same for a training to resume (name -> plain value); written: whether the state in which
    the run was interrupted is on disk; finished: whether the directory held a finished training; ended: whether its
    final state was loaded; replaced: whether this training replaced it.
    """

    def __init__(self, folder: str, seconds: float) -> None:
        """Create the directory and lock it, or raise OutputError."""
        self._slots = Slots(folder)
        self.folder: str = self._slots.folder
        self.seconds: float = seconds
        self.identity: dict[str, Any] = {}
        self.written: bool = False
        self.ended: bool = False
        self.finished: bool = False
        self.replaced: bool = False
        self._serial = 0  # of the newest slot
        self._next = SLOTS[0]
        self._marks: list[Any] = []  # of the slot that was loaded
        self._taken = ""
        self._told = True  # whether the listeners know of the training that goes on
        self._interval, self._last = seconds, time.monotonic()
        self._failed: str | None = None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *exc: object) -> None:
        self._slots.close()

    # resuming

    def least_tol(self) -> float:
        """The smallest tolerance of the saved training over all its runs, inf if there is none."""
        return min([math.inf, *self._slots.tolerances()])

    def resume(self, training: Runs, identity: dict[str, Any], run_start: dict[str, object], name: str | None) -> bool:
        """Restore the training from the newest slot; False if there is no slot.

        run_start: the event of this run, for listeners: its tolerance may differ from that of the log. name: of this
        training, for listeners.

        Raises OtherTraining if a finished training had another identity. For an unfinished one: UsageError if
        options differ, DataError if the data differ. DataError, too, if no slot is complete.
        """
        self.identity = json.loads(json.dumps(identity))
        if not self._slots.present():
            return False
        self._load(training)
        run = training.run
        self.ended = run.progress.phase == DONE
        self._told = False
        p = run.progress
        LOG.info("resuming from the checkpoint in %s, at pass %d", self.folder, p.number)
        run.history.progress(
            {"event": "resumed", "path": self.folder, "phase": p.phase, "pass": p.number, "block": p.position,
             "run_start": run_start, "job": name}
        )  # fmt: skip
        return True

    def _tell(self, history: History) -> None:
        """Let the listeners go on, once no row differs: a log must not lose the end of a training that is kept."""
        if self._told:
            return
        self._told = True
        for listener, mark in zip(history.listeners, self._marks, strict=False):
            if hasattr(listener, "go_on"):
                listener.go_on(mark, history.events)

    def replace(self, other: str) -> None:
        """Delete the slots of a finished training: another one begins."""
        self._slots.delete()
        self._taken, self._marks, self.ended, self.finished, self.replaced = "", [], False, False, True
        self._told = True
        warn(f"{self.folder} held a finished training, {other}: this training replaces it", "checkpoint")

    def _load(self, training: Runs) -> None:
        """Load the newest slot that is complete and fits, with a warning if it is not the newest of all."""
        run = training.run
        order, refused, self.finished = self._slots.in_order(run.limits.passes)
        for name in order:
            try:
                header, arrays = self._slots.read(name)
            except (OSError, ValueError) as error:
                refused.append(f"{self._slots.path(name)} is refused: {why(error)}")
                continue
            lowered = run.problem.asked < header["least_tol"]
            other = difference(header["identity"], self.identity, self.folder, lowered)
            if other is not None:
                raise OtherTraining(other.raw) if self.finished else other
            try:
                restore_runs(training, header, arrays)
            except StreamMarginError:  # of the data
                raise
            except ValueError as error:
                refused.append(f"{self._slots.path(name)} does not fit this training: {error}")
                continue
            self._serial, self._next = header["serial"], next(other for other in SLOTS if other != name)
            self._marks, self._taken = header["marks"], self._slots.path(name)
            for message in refused:
                warn(f"{message}; the other checkpoint file is used", "checkpoint")
            return
        raise DataError(f"{'; '.join(refused)}; delete {self.folder} to start from scratch")

    def contradicted(self, error: ArithmeticError) -> Exception:
        """The error for bounds that contradict each other; after a slot was loaded, its numbers are the cause."""
        if not self._taken:
            return error
        return DataError(f"the numbers in {self._taken} are wrong: {error}; delete {self.folder} to start from scratch")

    # writing

    def keep(self, training: Runs, reason: str | None) -> None:
        """Write a slot if one is due. Called between two blocks; reason: why the run will end, None if it continues.

        A training that ends by its passes needs a slot from before its end, to make more passes later. Any slot will
        do (`Slots.in_order`), so one is written here only if none exists.
        """
        if training.run.progress.phase == IDENTITY:  # no further than the slot that was loaded
            self.written = True
            return
        self._tell(training.run.history)
        self.finished = False
        none_before = reason == "passes" and not self._serial
        due = time.monotonic() - self._last >= self._interval
        if due or none_before or reason in ("signal", "seconds"):
            self.written = self._write(training)

    def finish(self, training: Runs) -> None:
        """Write the final slot; a training that was stopped early keeps the slot from before the stop."""
        self._tell(training.run.history)
        if not self.ended and training.run.progress.reason not in ("signal", "seconds"):
            self._write(training)

    def _write(self, training: Runs) -> bool:
        """Whether a slot was written; a failing disk is only a warning, once per message."""
        run = training.run
        started = time.perf_counter()
        path = self._slots.path(self._next)
        marks = [listener.mark() if hasattr(listener, "mark") else None for listener in run.history.listeners]
        plain, arrays = save_runs(training)
        plain |= {"serial": self._serial + 1, "identity": self.identity, "marks": marks}
        plain["least_tol"] = min(run.problem.asked, run.problem.least_tol)
        try:
            write_slot(path, plain, arrays)
        except OSError as error:
            message = f"no checkpoint could be written to {self.folder}: {short_reason(error)}"
            if message != self._failed:
                warn(f"{message}; the training continues", "checkpoint")
            self._failed, self._last = message, time.monotonic()
            return False
        self._serial, self._next = self._serial + 1, next(name for name in SLOTS if name != self._next)
        seconds = time.perf_counter() - started
        self._interval, self._last, self._failed = (
            max(self.seconds, seconds / WRITING_TIME_SHARE),
            time.monotonic(),
            None,
        )
        p = run.progress
        run.history.publish(
            {"event": "checkpoint", "pass": p.number, "block": p.position, "path": path, "seconds": seconds}
        )
        return True


class Slots:
    """The slots of a directory, by name."""

    def __init__(self, folder: str) -> None:
        """Create the directory and lock it. OutputError if that fails or another process holds the lock."""
        self.folder: str = os.path.abspath(folder)
        try:
            os.makedirs(self.folder, exist_ok=True)
            self._lock = os.open(self.path(LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except (OSError, RecursionError) as error:  # RecursionError: a path of thousands of parts
            reason = getattr(error, "strerror", "the path is too long")
            raise OutputError(f"cannot write checkpoints to {folder}: {reason}; name another one") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the lock ends with this process
        except OSError as error:
            self.close()
            raise OutputError(
                f"another process is training with the checkpoints in {folder}; wait for it, or name another directory"
            ) from error
        if is_foreign(part := self.path(PART_FILE)):
            self.close()
            raise OutputError(
                f"{part} was not written by a checkpoint, and would be replaced; move it, or name another directory"
            )

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def path(self, name: str) -> str:
        """The file of a slot."""
        return os.path.join(self.folder, name)

    def present(self) -> list[str]:
        """The slots that exist."""
        return [name for name in SLOTS if os.path.lexists(self.path(name))]

    def tolerances(self) -> Iterator[float]:
        """The smallest tolerance of each, over all runs of its training."""
        for name in SLOTS:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, OverflowError):
                yield float(read_plain(self.path(name))["least_tol"])

    def in_order(self, passes: int) -> tuple[list[str], list[str], bool]:
        """(the slots, newest first by their headers; why the others are refused; whether the newest is of an end).

        If a training ended because its passes were used up, and may make more now, the slot before its end comes first.
        """
        serials, ended, phases, refused = {}, {}, {}, []
        for name in self.present():
            try:
                plain = read_plain(self.path(name))
                serials[name], p = int(plain["serial"]), plain["progress"]
                phases[name] = p["phase"]
                ended[name] = p["reason"] == "passes" and p["number"] in range(passes)
            except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
                refused.append(f"{self.path(name)} is refused: {why(error)}")
        order = sorted(ended, key=lambda name: -serials[name])
        finished = bool(order) and phases[order[0]] == DONE
        return order[::-1] if order and ended[order[0]] else order, refused, finished

    def read(self, name: str) -> tuple[dict[str, Any], Arrays]:
        """Plain values and arrays of one. Raises ValueError if it is not whole; OSError."""
        header, arrays = read_slot(self.path(name))
        with contextlib.suppress(LookupError, TypeError):
            known = all(isinstance(header[key], kind) for key, kind in HEADER.items())
            if known and header["history"]["events"][0]["event"] == "run_start":
                return header, arrays
        raise ValueError("it was altered")

    def delete(self) -> None:
        """Delete them."""
        for name in SLOTS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path(name))


def why(error: Exception) -> str:
    """Why a slot cannot be read."""
    return short_reason(error) if isinstance(error, OSError) else str(error)
