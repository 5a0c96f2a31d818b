"""The options of a training, a line each.

`streammargin.train`, the command line, the estimators and streams read them here, with their checks and their help.
A new option is a line here, a keyword in the signature of `streammargin.train`, and the place that uses it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from enum import Flag, auto
from typing import Any

from streammargin.errors import UsageError
from streammargin.losses import LOSSES, loss_text, make_loss
from streammargin.losses.base import Given
from streammargin.options.kinds import (
    Column,
    Costs,
    Dataset,
    Exponent,
    Factors,
    Folder,
    Kind,
    Label,
    Labels,
    Listed,
    Number,
    Read,
    Rows,
    Size,
    Switch,
    Text,
    Whole,
    Word,
    YesNo,
)
from streammargin.penalties import DEFAULT, PENALTIES
from streammargin.solvers.registry import make_solver, names

MIDWAY = "midway"  # the bias that is found after the weights
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
HINGES = LOSS & ~Where.REGRESSOR
PENALISED = ROWS & ~(Where.INTERPOLATION | Where.INTERPOLATOR)
CALLS = Where.SHELL | Where.NUMBERS | Where.INTERPOLATION  # what estimators are told by `fit` or by random_state


def option(
    default: Any, kind: Kind, group: str, where: Where, help: str, *, short: str | None = None, solver: bool = False
) -> Any:
    """A line of the table. group: its heading in the help; solver: a choice that single solvers offer."""
    notes = {"kind": kind, "group": group, "where": where, "help": help, "short": short, "solver": solver}
    return field(default=default, metadata=notes)


def _finite(value: float) -> bool:
    return 0.0 <= value < math.inf


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was asked for, checked. None: the default that the help names. Raises UsageError, which names the option."""

    # fmt: off
    solver: Any = option("auto", Listed(make_solver, list(names())), "problem", ANYWHERE,
        "the method; auto: by C, norm and multiclass, and the model names the one taken")
    loss: Any = option(None, Listed(make_loss, sorted(LOSSES)), "problem", LOSS, "of the margin, y x.w (default: the "
        "solver's, hinge for most); or of labels that are numbers y, by x.w - y: squared_error (default of "
        "MarginRegressor), absolute_error, epsilon_insensitive, quantile; interpolate: w is the smallest with "
        "|x.w - y| <= epsilon")
    width: float = option(1.0, Number("a positive number", lambda value: 0.0 < value < math.inf), "problem", HINGES,
        "of the smoothed hinge")
    slope: float = option(2.0, Number("a number above 1", lambda value: 1.0 < value < math.inf, metavar="A"), "problem",
        PENALISED & CLASSES, "of the loss generalized_hinge, max(0, 1 - u, 1 - A u)")
    epsilon: float = option(0.0, Number("a finite number >= 0", _finite), "problem", ROWS & ~Where.CLASSIFIER,
        "of the losses epsilon_insensitive and interpolate: how far from its number a score may be")
    quantile: float = option(0.5, Number("a number between 0 and 1", lambda value: 0.0 < value < 1.0), "problem",
        PENALISED & ~Where.CLASSIFIER, "of the loss of this name: the share of numbers that lie below their scores")
    C: float | Sequence[float] | None = option(None, Costs(), "problem", LOSS, "cost of the loss; inf: hard margin; "
        "several: all from one read, the best on `valid` (default 1, or inf for a solver of the hard margin alone)",
        short="-c")
    norm: float | str = option(2, Exponent(), "problem", ANYWHERE,
        "p of the norm ||w||_p to be small, 1 < p <= 2; sparse: 1 + 1/ln d")
    penalty: str = option(DEFAULT, Word(tuple(PENALTIES)), "problem", PENALISED, "of the weights: lp, 1/2 ||w||_p^2 by "
        "`norm`; l2, 1/2 ||w||^2; the norms l1, l2norm and linf; elasticnet, R ||w||_1 + (1 - R)/2 ||w||^2; group, sum "
        "of sqrt(d_g) ||w_g||, or R times that + (1 - R)/2 ||w||^2; exclusive, 1/2 sum of ||w_g||_1^2")
    l1_ratio: float | None = option(None, Number("a number from 0 to 1", lambda value: 0.0 <= value <= 1.0), "problem",
        PENALISED, "R of elasticnet (default 0.5) or group (default 1)")
    groups: Any = option(None, Column("NAME|FILE", any_file=True), "data", PENALISED, "an integer for each "
        "column, of the penalties group and exclusive: a dataset, a .npy file, or a text file with one a line")
    penalize_bias: bool | None = option(None, YesNo(), "problem", PENALISED, "whether the penalty is also of the "
        "constant column's weight (default yes for lp and l2, no for the others; of numbers, no wherever the solver "
        "can, and yes is about the constant that is best alone)")
    bias: float | str | None = option(None, Number("a number >= 0", _finite, (MIDWAY,), "FLOAT|midway"),
        "problem", ANYWHERE, "value of a constant column, 0: none (default 1 where C is finite, none for "
        "C = inf); midway, for C = inf: none, and at the end a read that puts the hyperplane midway between the "
        "classes (homotopic paper, eq. (15)); the certificate stays that of the hyperplane through 0", short="-B")
    scale: str = option("none", Word(("none", "maxabs", "std")), "problem", ROWS,
        "columns, in one pass, folded into the weights; sparse columns are never centred")
    class_weight: str | Mapping[Any, float] | None = option(None, Factors(), "problem", CLASSES,
        "factors of C, by label; balanced: inverse to the weight of the class")
    positive: Any = option(None, Label("LABEL"), "problem", CLASSES & ~Where.CLASSIFIER, "this class against the rest")
    classes: Sequence[Any] | None = option(None, Labels(), "problem", CLASSES & ~Where.CLASSIFIER,
        "only these classes; of a stream, all that may come")
    multiclass: str = option("ovr", Word(("ovr", "joint")), "problem", CLASSES,
        "each class against the rest, or one margin between all of them")
    average: bool | None = option(None, Switch(), "problem", HINGES,
        "report the averaged iterate (some solvers)", solver=True)
    schedule: str | None = option(None, Text("L0/t^2|..."), "problem", LOSS, "diagonal: decay of the penalty, L0/log "
        "t, L0/sqrt t, L0/t, L0/t^2 or L0/2^t; adaptive: momentum or proven (its step size); pdprox: primal or dual",
        solver=True)
    stochastic: bool | None = option(None, Switch(), "problem", HINGES, "a step a block (some solvers)", solver=True)
    C_path: int | None = option(None, Whole(2), "problem", PENALISED & ~(Where.CLASSIFIER | Where.REGRESSOR), "so many "
        "values of C one after the other, each from the weights and duals of the one before: from the C where w leaves "
        "0, or the first of two, to `C`, or to 1000 times that; the best on `valid` is kept (newton, pdprox)",
        solver=True)
    dual_budget: float | None = option(None, Number("a positive number", lambda value: value > 0.0, metavar="M"),
        "problem", PENALISED & CLASSES, "of the duals, in rows: sum_i alpha_i <= M for 0 <= alpha_i <= s_i, so that "
        "the M largest losses are summed and no others (pdprox)", solver=True)
    tol: float = option(1e-3, Number("a number >= 0", _finite), "stop", ROWS,
        "relative duality gap (C = inf: relative margin gap; to interpolate: no violation beyond tol max|y|, and a "
        "norm as near to its lower bound)", short="-e")
    passes: int = option(1000, Whole(1), "stop", ROWS, "at most")
    max_seconds: float | None = option(None, Number("a positive number", lambda value: value > 0.0, metavar="S"),
        "stop", ANYWHERE, "the certificate's pass included")
    max_rows: int | None = option(None, Whole(1), "stop", Where.STREAM, "rows after which a stream ends")
    memory: str | int = option("1G", Size(), "resources", ANYWHERE,
        "bounds all that grows with the data (512M = 512 x 2^20)")
    seed: int = option(0, Whole(0), "resources", CALLS | Where.STREAM, "of whatever is drawn")
    checkpoint: str | None = option(None, Folder("DIR"), "run", ROWS,
        "directory to go on from after the training was killed; exit code 75: stopped early, with a checkpoint")
    checkpoint_seconds: float = option(60.0, Number("a positive number", lambda value: value > 0.0, metavar="S"),
        "run", ROWS, "between two checkpoints; more where they would take over 2% of the time")
    resume: bool = option(False, Switch(), "run", ROWS, "go on from the newest checkpoint, where there is one; "
        "`tol`, `passes` and `max_seconds` may differ, arithmetic stays that of the smallest tolerance")
    x: str | None = option(None, Dataset("NAME"), "data", CALLS, "dataset or group of the rows (default X)")
    y: Any = option(None, Column("NAME|FILE:NAME"), "data", CALLS,
        "dataset of the labels (default y); also a .npy file")
    sample_weight: Any = option(None, Column("NAME"), "data", CALLS,
        "dataset of weights, factors of C by row (default sample_weight, if there); 0: the row is absent")
    valid: Any = option(None, Rows("DATA"), "data", Where.SHELL | Where.NUMBERS,
        "held-out data; its error (of numbers: its mean loss) is shown with every certificate")
    # fmt: on

    def __post_init__(self) -> None:
        for line in TABLE:
            value = getattr(self, line.name)
            if value is not None or line.default is not None:
                object.__setattr__(self, line.name, line.metadata["kind"].check(line.name, value))
        if self.costs and len(self.costs) > 1 and self.valid is None:
            raise UsageError(SEVERAL)

    @property
    def costs(self) -> list[float] | None:
        """The values of C that were given."""
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
        return 0.0 if isinstance(self.bias, str) else self.bias

    def of_the_loss(self) -> dict[str, float]:
        """The numbers that losses are made of, by name."""
        return {name: getattr(self, name) for name in Given._fields}

    def of_the_solver(self) -> dict[str, Any]:
        """The choices that single solvers offer, by name: those that were made."""
        made = {line.name: getattr(self, line.name) for line in TABLE if line.metadata["solver"]}
        return {name: value for name, value in made.items() if value is not None}

    def check_place(self, place: Where, why: str) -> None:
        """UsageError for an option that makes no sense there; why ends the sentence."""
        for line in TABLE:
            value = getattr(self, line.name)
            given = value is not None if line.default is None else value != line.default
            if given and place not in line.metadata["where"]:
                raise UsageError(f"`{line.name}` {why}")

    def plain(self) -> dict[str, Any]:
        """Values that can be written as JSON, for events and headers; what names files is not among them."""
        kept = {line.name: getattr(self, line.name) for line in TABLE if line.metadata["group"] not in ("data", "run")}
        kept["solver"] = getattr(self.solver, "name", self.solver)  # of the user's own solver
        kept["loss"] = None if self.loss is None else loss_text(self.loss)
        if self.costs and len(self.costs) == 1:
            kept["C"] = self.costs[0]
        if isinstance(self.class_weight, Mapping):
            kept["class_weight"] = {str(label): float(factor) for label, factor in self.class_weight.items()}
        if self.classes is not None:
            kept["classes"] = [str(label) for label in self.classes]
        return kept


TABLE: tuple[Field[Any], ...] = fields(Options)


def options_for(place: Where) -> list[Field[Any]]:
    """The lines of the table that make sense there, in order."""
    return [line for line in TABLE if place in line.metadata["where"]]


def read_by(given: Mapping[str, Any]) -> dict[str, Any]:
    """What of the options that were given (name -> value) is read, for `streammargin.sources.open.files_read`.

    rows: further files of rows; x: the name of the rows; columns: names of what is beside them; files: where those may
    be, beside the files of rows. Arrays are left out.
    """
    named: dict[type, list[tuple[Any, str]]] = {Rows: [], Dataset: [], Column: []}
    for line in TABLE:
        kind, value = line.metadata["kind"], given.get(line.name)
        if isinstance(kind, Read) and isinstance(value, (str, os.PathLike)):
            named[type(kind)].append((kind, os.fspath(value)))
    return {
        "rows": [value for _, value in named[Rows]],
        "x": next((value for _, value in named[Dataset]), None),
        "columns": [value for _, value in named[Column]],
        "files": [file for kind, value in named[Column] for file in kind.files(value)],
    }
