"""Steps of a pipeline of scikit-learn that read dates, and numbers with marks and units, as tables write them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from sklearn import preprocessing
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline, make_union

from streammargin.errors import UsageError
from streammargin.model.exports.parts import LinearParts
from streammargin.sources.schema import Column
from streammargin.tables.dates import DATE_PARTS, DAY_FIRST, MONTH_FIRST, YEAR_FIRST
from streammargin.tables.spellings import COMMA, PAIRS, UNITS


def _cast(dtype: str) -> list[Any]:
    keys = {"kw_args": {"dtype": dtype}, "feature_names_out": "one-to-one"}
    return [preprocessing.FunctionTransformer(np.asarray, **keys)]


def _called(name: str, *values: Any, **options: Any) -> Any:
    """A step that calls this method of pandas."""
    return preprocessing.FunctionTransformer(operator.methodcaller(name, *values, **options))


def _of_pandas(column: Column, parts: LinearParts) -> None:
    if parts.schema is None or not parts.schema.named:
        raise UsageError(f"scikit-learn reads {column.kind}s written as {column.spelling} by pandas, and the column "
                         f"{column.name} has no name; train on a table with names")  # fmt: skip


def read(column: Column, parts: LinearParts) -> list[Any]:
    """The steps that make plain numbers of text in the spelling of the column; numbers stay as they are."""
    _of_pandas(column, parts)
    if column.spelling in PAIRS:
        yes, no = PAIRS[column.spelling]
        return [_called("replace", {f"^(?i:{yes})$": "1", f"^(?i:{no})$": "0"}, regex=True)]
    mark, _, unit = column.spelling.partition(" ")
    changes = [(UNITS[unit], "")] if unit else []
    changes += [(r"[ \u00a0\u2007\u2009\u202f'’" + (".]" if mark == COMMA else ",]"), ""), ("[\u2212\u2013]", "-")]
    changes += [(r"^\((.*)\)$", r"-\1"), (r"^(.*)-$", r"-\1"), *[(",", ".")] * (mark == COMMA)]
    return [_called("replace", f"(?i:{old})", new, regex=True) for old, new in changes]


_SPELT: dict[str, dict[str, Any]] = {
    YEAR_FIRST: {"format": "ISO8601"},
    DAY_FIRST: {"format": "mixed", "dayfirst": True},
    MONTH_FIRST: {"format": "mixed"},
}
_PLACES = {"month": ("dt.month", 1), "day of the week": ("dt.day_of_week", 0), "hour": ("dt.hour", 0)}  # and the first


def date(column: Column, parts: LinearParts, dtype: str) -> Any:
    """A date: the year, days, and a column for each month, day of the week and hour of the training; times are UTC."""
    import pandas as pd

    _of_pandas(column, parts)
    if column.spelling not in _SPELT or not column.first:
        raise UsageError(f"scikit-learn cannot read dates as those of {column.name} ({column.spelling}); write them as "
                         "2024-01-31")  # fmt: skip
    filled = lambda value: [] if column.fill is None else [SimpleImputer(strategy="constant", fill_value=value)]  # noqa: E731
    since = _called("__sub__", pd.Timestamp(column.first, tz="UTC"))
    get = lambda name: preprocessing.FunctionTransformer(operator.attrgetter(name))  # noqa: E731
    frame = _called("to_frame")
    plain = [frame, *_cast(dtype)]
    made = [make_pipeline(get("dt.year"), _called("__sub__", column.first_year), *plain, *filled(column.year)),
            make_pipeline(since, get("dt.days"), *plain, *filled(column.fill))]  # fmt: skip
    for part, (name, first) in _PLACES.items():
        if known := [float(k) for k, word in enumerate(DATE_PARTS[part], first) if word in column.words]:
            ways = {"categories": [known], "handle_unknown": "ignore", "sparse_output": False}
            made.append(make_pipeline(get(name), frame, *_cast("float64"), preprocessing.OneHotEncoder(**ways)))
    if column.indicator:
        made.append(make_pipeline(_called("isna"), *plain))
    known_dates = preprocessing.FunctionTransformer(pd.to_datetime, kw_args={"utc": True, **_SPELT[column.spelling]})
    return make_pipeline(_called("squeeze", axis="columns"), known_dates, make_union(*made))
