"""Functions of a loss over a chunk of rows that kernels call by their address.

A kernel of rows is compiled once for all losses, and a loss once for all kinds of rows. So their number is a sum and no
product. The price is a call for each chunk. Loops over single rows keep their loss inlined instead (sdca.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import (
    NativeValue,
    intrinsic,
    models,
    overload,
    overload_method,
    register_jitable,
    register_model,
    typeof_impl,
    unbox,
)

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import READY, kernel

FIELDS: Any = types.CPointer(types.float64)  # type: ignore[attr-defined]  # of the loss
SIZE, NUMBER = types.int64, types.float64
COLUMN_TYPE, COLUMNS_TYPE, PLANES_TYPE = (types.Array(types.float64, dimensions, "C") for dimensions in (1, 2, 3))


def _entry(code, fields, arguments):
    """What stands at the address: the function with the loss whose fields lie there."""
    _enter(code, fields, arguments)


def _enter(code, fields, arguments):
    raise NotImplementedError("compiled only")


entry = kernel(_entry)


class ByAddress:
    """A function (loss, *arguments) without a result, whose arguments have these Numba types."""

    def __init__(self, function: Callable[..., None], arguments: tuple[types.Type, ...]) -> None:
        self.function, self.arguments = register_jitable(function), types.Tuple(arguments)  # type: ignore[attr-defined]
        self.kind = _Called(self)
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        # typed: named tuples of different classes are equal if their fields are
        self.of = functools.lru_cache(maxsize=256, typed=True)(functools.partial(BoundLoss, self))

    def __reduce__(self) -> str:
        """By its name, in caches."""
        return self.__qualname__


class BoundLoss:
    """The function with a loss, to be passed to a kernel, which has `call(*arguments)`."""

    def __init__(self, function: ByAddress, loss: Any) -> None:
        self.function, self.loss = function, loss

    def call(self, *arguments: Any) -> None:
        """In plain Python."""
        self.function.function(self.loss, *arguments)

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        return np.array(self.loss, np.float64)

    @functools.cached_property
    def fields(self) -> int:
        """The address of the fields of the loss."""
        return int(self.numbers.ctypes.data)

    @functools.cached_property
    def address(self) -> int:
        """The address of the compiled function."""
        signature = (_Code(self.function, type(self.loss)), FIELDS, self.function.arguments)
        if signature not in entry.overloads:
            entry.compile(signature)
            READY.append(entry.py_func.__name__)
        code, description = attrgetter("library", "fndesc")(entry.overloads[signature])
        return int(code.get_pointer_to_function(description.llvm_cfunc_wrapper_name))


def by_address(*arguments: types.Type) -> Callable[[Callable[..., None]], ByAddress]:
    """Decorate a function (loss, *arguments) that fills arrays; `of(loss)` is what a kernel is given."""
    return lambda function: ByAddress(function, arguments)


class _Code(types.Opaque):
    """Says which function and which class of losses are compiled; `instance_class` as of a named tuple (cache.py)."""

    def __init__(self, function: ByAddress, loss: type) -> None:
        self.by_address, self.instance_class = function, loss
        names = [f"{one.__module__}.{one.__qualname__}" for one in (function, loss)]
        super().__init__(f"Code({', '.join(names)})")

    @property
    def key(self) -> tuple[str, type]:
        """What makes two types equal: a class that a notebook defines again keeps its name."""
        return self.name, self.instance_class


class _Called(types.Type):
    """The type of a `BoundLoss`, whatever its loss."""

    def __init__(self, function: ByAddress) -> None:
        self.arguments = function.arguments
        super().__init__(f"Called({self.arguments})")


@overload(_enter, strict=False)
def _entered(code: Any, fields: Any, arguments: Any) -> Any:
    function = code.by_address.function

    def run(code, fields, arguments):
        function(_loss_at(code, fields), *arguments)

    return run


@intrinsic
def _loss_at(typing_context: Any, code: Any, fields: Any) -> Any:
    """The loss whose fields lie at this address."""
    cls = code.instance_class
    loss: Any = types.NamedUniTuple(types.float64, len(cls._fields), cls)  # type: ignore[attr-defined]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        places = [builder.gep(arguments[1], [ir.Constant(ir.IntType(64), at)]) for at in range(loss.count)]
        return context.make_tuple(builder, loss, [builder.load(place) for place in places])

    return loss(code, fields), generate


@typeof_impl.register(BoundLoss)
def _type_of(value: BoundLoss, _context: Any) -> _Called:
    return value.function.kind


register_model(_Code)(models.OpaqueModel)


@register_model(_Called)
class _Model(models.StructModel):
    def __init__(self, manager: Any, kind: _Called) -> None:
        super().__init__(manager, kind, [("address", types.int64), ("fields", types.int64)])


@unbox(_Called)
def _unboxed(kind: _Called, value: Any, c: Any) -> NativeValue:
    native = cgutils.create_struct_proxy(kind)(c.context, c.builder)
    for name in ("address", "fields"):
        number = c.pyapi.object_getattr_string(value, name)
        with c.builder.if_then(cgutils.is_null(c.builder, number), likely=False):
            c.builder.ret(c.pyapi.get_null_object())
        setattr(native, name, c.pyapi.long_as_longlong(number))
        c.pyapi.decref(number)
    return NativeValue(native._getvalue())


@intrinsic
def _call(typing_context: Any, bound: Any, arguments: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        native = cgutils.create_struct_proxy(bound)(context, builder, value=values[0])
        # a C function: its first argument, of the type _Code, is not used
        code, fields = (context.get_value_type(kind) for kind in (types.voidptr, FIELDS))
        result, given = (context.get_value_type(kind) for kind in (types.none, bound.arguments))
        function = builder.inttoptr(native.address, ir.FunctionType(result, [code, fields, given]).as_pointer())
        builder.call(function, [ir.Constant(code, None), builder.inttoptr(native.fields, fields), values[1]])
        return context.get_dummy_value()

    return types.none(bound, bound.arguments), generate


@overload_method(_Called, "call", strict=False)
def _method(bound: Any, *arguments: Any) -> Any:
    return lambda bound, *arguments: _call(bound, arguments)
