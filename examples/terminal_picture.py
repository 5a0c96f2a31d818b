"""A picture of the program at work on a terminal: what a training shows while it runs, and what stays.

    python -m examples.terminal_picture [FILE.svg]

Makes the data of README's run, and trains on them beside a terminal of 80 columns. Draws the command, the last progress
line of a pass, and the lines that stay. The default FILE is docs/pictures/work.svg.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import textwrap
from html import escape
from pathlib import Path

COLUMNS, LINE, CHARACTER = 80, 22, 8.43  # of the terminal; pixels of a line and a character
GENERATE = "--size 128M --sparse --features 32768 --nonzeros 64 --noise 0.05"
TRAIN = "train clicks.h5 -o clicks.npz -c 0.1 --memory 48M --loss hinge"
COLORS = (("converged", "#3fb950"), ("[", "#58a6ff"))  # of lines that have these


def shown(command: list[str], folder: str) -> str:
    """What a command writes to a terminal of so many columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    running = subprocess.Popen(command, cwd=folder, env=environment, stdout=follower, stderr=follower)
    os.close(follower)
    text = b""
    while True:
        try:
            text += os.read(leader, 65536)
        except OSError:  # the command has ended
            break
    os.close(leader)
    if running.wait():
        raise RuntimeError(text.decode())
    return text.decode()


def lines_of(text: str) -> list[str]:
    """The lines that stay, and before the verdict the last progress line of a pass."""
    kept = []
    for line in text.replace("\r\n", "\n").split("\n"):
        *passing, last = re.split(r"\r\x1b\[K", line)
        kept += [one for one in passing if one.startswith("pass")][-1:] if last.startswith("converged") else []
        kept += [last] if last and not last.startswith(("reading", "compiling")) else []
    return kept


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "pictures" / "work.svg")
    python = [sys.executable, "-m"]
    with tempfile.TemporaryDirectory() as folder:
        data = [*python, "streammargin.data_tools", "generate", "clicks.h5", *GENERATE.split(), "-q"]
        subprocess.run(data, cwd=folder, check=True)
        train = [*python, "streammargin", *TRAIN.split(), "--force"]
        shown(train, folder)  # compiles
        told = lines_of(shown(train, folder))
    lines = [f"$ streammargin {TRAIN}", *told]
    whole = {"subsequent_indent": "    ", "replace_whitespace": False, "drop_whitespace": False}
    lines = [part for line in lines for part in textwrap.wrap(line, COLUMNS, **whole)]
    width, height = COLUMNS * CHARACTER + 32, LINE * len(lines) + 52
    drawn = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">',
             f"<title>{escape(' '.join(lines[0].split()))}</title>",
             f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#0d1117"/>',
             *(f'<circle cx="{20 + 18 * k}" cy="18" r="5" fill="#484f58"/>' for k in range(3))]  # fmt: skip
    for number, line in enumerate(lines):
        color = next((color for mark, color in COLORS if mark in line), "#e6edf3" if number else "#ffa657")
        place = f'x="16" y="{50 + LINE * number}" fill="{color}" textLength="{len(line) * CHARACTER:.1f}"'
        drawn.append(f'<text {place} font-family="monospace" font-size="14" xml:space="preserve">{escape(line)}</text>')
    target.write_text("\n".join([*drawn, "</svg>", ""]))


if __name__ == "__main__":
    main()
