"""streammargin info DATA|MODEL [--json]"""

from __future__ import annotations

import argparse
import json
import zipfile
from typing import Any

from streammargin.cli.options import add_common, add_data_names


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of info."""
    parser.add_argument("path", metavar="DATA|MODEL")
    add_data_names(parser)
    parser.add_argument("--memory", default="1G", metavar="SIZE", help="for which to plan blocks, default 1G")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--liblinear", metavar="OUT", help="write the model as liblinear's text model file")
    parser.add_argument("--force", action="store_true", help="replace an existing OUT")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    """Describe a file without compiling anything."""
    from streammargin.errors import UsageError
    from streammargin.plain import to_plain

    if zipfile.is_zipfile(options.path):
        facts = _model(options)
    elif options.liblinear:
        raise UsageError(f"--liblinear exports a model, and {options.path} is none; train one first")
    else:
        facts = _data(options)
    if options.json:
        print(json.dumps(to_plain(facts), allow_nan=False))
        return 0
    for key, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{k}: {v}" for k, v in value.items() if k != "per_class")
        print(f"{key:<12} {value}")
    return 0


def _model(options: argparse.Namespace) -> dict[str, Any]:
    from streammargin.model.io import export_liblinear, load_model

    model = load_model(options.path)
    if options.liblinear:
        export_liblinear(model, options.liblinear, options.force)
    return {
        "kind": "model",
        "features": model.coef_.shape[1],
        "classes": [str(label) for label in model.classes_.tolist()],
        "nonzeros": int((model.coef_ != 0.0).sum()),
        **{key: value for key, value in model.header.items() if key not in ("features", "classes")},
    }


def _data(options: argparse.Namespace) -> dict[str, Any]:
    from streammargin.data.labels import census
    from streammargin.data.open import open_source
    from streammargin.driver.plan import make_plan, parse_size
    from streammargin.errors import DataError

    with open_source(options.path, x=options.x, y=options.y) as source:
        try:
            classes, _, counts = census(source.labels(), source.rows)
            labels: Any = {str(c): int(n) for c, n in zip(classes[:100].tolist(), counts[:100].tolist(), strict=True)}
        except DataError as error:
            labels = f"none ({error})"
        plan = make_plan(source, parse_size(options.memory), 0)
        return {
            "kind": "data",
            "rows": source.rows,
            "features": source.features,
            "nnz": source.nnz,
            "dtype": str(source.dtype),
            "labels": labels,
            "layout": source.layout(),
            "plan": {"blocks": plan.blocks, "block_rows": plan.block_rows, "memory_bytes": plan.memory_bytes},
            "fingerprint": source.fingerprint(),
        }
