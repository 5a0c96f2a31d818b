"""Steps on rows, scales and maps as fitted transformers of scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from streammargin.errors import UsageError
from streammargin.machines import FORMULAS, fields_of, words_in
from streammargin.points.mapped import Mapped
from streammargin.transforms.chain import Chain


def rows_stepped(chain: Chain, order: np.ndarray) -> Iterator[Any]:
    """The steps of a model; order: of the columns that come. UsageError for one that scikit-learn does not have."""
    from sklearn.preprocessing import FunctionTransformer, Normalizer

    for link in chain.links:
        step, name = cast(Any, link.step), link.step.name
        if name in ("log1p", "sqrt"):
            yield FunctionTransformer(getattr(np, name), accept_sparse=True, feature_names_out="one-to-one")
        elif name == "unit":
            yield _of_columns(Normalizer(), order)
        elif name == "total":  # of rows without numbers below 0
            yield _of_columns(Normalizer("l1"), order)
            yield _times(np.full(len(order), step.sum), order)
        elif name == "tfidf":
            yield _times(link.learned["factors"][order], order)
        elif name == "clipped":
            if not link.learned["center"].any():
                raise UsageError(f"scikit-learn clips no sparse rows, as {step} does; train with `scale=std` alone")
            yield scaler(link.learned["center"][order], link.learned["factor"][order])
            yield FunctionTransformer(np.clip, kw_args={"a_min": -step.most, "a_max": step.most})
        else:
            raise UsageError(f"scikit-learn has no step {step} for rows; it has those of ours")


def _of_columns(made: Any, order: np.ndarray) -> Any:
    made.n_features_in_ = len(order)
    return made


def _times(factors: np.ndarray, order: np.ndarray) -> Any:
    """Columns times factors that are not 0."""
    from sklearn.preprocessing import MaxAbsScaler

    made = _of_columns(MaxAbsScaler(), order)
    made.scale_ = made.max_abs_ = 1.0 / factors
    return made


def scaler(center: np.ndarray, factor: np.ndarray) -> Any:
    """(x - center) factor of each column."""
    from sklearn.preprocessing import StandardScaler

    made = _of_columns(StandardScaler(with_mean=bool(center.any())), center)
    with np.errstate(divide="ignore"):  # a column with factor 0 becomes 0
        made.mean_, made.scale_, made.var_ = center, 1.0 / factor, factor**-2.0
    return made


def rows_mapped(behind: Mapped, order: np.ndarray) -> Iterator[Any]:
    """The scale in front of a map, and the map; order: of the columns that come."""
    from sklearn.kernel_approximation import Nystroem, RBFSampler

    before, learned, map = behind.before, behind.fitted.learned, cast(Any, behind.fitted.map)
    if before.factor.size:
        yield scaler(before.center[order], before.factor[order])
    word, columns = str(map), map.width
    if map.name == "rff":
        V, sines = learned["directions"][order], columns // 2
        made = RBFSampler(gamma=float(map.gamma), n_components=columns)
        made.random_weights_ = np.hstack([V, V[:, :sines]])
        made.random_offset_ = np.repeat([0.0, -math.pi / 2.0], [columns - sines, sines])  # sin t = cos(t - pi / 2)
    else:
        kernels = words_in(word.partition("kernel=")[2])
        if map.name != "nystroem" or len(kernels) > 1 or kernels[0].partition(":")[0] not in FORMULAS:
            raise UsageError(f"scikit-learn has no map {word}; its maps are rff, and nystroem of one kernel of ours")
        name, gamma, coef0, degree, weight = fields_of(kernels[0])
        given = {"rbf": {"gamma": gamma}, "poly": {"gamma": gamma, "coef0": coef0, "degree": degree},
                 "sigmoid": {"gamma": gamma, "coef0": coef0}, "linear": {}}  # fmt: skip
        made = Nystroem(kernel=name, n_components=columns, **given[name])
        made.components_ = learned["landmarks"][:, order]
        made.normalization_ = weight * learned["projection"].T
        made.component_indices_ = np.arange(columns)
    yield _of_columns(made, order)
