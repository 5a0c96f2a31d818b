"""Roles of the fields of a solver's state.

A field's annotation declares its role, `of` its axes and initial value. From these follow, for all solvers: layout,
bytes, checkpoints, and splitting the state into parts by rows and merging them.
"""

from __future__ import annotations

import math
import operator
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from streammargin.solvers.problem import Problem

T = TypeVar("T", bound=np.generic)
S = TypeVar("S")
Float: TypeAlias = np.floating[Any]  # float32 or float64, chosen by the solver
Stored: TypeAlias = np.inexact[Any]  # float32 or float64, as the rows
f8: TypeAlias = np.float64
f4: TypeAlias = np.float32
i8: TypeAlias = np.int64
i4: TypeAlias = np.int32
u1: TypeAlias = np.uint8
b1: TypeAlias = np.bool_


class Role(Enum):
    """How a field is split when the rows are split over several holders."""

    ROWS = "rows"  # each holder has the entries of its rows
    SHARED = "shared"  # the same for all
    KEPT = "kept"  # of who decides between two reads; no holder needs it
    SUM = "sum"  # each sums over its rows; merged by addition
    GIVEN = "given"  # passed to each; not saved
    SCRATCH = "scratch"  # temporary; not saved


Rows = Annotated[NDArray[T], Role.ROWS]  # (K, n) unless `of` says otherwise
Shared = Annotated[NDArray[T], Role.SHARED]  # (K, d+1)
Kept = Annotated[NDArray[T], Role.KEPT]  # (K, d+1)
Sum = Annotated[NDArray[T], Role.SUM]  # (K, d+1)
Lists = Annotated[list[NDArray[T]], Role.SHARED]  # K arrays (m,), initially empty, that grow
Count = Annotated[int, Role.SUM]
Total = Annotated[float, Role.SUM]
Given = Annotated[S, Role.GIVEN]
Scratch = Annotated[S, Role.SCRATCH]


class Axis(NamedTuple):
    """An axis with its length in a problem; rows: whether it is split by rows."""

    size: Callable[[Problem], int]
    rows: bool = False
    name: str = "?"  # in lists of arrays

    def where(self, condition: Callable[[Problem], bool]) -> Axis:
        """The same axis, with length 0 if the condition is false."""
        size = self.size
        return Axis(lambda problem: size(problem) if condition(problem) else 0, self.rows, f"{self.name} or 0")


K = Axis(lambda problem: problem.count, name="K")
GROUPS = Axis(lambda problem: problem.groups, name="groups")
N = Axis(lambda problem: problem.rows, rows=True, name="n")
D = Axis(lambda problem: problem.features, name="d")
W = Axis(lambda problem: problem.width, name="d+1")
TRIALS = Axis(lambda problem: problem.trials, name="trials")
EVERY_COLUMN = slice(None)  # all columns
Names: TypeAlias = tuple[str, ...]  # of fields
Columns: TypeAlias = tuple[int, ...] | slice
AXES = {Role.ROWS: (K, N), Role.SHARED: (K, W), Role.KEPT: (K, W), Role.SUM: (K, W)}


@dataclass(frozen=True)
class Of:
    """The axes and initial value of an array; grows: its last axis is initially empty, and its sums are entries one
    after the other; shrinks: each axis may be shorter, and another read may change it; smallest, largest: columns of a
    sum that merge by minimum or maximum instead of addition; carried: pairs of columns, a compensated sum and its
    compensation (`compiled.careful.carried_sum`).
    """

    axes: tuple[Axis | int, ...] = ()
    fill: float = 0.0
    grows: bool = False
    shrinks: bool = False
    smallest: Columns = ()
    largest: Columns = ()
    carried: tuple[tuple[int, int], ...] = ()


GROWS = Of(grows=True)


def of(
    *axes: Axis | int, fill: float = 0.0, grows: bool = False, shrinks: bool = False, smallest: Columns = (),
    largest: Columns = (), carried: tuple[tuple[int, int], ...] = (),
) -> Any:  # fmt: skip
    """The default of an array field (see `Of`)."""
    return Of(axes, fill, grows, shrinks, smallest, largest, carried)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(of, field))
def state(cls: type[S]) -> type[S]:
    """Class decorator: make a class of annotated fields a state, or a part of one."""
    return dataclass(slots=True, kw_only=True, eq=False)(cls)


class Entry(NamedTuple):
    """A field. kind: array, list, part, rows (a row cache), number, given or scratch; type: its dtype or class."""

    name: str
    kind: str
    role: Role
    type: Any
    of: Of
    default: Any


class Array(NamedTuple):
    """Shape, dtype and initial value of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fill: float = 0.0

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def allocate(self) -> np.ndarray:
        # zeros take no memory until they are written
        return np.full(self.shape, self.fill, self.dtype) if self.fill else np.zeros(self.shape, self.dtype)


def entries(cls: Any) -> tuple[Entry, ...]:
    """The fields of a state or part."""
    return _entries(cls)


@cache  # mypy takes no class for hashable
def _entries(cls: Any) -> tuple[Entry, ...]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(_entry(one.name, hints[one.name], one.default) for one in fields(cls))


def _entry(name: str, hint: Any, default: Any) -> Entry:
    role = Role.SHARED
    if typing.get_origin(hint) is Annotated:
        hint, role = typing.get_args(hint)[0], typing.get_args(hint)[1]
    hint = _expanded(hint)
    spec = default if isinstance(default, Of) else Of()
    if role in (Role.SCRATCH, Role.GIVEN):
        return Entry(name, role.value, role, hint, spec, default)
    if typing.get_origin(hint) is list:
        return Entry(name, "list", role, _dtype(typing.get_args(hint)[0]), spec, default)
    if typing.get_origin(hint) is np.ndarray:
        spec = replace(spec, axes=spec.axes or AXES[role])
        return Entry(name, "array", role, _dtype(hint), spec, default)
    if isinstance(hint, types.UnionType):
        raise TypeError(f"{name} is {hint}; a field of a state is an array, a number, a part or scratch")
    if is_dataclass(hint):
        return Entry(name, "part", role, hint, spec, default)
    return Entry(name, "rows" if hasattr(hint, "kept_rows") else "number", role, hint, spec, default)


def _expanded(hint: Any) -> Any:
    """The type behind an alias: NDArray[T] of NumPy 2.5 is one that is not evaluated."""
    value = getattr(typing.get_origin(hint), "__value__", None)
    return hint if value is None else value[typing.get_args(hint)]


def _dtype(hint: Any) -> Any:
    """The dtype of NDArray[T]; Float or Stored itself if the solver or the rows decide."""
    scalar = typing.get_args(typing.get_args(_expanded(hint))[1])[0]
    for word in (Float, Stored):
        if scalar in (word, typing.get_origin(word)):
            return word
    return np.dtype(scalar)


def _scalar(scalar: Any, problem: Problem, dtype: Any) -> np.dtype:
    """The dtype of an array or list in a problem; dtype: that of `Float`."""
    return problem.dtype if scalar is Stored else np.dtype(dtype if scalar is Float else scalar)


def _array(scalar: Any, spec: Of, problem: Problem, dtype: Any = f8) -> Array:
    """An array of this type; dtype: that of `Float`."""
    sizes = [axis if isinstance(axis, int) else axis.size(problem) for axis in spec.axes]
    if spec.grows:
        sizes[-1] = 0
    return Array(tuple(sizes), _scalar(scalar, problem, dtype), spec.fill)


def layout(cls: type, problem: Problem, dtype: Any = f8, prefix: str = "") -> dict[str, Array]:
    """All arrays of a state by path, those of parts as `part.name`; dtype: that of `Float`."""
    found: dict[str, Array] = {}
    for entry in entries(cls):
        if entry.kind == "array":
            found[prefix + entry.name] = _array(entry.type, entry.of, problem, dtype)
        elif entry.kind == "part":
            found |= layout(entry.type, problem, dtype, f"{prefix}{entry.name}.")
    return found


def state_bytes(cls: type, problem: Problem, dtype: Any = f8) -> int:
    """Bytes of a state's arrays before any grows, and of those that its steps make beside them.

    The latter are float64. A class of the state lists them in `workspace`, as `of` declares them, without their names.
    """
    return _bytes(entries(cls), problem, np.dtype(dtype), entries) + _listed(cls, "workspace", problem)


def _listed(cls: type, name: str, problem: Problem) -> int:
    """Bytes of the arrays that the classes of a state list under this name."""
    return sum(_array(f8, spec, problem).bytes for kind in cls.__mro__ for spec in vars(kind).get(name, ()))


def keeps_per_row(cls: type, problem: Problem) -> bool:
    """Whether a state has numbers of rows, or a cache of rows."""
    for entry in entries(cls):
        if entry.kind == "part" and keeps_per_row(entry.type, problem):
            return True
        if entry.kind == "rows":
            return True
        of_rows = entry.kind == "array" and entry.role is Role.ROWS
        if of_rows and (entry.of.grows or _array(entry.type, entry.of, problem).bytes):
            return True
    return False


def row_bytes(cls: type, problem: Problem, dtype: Any = f8) -> int:
    """Bytes that a state keeps for each row, without cached rows."""
    one, two = (_bytes(entries(cls), replace(problem, rows=rows), np.dtype(dtype), entries) for rows in (1, 2))
    return two - one


def new(cls: type[S], problem: Problem, dtype: Any = f8, **given: Any) -> S:
    """A new state or part with initial values; given: values of some fields."""
    made: dict[str, Any] = {}
    for entry in entries(cls):
        if entry.name in given:
            made[entry.name] = given[entry.name]
        elif entry.kind == "array":
            made[entry.name] = _array(entry.type, entry.of, problem, dtype).allocate()
        elif entry.kind == "list":
            made[entry.name] = [np.empty(0, _scalar(entry.type, problem, dtype)) for _ in range(problem.count)]
        elif entry.kind == "part":
            made[entry.name] = new(entry.type, problem, dtype)
        elif entry.kind == "rows":
            made[entry.name] = entry.type()
    return cls(**made)


def take(cls: type[S], before: Any) -> S:
    """A state of this class with the fields of another state, which has them all; arrays are not copied."""
    return cls(**{entry.name: getattr(before, entry.name) for entry in entries(cls)})


def walk(state: Any, prefix: str = "") -> Iterator[tuple[str, Entry, Any]]:
    """(path, entry, value) of every field, with parts replaced by their fields."""
    for entry in entries(type(state)):
        value = getattr(state, entry.name)
        if entry.kind == "part":
            yield from walk(value, f"{prefix}{entry.name}.")
        else:
            yield prefix + entry.name, entry, value


class SavedState(NamedTuple):
    """A state as plain numbers, arrays, the numbers of cached rows, and arrays beside these, by path."""

    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray]
    rows: dict[str, np.ndarray]
    beside: dict[str, np.ndarray]


def save(state: Any) -> SavedState:
    """The saved parts of a state; arrays are not copied."""
    saved = SavedState({}, {}, {}, {})
    for path, entry, value in walk(state):
        if entry.kind == "number":
            saved.numbers[path] = value
        elif entry.kind == "array":
            saved.arrays[path] = value
        elif entry.kind == "list":
            saved.arrays.update({f"{path}.{k}": one for k, one in enumerate(value)})
        elif entry.kind == "rows":
            saved.rows.update({f"{path}.{name}": ids for name, ids in value.kept_rows().items()})
            saved.beside.update({f"{path}.{name}": array for name, array in value.kept_beside().items()})
    return saved


def load(state: Any, problem: Problem, dtype: Any, saved: SavedState) -> None:
    """Load saved values into a new state; float32 is widened to float64 if a smaller tolerance needs it.

    Cached rows are read by the driver. ValueError if a name, kind, shape or dtype differs.
    """
    numbers, arrays = dict(saved.numbers), dict(saved.arrays)
    expected = layout(type(state), problem, dtype)
    for path, entry, _ in list(walk(state)):
        part, name = _owner(state, path)
        if entry.kind == "number":
            setattr(part, name, _number(path, entry, numbers))
        elif entry.kind == "array":
            setattr(part, name, _checked(path, expected[path], arrays, entry.of))
        elif entry.kind == "list":
            one = Array((0,), _scalar(entry.type, problem, dtype))
            setattr(part, name, [_checked(f"{path}.{k}", one, arrays, GROWS) for k in range(problem.count)])
    if numbers or arrays:
        raise ValueError(f"{', '.join(sorted([*numbers, *arrays]))} is not in the state of this solver")


def rows_kept(state: Any) -> Iterator[tuple[str, Any]]:
    """Every row cache, by path."""
    return ((path, value) for path, entry, value in walk(state) if entry.kind == "rows")


def _owner(state: Any, path: str) -> tuple[Any, str]:
    *parts, name = path.split(".")
    for part in parts:
        state = getattr(state, part)
    return state, name


def _number(path: str, entry: Entry, numbers: dict[str, Any]) -> Any:
    if path not in numbers:
        raise ValueError(f"{path} is missing")
    value = numbers.pop(path)
    fits = is_count(value) if entry.type is int else is_number(value) if entry.type is float else type(value)
    if not fits or (entry.type in (bool, str) and not isinstance(value, entry.type)):
        raise ValueError(f"{path} is {value!r}")
    return value


def _checked(path: str, expected: Array, arrays: dict[str, np.ndarray], spec: Of) -> np.ndarray:
    if path not in arrays:
        raise ValueError(f"{path} is missing")
    array = arrays.pop(path)
    if (expected.dtype, array.dtype) == (np.float64, np.float32):
        array = array.astype(np.float64)
    free = 1 if spec.grows else 0  # axes of any length, the last ones
    shape, found = (each[: array.ndim - free] for each in (expected.shape, array.shape))
    fits = found == shape or (spec.shrinks and all(map(operator.le, found, shape)))
    if not fits or expected.dtype != array.dtype or array.ndim != len(expected.shape):
        raise ValueError(f"{path} has the shape {array.shape} and the type {array.dtype}")
    return array


def is_count(value: Any) -> bool:
    """Whether it is an integer in [0, 2^53), True and False included."""
    return isinstance(value, int) and 0 <= value < 1 << 53


def is_number(value: Any) -> bool:
    """Whether it is an int or float, nan and inf included."""
    return isinstance(value, (int, float))


def clear(state: Any) -> None:
    """Reset all sums to their initial values."""
    for path, entry, value in walk(state):
        if entry.role is Role.SUM and entry.kind == "array":
            _reset(value, entry.of)
        elif entry.role is Role.SUM:
            part, name = _owner(state, path)
            setattr(part, name, type(value)())


def _reset(sums: np.ndarray, spec: Of) -> None:
    sums[...] = spec.fill
    for columns, limit in ((spec.smallest, math.inf), (spec.largest, -math.inf)):
        if columns != ():  # integer arrays have none, as they cannot hold inf
            sums[_at(columns)] = limit


def _at(columns: Columns) -> Any:
    """The index of these columns in an array."""
    return ..., columns if isinstance(columns, slice) else list(columns)


def cut(state: S, first: int, stop: int, names: Names = ()) -> S:
    """The state of a holder of the rows first .. stop: views of its rows, sums of its own as `beside`, else shared."""
    part = with_rows(beside(state, names), rows_of(state, first, stop))
    for entry in entries(type(part)):
        if hasattr(value := getattr(part, entry.name), "cut"):
            setattr(part, entry.name, value.cut(first, stop))
    return part


OfRows: TypeAlias = dict[str, np.ndarray]  # numbers of some rows that follow each other, by path


def rows_of(state: Any, first: int = 0, stop: int | None = None) -> OfRows:
    """Views of the numbers of the rows first .. stop."""
    return {
        path: value[tuple(slice(first, stop) if _of_rows(axis) else slice(None) for axis in entry.of.axes)]
        for path, entry, value in walk(state)
        if entry.kind == "array" and entry.role is Role.ROWS
    }


def changed(state: Any, rows: OfRows) -> OfRows:
    """The numbers of all rows of a state, by path, that differ from these."""
    return {path: now for path, now in rows_of(state).items() if not np.array_equal(now, rows[path])}


def with_rows(part: S, rows: OfRows, prefix: str = "") -> S:
    """A copy of the state with these numbers of rows; all else is shared."""
    part = copy(part)
    for entry in entries(type(part)):
        path = prefix + entry.name
        if entry.kind == "part":
            setattr(part, entry.name, with_rows(getattr(part, entry.name), rows, f"{path}."))
        elif path in rows:
            setattr(part, entry.name, rows[path])
    return part


def beside(state: S, names: Names = ()) -> S:
    """A state with sums of its own, at their initial values; all else is shared.

    names: the fields with sums that are its own, if the others are known and stay; by default all.
    """
    own: S = object.__new__(type(state))
    for entry in entries(type(state)):
        setattr(own, entry.name, getattr(state, entry.name))
    for entry in _of_sums(_kind(state), names):
        value = getattr(state, entry.name)
        if entry.kind == "part":
            value = beside(value)
        elif entry.kind == "array":
            shape = (*value.shape[:-1], 0) if entry.of.grows else value.shape
            value = np.zeros(shape, value.dtype)  # which takes no memory until it is written
            if entry.of.fill or entry.of.smallest != () or entry.of.largest != ():
                _reset(value, entry.of)
        else:
            value = type(value)()
        setattr(own, entry.name, value)
    return own


def sent(state: S, names: Names = ()) -> S:
    """The arrays from which a holder elsewhere makes a state with sums of its own, as `beside`: without these sums.

    Nothing is sent of labels and scratch, nor of what is kept if all sums are. Numbers of rows go apart (`rows_of`).
    """
    return _sent(state, _of_sums(_kind(state), names))


def _sent(state: S, own: tuple[Entry, ...]) -> S:
    """`sent`; own: the entries with sums."""
    made: S = object.__new__(type(state))
    for entry in entries(type(state)):
        value = getattr(state, entry.name)
        if entry.role in (Role.GIVEN, Role.SCRATCH, Role.KEPT, Role.ROWS):
            value = None
        elif entry.kind == "part":
            value = _sent(value, _of_sums(_kind(value)) if entry in own else ())
        elif entry in own and entry.kind == "array":
            value = Array(value.shape, value.dtype)
        setattr(made, entry.name, value)
    return made


def returned(part: S, names: Names = ()) -> S:
    """The sums of such a state, without all else, for `merge`."""
    made: S = object.__new__(type(part))
    for entry in _of_sums(_kind(part), names):
        value = getattr(part, entry.name)
        setattr(made, entry.name, returned(value) if entry.kind == "part" else value)
    return made


def _kind(state: Any) -> Any:
    return type(state)  # mypy takes no class for hashable


@cache
def _of_sums(cls: Any, names: Names = ()) -> tuple[Entry, ...]:
    """The fields that are sums, and the parts that have some; names: of these fields and the counts alone."""
    found = (one for one in entries(cls) if (_of_sums(one.type) if one.kind == "part" else one.role is Role.SUM))
    return tuple(one for one in found if not names or one.name in names or one.kind == "number")


def sum_bytes(cls: type, problem: Problem, dtype: Any = f8) -> int:
    """Bytes of the sums of a state, or of those that a class of it lists in `summed`, if these take more."""
    return max(_bytes(_of_sums(cls), problem, np.dtype(dtype), _of_sums), _listed(cls, "summed", problem))


def _bytes(some: Iterable[Entry], problem: Problem, dtype: np.dtype, of: Callable[[Any], Iterable[Entry]]) -> int:
    """Bytes of the arrays of these fields; of: the fields of a part."""
    size = 0
    for one in some:
        if one.kind == "array":
            size += _array(one.type, one.of, problem, dtype).bytes
        elif one.kind == "part":
            size += _bytes(of(one.type), problem, dtype, of)
    return size


def _of_rows(axis: Axis | int) -> bool:
    return isinstance(axis, Axis) and axis.rows


def merge(state: Any, part: Any, names: Names = ()) -> None:
    """Add the sums of a holder's state to `state`, those of `beside`; its per-row arrays are views already.

    A part with sums that do not simply add up has a method `align(other)`, which changes both so that they do.
    """
    if hasattr(state, "align"):
        state.align(part)
    for entry in _of_sums(_kind(state), names):
        value, other = getattr(state, entry.name), getattr(part, entry.name)
        if entry.kind == "part":
            merge(value, other)
        elif entry.of.grows:
            setattr(state, entry.name, np.concatenate([value, other], axis=-1))
        elif entry.kind == "array":
            _add(value, other, entry.of)
        else:
            setattr(state, entry.name, value + other)


def _add(total: np.ndarray, other: np.ndarray, spec: Of) -> None:
    """Add sums to `total`; a compensated one is a term of another (Kahan 1965), less the compensations of both."""
    kept: list[tuple[Any, np.ndarray]] = [
        (_at(columns), which(total[_at(columns)], other[_at(columns)]))
        for columns, which in ((spec.smallest, np.minimum), (spec.largest, np.maximum))
        if columns != ()
    ]
    for column, carry in spec.carried:
        wanted = other[..., column] - (total[..., carry] + other[..., carry])
        new = total[..., column] + wanted
        lost = (new - total[..., column]) - wanted
        kept += [((..., column), new), ((..., carry), np.where(np.isfinite(lost), lost, 0.0))]
    total += other
    for place, values in kept:
        total[place] = values
