"""Rows of several tasks, for a model that has weights for each task."""

from __future__ import annotations

from streammargin.sources.base import Slices, Source
from streammargin.sources.view import View


class Tasked(View):
    """The rows of a source with the numbers of their tasks among those of a model."""

    def __init__(self, source: Source, tasks: Slices) -> None:
        super().__init__(source)
        self.tasks = tasks
