"""Options of earlier versions and of other programs, and what to use here instead; options in docstrings."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from streammargin.errors import UsageError
from streammargin.options.table import Line
from streammargin.wording import in_python

P = ParamSpec("P")
R = TypeVar("R")

INSTEAD = {  # name with underscores -> what to give, or a colon and why nothing; options in backquotes (wording.py)
    "norm": "`penalty=lp:1.5`, or `penalty=lp:sparse`",
    "p": "`penalty=lp:1.5`",
    "average": "`solver=perceptron:average`, or the parameter average of mirror, pegasos, homotopic and others",
    "no_average": "`solver=homotopic:average=no`, or batch-perceptron:average=no",
    "schedule": "`solver=diagonal:4,decay=linear`, `solver=adaptive:step=proven` or `solver=pdprox:dual`",
    "stochastic": "`solver=homotopic:stochastic`",
    "no_stochastic": "`solver=homotopic`",
    "momentum": "`solver=ascent:momentum=yes`",
    "algorithm": "`solver`",
    "optimizer": "`solver`",
    "learning_rate": "`solver`: no solver here has a learning rate",
    "eta0": "`solver`: no solver here has a learning rate",
    "power_t": "`solver`: no solver here has a learning rate",
    "l1_ratio": "`penalty=elasticnet:0.5`, or `penalty=group:FILE,l1_ratio=0.5`",
    "groups": "`penalty=group:FILE`; groups of rows are for folds: `cv=5,by=COLUMN`, or of a splitter in fit",
    "width": "`loss=smooth_hinge:1`",
    "slope": "`loss=generalized_hinge:2`",
    "quantile": "`loss=quantile:0.9`",
    "epsilon": "`loss=epsilon_insensitive:0.1`, or `loss=interpolate:0.1`",
    "delta": "`loss=huber:1`",
    "penalize_bias": "`bias=free`, or `bias=1` for a penalised constant",
    "no_penalize_bias": "`bias=free`",
    "fit_intercept": "`bias`: 0 for none, 1, or free",
    "intercept_scaling": "`bias`, the value of the constant column",
    "noconstant": "`bias=0`",
    "dual_budget": "the parameter top of a loss, as in `loss=hinge:top=100`",
    "C_path": "`C=path:20`",
    "Cs": "several values of `C`, with folds, `cv=5`, or held-out data, `valid`",
    "resume": "`checkpoint=DIR` alone: it resumes from a state in DIR",
    "no_resume": "another `checkpoint`",
    "alpha": "`C`: the penalty has the factor 1, and the sum of the losses C = 1 / (alpha n)",
    "lambda": "`C` = 1 / lambda",
    "l1": "`penalty=l1`, whose weight is 1, and `C`",
    "l2": "`penalty=l2`, whose weight is 1, and `C`",
    "loss_function": "`loss`",
    "nu": "`C`",
    "max_iter": "`passes`",
    "n_iter": "`passes`",
    "early_stopping": "`early_stop=5` with held-out data, `valid`",
    "n_iter_no_change": "`early_stop=5` with held-out data, `valid`",
    "random_state": "`seed`",
    "n_jobs": "`threads`",
    "dual": "`solver`",
    "warm_start": "`init`, an earlier model of `streammargin.train`, or `C=path:20` for several C",
    "test": "`valid=DATA` to train, or judge the model afterwards: streammargin evaluate MODEL DATA",
    "validation_fraction": "`valid`, held-out data",
    "multi_class": "`multiclass`",
    "verbosity": "`verbose`",
    "shuffle": ": each pass has another order of the rows, by `seed`",
    "epochs": "`passes`",
    "batch_size": ": `memory` decides how many rows are read at once",
    "cache_size": "`memory`",
    "gamma": "it in the kernel, as in `kernel=rbf:0.5`",
    "degree": "it in the kernel, as in `kernel=poly:3`",
    "coef0": "`kernel=poly:3,coef0=1`",
    "layer": "`x=layers/NAME`",
    "n_components": "it in the map, as in `map=nystroem:500`",
    "probability": ": a model of `loss=logistic` predicts probabilities",
    "oaa": ": the classes are those of the labels",
    "bfgs": "`solver=newton`",
    "quantile_tau": "`loss=quantile:0.9`",
    "early_terminate": "`early_stop=5` with held-out data, `valid`",
    "holdout_off": ": rows are held out only if `valid` names them",
    "cache": ": files are read as they are",
    "initial_regressor": "`init`",
    "random_seed": "`seed`",
    "final_regressor": "-o MODEL, or in Python the method save of a model",
    "bit_precision": ": columns are not hashed",
    "link": ": a model of `loss=logistic` predicts probabilities",
    # letters of LIBLINEAR and Vowpal Wabbit
    "-s": "`loss`: logistic for LIBLINEAR's 0 and 7, squared_hinge for 1 and 2, hinge for 3, epsilon_insensitive for "
    "13; for 5 squared_hinge and for 6 logistic with `penalty=l1`; the others are not here",
    "-p": "it in the loss, as in `loss=epsilon_insensitive:0.1`",
    "-n": ": there is no one-class loss",
    "-m": "`threads`",
    "-R": "`bias=free`",
    "-w": "`class_weight`, as in `class_weight=1=2`",
    "-b": ": columns are not hashed, and predict has an option for probabilities",
    "-d": "the file alone, without a letter",
    "-f": "-o MODEL",
    "-i": "`init`",
    "-k": ": files are read as they are",
    "-l": "`solver`: no solver here has a learning rate",
    "eps": "`tol`",
}

NOT_THERE = {  # options of train that others lack
    "cv": ": folds choose C in train and in estimators that end in CV; ratings take `C=path:10` and `valid=DATA`"
}

# of LIBLINEAR's -v 5, as -v is a flag of ours
NO_FOLDS = "; -v takes no number here; to choose C by folds, give `cv=5`"
T = TypeVar("T")


def instead(name: str) -> str | None:
    """The end of "there is no NAME here", of a keyword, a flag or a letter with its number (-w1); None if unknown."""
    letter = re.fullmatch(r"(-[A-Za-z])-?\d*", name)
    found = {**INSTEAD, **NOT_THERE}.get(letter[1] if letter else name.removeprefix("--").replace("-", "_"))
    return found if found is None or found.startswith(":") else f"; give {found}"


def refuse(names: Iterable[str]) -> None:
    """Raise UsageError for the first keyword that has another name here."""
    for name in names:
        if (better := instead(name)) is not None:
            raise UsageError(f"there is no {name} here{better}")


def of_others(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: a keyword of earlier versions or other programs is an error that names ours."""

    @functools.wraps(function)
    def called(*args: P.args, **given: P.kwargs) -> R:
        try:
            return function(*args, **given)
        except TypeError:
            refuse(name for name in given if name not in function.__annotations__)
            raise

    return called


def parameters(lines: Iterable[Line]) -> str:
    """The paragraphs of a docstring for these options."""
    described = []
    for line in lines:
        described.append(f"{line.name} : {line.type}, default {line.default!r}")
        described += textwrap.wrap(in_python(line.help), 112, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(described)


def described(lines: Iterable[Line], **shared: str) -> Callable[[T], T]:
    """A decorator that replaces {options} in a docstring by these options, and other names by texts of theirs."""

    def fill(documented: T) -> T:
        doc = inspect.cleandoc(documented.__doc__ or "")  # python -OO leaves none; 3.13 cleans it by itself
        for name, text in {**shared, "options": parameters(lines)}.items():
            doc = doc.replace(f"{{{name}}}", text)
        documented.__doc__ = doc or None
        return documented

    return fill
