"""The command streammargin, and python -m streammargin: catches signals before anything else is imported."""
# PYTHON_ARGCOMPLETE_OK: argcomplete looks for this mark

from __future__ import annotations

import sys
from importlib import import_module


def main() -> int:
    """Run the command; returns the exit code."""
    return started("streammargin", "streammargin.cli.main")


def started(program: str, module: str) -> int:
    """Run the function `main` of this module."""
    try:
        from streammargin.cli.entry import guarded
    except KeyboardInterrupt:
        sys.stderr.write(f"{program}: interrupted\n")
        return 130
    return guarded(program, lambda: import_module(module).main)


if __name__ == "__main__":
    sys.exit(main())
