"""The fields of model files: the table of their arrays, and that of the entries of their headers.

`saved.py` checks each field before anything uses it, and nothing else asks for types, shapes or ranges. A new kind of
model is a line of KINDS, and a line for each of its fields; docs/model_file.md lists the arrays.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# by the name of the kind in the header: the traits that fields go by; `saved.py` adds those of the file at hand
KINDS = {
    "linear": {"weights", "linear"},
    "mapped": {"weights", "mapped", "before"},
    "expansion": {"machine", "before"},
    "factors": {"factors"},
}
FLOAT = ("f4", "f8")  # letters and bytes of NumPy's types
WHOLE = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
REAL = (*FLOAT, *WHOLE)
TEXT, BYTES, PACKED, LABEL, ANY = ("U",), ("u1",), ("S1",), (*REAL, "b1", "U"), ()
CALLED = {FLOAT: "floats", WHOLE: "whole numbers", REAL: "real numbers", TEXT: "text", BYTES: "bytes", PACKED: "S1",
          LABEL: "labels"}  # fmt: skip


class Array(NamedTuple):
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


def _sparse(of: str, data: str, indices: str, indptr: str, rows: str) -> tuple[Array, ...]:
    """The arrays of sparse rows of d columns."""
    return (
        Array(data, of, FLOAT, "z"),
        Array(indptr, of, WHOLE, f"{rows}+1", ends="z"),
        Array(indices, of, WHOLE, "z", low=0, below="d", rows=indptr),
    )


# K scores of a row of d columns; k classes, and c caps of them, or of numbers 1; m support rows of n of the training;
# D columns of a mapped row; a matrix of i rows and j columns, of rank r
ARRAYS = (
    Array("classes", "listed", LABEL, "k", unequal=True),
    Array("classes", "packed", PACKED, "?", names="k", unequal=True),  # long text
    Array("classes", "ratings", LABEL, "0"),
    Array("features", "before", WHOLE, "", low=1, below="4294967296", size="d"),
    Array("centers", "before", FLOAT, "d|0"),
    Array("factors", "before", FLOAT, like="centers", low=0),
    Array("intercept", "weights machine", REAL, "K"),
    Array("coef", "linear", REAL, "K d"),
    Array("means", "linear", FLOAT, "d", needed=False),
    Array("deviations", "linear", FLOAT, like="means", low=0),
    Array("coef", "mapped", REAL, "K D"),
    Array("map", "mapped", TEXT),
    Array("dtype", "mapped", TEXT, words=("float32", "float64")),
    Array("map.directions", "rff", FLOAT, "d D/2"),
    Array("map.projection", "nystroem", FLOAT, "D D"),
    Array("map.landmarks", "nystroem_dense", FLOAT, "D d"),
    *_sparse("nystroem_sparse", "map.landmarks.data", "map.landmarks.indices", "map.landmarks.indptr", "D"),
    Array("map.landmarks.shape", "nystroem_sparse", WHOLE, "2", equals="D d"),
    Array("map.*", "mapped", ANY, "*", needed=False),  # of anybody's map, which knows its shapes
    Array("kernel", "machine", TEXT),
    Array("dual_coef", "machine", FLOAT, "K m"),
    Array("support", "dense sparse", WHOLE, "m", low=0, below="n"),
    Array("support", "precomputed", WHOLE, "m", low=0, below="d"),
    Array("values", "dense", FLOAT, "m d"),
    Array("values", "precomputed", FLOAT, "m 0"),
    Array("indices", "dense precomputed", WHOLE, "0"),
    Array("indptr", "dense precomputed", WHOLE, "0"),
    *_sparse("sparse", "values", "indices", "indptr", "m"),
    Array("left", "factors", FLOAT, "i r"),
    Array("right", "factors", FLOAT, "j r"),
    Array("proof.places", "factors", WHOLE, "e", needed=False, low=0, below="i*j"),
    Array("proof.duals", "factors", FLOAT, like="proof.places"),
    Array("row_names", "ratings", BYTES, "?", names="i"),
    Array("column_names", "ratings", BYTES, "?", names="j"),
    Array("transform", "rows", TEXT, "t", needed=False),
    Array("transform.dtypes", "rows", TEXT, like="transform"),
    Array("transform.*", "rows", ANY, "*", needed=False),  # of steps, which know their shapes
    Array("feature_names", "rows", BYTES, "?", needed=False, names="d"),
    Array("caps", "together", FLOAT, "c", needed=False, low=0, inf=True),
    Array("caps", "each", FLOAT, "K c", needed=False, low=0, inf=True),
    Array("center", "rows", FLOAT, "d", needed=False),
    Array("factor", "rows", FLOAT, like="center", low=0),
    Array("groups", "rows", WHOLE, "d", needed=False),
    Array("calibration.counts", "calibrated", WHOLE, "K 2 4096", low=0),
    Array("calibration.scale", "calibrated", FLOAT, "K 2"),
    Array("calibration.sigmoid", "sigmoid", FLOAT, "K 2"),
    Array("calibration.scores", "isotonic", FLOAT, "q", ascends=True),
    Array("calibration.probabilities", "isotonic", FLOAT, "K q", low=0, most=1),
)


class Entry(NamedTuple):
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


FIGURES = ("primal", "dual", "gap", "mean_gap", "margin_lower", "margin_upper", "margin_gap", "residual", "mistakes",
           "train_error", "valid_error")  # fmt: skip
ENTRIES = (  # proven: models whose objective is known; others, and older ones, need none of these to predict
    Entry("loss", "rows", "text", "proven"),
    Entry("loss", "ratings", "text", "ratings"),
    Entry("penalty", "rows", "text", "proven"),
    Entry("C", "rows", "number inf", "proven", above=0),
    Entry("C", "ratings", "number", "ratings", above=0),
    Entry("p", "rows", "number", "proven", above=1, most=2),
    Entry("rows", "rows", "whole null", "proven", above=-1),
    Entry("rows", "ratings", "whole", "ratings", above=0),
    Entry("measured_rows", "rows", "whole null", above=0),
    Entry("positive", "rows", "text number flag null", "proven"),
    Entry("classes", "rows", "list null", "proven"),
    Entry("classes.*", "rows", "text number flag"),
    Entry("multiclass", "rows", "text null"),
    Entry("outputs", "rows", "list null", size="K"),
    Entry("outputs.*", "rows", "text"),
    Entry("tasks", "rows", "list null", size="K", unequal=True),
    Entry("tasks.*", "rows", "text number flag"),
    Entry("label_column", "rows", "text whole null"),
    Entry("table", "rows", "table null"),  # `sources/schema.py` checks it
    Entry("problem", "rows", "table null"),
    Entry("problem.constant", "proven", "table", "proven"),
    Entry("problem.constant.kind", "proven", "text", "proven", words=("penalised", "free", "midway", "none")),
    Entry("problem.constant.value", "proven", "number", "proven"),
    Entry("problem.shift", "proven", "number list", "proven", size="K"),
    Entry("problem.shift.*", "proven", "number"),
    Entry("problem.joint", "proven", "flag", "proven"),
    Entry("problem.lines", "proven", "whole", "proven", above=0),
    Entry("problem.weighted", "proven", "flag", "proven"),
    Entry("problem.of_folds", "proven", "flag"),
    Entry("problem.left_out", "proven", "list null"),
    Entry("problem.left_out.*", "proven", "whole"),
    Entry("problem.names", "proven", "table", "proven"),
    *(
        Entry(f"problem.names.{name}", "proven", "text null")
        for name in ("x", "y", "sample_weight", "mask", "tasks", "columns")
    ),
    Entry("calibrate", "rows", "text null"),
    Entry("certificate", "rows ratings", "table", "proven ratings"),
    *(Entry(f"certificate.{one}", "rows ratings", "number inf null", "proven ratings") for one in FIGURES),
    Entry("certificate.per_class", "rows ratings", "list null", "proven ratings"),
    Entry("certificate.per_class.*", "rows ratings", "table"),
    Entry("certificate.per_class.*.*", "rows ratings", "number inf null"),
    Entry("levels", "ratings", "list", "ratings", unequal=True, ascends=True),
    Entry("levels.*", "ratings", "number"),
    Entry("names", "ratings", "list null"),
    Entry("names.*", "ratings", "text"),
    Entry("sides", "ratings", "list", equals="i j"),
    Entry("rank", "ratings", "whole", equals="r"),
)
