"""What a report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Facts:
    """What a page is made of.

    model: a `streammargin.model.base.Model`; name: its file. events: those of its log, or none. judged: the figures of
    `Model.evaluate`, and of `wrong_rows`, on the rows `tested`, or None; training: whether these are the training rows.
    given: options by name that header and log do not have, for the command.
    """

    model: Any
    name: str = ""
    events: Sequence[Mapping[str, Any]] = ()
    tested: str = ""
    judged: Mapping[str, Any] | None = None
    training: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def header(self) -> Mapping[str, Any]:
        """The header of the model."""
        header: Mapping[str, Any] = self.model.header
        return header

    @property
    def labels(self) -> list[str]:
        """The classes as text."""
        return [str(label) for label in self.model.classes_.tolist()]

    @property
    def start(self) -> Mapping[str, Any]:
        """The event of the beginning; {} without a log."""
        return next((one for one in self.events if one["event"] == "run_start"), {})
