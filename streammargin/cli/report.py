"""streammargin report MODEL [LOG] [--test DATA] -o FILE"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from streammargin.cli.options import SCORED, add_lacking, add_lines, argument, check_kind, name
from streammargin.cli.remarks import Remarks, say
from streammargin.errors import DataError, UsageError
from streammargin.files import check_apart, check_input, check_output
from streammargin.json_values import from_plain
from streammargin.kinds import ALL_THREADS, ColumnNames
from streammargin.model.wrong import wrong_rows
from streammargin.ordered import files_read
from streammargin.report.page import Facts, write_page
from streammargin.sizes import parse_size

LOG_LINE_CHARACTERS = 64 << 20


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the report."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("log", nargs="?", metavar="LOG", help="the log of its training, which --log-json wrote")
    parser.add_argument("-o", "--output", type=name, required=True, metavar="FILE", help="the HTML page")
    parser.add_argument("--test", nargs="+", type=name, metavar="DATA", help="labelled rows to judge the model on")
    parser.add_argument("--id", type=argument(ColumnNames().read), default=(), metavar="NAME[,NAME]",
                        help="columns of --test that name the worst rows, as in predict")  # fmt: skip
    add_lines(parser, ("x", "y", "tasks"), SCORED)
    add_lacking(parser, "--missing-columns", "--unknown")
    parser.add_argument(
        "--memory", default="256M", metavar="SIZE", help="memory for the model and blocks of rows (default 256M)"
    )
    add_lines(parser, ("threads",))
    parser.add_argument("--force", action="store_true", help="replace an existing FILE")


def run(options: argparse.Namespace) -> int:
    """Write the page."""
    from streammargin.model.io import load_model

    tested = options.test or []
    columns = [one for one in (options.y, options.tasks, *options.id) if isinstance(one, str)]
    made = {"the report": options.output}
    check_apart(made, [options.model, options.log, *tested])  # by name, before "exists; use --force"
    check_output(options.output, options.force)
    check_apart(made, [options.model, options.log, *files_read(tested, x=options.x, columns=columns)])
    memory = parse_size(options.memory)
    model = load_model(options.model, memory)
    if model.of_pairs:
        raise UsageError("a report is on a model of rows, and this is a completed matrix; see evaluate and info")
    options.columns = None
    check_kind(options, model.of_pairs)
    events = [] if options.log is None else events_of(options.log, model.header)
    judged = None
    if tested:
        names = {name: getattr(options, name) for name in ("x", "y", "tasks", "missing_columns", "unknown")}
        threads = options.threads or ALL_THREADS
        with Remarks():
            data = tested if len(tested) > 1 else tested[0]
            judged = wrong_rows(model, data, memory=memory, threads=threads, id=options.id, **names)
    logged = any(one["event"] == "run_start" and [(one.get("data") or {}).get("path")] == tested for one in events)
    own = model.was_trained_on(judged or {}, logged)
    facts = Facts(model, options.model, events, ", ".join(tested), judged, training=own)
    write_page(facts, options.output, options.force)
    say(f"report written to {options.output}")
    return 0


def events_of(path: str, header: Mapping[str, Any]) -> list[dict[str, Any]]:
    """At most 10,000 events of a log. Raises DataError for a file that is none, or is of another model."""
    from streammargin.driver.status.events import History

    check_input(path, "log")
    history = History()
    with open(path, encoding="utf-8", errors="replace") as file:
        for place, line in enumerate(iter(lambda: file.readline(LOG_LINE_CHARACTERS), ""), 1):
            event = _event(line)
            if event is None and place > 1 and not line.endswith("\n") and len(line) < LOG_LINE_CHARACTERS:
                break  # the run was killed while it wrote
            if event is None:
                raise DataError(
                    f"{path}: line {place} is not an event of a training; give the file that --log-json wrote, and "
                    "rows by --test"
                )
            history.publish(event)
    kinds = {event["event"]: event for event in history.events}
    if "run_start" not in kinds:
        raise DataError(f"{path} does not begin a training; give the file that --log-json wrote")
    end, certificate = kinds.get("run_end", {}), header.get("certificate") or {}
    told = {"C": header.get("C"), "passes": header.get("passes_done"), "gap": certificate.get("gap")}
    if differs := [name for name, value in told.items() if end and end.get(name) != value]:
        raise DataError(f"{path} is the log of another training: its {differs[0]} is not that of the model")
    return history.events


def _event(line: str) -> dict[str, Any] | None:
    """The event of a line; None if it is none."""
    try:
        event = from_plain(json.loads(line))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None
