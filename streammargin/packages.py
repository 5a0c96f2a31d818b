"""Entry points of installed packages, which add words and file formats."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from streammargin.errors import UsageError
from streammargin.wording import one_line


def loaded(point: metadata.EntryPoint) -> Any:
    """What an entry point names. Raises UsageError where importing it fails."""
    try:
        return point.load()
    except Exception as error:
        raise UsageError(
            f"the entry point {point.name} of {point.group} cannot be loaded: {point.value} raises "
            f"{type(error).__name__} ({one_line(str(error))}); mend its package, or uninstall it"
        ) from error
