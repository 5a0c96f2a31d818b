"""Compile and cache every kernel for every kind of rows."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pkgutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from types import ModuleType

from numba.core import config

from streammargin import compiled as kernels
from streammargin.compiled.folders import HOME, inside, prepare
from streammargin.compiled.samples import samples

PROCESSES = 2  # processes, as the compiler holds a lock that serialises threads


def warmup(report: Callable[[str], None] = lambda what: None, to: str | None = None) -> None:
    """Run every kernel once on two rows of each kind; `report` is called with a line after each file of kernels.

    to: the cache, in place of NUMBA_CACHE_DIR. Raises OSError if it cannot be written, or others may write it.
    """
    if to is not None:
        prepare(inside(os.path.abspath(to), str(HOME)))
    names = [found.name for found in pkgutil.iter_modules(kernels.__path__)]
    names = [name for name in names if hasattr(_file(name), "warm")]
    kinds = [sample.kind for sample in samples()]
    spawned = multiprocessing.get_context("spawn")  # a fork of a process with threads may deadlock
    with ProcessPoolExecutor(PROCESSES, mp_context=spawned, initializer=_cache_in, initargs=(to,)) as workers:
        jobs = {workers.submit(_warm, name, kind): (name, kind) for name in names for kind in range(len(kinds))}
        for number, job in enumerate(as_completed(jobs), 1):
            job.result()
            name, kind = jobs[job]
            report(f"{number} of {len(jobs)}: {name} for {kinds[kind]} rows")


def _cache_in(to: str | None) -> None:
    """Set the cache of this process, which has loaded no kernel yet."""
    if to is not None:
        config.CACHE_DIR = os.path.abspath(to)


def _file(name: str) -> ModuleType:
    return importlib.import_module(f"{kernels.__name__}.{name}")


def _warm(name: str, kind: int) -> None:
    _file(name).warm(list(samples())[kind])
