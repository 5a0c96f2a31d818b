"""The style of the page and of the short form; all rules are within `.smr`, as notebooks have styles of their own."""

from __future__ import annotations

NAMES = ("fg", "dim", "bg", "card", "line", "a", "b", "c", "ok", "okbg", "no", "nobg")
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
.smr .sub{color:var(--dim);margin:0 0 20px;overflow-wrap:anywhere}
.smr .note{color:var(--dim);font-size:13.5px;margin:0 0 12px}
.smr .verdict{border-radius:12px;padding:14px 18px;margin:0 0 16px;background:var(--okbg);color:var(--ok)}
.smr .verdict.no{background:var(--nobg);color:var(--no)}
.smr .verdict b{font-size:17px;display:block;font-weight:650}
.smr .tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;margin:0 0 16px}
.smr .tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:11px 14px}
.smr .tile b{display:block;font-size:21px;line-height:1.3;letter-spacing:-.015em;font-weight:620;
font-variant-numeric:tabular-nums}
.smr .tile span{color:var(--dim);font-size:13px}
.smr .cards{columns:2 440px;column-gap:16px}
.smr .card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:16px 18px;margin:0 0 16px;
break-inside:avoid}
.smr .whole{column-span:all;margin-top:16px}
.smr svg{width:100%;height:auto;display:block;overflow:visible}
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
.smr dl{display:grid;grid-template-columns:minmax(90px,max-content) 1fr;gap:4px 16px;margin:0;font-size:14px}
.smr dt{color:var(--dim);margin:0}.smr dd{margin:0;overflow-wrap:anywhere}
.smr details{border-top:1px solid var(--line);padding:8px 0 4px}
.smr summary{cursor:pointer;font-size:14px;font-weight:560}
.smr pre{background:var(--bg);border:1px solid var(--line);border-radius:8px;padding:10px 12px;margin:6px 0 10px;
font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere;
color:inherit}
.smr footer{color:var(--dim);font-size:13px;margin:24px 0 0}
@media(max-width:560px){.smr main{padding:20px 12px 40px}.smr h1{font-size:22px}.smr .card{padding:14px 12px}
.smr .tiles{grid-template-columns:1fr 1fr;gap:8px}.smr .tile b{font-size:18px}
.smr svg text{font-size:13.5px}.smr svg .s{font-size:12px}}
"""


def _set(colours: tuple[str, ...]) -> str:
    return ".smr{" + ";".join(f"--{name}:{value}" for name, value in zip(NAMES, colours, strict=True)) + "}"


STYLE = f"{_set(LIGHT)}@media(prefers-color-scheme:dark){{{_set(DARK)}}}{_RULES}".replace("\n", "")
