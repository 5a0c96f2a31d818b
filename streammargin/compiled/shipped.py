"""Kernels that come with the package, compiled before: one folder for each Python, system and kind of processor.

A wheel may have them, a checkout has none; examples/ship_kernels.py makes them. The manifest of a folder says what they
were compiled from, by which Numba, and what a processor must have. They are taken if all of that fits. Otherwise
kernels are compiled, and one line of the log says why.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numba
from llvmlite import binding
from numba.core import config

from streammargin.compiled.folders import HOME, check

LOG = logging.getLogger("streammargin")
OBJECTS = HOME / "objects"
MANIFEST = "kernels.json"
SWITCH = "STREAMMARGIN_SHIPPED"  # 0: none is taken
# settings of Numba that make other kernels, and are not in its keys
SETTINGS: dict[str, Any] = {
    "CPU_NAME": None,
    "CPU_FEATURES": None,
    "BOUNDSCHECK": None,
    "DEBUGINFO_DEFAULT": 0,
    "ENABLE_AVX": True,
}
SETTINGS |= {"OPT": 3, "LOOP_VECTORIZE": 1}


class Manifest(NamedTuple):
    """A list of compiled kernels: for which machine, from which sources (a digest), and the files with their SHA-256.

    linkable: the files with code that other kernels can link. The rest would only make them larger.
    """

    numba: str
    processor: str
    features: list[str]
    sources: str
    objects: dict[str, str]
    linkable: list[str]


def place() -> str:
    """The name of the folder for this Python on this system."""
    return f"{sys.implementation.cache_tag}{sys.abiflags}-{sys.platform}-{os.uname().machine}"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder. Raises OSError or ValueError."""
    check(folder)
    check(folder / MANIFEST)
    try:
        found = Manifest(**json.loads((folder / MANIFEST).read_bytes()))
        kinds = [str, str, list, str, dict, list]
        if not all(isinstance(value, kind) for value, kind in zip(found, kinds, strict=True)):
            raise TypeError("a value of another kind")
    except TypeError as error:
        raise ValueError(f"{folder / MANIFEST} is damaged ({error})") from None
    return found


def misfit(manifest: Manifest, sources: str) -> str:
    """Why these kernels are not for this process; empty if they are."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH} is 0"
    if manifest.numba != numba.__version__:
        return f"they are for Numba {manifest.numba}, and this is {numba.__version__}"
    if manifest.sources != sources:
        return "the sources of the package were changed"
    for name, usual in SETTINGS.items():
        if getattr(config, name) != usual:
            return f"NUMBA_{name.removesuffix('_DEFAULT')} is set"
    has = binding.get_host_cpu_features()
    if lacking := [name for name in manifest.features if not has.get(name)]:
        return f"they are for {manifest.processor}, and this processor lacks {' '.join(lacking)}"
    return ""


@functools.cache
def shipped(sources: str) -> Manifest | None:
    """The kernels that came with the package for this process, or None; the log says why they are not taken."""
    folder = OBJECTS / place()
    if not folder.is_dir():
        return None
    try:
        manifest = read_manifest(folder)
        why = misfit(manifest, sources)
    except (OSError, ValueError) as error:
        manifest, why = None, str(error)
    if why:
        LOG.info("kernels are compiled, and those of the package are not taken: %s", why)
        return None
    return manifest


def name_of(function: Any, signature: Any, bytecode: tuple[str, ...]) -> str:
    """The name of the file with the kernel of a function for these types."""
    told = repr((function.__module__, function.__qualname__, signature, bytecode))
    return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-{_digest(told.encode())[:16]}"


def load(name: str, sources: str) -> bytes | None:
    """The kernel of this name, or None; the log says which one is damaged."""
    manifest = shipped(sources)
    if manifest is None or name not in manifest.objects:
        return None
    path = OBJECTS / place() / name
    try:
        check(path)
        data = path.read_bytes()
    except OSError as error:
        LOG.info("a kernel of the package cannot be read (%s)", error)
        return None
    if _digest(data) != manifest.objects[name]:
        LOG.info("the kernel %s of the package is damaged; it is compiled", name)
        return None
    return data


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
