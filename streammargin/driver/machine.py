"""The parts of this machine and installation that decide the bits of a training."""

from __future__ import annotations

import hashlib

import llvmlite.binding as llvm
import numba
import numpy as np

from streammargin.compiled.cache import SOURCES
from streammargin.compiled.shipped import shipped
from streammargin.version import __version__


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
