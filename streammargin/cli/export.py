"""streammargin export MODEL --to FORM -o OUT"""

from __future__ import annotations

import argparse
import logging

from streammargin.cli.options import name
from streammargin.cli.remarks import Remarks, say
from streammargin.files import check_apart, check_output

FORMS = ("json", "onnx", "liblinear", "celltypist", "csv")  # as of model/exports/files.py, which is loaded later


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of export."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--to", required=True, choices=FORMS, help="json: weights by column and category; onnx: for "
                        "onnxruntime, needs skl2onnx; liblinear: its text model; celltypist: its model, of cells; "
                        "csv: a weight a line")  # fmt: skip
    parser.add_argument("-o", "--output", required=True, type=name, metavar="OUT", help="the file to write")
    parser.add_argument("--memory", default="1G", metavar="SIZE", help="memory for reading the model (default 1G)")
    parser.add_argument("--force", action="store_true", help="replace an existing OUT")


def run(options: argparse.Namespace) -> int:
    """Write the model; nothing is left of a file that could not be completed."""
    from streammargin.model.exports.files import export
    from streammargin.model.io import load_model

    check_output(options.output, options.force)
    check_apart({"the export": options.output}, [options.model])
    with Remarks(logging.INFO):
        export(load_model(options.model, options.memory), options.to, options.output, options.force)
    say(f"model written to {options.output}, as {options.to}")
    return 0
