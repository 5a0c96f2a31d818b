"""Parse and format memory sizes such as 512M."""

from __future__ import annotations

import re
from typing import SupportsFloat, SupportsIndex

from streammargin.errors import UsageError
from streammargin.wording import shown

LARGEST_SIZE = 1 << 60  # in bytes
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: object, what: str = "size") -> int:
    """Bytes of "512M", "1G", "1.5GiB" or a plain number; what: its name in the UsageError for anything else."""
    if isinstance(text, str):
        number: int | float
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
        if not match:
            raise UsageError(f"{what} must be a number of bytes or like 512M or 2G, not {shown(text)}")
        number, unit = float(match[1]), _UNITS[match[2].upper()]
    else:
        try:
            if not isinstance(text, (SupportsFloat, SupportsIndex)):
                raise TypeError
            number, unit = float(text), 1
        except (TypeError, ValueError, ArithmeticError):
            raise UsageError(f"{what} must be a number of bytes or like 512M or 2G, not {shown(text)}") from None
    if not 1 <= number * unit < LARGEST_SIZE:  # false for nan too
        raise UsageError(f"{what} must be positive and less than {format_size(LARGEST_SIZE)}, not {shown(text)}")
    return int(number * unit)


def format_size(size: float) -> str:
    """A size as text: 17M, 1.5G."""
    for unit in ("", "K", "M", "G", "T"):
        if size < 1024 or unit == "T":
            return f"{size:.3g}{unit}" if unit and size < 999.5 else f"{size:.0f}{unit}"  # never 1e+03K
        size /= 1024
    raise AssertionError
