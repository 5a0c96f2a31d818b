"""`streammargin VERB ...`: dispatch, exit codes, one-sentence errors."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from streammargin.cli.examples import examples
from streammargin.cli.options import Parser, add_common
from streammargin.cli.remarks import say
from streammargin.errors import StreamMarginError
from streammargin.files import short_reason
from streammargin.kinds import Kind
from streammargin.options.table import TABLE
from streammargin.version import __version__
from streammargin.words import Thing, Worded

UNMAPPED = "failed to map segment"  # what the loader says of a library for which no memory is left
VERBS = {
    "train": "train a model",
    "complete": "complete a matrix from some of its entries, such as users' ratings of films",
    "predict": "predict labels or scores of the rows of a file",
    "evaluate": "accuracy, mistakes, loss and margin of a model on labelled data",
    "verify": "recompute objective and mistakes of a model on its data, by NumPy alone",
    "info": "show what a data file or a model contains",
    "export": "write a model for another program: as JSON, ONNX, of LIBLINEAR or CellTypist, or a table of weights",
    "report": "write a page on a model: what is proven, how good it is, which rows go wrong, which columns matter",
    "solvers": "list the solvers, or show one: parameters, algorithm, what it takes",
    "losses": "list the losses, or show one: parameters, formula, solvers that take it",
    "penalties": "list the penalties, or show one: parameters, formula, solvers that take it",
    "demo": "make a data file larger than its memory budget, train on it, show the result",
    "warmup": "compile and cache every kernel, for images and clusters",
}

EXIT_CODES = {
    0: "done; a training that did not converge says so in a warning",
    1: "unexpected; --debug shows where",
    2: "usage: an option, or a combination of options, that cannot work, or the name of a column that the data lack",
    3: "not converged, with --require-convergence only",
    65: "bad data, data that differ from the checkpoint's, or verify disagrees",
    66: "input missing",
    73: "the output cannot be created, exists without --force, or was taken during the run: the model has another name",
    74: "the disk failed while reading or writing; if only the log failed, the model was written",
    75: "stopped early with a checkpoint: run the same command again; the model so far was written",
    129: "hung up: the model so far was written, if the training had begun",
    130: "interrupted (Ctrl-C): the model so far was written, if the training had begun",
    143: "terminated: the model so far was written, if the training had begun",
}


def build_parser(verb: str | None = None) -> Parser:
    """The parser of the command."""
    about = "Linear large-margin classifiers on data larger than memory, with a certificate of how good the answer is."
    return parser_of("streammargin", about, EXIT_CODES, VERBS, verb, _add_options)


def parser_of(
    program: str, about: str, codes: Mapping[int, str], verbs: Mapping[str, str], verb: str | None,
    add: Callable[[str, Parser], None],
) -> Parser:  # fmt: skip
    """The parser of a command. Only the named verb gets its options, so that no other module is imported."""
    epilog = "\n".join(["exit codes:", *(f"{code:>5} {told}" for code, told in codes.items())])
    parser = Parser(prog=program, description=about, epilog=epilog)
    parser.add_argument("--version", action="version", version=f"{program} {__version__}")
    children = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, summary in verbs.items():
        child = children.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == verb:
            add(name, child)
            lines = [f"  {line}" for line in examples(program, name)]
            child.epilog = "\n".join([*filter(None, [child.epilog]), "examples:", *lines])
    return parser


def _add_options(verb: str, parser: Parser) -> None:
    _module(verb).add_options(parser)
    if verb != "train":  # which has --debug under a heading
        add_common(parser)


def _module(verb: str) -> Any:
    """The module of a verb; lists of words have one for all."""
    name = "words" if verb in ("solvers", "losses", "penalties") else verb
    return importlib.import_module(f"streammargin.cli.{name}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return carried_out("streammargin", argv, VERBS, build_parser, lambda options: _module(options.verb).run(options))


def carried_out(
    program: str, argv: Sequence[str] | None, verbs: Collection[str], parser: Callable[[str | None], Parser],
    run: Callable[[Any], int],
) -> int:  # fmt: skip
    """Parse the arguments, None: those of the process, and run a verb; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "_ARGCOMPLETE" in os.environ:  # the shell asks, which has no arguments
        complete_in_shell(verbs, parser)
    try:
        code = run(parser(next((verb for verb in arguments[:1] if verb in verbs), None)).parse_args(arguments))
        sys.stdout.flush()  # a full disk is found now, while it can still be reported
        return code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except Exception as error:
        return report(error, "--debug" in arguments, program)
    except KeyboardInterrupt:  # of a caller in Python; the command itself ends by the signal
        say(f"{program}: interrupted")
        return 130


def report(error: Exception, debug: bool, program: str) -> int:
    """Print one sentence (or the traceback) and return the exit code of an error."""
    if debug:
        import traceback

        for line in "".join(traceback.format_exception(error)).splitlines():
            say(line)
    if type(error).__name__ == "ArrowCancelled":  # Arrow heard of a signal that a training would have handled
        number = int(getattr(error, "signum", None) or 2)  # None: Arrow was cancelled as by Ctrl-C
        say(f"{program}: stopped by signal {number} while a table was read")
        return 128 + number
    if isinstance(error, BrokenPipeError):
        # the reader of our output has closed it; without this the interpreter would report it once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, StreamMarginError):
        say(f"{program}: error: {error.in_shell}")
        return error.exit_code
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and UNMAPPED in str(error)):
        say(f"{program}: error: out of memory ({error}); lower --memory")
    elif isinstance(error, OSError):
        say(f"{program}: error: {short_reason(error)}")
        return 74
    elif not debug:
        say(f"{program}: {_raiser(error)} {type(error).__name__}: {error} (--debug shows where)")
    return 1


def _raiser(error: Exception) -> str:
    """The begin of a sentence, which names the method of another package's class that raised it."""
    found, at = "unexpected", error.__traceback__
    while at is not None:
        frame, at = at.tb_frame, at.tb_next
        thing = frame.f_locals.get("self")
        if isinstance(thing, Thing) and not frame.f_globals["__name__"].startswith("streammargin."):
            found = f"error: {frame.f_code.co_name} of {thing} raises"
    return found


if __name__ == "__main__":
    sys.exit(main())


def complete_in_shell(verbs: Collection[str], parser_of: Callable[[str | None], Parser]) -> None:
    """Answer the shell, and end the process."""
    import argcomplete  # of the extra `completion`

    typed = os.environ["COMP_LINE"].split()
    verb = next((word for word in typed[1:2] if word in verbs), None)
    parser = parser_of(verb)
    for action in parser.verbs[verb]._actions if verb else ():
        names = _offered_for(verb or "", action)
        if names:
            action.completer = functools.partial(_offered, names)  # type: ignore[attr-defined]  # of argcomplete
    argcomplete.autocomplete(parser, always_complete_options="long")


def _offered(names: list[str], **asked: object) -> list[str]:
    """All names: argcomplete keeps those that begin as the text that was typed."""
    return names


def _offered_for(verb: str, action: argparse.Action) -> list[str]:
    """The values that an option may have, or the names that follow `losses`, `penalties` and `solvers`."""
    kinds: dict[str, Kind] = {line.name: line.kind for line in TABLE}
    kinds |= {"losses": kinds["loss"], "penalties": kinds["penalty"], "solvers": kinds["solver"]}
    kind = kinds.get(verb if action.dest == "name" else action.dest)
    return kind.family.words if isinstance(kind, Worded) else list(kind.choices or ()) if kind else []
