"""How a model reads a table, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from streammargin.sources.schema import CATEGORY, DATE, OTHER, TEXT, Column, Schema
from streammargin.wording import counted, printable, shortened

SHOWN = 100  # columns


def table_lines(schema: Schema) -> Iterator[str]:
    """The columns of a table, one a line: what they hold, and what stands for their gaps."""
    labels = f"labels in {shortened(schema.labels)}" if schema.labels else "no labels"
    yield f"{counted(len(schema.columns), 'column')}, {labels}, read as {schema.dtype}:"
    for column in islice(schema.columns, SHOWN):
        name = column.name if schema.named else f"column {column.name}"
        yield f"  {printable(name)}: {'; '.join(filter(None, (_values(column), _gaps(column))))}"
    if len(schema.columns) > SHOWN:
        yield f"  ... ({len(schema.columns)} in all)"


def _values(column: Column) -> str:
    if column.kind == TEXT:
        return "text" + (f", sequences of up to {column.ngrams} words" if column.ngrams > 1 else "")
    if column.kind == CATEGORY:
        words = counted(len(column.words), "category")
        return f"{words} ({shortened(column.words)})" + (f", all others are {OTHER}" if column.other else "")
    if column.kind == DATE:
        since = f", days since {column.first}" if column.first else ""
        return f"dates ({column.spelling}){since}, and {counted(len(column.words), 'part')} ({shortened(column.words)})"
    return f"numbers ({column.spelling})" if column.spelling else "numbers"


def _gaps(column: Column) -> str:
    if column.fill is None:
        return ""
    filled = "zeros if missing" if column.kind in (CATEGORY, DATE) else f"{column.fill:.6g} if missing"
    if column.first:
        filled = f"day {column.fill:.6g} if missing"
    return filled + (", with a column of its own" if column.indicator else "")
