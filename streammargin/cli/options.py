"""Options that several verbs share, and types of values for argparse."""

from __future__ import annotations

import argparse
import inspect
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from streammargin.errors import UsageError
from streammargin.kinds import Name, read_number
from streammargin.options.others import NO_FOLDS, instead
from streammargin.options.table import Line, Where, options_for
from streammargin.sizes import parse_size
from streammargin.wording import in_shell, meant, nearest, shown

T = TypeVar("T")
GIVEN = "given twice or not"  # the options so far, among what argparse has read
LISTS = frozenset({"columns", "drop", "categorical", "text", "id"})  # of which people expect that several add up


class Once(argparse._StoreAction):
    """Keeps the last value of an argument, as shells expect; columns that are given twice are an error."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        super().__call__(parser, namespace, values, option_string)
        given: set[str] = vars(namespace).setdefault(GIVEN, set())
        if self.dest in given & LISTS:
            between = "" if self.dest == "text" else ", with commas between its values"
            parser.error(f"{option_string} is given twice; give it once{between}")
        given.add(self.dest)


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations, with one-sentence errors, and with a help of one screen for long lists."""

    _everything = False
    _common: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)
        self.register("action", None, Once)
        # -1,1 and -1=2 and -inf are values: no option here looks like a number
        self._negative_number_matcher = re.compile(r"-(\.?\d|inf)", re.ASCII)

    def shorten(self, common: Iterable[str]) -> None:
        """Make `--help` show these options only, one line each; `--help all` shows all options in full.

        A line is the help up to its first semicolon or bracket, and the default if that is one word.
        """
        self._common = frozenset(common)
        self.usage: str = f"{self.prog} DATA [DATA ...] [-o MODEL] [options]"

    def format_help(self) -> str:
        if self._everything or not self._common:
            return super().format_help()
        lines = [f"usage: {self.usage}", "", str(self.description)]
        for group in self._action_groups:
            flags_of = {action: set(action.option_strings) for action in group._group_actions}
            actions = [action for action, own in flags_of.items() if not own or own & self._common]
            lines += ["", f"{group.title}:"] if actions else []
            for action in actions:
                name = action.metavar or f"{{{','.join(action.choices)}}}" if action.choices else action.metavar
                flags = ", ".join(action.option_strings) + (f" {name}" if name else "")
                text = (action.help or "").replace("%%", "%")
                default = re.search(r" \(default [\w.]+\)$", text)
                said = re.split(r"[;(]", text)[0].strip() + (default[0] if default else "")
                lines.append(f"  {flags.strip():<38} {said}")
        return "\n".join([*lines, "", f"all options: {self.prog} --help all", str(self.epilog), ""])

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        everything = any(one in ("-h", "--help") and two == "all" for one, two in itertools.pairwise(args or []))
        for child in self.verbs.values():
            child._everything = everything
        for argument in args or []:
            if re.fullmatch(r"--[\w-]+=--", argument):  # argparse makes an empty list of it
                self.error(f"argument {argument[:-3]}: -- is not a value")
        first, verbs = next(iter(args or []), "-"), self.verbs
        if verbs and not first.startswith("-") and first not in verbs:
            self.error(f"there is no VERB {shown(first)}; {meant(first, verbs)}known: {', '.join(verbs)}")
        parsed, unknown = self.parse_known_args(args, namespace)
        parsed.__dict__.pop(GIVEN, None)
        if unknown:
            verbose = bool(getattr(parsed, "verbose", 0))
            self.verbs.get(getattr(parsed, "verb", ""), self).refuse(unknown, verbose)
        return parsed

    @property
    def verbs(self) -> dict[str, Parser]:
        """The parsers of the verbs."""
        several = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return {name: child for action in several for name, child in action.choices.items()}

    def refuse(self, unknown: Sequence[str], verbose: bool) -> NoReturn:
        """Exit because of unknown arguments, with the option that may have been meant."""
        known = list(self._option_string_actions)
        near = []
        for argument in unknown:
            option = argument.partition("=")[0]
            better = instead(option) if option.startswith("-") and option not in known else None
            if better is not None:
                self.error(f"there is no {option} here{in_shell(better)}")
            alike = [name for name in known if name.lower() == option.lower()]
            alike += [name for name in known if len(name) > 3 and (option.startswith(name) or name.startswith(option))]
            if option.startswith("-"):
                near.append(next(iter(alike), "") or nearest(option, known, 0.75))
        hint = f"; did you mean {' or '.join(dict.fromkeys(filter(None, near)))}?" if any(near) else ""
        if unknown[0].isdigit() and verbose:
            hint = in_shell(NO_FOLDS)
        elif not hint and not unknown[0].startswith("-"):
            hint = f"; if {unknown[0]} belongs to the value before it, put both in quotes"
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def error(self, message: str) -> NoReturn:
        stop = "" if message.endswith("?") else ";"
        self.exit(2, f"{self.prog.split()[0]}: error: {message}{stop} see {self.prog} --help\n")


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """A type for argparse; a UsageError of `read` becomes an error of the argument."""

    def parse(text: str) -> T:
        try:
            return read(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(error.in_shell) from None

    return parse


number: Callable[[str], float] = argument(read_number)
name: Callable[[str], float | str] = argument(Name("NAME").read)


def named(function: Callable[..., Any], options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of a function that options of the same names are."""
    return {name: value for name, value in vars(options).items() if name in inspect.signature(function).parameters}


def add_table(parser: argparse.ArgumentParser) -> dict[str, argparse._ArgumentGroup]:
    """Add the options of a training under headings; returns the groups by heading."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for line in options_for(Where.SHELL):
        if line.theme not in groups:
            groups[line.theme] = parser.add_argument_group(line.theme)
        _add_line(groups[line.theme], line)
    return groups


def add_lines(parser: argparse.ArgumentParser, names: Collection[str], others: Mapping[str, Any] = {}) -> None:
    """Add these options of a training; others: what is another in the lines of some, which mean something else here."""
    for line in options_for(Where.SHELL):
        if line.name in names:
            _add_line(parser, line._replace(**others.get(line.name, {})))


def flags(line: Line) -> list[str]:
    """The spellings of an option in the shell."""
    return [*line.short, f"--{line.name.replace('_', '-')}"]


def _add_line(parser: argparse._ActionsContainer, line: Line) -> None:
    kind = line.kind
    metavar = kind.metavar or (f"{{{','.join(kind.choices)}}}" if kind.choices else None)
    how: dict[str, Any] = {"type": argument(kind.read), "metavar": metavar}
    if kind.alone:
        how |= {"nargs": "?", "const": True}
    default = line.default
    shown = (
        "" if default is None else f" (default {default:g})" if isinstance(default, float) else f" (default {default})"
    )
    help = in_shell(line.help).replace("%", "%%") + shown
    parser.add_argument(*flags(line), dest=line.name, default=default, help=help, **how)


OF_ROWS = ("x", "mask", "sample_weight", "tasks", "id", "obs", "probability", "unknown", "missing_columns", "spool")
SCORED = {  # what these mean for a model that is there
    "columns": {"help": "ROW,COLUMN: the two columns of pairs, for a completed matrix (default: those of training)"},
    "tasks": {"help": "the task of each row, for a model with tasks (default: the column of training)"},
}
LACKING = {
    "--missing-columns": "columns of the model that DATA lacks, by name: an error, or zeros",
    "--unknown": "categories of a table that were not in the training data: an error, or zeros",
}


def add_lacking(parser: argparse.ArgumentParser, *flags: str) -> None:
    """Add these of LACKING."""
    for flag in flags:
        help = f"{LACKING[flag]} (default error)"
        parser.add_argument(flag, choices=("error", "zero"), default="error", metavar="error|zero", help=help)


def add_scoring(parser: argparse.ArgumentParser) -> None:
    """Add MODEL and DATA, and the options of what scores rows by a model."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("data", nargs="+", metavar="DATA", help="HDF5 file; several are shards of one data set; or a "
                        "table or file of numbers, as train takes them")  # fmt: skip
    add_lines(parser, ("x", "mask", "columns", "tasks"), SCORED)
    add_lacking(parser, *LACKING)
    parser.add_argument(
        "--memory", default="256M", metavar="SIZE", help="memory for the model and blocks of rows (default 256M)"
    )
    add_lines(parser, ("threads",))


def to_score(options: argparse.Namespace) -> tuple[Any, Any, dict[str, Any]]:
    """(the model, the data, what `rows_of` takes). Raises UsageError for options that the model has not."""
    from streammargin.model.io import load_model

    memory = parse_size(options.memory)
    model = load_model(options.model, memory)
    check_kind(options, model.of_pairs)
    names = ["x", "tasks", "unknown", "missing_columns", *(["columns"] if model.of_pairs else ["mask"])]
    asked = {name: getattr(options, name) for name in names} | {"memory": memory}
    return model, options.data if len(options.data) > 1 else options.data[0], asked


def check_kind(options: argparse.Namespace, of_pairs: bool) -> None:
    """UsageError for an option that a model of rows, or of pairs of a completed matrix, does not have."""
    if not of_pairs and options.columns is not None:
        raise UsageError("`columns` is for a completed matrix, and this model finds its columns by name; leave it out")
    for name in OF_ROWS if of_pairs else ():
        if getattr(options, name, None) not in (None, (), False, "error"):
            raise UsageError(f"`{name}` is not for ratings; leave it out")


def add_common(parser: argparse._ActionsContainer) -> None:
    """Add --debug."""
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
