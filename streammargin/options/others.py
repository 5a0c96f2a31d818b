"""Options of earlier versions and of other programs, and what to use here instead."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from streammargin.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")

INSTEAD = {  # name with underscores -> what to give; options in backquotes (see wording.py)
    "norm": "`penalty=lp:1.5`, or `penalty=lp:sparse`",
    "p": "`penalty=lp:1.5`",
    "average": "`solver=perceptron:average`, or the field average of mirror, pegasos, homotopic and others",
    "no_average": "`solver=homotopic:average=no`, or batch-perceptron:average=no",
    "schedule": "`solver=diagonal:4,decay=linear`, `solver=adaptive:step=proven` or `solver=pdprox:dual`",
    "stochastic": "`solver=homotopic:stochastic`",
    "no_stochastic": "`solver=homotopic`",
    "momentum": "`solver=ascent:momentum=yes`",
    "algorithm": "`solver`",
    "optimizer": "`solver`",
    "learning_rate": "`solver`: no solver here has a learning rate",
    "l1_ratio": "`penalty=elasticnet:0.5`, or `penalty=group:FILE,l1_ratio=0.5`",
    "groups": "`penalty=group:FILE`",
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
    "dual_budget": "the field top of a loss, as in `loss=hinge:top=100`",
    "C_path": "`C=path:20`",
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
    "n_jobs": "none: one thread learns, and another reads",
    "dual": "`solver`",
    "warm_start": "`init`, an earlier model of `streammargin.train`, or `C=path:20` for several C",
    "validation_fraction": "`valid`, held-out data",
    "multi_class": "`multiclass`",
    "verbosity": "`verbose`",
    "eps": "`tol`",
}


def instead(name: str) -> str | None:
    """What to use instead of an option of this name, with options in backquotes; None for an unknown name."""
    return INSTEAD.get(name.replace("-", "_"))


def refuse(names: Iterable[str]) -> None:
    """Raise UsageError for the first keyword that has another name here."""
    for name in names:
        if (better := instead(name)) is not None:
            raise UsageError(f"there is no {name} here; give {better}")


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
