"""HTML of text, numbers and tables. Whatever a file or a user may have named is escaped here."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence

from streammargin.wording import printable

LEAST_SPELLED_SHARE = 1e-6  # a share that is not spelled
LONGEST_CHART_NAME = 28  # characters of a name beside a chart


def escaped(text: object) -> str:
    """Text that is safe in HTML, in attributes too; what steers or reorders text is shown as its code."""
    return html.escape(printable(str(text)))


def cut(text: object, most: int = LONGEST_CHART_NAME, then: Callable[[str], str] = str) -> str:
    """Text of at most so many characters, as in `escaped`; then: what is done to it afterwards, such as quotes."""
    plain = printable(str(text))
    return html.escape(then(plain if len(plain) <= most else f"{plain[: most - 1]}…"))


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


def rows_told(count: int) -> str:
    """A number of rows, with the noun."""
    return f"{number(count)} row{'s' * (count != 1)}"


def percent(value: float | None) -> str:
    """A share of 1 in percent; a dash for none."""
    if value is None or not math.isfinite(value):
        return "–"
    return (
        f"{number(100.0 * value, 3)} %" if value == 0.0 or abs(value) >= LEAST_SPELLED_SHARE else "less than 0.0001 %"
    )


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


COLOURS = ("fg", "dim", "bg", "card", "line", "a", "b", "c", "ok", "okbg", "no", "nobg")
LIGHT = ("#1b2330", "#5d6b7e", "#f4f6f9", "#ffffff", "#e2e7ee", "#2563c9", "#d4610c", "#0f8a6d", "#0b6b4a", "#e3f5ec",
         "#8f3a08", "#fdeee0")  # fmt: skip
DARK = ("#e7ebf2", "#9aa7b8", "#0f1319", "#181e27", "#2a3341", "#74aaff", "#ff9f59", "#5bd6b0", "#7ce8bb", "#10291f",
        "#ffbd8a", "#33200f")  # fmt: skip

_RULES = """
.smr{font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;color:var(--fg);
background:var(--bg);-webkit-text-size-adjust:100%}
.smr *{box-sizing:border-box}
.smr main{max-width:1080px;margin:0 auto;padding:32px 20px 56px}
.smr h1{font-size:26px;line-height:1.25;letter-spacing:-.015em;margin:0 0 4px;font-weight:650;overflow-wrap:anywhere}
.smr h2{font-size:17px;letter-spacing:-.01em;margin:0 0 2px;font-weight:620}
.smr h3{font-size:14px;margin:16px 0 4px;font-weight:600}
.smr .card>h3:first-child{margin-top:0}
.smr .sub{color:var(--dim);margin:0 0 20px;overflow-wrap:anywhere}
.smr .note{color:var(--dim);font-size:13.5px;margin:0 0 12px}
.smr .verdict{border-radius:12px;padding:14px 18px;margin:0 0 16px;background:var(--okbg);color:var(--ok)}
.smr .verdict.no{background:var(--nobg);color:var(--no)}
.smr .verdict b{font-size:17px;display:block;font-weight:650}
.smr .tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(132px,1fr));gap:12px;margin:0 0 16px}
.smr .tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:11px 14px}
.smr .tile b{display:block;font-size:21px;line-height:1.3;letter-spacing:-.015em;font-weight:620;
font-variant-numeric:tabular-nums}
.smr .tile span{color:var(--dim);font-size:13px}
.smr .tile small{display:block;font-size:14px;font-weight:400;letter-spacing:0}
.smr dd small{font-size:inherit;white-space:nowrap}
.smr .cards{columns:2 440px;column-gap:16px}
.smr .card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:16px 18px;margin:0 0 16px;
break-inside:avoid}
.smr .whole{column-span:all;margin-top:16px}
.smr svg{width:100%;max-width:560px;height:auto;display:block;overflow:visible}
.smr svg text{fill:var(--dim);font-size:12px;font-family:inherit}
.smr svg .t{fill:var(--fg)}.smr svg .s{font-size:10.5px}
.smr svg .l{stroke:var(--line);stroke-width:1}
.smr svg .la{stroke:var(--a)}.smr svg .lb{stroke:var(--b)}.smr svg .lc{stroke:var(--c)}
.smr svg .fa{fill:var(--a)}.smr svg .fb{fill:var(--b)}.smr svg .fc{fill:var(--c)}.smr svg .fl{fill:var(--line)}
.smr .key{font-size:13px;color:var(--dim);margin:0 0 6px;display:flex;flex-wrap:wrap;gap:2px 16px}
.smr .key i{display:inline-block;width:16px;height:3px;border-radius:2px;margin-right:6px;vertical-align:middle}
.smr .key .a{background:var(--a)}.smr .key .b{background:var(--b)}.smr .key .c{background:var(--c)}
.smr .wide{overflow-x:auto}
.smr table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums;margin:0;border:0}
.smr td,.smr th{padding:5px 8px;text-align:right;border:0;border-bottom:1px solid var(--line);font-weight:400;
white-space:nowrap;background:none;color:inherit}
.smr th{color:var(--dim);font-size:12.5px}
.smr td:first-child,.smr th:first-child{text-align:left;padding-left:0}
.smr tr.best td{font-weight:650}
.smr dl{display:grid;grid-template-columns:fit-content(65%) 1fr;gap:4px 16px;margin:0;font-size:14px}
.smr h2+dl{margin-top:8px}
.smr dt{color:var(--dim);margin:0}.smr dd{margin:0;overflow-wrap:anywhere}
.smr details{border-top:1px solid var(--line);padding:8px 0 4px}
.smr summary{cursor:pointer;font-size:14px;font-weight:560}
.smr pre{background:var(--bg);border:1px solid var(--line);border-radius:8px;padding:10px 12px;margin:6px 0 10px;
font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere;
color:inherit}
.smr footer{color:var(--dim);font-size:13px;margin:24px 0 0}
@media(max-width:560px){.smr main{padding:20px 12px 40px}.smr h1{font-size:22px}.smr .card{padding:14px 12px}
.smr .tiles{grid-template-columns:1fr 1fr;gap:8px}.smr .tile b{font-size:18px}
.smr svg text{font-size:13.5px}.smr svg .s{font-size:12px}.smr td,.smr th{padding:5px 0 5px 10px}
.smr th{white-space:normal;vertical-align:bottom}}
"""


def _set(colours: tuple[str, ...]) -> str:
    return ".smr{" + ";".join(f"--{name}:{value}" for name, value in zip(COLOURS, colours, strict=True)) + "}"


STYLE = f"{_set(LIGHT)}@media(prefers-color-scheme:dark){{{_set(DARK)}}}{_RULES}".replace("\n", "")
