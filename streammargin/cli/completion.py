"""Completion in the shell, by argcomplete: verbs, options, and values that are one of a list, as names of losses."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Callable, Collection

from streammargin.cli.options import Parser
from streammargin.kinds import Kind
from streammargin.options.table import TABLE
from streammargin.words import Worded


def complete(verbs: Collection[str], parser_of: Callable[[str | None], Parser]) -> None:
    """Answer the shell, and end the process."""
    import argcomplete  # of the extra `completion`

    typed = os.environ["COMP_LINE"].split()
    verb = next((word for word in typed[1:2] if word in verbs), None)
    parser = parser_of(verb)
    for action in parser.verbs[verb]._actions if verb else ():
        names = _names(verb or "", action)
        if names:
            action.completer = functools.partial(_offered, names)  # type: ignore[attr-defined]  # of argcomplete
    argcomplete.autocomplete(parser, always_complete_options="long")


def _offered(names: list[str], **asked: object) -> list[str]:
    """All names: argcomplete keeps those that begin as the text that was typed."""
    return names


def _names(verb: str, action: argparse.Action) -> list[str]:
    """The values that an option may have, or the names that follow `losses`, `penalties` and `solvers`."""
    kinds: dict[str, Kind] = {line.name: line.kind for line in TABLE}
    kinds |= {"losses": kinds["loss"], "penalties": kinds["penalty"], "solvers": kinds["solver"]}
    kind = kinds.get(verb if action.dest == "name" else action.dest)
    return kind.family.words if isinstance(kind, Worded) else list(kind.choices or ()) if kind else []
