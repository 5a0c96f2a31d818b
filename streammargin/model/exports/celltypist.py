"""A model of CellTypist, as its own loader reads it: a pickle of a classifier and a scaler of scikit-learn."""

from __future__ import annotations

import pickle
from typing import Any, cast

import numpy as np

from streammargin.errors import UsageError
from streammargin.model.base import Model
from streammargin.model.exports.parts import taken
from streammargin.transforms.clipped import Clipped

STEPS = "total:10000,log1p"
MOST = 10.0  # CellTypist cuts scaled values there, but not at -10


def celltypist_bytes(model: Model) -> bytes:
    """The file. UsageError without scikit-learn, for other steps than CellTypist expects of cells, and without names.

    Labels and scores are those of the model. CellTypist makes a probability of each score by itself.
    """
    parts = taken(model, "CellTypist's", maps=False, steps=True)
    links = [] if parts.steps is None else [cast(Any, link.step) for link in parts.steps.links]
    means, factors = np.zeros(parts.features), np.ones(parts.features)
    if parts.steps is not None and isinstance(links[-1], Clipped) and links[-1].most == MOST:
        means, factors = (parts.steps.links[-1].learned[name] for name in Clipped.learns)
        links = links[:-1] if np.max(means * factors) <= MOST else []
    if [link.name for link in links] != ["total", "log1p"] or links[0].sum != 10_000.0:
        raise UsageError(
            f"CellTypist takes cells with the steps {STEPS}, and cuts scaled values at 10, but not at -10; "
            f"train with `transform={STEPS}`, and `scale=std:clip=10`, `scale=std` or none"
        )
    if parts.numeric or parts.outputs is not None or parts.names is None:
        raise UsageError("CellTypist needs one label a cell, and names of genes; train on a file that has them")
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise UsageError(
            f"CellTypist's models need scikit-learn: pip install 'streammargin[sklearn]' ({error})"
        ) from None
    made, scaler = LogisticRegression(C=parts.C), StandardScaler()
    made.coef_, made.intercept_, made.classes_ = parts.coef, parts.intercept, np.asarray(parts.classes).astype(str)
    made.features, made.n_features_in_ = np.asarray(parts.names, object), parts.features
    with np.errstate(divide="ignore"):  # a gene that is 0 in all cells has the factor 0
        scaler.mean_, scaler.scale_, scaler.var_ = means, 1.0 / factors, factors**-2.0
    scaler.n_features_in_ = parts.features
    told = {"date": "", "details": "streammargin", "url": "", "source": "", "version": "",
            "number_celltypes": len(made.classes_)}  # fmt: skip
    return pickle.dumps({"Model": made, "Scaler_": scaler, "description": told})
