"""The fields of model files: the table of their arrays, and that of the entries of their headers.

`header.py` checks each field before anything uses it, and nothing else asks for types, shapes or ranges. A new kind of
model is a line of KINDS, and a line for each of its fields; docs/model_file.md lists the arrays.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# by the name of the kind in the header: the traits that fields go by; `header.py` adds those of the file at hand
KINDS = {
    "linear": {"weights", "linear"},
    "mapped": {"weights", "mapped", "before"},
    "expansion": {"machine", "before"},
    "factors": {"factors"},
}
FLOAT = ("f4", "f8")  # letters and bytes of NumPy's types
WHOLE = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
REAL = (*FLOAT, *WHOLE)
UNICODE, BYTES, PACKED, LABEL, ANY = ("U",), ("u1",), ("S1",), (*REAL, "b1", "U"), ()
CALLED = {FLOAT: "floats", WHOLE: "whole numbers", REAL: "real numbers", UNICODE: "text", BYTES: "bytes", PACKED: "S1",
          LABEL: "labels"}  # fmt: skip


class SavedArray(NamedTuple):
    """An array of the models that have the trait `of`, or one of these.

    shape: sizes by letter, which the first array with it decides, or d+1, i*j, D/2 rounded up, ? (any); * is any shape.
    `like`: the array whose shape it has, and beside which alone it is needed. `low`, `most`, `below`: of its numbers,
    the last exclusive. `inf`: floats may be infinite. `size`: the letter of the size that it is. `rows`: the pointers
    to its rows, in which numbers ascend. `ends`: such pointers, up to this size. `names`: how many names, as bytes.
    `equals`: the sizes that it is. `words`: all that a text may be. `unequal`: all different. `ascends`: each is above
    the one before.
    """

    name: str
    of: str
    types: tuple[str, ...]
    shape: str = ""
    needed: bool = True
    like: str = ""
    low: float = -math.inf
    below: str = ""
    inf: bool = False
    size: str = ""
    rows: str = ""
    ends: str = ""
    names: str = ""
    equals: str = ""
    words: tuple[str, ...] = ()
    unequal: bool = False
    most: float = math.inf
    ascends: bool = False


def _sparse(of: str, data: str, indices: str, indptr: str, rows: str) -> tuple[SavedArray, ...]:
    """The arrays of sparse rows of d columns."""
    return (
        SavedArray(data, of, FLOAT, "z"),
        SavedArray(indptr, of, WHOLE, f"{rows}+1", ends="z"),
        SavedArray(indices, of, WHOLE, "z", low=0, below="d", rows=indptr),
    )


# K scores of a row of d columns; k classes, and c caps of them, or of numbers 1; m support rows of n of the training;
# D columns of a mapped row; a matrix of i rows and j columns, of rank r
ARRAYS = (
    SavedArray("classes", "listed", LABEL, "k", unequal=True),
    SavedArray("classes", "packed", PACKED, "?", names="k", unequal=True),  # long text
    SavedArray("classes", "ratings", LABEL, "0"),
    SavedArray("features", "before", WHOLE, "", low=1, below="4294967296", size="d"),
    SavedArray("centers", "before", FLOAT, "d|0"),
    SavedArray("factors", "before", FLOAT, like="centers", low=0),
    SavedArray("intercept", "weights machine", REAL, "K"),
    SavedArray("coef", "linear", REAL, "K d"),
    SavedArray("means", "linear", FLOAT, "d", needed=False),
    SavedArray("deviations", "linear", FLOAT, like="means", low=0),
    SavedArray("coef", "mapped", REAL, "K D"),
    SavedArray("map", "mapped", UNICODE),
    SavedArray("dtype", "mapped", UNICODE, words=("float32", "float64")),
    SavedArray("map.directions", "rff", FLOAT, "d D/2"),
    SavedArray("map.projection", "nystroem", FLOAT, "D D"),
    SavedArray("map.landmarks", "nystroem_dense", FLOAT, "D d"),
    *_sparse("nystroem_sparse", "map.landmarks.data", "map.landmarks.indices", "map.landmarks.indptr", "D"),
    SavedArray("map.landmarks.shape", "nystroem_sparse", WHOLE, "2", equals="D d"),
    SavedArray("map.*", "mapped", ANY, "*", needed=False),  # of anybody's map, which knows its shapes
    SavedArray("kernel", "machine", UNICODE),
    SavedArray("dual_coef", "machine", FLOAT, "K m"),
    SavedArray("support", "dense sparse", WHOLE, "m", low=0, below="n"),
    SavedArray("support", "precomputed", WHOLE, "m", low=0, below="d"),
    SavedArray("values", "dense", FLOAT, "m d"),
    SavedArray("values", "precomputed", FLOAT, "m 0"),
    SavedArray("indices", "dense precomputed", WHOLE, "0"),
    SavedArray("indptr", "dense precomputed", WHOLE, "0"),
    *_sparse("sparse", "values", "indices", "indptr", "m"),
    SavedArray("left", "factors", FLOAT, "i r"),
    SavedArray("right", "factors", FLOAT, "j r"),
    SavedArray("proof.places", "factors", WHOLE, "e", needed=False, low=0, below="i*j"),
    SavedArray("proof.duals", "factors", FLOAT, like="proof.places"),
    SavedArray("row_names", "ratings", BYTES, "?", names="i"),
    SavedArray("column_names", "ratings", BYTES, "?", names="j"),
    SavedArray("transform", "rows", UNICODE, "t", needed=False),
    SavedArray("transform.dtypes", "rows", UNICODE, like="transform"),
    SavedArray("transform.*", "rows", ANY, "*", needed=False),  # of steps, which know their shapes
    SavedArray("feature_names", "rows", BYTES, "?", needed=False, names="d"),
    SavedArray("caps", "together", FLOAT, "c", needed=False, low=0, inf=True),
    SavedArray("caps", "each", FLOAT, "K c", needed=False, low=0, inf=True),
    SavedArray("center", "rows", FLOAT, "d", needed=False),
    SavedArray("factor", "rows", FLOAT, like="center", low=0),
    SavedArray("groups", "rows", WHOLE, "d", needed=False),
    SavedArray("calibration.counts", "calibrated", WHOLE, "K 2 4096", low=0),
    SavedArray("calibration.scale", "calibrated", FLOAT, "K 2"),
    SavedArray("calibration.sigmoid", "sigmoid", FLOAT, "K 2"),
    SavedArray("calibration.scores", "isotonic", FLOAT, "q", ascends=True),
    SavedArray("calibration.probabilities", "isotonic", FLOAT, "K q", low=0, most=1),
)


class HeaderEntry(NamedTuple):
    """An entry of the header of models that have the trait `of`, by its path; * is any item, or any name.

    `types`: what it may be: number (finite), inf, whole, text, flag, list, table, null. `needed`: by models that have
    this trait. `above`, `most`: of numbers, exclusive and inclusive. `size`: the letter of its length; `equals`: what
    it is by these letters. `words`: all that a text may be. `unequal`: all items are different. `ascends`: they are in
    order.
    """

    path: str
    of: str
    types: str
    needed: str = ""
    above: float = -math.inf
    most: float = math.inf
    size: str = ""
    equals: str = ""
    words: tuple[str, ...] = ()
    unequal: bool = False
    ascends: bool = False


CERTIFICATE_FIGURES = ("primal", "dual", "gap", "mean_gap", "margin_lower", "margin_upper", "margin_gap", "residual",
                       "mistakes", "train_error", "valid_error")  # fmt: skip
ENTRIES = (  # proven: models whose objective is known; others, and older ones, need none of these to predict
    HeaderEntry("loss", "rows", "text", "proven"),
    HeaderEntry("loss", "ratings", "text", "ratings"),
    HeaderEntry("penalty", "rows", "text", "proven"),
    HeaderEntry("C", "rows", "number inf", "proven", above=0),
    HeaderEntry("C", "ratings", "number", "ratings", above=0),
    HeaderEntry("p", "rows", "number", "proven", above=1, most=2),
    HeaderEntry("rows", "rows", "whole null", "proven", above=-1),
    HeaderEntry("rows", "ratings", "whole", "ratings", above=0),
    HeaderEntry("measured_rows", "rows", "whole null", above=0),
    HeaderEntry("train_loss", "rows", "number null"),
    HeaderEntry("positive", "rows", "text number flag null", "proven"),
    HeaderEntry("classes", "rows", "list null", "proven"),
    HeaderEntry("classes.*", "rows", "text number flag"),
    HeaderEntry("multiclass", "rows", "text null"),
    HeaderEntry("outputs", "rows", "list null", size="K"),
    HeaderEntry("outputs.*", "rows", "text"),
    HeaderEntry("tasks", "rows", "list null", size="K", unequal=True),
    HeaderEntry("tasks.*", "rows", "text number flag"),
    HeaderEntry("label_column", "rows", "text whole null"),
    HeaderEntry("table", "rows", "table null"),  # `sources/schema.py` checks it
    HeaderEntry("problem", "rows", "table null"),
    HeaderEntry("problem.constant", "proven", "table", "proven"),
    HeaderEntry("problem.constant.kind", "proven", "text", "proven", words=("penalised", "free", "midway", "none")),
    HeaderEntry("problem.constant.value", "proven", "number", "proven"),
    HeaderEntry("problem.shift", "proven", "number list", "proven", size="K"),
    HeaderEntry("problem.shift.*", "proven", "number"),
    HeaderEntry("problem.joint", "proven", "flag", "proven"),
    HeaderEntry("problem.lines", "proven", "whole", "proven", above=0),
    HeaderEntry("problem.weighted", "proven", "flag", "proven"),
    HeaderEntry("problem.of_folds", "proven", "flag"),
    HeaderEntry("problem.constant_in_columns", "proven", "flag"),
    HeaderEntry("problem.left_out", "proven", "list null"),
    HeaderEntry("problem.left_out.*", "proven", "whole"),
    HeaderEntry("problem.names", "proven", "table", "proven"),
    *(
        HeaderEntry(f"problem.names.{name}", "proven", "text null")
        for name in ("x", "y", "sample_weight", "mask", "tasks", "columns")
    ),
    HeaderEntry("calibrate", "rows", "text null"),
    HeaderEntry("certificate", "rows ratings", "table", "proven ratings"),
    *(
        HeaderEntry(f"certificate.{one}", "rows ratings", "number inf null", "proven ratings")
        for one in CERTIFICATE_FIGURES
    ),
    HeaderEntry("certificate.per_class", "rows ratings", "list null", "proven ratings"),
    HeaderEntry("certificate.per_class.*", "rows ratings", "table"),
    HeaderEntry("certificate.per_class.*.*", "rows ratings", "number inf null"),
    HeaderEntry("levels", "ratings", "list", "ratings", unequal=True, ascends=True),
    HeaderEntry("levels.*", "ratings", "number"),
    HeaderEntry("names", "ratings", "list null"),
    HeaderEntry("names.*", "ratings", "text"),
    HeaderEntry("sides", "ratings", "list", equals="i j"),
    HeaderEntry("rank", "ratings", "whole", equals="r"),
)
