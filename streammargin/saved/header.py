"""Check the fields of a model file against their tables, and read one as `verify` does."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from streammargin.files import check_arrays, check_input
from streammargin.matching import text_fault
from streammargin.saved import fields
from streammargin.saved.fields import CALLED, HeaderEntry, SavedArray
from streammargin.wording import shown

LINEAR = "linear"  # the kind of a file that names none
DEEPEST, LARGEST_WHOLE_NUMBER = 32, 1 << 64  # levels of a header, and whole numbers in it
IS: dict[str, Callable[[Any], bool]] = {
    "number": lambda value: _is_number(value) and abs(value) <= sys.float_info.max,
    "inf": lambda value: value in ("inf", "-inf"),
    "whole": lambda value: _is_number(value) and isinstance(value, int),
    "text": lambda value: isinstance(value, str),
    "flag": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list),
    "table": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def read_saved(path: str, memory: float) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a model file and its header as written, both checked.

    Raises InputMissingError, UsageError if it needs more memory, and ValueError, or what NumPy raises, for damage.
    """
    check_input(path, "model file")
    check_arrays(path, memory)
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    header = parsed(str(arrays.pop("header")))
    check(header.get("answer", LINEAR), arrays, header)
    return arrays, header


def known_names(there: list[str]) -> list[str]:
    """Those of these arrays of a file that some model has."""
    lines = [line.name for line in fields.ARRAYS]
    free = tuple(name[:-1] for name in lines if name.endswith("*"))
    return [name for name in there if name in lines or name.startswith(free)]


def parsed(text: str) -> dict[str, Any]:
    """The header of a model file as it was written. ValueError if it is none."""
    header = json.loads(text)
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    _check_plain(header, 0)
    return header


def _check_plain(value: Any, depth: int) -> None:
    """ValueError for what no header has: nan, numbers of thousands of digits, text that cannot be written."""
    if depth > DEEPEST:
        raise ValueError(f"its header has more than {DEEPEST} levels")
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value:
            _check_plain(item, depth + 1)
    elif isinstance(value, str):
        value.encode()
    elif value is not None and not abs(value) < (LARGEST_WHOLE_NUMBER if isinstance(value, int) else math.inf):
        raise ValueError("its header has a number that is nan or too large")


def check(kind: Any, arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> None:
    """Check the arrays of a model file and its header, as written. ValueError says which field is wrong."""
    traits = _traits(kind, arrays)
    traits |= {"ratings"} if "factors" in traits else {"rows"}
    if "rows" in traits and isinstance(header.get("problem"), dict):
        traits.add("proven")
    lines = [line for line in fields.ENTRIES if traits & {*line.of.split()}]
    entries = [(line, value) for line in lines for value in _found(line, header, traits)]
    for line, value in entries:
        _check_entry(line, value)
    sizes: dict[str, int] = {}
    if "rows" in traits:
        traits.add("packed" if "classes" in arrays and arrays["classes"].dtype == "S1" else "listed")
        sizes = _outputs(arrays, header, traits)
        if any(name.startswith("calibration.") for name in arrays):
            traits |= {"calibrated", "isotonic" if "calibration.scores" in arrays else "sigmoid"}
        traits.add("each" if header.get("tasks") or (header.get("outputs") and sizes["k"]) else "together")
    _check_arrays(arrays, traits, sizes)
    for line, value in entries:
        given = value if isinstance(value, list) else [value]
        if line.size and isinstance(value, list) and len(value) != sizes[line.size]:
            raise ValueError(f"its {line.path} has {len(value)} items, not {sizes[line.size]}")
        if line.unequal and len(set(given)) < len(given):
            raise ValueError(f"its {line.path} has an item twice")
        if line.ascends and given != sorted(given):
            raise ValueError(f"its {line.path} do not ascend")
        if line.equals and given != [_size(term, sizes) for term in line.equals.split()]:
            raise ValueError(f"its {line.path} is {shown(value)}, which is not the size of its arrays")


def check_answer(kind: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Check the arrays of an answer that is no model yet. ValueError."""
    _check_arrays(arrays, _traits(kind, arrays), {})


def _traits(kind: Any, arrays: Mapping[str, np.ndarray]) -> set[str]:
    """What the fields of a model of this kind with these arrays go by."""
    if not isinstance(kind, str) or kind not in fields.KINDS:
        raise ValueError(f"its kind is {shown(kind)}")
    traits = set(fields.KINDS[kind])
    if "mapped" in traits:
        name = _word("map", arrays)
        traits |= {name, f"{name}_{'sparse' if 'map.landmarks.data' in arrays else 'dense'}"}
    if "machine" in traits:
        values, pointers = (arrays.get(name, np.empty(0)) for name in ("values", "indptr"))
        of_numbers = _word("kernel", arrays) == "precomputed" or values.shape[1:] == (0,)
        traits.add("precomputed" if of_numbers else "sparse" if pointers.size else "dense")
    return traits


def _word(name: str, arrays: Mapping[str, np.ndarray]) -> str:
    """The word in this array, without its fields."""
    _check_line(next(line for line in fields.ARRAYS if line.name == name), arrays, {})
    return str(arrays[name]).partition(":")[0]


def _outputs(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any], traits: set[str]) -> dict[str, int]:
    """The sizes that the classes and the header decide."""
    sizes: dict[str, int] = {} if header.get("rows") is None else {"n": header["rows"]}
    _check_line(next(line for line in fields.ARRAYS if line.name == "classes" and line.of in traits), arrays, sizes)
    k, named = sizes["k"], header.get("tasks") or header.get("outputs")
    if k == 1 or (named and k > 2):
        raise ValueError(f"it has {k} classes" + (f" for {len(named)} outputs or tasks" if named else ""))
    if header.get("tasks") and header.get("outputs"):
        raise ValueError("it has both outputs and tasks")
    # two classes have one score, and numbers have no class
    return sizes | {"c": max(1, k), "K": len(named) if named else k if k > 2 else 1}


def _check_arrays(arrays: Mapping[str, np.ndarray], traits: set[str], sizes: dict[str, int]) -> None:
    for line in fields.ARRAYS:
        if traits & {*line.of.split()}:
            _check_line(line, arrays, sizes)


def _check_line(line: SavedArray, arrays: Mapping[str, np.ndarray], sizes: dict[str, int]) -> None:
    """Check the arrays that this line of the table is of. `sizes` gains those that they decide."""
    free = line.name.endswith("*")
    names = [name for name in arrays if name.startswith(line.name[:-1])] if free else [line.name]
    for name in names:
        if name not in arrays and (line.like in arrays if line.like else line.needed):
            raise ValueError(f"it lacks the array {name}")
        if line.like and line.like not in arrays and name in arrays:
            raise ValueError(f"it has {name}, and lacks the array {line.like}")
        if name in arrays:
            wrong = _form(line, arrays[name], arrays, sizes) or _content(line, arrays[name], arrays, sizes)
            if wrong:
                raise ValueError(f"its array {name} {wrong}")


def _form(line: SavedArray, array: np.ndarray, arrays: Mapping[str, np.ndarray], sizes: dict[str, int]) -> str | None:
    """What is wrong with the type and the shape of an array."""
    text = array.dtype.kind == "U" and array.dtype.itemsize > 0
    if (line.types and ("U" if text else array.dtype.str[1:]) not in line.types) or not array.dtype.isnative:
        return f"is of the type {array.dtype}, and not {CALLED.get(line.types, 'of this machine')}"
    if line.like:
        fits, wanted = array.shape == arrays[line.like].shape, f"that of {line.like}"
    else:
        shapes, wanted = [shape.split() for shape in line.shape.split("|")], f"({line.shape.replace(' ', ', ')})"
        fits = line.shape == "*" or any(_fits(array.shape, terms, sizes) for terms in shapes)
    known = ", ".join(f"{name} = {size}" for name, size in sizes.items() if name in wanted)
    return None if fits else f"has the shape {array.shape}, not {wanted}" + (f" with {known}" if known else "")


def _fits(shape: tuple[int, ...], terms: list[str], sizes: dict[str, int]) -> bool:
    """Whether a shape is that; letters without a size gain one. No score, and no column, is none."""
    if len(shape) != len(terms):
        return False
    for size, term in zip(shape, terms, strict=True):
        if term.isalpha() and sizes.setdefault(term, size) == 0 and term in "KdD":
            return False
    return all(term == "?" or size == _size(term, sizes) for size, term in zip(shape, terms, strict=True))


def _size(term: str, sizes: Mapping[str, int]) -> float:
    """The size that a term stands for; inf if it is not known."""
    numbers = [int(one) if one.isdecimal() else sizes.get(one, math.inf) for one in re.split(r"[+*/]", term)]
    if "/" in term:
        return -(-numbers[0] // numbers[1])
    return math.prod(numbers) if "*" in term else sum(numbers)


def _content(
    line: SavedArray, array: np.ndarray, arrays: Mapping[str, np.ndarray], sizes: dict[str, int]
) -> str | None:
    """What is wrong with the content of an array of the right type and shape."""
    kind = array.dtype.kind
    if kind == "U":
        return _text(line, array)
    if kind == "f" and not (~np.isnan(array) if line.inf else np.isfinite(array)).all():
        return "has a number that is not finite"
    if line.names:
        return _names(line, array, sizes)
    if line.unequal and len(set(array.tolist())) != array.size:
        return "has a value twice"
    if not array.size or kind not in "iuf":
        return None
    low, high = (part(array).item() for part in (np.min, np.max))
    if low < line.low or high > line.most or (line.below and high >= _size(line.below, sizes)):
        return f"has the number {low if low < line.low else high}, which is out of range"
    if line.ascends and np.any(array[1:] <= array[:-1]):
        return "does not ascend"
    if line.equals and array.tolist() != [_size(term, sizes) for term in line.equals.split()]:
        return f"is {shown(array.tolist())}"
    if line.size:
        sizes[line.size] = high
    if line.ends and (array[0] != 0 or array[-1] != sizes[line.ends] or np.any(array[1:] < array[:-1])):
        return f"does not lead from 0 to {sizes[line.ends]}"
    if line.rows:
        rises, starts = array[1:] > array[:-1], arrays[line.rows]
        rises[starts[(starts > 0) & (starts < array.size)].astype(np.int64) - 1] = True
        return None if rises.all() else "does not ascend in each row"
    return None


def _names(line: SavedArray, array: np.ndarray, sizes: dict[str, int]) -> str | None:
    """What is wrong with names as bytes."""
    count = array.size - np.count_nonzero(array) + 1
    if count != sizes.setdefault(line.names, int(count)):
        return f"has {count} names, and not {sizes[line.names]}"
    return "has a name twice" if line.unequal and len(set(array.tobytes().split(b"\0"))) < count else None


def _text(line: SavedArray, array: np.ndarray) -> str | None:
    """What is wrong with an array of text."""
    if text_fault(array.reshape(-1)) >= 0:
        return "is not valid text"
    if line.words and str(array) not in line.words:
        return f"is {shown(str(array))}"
    return "has a value twice" if line.unequal and len(set(array.tolist())) != array.size else None


def _found(line: HeaderEntry, header: Mapping[str, Any], traits: set[str]) -> Iterator[Any]:
    """The values that are at the path of this line. ValueError if one is needed and is not there."""
    values: list[Any] = [header]
    for name in line.path.split("."):
        inside: list[Any] = []
        for value in values:
            if name == "*":
                inside += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
            elif isinstance(value, dict) and name in value:
                inside.append(value[name])
            elif isinstance(value, dict) and traits & {*line.needed.split()}:
                raise ValueError(f"its header lacks {line.path}")
        values = inside
    yield from values


def _check_entry(line: HeaderEntry, value: Any) -> None:
    """ValueError if an entry may not be that."""
    fits = any(IS[name](value) for name in line.types.split())
    if fits and line.words:
        fits = value in line.words
    if fits and _is_number(value):
        fits = line.above < value <= line.most
    if not fits:
        raise ValueError(f"its {line.path} is {shown(value)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
