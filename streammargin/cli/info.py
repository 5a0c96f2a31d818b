"""streammargin info DATA|MODEL [--json]"""

from __future__ import annotations

import argparse
import json
import zipfile
from typing import Any

from streammargin.cli.options import add_common, add_data_names, name
from streammargin.files import check_apart, check_input
from streammargin.json_values import to_plain
from streammargin.wording import one_line

SHOWN = 20  # labels


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of info."""
    parser.add_argument("path", nargs="+", metavar="DATA|MODEL", help="several data files are shards of one data set")
    add_data_names(parser)
    parser.add_argument(
        "--memory", default="1G", metavar="SIZE", help="for which to plan the reading, or for a model, default 1G"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--liblinear", type=name, metavar="OUT", help="write the model as liblinear's text model file")
    parser.add_argument("--force", action="store_true", help="replace an existing OUT")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    """Describe a file without compiling anything."""
    from streammargin.errors import UsageError
    from streammargin.sizes import parse_size

    budget = parse_size(options.memory)
    for path in options.path:
        check_input(path)
    if zipfile.is_zipfile(options.path[0]):
        if len(options.path) > 1:
            raise UsageError("info shows one model at a time; only data files can be shards of one set")
        check_apart({"the export": options.liblinear}, options.path)
        facts = _model(options)
    elif options.liblinear:
        raise UsageError(f"--liblinear exports a model, and {options.path[0]} is none; train one first")
    else:
        facts = _data(options, budget)
    if options.json:
        print(json.dumps(to_plain(facts), allow_nan=False))
        return 0
    for key, value in facts.items():
        if value is not None:
            print(f"{key.replace('_', ' '):<12} {_plainly(key, value)}")
    return 0


def _plainly(key: str, value: Any) -> str:
    """A fact as people read it."""
    if key == "labels" and isinstance(value, dict):
        return _shortened([f"{label}: {rows}" for label, rows in value.items()])
    if isinstance(value, dict):
        parts = {k: v for k, v in value.items() if v is not None and k != "per_class"}
        return ", ".join(f"{k.removesuffix('_bytes').replace('_', ' ')}: {_plainly(k, v)}" for k, v in parts.items())
    if isinstance(value, list) and key == "classes":
        return _shortened([str(part) for part in value])
    if key.endswith("_bytes"):
        return f"{value / 2**20:.1f} MiB"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(f"{value:.6g}" if isinstance(value, float) else str(value))


def _shortened(parts: list[str]) -> str:
    more = f", ... ({len(parts)} in all)" if len(parts) > SHOWN else ""
    return ", ".join(one_line(part) for part in parts[:SHOWN]) + more


def _model(options: argparse.Namespace) -> dict[str, Any]:
    from streammargin.model.io import export_liblinear, load_model
    from streammargin.model.linear import LinearModel

    model = load_model(options.path[0], options.memory)
    if options.liblinear:
        export_liblinear(model, options.liblinear, options.force)
    return {
        "kind": "model",
        "features": model.answer.features,
        "classes": [str(label) for label in model.classes_.tolist()],
        **({"nonzeros": int((model.coef_ != 0.0).sum())} if isinstance(model, LinearModel) else {}),
        **{key: value for key, value in model.header.items() if key not in ("features", "classes")},
    }


def _data(options: argparse.Namespace, budget: int) -> dict[str, Any]:
    from streammargin.data.labels import census
    from streammargin.data.open import open_source
    from streammargin.driver.plan import make_plan
    from streammargin.errors import DataError, UsageError

    with open_source(options.path, x=options.x, y=options.y) as source:
        try:
            if source.column_bytes() > budget:
                make_plan(source, budget, source.column_bytes())  # says how much counting the labels takes
            classes, _, counts = census(source.labels(), source.rows, source.name, source.label_place, coded=False)
            labels: Any = {str(c): int(n) for c, n in zip(classes.tolist(), counts.tolist(), strict=True)}
        except (DataError, UsageError) as error:
            labels = f"none ({error.in_shell})"
        reading: Any
        try:
            plan = make_plan(source, budget, 0)
            reading = {"blocks": plan.blocks, "block_rows": plan.block_rows, "memory_bytes": plan.memory_bytes}
        except UsageError as error:
            reading = f"none ({error.in_shell})"
        return {
            "kind": "data",
            "rows": source.rows,
            "features": source.features,
            "nnz": source.nnz,
            "dtype": str(source.dtype),
            "labels": labels,
            "layout": source.layout(),
            "reading_plan": reading,
            "fingerprint": source.fingerprint(),
        }
