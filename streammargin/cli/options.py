"""Options that verbs share, and values that argparse has no type for."""

from __future__ import annotations

import argparse
import math
import re
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations and with one-sentence errors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)
        # -1,1 and -1=2 and -inf are values: no option here looks like a number
        self._negative_number_matcher = re.compile(r"-(\.?\d|inf)", re.ASCII)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog.split()[0]}: error: {message}; see {self.prog} --help\n")


def number(text: str) -> float:
    """A float; inf is allowed."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if math.isnan(value):
        raise argparse.ArgumentTypeError("nan is not a number to choose")
    if math.isinf(value) and "inf" not in text.lower():
        raise argparse.ArgumentTypeError(f"{text} is too large for a number; write inf if you mean that")
    return value


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def name(text: str) -> str:
    """A name of a file or a dataset: anything but nothing."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty; leave the option out for its default")
    return text


def label_list(text: str) -> list[str]:
    """Labels A,B,...; none of them empty."""
    labels = text.split(",")
    if not all(labels):
        raise argparse.ArgumentTypeError(f"{text!r} names an empty label; write A,B,...")
    return labels


def numbers(text: str) -> float | list[float]:
    """One float, or a list a,b,c of them."""
    values = [number(part) for part in text.split(",")]
    return values[0] if len(values) == 1 else values


def norm(text: str) -> float | str:
    """An exponent, or the word sparse."""
    return text if text == "sparse" else number(text)


def bias(text: str) -> float | str:
    """A value, or the word midway."""
    from streammargin.driver.midway import MIDWAY

    return text if text == MIDWAY else number(text)


def class_weights(text: str) -> str | dict[str, float]:
    """balanced, or LABEL=W,LABEL=W,..."""
    if text == "balanced":
        return text
    table = {}
    for part in text.split(","):
        label, equals, weight = part.rpartition("=")
        if not equals:
            raise argparse.ArgumentTypeError(f"{part!r} is not LABEL=WEIGHT (or the word balanced)")
        table[label] = number(weight)
    return table


def add_data_names(parser: argparse.ArgumentParser) -> None:
    """--x and --y."""
    parser.add_argument("--x", type=name, metavar="NAME", help="dataset or group of the rows (default X)")
    parser.add_argument(
        "--y", type=name, metavar="NAME|FILE:NAME", help="dataset of the labels (default y); also a .npy file"
    )


def add_common(parser: argparse.ArgumentParser) -> None:
    """--debug."""
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
