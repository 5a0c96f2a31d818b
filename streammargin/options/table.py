"""The options of a training, one line each, with their checks and their help.

`streammargin.train`, the command line, the estimators and streams take them from this table.
A new option is a line here, a keyword in the signature of `streammargin.train`, and the place that uses it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Flag, auto
from typing import NamedTuple, TypedDict, TypeVar

from streammargin.errors import UsageError
from streammargin.kernels import FAMILY as KERNELS
from streammargin.kernels import Kernel
from streammargin.kinds import (
    ByteSize,
    ClassFactors,
    ColumnName,
    ColumnNames,
    Dataset,
    FolderPath,
    InputName,
    Kind,
    Label,
    LabelList,
    Mask,
    Number,
    RowsFile,
    SavedModel,
    Switch,
    Texts,
    Threads,
    Whole,
    Word,
    threads_of,
)
from streammargin.losses import FAMILY as LOSSES
from streammargin.losses import Loss
from streammargin.maps import FAMILY as MAPS
from streammargin.maps.base import Map
from streammargin.options.costs import Absolute, Costs, Path, Tolerance, finite
from streammargin.options.folds import Cv, Folds, HeldOut, Known, Share
from streammargin.options.steps import Scale, StepWords, parts_of
from streammargin.penalties import DEFAULT
from streammargin.penalties import FAMILY as PENALTIES
from streammargin.penalties.base import PenaltyWord
from streammargin.solvers.registry import FAMILY as SOLVERS
from streammargin.solvers.word import Auto, SolverWord
from streammargin.transforms import Transform
from streammargin.wording import shown
from streammargin.words import Worded

T = TypeVar("T")
FREE_BIAS, MIDWAY_BIAS = "free", "midway"  # a constant column without penalty; a bias found after the weights
SOFTMAX = "the softmax is `loss=logistic` with `multiclass=joint`, its default for several classes"
NOT_HERE = {"softmax": SOFTMAX, "multinomial": SOFTMAX, "crammer_singer": "it is `loss=hinge` with `multiclass=joint`"}
SEVERAL = "several values of `C` need held-out data to choose among them; give `cv=5`, or `valid=DATA`"
IN_A_FILE = (
    "held-out data in a file; give `valid=FILE`, made with: streammargin-data split IN.h5 TRAIN.h5 FILE "
    "(of a CSV, after: streammargin-data convert IN.csv IN.h5)"
)
MAY_CHANGE = {"passes", "max_seconds", "tol"}  # between two runs of one training


class Where(Flag):
    """Where an option applies, beside `streammargin.train` on rows that can be read again."""

    SHELL = auto()
    STREAM = auto()  # batches that are read once
    NUMBERS = auto()  # labels that are numbers
    INTERPOLATION = auto()  # labels that scores must meet (loss interpolate)
    CLASSIFIER = auto()
    REGRESSOR = auto()
    INTERPOLATOR = auto()


ANYWHERE = ~Where(0)
WITH_ROWS = ANYWHERE & ~Where.STREAM
WITH_CLASSES = ANYWHERE & ~(Where.NUMBERS | Where.INTERPOLATION | Where.REGRESSOR | Where.INTERPOLATOR)
LOSS = ANYWHERE & ~Where.INTERPOLATOR  # if there is one to choose
CALLS = Where.SHELL | Where.NUMBERS | Where.INTERPOLATION  # what estimators are told by `fit` or by random_state
SCORED = WITH_ROWS & ~(Where.INTERPOLATION | Where.INTERPOLATOR)  # an interpolator takes no held-out data
TABLES = Where.SHELL | Where.NUMBERS | Where.INTERPOLATION  # data whose columns have names and words
TRAINED = Where.SHELL | Where.NUMBERS
RUNS = WITH_ROWS & ~(Where.CLASSIFIER | Where.REGRESSOR | Where.INTERPOLATOR)


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


@dataclass(frozen=True, kw_only=True)
class Options:
    """Checked options. None: the default that the help names. Raises UsageError, which names the option."""

    # fmt: off
    solver: SolverWord | str = option("auto", Worded(SOLVERS), "problem", ANYWHERE,
        "the method, such as newton or perceptron:average; auto takes the one that suits the data", common=True)
    loss: Loss | str | None = option("auto", Worded(LOSSES, unset="auto"), "problem", LOSS,
        "cost of an error, such as hinge, or quantile:0.9 for regression; classes: hinge, squared_hinge, "
        "smooth_hinge, generalized_hinge, logistic, exponential; regression: squared_error, absolute_error, "
        "epsilon_insensitive, huber, quantile, l2_error, interpolate; auto: hinge for two classes, logistic for more, "
        "but hinge with `kernel` and at C = inf", common=True)
    penalty: PenaltyWord | str = option(DEFAULT, Worded(PENALTIES), "problem", ANYWHERE, "cost of weights, such as l2 "
        "or elasticnet:0.5; also l1, lp:1.5, group:FILE, sparse_group:FILE, exclusive:FILE, linf, l2norm; for "
        "several outputs l21, l1inf, trace", common=True)
    kernel: Kernel | str | None = option(None, Worded(KERNELS), "problem", TRAINED,
        "similarity of rows, for curved boundaries, such as rbf:0.5; also poly:3, sigmoid, linear, precomputed, and "
        "sums such as rbf:0.1+linear (default none: a linear model)", common=True)
    map: Map | str | None = option(None, Worded(MAPS), "problem", WITH_ROWS,
        "map each row to new columns before a linear solver, such as nystroem:500,kernel=rbf:0.5 or rff:500,gamma=0.5; "
        "the mapped rows are not stored (default none)")
    C: float | Sequence[float] | Path | str | None = option(None, Costs(), "problem", LOSS,
        "weight of the data against the penalty, as in scikit-learn: larger fits harder; inf: the hard margin; "
        "several values: the best by `cv` or on `valid` is kept; path:K: the best on `valid` (default 1, or inf for a "
        "solver of the hard margin; with `cv` 13 values)",
        short=("-c", "-C"), common=True)
    bias: float | str | None = option(
        None, Number("0 for none, a positive number", finite, (FREE_BIAS, MIDWAY_BIAS), "1|0|VALUE|free|midway"),
        "problem", ANYWHERE, "constant column: its value, 0 for none, free of penalty, midway for C = inf; the weight "
        "of a value is penalised; midway is found after the weights (default 1; 0 for C = inf; free for regression, "
        "and for penalties other than l2 and lp, if the solver can)", short=("-B",), common=True)
    transform: Sequence[Transform | str] | Transform | str | None = option(None, StepWords(), "problem", RUNS,
        "steps of each row before the scale, such as total:10000,log1p; also sqrt, unit, tfidf; the model keeps them "
        "(default none)", common=True)
    scale: str = option("none", Scale(), "problem", WITH_ROWS,
        "scale the columns first; the model takes unscaled rows; sparse columns are not centred; std:clip=10 clips "
        "scaled values to -10 .. 10; auto: std if the ranges of columns differ over a thousandfold, or one is far from "
        "0 compared with its spread; else none", common=True)
    class_weight: str | Mapping[object, float] | None = option(None, ClassFactors(), "problem", WITH_CLASSES,
        "factors of C by label, or balanced: all classes have the same weight", common=True)
    positive: object = option(None, Label("LABEL"), "problem", WITH_CLASSES & ~Where.CLASSIFIER,
        "train this class against the rest")
    classes: Sequence[object] | None = option(None, LabelList(), "problem", WITH_CLASSES & ~Where.CLASSIFIER,
        "keep only these classes; for a stream, all that may occur")
    multiclass: str | None = option(None, Word(("ovr", "joint"), NOT_HERE), "problem", WITH_CLASSES,
        "ovr: each class against the rest; joint: one problem for all classes: the softmax of loss=logistic, the "
        "hinge of Crammer and Singer; at C = inf one margin (default: joint for logistic at a finite C, else ovr)")
    tol: float | Absolute | str = option(1e-3, Tolerance(), "stop", WITH_ROWS,
        "stop once the relative gap is proven to be EPS at most (C = inf: the margin gap; interpolate: no error "
        "exceeds epsilon by more than tol max|y|, and the norm of w is as near to its lower bound); "
        "absolute:EPS, for a finite C: the mean gap, (primal - dual) / (C sum_i s_i)",
        short=("-e",), common=True)
    passes: int = option(1000, Whole(1, "N"), "stop", WITH_ROWS, "stop after this many passes over the rows",
        common=True)
    early_stop: int | None = option(None, Whole(1, "N"), "stop", SCORED, "stop after N passes in a row without a "
        "smaller error on the held-out rows (`valid`), and keep the best pass; regression compares the mean loss")
    max_seconds: float | None = option(None, Number("a positive number", lambda value: value > 0.0, metavar="S"),
        "stop", ANYWHERE, "finish within S seconds of training, the last check included; they begin with the first "
        "read, once a table is spooled; compiling is part of them", common=True)
    max_rows: int | None = option(None, Whole(1), "stop", Where.STREAM, "end a stream after this many rows")
    memory: str | int = option("1G", ByteSize(), "resources", ANYWHERE,
        "bound on the memory that grows with the data (512M = 512 x 2^20 bytes); the compiler's is on top", common=True)
    threads: int | str | None = option(None, Threads(), "resources", CALLS | Where.STREAM,
        "number of threads, or all cores; the model does not depend on it (default 1, in the shell all)")
    seed: int = option(0, Whole(0, "N"), "resources", CALLS | Where.STREAM, "seed of all random choices")
    checkpoint: str | None = option(None, FolderPath("DIR"), "run", RUNS,
        "save the state in this folder, and resume from it; the state of another unfinished training is an error "
        "(exit code 75: stopped early, run the same command again)", common=True)
    checkpoint_seconds: float = option(60.0, Number("a positive number", lambda value: value > 0.0, metavar="S"),
        "run", RUNS, "seconds between two checkpoints; more if they would take over 2% of the time")
    init: object = option(None, SavedModel("MODEL"), "data", Where.SHELL | Where.NUMBERS,
        "begin from the weights of this model; columns are matched by name and classes by label, and others start at "
        "0; for newton, pdprox, active-set at C = inf, and under l2 and lp ascent, sdca and asdca")
    x: str | None = option(None, Dataset("NAME"), "data", CALLS, "dataset or group of the rows (default X)")
    y: object = option(None, ColumnName("NAME|FILE:NAME"), "data", CALLS,
        "labels: a dataset, columns of a table as a or a,b, or a .npy file (default y)", common=True)
    sample_weight: object = option(None, ColumnName("NAME|FILE"), "data", CALLS,
        "weights of rows, factors of C (default: the dataset sample_weight, if it exists); 0: the row is left out")
    mask: str | None = option(None, Mask("COLUMN=VALUE"), "data", CALLS,
        "take only the rows with this value in a column of their file, such as obs/tissue=lung; for HDF5 and zarr; "
        "held-out files need the column, too")
    tasks: object = option(None, ColumnName("NAME|FILE:NAME"), "data", Where.SHELL | Where.NUMBERS,
        "the task of each row, such as the shop of a sale, named like `y`; each task learns its own weights; with a "
        "penalty such as l21 or trace tasks learn from each other; predictions need the task of each row, too")
    valid: object = option(None, HeldOut("DATA|SHARE"), "data", Where.SHELL | Where.NUMBERS,
        "held-out data, whose error is shown with every certificate; or a share of the rows to leave out, such as 20%; "
        "for numbers the error is the mean loss", common=True)
    cv: object = option(None, Cv(), "data", Where.SHELL | Where.NUMBERS,
        "choose C by K folds, in the reads of one training; each C is trained without each fold and judged on it, and "
        "the best one on all rows; by: rows with one value of this column stay together; order=yes: folds of "
        "consecutive rows; order=past: each fold is judged after training on the rows before it; rule=1se: the "
        "smallest C within a standard error",
        common=True)
    calibrate: str | None = option(None, Word(("sigmoid", "isotonic")), "problem", WITH_CLASSES & ~Where.STREAM,
        "learn probabilities from the scores of held-out rows, by `cv` or `valid`: sigmoid is Platt's curve of two "
        "numbers, isotonic any curve that never falls")
    columns: Sequence[str] | None = option(None, ColumnNames(), "table", TABLES, "use only these columns; "
        "common: those that all files have; all: those of any file, 0 in files that lack one")
    drop: Sequence[str] | None = option(None, ColumnNames(), "table", TABLES, "leave these columns of a table out")
    categorical: Sequence[str] | None = option(None, ColumnNames(), "table", TABLES, "treat these columns of a "
        "table as categories, such as zip codes")
    text: str | None = option(None, Texts(), "table", TABLES, "count the words of this column of a table; each "
        "word, or sequence of up to N words, is hashed to one of 2^18 columns", common=True)
    decimal: str | None = option(None, Word(("point", "comma")), "table", TABLES, "the decimal mark of "
        "ambiguous numbers of a table, such as 1,234 (default: they are an error)")
    dates: bool | str | None = option(None, Switch(("day-first", "month-first")), "table", TABLES, "expand the dates "
        "of a table to years, days, month, day of the week and hour; the value is the order of ambiguous ones "
        "(default: dates are an error)")
    missing: str | None = option(None, Word(("mean", "zero", "indicator")), "table", TABLES, "missing values of a "
        "table become the mean, zero, or the mean and a column that marks them (default: they are an error)")
    unknown: str | None = option(None, Word(("error", "zero")), "table", TABLES, "categories of a held-out table "
        "that were not in the training data: an error, or zeros (default: error)")
    spool: str | None = option(None, FolderPath("DIR"), "table", TABLES | Where.STREAM,
        "folder for the rows of a table or of batches as numbers; they are used again while nothing changes "
        "(default: beside the model)")
    # fmt: on

    def __post_init__(self) -> None:
        for line in TABLE:
            value = getattr(self, line.name)
            if value is not None or line.default is not None:
                object.__setattr__(self, line.name, line.kind.check(f"`{line.name}`", value))
        if (self.path is not None or len(self.costs or ()) > 1) and self.valid is None and self.cv is None:
            raise UsageError(SEVERAL if self.path is None else f"several values of `C` need {IN_A_FILE}")
        if self.valid is not None and self.cv is not None:
            raise UsageError("`cv` uses folds of the rows, and `valid` other rows; give one of them")

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Options:
        """Values by name, whatever their types: they are checked here. Raises UsageError, TypeError for other names."""
        if unknown := given.keys() - {line.name for line in TABLE}:
            raise TypeError(f"there is no option {min(unknown)}")
        return cls(**given)  # type: ignore[arg-type]  # __post_init__ checks them

    @property
    def path(self) -> Path | None:
        """The path over C, if one was asked for."""
        return self.C if isinstance(self.C, Path) else None

    @property
    def costs(self) -> list[float] | None:
        """The given values of C; for a path its last one, or else its first."""
        if self.path is not None:
            end = self.path.low if self.path.high is None else self.path.high
            return None if end is None else [end]
        return None if self.C is None else list(self.C)  # type: ignore[arg-type]  # checked: a list

    @property
    def folds(self) -> Folds | Known | Share | None:
        """The folds of the rows, or the share that is left out, if such were asked for."""
        return self.valid if isinstance(self.valid, Share) else self.cv  # type: ignore[return-value]  # checked

    @property
    def held_out(self) -> object:
        """Held-out data other than rows of the training."""
        return None if isinstance(self.valid, Share) else self.valid

    @property
    def absolute(self) -> bool:
        """Whether the tolerance is one of the mean gap."""
        return isinstance(self.tol, Absolute)

    @property
    def eps(self) -> float:
        """The number of the tolerance, a relative or an absolute one."""
        return self.tol.gap if isinstance(self.tol, Absolute) else float(self.tol)

    @property
    def hard(self) -> bool:
        """Whether C = inf was asked for by name."""
        return self.costs == [math.inf]

    @property
    def midway(self) -> bool:
        """Whether the bias is found after the weights."""
        return self.bias == MIDWAY_BIAS

    @property
    def of_files(self) -> str | Sequence[str] | None:
        """The columns that are taken of files of rows: common, all, or their names."""
        return self.columns[0] if self.columns in (("common",), ("all",)) else self.columns

    @property
    def of_others(self) -> str | None:
        """What the model takes of files with other columns, as after common or all: of names, other ones are left."""
        columns = self.of_files
        return columns if columns is None or isinstance(columns, str) else "common"

    @property
    def steps(self) -> tuple[Transform, ...]:
        """The steps of each row."""
        return self.transform or ()  # type: ignore[return-value]  # checked

    @property
    def scaling(self) -> tuple[str, float]:
        """The kind of the scale, and the largest absolute value that it leaves."""
        return parts_of(self.scale)

    def column(self, costs: Sequence[float]) -> float:
        """The value of the constant column for these values of C; 0 for none."""
        if self.bias is None:
            return 0.0 if math.inf in costs else 1.0
        return float(self.bias == FREE_BIAS) if isinstance(self.bias, str) else self.bias

    @property
    def workers(self) -> int:
        """The number of threads."""
        return threads_of(self.threads)

    @property
    def auto(self) -> bool:
        """Whether the solver is chosen for the user."""
        return isinstance(self.solver, Auto)

    @property
    def top(self) -> float:
        """How many rows count: those with the largest losses; inf for all."""
        top = getattr(self.loss, "top", None)
        return math.inf if top is None else float(top)

    def check_place(self, place: Where, why: str) -> None:
        """Raise UsageError for an option that does not apply there; why: the end of its message."""
        for line in TABLE:
            value = getattr(self, line.name)
            default = None if line.default is None else line.kind.check(line.name, line.default)
            given = value is not None if default is None else value != default
            if given and place not in line.where:
                raise UsageError(f"`{line.name}` {why}")

    def plain(self) -> dict[str, object]:
        """The values for events and headers, as JSON can hold them; words are spelled in full."""
        kept = {line.name: getattr(self, line.name) for line in TABLE if line.theme not in ("data", "run")}
        del kept["threads"]  # which change no bit of a model
        kept |= {
            name: None if kept[name] is None else str(kept[name])
            for name in ("solver", "loss", "penalty", "kernel", "map")
        }
        kept["transform"] = ",".join(map(str, self.steps)) or None
        if self.absolute:
            kept["tol"] = str(self.tol)
        if self.path is not None:
            kept["C"] = str(self.path)
        elif self.costs and len(self.costs) == 1:
            kept["C"] = self.costs[0]
        if isinstance(self.class_weight, Mapping):
            kept["class_weight"] = {str(label): float(factor) for label, factor in self.class_weight.items()}
        if self.classes is not None:
            kept["classes"] = [str(label) for label in self.classes]
        return kept


TABLE: tuple[Line, ...] = tuple(
    one.metadata["line"]._replace(name=one.name, type=str(one.type)) for one in fields(Options)
)
TABLE_OPTIONS = [line.name for line in TABLE if line.theme == "table"]


def options_for(place: Where) -> list[Line]:
    """The lines of the table that apply there, in order."""
    return [line for line in TABLE if place in line.where]


def with_table(options: Options, table: Mapping[str, object] | None) -> Options:
    """The options, with those about the columns of a table from one mapping. Raises UsageError."""
    if table is None:
        return options
    if not isinstance(table, Mapping):
        raise UsageError(f"table must be a mapping of {', '.join(TABLE_OPTIONS)}, not {shown(table)}")
    if unknown := [name for name in table if name not in TABLE_OPTIONS]:
        raise UsageError(f"table has no option {shown(unknown[0])}; its options are {', '.join(TABLE_OPTIONS)}")
    for name in table:
        if getattr(options, name) is not None:
            raise UsageError(f"`{name}` is given by itself and in table; give it once")
    return Options.of({line.name: getattr(options, line.name) for line in TABLE} | dict(table))


class ReadBy(TypedDict):
    """The files that a training reads, for `streammargin.sources.open.files_read`."""

    rows: list[str]
    x: str | None
    columns: list[str]
    files: list[str]


def read_by(given: Mapping[str, object]) -> ReadBy:
    """The files and names that these options (name -> value) make a training read.

    rows: further files of rows; x: the name of the rows; columns: names of labels and weights; files: further files
    that may hold them, and models. Arrays are left out. Fields of words count like options.
    """
    named: list[tuple[Kind, str]] = []
    for line in TABLE:
        kind, value = line.kind, given.get(line.name)
        if isinstance(kind, (Worded, Cv)):
            named += kind.read_by(value)
        elif isinstance(kind, HeldOut) and isinstance(kind.check(line.name, value), Share):
            continue
        elif isinstance(kind, InputName) and isinstance(value, (str, os.PathLike)):
            named.append((kind, os.fspath(value)))
    rows, datasets, models = (
        [value for kind, value in named if isinstance(kind, base)] for base in (RowsFile, Dataset, SavedModel)
    )
    columns = [kind.column(value) for kind, value in named if isinstance(kind, ColumnName)]
    files = [file for kind, value in named if isinstance(kind, ColumnName) for file in kind.files(value)]
    return {"rows": rows, "x": next(iter(datasets), None), "columns": columns, "files": [*files, *models]}


def asked_digest(options: Options, data: Sequence[str]) -> str:
    """A digest of the options that make a training this one, and of its files' names without their folders.

    Other digests are other trainings. Equal ones may differ in what the files hold. data: the paths of the rows.
    """
    told = {name: value for name, value in options.plain().items() if name not in (*MAY_CHANGE, "spool")}
    named = {line.name: getattr(options, line.name) for line in TABLE if line.theme == "data"}
    files = {name: os.path.basename(value) for name, value in named.items() if isinstance(value, (str, os.PathLike))}
    files |= {name: str(value) for name, value in named.items() if isinstance(value, (Folds, Known, Share))}
    return digest_of([told, files, [os.path.basename(path) for path in data]])


def digest_of(value: object) -> str:
    """The digest of plain values."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
