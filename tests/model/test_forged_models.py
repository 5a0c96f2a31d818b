"""Model files whose fields are altered one by one, as their tables name them: each is refused, or harmless."""

import contextlib
import copy
import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

import streammargin as sm
from streammargin.cli.main import main
from streammargin.errors import StreamMarginError
from streammargin.points.table import KINDS
from streammargin.saved.fields import ARRAYS, ENTRIES
from streammargin.saved.fields import KINDS as KNOWN_KINDS
from streammargin.verification.ratings import verify_ratings
from streammargin.verification.verify import verify

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 3))
SPARSE = sp.csr_matrix(X * (X > 0.0))
Y, THREE, NUMBERS = np.where(X[:, 0] > 0.0, 1, -1), np.digitize(X[:, 0], [-0.5, 0.5]), X @ [1.0, 2.0, 3.0]
TWO, TASKS = (X[:, :2] > 0.1).astype(int), np.arange(40) % 2
ROWS, COLUMNS = np.divmod(np.arange(30), 6)
RATINGS = 1.0 + (ROWS * COLUMNS) % 4
MADE = {  # of each kind, and each trait of it: the rows, the labels, and options
    "linear": (X, Y, {"scale": "std"}),
    "groups": (X, Y, {"penalty": sm.penalties.Group([0, 0, 1], 0.4)}),
    "classes": (SPARSE, THREE, {}),
    "long": (X, np.array(["a" * 70, "b"], object)[(Y + 1) // 2], {}),
    "numbers": (X, NUMBERS, {"loss": "squared_error"}),
    "labels": (X, TWO, {}),
    "targets": (X, np.stack([NUMBERS, -NUMBERS], axis=1), {"loss": "squared_error"}),
    "tasks": (X, Y, {"tasks": TASKS}),
    "dense": (X, Y, {"kernel": "rbf:0.5", "scale": "std"}),
    "sparse": (SPARSE, THREE, {"kernel": "poly:2"}),
    "precomputed": (X @ X.T, Y, {"kernel": "precomputed"}),
    "rff": (X, Y, {"map": "rff:5", "scale": "std"}),
    "nystroem": (X, Y, {"map": "nystroem:5"}),
    "nystroem_sparse": (SPARSE, Y, {"map": "nystroem:5"}),
    "sigmoid": (X, THREE, {"cv": 2, "C": 1.0, "calibrate": "sigmoid"}),
    "isotonic": (X, Y, {"cv": 2, "C": 1.0, "calibrate": "isotonic"}),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """By name: the path of a model, that of its rows, and the options of verify."""
    folder, found = tmp_path_factory.mktemp("models"), {}
    for name, (rows, labels, options) in MADE.items():
        with h5py.File(folder / f"{name}.h5", "w") as file:
            if sp.issparse(rows):
                group = file.create_group("X")
                group.attrs.update({"encoding-type": "csr_matrix", "shape": rows.shape})
                group["data"], group["indices"], group["indptr"] = rows.data, rows.indices, rows.indptr
            else:
                file["X"] = rows
            file["y"], file["t"] = labels, TASKS
        own = {**options, **({"tasks": "t"} if "tasks" in options else {})}
        sm.train(str(folder / f"{name}.h5"), tol=0.1, **own).model.save(folder / f"{name}.npz")
        found[name] = folder / f"{name}.npz", folder / f"{name}.h5"
    lines = [f"{a},{'u' if b > 0 else 'inf'},{label}" for (a, b, _), label in zip(X, Y, strict=True)]
    (folder / "table.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    assert main(["train", str(folder / "table.csv"), "-o", str(folder / "table.npz"), "-q", "--tol", ".1"]) == 0
    found["table"] = folder / "table.npz", folder / "table.csv.rows.h5"
    for name, loss in (("ratings", "absolute_error"), ("levels", "hinge:levels=1,2,3")):
        path = folder / f"{name}.csv"
        lines = [f"{i},{j},{v}" for i, j, v in zip(ROWS, COLUMNS, RATINGS, strict=True)]
        path.write_text("\n".join(["u,f,v", *lines]) + "\n")
        sm.complete(str(path), tol=0.1, loss=loss).model.save(folder / f"{name}.npz")
        found[name] = folder / f"{name}.npz", path
    return found


NAMES = [*MADE, "table", "ratings", "levels"]


def ended(job):
    """None if a job ends as documented, else how it ended; any warning is a fault."""
    try:
        job()
    except StreamMarginError as error:
        return None if str(error) and "\n" not in str(error) else f"not a sentence: {error!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return None


def info(path):
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["info", str(path), "--json"]) == 0


def faults(path, data):
    """How readers of a model end that end otherwise than by an answer or in one sentence; whether it was refused."""
    own = verify_ratings if data.suffix == ".csv" else verify
    jobs = {"verify": lambda: own(str(path), str(data))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            model = sm.load_model(path)
        except StreamMarginError:
            pass
        except BaseException as error:
            return [f"load: {type(error).__name__}: {error}"], False
        else:
            jobs |= {"predict": lambda: model.predict(str(data)), "evaluate": lambda: model.evaluate(str(data)),
                     "info": lambda: info(path)}  # fmt: skip
        found = [f"{name}: {how}" for name, job in jobs.items() if (how := ended(job)) is not None]
    return found, "predict" not in jobs


def altered_arrays(name, others):
    """(what, the arrays) for each way in which an array may be wrong."""
    array = others[name]
    yield f"{name} missing", {other: value for other, value in others.items() if other != name}
    for what, value in [*of_other_types(array), *of_other_shapes(array), *of_other_numbers(array)]:
        yield f"{name} {what}", {**others, name: value}


OTHER_TYPES = {"text": "U1", "complex": complex, "dates": "M8[s]", "float16": "f2", "longdouble": "g", "bool": bool,
               "of the other byte order": ">f8", "bytes": "u1", "halves": "f4"}  # fmt: skip


def of_other_types(array):
    for what, dtype in OTHER_TYPES.items():
        if array.dtype != dtype:
            yield what, np.full(array.shape, 0.5 if what == "halves" else 1, dtype)
    if array.dtype.kind == "U":
        for what, value in (("no word", "cake:3"), ("long", "r" * 100_000), ("a broken word", "rbf:,=")):
            yield what, np.array(value)
        for what, raw in (("no text", b"\xff\xff\xff\x7f"), ("half of a pair", b"\x00\xd8\x00\x00")):
            yield what, np.frombuffer(raw, "<U1").reshape(())


def of_other_shapes(array):
    yield "of one number", np.array(array.reshape(-1)[0] if array.size else 1)
    yield "of one more dimension", array[None]
    yield "of three more dimensions", array[None, None, None]
    for axis in range(min(array.ndim, 2)):
        first = np.moveaxis(array, axis, 0)
        more = first[-1:] if len(first) else np.zeros((1, *first.shape[1:]), array.dtype)
        yield f"longer in {axis}", np.moveaxis(np.concatenate([first, more]), 0, axis).copy()
        yield f"empty in {axis}", np.moveaxis(first[:0], 0, axis).copy()
        yield f"shorter in {axis}", np.moveaxis(first[:-1], 0, axis).copy()
        yield f"backwards in {axis}", np.moveaxis(first[::-1], 0, axis).copy()


def of_other_numbers(array):
    if array.dtype.kind not in "iuf":
        return
    if array.dtype.kind == "f":
        numbers = [np.nan, -np.inf, np.inf, -1e308, 1e308, -1.0]
    else:
        numbers = [np.iinfo(array.dtype).min, np.iinfo(array.dtype).max, 100]
        yield "of -1", np.full(array.shape, -1, np.int64)
        yield "of 2^63", np.full(array.shape, 1 << 63, np.uint64)
    for number in numbers:
        changed = array.copy()
        changed.reshape(-1)[-1:] = number
        yield f"ending with {number}", changed
        yield f"of {number}", np.full_like(array, number)


VALUES = [None, True, -1, 0.5, 10**400, -(10**30), "cake", "inf", "\ud800", [], {}, [None], {"a": []}, ["a", "a"]]


def altered_headers(header):
    """(what, the header) for each way in which an entry may be wrong."""
    for line in ENTRIES:
        *path, last = line.path.split(".")
        changed = copy.deepcopy(header)
        inside = changed
        for part in path:
            inside = next(iter(inside or ()), None) if part == "*" else (inside or {}).get(part)
        key = 0 if last == "*" and isinstance(inside, list) else last
        if not inside or (isinstance(inside, dict) and key not in inside) or isinstance(inside, float):
            continue
        kept = inside[key]
        for value in VALUES:
            inside[key] = value
            yield f"{line.path} is {str(value)[:30]}", json.dumps(changed)
        inside[key] = "@"
        for text in ("NaN", "1e999", "[" * 40 + "]" * 40):
            yield f"{line.path} is {text}", json.dumps(changed).replace('"@"', text)
        inside[key] = kept
        if isinstance(inside, dict):
            del inside[key]
            yield f"{line.path} is missing", json.dumps(changed)


def tried(path, data, content):
    """The faults of all these models, and which were refused."""
    found, refused = [], set()
    for what, arrays in content:
        np.savez(path, **arrays)
        wrong, told = faults(path, data)
        found += [f"{what}: {one}" for one in wrong]
        refused |= {what} if told else set()
    assert not found, "\n".join(found)
    return refused


def some(*names):
    """All models; those that are not named are for slow runs."""
    return [name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]


@pytest.mark.parametrize("name", some("tasks", "sparse", "nystroem_sparse", "levels", "isotonic"))
def test_each_array_in_turn(models, tmp_path, name):
    model, data = models[name]
    arrays = dict(np.load(model))
    assert faults(model, data) == ([], False)
    fields = [field for field in arrays if field != "header"]
    refused = tried(tmp_path / "m.npz", data, (
        one for field in fields for one in altered_arrays(field, arrays)
    ))  # fmt: skip
    optional = {line.name for line in ARRAYS if not line.needed}
    assert {f"{field} missing" for field in {*fields} - optional} <= refused | {"factor missing", "proof.duals missing"}
    assert {f"{field} complex" for field in fields} <= refused
    of_numbers = [field for field in fields if arrays[field].dtype.kind == "f" and arrays[field].size]
    assert {f"{field} of nan" for field in of_numbers} <= refused


@pytest.mark.parametrize("name", some("dense", "levels"))
def test_each_entry_of_the_header_in_turn(models, tmp_path, name):
    model, data = models[name]
    arrays = dict(np.load(model))
    altered = altered_headers(json.loads(str(arrays["header"])))
    refused = tried(tmp_path / "m.npz", data, ((what, {**arrays, "header": header}) for what, header in altered))
    assert {"C is NaN", "rows is -1", "certificate is missing"} <= refused and len(refused) > 200


COMPILED = """
import sys, warnings
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
import test_forged_models as own

model, data, scratch = map(Path, sys.argv[2:])
arrays = dict(np.load(model))
for field in ("indices", "indptr", "values", "support", "dual_coef", "features"):
    refused = own.tried(scratch, data, own.altered_arrays(field, arrays))
    assert f"{field} of -1" in refused or field in ("values", "dual_coef")
print("done")
"""


def test_compiled_kernels_see_no_forged_model(models, tmp_path):
    """A number out of bounds would end the process."""
    here, (model, data) = Path(__file__).parent, models["sparse"]
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"}
    run = [sys.executable, "-c", COMPILED, here, model, data, tmp_path / "m.npz"]
    ran = subprocess.run(run, capture_output=True, text=True, env=environment)
    assert ran.returncode == 0 and ran.stdout == "done\n", ran.stderr


def test_both_tables_name_the_same_kinds():
    assert KNOWN_KINDS.keys() == KINDS.keys()
