"""streammargin info DATA|MODEL [--json], streammargin info --kernels [--json]"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from streammargin.cli.options import add_lines, argument, name
from streammargin.errors import DataError, UsageError
from streammargin.files import check_input
from streammargin.json_values import to_plain
from streammargin.kinds import Whole
from streammargin.sizes import parse_size
from streammargin.sources.base import Source
from streammargin.sources.schema import CATEGORY, DATE, OTHER, TEXT, Column, Schema
from streammargin.wording import counted, in_list, in_shell, printable, short, shortened

NAMED = 5  # names
NAME_FACT, TOP_FACT, OVERALL, TABLE, HELD_OUT = "feature_names", "top_features", "top_columns", "table", "held_out_rows"
OF_PROGRAMS = ("problem", "measured_rows", "train_loss", HELD_OUT)  # facts that only --json shows as they are
REMARK = "remark"  # on the weights
WORDS = "words"  # of a hashed column


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of info."""
    parser.add_argument("path", nargs="*", metavar="DATA|MODEL", help="several data files are shards of one data set")
    parser.add_argument(
        "--kernels", action="store_true", help="show instead which compiled kernels come with the package, are cached "
        "or are missing",
    )  # fmt: skip
    add_lines(parser, ("x", "y"))
    parser.add_argument(
        "--memory", default="1G", metavar="SIZE", help="memory for reading the data or the model (default 1G)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--top", type=argument(lambda text: Whole(1).check("top", Whole(1).read(text))), metavar="N",
        help="the N columns that matter most to each class: by the weight for the column as DATA has it, times its "
        "standard deviation",
    )  # fmt: skip
    parser.add_argument(
        "--words", type=name, metavar="TABLE", help="with --top, for a model of text: the words of TABLE in these "
        "columns, and how often each occurs; TABLE is that of the training, or another with the same text column",
    )  # fmt: skip


def _names(names: np.ndarray | None) -> dict[str, Any] | None:
    """How many names columns have, and the first of them."""
    return None if names is None else {"count": len(names), "first": names[:NAMED].tolist()}


def run(options: argparse.Namespace) -> int:
    """Describe a file without compiling anything."""
    from streammargin.sources.open import check_rows

    if options.kernels == bool(options.path):
        raise UsageError("give info a data file or a model, or --kernels")
    if options.kernels:
        return _kernels(options.json)
    budget = parse_size(options.memory)
    for path in options.path:
        check_rows(path)
    if _is_archive(options.path[0]):
        if len(options.path) > 1:
            raise UsageError("info shows one model at a time; only data files can be shards of one set")
        facts = _model(options)
    elif options.top is not None or options.words is not None:
        raise UsageError(f"--top shows the weights of a model, and {options.path[0]} is not one; train one first")
    else:
        facts = _data(options, budget)
    if options.json:
        print(json.dumps(to_plain(facts), allow_nan=False))
        return 0
    top, overall, table = facts.pop(TOP_FACT, []), facts.pop(OVERALL, []), facts.pop(TABLE, None)
    remark = facts.pop(REMARK, "")
    if held_out := facts.get(HELD_OUT):
        facts["rows"] = f"{facts['rows'] - held_out} of {facts['rows']}, {held_out} held out"
    schema = None if table is None else Schema.from_plain(table)
    hashed = schema is not None and schema.hashed
    unnamed = "none: hashed words have none; the columns of the table are below" if hashed else "none"
    for key, value in facts.items():
        if ((value is not None and value != []) or key == NAME_FACT) and key not in OF_PROGRAMS:
            print(f"{key.replace('_', ' '):<12} {_plainly(key, unnamed if value is None else value)}")
    if schema is not None:
        lines = table_lines(schema)
        print("\n".join(f"{TABLE if not place else '':<12} {line}" for place, line in enumerate(lines)))
    for part in top:
        print("\n".join(_weights(part, facts)))
    if overall:
        print("columns by their effect on all scores:")
    for one in overall:
        print(f"{one['effect']:>12.5g}  {_name(one)}")
    if remark:
        print(remark)
    if top and hashed and options.words is None:
        print("--words TABLE names the words of numbered columns; TABLE has the texts")
    return 0


def _kernels(as_json: bool) -> int:
    """Say what is compiled already."""
    from streammargin.compiled.inventory import inventory

    found = inventory()
    if as_json:
        print(json.dumps(found))
        return 0
    for one in found["shipped"]:
        versions = f" by Numba {one['numba']} for {one['processor']}" if "numba" in one else ""
        used = f"not taken: {one['unused']}" if one["unused"] else "taken"
        print(f"{'shipped':<12} {one['for']}: {one['kernels']}{versions}, {used}")
    if not found["shipped"]:
        print(f"{'shipped':<12} none: this installation was not made from a wheel with kernels")
    for one in found["cached"]:
        print(f"{'cached':<12} {one['folder']}: {one['kernels']}")
    print(f"{'written':<12} {found['written'] or 'nowhere: set NUMBA_CACHE_DIR to a writable folder'}")
    print(f"{'missing':<12} {shortened(found['missing']) or 'none'}")
    return 0


def _weights(part: dict[str, Any], facts: dict[str, Any]) -> Iterator[str]:
    """The largest weights of a class, a line each below a heading."""
    label = part["label"]
    what = "predictions" if label is None else printable(str(label))
    alone = len(facts["classes"]) == 2 and facts.get("outputs") is None
    against = f" against {printable(facts['classes'][0])}" if alone else ""
    steps, scale = facts.get("transform"), facts.get("scale", "none")
    folded = "" if scale == "none" else f", after `scale={scale}`" if ":" in scale else ", scaling folded in"
    known = all(one["scaled_weight"] is not None for one in part["features"])
    times = " times the standard deviation of the column, and" if known else ","
    rows = f"behind the steps {steps}" if steps else "as stored"
    yield in_shell(f"weights of {what}{against}{times} for the columns {rows}{folded}:")
    for one in part["features"]:
        effect = f"{one['scaled_weight']:>12.5g}  " if known else ""
        yield f"{effect}{one['weight']:>12.5g}  {_name(one)}"


def _name(one: dict[str, Any]) -> str:
    """A column by its name, or by its number and its words."""
    if one["name"] is not None:
        return printable(one["name"])
    words = [f"{printable(short(word))} ({times})" for word, times in one.get(WORDS, ())]
    more = f" and {len(words) - NAMED} more" if len(words) > NAMED else ""
    return f"column {one['column']}{': ' * bool(words)}{', '.join(words[:NAMED])}{more}"


def _plainly(key: str, value: Any) -> str:
    """A fact as people read it."""
    if key == "labels" and isinstance(value, dict):
        return shortened([f"{in_list(label)}: {rows}" for label, rows in value.items()], str)
    if isinstance(value, dict):
        parts = {k: _plainly(k, v) for k, v in value.items() if v is not None and k != "per_class"}
        return ", ".join(f"{k.removesuffix('_bytes').replace('_', ' ')}: {v}" for k, v in parts.items() if v)
    if isinstance(value, list) and key in ("classes", "outputs", "first"):
        return shortened([str(part) for part in value])
    if key.endswith("_bytes"):
        return f"{value / 2**20:.1f} MiB"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(f"{value:.6g}" if isinstance(value, float) else str(value))


def _is_archive(path: str) -> bool:
    """Whether a file begins as a zip archive does, as models do, and is no other archive; it may be truncated."""
    from streammargin.sources.kinds import kind_of

    with contextlib.suppress(OSError), open(path, "rb") as file:
        start = file.read(4)
        return start == b"PK\x03\x04" and kind_of(path, start) is None
    return False


def _model(options: argparse.Namespace) -> dict[str, Any]:
    from streammargin.model.io import load_model
    from streammargin.model.linear import LinearModel

    model = load_model(options.path[0], options.memory)
    top: dict[str, Any] = {}
    if options.top is not None:
        if not isinstance(model, LinearModel):
            raise UsageError("--top shows the weights of columns, and this model has none: it is not linear")
        top = {TOP_FACT: model.top_features(options.top), REMARK: in_shell(model.remark)}
        if len(model.coef_) > 1:
            top[OVERALL] = model.top_columns(options.top)
    if options.words is not None:
        _add_words(model, top, options)
    if model.of_pairs:
        return {"kind": "completed matrix", **model.header}
    return {
        "kind": "model",
        "features": model.answer.features,
        "classes": [str(label) for label in model.classes_.tolist()],  # none of numbers
        NAME_FACT: _names(model.feature_names_in_),
        **({"nonzeros": int((model.coef_ != 0.0).sum())} if isinstance(model, LinearModel) else {}),
        **{key: value for key, value in model.header.items() if key not in ("features", "classes")},
        "trained_on": (model.header.get("problem") or {}).get("names", {}).get("x"),
        HELD_OUT: model.held_out_rows,
        **top,
    }


def _add_words(model: Any, top: dict[str, Any], options: argparse.Namespace) -> None:
    """Add the words of a table to the hashed columns among these."""
    from streammargin.model.tables import words_of

    if not top:
        raise UsageError("--words shows words of the columns that --top lists; give --top, too")
    if model.schema is None or not model.schema.hashed:
        raise UsageError("--words is for a model that was trained with --text; the columns of this one have names")
    check_input(options.words, "table")
    shown = [*top.get(OVERALL, ()), *(one for part in top[TOP_FACT] for one in part["features"])]
    found = words_of(model.schema, options.words, {int(one["column"]) for one in shown}, parse_size(options.memory))
    for one in shown:
        if one["column"] in found:
            one[WORDS] = found[one["column"]]


def _labels(source: Source) -> Any:
    """The rows of each class; of several columns their number."""
    from streammargin.sources.labels import census

    outputs = source.outputs()
    if outputs is not None and len(outputs) > 1:
        return f"{len(outputs)} columns"
    classes, _, counts = census(source.labels(), source.rows, source.name, source.label_place, coded=False)
    return {str(c): int(n) for c, n in zip(classes.tolist(), counts.tolist(), strict=True)}


def _or_why(fact: Callable[[], object]) -> object:
    """A fact, or why there is none."""
    try:
        return fact()
    except (DataError, UsageError) as error:
        return f"none ({error.in_shell})"


def _data(options: argparse.Namespace, budget: int) -> dict[str, Any]:
    from streammargin.reading.plan import column_names, make_plan
    from streammargin.sources.open import open_source

    with open_source(options.path, x=options.x, y=options.y) as source:

        def reading() -> dict[str, int]:
            plan = make_plan(source, budget, 0)
            return {"blocks": plan.blocks, "block_rows": plan.block_rows, "memory_bytes": plan.memory_bytes}

        def labels() -> object:
            if source.column_bytes() > budget:
                make_plan(source, budget, source.column_bytes())  # says how much counting the labels takes
            return _labels(source)

        outputs: Any = None
        with contextlib.suppress(DataError, UsageError):  # of the labels, as below
            outputs = source.outputs() if source.has_labels() else None
        return {
            "kind": "data",
            "rows": source.rows,
            "features": source.features,
            "nnz": source.nnz,
            "dtype": str(source.dtype),
            "labels": _or_why(labels),
            "outputs": outputs,
            NAME_FACT: _or_why(lambda: _names(column_names(source, budget))),
            "layout": source.layout(),
            "reading_plan": _or_why(reading),
            "fingerprint": source.fingerprint(),
        }


SHOWN_COLUMNS = 100


def table_lines(schema: Schema) -> Iterator[str]:
    """The columns of a table, one a line: what they hold, and what stands for their gaps."""
    labels = f"labels in {shortened(schema.labels)}" if schema.labels else "no labels"
    yield f"{counted(len(schema.columns), 'column')}, {labels}, read as {schema.dtype}:"
    for column in islice(schema.columns, SHOWN_COLUMNS):
        name = column.name if schema.named else f"column {column.name}"
        yield f"  {printable(name)}: {'; '.join(filter(None, (_held_by(column), _gaps(column))))}"
    if len(schema.columns) > SHOWN_COLUMNS:
        yield f"  ... ({len(schema.columns)} in all)"


def _held_by(column: Column) -> str:
    if column.kind == TEXT:
        return "text" + (f", sequences of up to {column.ngrams} words" if column.ngrams > 1 else "")
    if column.kind == CATEGORY:
        words = counted(len(column.words), "category")
        return f"{words} ({shortened(column.words)})" + (f", all others are {OTHER}" if column.other else "")
    if column.kind == DATE:
        since = f", days since {column.first}" if column.first else ""
        return f"dates ({column.spelling}){since}, and {counted(len(column.words), 'part')} ({shortened(column.words)})"
    mark, _, unit = column.spelling.partition(" ")
    marked = mark if "/" in mark else f"decimal {mark}{f', in {unit}' if unit else ''}"
    return f"numbers ({marked})" if column.spelling else "numbers"


def _gaps(column: Column) -> str:
    if column.fill is None:
        return ""
    filled = "zeros if missing" if column.kind in (CATEGORY, DATE) else f"{column.fill:.6g} if missing"
    if column.first:
        filled = f"day {column.fill:.6g} if missing"
    return filled + (", with a column of its own" if column.indicator else "")
