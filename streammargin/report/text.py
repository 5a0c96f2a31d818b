"""HTML of text, numbers and tables. Whatever a file or a user may have named is escaped here."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

from streammargin.wording import printable

LEAST = 1e-6  # a share that is not spelled
LONGEST = 28  # characters of a name beside a chart


def escaped(text: object) -> str:
    """Text that is safe in HTML, in attributes too; what steers or reorders text is shown as its code."""
    return html.escape(printable(str(text)))


def cut(text: object, most: int = LONGEST) -> str:
    """Text of at most so many characters, as in `escaped`."""
    plain = printable(str(text))
    return html.escape(plain if len(plain) <= most else f"{plain[: most - 1]}…")


def number(value: float | None, digits: int = 4) -> str:
    """A number to so many significant digits, as people read it; a dash for none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    size = abs(value)
    if size and not 1e-4 <= size < 1e6:
        return f"{value:.{max(0, digits - 2)}e}".replace("-", "−")
    places = max(0, digits - 1 - (math.floor(math.log10(size)) if size else 0))
    text = f"{value:,.{places}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")


def percent(value: float | None) -> str:
    """A share of 1 in percent; a dash for none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{number(100.0 * value, 3)} %" if value == 0.0 or abs(value) >= LEAST else "less than 0.0001 %"


def seconds(value: float | None) -> str:
    """A duration."""
    if value is None:
        return "–"
    minutes, rest = divmod(value, 60.0)
    return f"{number(value, 2)} s" if value < 60.0 else f"{minutes:.0f} min {rest:.0f} s"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells are HTML."""
    cells = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def listed(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of names and values, which are HTML."""
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in pairs) + "</dl>"


def card(title: str, note: str, *parts: str, wide: bool = False) -> str:
    """A part of the page: a question, a sentence, and the answer in HTML; "" if there is no answer."""
    body = "".join(parts)
    told = f'<p class="note">{note}</p>' if note else ""
    return f'<section class="card{" whole" * wide}"><h2>{title}</h2>{told}{body}</section>' if body or note else ""
