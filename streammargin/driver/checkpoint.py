"""The checkpoint directory from which a killed training resumes: two slots, locked by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import math
import os
import time
from typing import Any

from streammargin.driver.events import History
from streammargin.driver.progress import DONE, IDENTITY
from streammargin.driver.runs import Runs
from streammargin.driver.slots import LOCK, PART, SLOTS, Arrays, is_foreign, read_plain, read_slot, write_slot
from streammargin.errors import DataError, OutputError, StreamMarginError, UsageError
from streammargin.files import short_reason

LOG = logging.getLogger("streammargin")
HEADER: dict[str, type] = {"serial": int, "least_tol": float, "identity": dict, "marks": list, "progress": dict,
                           "history": dict, "numbers": dict}  # fmt: skip
PLAN = "block bounds"  # of the identity
# of the identity, of what is read
SIZES, TEXTS = ("rows", "features"), ("labels", "epsilons", "held-out labels", "names of columns", "first weights")
OPTIONAL = {"held-out labels": ("held-out data", "valid"), "first weights": ("a model to begin from", "init")}
SHARE = 0.02  # of the training's time, at most, is spent on writing checkpoints


class OtherTraining(Exception):
    """The directory holds a finished training with other options or data."""


class Checkpoint:
    """Writes the two slots alternately, so that one complete slot is always on disk.

    identity: what must be the same for a training to resume (name -> plain value); written: whether the state in which
    the run was interrupted is on disk; finished: whether the directory held a finished training; ended: whether its
    final state was loaded; replaced: whether this training replaced it.
    """

    finished: bool
    written: bool
    folder: str
    seconds: float
    ended: bool
    replaced: bool

    def __init__(self, folder: str, seconds: float) -> None:
        """Create the directory and lock it. OutputError where that fails or another process holds the lock."""
        self.folder, self.seconds = os.path.abspath(folder), seconds
        try:
            os.makedirs(self.folder, exist_ok=True)
            self._lock = os.open(os.path.join(self.folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except (OSError, RecursionError) as error:  # RecursionError: a path of thousands of parts
            reason = getattr(error, "strerror", "the path is too long")
            raise OutputError(f"cannot write checkpoints to {folder}: {reason}; name another one") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the lock ends with this process
        except OSError as error:
            os.close(self._lock)
            raise OutputError(
                f"another process is training with the checkpoints in {folder}; wait for it, or name another directory"
            ) from error
        if is_foreign(part := self._path(PART)):
            self.close()
            raise OutputError(
                f"{part} was not written by a checkpoint, and would be replaced; move it, or name another directory"
            )
        self.identity: dict[str, Any] = {}
        self.written = self.ended = self.finished = self.replaced = False
        self._serial = 0  # of the newest slot
        self._next = SLOTS[0]
        self._marks: list[Any] = []  # of the slot that was loaded
        self._taken = ""
        self._told = True  # whether the listeners know of the training that goes on
        self._interval, self._last = seconds, time.monotonic()
        self._failed: str | None = None

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # resuming

    def least_tol(self) -> float:
        """The smallest tolerance of the saved training over all its runs, inf where there is none."""
        known = [math.inf]
        for name in SLOTS:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, OverflowError):
                known.append(float(read_plain(self._path(name))["least_tol"]))
        return min(known)

    def resume(self, training: Runs, identity: dict[str, Any], run_start: dict[str, object], name: str | None) -> bool:
        """Restore the training from the newest slot; False where there is no slot.

        run_start: the event of this run, for listeners: its tolerance may differ from that of the log. name: of this
        training, for listeners.

        Raises OtherTraining where a finished training had another identity. For an unfinished one: UsageError where
        options differ, DataError where the data differ. DataError, too, where no slot is complete.
        """
        self.identity = json.loads(json.dumps(identity))
        present = [name for name in SLOTS if os.path.lexists(os.path.join(self.folder, name))]
        if not present:
            return False
        self._load(training, present)
        run = training.run
        self.ended = run.progress.phase == DONE
        self._told = False
        p = run.progress
        LOG.info("going on from the checkpoint in %s, at pass %d", self.folder, p.number)
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

    def replace(self, why: str) -> None:
        """Delete the slots of a finished training: another one begins."""
        for name in SLOTS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(name))
        self._taken, self._marks, self.ended, self.finished, self.replaced = "", [], False, False, True
        self._told = True
        LOG.warning("%s held a finished training, %s: this training replaces it", self.folder, why,
                    extra={"code": "checkpoint"})  # fmt: skip

    def _load(self, training: Runs, present: list[str]) -> None:
        """Load the newest slot that is complete and fits, with a warning where it is not the newest of all."""
        refused: list[str] = []
        run = training.run
        for name in self._in_order(present, run.limits.passes, refused):
            try:
                header, arrays = self._read(name)
            except (OSError, ValueError) as error:
                refused.append(f"{self._path(name)} is refused: {_why(error)}")
                continue
            other = self._compare(header["identity"], run.problem.asked < header["least_tol"])
            if other is not None:
                raise OtherTraining(other.raw) if self.finished else other
            try:
                training.restore(header, arrays)
            except StreamMarginError:  # of the data
                raise
            except ValueError as error:
                refused.append(f"{self._path(name)} does not fit this training: {error}")
                continue
            self._serial, self._next = header["serial"], next(other for other in SLOTS if other != name)
            self._marks, self._taken = header["marks"], self._path(name)
            for message in refused:
                LOG.warning("%s; the other slot is used", message, extra={"code": "checkpoint"})
            return
        raise DataError(f"{'; '.join(refused)}; delete {self.folder} to start from scratch")

    def _in_order(self, present: list[str], passes: int, refused: list[str]) -> list[str]:
        """The slots, newest first by their headers; slots with a bad header are added to `refused`.

        A training that ended because its passes were used up, and may make more now, resumes from the slot before its
        end: that one comes first.
        """
        serials, ended, phases = {}, {}, {}
        for name in present:
            try:
                plain = read_plain(self._path(name))
                serials[name], p = int(plain["serial"]), plain["progress"]
                phases[name] = p["phase"]
                ended[name] = p["reason"] == "passes" and p["number"] in range(passes)
            except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
                refused.append(f"{self._path(name)} is refused: {_why(error)}")
        order = sorted(ended, key=lambda name: -serials[name])
        self.finished = bool(order) and phases[order[0]] == DONE
        return order[::-1] if order and ended[order[0]] else order

    def contradicted(self, error: ArithmeticError) -> Exception:
        """The error for bounds that contradict each other; after a slot was loaded, its numbers are the cause."""
        if not self._taken:
            return error
        return DataError(f"the numbers in {self._taken} are wrong: {error}; delete {self.folder} to start from scratch")

    def _read(self, name: str) -> tuple[dict[str, Any], Arrays]:
        header, arrays = read_slot(self._path(name))
        with contextlib.suppress(LookupError, TypeError):
            known = all(isinstance(header[key], kind) for key, kind in HEADER.items())
            if known and header["history"]["events"][0]["event"] == "run_start":
                return header, arrays
        raise ValueError("it was altered")

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _compare(self, saved: dict[str, Any], lowered: bool) -> StreamMarginError | None:
        """The error for the first item in which the saved identity differs; None where both are equal."""

        # causes before effects: the data's size decides the solver of `auto`, and all options decide the blocks
        def rank(name: str) -> tuple[Any, ...]:
            return name == PLAN, name in TEXTS, name not in SIZES, name != "solver", name

        for name in sorted(saved.keys() | self.identity.keys(), key=rank):
            if name == PLAN and lowered:  # a smaller tol may need float64 vectors, which leave fewer bytes for blocks
                continue
            then, now = saved.get(name), self.identity.get(name)
            if then != now:
                return self._differs(name, then, now)
        return None

    def _differs(self, name: str, then: Any, now: Any) -> StreamMarginError:
        """The error for an unfinished training that differs from this one in `name`."""
        if name in SIZES or (name in TEXTS and (name not in OPTIONAL or None not in (then, now))):
            which = f"{now} {name}, not the {then}" if name in SIZES else f"other {name} than those"
            have = "the model of `init` has" if name == "first weights" else "the data have"
            return DataError(
                f"{have} {which} of the unfinished training in {self.folder}; put them back as they were, "
                "delete the directory, or name another"
            )
        if name in OPTIONAL:
            what, mend = OPTIONAL[name]
            differ = f"without {what}; leave out `{mend}`" if then is None else f"with {what}; name it with `{mend}`"
        else:
            differ = f"with {name} {then!r}, not {now!r}; use {then!r} again"
        return UsageError(f"{self.folder} holds an unfinished training {differ}, delete it, or name another directory")

    # writing

    def keep(self, training: Runs, reason: str | None) -> None:
        """Write a slot if one is due. Called between two blocks; reason: why the run will end, None if it continues.

        A training that ends by its passes needs a slot from before its end, to make more passes later. Any slot will
        do (`_in_order`), so one is written here only where none exists.
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
        path = self._path(self._next)
        marks = [listener.mark() if hasattr(listener, "mark") else None for listener in run.history.listeners]
        plain, arrays = training.save()
        plain |= {"serial": self._serial + 1, "identity": self.identity, "marks": marks}
        plain["least_tol"] = min(run.problem.asked, run.problem.least_tol)
        try:
            write_slot(path, plain, arrays)
        except OSError as error:
            message = f"no checkpoint could be written to {self.folder}: {short_reason(error)}"
            if message != self._failed:
                LOG.warning("%s; the training goes on", message, extra={"code": "checkpoint"})
            self._failed, self._last = message, time.monotonic()
            return False
        self._serial, self._next = self._serial + 1, next(name for name in SLOTS if name != self._next)
        seconds = time.perf_counter() - started
        self._interval, self._last, self._failed = max(self.seconds, seconds / SHARE), time.monotonic(), None
        p = run.progress
        run.history.publish(
            {"event": "checkpoint", "pass": p.number, "block": p.position, "path": path, "seconds": seconds}
        )
        return True


def _why(error: Exception) -> str:
    return short_reason(error) if isinstance(error, OSError) else str(error)
