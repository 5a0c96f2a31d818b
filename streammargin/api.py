"""streammargin.train: train a model in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from streammargin.driver.loop.holders import Elsewhere
from streammargin.driver.status.events import History, Listener
from streammargin.errors import UsageError
from streammargin.kernels import Kernel
from streammargin.losses import Loss
from streammargin.maps.base import Map
from streammargin.options.costs import Absolute, Path
from streammargin.options.others import described, of_others
from streammargin.options.table import TABLE, Options, with_table
from streammargin.ordered import is_table
from streammargin.penalties.base import PenaltyWord
from streammargin.result import TrainResult, remarks
from streammargin.sinks.console import watched
from streammargin.solvers.word import SolverWord
from streammargin.sources.open import is_stream, pairs_of
from streammargin.training.rows import ROW_DATA, DataKind, is_spooled, train_rows
from streammargin.training.stream import train_stream
from streammargin.transforms import Transform
from streammargin.wording import shown, warn


@of_others
@described(TABLE)
def train(
    data: object,
    y: object = None,
    *,
    x: str | None = None,
    sample_weight: object = None,
    mask: str | None = None,
    solver: SolverWord | str = "auto",
    loss: Loss | str | None = "auto",
    penalty: PenaltyWord | str = "l2",
    kernel: Kernel | str | None = None,
    map: Map | str | None = None,
    C: float | Sequence[float] | Path | str | None = None,
    bias: float | str | None = None,
    transform: Sequence[Transform | str] | Transform | str | None = None,
    scale: str = "none",
    class_weight: str | Mapping[object, float] | None = None,
    positive: object = None,
    classes: Sequence[object] | None = None,
    multiclass: str | None = None,
    tol: float | Absolute | str = 1e-3,
    passes: int = 1000,
    early_stop: int | None = None,
    max_seconds: float | None = None,
    max_rows: int | None = None,
    memory: str | int = "1G",
    threads: int | str | None = None,
    seed: int = 0,
    checkpoint: str | None = None,
    checkpoint_seconds: float = 60.0,
    init: object = None,
    tasks: object = None,
    valid: object = None,
    cv: object = None,
    calibrate: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    text: str | None = None,
    decimal: str | None = None,
    dates: bool | str | None = None,
    missing: str | None = None,
    unknown: str | None = None,
    spool: str | None = None,
    table: Mapping[str, object] | None = None,
    verbose: bool = False,
    listeners: Iterable[Listener] = (),
    should_stop: Callable[[], str | None] | None = None,
) -> TrainResult:
    """Train a linear large-margin classifier: min R(w) + C sum_i s_i phi(y_i x_i.w), R(w) = 1/2 ||w||^2 by default.

    A regression loss is phi(x_i.w - y_i). If training does not converge, a warning with a remedy is logged to the
    logger "streammargin".

    Parameters
    ----------
    data : path, list of paths (shards), (X, y), Source, or an iterable of batches (X, y) or (X, y, sample_weight)
        Rows (n, d); with arrays, y and sample_weight are arrays (n,), s_i >= 0. The model stores the column names of a
        frame or file, and finds columns by name. With an AnnData object, y and sample_weight may name columns of obs.
        In a table, `y` names the column of labels. A table is a frame, an Arrow table, or the path of CSV, Parquet,
        Feather or a folder of these. Files of numbers are svmlight text, Matrix Market, .npy and .npz. With `spool`,
        batches are first written to that folder, so that they can be read again. Batches may be mappings, such as
        a loader of torch or datasets yields. `x` and `y` then name two of their keys; `sample_weight` may name a third.

    {options}
    table : options about columns as one mapping, such as {"missing": "mean", "drop": "id"}
    verbose : show progress on stderr, as the command does; otherwise nothing is printed
    listeners : functions that are called with every event, a dict
    should_stop : a function called between blocks; a result other than None ends the run with the current model

    Raises
    ------
    UsageError, DataError, InputMissingError, ReadWriteError

    Streams
    -------
    The solvers perceptron, mirror and pegasos learn each row of an iterable of batches (an iterator, a loader, a list)
    once, in order. Memory does not depend on the length of the stream. They stop at its end or at max_rows (reason
    "passes"), or after max_seconds ("seconds"). There is no second read, so all figures of the certificate are None,
    except margin_upper for a hard margin. Give all labels in `classes` if the first batch may lack some. For pegasos
    the objective sums over max_rows rows, by default as many as the first batch has. Options that need all rows
    (scale, class_weight="balanced", valid, tol, passes) are errors. Exceptions of the iterable pass unchanged.

    Sources: dual coordinate ascent of the lp-norm perceptron paper (Algorithm 1, appendices B.1, C).
    """
    options = Options(
        y=y, x=x, sample_weight=sample_weight, mask=mask, solver=solver, loss=loss, penalty=penalty, kernel=kernel,
        map=map, C=C, bias=bias, transform=transform, scale=scale, class_weight=class_weight, positive=positive,
        classes=classes, multiclass=multiclass, tol=tol, passes=passes, early_stop=early_stop, max_seconds=max_seconds,
        max_rows=max_rows, memory=memory, threads=threads, seed=seed, checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds, init=init, tasks=tasks, valid=valid, cv=cv, calibrate=calibrate,
        columns=columns, drop=drop, categorical=categorical, text=text, decimal=decimal, dates=dates, missing=missing,
        unknown=unknown, spool=spool,
    )  # fmt: skip
    return _called(data, with_table(options, table), listeners, verbose, should_stop)


@of_others
def complete(
    data: object,
    *,
    columns: Sequence[str] | None = None,
    y: str | None = None,
    loss: Loss | str = "absolute_error",
    C: float | Path | str = 1.0,
    solver: SolverWord | str = "auto",
    tol: float | Absolute | str = 1e-3,
    passes: int = 10_000,
    max_seconds: float | None = None,
    memory: str | int = "1G",
    threads: int | str | None = None,
    checkpoint: str | None = None,
    checkpoint_seconds: float = 60.0,
    valid: object = None,
    verbose: bool = False,
    listeners: Iterable[Listener] = (),
    should_stop: Callable[[], str | None] | None = None,
) -> TrainResult:
    """Complete a matrix from some of its entries: min ||X||_* + C sum_e l(x_e), with the trace norm ||X||_*.

    The model of the result is a `RatingsModel`: two factors, with the names of rows and columns.

    Parameters
    ----------
    data : path, list of paths, frame, Arrow table, SciPy sparse matrix, or arrays (rows, columns, values)
        Ratings, each of one row and one column. Files are CSV, Parquet, Feather, Matrix Market, or .npz of SciPy. Rows
        and columns are named by whole numbers or text.

    columns, y : names of the two columns with rows and columns of the matrix, and of the column with ratings.
        Default: the first three columns of a table.

    loss : absolute_error, squared_error, or hinge with the parameter levels.
        `hinge:levels=1,2,3,4,at=0,3,6,9` is a sum over the levels: a rating above level 3 asks for X above 6.
    C : weight of the errors; path:K needs `valid`, and keeps the value with the smallest held-out error

    solver : auto, factors (low rank), splitting (any rank, in memory), or completion (one, then the other)

    valid : held-out ratings, like data, for the root mean squared error

    tol, passes, max_seconds, memory, threads, checkpoint, checkpoint_seconds, verbose, listeners, should_stop
        As for `train`. A pass is a read of all ratings.

    Raises
    ------
    UsageError, DataError, InputMissingError, ReadWriteError
        DataError for a rating that is there twice or is no number, and for a row or column without ratings.

    Sources: Pdprox paper, section 5.3; Burer and Monteiro 2003; Lions and Mercier 1979.
    """
    from streammargin.training.ratings import GIVEN, options_of  # which reads tables

    options = options_of(
        {"columns": columns, "y": y, "loss": loss, "C": C, "solver": solver, "tol": tol, "passes": passes,
         "max_seconds": max_seconds, "memory": memory, "threads": threads, "checkpoint": checkpoint,
         "checkpoint_seconds": checkpoint_seconds, "valid": valid}
    )  # fmt: skip
    return _called(data, options, listeners, verbose, should_stop, GIVEN)


def _called(
    data: object, options: Options, listeners: object, verbose: bool, should_stop: Callable[[], str | None] | None,
    given: DataKind | None = None,
) -> TrainResult:  # fmt: skip
    """`train_by`, once the functions that were given are checked."""
    if should_stop is not None and not callable(should_stop):
        raise UsageError(f"should_stop must be a function, not {shown(should_stop)}")
    told: list[Listener] = [*checked(listeners), *watched(verbose, options.max_seconds, options.workers)]
    return train_by(data, options, told, should_stop, None, given)


def train_by(
    data: object, options: Options, listeners: Iterable[Listener], should_stop: Callable[[], str | None] | None,
    elsewhere: Elsewhere | None = None, given: DataKind | None = None,
) -> TrainResult:  # fmt: skip
    """`train` with its options as one object; elsewhere: who holds the rows of a reader; given: what data are.

    None: rows.
    """
    history = History(listeners)
    x, y, weight = options.x, options.y, options.sample_weight
    if isinstance(y, str) and isinstance(weight, (str, type(None))) and x and not is_table(data) and is_stream(data):
        data = pairs_of(data, x, y, weight)
        options = Options.of({**vars(options), "x": None, "y": None, "sample_weight": None})
    if given is None and not is_table(data) and is_stream(data) and not is_spooled(data, options):
        return train_stream(data, options, history, should_stop)
    result = train_rows(data, options, history, should_stop, elsewhere, given or ROW_DATA)
    for code, text in remarks(result):
        warn(text, code)
    return result


def checked(listeners: object) -> list[Listener]:
    """The listeners as a list. Raises UsageError if they are not functions."""
    with suppress(TypeError):
        functions = list(listeners)  # type: ignore[call-overload]
        if all(callable(function) for function in functions):
            return functions
    raise UsageError(f"listeners must be a list of functions, not {shown(listeners)}")
