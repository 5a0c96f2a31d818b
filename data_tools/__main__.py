"""python -m streammargin.data_tools, the command streammargin-data. Handles signals before importing anything else."""
# PYTHON_ARGCOMPLETE_OK: argcomplete looks for this mark

from __future__ import annotations

import sys

from streammargin.__main__ import started


def main() -> int:
    """Run the command; returns the exit code."""
    return started("streammargin-data", "streammargin.data_tools.main")


if __name__ == "__main__":
    sys.exit(main())
