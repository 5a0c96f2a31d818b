"""The words of losses and penalties in a saved model, read without the engine."""

from __future__ import annotations

import contextlib
import re
from typing import Any

GROUPED = ("group", "sparse_group", "exclusive")
APART = ("top", "low", "high", "radius", "power")  # fields of which formulas know nothing


def spelled(word: str) -> tuple[str, Any, dict[str, float]]:
    """(name, last number that a formula takes, all fields by name) of a saved word."""
    name, _, rest = word.partition(":")
    if name in GROUPED:  # the name of a file comes first, which may look like fields
        rest = re.split(r",(?=l1_ratio=[^,]*(?:,power=[^,]*)?$)", rest)[-1] if name != "exclusive" else ""
    found = {key: float(text) for key, text in re.findall(r",(?:(\w+)=)?(-?inf|[\d.e+-]+)(?=,|$)", f",{rest}")}
    return name, ([None] + [found[key] for key in found if key not in APART])[-1], found


def column_of(word: str) -> str | None:
    """The column that the word of a loss names in place of a number, None for a number."""
    name, _, text = word.partition(":")
    if name != "interpolate":
        return None
    with contextlib.suppress(ValueError):
        float(text)
        return None
    return text
