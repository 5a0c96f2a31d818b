"""Tasks of a cluster that are asked for and waited for: workers may be lost, and the scheduler may end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from distributed import Client, Future

from streammargin.errors import ReadWriteError

MOMENT = 0.25  # seconds between two looks at signals and the clock, while workers read
LOOKS = 30.0  # seconds without an answer before the scheduler is asked whether it still knows of the tasks
GATHER = 20.0  # seconds for an answer to come from its worker, at first; longer each time that it does not
NOBODY = 300.0  # seconds to wait for a worker if there is none
FAILURES = 20  # of tasks in one round, before it ends


class Round:
    """The tasks of a round, each with what it was asked for."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.asked: dict[Future, Any] = {}
        self._arrived = threading.Event()
        self._patience = GATHER
        self._last = self._peopled = time.monotonic()  # when the last answer came, and when there was a worker
        self._doubted: set[Any] = set()  # keys of tasks that the scheduler did not know a while ago
        self._failures = 0

    def close(self) -> None:
        """Cancel tasks without an answer. Their callbacks would keep them until the client ends."""
        for future in self.asked:
            future.release()
        time.sleep(MOMENT if self.asked else 0.0)  # a process that ends before that was done prints tracebacks

    def workers(self) -> list[str]:
        """The addresses of the workers, in the order of their names, which a worker keeps that starts anew."""
        self._check()
        try:
            found = self._told("identity")["workers"]
        except Exception:  # the scheduler may be ending: looked at again in a moment
            return []
        now = time.monotonic()
        if found:
            self._peopled = now
        elif now - self._peopled > NOBODY:
            raise ReadWriteError(
                f"the dask cluster has had no worker for {NOBODY:.0f} seconds; start some with: dask worker SCHEDULER"
            )
        return sorted(found, key=lambda address: (str(found[address].get("name")), address))

    def _told(self, what: str, **given: Any) -> Any:
        """The scheduler's answer to this question."""
        return self.client.sync(getattr(self.client.scheduler, what), callback_timeout=GATHER, **given)

    def _check(self) -> None:
        """Raise ReadWriteError if the client has lost its scheduler, and has given up."""
        if self.client.status in ("closed", "closing"):
            raise ReadWriteError("the scheduler of the dask cluster ended, or its client was closed; start it again")

    def put(self, future: Future, what: Any) -> None:
        """Wait for this task, too."""
        future.add_done_callback(lambda _: self._arrived.set())
        self.asked[future] = what

    def failed(self, error: Exception, during: str) -> None:
        """Count a task that ended without an answer. Raises ReadWriteError for too many."""
        self._failures += 1
        if self._failures > FAILURES:
            raise ReadWriteError(
                f"{self._failures} tasks ended without an answer while the workers {during}, the last one by "
                f"{type(error).__name__}: {error}; read the logs of the workers, and check that each has more memory "
                "than `memory`"
            )

    def answers(self) -> Iterator[tuple[Any, Any]]:
        """(what was asked for, the answer, or the exception in its place) of what has come; waits for a moment."""
        self._arrived.wait(MOMENT)
        self._arrived.clear()
        self._check()
        for future in list(self.asked):
            if future.status not in ("finished", "error", "cancelled"):  # "lost": the scheduler has it done again
                continue
            try:
                answer: Any = future.result(timeout=self._patience)
            except TimeoutError:  # its worker is ending, or the network is slow
                self._patience *= 2.0
                continue
            except Exception as error:
                answer = error
            self._last = time.monotonic()
            yield self.asked.pop(future), answer
        if self.asked and time.monotonic() - self._last > LOOKS:
            yield from self._forgotten()

    def _forgotten(self) -> Iterator[tuple[Any, Any]]:
        """Tasks that no worker has had for a while, as when messages were lost. One at work is never asked again."""
        self._last = time.monotonic()
        self.workers()  # there may be none any more
        with contextlib.suppress(Exception):
            held = self._told("processing", workers=None)
            keys = {key for some in held.values() for key in some}
            idle = {future for future in self.asked if future.key not in keys and future.status == "pending"}
            for future in [one for one in idle if one.key in self._doubted and held]:
                yield self.asked.pop(future), TimeoutError("no worker has the task any more")
            self._doubted = {future.key for future in idle}
