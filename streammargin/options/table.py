"""The options of a training, a line each.

`streammargin.train`, the command line, the estimators and streams read them here, with their checks and their help.
A new option is a line here, a keyword in the signature of `streammargin.train`, and the place that uses it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Flag, auto
from typing import NamedTuple, TypedDict, TypeVar

from streammargin.errors import UsageError
from streammargin.kinds import (
    Column,
    Dataset,
    Factors,
    Folder,
    Kind,
    Label,
    Labels,
    Number,
    Read,
    Rows,
    Size,
    Whole,
    Word,
)
from streammargin.losses import FAMILY as LOSSES
from streammargin.losses import Loss
from streammargin.options.costs import Costs, Path
from streammargin.penalties import DEFAULT
from streammargin.penalties import FAMILY as PENALTIES
from streammargin.penalties.base import PenaltyWord
from streammargin.solvers.registry import FAMILY as SOLVERS
from streammargin.solvers.word import Auto, SolverWord
from streammargin.words import Worded

T = TypeVar("T")
FREE, MIDWAY = "free", "midway"  # a constant column that is not penalised; a bias that is found after the weights
SEVERAL = "several values of `C` need held-out data to choose among them; give `valid=DATA`"


class Where(Flag):
    """Where an option makes sense, beside `streammargin.train` on rows that can be read again."""

    SHELL = auto()
    STREAM = auto()  # batches that pass by once
    NUMBERS = auto()  # labels that are numbers
    INTERPOLATION = auto()  # those that are to be met (loss interpolate)
    CLASSIFIER = auto()
    REGRESSOR = auto()
    INTERPOLATOR = auto()


ANYWHERE = ~Where(0)
ROWS = ANYWHERE & ~Where.STREAM
CLASSES = ANYWHERE & ~(Where.NUMBERS | Where.INTERPOLATION | Where.REGRESSOR | Where.INTERPOLATOR)
LOSS = ANYWHERE & ~Where.INTERPOLATOR  # where there is one to choose
CALLS = Where.SHELL | Where.NUMBERS | Where.INTERPOLATION  # what estimators are told by `fit` or by random_state
SCORED = ROWS & ~(Where.INTERPOLATION | Where.INTERPOLATOR)  # an interpolator takes no held-out data
RUNS = ROWS & ~(Where.CLASSIFIER | Where.REGRESSOR | Where.INTERPOLATOR)


class Line(NamedTuple):
    """An option. theme: its heading in the help; common: what most people use."""

    name: str
    type: str
    default: object
    kind: Kind
    theme: str
    where: Where
    help: str
    short: tuple[str, ...] = ()
    common: bool = False


def option(
    default: T, kind: Kind, theme: str, where: Where, help: str, *, short: tuple[str, ...] = (), common: bool = False
) -> T:
    """A line of the table."""
    line = Line("", "", default, kind, theme, where, help, short, common)
    return field(default=default, metadata={"line": line})


def _finite(value: float) -> bool:
    return 0.0 <= value < math.inf


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was asked for, checked. None: the default that the help names. Raises UsageError, which names the option."""

    # fmt: off
    solver: SolverWord | str = option("auto", Worded(SOLVERS), "problem", ANYWHERE,
        "the method, as ascent, newton or perceptron:average; auto takes the one that suits the data", common=True)
    loss: Loss | str | None = option(None, Worded(LOSSES), "problem", LOSS,
        "what an error costs, as hinge, logistic or quantile:0.9; of classes also squared_hinge, smooth_hinge, "
        "generalized_hinge, exponential; of numbers also squared_error, absolute_error, epsilon_insensitive, huber, "
        "interpolate (default: the solver's, hinge for most)", common=True)
    penalty: PenaltyWord | str = option(DEFAULT, Worded(PENALTIES), "problem", ANYWHERE, "what weights cost, as l2, l1 "
        "or elasticnet:0.5; also lp:1.5, group:FILE, sparse_group:FILE, exclusive:FILE, linf, l2norm", common=True)
    C: float | Sequence[float] | Path | str | None = option(None, Costs(), "problem", LOSS,
        "weight of the data, larger fits harder; against the penalty, as in scikit-learn; inf: hard margin; several, "
        "or path:K of K values: the best on `valid` is kept (default 1, or inf for a solver of the hard margin)",
        short=("-c", "-C"), common=True)
    bias: float | str | None = option(None, Number("a number >= 0", _finite, (FREE, MIDWAY), "1|0|VALUE|free|midway"),
        "problem", ANYWHERE, "the constant column, 0 for none; VALUE: penalised like the others; free: not "
        "penalised; midway, for C = inf: found after the weights (default 1; 0 for C = inf; free for numbers, and for "
        "penalties other than l2 and lp, where the solver can)", short=("-B",), common=True)
    scale: str = option("none", Word(("none", "maxabs", "std")), "problem", ROWS,
        "scale the columns first; the model takes rows as they are; sparse columns are not centred",
        common=True)
    class_weight: str | Mapping[object, float] | None = option(None, Factors(), "problem", CLASSES,
        "factors of C, by label; balanced: a rare class weighs as much as a frequent one", common=True)
    positive: object = option(None, Label("LABEL"), "problem", CLASSES & ~Where.CLASSIFIER,
        "this class against the rest")
    classes: Sequence[object] | None = option(None, Labels(), "problem", CLASSES & ~Where.CLASSIFIER,
        "only these classes; of a stream, all that may come")
    multiclass: str = option("ovr", Word(("ovr", "joint")), "problem", CLASSES,
        "ovr: each class against the rest; joint: one margin between all of them (C = inf)")
    tol: float = option(1e-3, Number("a number >= 0", _finite, metavar="EPS"), "stop", ROWS,
        "stop once the relative gap is proven to be no larger (C = inf: the relative margin gap; interpolate: "
        "no error beyond epsilon by more than tol max|y|, and a length as near to its lower bound)",
        short=("-e",), common=True)
    passes: int = option(1000, Whole(1, "N"), "stop", ROWS, "stop after so many passes over the rows", common=True)
    early_stop: int | None = option(None, Whole(1, "N"), "stop", SCORED, "stop after N passes in a row without a "
        "smaller error on the held-out rows (`valid`), and keep the best pass; regressions compare the mean loss")
    max_seconds: float | None = option(None, Number("a positive number", lambda value: value > 0.0, metavar="S"),
        "stop", ANYWHERE, "stop in time to finish the last check", common=True)
    max_rows: int | None = option(None, Whole(1), "stop", Where.STREAM, "rows after which a stream ends")
    memory: str | int = option("1G", Size(), "resources", ANYWHERE,
        "bounds all that grows with the data (512M = 512 x 2^20)", common=True)
    seed: int = option(0, Whole(0, "N"), "resources", CALLS | Where.STREAM, "of whatever is drawn")
    checkpoint: str | None = option(None, Folder("DIR"), "run", RUNS,
        "save the state there, and go on from it; refused where it is of another unfinished training (exit code 75: "
        "stopped early, run the same command again)", common=True)
    checkpoint_seconds: float = option(60.0, Number("a positive number", lambda value: value > 0.0, metavar="S"),
        "run", RUNS, "between two checkpoints; more where they would take over 2% of the time")
    x: str | None = option(None, Dataset("NAME"), "data", CALLS, "dataset or group of the rows (default X)")
    y: object = option(None, Column("NAME|FILE:NAME"), "data", CALLS,
        "dataset of the labels (default y); also a .npy file", common=True)
    sample_weight: object = option(None, Column("NAME|FILE"), "data", CALLS,
        "dataset of weights, factors of C by row (default sample_weight, if there); 0: the row is absent")
    valid: object = option(None, Rows("DATA"), "data", Where.SHELL | Where.NUMBERS,
        "held-out data; its error (of numbers: its mean loss) is shown with every certificate", common=True)
    # fmt: on

    def __post_init__(self) -> None:
        for line in TABLE:
            value = getattr(self, line.name)
            if value is not None or line.default is not None:
                object.__setattr__(self, line.name, line.kind.check(f"`{line.name}`", value))
        if (self.path is not None or len(self.costs or ()) > 1) and self.valid is None:
            raise UsageError(SEVERAL)

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Options:
        """Values by name, whatever their types: they are checked here. Raises UsageError, TypeError for other names."""
        if unknown := given.keys() - {line.name for line in TABLE}:
            raise TypeError(f"there is no option {min(unknown)}")
        made = object.__new__(cls)
        for line in TABLE:
            object.__setattr__(made, line.name, given.get(line.name, line.default))
        made.__post_init__()
        return made

    @property
    def path(self) -> Path | None:
        """The path over C, where one was asked for."""
        return self.C if isinstance(self.C, Path) else None

    @property
    def costs(self) -> list[float] | None:
        """The values of C that were given; of a path its last one, or its first."""
        if self.path is not None:
            end = self.path.low if self.path.high is None else self.path.high
            return None if end is None else [end]
        return None if self.C is None else list(self.C)  # type: ignore[arg-type]  # checked: a list

    @property
    def hard(self) -> bool:
        """Whether C = inf was asked for by name."""
        return self.costs == [math.inf]

    @property
    def midway(self) -> bool:
        """Whether the bias is to be found after the weights."""
        return self.bias == MIDWAY

    def column(self, costs: Sequence[float]) -> float:
        """The value of the constant column where these are the values of C, 0 for none."""
        if self.bias is None:
            return 0.0 if math.inf in costs else 1.0
        return float(self.bias == FREE) if isinstance(self.bias, str) else self.bias

    @property
    def auto(self) -> bool:
        """Whether the solver is left to us."""
        return isinstance(self.solver, Auto)

    @property
    def top(self) -> float:
        """Of how many rows, at most, the largest losses count."""
        top = getattr(self.loss, "top", None)
        return math.inf if top is None else float(top)

    def check_place(self, place: Where, why: str) -> None:
        """UsageError for an option that makes no sense there; why ends the sentence."""
        for line in TABLE:
            value = getattr(self, line.name)
            default = None if line.default is None else line.kind.check(line.name, line.default)
            given = value is not None if default is None else value != default
            if given and place not in line.where:
                raise UsageError(f"`{line.name}` {why}")

    def plain(self) -> dict[str, object]:
        """Values that can be written as JSON, for events and headers, words as they are spelled in full."""
        kept = {line.name: getattr(self, line.name) for line in TABLE if line.theme not in ("data", "run")}
        kept |= {name: None if kept[name] is None else str(kept[name]) for name in ("solver", "loss", "penalty")}
        if self.path is not None:
            kept["C"] = str(self.path)
        elif self.costs and len(self.costs) == 1:
            kept["C"] = self.costs[0]
        if isinstance(self.class_weight, Mapping):
            kept["class_weight"] = {str(label): float(factor) for label, factor in self.class_weight.items()}
        if self.classes is not None:
            kept["classes"] = [str(label) for label in self.classes]
        return kept


def _line(name: str, kind: str, line: Line) -> Line:
    return line._replace(name=name, type=kind)


TABLE: tuple[Line, ...] = tuple(_line(one.name, str(one.type), one.metadata["line"]) for one in fields(Options))


def options_for(place: Where) -> list[Line]:
    """The lines of the table that make sense there, in order."""
    return [line for line in TABLE if place in line.where]


class ReadBy(TypedDict):
    """What a training reads, for `streammargin.sources.open.files_read`."""

    rows: list[str]
    x: str | None
    columns: list[str]
    files: list[str]


def read_by(given: Mapping[str, object]) -> ReadBy:
    """What of the options that were given (name -> value) is read.

    rows: further files of rows; x: the name of the rows; columns: names of what is beside them; files: where those may
    be, beside the files of rows. Arrays are left out. Fields of words count as options do.
    """
    named: dict[type, list[tuple[Kind, str]]] = {Rows: [], Dataset: [], Column: []}
    for line in TABLE:
        kind, value = line.kind, given.get(line.name)
        if isinstance(kind, Worded):
            for one, name in kind.read_by(value):
                named[type(one)].append((one, name))
        elif isinstance(kind, Read) and isinstance(value, (str, os.PathLike)):
            named[type(kind)].append((kind, os.fspath(value)))
    return {
        "rows": [value for _, value in named[Rows]],
        "x": next((value for _, value in named[Dataset]), None),
        "columns": [value for _, value in named[Column]],
        "files": [file for kind, value in named[Column] if isinstance(kind, Column) for file in kind.files(value)],
    }
