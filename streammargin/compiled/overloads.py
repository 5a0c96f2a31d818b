"""Make the methods of the named tuples in losses/, penalties/ and rows/ callable in kernels, by `overload`.

A kernel file must import this module before it compiles anything.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload, overload_method, register_jitable

from streammargin import losses
from streammargin.losses import base, choices, exponentials, simplex, softmax
from streammargin.penalties import mirror_maps as norms
from streammargin.rows import blocks, products, steps, visits
from streammargin.rows import labels as rows

# `forceinline`: LLVM vectorises a loop only if its calls are inlined. `_nrt` off: a call counts no references to the
# arrays of its object. They cost 30 ns that LLVM does not always remove. Methods take and return numbers and need none
ALONG = {"forceinline": True, "_nrt": False}
REORDERED = {"reassoc", "contract"}
along = register_jitable(**ALONG)  # for functions called in loops, with blocks or arrays as arguments


def _prefetcher(level: int) -> Any:
    """Fetches array[index] into the cache of this level, 1 or 2."""

    @intrinsic
    def prefetch(typing_context, array, index):
        def generate(context, builder, signature, arguments):
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
            i32 = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [address.type, i32, i32, i32])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(function, [address, i32(0), i32(4 - level), i32(1)])  # read, into this level, data cache
            return context.get_dummy_value()

        return types.void(array, types.int64), generate

    return prefetch


_prefetch, _prefetch_outer = _prefetcher(1), _prefetcher(2)


overload(blocks.prefetch)(lambda array, index: lambda array, index: _prefetch(array, index))
overload(blocks.prefetch_outer)(lambda array, index: lambda array, index: _prefetch_outer(array, index))


def _as_written(*functions: Callable[..., Any], **options: Any) -> None:
    """Kernels call these functions as they are. Not strict: Numba would compare annotations, too."""
    for function in functions:
        overload(function, strict=False, jit_options=options)(lambda *arguments, function=function: function)


# reassociation lets LLVM vectorise sums over dense rows; for CSR it would use slow gather instructions
_as_written(blocks.dense_dot, blocks.dense_shrunk_dot, blocks.squares, blocks.dense_exact_dot, fastmath=REORDERED)
_as_written(blocks.add_outer_products, blocks.add_multiples, fastmath=REORDERED)
_as_written(blocks.add_dense_scores, blocks.add_dense_pulls, fastmath=REORDERED)
_as_written(blocks.power_sum, blocks.add_mirrored, blocks.combined_dot, blocks.grouped_dot, blocks.add_grouped, **ALONG)
_as_written(blocks.beyond, exponentials.logarithm, **ALONG)
overload(exponentials.exp_minus, strict=False, jit_options=ALONG)(lambda x: exponentials.exp_minus_of_number)
overload(exponentials.log_one_plus, strict=False, jit_options=ALONG)(lambda t: exponentials.log_one_plus_of_number)
overload(choices.where, strict=False, jit_options=ALONG)(
    lambda condition, yes, no: lambda condition, yes, no: yes if condition else no
)
overload(choices.every, strict=False, jit_options=ALONG)(lambda condition: lambda condition: condition)
overload(choices.within, strict=False, jit_options=ALONG)(
    lambda x, low, high: lambda x, low, high: min(max(x, low), high)
)
_as_written(exponentials.sigmoid, **ALONG)
_as_written(simplex.own_line, simplex.feasible, simplex.middle, softmax.probability, **ALONG)
_as_written(visits.in_turn)  # references to what it returns are counted


def _by_method(
    function: Callable[..., Any], method: str, has_it: Callable[..., Any], lacks_it: Any, at: int = 0
) -> None:
    """Kernels call `has_it` in place of this function if its argument number `at`, a loss, has the method."""

    def choose(*types: Any) -> Callable[..., Any]:
        known = base.has(getattr(types[at], "instance_class", None), method)
        chosen: Callable[..., Any] = has_it if known else lacks_it
        return chosen

    overload(function, strict=False, jit_options=ALONG)(choose)


_by_method(base.attained, "attained", lambda loss, u, cap: loss.attained(u, cap), base.attained_one_by_one)
_by_method(
    base.slope_of, "slope", lambda loss, alpha, L, cap: loss.slope(alpha, L, cap), lambda loss, alpha, L, cap: 0.0
)  # fmt: skip
_by_method(
    base.gap_of, "gap", lambda loss, alpha, u, cap: loss.gap(alpha, u, cap),
    lambda loss, alpha, u, cap: loss.primal(u, cap) - loss.dual(alpha, cap) + alpha * u,
)  # fmt: skip
_by_method(base.distance_of, "distance", lambda loss, u: loss.distance(u), lambda loss, u: 0.0)
_by_method(base.largest_bend, "curvature_bound", lambda loss: loss.curvature_bound(), lambda loss: np.inf)
_by_method(base.lifted, "lifted", lambda loss, multiplier: loss.lifted(multiplier), lambda loss, multiplier: loss)
_by_method(
    base.share_of, "lifted", lambda plain, loss, alpha, cap, share: plain.dual(alpha, cap),
    lambda plain, loss, alpha, cap, share: share, at=1,
)  # fmt: skip
_by_method(base.margin_shift, "lifted", lambda loss, multiplier: 0.0, lambda loss, multiplier: multiplier)
_by_method(base.part_of, "of_share", lambda loss, p, own: loss.of_share(p, own), lambda loss, p, own: 0.0)

# Sums over the lines of a row may be reordered, and so vectorised. Their loops write to no array: else the compiler
# asks at run time how far apart the arrays lie. The order of a sum, and so its bits, would depend on addresses
LINE_SUM_OPTIONS = {"coupled_step": {**ALONG, "fastmath": {"reassoc", "contract"}}}
LINE_SUM_OPTIONS["softened"] = LINE_SUM_OPTIONS["coupled_dual"] = LINE_SUM_OPTIONS["coupled_step"]

_exposed: set[str] = set()
_known: set[type] = set()


def expose(cls: type) -> None:
    """Make the public methods of a named tuple callable in kernels, with positional arguments."""
    if cls in _known:
        return
    _known.add(cls)
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_") and name not in _exposed:
            _exposed.add(name)
            _overload_method(name, inspect.signature(method))


def _overload_method(name: str, signature: inspect.Signature) -> None:
    """One overload for all named tuples with a method of this name (and the same number of parameters)."""

    def choose(*args: Any) -> Any:
        method = getattr(args[0].instance_class, name, None)
        return method if inspect.isfunction(method) else None

    choose.__signature__ = signature  # type: ignore[attr-defined]
    options = LINE_SUM_OPTIONS.get(name, ALONG)
    decorate = overload_method(types.BaseNamedTuple, name, strict=False, jit_options=options)  # type: ignore[attr-defined]
    decorate(choose)


def _expose_all() -> None:
    modules = [blocks, norms, products, rows, steps]
    modules += [m for key, m in sorted(sys.modules.items()) if key.startswith(losses.__name__ + ".")]
    for module in modules:
        for cls in vars(module).values():
            if isinstance(cls, type) and hasattr(cls, "_fields") and cls.__module__ == module.__name__:
                expose(cls)


_expose_all()
