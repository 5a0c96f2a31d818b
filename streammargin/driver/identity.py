"""Facts that must be the same for a training to resume, name -> plain value, and the error if one differs."""

from __future__ import annotations

import hashlib
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np

from streammargin.compiled.cache import SOURCES
from streammargin.compiled.shipped import shipped
from streammargin.errors import DataError, StreamMarginError, UsageError
from streammargin.version import __version__

PLAN = "block bounds"
# of what is read
SIZES, TEXTS = ("rows", "features"), ("labels", "epsilons", "held-out labels", "names of columns", "first weights")
WIDENS = ("map", "kernel")  # a map decides the features, and either may decide the solver and the blocks
OPTIONAL = {"held-out labels": ("held-out data", "valid"), "first weights": ("a model to begin from", "init")}


def difference(saved: dict[str, Any], known: dict[str, Any], folder: str, lowered: bool) -> StreamMarginError | None:
    """The error for the first item in which the training saved in a folder differs from this one; None for none.

    lowered: whether the tolerance is smaller now.
    """

    # causes before effects: the data's size decides the solver of `auto`, and all options decide the blocks
    def rank(name: str) -> tuple[Any, ...]:
        return name == PLAN, name in TEXTS, name not in WIDENS, name not in SIZES, name != "solver", name

    for name in sorted(saved.keys() | known.keys(), key=rank):
        if name == PLAN and lowered:  # a smaller tol may need float64 vectors, which leave fewer bytes for blocks
            continue
        then, now = saved.get(name), known.get(name)
        if then != now:
            return _differs(name, then, now, folder)
    return None


def _differs(name: str, then: Any, now: Any, folder: str) -> StreamMarginError:
    """The error for an unfinished training that differs from this one in `name`."""
    if name in SIZES or (name in TEXTS and (name not in OPTIONAL or None not in (then, now))):
        which = f"{now} {name}, not the {then}" if name in SIZES else f"other {name} than those"
        have = "the model of `init` has" if name == "first weights" else "the data have"
        return DataError(
            f"{have} {which} of the unfinished training in {folder}; put them back as they were, "
            "delete the directory, or name another"
        )
    if name in OPTIONAL:
        what, hint = OPTIONAL[name]
        differ = f"without {what}; leave out `{hint}`" if then is None else f"with {what}; name it with `{hint}`"
    else:
        differ = f"with {name} {then!r}, not {now!r}; use {then!r} again"
    return UsageError(f"{folder} holds an unfinished training {differ}, delete it, or name another directory")


def machine() -> dict[str, str]:
    """Name -> plain value: versions, the processor, and what kernels are compiled for.

    The processor counts with the kernels of the package as well: BLAS and NumPy choose their code by it.
    """
    features = ",".join(sorted(name for name, there in llvm.get_host_cpu_features().items() if there))
    manifest = shipped(SOURCES)
    return {
        "streammargin": __version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "processor": f"{llvm.get_host_cpu_name()} {hashlib.blake2b(features.encode(), digest_size=4).hexdigest()}",
        "kernels": "this processor" if manifest is None else manifest.processor,
    }
