"""The base class of the scikit-learn estimators; scikit-learn is an extra: pip install 'streammargin[sklearn]'."""

from __future__ import annotations

import math
import os
import re
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from inspect import Parameter, Signature
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp

from streammargin.driver.status.events import History
from streammargin.errors import DataError, UsageError
from streammargin.kernels import FAMILY as KERNELS
from streammargin.kinds import MOST_THREADS, Kind, Number
from streammargin.losses import FAMILY as LOSSES
from streammargin.maps import FAMILY as MAPS
from streammargin.model.base import Model
from streammargin.model.linear import model_of
from streammargin.options.costs import Path
from streammargin.options.others import described, refuse
from streammargin.options.table import FREE_BIAS, Line, Options, Where, options_for
from streammargin.penalties import FAMILY as PENALTIES
from streammargin.points.mapped import Mapped, put_together, taken_apart
from streammargin.result import Certificate, TrainResult, remarks
from streammargin.sinks.console import watched
from streammargin.solvers.registry import FAMILY as SOLVERS
from streammargin.solvers.word import Auto
from streammargin.sources.arrays import as_array, bare, refuse_dates, refuse_masked
from streammargin.sources.base import Source
from streammargin.sources.labels import check_present
from streammargin.sources.open import is_path, is_shards
from streammargin.training.rows import train_rows
from streammargin.training.setup import OF_AMOUNTS
from streammargin.training.task import make_task
from streammargin.transforms.chain import Chain
from streammargin.wording import in_python, shown, warn
from streammargin.words import Family, Thing
from streammargin.workers import cores

# callbacks of scikit-learn 1.9 and later (SLEP023, experimental there); older versions do not offer `set_callbacks`
try:
    from sklearn.callback import CallbackSupportMixin as Callbacks
    from sklearn.callback import with_callbacks
except ImportError:
    Method = TypeVar("Method", bound=Callable[..., Any])

    class Callbacks:  # type: ignore[no-redef]
        """No callbacks."""

    def with_callbacks(method: Method) -> Method:
        """The method as it is."""
        return method


class Passes:
    """A listener that makes a task of each pass, with the figures of its certificate, if it had one.

    asked: whether a callback has asked to stop.
    """

    def __init__(self, estimator: Any, context: Any) -> None:
        self._estimator, self._context = estimator, context
        self._task: Any = None  # of the last pass, which ends once the next event shows whether it was certified
        self._figures: dict[str, Any] = {}
        self.asked = False

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "pass_end":
            self.end()
            self._task = self._context.subcontext(task_name="pass").call_on_fit_task_begin(estimator=self._estimator)
            self._figures = {name: event[name] for name in ("pass", "rows", "mistakes", "estimate")}
        elif event["event"] == "certificate":
            self._figures |= {name: event[name] for name in ("primal", "dual", "gap", "margin_gap", "valid_error")}

    def end(self) -> None:
        """End the task of the last pass."""
        if self._task is not None:
            task, self._task = self._task, None
            self.asked |= bool(task.call_on_fit_task_end(estimator=self._estimator, metadata=self._figures))

    def stopped(self) -> str | None:
        """The reason to stop, for a training that asks."""
        return "signal" if self.asked else None


@contextmanager
def told_of_passes(estimator: Any) -> Iterator[Passes | None]:
    """The listener for an estimator's callbacks, if it has some. `with_callbacks` decorates who uses it."""
    if not getattr(estimator, "_skl_callbacks", None):
        yield None
        return
    context = estimator._init_callback_context(max_subtasks=None)
    context.call_on_fit_task_begin(estimator=estimator)
    passes = Passes(estimator, context)
    yield passes
    passes.end()
    context.call_on_fit_task_end(estimator=estimator)


try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data
except ImportError as error:
    raise ImportError(
        "the estimators of streammargin need scikit-learn 1.6 or newer; pip install 'streammargin[sklearn]'"
    ) from error


FRACTION = Number("a number between 0 and 1", lambda value: 0.0 < value < 1.0)


def from_files(X: Any) -> bool:
    """Whether rows come from files, to which scikit-learn's checks of arrays do not apply."""
    return isinstance(X, Source) or is_path(X) or is_shards(X)


@contextmanager
def _in_range() -> Iterator[None]:
    """DataError for integers and decimals that scikit-learn cannot convert to floats."""
    try:
        yield
    except ArithmeticError as error:
        raise DataError(f"X, y or sample_weight has a number that does not fit into a float: {error}") from error


@contextmanager
def _by_parameters() -> Iterator[None]:
    """A refusal that advises options names what an estimator has in their place."""
    try:
        yield
    except (DataError, UsageError) as error:
        text = error.raw.replace("`bias=0`", "fit_intercept=False")
        error.args = (text.replace(OF_AMOUNTS, "use a regressor, or write classes as text"), *error.args[1:])
        raise


def own(name: str, type: str, default: object, help: str) -> Line:
    """A parameter that is no option of `streammargin.train`."""
    return Line(name, type, default, Kind(), "", Where(0), help)


SHARED = (
    own("transforms", "Sequence[Transform | str] | str | None", None, "steps of each row in front of scale and map, as "
        "`transform` of streammargin.train: scikit-learn calls an attribute of that name"),
    own("random_state", "Any", 0, "seed of all random draws: an int, a RandomState or None"),
    own("n_jobs", "int | None", None, "number of threads, -1 for all cores; the weights do not depend on it"),
    own("verbose", "bool", False, "show the progress on stderr"),
)  # fmt: skip
HELD_OUT = own("validation_fraction", "float", 0.1, "with `early_stop` or `calibrate`, the share of the rows (of each "
               "class) that is held out, drawn by random_state; the rest is copied")  # fmt: skip


# lines of docstrings: what X may be; heads; attributes after `fit` of all, of folds and of kernel machines
DESCRIBED = {
    "files": """X may also be the path of a file, a list of paths (shards) or a Source, which is streamed. Columns of
frames must have the names and order of those in fit; columns of files are matched by name, in any order.""",
    "parameters": """Parameters
----------
{options}

Attributes
----------""",
    "fitted": """n_iter_ : int, passes over the rows
n_features_in_ : int, and feature_names_in_ (d,) if X had names
certificate_ : a `streammargin.result.Certificate`""",
    "chosen": """C_ : float, the chosen C
Cs_ : (m,) float64, the values tried
scores_ : (folds, m) float64, of the trainings without one fold on its rows; each row counts once""",
    "support": """support_ : (m,) int64, numbers of the support rows in X, ascending
support_vectors_ : (m, d) array or SciPy matrix, scaled by `scale`""",
}


def intercept(help: str) -> Line:
    """The parameter fit_intercept."""
    return own("fit_intercept", "bool", True, help)


def constructor(lines: Sequence[Line]) -> Callable[..., None]:
    """An __init__ that stores its arguments, which these lines describe. C may be positional."""
    kept = [line.name for line in lines]
    parameters = [
        Parameter(line.name, Parameter.POSITIONAL_OR_KEYWORD if line.name == "C" else Parameter.KEYWORD_ONLY,
                  default=line.default, annotation=line.type)
        for line in sorted(lines, key=lambda line: line.name != "C")
    ]  # fmt: skip
    signature = Signature([Parameter("self", Parameter.POSITIONAL_ONLY), *parameters], return_annotation=None)

    def __init__(self: Any, *args: Any, **given: Any) -> None:
        if "transform" in given:
            raise UsageError("there is no transform here, as estimators of scikit-learn have a method of this name; "
                             "give transforms=")  # fmt: skip
        refuse(name for name in given if name not in kept)
        bound = signature.bind(self, *args, **given)
        bound.apply_defaults()
        for name in kept:
            setattr(self, name, bound.arguments[name])

    __init__.__signature__ = signature  # type: ignore[attr-defined]  # for help, IDEs and scikit-learn
    return __init__


FAMILIES: dict[str, Family[Any]] = {
    "solver": SOLVERS, "loss": LOSSES, "penalty": PENALTIES, "kernel": KERNELS, "map": MAPS
}  # fmt: skip


def _thing(name: str, value: Any) -> Thing:
    """The loss, penalty or other thing of a word, or an object unchanged. UsageError for anything else."""
    if name not in FAMILIES or value is None:
        raise UsageError(f"{name} is {shown(value)}, which has no parameters; set {name} itself first")
    return value if isinstance(value, Thing) else FAMILIES[name].of(value)


def refuse_gaps(y: Any) -> None:
    """DataError for labels of which one is masked, or missing, as scikit-learn would not say; None: there are none."""
    if y is not None and (labels := as_array(y, "y")).ndim:
        check_present(labels)


class ScoredMixin:
    """The score of an estimator, which precedes scikit-learn's mixin: files are scored as they are read."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy on rows X with labels y, of a regressor R^2; with files, y may name the dataset of labels.

        With several outputs it is the share of rows of which all labels are right, or the mean. R^2 needs targets
        that are not all equal.
        """
        if not from_files(X):
            refuse_gaps(y)
            return super().score(X, y, sample_weight)  # type: ignore[misc]  # that of scikit-learn's mixin
        if sample_weight is not None:
            raise UsageError("score of files takes no sample_weight; give X as an array")
        model: Model = self._model()  # type: ignore[attr-defined]  # of an estimator
        several = model.outputs is not None
        figure = "r2" if model.numeric else "subset_accuracy" if several else "accuracy"
        return model.evaluate(X, y=y)[figure]


class Estimator(Callbacks, BaseEstimator):
    """Parameters are options of `streammargin.train`, and those of `own` and SHARED in place of others."""

    place: ClassVar[Where]  # selects the options that are its parameters
    of_numbers: ClassVar[bool] = False  # whether it is a regressor
    own: ClassVar[tuple[Line, ...]] = ()  # further parameters
    without: ClassVar[tuple[str, ...]] = ()  # options that are no parameters
    coef_: Any
    validation_fraction: float
    transforms: Any
    _steps: Chain | None = None  # that rows take before the weights
    _calibration: dict[str, np.ndarray] = {}  # noqa: RUF012  # not changed
    _mapped: Mapped | None = None  # of a map, whose weights are coef_ and intercept_

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "place" in cls.__dict__:
            lines = [*cls._lines(), *cls.own, *SHARED]
            setattr(cls, "__init__", constructor(lines))  # noqa: B010  # as mypy wants it
            described(lines, **DESCRIBED)(cls)

    @classmethod
    def _lines(cls) -> list[Line]:
        """The options that are parameters."""
        return [line for line in options_for(cls.place) if line.name not in cls.without]

    def predict(self, X: Any) -> np.ndarray:
        """Labels or numbers (n,), or (n, outputs), of the rows of X."""
        return self._scorer(X).predict(self._rows(X, reset=False))

    @abstractmethod
    def _model(self) -> Model:
        """The fitted model."""

    def _take_weights(self, answer: Any) -> tuple[np.ndarray, np.ndarray]:
        """The weights of a linear answer, or those of mapped columns."""
        self._mapped, coef, intercept = taken_apart(answer)
        return coef, intercept

    def _model_of(self, intercept: np.ndarray, classes: np.ndarray) -> Model:
        """The model of coef_ and these constants, behind the map if there is one."""
        answer = put_together(self._mapped, self._dense_coef(), intercept)
        model = model_of(answer, classes, self._header, self._names())
        model.steps, model.calibration = self._steps, self._calibration
        return model

    def _rows(self, X: Any, **checks: Any) -> Any:
        """X, or X and y, checked by scikit-learn; files are checked when they are read."""
        if from_files(X):
            return X
        X = bare(X)
        refuse_dates(X)
        refuse_gaps(checks.get("y"))
        if "y" in checks:
            checks = {"multi_output": self._takes_several(), "order": "C", **checks}
        with _in_range():
            return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], **checks)

    def _takes_several(self) -> bool:
        """Whether y may have several columns."""
        with suppress(UsageError):  # which `fit` raises
            method = SOLVERS.of(self.solver)
            return isinstance(method, Auto) or bool(getattr(method, "several", False))
        return True

    def _weights(self, sample_weight: Any, X: Any) -> Any:
        if sample_weight is None:
            return None
        refuse_masked(sample_weight, "sample_weight")
        with _in_range():
            return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _scorer(self, X: Any) -> Model:
        """The fitted model. It compares column names of files only; for arrays scikit-learn does that in `_rows`."""
        model = self._model()
        if not from_files(X):
            model.feature_names_in_ = None
        return model

    def _names(self) -> np.ndarray | None:
        """Column names of the rows of `fit`, or None."""
        return getattr(self, "feature_names_in_", None)

    def _take_names(self, names: np.ndarray | None) -> None:
        """Set the column names of files, or delete those of an earlier fit."""
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; deep: also those of the loss and others, as in penalty__l1_ratio."""
        params = super().get_params(deep=False)
        if deep:
            for name, value in list(params.items()):
                with suppress(UsageError):
                    params |= {f"{name}__{field}": one for field, one in _thing(name, value).get_params().items()}
        return params

    def set_params(self, **params: Any) -> Any:
        """Set parameters; returns self. Setting penalty__l1_ratio replaces the penalty, which others may share."""
        of_words: dict[str, dict[str, Any]] = {}
        for name in list(params):
            word, mark, field = name.partition("__")
            if mark and word in FAMILIES:
                of_words.setdefault(word, {})[field] = params.pop(name)
        super().set_params(**params)
        for word, fields in of_words.items():
            thing = _thing(word, getattr(self, word))
            unknown = fields.keys() - thing.get_params().keys()
            if unknown:
                raise ValueError(f"{thing.name} has no parameter {unknown.pop()}; it has {sorted(thing.get_params())}")
            setattr(self, word, thing.replace(**fields))
        return self

    def _options(self) -> dict[str, Any]:
        options = {line.name: getattr(self, line.name) for line in self._lines()}
        options["C"] = self._costs(options)
        return {**options, "transform": self.transforms, "bias": self.bias if self.fit_intercept else 0.0}

    def _costs(self, options: dict[str, Any]) -> Any:
        """The value of C."""
        C = options.get("C")
        if np.asarray(C, object).ndim or isinstance(C, Path) or re.search(",|path", str(C)):
            raise UsageError("an estimator takes one `C`; choose among several with GridSearchCV, or by folds as "
                             "MarginClassifierCV does")  # fmt: skip
        return C

    @with_callbacks
    def _train(self, data: Any, y: Any, sample_weight: Any, named: Any = None, **more: Any) -> TrainResult:
        """Train, and set the attributes that classifiers and regressors share.

        named: a frame of the labels, if any. more: options in place of the parameters.
        """
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        valid = None
        if self._holds_out() and "cv" not in more:
            data, sample_weight, valid = self._split(data, sample_weight, int(seed))
        own = {**self._options(), "valid": valid, "seed": int(seed), "threads": self._threads(), **more}
        options = Options(y=y, sample_weight=sample_weight, **own)
        task = make_task(options)
        if options.bias is None and math.inf in task.costs:  # fit_intercept=True needs one
            options = replace(options, bias=1.0 if options.kernel is None else FREE_BIAS)
        if task.numeric != self.of_numbers:
            kind, other = ("numbers", "MarginClassifier") if self.of_numbers else ("classes", "MarginRegressor")
            other = other if options.kernel is None else f"Kernel{other}"
            raise UsageError(f"{type(self).__name__} needs a loss for {kind}; use {other} with loss {options.loss}")
        shown = watched(self.verbose, options.max_seconds, options.workers)
        with _by_parameters(), told_of_passes(self) as passes:
            history = History([*shown, passes] if passes else shown)
            result = train_rows(data, options, history, passes.stopped if passes else None)
        self.n_features_in_: int = result.model.answer.features
        self.n_iter_: int = result.passes
        self.certificate_: Certificate = result.certificate
        self._header, self._steps = result.model.header, result.model.steps
        self._calibration = result.model.calibration
        if from_files(data):
            self._take_names(result.model.feature_names_in_)
        if hasattr(named, "columns") and self._header["outputs"] is not None:
            self._header["outputs"] = [str(name) for name in named.columns]
        return result

    def _holds_out(self) -> bool:
        """Whether an option needs held-out rows."""
        return any(self._options().get(name) is not None for name in ("early_stop", "calibrate"))

    def _threads(self) -> int:
        """The number of threads, as joblib takes n_jobs: None: 1, unless its context has another; -1: all cores."""
        from joblib import effective_n_jobs

        whole = isinstance(self.n_jobs, (int, np.integer)) and not isinstance(self.n_jobs, bool)
        if self.n_jobs is not None and (not whole or self.n_jobs == 0 or self.n_jobs > MOST_THREADS):
            most = f"a number from 1 to {MOST_THREADS}"
            raise UsageError(f"n_jobs must be None, {most}, or -1 for all cores, not {shown(self.n_jobs)}")
        return cores() if self.n_jobs == -1 else int(effective_n_jobs(self.n_jobs))

    def _split(self, data: Any, sample_weight: Any, seed: int) -> tuple[Any, Any, Any]:
        """Copies: (rows and labels to train on, their weights, rows and labels held out)."""
        if from_files(data):
            raise UsageError(
                "`early_stop` or `calibrate` of an estimator holds out rows of arrays; of files, split them with "
                "streammargin-data split and call streammargin.train with `valid=DATA`"
            )
        X, y = data
        out = self._held_out(np.asarray(y), sample_weight, seed)
        return (X[~out], y[~out]), None if sample_weight is None else sample_weight[~out], (X[out], y[out])

    def _held_out(self, y: np.ndarray, sample_weight: Any, seed: int) -> np.ndarray:
        """Which rows are held out (n,) bool."""
        by_class = not self.of_numbers and y.ndim == 1
        return held_out(y, sample_weight, self.validation_fraction, seed, by_class)

    def _warn(self, result: TrainResult) -> None:
        for code, text in remarks(result):
            if code == "not_converged":
                warnings.warn(in_python(text), ConvergenceWarning, stacklevel=3)
            else:  # logged, as by `streammargin.train`: a grid search yields many
                warn(text, code)

    def _dense_coef(self) -> np.ndarray:
        """The weights (k, d) as an array, after `sparsify` too."""
        return self.coef_.toarray() if sp.issparse(self.coef_) else np.atleast_2d(self.coef_)

    def sparsify(self) -> Any:
        """Store coef_ as a CSR matrix (k, d): less memory if most weights are 0. Same predictions; returns self."""
        check_is_fitted(self)
        self.coef_ = sp.csr_matrix(self.coef_)
        return self

    def densify(self) -> Any:
        """Store coef_ as an array again. Returns self."""
        check_is_fitted(self)
        alone = self.of_numbers and self._header["outputs"] is None
        self.coef_ = self._dense_coef()[0] if alone else self._dense_coef()
        return self

    def save(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Write the model file, as `streammargin train` does."""
        self._model().save(path, force=force)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = self._takes_several()
        return tags


def held_out(y: np.ndarray, sample_weight: np.ndarray | None, fraction: object, seed: int, classes: bool) -> np.ndarray:
    """Which rows are held out (n,) bool: this fraction of each class, or of all rows of a regression; y (n,), or
    (n, outputs) without classes.

    Rows of weight 0 are absent, and are never drawn. At least one row of each class is left to train on. UsageError
    if `fraction` is not between 0 and 1, or so small that no row is held out.
    """
    part = FRACTION.number("validation_fraction", fraction)
    random, chosen = np.random.default_rng(seed), np.zeros(len(y), bool)
    present = np.ones(len(y), bool) if sample_weight is None else sample_weight > 0.0
    for label in np.unique(y[present]) if classes else [None]:
        rows = np.flatnonzero(present & (y == label) if classes else present)
        many = min(round(part * rows.size), rows.size - 1)
        chosen[random.permutation(rows)[: max(0, many)]] = True
    if not chosen.any():
        raise UsageError(
            f"validation_fraction={part:g} of {len(y)} rows holds out none, but `early_stop` and `calibrate` need such "
            "rows; raise it, or leave them out"
        )
    return chosen
