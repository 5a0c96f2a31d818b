"""What the options alone decide of a training, before anything is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from streammargin.errors import UsageError
from streammargin.losses import is_hard, is_numeric, loss_text, make_loss
from streammargin.options.table import SEVERAL, Options, Where
from streammargin.solvers.base import Method
from streammargin.solvers.registry import AUTO, make_solver


@dataclass(frozen=True)
class Task:
    """What the options alone decide: the loss and C, of most solvers where they were left out."""

    loss: Any
    costs: list[float]

    @property
    def numeric(self) -> bool:
        """Whether labels are numbers."""
        return is_numeric(self.loss)

    @property
    def from_constant(self) -> bool:
        """Whether labels are numbers that are taken from the constant that is best alone, where there is one."""
        return self.numeric and math.inf not in self.costs


def make_task(options: Options) -> Task:
    """Raises UsageError for options that do not fit together, before anything is read."""
    if options.max_rows is not None:
        raise UsageError("`max_rows` ends a stream of batches; files and arrays are read `passes` times")
    # those of `auto` depend on the problem, which is known once the data are open
    declared: Method | type[Method] = Method if options.solver == AUTO else make_solver(options.solver)
    name = declared.default_loss if options.loss is None else options.loss
    loss = make_loss(name, **options.of_the_loss())
    default_C = Method.default_C if is_numeric(loss) else declared.default_C
    costs = options.costs or [math.inf if is_hard(name) else default_C]
    if is_numeric(loss):
        named = loss_text(name)
        if is_hard(name) and costs != [math.inf]:
            raise UsageError("to interpolate is to meet every target, C = inf; leave `C` out, or give `epsilon`")
        if options.hard and not is_hard(name):
            raise UsageError(f"the loss {named} is for a finite C; to meet every number use `loss=interpolate`")
        place = Where.INTERPOLATION if is_hard(name) else Where.NUMBERS
        options.check_place(place, f"is not for the loss {named}, which takes numbers; leave it out")
    if options.midway and (costs != [math.inf] or is_numeric(loss) or options.multiclass == "joint"):
        raise UsageError(
            "a bias midway lies between the nearest rows of either side, for the hard margin of each class; use "
            "`C=inf` without `multiclass=joint`, or give the bias as a number"
        )
    if options.C_path is not None:
        if options.valid is None:
            raise UsageError(SEVERAL)
        if len(costs) > 2 or costs == [math.inf] or costs != sorted(set(costs)):
            raise UsageError("a path goes up to a finite `C`: give the last value alone, or the first and the last one")
        costs = costs[-1:]
    return Task(loss, costs)
