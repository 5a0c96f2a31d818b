"""Check the free disk space before writing."""

from __future__ import annotations

import os
import shutil

from streammargin.errors import OutputError
from streammargin.sizes import format_size


def check_space(path: str, nbytes: int) -> None:
    """Raises OutputError if the disk of `path` has fewer than nbytes free."""
    folder = os.path.dirname(os.path.realpath(path))
    free = shutil.disk_usage(folder).free
    if nbytes > free:
        raise OutputError(
            f"{path} would take {format_size(nbytes)} and {folder} has {format_size(free)} free; free some space"
        )
