"""python -m streammargin.data_tools, the command streammargin-data. Handles signals before importing anything else."""

from __future__ import annotations

import sys
from collections.abc import Callable


def main() -> int:
    """Run the command; returns the exit code."""
    try:
        from streammargin.cli.entry import guarded
    except KeyboardInterrupt:
        sys.stderr.write("streammargin-data: interrupted\n")
        return 130
    return guarded("streammargin-data", _load)


def _load() -> Callable[[], int]:
    from streammargin.data_tools.main import main

    return main


if __name__ == "__main__":
    sys.exit(main())
