"""Spell options in messages: `tol` or `scale=maxabs` in backquotes becomes a flag in the shell, a keyword in Python."""

from __future__ import annotations

import difflib
import logging
import re
import shlex
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

LOG = logging.getLogger("streammargin")
# lower `tol` -> lower --tol, lower tol; use `scale=maxabs` -> use --scale maxabs, use scale="maxabs"
_OPTION = re.compile(r"`([A-Za-z]\w*)(?:=([^`]*))?`")
_JOINERS = "\u200c\u200d"
LONGEST_SHOWN_TEXT = 60  # characters of a value, a label or a name in a message
SHOWN_PARTS = 20  # of a list
MOST_COMPARED = 1000  # names: to compare with more takes long
_PYTHON_VALUES = {"inf": "math.inf", "True": "True", "False": "False", "None": "None"}


def in_shell(text: str) -> str:
    """The text with its options as flags."""

    def spell(found: re.Match[str]) -> str:
        flag, value = found[1].replace("_", "-"), found[2]
        if value in (None, "True"):
            return f"--{flag}"
        if value == "False":
            return f"--no-{flag}"
        # a shell interprets `;` and `|`; a placeholder [...] stays
        return f"--{flag} {value if value.startswith('[') else shlex.quote(value)}"

    return _OPTION.sub(spell, text)


def in_python(text: str) -> str:
    """The text with its options as keyword arguments; a comma parts those between which there is a blank."""

    def spell(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if value is None:
            return name
        return f"{name}={_PYTHON_VALUES.get(value) or _quoted(value)}"

    return _OPTION.sub(spell, text.replace("` `", "`, `"))


def _quoted(value: str) -> str:
    if value.startswith("["):
        return value
    try:
        float(value)
    except ValueError:
        return f'"{value}"'
    return value


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 pass, 2 passes."""
    plural = f"{noun[:-1]}ies" if noun.endswith("ry") else noun + ("es" if noun.endswith("s") else "s")
    return f"{number} {noun if number == 1 else plural}"


class Message:
    """A log message with options in backquotes; str() spells them as in Python."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return in_python(self.text)

    @property
    def in_shell(self) -> str:
        """The text with its options as flags."""
        return in_shell(self.text)


HEARD: ContextVar[list[tuple[str, str]]] = ContextVar("HEARD")  # (text, code; "" of a note), for who says it again


def _hear(text: str, code: str) -> None:
    if (heard := HEARD.get(None)) is not None:
        heard.append((text, code))


def warn(text: str, code: str = "library") -> None:
    """Log a warning, with options in backquotes; code: of its event."""
    _hear(text, code)
    LOG.warning(Message(text), extra={"code": code}, stacklevel=2)


def note(text: str, again: bool = True) -> None:
    """Log what a table or a spool says of itself, with options in backquotes. again: whether it is heard."""
    if again:
        _hear(text, "")
    LOG.info(Message(text), stacklevel=2)


watchers: list[Callable[[str], object]] = []  # of the command: show how far a long read or write is


def how_far(text: str) -> None:
    """Tell whoever watches how far a long read or write is."""
    for watch in watchers:
        watch(text)


def one_line(text: str) -> str:
    """Text with line ends and other control characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text
    )


def printable(text: str) -> str:
    """A message for a terminal: also what reorders or hides text is escaped. Joiners of scripts and signs stay."""
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) == "Cf" and c not in _JOINERS else c
        for c in one_line(text)
    )


def shortened(parts: Sequence[str], cut: Callable[[str], str] | None = None) -> str:
    """The first of these for a terminal, and how many there are. cut: None for names, which get quotes as in lists."""
    more = f", ... ({len(parts)} in all)" if len(parts) > SHOWN_PARTS else ""
    return ", ".join(printable((cut or in_list)(part)) for part in parts[:SHOWN_PARTS]) + more


def joined(names: Sequence[str]) -> str:
    """Names as the value of an option, whole, as a command is copied."""
    return ",".join(map(one_line, dict.fromkeys(names)))


def short(name: object) -> str:
    """A label, a category or a name for a message, on one line and shortened; two quotes for an empty one."""
    return _cut(one_line(str(name))) or "''"


def in_list(name: object) -> str:
    """The same for a list with commas, in quotes if the name has one."""
    return f'"{short(name)}"' if "," in str(name) else short(name)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN_TEXT else f"{text[:LONGEST_SHOWN_TEXT]}..."


def nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str:
    """The known name that is most like another one, in any case of letters; "" if none is as much `alike`, 0 to 1.

    A folder that both are in, as layers/ of layers/counts, does not count.
    """
    found, low = {str(one).lower(): str(one) for one in known}, name.lower()
    above = low[: low.rfind("/") + 1]
    beside = {one.removeprefix(above): found[one] for one in found if one.startswith(above)} or found
    low = low if beside is found else low.removeprefix(above)
    return next((beside[one] for one in difflib.get_close_matches(low, beside, 1, alike)), "")


def meant(name: str, known: Collection[str]) -> str:
    """The question whether the nearest of a few names was meant, in front of the list of all; "" if none is like it."""
    near = nearest(name, known) if len(known) <= MOST_COMPARED else ""
    return f"did you mean {short(near)}? " if near else ""


class _Told(str):
    """A text that is its own repr."""

    __repr__ = str.__str__


def _plain(value: Any) -> Any:
    """Numbers of NumPy as those of Python, whose repr is 0.0 instead of np.float64(0.0); arrays by their shapes."""
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {_plain(key): _plain(one) for key, one in value.items()}
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        kind = type(value).__name__
        return _Told(f"{'an array' if kind == 'ndarray' else f'a {kind}'} of shape {shape}")
    return value.item() if shape == () and not hasattr(value, "mask") else value  # a masked value has no number


def shown(value: Any) -> str:
    """The repr of a value for a message, on one line and shortened; never the numbers of an array."""
    try:
        text = one_line(repr(_plain(value)))
    except Exception:  # a user's object, or an integer of thousands of digits
        text = ""
    if not text or ("array(" in text and not isinstance(value, str)):
        text = f"a value of the type {type(value).__name__}"
    if isinstance(value, str) and len(text) > LONGEST_SHOWN_TEXT:
        return f"{text[: LONGEST_SHOWN_TEXT - 1]}...{text[-1]}"  # its quote
    return _cut(text)


def brief(thing: object, **facts: object) -> str:
    """The repr of an object, on one line: its class, and the facts that are not None, numbers to four digits."""
    told = {name: f"{value:.4g}" if isinstance(value, float) else shown(value)
            for name, value in facts.items() if value is not None}  # fmt: skip
    return f"{type(thing).__name__}({', '.join(f'{name}={value}' for name, value in told.items())})"
