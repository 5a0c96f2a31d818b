"""Compiles and caches every kernel for every kind of rows it may meet."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from streammargin import kernels
from streammargin.kernels.samples import samples


def warmup(report: Callable[[str], None] = lambda what: None) -> None:
    """Run every kernel once on two rows; report is told what comes next."""
    names = [found.name for found in pkgutil.iter_modules(kernels.__path__)]
    files = {name: importlib.import_module(f"{kernels.__name__}.{name}") for name in names}
    for sample in samples():
        for name, file in files.items():
            if hasattr(file, "warm"):
                report(f"{sample.kind}: {name}")
                file.warm(sample)
