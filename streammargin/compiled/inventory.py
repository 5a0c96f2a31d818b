"""The kernels that are compiled already: those that come with the package, and those that are cached."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from streammargin import compiled as package
from streammargin.compiled import shipped
from streammargin.compiled.cache import SOURCES, Cache
from streammargin.compiled.folders import HOME, folders
from streammargin.compiled.jit import CompiledKernel


def kernels() -> list[CompiledKernel]:
    """All kernels of the package."""
    modules = [importlib.import_module(f"{package.__name__}.{one.name}") for one in pkgutil.iter_modules([str(HOME)])]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, CompiledKernel)]
    return list({id(kernel): kernel for kernel in found}.values())


def name_of(kernel: CompiledKernel) -> str:
    """File and function, as in the names of shipped kernels."""
    return f"{kernel.py_func.__module__.rpartition('.')[2]}.{kernel.py_func.__qualname__}"


def inventory() -> dict[str, Any]:
    """Plain values: `shipped` by Python and system, `cached` by folder, and the functions with `missing` kernels."""
    cached: dict[str, int] = {}
    known = set()
    for kernel in kernels():
        if isinstance(kernel._cache, Cache):
            target = kernel.targetctx.codegen().magic_tuple()
            for folder, keys in kernel._cache.keys().items():
                here = [key for key in keys if key[1] == target]
                cached[folder] = cached.get(folder, 0) + len(here)
                known |= {name_of(kernel)} if here else set()
    manifest = shipped.shipped(SOURCES)
    known |= {name.rpartition("-")[0] for name in manifest.objects} if manifest is not None else set()
    return {
        "shipped": _shipped(),
        "cached": [{"folder": folder, "kernels": number} for folder, number in cached.items()],
        "written": folders(str(HOME)).written,
        "missing": sorted(name_of(kernel) for kernel in kernels() if name_of(kernel) not in known),
    }


def _shipped() -> list[dict[str, Any]]:
    """The kernels that come with the package, by Python and system; `unused`: why they are not taken here."""
    found = []
    for folder in sorted(shipped.OBJECTS.iterdir()) if shipped.OBJECTS.is_dir() else ():
        try:
            manifest = shipped.read_manifest(folder)
        except (OSError, ValueError) as error:
            found.append({"for": folder.name, "kernels": 0, "unused": str(error)})
            continue
        other = "" if folder.name == shipped.place() else f"this is {shipped.place()}"
        found.append({
            "for": folder.name, "kernels": len(manifest.objects), "numba": manifest.numba,
            "processor": manifest.processor, "unused": (other or shipped.misfit(manifest, SOURCES)) or None,
        })  # fmt: skip
    return found
