"""Penalties R(w) of the weights. A new penalty is one new file here.

A penalty file defines subclasses of `Penalty` (base.py says what each method means; `norms.py` is a model), and
PENALTIES, a table from the name on the command line to the Maker of it.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from streammargin.errors import UsageError
from streammargin.penalties.base import Given, Maker, Penalty

DEFAULT = "lp"


def _load() -> dict[str, Maker]:
    table: dict[str, Maker] = {}
    for module in pkgutil.iter_modules(__path__):
        table.update(getattr(importlib.import_module(f"{__name__}.{module.name}"), "PENALTIES", {}))
    return dict(sorted(table.items(), key=lambda line: line[0] != DEFAULT))


PENALTIES = _load()


def make_penalty(name: str, given: Given) -> Penalty:
    """The penalty of this name, of as many weights as there are groups, or of any number.

    Raises UsageError for what it needs and was not given, or has no use for.
    """
    maker = PENALTIES[name]
    for option, value, default in zip(Given._fields, given, Given(), strict=True):
        if option not in maker.takes and not _same(value, default):
            raise UsageError(f"`penalty={name}` has no use for `{option}`; leave it out")
    if given.groups is None and "groups" in maker.takes:
        raise UsageError(f"`penalty={name}` needs to know which columns belong together; name them with `groups`")
    return maker.make(given)


def _same(value: Any, default: Any) -> bool:
    return value is None if default is None else bool(value == default)
