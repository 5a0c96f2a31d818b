"""Convert values for JSON: NumPy numbers to numbers, infinity to the text "inf", NaN to null."""

from __future__ import annotations

import math
from typing import Any


def to_plain(value: Any) -> Any:
    """`value` as dicts, lists, text, booleans, None and finite numbers only."""
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def from_plain(value: Any) -> Any:
    """Turn "inf" and "-inf" back into floats."""
    if isinstance(value, dict):
        return {key: from_plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    return float(value) if isinstance(value, str) and value in ("inf", "-inf") else value
