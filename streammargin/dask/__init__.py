"""Training and predictions on the workers of a dask cluster. No other part of the package knows of dask."""

from __future__ import annotations

try:
    import cloudpickle  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError("streammargin.dask needs dask; pip install 'streammargin[dask]'") from error

from streammargin.dask.predict import decision_function, predict, predict_proba
from streammargin.dask.train import connected, train, train_on

__all__ = ["connected", "decision_function", "predict", "predict_proba", "train", "train_on"]
