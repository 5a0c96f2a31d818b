"""The page: a sentence, the first figures, and the cards; and its short form for notebooks."""

from __future__ import annotations

import numpy as np

from streammargin.report.cards import cards
from streammargin.report.columns import rankings
from streammargin.report.facts import Facts
from streammargin.report.style import STYLE
from streammargin.report.text import escaped, number
from streammargin.report.verdict import tiles, verdict

BRIEF = 6  # columns of the ranking in a notebook


def page(of: Facts) -> str:
    """The page as HTML, which needs no other file and runs no script."""
    name = of.name or of.start.get("data", {}).get("path") or "model"
    title = f"Report on {escaped(name)}"
    version = of.start.get("version")
    made = f"Made by streammargin {escaped(version)}" if version else "Made by streammargin"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title>'
        f'<style>body{{margin:0}}{STYLE}</style></head><body class="smr"><main><h1>{title}</h1>'
        f'<p class="sub">{_subtitle(of)}</p>{_head(of)}<div class="cards">{"".join(cards(of))}</div>'
        f"<footer>{made}. All figures are from the model, its log and the rows that are named.</footer>"
        "</main></body></html>\n"
    )


def brief(of: Facts) -> str:
    """The short form, for a notebook: the sentence, the first figures, and the columns that matter most."""
    top = "".join(rankings(of, BRIEF, 1))
    shown = f'<div class="card">{top}</div>' if top else ""
    return f'<div class="smr"><style>{STYLE}</style><div style="padding:12px">{_head(of)}{shown}</div></div>'


def _subtitle(of: Facts) -> str:
    header, model = of.header, of.model
    what = "regression" if model.numeric else f"{len(of.labels)} classes"
    rows = "" if header.get("rows") is None else f"{number(header['rows'])} rows × "
    words = [f"{name} {escaped(header[name])}" for name in ("loss", "penalty", "kernel", "map") if header.get(name)]
    return " · ".join([f"{rows}{number(model.answer.features)} columns", what, *words])


def _head(of: Facts) -> str:
    proven, head, why = verdict(of.header)
    coef = getattr(of.model, "coef_", None)
    used = None if coef is None else (int(np.any(coef != 0.0, axis=0).sum()), coef.shape[1])
    return (
        f'<div class="verdict{"" if proven else " no"}"><b>{head}</b>{why}</div>'
        f'<div class="tiles">{tiles(of.header, of.judged, of.tested, used)}</div>'
    )
