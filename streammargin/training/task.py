"""Derive loss and C from the options, before anything is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from streammargin.errors import UsageError
from streammargin.kernels import make_kernel
from streammargin.losses import is_numeric, make_loss
from streammargin.losses.base import Loss, called, coupled, has
from streammargin.options.table import FREE_BIAS, IN_A_FILE, Options, Where
from streammargin.penalties import DEFAULT
from streammargin.solvers.base import Method
from streammargin.solvers.proof.kept import NEEDED
from streammargin.solvers.registry import make_solver


@dataclass(frozen=True)
class Task:
    """The loss and the values of C, with the solver's defaults if they were left out."""

    loss: Loss
    costs: list[float]

    @property
    def numeric(self) -> bool:
        """Whether this is a regression."""
        return is_numeric(self.loss.terms())

    @property
    def from_constant(self) -> bool:
        """Whether it is a regression whose targets are centred (see training/setup.py)."""
        return self.numeric and math.inf not in self.costs


def make_task(options: Options) -> Task:
    """Derive the task. Raises UsageError for options that contradict each other."""
    if options.max_rows is not None:
        raise UsageError("`max_rows` ends a stream of batches; files and arrays are read `passes` times")
    # those of `auto` depend on the problem, which is known once the data are open
    declared: Method | type[Method] = Method if options.auto else make_solver(options.solver)
    loss = make_loss(declared.default_loss if options.loss is None else options.loss)
    numeric = is_numeric(loss.terms())
    default_C = Method.default_C if numeric else declared.default_C
    costs = options.costs or [math.inf if loss.only_hard else default_C]
    if numeric:
        if loss.only_hard and costs != [math.inf]:
            raise UsageError(
                "interpolation means C = inf; leave out `C`, and to allow errors up to 0.1 use `loss=interpolate:0.1`"
            )
        if options.hard and not loss.only_hard:
            raise UsageError(
                f"the loss {loss.name} needs a finite C; give that, or to interpolate use `loss=interpolate`"
            )
        place = Where.INTERPOLATION if loss.only_hard else Where.NUMBERS
        options.check_place(place, f"does not apply to the regression loss {loss.name}; leave it out")
    if options.kernel is not None:
        check_kernel(options)
    if options.midway and (costs != [math.inf] or numeric or options.multiclass == "joint"):
        raise UsageError(
            "the midway bias is for the hard margin of single classes; use `C=inf` without `multiclass=joint`, or give "
            "the bias as a number"
        )
    if options.map is not None and options.init is not None:
        raise UsageError("`init` begins from weights of columns, and those of a map are new; leave it out")
    check_tolerance(options, costs)
    if options.folds is not None:
        check_folds(options, costs)
    if options.calibrate is not None and options.valid is None and options.cv is None:
        raise UsageError("`calibrate` needs scores of held-out rows; give `cv=5`, or `valid=DATA`")
    if options.calibrate is not None and options.tasks is not None:
        raise UsageError("`calibrate` has one scale of scores, and each of the `tasks` has its own; leave out one")
    if options.early_stop is not None:
        check_early_stop(options, loss, costs == [math.inf])
    if options.path is not None and costs == [math.inf]:
        raise UsageError(f"{declared.name} supports C = inf only, but a path has finite values; give `C` as inf")
    return Task(loss, costs)


def check_kernel(options: Options) -> None:
    """UsageError for options that a kernel machine does not have."""
    if str(options.penalty) != DEFAULT:
        raise UsageError("a kernel machine has the penalty l2 of its own space; leave out `penalty`")
    if options.bias is not None and options.bias not in (FREE_BIAS, 0.0):
        raise UsageError(
            "the constant of a kernel machine is free, or there is none; leave out `bias`, or give `bias=0`"
        )
    if options.map is not None:
        raise UsageError("`map` is for a linear solver, and `kernel` trains a kernel machine; give one of them")
    if options.scale != "none" and make_kernel(options.kernel).of_numbers:
        raise UsageError("`scale` changes columns, and those of a precomputed matrix are its values; leave it out")
    if options.init is not None:
        raise UsageError("`init` keeps weights of columns, and a kernel machine has none; leave it out")


def check_tolerance(options: Options, costs: Sequence[float]) -> None:
    """UsageError for a bound on the mean gap at C = inf, which has no such gap."""
    if options.absolute and math.inf in costs:
        raise UsageError(
            "`tol=absolute:EPS` bounds the mean gap at a finite C; for C = inf give a relative tolerance, as `tol=1e-3`"
        )


def check_folds(options: Options, costs: Sequence[float]) -> None:
    """UsageError for options that folds of the rows do not have."""
    name = "cv" if options.valid is None else f"valid={options.valid}"
    if options.path is not None:
        raise UsageError(f"`{name}` is for listed values of `C`, and a path needs {IN_A_FILE}")
    if math.inf in costs:
        raise UsageError(f"`{name}` chooses among finite values of `C`; give some, or leave it out")
    for other, why in (("early_stop", "keeps a pass by held-out data"), ("tasks", "has weights for each task")):
        if getattr(options, other) is not None:
            raise UsageError(f"`{other}` {why}, and `{name}` leaves out rows of the training; leave out one")


def check_early_stop(options: Options, loss: Loss, hard: bool) -> None:
    """UsageError if a pass cannot be scored, or its weights cannot be certified; hard: at C = inf."""
    if options.valid is None:
        raise UsageError("`early_stop` scores every pass on held-out data; give `valid=DATA`")
    if options.midway:
        raise UsageError(
            "`early_stop` scores every pass, and a bias midway is found after the last one; give `bias` as a number"
        )
    if getattr(loss, "top", None) is not None:
        raise UsageError(
            "`early_stop` certifies the sum of all losses, but with top the largest count alone; leave one of them out"
        )
    other_sums = hard or options.kernel is not None or coupled(loss.terms())
    lacking = [] if other_sums else [one for one in NEEDED if not has(loss.terms(), one)]
    if lacking:
        raise UsageError(
            f"`early_stop` needs the method {lacking[0]}, which the loss {called(loss.terms())} lacks; leave it out"
        )
