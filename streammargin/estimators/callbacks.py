"""Callbacks of scikit-learn 1.9 and later (SLEP023, experimental there): each pass of a fit is a task of theirs.

Older versions have none: `set_callbacks` is not offered then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin as Callbacks
    from sklearn.callback import with_callbacks
except ImportError:
    Method = TypeVar("Method", bound=Callable[..., Any])

    class Callbacks:  # type: ignore[no-redef]
        """No callbacks."""

    def with_callbacks(method: Method) -> Method:
        """The method as it is."""
        return method


class Passes:
    """A listener that makes a task of each pass, with the figures of its certificate, if it had one.

    asked: whether a callback has asked to stop.
    """

    def __init__(self, estimator: Any, context: Any) -> None:
        self._estimator, self._context = estimator, context
        self._task: Any = None  # of the last pass, which ends once the next event shows whether it was certified
        self._figures: dict[str, Any] = {}
        self.asked = False

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "pass_end":
            self.end()
            self._task = self._context.subcontext(task_name="pass").call_on_fit_task_begin(estimator=self._estimator)
            self._figures = {name: event[name] for name in ("pass", "rows", "mistakes", "estimate")}
        elif event["event"] == "certificate":
            self._figures |= {name: event[name] for name in ("primal", "dual", "gap", "margin_gap", "valid_error")}

    def end(self) -> None:
        """End the task of the last pass."""
        if self._task is not None:
            task, self._task = self._task, None
            self.asked |= bool(task.call_on_fit_task_end(estimator=self._estimator, metadata=self._figures))

    def stopped(self) -> str | None:
        """The reason to stop, for a training that asks."""
        return "signal" if self.asked else None


@contextmanager
def told_of_passes(estimator: Any) -> Iterator[Passes | None]:
    """The listener for an estimator's callbacks, if there can be some. `with_callbacks` decorates who uses it."""
    if not hasattr(estimator, "set_callbacks"):
        yield None
        return
    context = estimator._init_callback_context(max_subtasks=None)
    context.call_on_fit_task_begin(estimator=estimator)
    passes = Passes(estimator, context)
    yield passes
    passes.end()
    context.call_on_fit_task_end(estimator=estimator)
