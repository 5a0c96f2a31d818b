"""Formulas that docstrings write in plain text, for a page: `max(0, 1 - u)^2` becomes a formula of LaTeX."""

import re
from collections.abc import Callable

NAMES = r"(?:max|exp|log|sqrt|inf|x\.[wW]|width|delta|epsilon|quantile|[b-zA-Z](?:_[gj])?)\b"
BRACKETS = rf"\((?:{NAMES}|[-\d., |/+]|\([^()]*\))+\)"
TOKEN = rf"(?:\|\|[^|]+\|\|(?:_\w)?|\|[^|]+\||\b{NAMES}|\b\d+\b|{BRACKETS}|<=|[-+/=^])"
RUN = re.compile(rf"(?<![\w'-])({TOKEN}(?: ?{TOKEN})*)(?![\w-])")
LATEX = [
    (r"\|\|([^|]+)\|\|", r"\\lVert \1 \\rVert"),
    (r"\|([^|]+)\|", r"\\lvert \1 \\rvert"),
    (r"sqrt\(([^()]*)\)", r"\\sqrt{\1}"),
    (r"\.", r" \\cdot "),
    (r"<=", r"\\le "),
    (r"\b(max|exp|log|delta|epsilon)\b", r"\\\1 "),
    (r"\binf\b", r"\\infty "),
    (r"\b(width|quantile)\b", r"\\mathrm{\1}"),
]


def typeset(text: str, escape: Callable[[str], str], mark: str = "${}$") -> str:
    """The text, escaped, with a mark around each of its formulas."""
    pieces = RUN.split(text)
    return "".join(_formula(piece, mark) if number % 2 else escape(piece) for number, piece in enumerate(pieces))


def _formula(run: str, mark: str) -> str:
    if run.isdigit() or (run.isalpha() and len(run) > 1):
        return run  # a number or a name alone belongs to the sentence
    for plain, latex in LATEX:
        run = re.sub(plain, latex, run)
    return mark.format(run.strip())
