"""Options that verbs share, and values that argparse has no type for."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import Field
from typing import Any, NoReturn, TypeVar

from streammargin.errors import UsageError
from streammargin.options.kinds import Name, Switch, read_number
from streammargin.options.table import Where, options_for
from streammargin.wording import in_shell

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations and with one-sentence errors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)
        # -1,1 and -1=2 and -inf are values: no option here looks like a number
        self._negative_number_matcher = re.compile(r"-(\.?\d|inf)", re.ASCII)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        for argument in args or []:
            if re.fullmatch(r"--[\w-]+=--", argument):  # argparse makes an empty list of it
                self.error(f"argument {argument[:-3]}: -- is no value")
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self._of_the_verb(parsed).refuse(unknown)
        return parsed

    def _of_the_verb(self, parsed: argparse.Namespace) -> Parser:
        """The parser that knows the options of the verb that was given."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return action.choices[getattr(parsed, action.dest)]
        return self

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """End because of arguments that nobody knows, with the option that may have been meant."""
        known = list(self._option_string_actions)
        meant = []
        for argument in unknown:
            option = argument.partition("=")[0]
            alike = [name for name in known if name.lower() == option.lower()]
            alike += [name for name in known if len(name) > 3 and (option.startswith(name) or name.startswith(option))]
            if option.startswith("-"):
                meant += alike[:1] or difflib.get_close_matches(option, known, 1, 0.75)
        hint = f"; did you mean {' or '.join(dict.fromkeys(meant))}?" if meant else ""
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def error(self, message: str) -> NoReturn:
        stop = "" if message.endswith("?") else ";"
        self.exit(2, f"{self.prog.split()[0]}: error: {message}{stop} see {self.prog} --help\n")


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """A type for argparse: what `read` refuses is its error."""

    def parse(text: str) -> T:
        try:
            return read(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(error.in_shell) from None

    return parse


number = argument(read_number)
name = argument(Name("NAME").read)


def add_table(parser: argparse.ArgumentParser) -> dict[str, argparse._ArgumentGroup]:
    """The options of a training, under their headings, which are returned by name."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for line in options_for(Where.SHELL):
        heading = line.metadata["group"]
        if heading not in groups:
            groups[heading] = parser.add_argument_group(heading)
        _add_line(groups[heading], line)
    return groups


def add_data_names(parser: argparse.ArgumentParser) -> None:
    """--x and --y."""
    for line in options_for(Where.SHELL):
        if line.name in ("x", "y"):
            _add_line(parser, line)


def _add_line(parser: argparse._ActionsContainer, line: Field[Any]) -> None:
    kind, short = line.metadata["kind"], line.metadata["short"]
    how: dict[str, Any] = {"type": argument(kind.read), "metavar": kind.metavar}
    if isinstance(kind, Switch):
        how = {"action": argparse.BooleanOptionalAction}
    elif kind.choices:
        how = {"choices": kind.choices, "metavar": kind.metavar}
    default = line.default
    shown = (
        "" if default is None else f" (default {default:g})" if isinstance(default, float) else f" (default {default})"
    )
    flags = [*([short] if short else []), f"--{line.name.replace('_', '-')}"]
    parser.add_argument(*flags, default=default, help=in_shell(line.metadata["help"]).replace("%", "%%") + shown, **how)


def add_missing_columns(parser: argparse.ArgumentParser) -> None:
    """--missing-columns."""
    parser.add_argument(
        "--missing-columns", choices=("error", "zero"), default="error", metavar="error|zero",
        help="what columns of the model are, matched by name, that DATA lacks (default error)",
    )  # fmt: skip


def add_common(parser: argparse.ArgumentParser) -> None:
    """--debug."""
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
