"""What the options alone decide of a training, before anything is read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streammargin.errors import UsageError
from streammargin.losses import is_numeric, make_loss
from streammargin.losses.base import Loss
from streammargin.options.table import Options, Where
from streammargin.solvers.base import Method
from streammargin.solvers.registry import make_solver


@dataclass(frozen=True)
class Task:
    """What the options alone decide: the loss and C, of most solvers where they were left out."""

    loss: Loss
    costs: list[float]

    @property
    def numeric(self) -> bool:
        """Whether labels are numbers."""
        return is_numeric(self.loss.terms())

    @property
    def from_constant(self) -> bool:
        """Whether labels are numbers that are taken from the constant that is best alone, where there is one."""
        return self.numeric and math.inf not in self.costs


def make_task(options: Options) -> Task:
    """Raises UsageError for options that do not fit together, before anything is read."""
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
                "to interpolate is to meet every target, C = inf; leave `C` out, or let errors be, as in "
                "`loss=interpolate:0.1`"
            )
        if options.hard and not loss.only_hard:
            raise UsageError(f"the loss {loss.name} is for a finite C; to meet every number use `loss=interpolate`")
        place = Where.INTERPOLATION if loss.only_hard else Where.NUMBERS
        options.check_place(place, f"is not for the loss {loss.name}, which takes numbers; leave it out")
    if options.midway and (costs != [math.inf] or numeric or options.multiclass == "joint"):
        raise UsageError(
            "a bias midway lies between the nearest rows of either side, for the hard margin of each class; use "
            "`C=inf` without `multiclass=joint`, or give the bias as a number"
        )
    if options.path is not None and costs == [math.inf]:
        raise UsageError(f"{declared.name} knows C = inf alone, and a path goes over finite values; give `C` as inf")
    return Task(loss, costs)
