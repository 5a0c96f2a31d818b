"""A fitted pipeline of scikit-learn that predicts as a model does: columns of tables, scale, map, and the weights.

The pipeline holds objects of scikit-learn and NumPy alone, so that it can be stored and used without this package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn import preprocessing
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from streammargin.errors import UsageError
from streammargin.machines import FORMULAS, fields_of, words_in
from streammargin.model.calibration import CURVE_PROBABILITIES, CURVE_SCORES, SIGMOID
from streammargin.model.exports.parts import LinearParts, taken
from streammargin.points.mapped import Mapped
from streammargin.sources.schema import CATEGORY, DATE, NUMBER, Column, Schema
from streammargin.transforms.chain import Chain

PANDAS_GAPS = (None, math.nan)  # how a frame of pandas shows that a value is missing
GAP_CATEGORY = ("\0a missing value",)  # stands for these among categories, none of which has a NUL character
GAP_MARK = float(np.finfo(np.float32).max)  # marks a gap while its column becomes 0 and 1


def to_sklearn(model: Any) -> Any:
    """The pipeline of a model. UsageError for a model that has none."""
    return pipeline_of(
        _as_logistic(taken(model, "a pipeline of scikit-learn", steps=True, calibrated="sigmoid isotonic"))
    )


def _as_logistic(parts: LinearParts) -> LinearParts:
    """The same with the scores that a sigmoid made of its scores, which are log odds of each class by itself."""
    if SIGMOID not in parts.calibration:
        return parts
    slopes, constants = parts.calibration[SIGMOID].T
    return parts._replace(
        coef=parts.coef * slopes[:, None], intercept=parts.intercept * slopes + constants, link="logistic"
    )


def pipeline_of(parts: LinearParts, gaps: Sequence[Any] = PANDAS_GAPS, float32: bool = False) -> Any:
    """The pipeline of the parts of a model; gaps: the values that stand for a missing category.

    float32: whether all numbers come as float32, so that no step needs to make them of anything else.
    """
    steps, coef, constants, order = [], parts.coef, parts.intercept, np.arange(parts.features)
    if parts.schema is not None:
        columns = list(_columns(parts, gaps, float32))
        steps.append(_side_by_side(parts.schema, columns))
        order = np.array([place for column in columns for place in column.places], np.intp)
        if not parts.changed:
            coef = np.hstack([column.weights for column in columns])
            constants = constants + sum(column.constants for column in columns)
        elif parts.behind is None:
            coef = coef[:, order]
    if parts.steps is not None:
        steps += rows_stepped(parts.steps, order)
    if parts.behind is not None:
        steps += rows_mapped(parts.behind, order)
    steps.append(_with_weights(parts, coef, constants))
    if parts.schema is None:
        steps[0].n_features_in_ = parts.features
        if parts.names is not None:
            steps[0].feature_names_in_ = parts.names
    return make_pipeline(*steps)


class _Part(NamedTuple):
    """What some columns of a table become.

    names: of these columns; sample: a value of each; places: the columns of the model's rows that it makes; weights
    (K, width) of what it makes; constants (K,): added to the scores.
    """

    names: list[str]
    made: Any
    sample: Any
    places: Sequence[int]
    weights: np.ndarray
    constants: Any = 0.0


def _columns(parts: LinearParts, gaps: Sequence[Any], float32: bool) -> Iterator[_Part]:
    """The parts of a table, from left to right."""
    schema = parts.schema
    assert schema is not None
    table = zip(schema.columns, schema.starts.tolist(), strict=False)
    dtype = "float64" if parts.changed else schema.dtype
    of = lambda column: (column.kind, column.kind == NUMBER and column.fill is None, column.spelling)  # noqa: E731
    for (kind, *_), group in itertools.groupby(table, lambda each: of(each[0])):
        several = list(group)
        if kind == NUMBER:
            yield from _numbers(several, parts, None if float32 else dtype)
            continue
        for column, start in several:
            if kind == CATEGORY:
                yield _words(column, start, parts, gaps, float32)
            elif kind == DATE:
                yield _date(column, start, parts, dtype)
            else:
                yield _text(column, start, parts)


def _numbers(columns: list[tuple[Column, int]], parts: LinearParts, dtype: str | None) -> Iterator[_Part]:
    """Columns of numbers of one spelling, side by side, and a column for the gaps of each that has one."""
    keys = {"kw_args": {"dtype": dtype}, "feature_names_out": "one-to-one"}
    cast = [] if dtype is None else [preprocessing.FunctionTransformer(np.asarray, **keys)]
    if cast and columns[0][0].spelling:
        from streammargin.model.exports import spelt  # this alone needs the readers of tables

        cast = [*spelt.read(columns[0][0], parts), *cast]
    places = [start for _, start in columns]
    fills = [column.fill for column, _ in columns if column.fill is not None]
    imputers = [SimpleImputer()] * bool(fills)
    yield _Part([column.name for column, _ in columns], make_pipeline(*cast, *imputers) if cast + imputers else
                "passthrough", fills or [0.0] * len(columns), places, parts.coef_at(places))  # fmt: skip
    for column, start in columns:
        if column.indicator:
            marks = (
                SimpleImputer(strategy="constant", fill_value=GAP_MARK),
                preprocessing.Binarizer(threshold=GAP_MARK / 2.0),
            )
            own = [start + column.width - 1]
            yield _Part([column.name], make_pipeline(*cast, *marks), [0.0], own, parts.coef_at(own))


def _date(column: Column, start: int, parts: LinearParts, dtype: str) -> _Part:
    """A date: its years, days, months, days of the week and hours."""
    from streammargin.model.exports import spelt

    places = range(start, start + column.width)
    return _Part([column.name], spelt.date(column, parts, dtype), [column.first], places, parts.coef_at(places))


def _filled(gaps: Sequence[Any], value: str) -> list[Any]:
    """Steps that put a text in place of these gaps."""
    return [SimpleImputer(missing_values=gap, strategy="constant", fill_value=value) for gap in reversed(gaps)]


def _trimmed(gaps: Sequence[Any]) -> list[Any]:
    """Steps that take the blanks around text off; GAP_CATEGORY takes the place of these gaps."""
    of = lambda call, **keys: preprocessing.FunctionTransformer(call, kw_args=keys, feature_names_out="one-to-one")  # noqa: E731
    return [of(np.asarray, dtype=object), *_filled(gaps, GAP_CATEGORY[0]), of(np.asarray, dtype=str),
            of(np.char.strip, chars=" \t"), of(np.asarray, dtype=object)]  # fmt: skip


def _words(column: Column, start: int, parts: LinearParts, gaps: Sequence[Any], float32: bool) -> _Part:
    """A category. Other words than those known have the weight of `other` by the constant, and known ones the rest."""
    words: list[Any] = [float(word) for word in column.words] if column.numeric else list(column.words)
    places = list(range(start, start + len(words)))
    if column.numeric:  # scikit-learn wants numbers in their order; ours are in that of their texts
        words, places = map(list, zip(*sorted(zip(words, places, strict=True)), strict=True))
    if parts.changed and (column.other or column.indicator):
        raise UsageError(f"scikit-learn cannot make the column for rare or missing categories of {column.name} in "
                         "front of a map or of steps on rows; use streammargin.numpy_model")  # fmt: skip
    if set(gaps) & set(words):
        raise UsageError(f"the category {gaps[0]!r} of the column {column.name} stands for a missing value here")
    trimmed = []
    if not (column.numeric or float32):
        trimmed, gaps = _trimmed(gaps), GAP_CATEGORY
    known = [gap for gap in gaps if isinstance(gap, float) or not column.numeric]
    known = [] if parts.changed or column.fill is None else known
    made = preprocessing.OneHotEncoder(categories=[np.array(words + known, float if column.numeric else object)],
                         handle_unknown="ignore" if column.other or (column.fill is not None and parts.changed) else
                         "error")  # fmt: skip
    made = make_pipeline(*trimmed, made) if trimmed else made
    other = parts.coef_at([start + len(words)]) if column.other else np.zeros((len(parts.coef), 1))
    gap = parts.coef_at([start + column.width - 1]) if column.indicator else np.zeros_like(other)
    weights = np.hstack([parts.coef_at(places) - other, *[gap - other] * len(known)])
    return _Part([column.name], made, words[:1], places, weights, other[:, 0])


def _text(column: Column, start: int, parts: LinearParts) -> _Part:
    """Free text: 1 + log(count) of each word, hashed; rows of length 1. A missing text has no words."""
    counts = HashingVectorizer(n_features=column.width, ngram_range=(1, column.ngrams), alternate_sign=False, norm=None)
    places = range(start, start + column.width)
    weighed = TfidfTransformer(use_idf=False, sublinear_tf=True)
    made = make_pipeline(*_filled(PANDAS_GAPS, ""), preprocessing.FunctionTransformer(np.ravel), counts, weighed)
    return _Part([column.name], made, ["a word"], places, parts.coef_at(places))


def _side_by_side(schema: Schema, columns: list[_Part]) -> Any:
    """The fitted transformer of a table: columns by name, or by position if they have no names."""
    position = {column.name: place for place, column in enumerate(schema.columns)}
    keys = [[name if schema.named else position[name] for name in part.names] for part in columns]
    named = [(f"{part.names[0]} {k}", part.made, key) for k, (part, key) in enumerate(zip(columns, keys, strict=True))]
    made = ColumnTransformer(named, sparse_threshold=1.0 if schema.sparse else 0.0)
    sample = {name: one for part in reversed(columns) for name, one in zip(part.names, part.sample, strict=True)}
    row = [[sample[column.name]] for column in schema.columns]
    if not schema.named:
        return made.fit(np.array(row, object).T)
    import pandas as pd

    return made.fit(pd.DataFrame({column.name: values for column, values in zip(schema.columns, row, strict=True)}))


def _with_weights(parts: LinearParts, coef: np.ndarray, constants: np.ndarray) -> Any:
    """An estimator of scikit-learn with these weights, of the class that predicts as the model does."""
    if CURVE_PROBABILITIES in parts.calibration:
        return _with_shares(parts, coef, constants)
    C = parts.C if math.isfinite(parts.C) else 1e10
    coef = np.ascontiguousarray(coef)

    def fitted(made: Any, coef: np.ndarray, constants: Any, classes: np.ndarray | None = None) -> Any:
        made.coef_, made.intercept_, made.n_features_in_ = coef, constants, coef.shape[-1]
        if classes is not None:
            made.classes_, made.n_iter_ = classes, np.ones(1, np.int32)
        return made

    def one() -> Any:
        of_hinge = LinearSVC(C=C, loss=parts.loss if parts.loss == "hinge" else "squared_hinge")
        return LogisticRegression(C=C) if parts.link else of_hinge

    if parts.numeric:
        alone = parts.outputs is None
        return fitted(LinearRegression(), coef[0] if alone else coef, float(constants[0]) if alone else constants)
    if parts.outputs is None and (parts.link != "logistic" or len(coef) == 1):
        return fitted(one(), coef, constants, parts.classes)
    made = OneVsRestClassifier(one())
    each = zip(coef, constants, strict=True)
    made.estimators_ = [fitted(one(), w[None], np.array([b]), np.array([0, 1])) for w, b in each]
    labels = np.eye(len(coef), dtype=int) if parts.outputs is not None else parts.classes
    made.label_binarizer_ = preprocessing.LabelBinarizer(sparse_output=True).fit(labels)
    if parts.outputs is None:
        made.label_binarizer_.classes_ = parts.classes  # in the order of the weights
    made.classes_ = made.label_binarizer_.classes_
    made.n_features_in_ = coef.shape[1]
    return made


def _with_shares(parts: LinearParts, coef: np.ndarray, constants: np.ndarray) -> Any:
    """The estimator with these weights, and behind its scores the curves of an isotonic calibration."""
    from sklearn.calibration import _CalibratedClassifier  # a private class, which this alone needs

    numbers = np.arange(len(parts.classes))  # as scikit-learn sorts the classes inside
    inner = _with_weights(parts._replace(link=None, calibration={}, classes=numbers), coef, constants)
    if parts.names is not None and parts.schema is None and not parts.changed:
        inner.feature_names_in_ = parts.names
    scores, lines = parts.calibration[CURVE_SCORES], parts.calibration[CURVE_PROBABILITIES]
    curves = [IsotonicRegression(out_of_bounds="clip").fit(scores, line) for line in lines]
    made = CalibratedClassifierCV(inner, method="isotonic", ensemble=False)
    made.calibrated_classifiers_ = [_CalibratedClassifier(inner, curves, classes=numbers, method="isotonic")]
    made.classes_, made.n_features_in_ = parts.classes, coef.shape[1]
    return made


def rows_stepped(chain: Chain, order: np.ndarray) -> Iterator[Any]:
    """The steps of a model; order: of the columns that come. UsageError for one that scikit-learn does not have."""
    for link in chain.links:
        step, name = cast(Any, link.step), link.step.name
        if name in ("log1p", "sqrt"):
            yield preprocessing.FunctionTransformer(
                getattr(np, name), accept_sparse=True, feature_names_out="one-to-one"
            )
        elif name == "unit":
            yield _with_columns(preprocessing.Normalizer(), order)
        elif name == "total":  # of rows without numbers below 0
            yield _with_columns(preprocessing.Normalizer("l1"), order)
            yield _times(np.full(len(order), step.sum), order)
        elif name == "tfidf":
            yield _times(link.learned["factors"][order], order)
        elif name == "clipped":
            if not link.learned["center"].any():
                raise UsageError(f"scikit-learn cannot clip sparse rows, as {step} does; train with `scale=std` alone")
            yield scaler(link.learned["center"][order], link.learned["factor"][order])
            yield preprocessing.FunctionTransformer(np.clip, kw_args={"a_min": -step.most, "a_max": step.most})
        else:
            raise UsageError(f"the step {step} of your own has no form in scikit-learn; use predict")


def _with_columns(made: Any, order: np.ndarray) -> Any:
    made.n_features_in_ = len(order)
    return made


def _times(factors: np.ndarray, order: np.ndarray) -> Any:
    """Columns times factors that are not 0."""
    made = _with_columns(preprocessing.MaxAbsScaler(), order)
    made.scale_ = made.max_abs_ = 1.0 / factors
    return made


def scaler(center: np.ndarray, factor: np.ndarray) -> Any:
    """(x - center) factor of each column."""
    made = _with_columns(preprocessing.StandardScaler(with_mean=bool(center.any())), center)
    with np.errstate(divide="ignore"):  # a column with factor 0 becomes 0
        made.mean_, made.scale_, made.var_ = center, 1.0 / factor, factor**-2.0
    return made


def rows_mapped(behind: Mapped, order: np.ndarray) -> Iterator[Any]:
    """The scale in front of a map, and the map; order: of the columns that come."""
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
            raise UsageError(f"scikit-learn has no map {word}; use rff, or nystroem of one kernel")
        name, gamma, coef0, degree, weight = fields_of(kernels[0])
        given = {"rbf": {"gamma": gamma}, "poly": {"gamma": gamma, "coef0": coef0, "degree": degree},
                 "sigmoid": {"gamma": gamma, "coef0": coef0}, "linear": {}}  # fmt: skip
        made = Nystroem(kernel=name, n_components=columns, **given[name])
        made.components_ = learned["landmarks"][:, order]
        made.normalization_ = weight * learned["projection"].T
        made.component_indices_ = np.arange(columns)
    yield _with_columns(made, order)
