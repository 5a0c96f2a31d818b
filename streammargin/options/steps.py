"""Values of the options `transform` and `scale`: several words, and a scale that may clip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from streammargin.errors import UsageError
from streammargin.kinds import Kind, Word, read_number
from streammargin.transforms import FAMILY, Transform
from streammargin.wording import shown
from streammargin.words import Thing

CLIP = "std:clip="
SCALES = Word(("none", "maxabs", "std", "auto", f"{CLIP}10"))


@dataclass(frozen=True)
class StepWords(Kind):
    """Words of `transform` in their order, objects, or a list of both."""

    metavar: str = "STEP[,STEP]"

    def check(self, what: str, value: object) -> tuple[Transform, ...]:
        given = _words(value) if isinstance(value, str) else value
        if isinstance(given, Thing) or not isinstance(given, Sequence):
            given = [given]
        if not given:
            raise UsageError(f"{what} names no step; leave it out, or give some, as total:10000,log1p")
        return tuple(FAMILY.of(one) for one in given)


def _words(text: str) -> list[str]:
    """The words of a text; a comma before KEY=VALUE is within a word."""
    words: list[str] = []
    for piece in text.split(","):
        if words and "=" in piece.partition(":")[0]:
            words[-1] += f",{piece}"
        else:
            words.append(piece)
    return words


@dataclass(frozen=True)
class Scale(Kind):
    """One of SCALES, with any positive number in place of the 10."""

    metavar: str = "none|maxabs|std[:clip=A]|auto"
    choices: Sequence[str] = SCALES.choices

    def check(self, what: str, value: object) -> str:
        if isinstance(value, str) and value.startswith(CLIP):
            clip = read_number(value.removeprefix(CLIP))
            if not 0.0 < clip < math.inf:
                raise UsageError(f"clip of {what} must be a positive number, not {shown(clip)}")
            return f"{CLIP}{clip:g}" if float(f"{clip:g}") == clip else f"{CLIP}{clip!r}"
        SCALES.check(what, value)
        return str(value)


def parts_of(scale: str) -> tuple[str, float]:
    """The kind of a scale that was checked, and the largest absolute value that it leaves, inf for any."""
    kind, _, clip = scale.partition(":clip=")
    return kind, float(clip or math.inf)
