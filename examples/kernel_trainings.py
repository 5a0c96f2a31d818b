"""Compile every kernel behind `auto`: python examples/kernel_trainings.py [FORM:DTYPE ...] [--export DIR].

The rows are dense or sparse, of float32 or float64. The kernels of every method that `auto` may take are warmed up, and
those of readers and models, with all losses of the registry. Small trainings find what is called with other types. They
have tolerances and shapes of rows, one output and several, in memory and out of core. Then come scalings, weights,
held-out rows, early stopping, starts, paths over C, streams and predictions. A training that is refused is left out.
The script prints how many functions were compiled, and how many kernels were loaded. `ship_kernels.py` puts what they
used into a wheel. `kernel_check.py` says what is lacking.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import itertools
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

os.environ.setdefault("STREAMMARGIN_PATIENCE", "0")  # else small trainings leave kernels uncompiled

import numba
import numpy as np
import scipy.sparse as sp
from llvmlite import binding
from numba.core import config, event
from numba.core.serialize import dumps

import streammargin as sm
import streammargin.compiled
from streammargin.compiled.cache import SOURCES
from streammargin.compiled.inventory import kernels
from streammargin.compiled.jit import CompiledKernel
from streammargin.compiled.samples import samples
from streammargin.compiled.shipped import name_of, place
from streammargin.losses import LOSSES, is_numeric
from streammargin.reading import plan
from streammargin.solvers import registry
from streammargin.solvers.auto import candidates

KINDS = [f"{form}:{dtype}" for form in ("dense", "sparse") for dtype in ("float32", "float64")]
NARROW, WIDE = (300, 6), (20, 400)  # rows and columns: second-order steps, and one row after the other
TOLERANCES = (1e-2, 1e-8)  # the second one needs float64 weights
FEW = ("hinge", "logistic", "squared_error", "l2_error")  # losses of trainings: kernels of all are warmed up
PASSES = 40  # more than a plain ascent makes before momentum


class Compiled(event.Listener):
    """Counts what is compiled."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_start(self, event: Any) -> None:
        self.names.append(event.data["dispatcher"].py_func.__qualname__)

    def on_end(self, event: Any) -> None:
        pass


def rows_of(form: str, dtype: str, shape: tuple[int, int], seed: int = 0) -> tuple[Any, np.ndarray, np.ndarray]:
    """Rows, scores and noise; half of the values are 0."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal(shape) * (rng.random(shape) < 0.5)).astype(dtype)
    scores = X @ rng.standard_normal(shape[1])
    noise = rng.standard_normal(shape[0]) * scores.std()
    return (sp.csr_matrix(X) if form == "sparse" else X), scores, noise


def labelled(loss: str, scores: np.ndarray, noise: np.ndarray) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(labels, options): numbers, or two classes; then three columns of them, and three classes apart and at once."""
    columns = np.column_stack([scores + k * noise for k in (0.2, 0.5, 1.0)])
    if is_numeric(LOSSES[loss]().terms()):
        yield from ((y, {"loss": loss}) for y in (columns[:, 0], columns))
        return
    yield from ((y, {"loss": loss}) for y in (columns[:, 0] > 0.0, columns > 0.0))
    for multiclass in ("ovr", "joint"):
        yield np.digitize(columns[:, 1], np.quantile(scores, (0.3, 0.6))), {"loss": loss, "multiclass": multiclass}


def problems(form: str, dtype: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(data, options): kinds of labels and penalties."""
    for shape, loss in itertools.product((NARROW, WIDE), FEW):
        X, scores, noise = rows_of(form, dtype, shape)
        for y, given in labelled(loss, scores, noise):
            for penalty, tol in itertools.product(("l2", "l1"), TOLERANCES):
                yield (X, y), {**given, "penalty": penalty, "tol": tol}


def others(form: str, dtype: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(data, options): what goes beside the loss and the penalty."""
    for shape, loss in itertools.product((NARROW, WIDE), (None, "logistic", "squared_error")):
        X, scores, noise = rows_of(form, dtype, shape)
        held, expected, _ = rows_of(form, dtype, shape, 1)
        y = scores + 0.3 * noise
        if loss != "squared_error":
            y, expected = np.where(y > 0, 1, -1), np.where(expected > 0, 1, -1)
        given = {"loss": loss}
        for scale in ("std", "maxabs"):
            yield (X, y), {**given, "scale": scale}
        yield (X, y), {**given, "sample_weight": np.arange(len(y)) % 3 * 0.5}
        for C in (1.0, [0.1, 1.0], "path:3"):
            for penalty in ("l2", "l1"):
                yield (X, y), {**given, "penalty": penalty, "C": C, "valid": (held, expected)}
        yield (X, y), {**given, "early_stop": 2, "valid": (held, expected)}
        start = sm.train((X, y), solver="pdprox", passes=2, **given).model
        for penalty in ("l2", "l1"):
            yield (X, y), {**given, "penalty": penalty, "init": start}
        if loss != "squared_error":
            classes = np.arange(len(y)) % 3
            yield (X, classes), {**given, "scale": "maxabs"}
            yield (X, classes), {**given, "class_weight": "balanced", "C": 100.0, "tol": 1e-8}
            for bias in (0.0, "midway"):
                yield (X, np.where(scores > 0, 1, -1)), {"C": np.inf, "bias": bias}
            yield (X, classes), {"loss": loss, "multiclass": "joint", "C": np.inf}
        else:
            yield (X, y), {"loss": "interpolate", "penalty": "lp:1.5"}
            yield (X, y), {"loss": "quantile:0.9,top=5"}


def out_of_core(form: str, dtype: str, folder: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(path, options): rows that are read in blocks."""
    path = os.path.join(folder, "rows.h5")
    for shape, loss in itertools.product(((6000, 12), (60, 4000)), FEW):
        X, scores, noise = rows_of(form, dtype, shape)
        for y, given in labelled(loss, scores, noise):
            sm.write_hdf5([(X, y)], path, force=True)
            for penalty, tol in itertools.product(("l2", "l1"), (1e-2, 1e-5)):
                yield path, {**given, "penalty": penalty, "tol": tol, "memory": "1M"}


def attempt(data: Any, options: dict[str, Any]) -> bool:
    """Train, predict, evaluate; False if this is refused."""
    try:
        model = sm.train(data, **{"passes": PASSES, **options}).model
        if isinstance(data, tuple):
            model.predict(data[0])
        model.evaluate(data)
    except (sm.UsageError, sm.DataError):
        return False
    return True


def used_elsewhere() -> set[str]:
    """The files of kernels that are imported, often only when needed, outside of solvers and estimators."""
    package = Path(sm.__file__).parent
    named = re.compile(r"from streammargin\.compiled(?:\.(\w+))? import (.*)")
    found: set[str] = set()
    for folder in ("reading", "driver", "sources", "tables", "points", "model", "training"):
        for path in (package / folder).rglob("*.py"):
            for module, names in named.findall(path.read_text()):
                found |= {module} if module else {name.split()[0] for name in names.split(", ")}
    return found


def warm(form: str, dtype: str) -> None:
    """Compile the kernels of every method that `auto` may take, of all readers and of models, for rows of one kind."""
    words = set(re.findall(r'"([a-z-]+)"', inspect.getsource(candidates))) & {*registry.names(), *registry.SHORT_WORDS}
    for word in words:
        registry.make_solver(word)  # which imports its kernels
    for name in used_elsewhere():
        importlib.import_module(f"{streammargin.compiled.__name__}.{name}")
    sample = next(sample for sample in samples() if sample.kind == f"{form} {dtype}")
    for name, module in sorted(sys.modules.items()):
        if name.startswith(f"{streammargin.compiled.__name__}.") and hasattr(module, "warm"):
            module.warm(sample)


def quick(form: str, dtype: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(data, options): ten classes with the hinge, and at once with the logistic loss; as many rows as digits are."""
    X, scores, noise = rows_of(form, dtype, (1800, 64))
    classes = np.digitize(scores + 0.1 * noise, np.quantile(scores, np.arange(1, 10) / 10))
    for loss in ("hinge", "logistic"):
        yield (X, classes), {"loss": loss, "tol": 1e-8}


def go_through(kinds: Iterable[str], only_quick: bool = False) -> tuple[int, int]:
    """Trains on rows of these kinds; how many trainings were done, and how many refused."""
    plan.SLACK_BYTES, plan.LEAST_BLOCK_BYTES = 0, 1 << 12  # small files are read in blocks as large ones are
    done = refused = 0
    for kind in kinds:
        form, dtype = kind.split(":")
        if not only_quick:
            warm(form, dtype)
        with tempfile.TemporaryDirectory() as folder:
            jobs = itertools.chain(problems(form, dtype), others(form, dtype), out_of_core(form, dtype, folder))
            for data, options in quick(form, dtype) if only_quick else jobs:
                went = attempt(data, options)
                done, refused = done + went, refused + (not went)
        X, scores, _ = rows_of(form, dtype, NARROW)
        for solver in ("perceptron", "mirror", "pegasos") if not only_quick else ():
            sm.train(iter([(X, np.where(scores > 0, 1, -1))]), solver=solver)
    return done, refused


def called(all_kernels: list[CompiledKernel]) -> set[CompiledKernel]:
    """The kernels that other kernels call."""

    def names(code: CodeType) -> Iterator[str]:
        yield from code.co_names
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                yield from names(inner)

    functions = [kernel.py_func for kernel in all_kernels]
    found = [function.__globals__.get(name) for function in functions for name in names(function.__code__)]
    return {one for one in found if isinstance(one, CompiledKernel)}


def export(folder: Path) -> list[str]:
    """Write the kernels that this process has used into a folder; returns the names of those that others may link."""
    all_kernels = kernels()
    linked, linkable = called(all_kernels), []
    for kernel in all_kernels:
        for signature in kernel.overloads:
            key = kernel._cache._index_key(signature, kernel.targetctx.codegen())
            found = [data for files in kernel._cache._files(signature) if (data := files.load(key)) is not None]
            name = name_of(kernel.py_func, key[0], key[2])
            if kernel in linked:
                linkable.append(name)
            (folder / name).write_bytes(dumps(lean(found[0], kernel in linked)))
    return linkable


def lean(payload: tuple[Any, ...], linked: bool) -> tuple[Any, ...]:
    """What Numba caches of a kernel, without the text of its types. If nothing links it, also without bitcode.

    A kernel that nothing links needs only its own environment, for its wrapper: no kernel raises with values.
    """
    (library, kind, (code, bitcode)), description, text = *payload[:2], payload[6]
    assert kind == "object" and isinstance(text, str), "Numba keeps its kernels in another form now"
    environments = payload[8]
    if not linked:
        bitcode = hollow(description)
        environments = tuple(one for one in environments if one.env_name == description.env_name)
    return ((library, kind, (code, bitcode)), *payload[1:6], "", payload[7], environments)


def hollow(description: Any) -> bytes:
    """A module with the names of a kernel. Numba looks them up; whoever calls such a function is stopped."""
    functions = [description.llvm_func_name, description.llvm_cpython_wrapper_name, description.llvm_cfunc_wrapper_name]
    lines = [f'define void @"{name}"() {{ call void @llvm.trap() unreachable }}' for name in functions]
    lines += ["declare void @llvm.trap()", f'@"{description.env_name}" = constant i8 0']
    return binding.parse_assembly("\n".join(lines)).as_bitcode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=KINDS, metavar="FORM:DTYPE")
    parser.add_argument("--quick", action="store_true", help="ten classes with the hinge and the logistic loss only")
    parser.add_argument("--export", type=Path, metavar="DIR", help="write the kernels there, for a wheel")
    options = parser.parse_args()
    logging.getLogger("streammargin").addHandler(logging.NullHandler())
    counter = Compiled()
    event.register("numba:compile", counter)
    done, refused = go_through(options.kinds, options.quick)
    loaded = sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels())
    print(f"{done} trainings, {refused} refused, {len(counter.names)} functions compiled, {loaded} kernels loaded")
    if options.export:
        assert not config.USING_SVML, "kernels for others must not need Intel's library of short vectors"
        told = {"linkable": export(options.export), "sources": SOURCES, "numba": numba.__version__, "place": place()}
        print(json.dumps(told))


if __name__ == "__main__":
    main()
