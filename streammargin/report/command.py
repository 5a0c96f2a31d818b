"""The command that trains a model again, from its header and the log."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from streammargin.options.table import Line, Where, options_for

Event = Mapping[str, Any]
ORDERS = ("day-first", "month-first")  # values of the option dates


def repeated(header: Mapping[str, Any], events: Sequence[Event], given: Mapping[str, Any], model: str) -> str | None:
    """The command, or None if no log or option tells what the data are.

    given: options by name that neither log nor header has, such as data, valid and sample_weight.
    """
    start: Event = next((one for one in events if one["event"] == "run_start"), {})
    data = given.get("data") or [start["data"]["path"]] if start or given.get("data") else None
    if data is None:
        return None
    params = {**header, **start.get("params", {})}
    several = isinstance(params.get("C"), (list, tuple)) or str(params.get("C")).startswith("path")
    if several and given.get("valid") is None and given.get("cv") is None:
        params["C"] = header["C"]  # without rows to choose by, that of the model alone
    elif isinstance(params.get("C"), list):
        params["C"] = list(dict.fromkeys(params["C"]))  # which each fold repeats
    if start.get("solver"):
        params["solver"] = "auto"  # which chose it
    names = {**((header.get("problem") or {}).get("names") or {}), **_of_table(header.get("table"))}
    words = ["streammargin", "train", *data]
    for line in options_for(Where.SHELL):
        value = given.get(line.name, names.get(line.name, params.get(line.name)))
        words += _words(line, value)
    return shlex.join([*words, *(["-o", model] if model else [])])


def _of_table(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options that read a table as the schema of a model does; the schema has no columns that were left out."""
    if schema is None:
        return {}
    columns: list[Mapping[str, Any]] = schema["columns"]
    of = {kind: [one for one in columns if one.get("kind") == kind] for kind in ("category", "date", "text")}
    orders = {one["spelling"] for one in of["date"]} & set(ORDERS)
    found: dict[str, Any] = {
        "y": list(schema["labels"]), "sample_weight": schema.get("weight"), "missing": _missing(columns),
        "dates": min(orders, default=True) if of["date"] else None,
    }  # fmt: skip
    if schema["named"]:
        found["columns"] = [one["name"] for one in columns]
        found["categorical"] = [one["name"] for one in of["category"]]
        found["text"] = [f"{one['name']},ngrams={one.get('ngrams', 1)}" for one in of["text"]]
    return {name: value for name, value in found.items() if value}


def _missing(columns: Sequence[Mapping[str, Any]]) -> str | None:
    """The value of `missing` that fills gaps of these columns as the schema does."""
    if any(one.get("indicator") for one in columns):
        return "indicator"
    if any(one.get("fill") or one.get("year") for one in columns):
        return "mean"
    return "zero" if any("fill" in one for one in columns) else None


def _words(line: Line, value: Any) -> list[str]:
    """An option as the shell has it; nothing for its default."""
    if value is None or value is False or str(value) == str(line.default) or value == line.default:
        return []
    flag = f"--{line.name.replace('_', '-')}"
    return [flag] if value is True else [flag, spelt(value)]


def spelt(value: Any) -> str:
    """A value as text that the option reads."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={spelt(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(spelt, value))
    return f"{value:.17g}" if isinstance(value, float) and float(f"{value:g}") != value else _number(value)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
