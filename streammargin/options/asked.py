"""The options of a training, checked before anything is read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence

from streammargin.options.table import TABLE, Options

MAY_CHANGE = {"passes", "max_seconds", "tol"}  # between two runs of one training


def asked_digest(options: Options, data: Sequence[str]) -> str:
    """A digest of the options that make a training this one, and of its files' names without their folders.

    Other digests are other trainings. Equal ones may differ in what the files hold. data: the paths of the rows.
    """
    told = {name: value for name, value in options.plain().items() if name not in MAY_CHANGE}
    named = {line.name: getattr(options, line.name) for line in TABLE if line.theme == "data"}
    files = {name: os.path.basename(value) for name, value in named.items() if isinstance(value, (str, os.PathLike))}
    return digest_of([told, files, [os.path.basename(path) for path in data]])


def digest_of(value: object) -> str:
    """The digest of plain values."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
