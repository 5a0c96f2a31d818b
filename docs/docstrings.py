"""Docstrings of the package, which are plain text, as reStructuredText: headings, lists of names, and paragraphs.

No character of a docstring is markup but a pair of backticks, so that none can break the build.
"""

from __future__ import annotations

import re
from itertools import takewhile

from formulas import typeset  # beside this file

from streammargin.losses import LOSSES
from streammargin.options.table import TABLE
from streammargin.penalties import PENALTIES

NAME = re.compile(r"^([\w*.]+(?:, [\w*.]+)*) : (.*)$")
TYPE = re.compile(r"^((.*, )?default .*|must be given)$")  # of an option: what follows on other lines is its help


def escaped(text: str) -> str:
    """Plain text, but for code in backticks."""
    parts = re.split(r"`+([^`]+)`+", text)
    plain = [re.sub(r"([\\*|_<>\[\]]|:(?=\S))", r"\\\1", part) for part in parts[::2]]
    code = [f"``{part.strip()}``" for part in parts[1::2]]
    text = plain[0]
    for inside, after in zip(code, plain[1:], strict=True):
        text += ("\\ " if re.search(r"\w$", text) else "") + inside + ("\\ " if re.match(r"\w", after) else "") + after
    return text


def item(lines: list[str]) -> list[str]:
    """A name and what it is, with the indented lines that follow it."""
    found = NAME.match(lines[0])
    assert found is not None
    first, rest = found[2].strip(), " ".join(line.strip() for line in lines[1:])
    body = [escaped(f"{first} {rest}")]
    if TYPE.match(first):
        body = [f"*{escaped(first)}*", "", escaped(rest)]
    elif rest[:1].isupper() and first[-1] not in ".,;":  # what it may be, and then a sentence
        body = [escaped(first), "", escaped(rest)]
    return [f"``{found[1]}``", *(f"    {line}" for line in body), ""]


def _themes(lines: list[str]) -> dict[str, str]:
    """The heading of each option in the help, if these lines describe options."""
    named = {found[1] for found in map(NAME.match, lines) if found}
    return {line.name: line.theme for line in TABLE} if len(named & {"solver", "penalty", "memory"}) > 1 else {}


def set_as_rst(lines: list[str]) -> list[str]:
    """The lines of a docstring, as reStructuredText."""
    out: list[str] = []
    theme, themes = "", _themes(lines)
    number = 0
    while number < len(lines):
        line, start = lines[number], number
        number += 1
        if not line.strip():
            continue
        if number < len(lines) and re.match(r"^-{3,}$", lines[number].strip()):
            out += [f".. rubric:: {line.strip()}", ""]
            number += 1
            continue
        named, indented = NAME.match(line), line.startswith(" ")
        while number < len(lines) and lines[number].strip():
            if not indented and NAME.match(lines[number]):
                break
            if lines[number].startswith(" ") != (bool(named) or indented):
                break  # a formula within a paragraph, or what follows it
            number += 1
        block = lines[start:number]
        if named:
            if themes.get(named[1], theme) != theme:
                theme = themes[named[1]]
                out += [f".. rubric:: {theme}", "   :heading-level: 4", ""]
            out += item(block)
        elif indented:
            out += [".. code-block:: none", "", *(f"    {line}" for line in block), ""]
        else:
            out += [escaped(" ".join(line.strip() for line in block)), ""]
    return out


def process(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """The lines of a docstring, as Sphinx has them; a loss or a penalty begins with its formula."""
    found = set_as_rst(lines)
    if any(obj is cls for cls in (*LOSSES.values(), *PENALTIES.values())):
        first = list(takewhile(str.strip, lines))
        found[0] = typeset(" ".join(line.strip() for line in first), escaped, ":math:`{}`")
    lines[:] = found
