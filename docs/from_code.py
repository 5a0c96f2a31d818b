"""What pages take from the code: tables of options, losses, penalties and solvers, and one page for each class."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from formulas import typeset  # beside this file

from streammargin.cli.examples import examples
from streammargin.cli.main import EXIT_CODES, VERBS, build_parser
from streammargin.cli.words import serves_loss, serves_penalty
from streammargin.data_tools import main as data_tools
from streammargin.losses import LOSSES
from streammargin.penalties import PENALTIES
from streammargin.saved.fields import ARRAYS, CALLED, SavedArray
from streammargin.solvers.registry import SHORT_WORDS, SOLVER_CLASSES, TAKE, make_solver, names
from streammargin.training.fitting import usual_bytes
from streammargin.words import Thing

PROGRAMS = {  # command -> its verbs, and its parser with the options of one
    "streammargin": (VERBS, build_parser),
    "streammargin-data": (data_tools.VERBS, data_tools.build_parser),
}
ERRORS = ("StreamMarginError", "UsageError", "DataError", "InputMissingError", "OutputError", "ReadWriteError")


ROUTING = "get_metadata_routing, set_fit_request, set_partial_fit_request, set_score_request"  # scikit-learn's text


def _estimator(methods: str = "") -> tuple[str, ...]:
    return (f":members: fit, predict, score{methods}", ":inherited-members:", f":exclude-members: {ROUTING}")


API: dict[str, dict[str, tuple[str, ...]]] = {  # section -> name -> options of autodoc
    "train": {
        "train": (),
        "complete": (),
        "TrainResult": (),
        "result.Certificate": (":members: to_dict",),
        "result.CrossValidation": (),
        "Folds": (),
    },
    "models": {
        "load_model": (),
        "LinearModel": (":members:", ":inherited-members:", ":exclude-members: nbytes, answer"),
        "numpy_model.NumpyModel": (":members: predict, decision_function, predict_proba, rows",),
        "model.ratings.RatingsModel": (":members: predict, decision_function, evaluate, save",),
    },
    "data": {"open_source": (), "write_hdf5": (), "Source": (":members:",)},
    "estimators": {
        "MarginClassifier": _estimator(", partial_fit, decision_function, predict_proba, sparsify"),
        "MarginRegressor": _estimator(", sparsify"),
        "KernelMarginClassifier": _estimator(", decision_function"),
        "KernelMarginRegressor": _estimator(),
        "MarginClassifierCV": _estimator(", decision_function, predict_proba"),
        "MarginRegressorCV": _estimator(),
        "KernelMarginClassifierCV": _estimator(", decision_function"),
        "InterpolatingRegressor": _estimator(),
    },
    "cluster": dict.fromkeys(("dask.train", "dask.predict", "dask.decision_function", "dask.predict_proba"), ()),
    "errors": dict.fromkeys(ERRORS, ()),
}


def classes_of(folder: str) -> dict[str, tuple[str, ...]]:
    """Each public class of a folder: first what others derive from, with its methods."""
    module = import_module(f"streammargin.{folder}")
    classes = {found: getattr(module, found) for found in dir(module)}
    listed = sorted((not inspect.isabstract(cls), found) for found, cls in classes.items() if inspect.isclass(cls))
    return {f"{folder}.{found}": () if concrete else (":members:",) for concrete, found in listed}


API |= {folder: classes_of(folder) for folder in ("losses", "penalties", "kernels", "maps", "transforms", "solvers")}


def _object(name: str) -> Any:
    """What a public name stands for."""
    module, _, last = f"streammargin.{name}".rpartition(".")
    return getattr(import_module(module), last)


def _summary(documented: Any) -> str:
    """The first paragraph of a docstring."""
    return " ".join((inspect.getdoc(documented) or "").partition("\n\n")[0].split())


def write_pages(folder: Path) -> None:
    """What commands.md includes, and in `api` a page for each public name; those of names that are gone are removed."""
    pages = {folder / "commands.txt": commands()}
    for name, options in (one for section in API.values() for one in section.items()):
        pages[folder / "api" / f"{name}.rst"] = page_of(name, options)
    (folder / "api").mkdir(exist_ok=True)
    for path in {*(folder / "api").iterdir()} - pages.keys():
        path.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:  # a build makes only pages that changed
            path.write_text(text)


def page_of(name: str, options: Iterable[str] = ()) -> str:
    """The page of a public name, as reStructuredText."""
    found = _object(name)
    kind = "function" if not inspect.isclass(found) else "exception" if issubclass(found, Exception) else "class"
    shown = [f".. auto{kind}:: streammargin.{name}", *(f"   {option}" for option in options)]
    return "\n".join([name, "=" * len(name), "", *shown, ""])


def _cell(text: str) -> str:
    """Plain text in a table of Markdown; options are code, and code in backticks stays, as no code here has a bar."""
    parts = re.sub(r"(?<![\w`-])--[a-z][\w-]*(?![^`]*`)", r"`\g<0>`", text).split("`")
    return "`".join(
        part if number % 2 else re.sub(r"([\\|*<>_\[\]])", r"\\\1", part) for number, part in enumerate(parts)
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table as Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _listed(section: dict[str, tuple[str, ...]]) -> str:
    """A table of links to the pages of these names."""
    rows = []
    for name in section:
        found = _object(name)
        told = _summary(found)
        formula = any(found is cls for cls in (*LOSSES.values(), *PENALTIES.values()))
        rows.append([f"[`{name}`](api/{name}.rst)", typeset(told, _cell) if formula else _cell(told)])
    return _table(["name", "what it is"], rows)


def _with_fields(cls: type[Thing]) -> str:
    """The name of a loss, penalty or solver, and its parameters with their defaults."""
    entries = cls.entries() if issubclass(cls, Thing) else []
    fields = ", ".join(f"`{line.name}`" + (f" ({line.default})" if _given(line.default) else "") for line in entries)
    return f"`{cls.name}`" + (f": {fields}" if fields else "")


def _given(default: Any) -> bool:
    return isinstance(default, (bool, int, float, str)) and default != ""


def _supporters(serves: Callable[[Any, Any], bool], cls: Any) -> str:
    """The solvers that take a loss or a penalty; of a short name, only if the solver itself does not."""
    taking = [name for name in names()[1:] if serves(make_solver(name), cls)]
    return ", ".join(f"`{name}`" for name in taking if SHORT_WORDS.get(name, "").partition(":")[0] not in taking)


def _things(classes: dict[str, Any], serves: Callable[[Any, Any], bool]) -> str:
    """The losses or the penalties: name and parameters, formula, solvers."""
    rows = ([_with_fields(cls), typeset(_summary(cls), _cell), _supporters(serves, cls)] for cls in classes.values())
    return _table(["name, parameters (defaults)", "formula", "solvers"], rows)


def _solvers(shelf: str) -> str:
    """The solvers of a shelf."""
    rows = []
    for name, cls in SOLVER_CLASSES.items():
        if SOLVER_CLASSES.shelf(name) == shelf:
            each = "" if name == "auto" else str(usual_bytes(make_solver(name)))
            short = [f" `{one}` is `{meant}`." for one, meant in SHORT_WORDS.items() if meant.partition(":")[0] == name]
            rows.append([_with_fields(cls), _cell(_summary(cls)) + "".join(short), each])
    return _table(["name, parameters (defaults)", "what it is", "bytes a row"], rows)


MODELS = {  # by the traits of an array of a model file: in which models it is
    "rows": "all but `factors`", "listed": "all but `factors`", "packed": "the same, of long text",
    "ratings": "`factors`", "factors": "`factors`", "before": "`mapped`, `expansion`",
    "weights machine": "all but `factors`", "linear": "`linear`", "mapped": "`mapped`", "machine": "`expansion`",
    "rff": "`mapped` by `rff`", "nystroem": "`mapped` by `nystroem`", "nystroem_dense": "the same, dense rows",
    "nystroem_sparse": "the same, sparse rows", "dense": "`expansion`, dense rows",
    "sparse": "`expansion`, sparse rows", "precomputed": "`expansion`, `precomputed`",
    "dense sparse": "`expansion`, with rows", "dense precomputed": "`expansion`, but for sparse rows",
    "calibrated": "with `calibrate`", "sigmoid": "by `sigmoid`", "isotonic": "by `isotonic`",
    "together": "all but `factors`", "each": "the same, of several labels or tasks",
}  # fmt: skip


def _array(line: SavedArray) -> list[str]:
    """An array of a model file: its name, which models have it, type, shape, and what else holds."""
    parts = [part.split() for part in line.shape.split("|")]
    shape = " or ".join(f"({', '.join(part)}{',' * (len(part) == 1)})" for part in parts)
    shape = f"as `{line.like}`" if line.like else {"*": "any", "?": "(any,)"}.get(line.shape, shape)
    told = [f"at least {line.low:g}"] * (line.low > -np.inf) + [f"below {_cell(line.below)}"] * bool(line.below)
    told += [f"at most {line.most:g}"] * (line.most < np.inf) + ["rising"] * line.ascends
    told += [f"{line.names} names"] * bool(line.names) + ["may be infinite"] * line.inf
    told += [f"it is {line.size}"] * bool(line.size) + [f"from 0 to {line.ends}, rising"] * bool(line.ends)
    told += ["rising in each row"] * bool(line.rows) + ["all different"] * line.unequal
    told += [" or ".join(f"`{word}`" for word in line.words)] * bool(line.words)
    told += [f"({', '.join(line.equals.split())})"] * bool(line.equals) + ["may be missing"] * (not line.needed)
    called = CALLED.get(line.types, "anything")
    return [f"`{line.name}`", MODELS[line.of], called, shape, ", ".join(told)]


def _option(action: argparse.Action) -> str:
    """An option of a command, as an item of a definition list."""
    value = action.metavar or "|".join(map(str, action.choices or ()))
    spelled = " ".join(filter(None, [", ".join(action.option_strings), str(value)]))
    return f"`{spelled}`\n: {_cell((action.help or '').replace('%%', '%'))}\n"


def commands() -> str:
    """All commands, from their parsers, as Markdown; commands.md includes it, and so the manual page has it."""
    out: list[str] = []
    for program, (verbs, parser_of) in PROGRAMS.items():
        for verb in verbs:
            parser = parser_of(verb).verbs[verb]
            out += [f"## {program} {verb}\n", f"{_cell(parser.description or '')}\n"]
            for group in parser._action_groups:
                actions = [one for one in group._group_actions if one.dest != "help"]
                named = actions and group.title not in ("positional arguments", "options")
                out += [f"**{group.title}**\n"] if named else []
                out += map(_option, actions)
            out += ["Examples:\n", *(f"    {line}" for line in examples(program, verb)), ""]
    out += ["## Exit codes\n", SUBSTITUTIONS["exit_codes"], ""]
    return "\n".join(out)


SUBSTITUTIONS = {f"api_{name}": _listed(section) for name, section in API.items()} | {
    "losses": _things(LOSSES, serves_loss),
    "penalties": _things(PENALTIES, serves_penalty),
    "recommended": _solvers(TAKE),
    "streams": _solvers("streams"),
    "papers": _solvers("methods from papers"),
    "arrays": _table(["array", "`answer`", "type", "shape", "and"], map(_array, ARRAYS)),
    "exit_codes": _table(["code", "meaning"], ([str(code), _cell(text)] for code, text in EXIT_CODES.items())),
}
