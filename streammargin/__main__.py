"""The command streammargin, and python -m streammargin: catches signals before anything else is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable


def main() -> int:
    """Run the command; returns the exit code."""
    try:
        from streammargin.cli.entry import guarded
    except KeyboardInterrupt:
        sys.stderr.write("streammargin: interrupted\n")
        return 130
    return guarded("streammargin", _load)


def _load() -> Callable[[], int]:
    from streammargin.cli.main import main

    return main


if __name__ == "__main__":
    sys.exit(main())
