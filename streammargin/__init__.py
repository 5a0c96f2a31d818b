"""streammargin: linear large-margin classifiers and regression on data larger than memory.

Public names are loaded on first use (PEP 562), so that importing the package is fast.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from streammargin.version import __version__

if sys.platform == "win32":
    raise ImportError("streammargin needs Linux or macOS (file locks, signals); on Windows install it in WSL")

_NAMES = {  # public names by their modules
    "api": ("train", "complete"),
    "result": ("TrainResult",),
    "options.folds": ("Folds",),
    "model.io": ("load_model",),
    "model.linear": ("LinearModel",),
    "sources.base": ("Source",),
    "sources.open": ("open_source",),
    "sources.hdf5.from_batches": ("write_hdf5",),
    "estimators": ("MarginClassifier", "MarginRegressor", "InterpolatingRegressor", "KernelMarginClassifier",
                   "KernelMarginRegressor", "MarginClassifierCV", "MarginRegressorCV", "KernelMarginClassifierCV"),
    "errors": ("StreamMarginError", "UsageError", "DataError", "InputMissingError", "OutputError", "ReadWriteError"),
}  # fmt: skip
_HOME = {name: f"streammargin.{module}" for module, names in _NAMES.items() for name in names}
# the estimators need an extra: `from streammargin import *` must not
__all__ = ["__version__", *(name for name, home in _HOME.items() if home != "streammargin.estimators")]

if TYPE_CHECKING:
    from streammargin import kernels as kernels
    from streammargin import losses as losses
    from streammargin import maps as maps
    from streammargin import penalties as penalties
    from streammargin import solvers as solvers
    from streammargin import transforms as transforms
    from streammargin.api import complete as complete
    from streammargin.api import train as train
    from streammargin.errors import DataError as DataError
    from streammargin.errors import InputMissingError as InputMissingError
    from streammargin.errors import OutputError as OutputError
    from streammargin.errors import ReadWriteError as ReadWriteError
    from streammargin.errors import StreamMarginError as StreamMarginError
    from streammargin.errors import UsageError as UsageError
    from streammargin.estimators import InterpolatingRegressor as InterpolatingRegressor
    from streammargin.estimators import KernelMarginClassifier as KernelMarginClassifier
    from streammargin.estimators import KernelMarginClassifierCV as KernelMarginClassifierCV
    from streammargin.estimators import KernelMarginRegressor as KernelMarginRegressor
    from streammargin.estimators import MarginClassifier as MarginClassifier
    from streammargin.estimators import MarginClassifierCV as MarginClassifierCV
    from streammargin.estimators import MarginRegressor as MarginRegressor
    from streammargin.estimators import MarginRegressorCV as MarginRegressorCV
    from streammargin.model.io import load_model as load_model
    from streammargin.model.linear import LinearModel as LinearModel
    from streammargin.options.folds import Folds as Folds
    from streammargin.result import TrainResult as TrainResult
    from streammargin.sources.base import Source as Source
    from streammargin.sources.hdf5.from_batches import write_hdf5 as write_hdf5
    from streammargin.sources.open import open_source as open_source


_FOLDERS = ("kernels", "losses", "maps", "penalties", "solvers", "transforms")  # packages with public classes


def __getattr__(name: str) -> Any:
    if name in _FOLDERS or name == "dask":  # which needs an extra, and so is not listed
        return import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(["__version__", *_HOME, *_FOLDERS])
