"""Hints for options that no solver supports: each hint is tried before it is named."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import NamedTuple

from streammargin.errors import Refusal, UsageError
from streammargin.kernels.plain import Rbf
from streammargin.losses import LOSSES, is_numeric, make_loss
from streammargin.losses.base import has
from streammargin.maps.rff import Rff
from streammargin.options.table import FREE_BIAS, Options
from streammargin.penalties import DEFAULT
from streammargin.solvers.base import Method
from streammargin.solvers.registry import SOLVER_CLASSES, make_solver
from streammargin.solvers.word import Auto

MOST_HINTS = 2  # that a message names
MAPPED = 500  # columns of a map that stands for a kernel
Supported = Callable[[Options], Method | None]  # the solver that supports these options, if there is one


class Change(NamedTuple):
    """Another value of an option; same: the loss and the penalty stay what they are."""

    option: str
    value: object
    same: bool = True


@contextmanager
def with_hints(options: Options, supported: Supported) -> Iterator[None]:
    """Raise a Refusal as the UsageError with a hint, if one is found."""
    try:
        yield
    except Refusal as refusal:
        found = hints(options, supported)
        if not found:
            raise
        use = "use " if found[0].startswith("use ") else ""
        listed = ", or ".join([found[0], *(hint.removeprefix(use) for hint in found[1:])])
        raise UsageError(f"{refusal.wrong}; {listed}") from None


def hints(options: Options, supported: Supported) -> list[str]:
    """Changes with which a solver supports the options, as a sentence has them: MOST_HINTS, each as small as can be.

    Another loss or penalty is named if another solver alone is not enough.
    """
    if not options.auto and options.costs is None and math.isinf(make_solver(options.solver).default_C):
        options = replace(options, C=[math.inf])  # another solver shall find the maximum margin, too
    every = [list(values) for values in _changes(options)]
    same = [values for values in every if values and values[0].same]
    found = _fewest(options, same, supported)
    if found and found[0].startswith("use `solver="):
        return found[:MOST_HINTS]
    return list(dict.fromkeys([*found[:1], *_fewest(options, every, supported)]))[:MOST_HINTS]


def _fewest(options: Options, every: Sequence[list[Change]], supported: Supported) -> list[str]:
    """The changes of as few of these options as are enough; a solver alone comes first."""
    for size in range(1, len(every) + 1):
        several = itertools.combinations(every, size)
        if found := [said for one in several if (said := _tried(options, one, supported)) is not None]:
            return found
    return []


def _tried(options: Options, values: Sequence[list[Change]], supported: Supported) -> str | None:
    """The first of these values, one of each list, with which a solver supports the options, as a sentence has them."""
    for changes in itertools.product(*values):
        with suppress(UsageError):
            given = {change.option: change.value for change in changes}
            given |= {"kernel": None} if "map" in given else {}
            method = supported(Options.of({**vars(options), **given}))
            if method is not None:
                return _said(options, changes, method)
    return None


def _changes(options: Options) -> Iterator[Iterator[Change]]:
    """The changes of each option, the gentlest first; those of the objective come last."""
    loss = None if options.loss is None else make_loss(options.loss)
    numeric = loss is not None and is_numeric(loss.terms())
    solvers = [make_solver(name) for name in list(SOLVER_CLASSES)[1:]]
    finite = options.kernel is not None if loss is None else has(loss.terms(), "step")
    if options.auto and options.costs is None and finite:  # what was asked for is no hard margin
        solvers = [one for one in solvers if math.isfinite(one.default_C)]
    yield (Change("solver", one) for one in ([] if options.auto else [Auto()]) + solvers)
    if isinstance(options.kernel, Rbf) and options.kernel.weight == 1.0 and loss is not None:  # linear: more losses
        yield iter([Change("map", Rff(MAPPED, options.kernel.gamma))])
    if not numeric and options.multiclass != "ovr":
        yield iter([Change("multiclass", "ovr")])
    if options.bias == FREE_BIAS:
        yield iter([Change("bias", 1.0 if options.kernel is None else 0.0)])  # that of a kernel machine is free or none
    if options.top < math.inf:
        assert loss is not None
        yield iter([Change("loss", loss.replace(top=None))])
    if options.costs is None or options.hard:
        yield iter([Change("C", [1.0])])
    elif not options.auto and math.isinf(make_solver(options.solver).default_C):
        yield iter([Change("C", None)])
    if str(options.penalty) != DEFAULT:
        yield iter([Change("penalty", DEFAULT, same=False)])
    words = [cls() for cls in LOSSES.values() if not cls.only_hard]
    yield (Change("loss", one, same=False) for one in words if is_numeric(one.terms()) == numeric and one != loss)


def _said(options: Options, changes: Sequence[Change], method: Method) -> str:
    """The changes as a sentence has them; method: the solver that supports them."""
    values = {change.option: change.value for change in changes}
    if "solver" in values:
        values["solver"] = method.called
        if options.hard and "C" not in values and not math.isinf(method.default_C):
            values["solver"] = f"{method.called}` and `C=inf"
    if "bias" in values:
        values["bias"] = 1 if values["bias"] else 0
    listed = " and ".join(f"`{name}={value}`" for name, value in values.items() if name != "C")
    listed += " in place of `kernel`" * ("map" in values)
    if "C" not in values:
        return f"use {listed}"
    finite = "give a finite C" + (" in place of a path" if options.path is not None else "")
    lead = "leave out `C`" if values["C"] is None else finite
    return f"{lead} with {listed}" if listed else lead
