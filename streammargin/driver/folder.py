"""The directory of a checkpoint: its two slots, locked by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import Any

from streammargin.driver.progress import DONE
from streammargin.driver.slots import LOCK, PART, SLOTS, Arrays, is_foreign, read_plain, read_slot
from streammargin.errors import OutputError
from streammargin.files import short_reason

HEADER: dict[str, type] = {"serial": int, "least_tol": float, "identity": dict, "marks": list, "progress": dict,
                           "history": dict, "numbers": dict}  # fmt: skip


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
        if is_foreign(part := self.path(PART)):
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

        A training that ended because its passes were used up, and may make more now, resumes from the slot before its
        end: that one comes first.
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
