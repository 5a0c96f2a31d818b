"""Write a linear model for another program: as JSON, text of LIBLINEAR, ONNX, a CellTypist model, or a table."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np

from streammargin.errors import ReadWriteError, UsageError
from streammargin.files import replacing, short_reason
from streammargin.matching import number_in
from streammargin.model.base import Model
from streammargin.model.calibration import COUNTS, SCALE
from streammargin.model.exports.parts import LinearParts, taken
from streammargin.model.linear import LinearModel
from streammargin.model.scoring import Scorer
from streammargin.sources.names import listed
from streammargin.sources.schema import CATEGORY, DATE, NUMBER, OTHER, TEXT, Column, Schema
from streammargin.transforms.clipped import Clipped
from streammargin.wording import note, one_line, shown

EXPORTED_ROWS = 1 << 14  # that are in memory at once
EXPORTED_COLUMNS = {"class": "string", "column": "string", "word": "string", "weight": "float64",
                    "scaled_weight": "float64", "count": "int64"}  # fmt: skip
PARQUET = ".parquet"


def check_linear(model: Model) -> LinearModel:
    """The model, if it has weights of columns. Raises UsageError."""
    if not isinstance(model, LinearModel):
        raise UsageError("this model has no weights of columns: it is not linear")
    return model


def write_weights(
    model: Model, path: str, force: bool = False, record: Callable[[str], None] = lambda place: None
) -> None:  # fmt: skip
    """Write class, column, word, weight, scaled weight and count: as Parquet if `path` ends so, otherwise as CSV.

    The first row of each class has no column: its weight is the constant. A column of a table that counts words has one
    row for each word. The count says in how many training rows a word is. It is empty for other columns, for weighted
    rows, and if only some rows were measured. The scaled weight is the weight times the standard deviation of the
    column. `record` is called with the place of the whole file, just before it is renamed to `path`.

    Raises UsageError for a model that is not linear, OutputError, ReadWriteError.
    """
    from streammargin.arrow import csv, pa, parquet

    linear = check_linear(model)
    schema = pa.schema(list(EXPORTED_COLUMNS.items()))
    make: Any = parquet.ParquetWriter if path.endswith(PARQUET) else csv.CSVWriter
    with replacing(path, force) as name:
        try:
            with make(name, schema) as writer:
                rows = _rows_of_weights(linear)
                while some := list(itertools.islice(rows, EXPORTED_ROWS)):
                    writer.write_batch(pa.record_batch([list(values) for values in zip(*some, strict=True)], schema))
        except pa.ArrowException as error:
            raise ReadWriteError(f"cannot write {path}: {short_reason(error)}") from error
        record(name)


def _rows_of_weights(model: LinearModel) -> Iterator[tuple[Any, ...]]:
    """The rows of the table."""
    for line, label in enumerate(model.labels_of_weights):
        text, scaled = None if label is None else one_line(str(label)), model.scaled_weights(line)
        yield text, None, None, float(model.intercept_[line]), None, None
        effects = itertools.repeat(None) if scaled is None else _each(scaled)
        yield from (
            (text, *named, weight, effect, count)
            for named, weight, effect, count in zip(
                named_columns(model), _each(model.coef_[line]), effects, _counts(model), strict=False
            )
        )


def named_columns(model: Model) -> Iterator[tuple[str, str | None]]:
    """The column of the data that each column of the rows is from, and the word that it counts, or None."""
    schema, names = model.schema, model.feature_names_in_
    if schema is None:
        yield from ((str(place if names is None else names[place]), None) for place in range(model.answer.features))
        return
    for column in schema.columns:
        if column.kind == TEXT:
            yield from ((column.name, f"#{place}") for place in range(column.width))
            continue
        since = [f"years since {column.first_year}", f"days since {column.first}"]
        numbers = [None] if column.kind == NUMBER else since[: column.numbers]
        words = [*numbers, *column.words, *[OTHER] * column.other, *["missing"] * column.indicator]
        yield from ((column.name, word) for word in words)


def _counts(model: LinearModel) -> Iterator[int | None]:
    """In how many training rows each column is 1, of those that count a word of a category; None if it is unknown."""
    rows = model.header.get("rows")
    weighted = (model.header.get("problem") or {}).get("weighted", True)
    weighted = weighted or model.steps is not None  # means are of other numbers
    if model.moments is None or model.schema is None or weighted or model.header.get("measured_rows") != rows:
        return itertools.repeat(None)
    counts = _each(model.moments[0] * rows)
    return (round(count) if known else None for count, known in zip(counts, _of_words(model.schema), strict=True))


def _each(array: np.ndarray) -> Iterator[float]:
    """The numbers of an array, of which few at a time are objects."""
    for start in range(0, array.size, EXPORTED_ROWS):
        yield from array[start : start + EXPORTED_ROWS].tolist()


def _of_words(schema: Schema) -> Iterator[bool]:
    """Which columns are 0 or 1: those of words, of parts of dates, and of missing values."""
    for column in schema.columns:
        first = column.numbers if column.kind != TEXT else column.width
        yield from (place >= first for place in range(column.width))


FORM = "LIBLINEAR's text model"
# liblinear's names for solvers of the same model
_TYPES = {"hinge": "L2R_L1LOSS_SVC_DUAL", "squared_hinge": "L2R_L2LOSS_SVC_DUAL", "logistic": "L2R_LR_DUAL"}
_JOINT_TYPE = "MCSVM_CS"  # one W for all classes; liblinear gives such a model no probabilities, as it has no softmax


def liblinear_text(model: Scorer) -> str:
    """The file. UsageError for labels that are no integers, and for a model that LIBLINEAR does not have."""
    parts = taken(model, FORM, maps=False)
    if parts.outputs is not None:
        raise UsageError(
            "liblinear's models have one label a row; this one has several outputs; train one of them alone"
        )
    if parts.loss not in _TYPES:
        raise UsageError(f"liblinear has no loss {parts.loss}; it has {', '.join(_TYPES)}")
    labels = _whole(parts.classes.tolist())
    if len(parts.coef) == 1:  # liblinear's first label is the one of positive scores
        labels = labels[::-1]
    joint = model.header.get("multiclass") == "joint" and len(labels) > 2
    biased = bool(np.any(parts.intercept != 0.0))
    rows = [*parts.coef.T, *[parts.intercept] * biased]
    return (
        f"solver_type {_JOINT_TYPE if joint else _TYPES[parts.loss]}\nnr_class {len(labels)}\n"
        f"label {' '.join(map(str, labels))}\nnr_feature {parts.features}\nbias {1 if biased else -1}\nw\n"
        + "".join(" ".join(f"{value:.17g}" for value in row) + " \n" for row in rows)
    )


def _whole(classes: list[Any]) -> list[int]:
    """Classes as different integers. Raises UsageError if they are not."""
    found: dict[int, Any] = {}
    for label in classes:
        number = number_in(label) if isinstance(label, str) else label
        if number is None or number != int(number):
            raise UsageError(
                f"liblinear's labels are integers, and {shown(label)} of this model is none; export it as JSON or CSV, "
                "or number the labels and train again"
            )
        if found.setdefault(int(number), label) != label:
            raise UsageError(
                f"liblinear's labels are integers, and the classes {shown(found[int(number)])} and {shown(label)} are "
                "one of them, so this model cannot be exported; rename one class, and train again"
            )
    return list(found)


FORMAT, VERSION = "streammargin-json", 1


def json_text(model: Model) -> str:
    """An object for a scorer of a few lines in any language (docs/production.md has one).

    Its fields are format, version, classes, outputs, link, intercept, and an object for each column.

    A column has its name or number, and its weights: a list with one for each score, or such a list for each category.
    `words` are the numbers of a pair of words, such as yes and no.
    `gap` is what a missing value adds to the scores, and `other` what a rare category adds. `calibration` has what
    makes probabilities of scores, if there is any (docs/production.md). A date has a column for each of its parts, such
    as `when: hour`. UsageError for words of texts, which a scorer would have to count.
    """
    parts = taken(model, "JSON", maps=False, calibrated="sigmoid isotonic")
    if parts.schema is None:
        names = [name for name, _ in named_columns(model)]
        columns = [{"name": name, "weights": each} for name, each in zip(names, parts.coef.T.tolist(), strict=True)]
    else:
        table = list(zip(parts.schema.columns, parts.schema.starts.tolist(), strict=False))
        if not parts.schema.named:
            table = [(replace(column, name=str(k)), start) for k, (column, start) in enumerate(table)]
        columns = [each for column, start in table for each in _of_column(parts, column, start)]
    found = {"format": FORMAT, "version": VERSION, "classes": parts.classes.tolist(), "outputs": parts.outputs,
             "link": parts.link, "intercept": parts.intercept.tolist(), "columns": columns}  # fmt: skip
    if parts.calibration:
        learned = {name: array.tolist() for name, array in parts.calibration.items() if name not in (COUNTS, SCALE)}
        found["calibration"] = {name.partition(".")[2]: array for name, array in learned.items()}
    return json.dumps(found, allow_nan=False) + "\n"


def _of_column(parts: LinearParts, column: Column, start: int) -> Iterator[dict[str, Any]]:
    """A column of a table, or the parts of a date. UsageError for one that a scorer would have to make."""
    if column.kind == TEXT:
        raise UsageError(
            f"the column {column.name} is free text, which JSON does not have; train with `drop={column.name}`, or use "
            "to_sklearn"
        )
    if column.kind != DATE:
        yield _column(parts, column, start)
        return
    weights = parts.coef[:, start : start + column.width].T.tolist()
    nothing = [0.0] * len(parts.coef)
    mark = weights[-1] if column.indicator else nothing  # of a gap, once
    fills = dict(zip(column.outputs[: column.numbers], (column.year, column.fill), strict=False))
    found: dict[str, dict[str, Any]] = {name: {"weights": weights[k]} for k, name in enumerate(fills)}
    for word, weight in zip(column.words, weights[column.numbers :], strict=False):
        part, _, value = word.partition("=")
        found.setdefault(f"{column.name}: {part}", {"weights": {}, "other": nothing})["weights"][value] = weight
    for name, each in found.items() if column.fill is not None else ():
        own = [fills[name] * weight for weight in each["weights"]] if name in fills else nothing
        each["gap"] = [one + other for one, other in zip(own, mark, strict=True)]
        mark = nothing
    yield from ({"name": name, **each} for name, each in found.items())


def _column(parts: LinearParts, column: Column, start: int) -> dict[str, Any]:
    """A column of numbers or categories."""
    weights = parts.coef[:, start : start + column.width].T.tolist()
    pair = column.spelling.split("/") if "/" in column.spelling else []
    found: dict[str, Any] = {"name": column.name}
    if column.kind == NUMBER:
        found["weights"] = weights[0]
        if pair:
            found["words"] = {pair[0]: 1, pair[1]: 0}
    else:
        found["weights"] = dict(zip(column.words, weights, strict=False))
    if column.other:
        found["other"] = weights[len(column.words)]
    if column.fill is not None:
        number = column.fill if column.kind == NUMBER else 0.0
        marks = weights[-1] if column.indicator else [0.0] * len(parts.coef)
        found["gap"] = [number * weight + mark for weight, mark in zip(weights[0], marks, strict=True)]
    return found


NEEDED = "ONNX files are written by skl2onnx; install it with: pip install 'streammargin[onnx]'"
ONNX_GAPS = ("",)  # how a missing category comes: text of ONNX has no other
DIGITS = 2.0**24 * 1e-4  # float32 has 24 bits; columns farther from 0 than so many standard deviations lose too many


def onnx_bytes(model: Model) -> bytes:
    """The file, by way of the pipeline of scikit-learn: skl2onnx knows its steps.

    Inputs are float32: `X` (n, d), or (n, 1) for each column of a table, text for categories.

    UsageError without skl2onnx, for columns that lose digits as float32, and for steps that ONNX does not have.
    """
    parts = taken(model, "ONNX", maps=False)
    _check_digits(parts, model)
    if parts.outputs is not None and not parts.numeric and parts.link is None:
        raise UsageError("several labels without probabilities cannot be exported as ONNX; train with `loss=logistic`")
    _check_columns(parts)
    try:
        from streammargin.model.exports.pipeline import pipeline_of

        made = pipeline_of(parts, ONNX_GAPS, float32=True)  # it may refuse a column
        from skl2onnx import to_onnx
    except ImportError as error:
        raise UsageError(f"{NEEDED} ({error})") from None
    inputs = _inputs(parts)
    if texts := [name for name, kind in inputs if type(kind).__name__.startswith("String")]:
        note(
            f"strip blanks around the text of {listed(texts)} before it is scored: the model does so, the file does not"
        )
    options = {} if parts.numeric else {"zipmap": False} if parts.link else {"raw_scores": True}
    found = to_onnx(made, initial_types=inputs, options={id(made[-1]): options})
    return bytes(found.SerializeToString())


def _check_digits(parts: LinearParts, model: Model) -> None:
    """UsageError if a column of the training needs more digits than float32 has."""
    if parts.schema is not None and parts.schema.dtype == "float64":
        raise UsageError(
            "a column of the table has whole numbers above 2^24, and float32 of ONNX would lose digits; subtract a "
            "constant from it, or use to_sklearn"
        )
    if model.moments is None:
        return
    means, deviations = model.moments
    far = np.divide(np.abs(means), deviations, out=np.zeros_like(means, np.float64), where=deviations > 0.0)
    worst = int(np.argmax(far))
    if far[worst] > DIGITS:
        name = f"column {worst}" if parts.names is None else parts.names[worst]
        raise UsageError(
            f"the mean of {name} is {far[worst]:.3g} standard deviations from 0, and float32 of ONNX would lose "
            "digits; subtract a constant from it, or use to_sklearn"
        )


def _check_columns(parts: LinearParts) -> None:
    """UsageError for a column of the table that is neither a number nor a category."""
    for column in () if parts.schema is None else parts.schema.columns:
        if column.kind not in (NUMBER, CATEGORY):
            raise UsageError(f"ONNX cannot make numbers of the column {column.name}, a {column.kind}; train with "
                             f"`drop={column.name}`, or use to_sklearn")  # fmt: skip


def _inputs(parts: LinearParts) -> list[tuple[str, Any]]:
    """The names and types of the inputs."""
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    if parts.schema is None:
        return [("X", FloatTensorType([None, parts.features]))]
    found = []
    for column in parts.schema.columns:
        kind = FloatTensorType if column.kind == NUMBER else Int64TensorType if column.numeric else StringTensorType
        found.append((column.name, kind([None, 1])))
    return found


STEPS = "total:10000,log1p"
MOST = 10.0  # CellTypist cuts scaled values there, but not at -10


def celltypist_bytes(model: Model) -> bytes:
    """A pickle of a classifier and a scaler of scikit-learn, as CellTypist's own loader reads it.

    Labels and scores are those of the model; CellTypist makes a probability of each score by itself. UsageError without
    scikit-learn, for other steps than CellTypist expects of cells, and without names.
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


MADE: dict[str, Callable[[Model], str | bytes]] = {
    "json": json_text, "onnx": onnx_bytes, "liblinear": liblinear_text, "celltypist": celltypist_bytes,
}  # fmt: skip


def export(model: Model, form: str, path: str, force: bool = False) -> None:
    """Write a model as json, onnx, liblinear, celltypist or csv. Raises UsageError for what this form does not have,
    OutputError, ReadWriteError.
    """
    if form == "csv":
        return write_weights(model, path, force)
    made = MADE[form](model)
    with replacing(path, force) as name, open(name, "wb") as file:
        file.write(made.encode() if isinstance(made, str) else made)
