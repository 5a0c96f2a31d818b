"""Labels are read with their blocks: the same training to the bit as with the labels of all rows in memory."""

import math
import os
import tracemalloc
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from conftest import traced, write_h5
from reference.drive import of_codes, problem_of

import streammargin as sm
from streammargin.driver.learn.validate import Errors, NumberValidator, Predicted, Predictions
from streammargin.driver.save.snapshot import save_runs
from streammargin.driver.status.events import History
from streammargin.losses import terms
from streammargin.options.table import Options
from streammargin.points.linear import LinearPoint
from streammargin.reading.labels import NO_NUMBERS, UNKNOWN, Coder, KeptLabels, SlicedLabels, finite_numbers
from streammargin.reading.plan import Plan
from streammargin.rows.blocks import DenseBlock
from streammargin.rows.labels import Parts
from streammargin.solvers import leaves
from streammargin.solvers.proof.kept import BestKept
from streammargin.solvers.registry import make_solver
from streammargin.solvers.roles import new
from streammargin.solvers.state import State
from streammargin.sources.base import Buffer, Source
from streammargin.sources.open import open_source
from streammargin.training import fitting, setup
from streammargin.training.prepare import prepare
from streammargin.workers import ALONE

ROWS = 240
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((ROWS, 4)).astype(np.float32)
CODES = RANDOM.integers(0, 3, ROWS)
SIDES = (X[:, 0] > 0.0).astype(int)
X[:, 0] += 2 * SIDES - 1  # separable by their sides
WEIGHTS = np.where(RANDOM.random(ROWS) < 0.2, 0.0, RANDOM.random(ROWS))
BOUNDS = np.array([0, 70, 71, 130, 200, ROWS])  # of shards, too


def write(path, labels, rows=slice(None), **more):
    """A file with these labels: an array, or (categories, codes)."""
    given = labels if not isinstance(labels, tuple) else np.zeros(ROWS)
    write_h5(path, X[rows], given[rows], **{name: values[rows] for name, values in more.items()})
    if isinstance(labels, tuple):
        with h5py.File(path, "r+") as file:
            del file["y"]
            file["y/categories"], file["y/codes"] = labels[0], labels[1][rows].astype(np.int8)
    return str(path)


@pytest.fixture
def blocks(monkeypatch):
    """Trainings read these blocks, out of core, whatever the budget."""
    monkeypatch.setattr(fitting, "make_plan", lambda rows, *more: Plan(BOUNDS, 4, 0, resident=False))


@pytest.fixture
def windows(monkeypatch):
    """For how many rows solvers have labels, visit by visit."""
    seen, carry_out = [], leaves.carry_out

    def watched(problem, state, *given):
        seen.extend([state.labels.codes.size] if isinstance(state, State | BestKept) else [])
        return carry_out(problem, state, *given)

    monkeypatch.setattr(leaves, "carry_out", watched)
    return seen


KINDS = {
    "int8": SIDES.astype(np.int8), "float": 2.5 * SIDES - 1.0, "bool": SIDES.astype(bool), "three": CODES * 4 - 3,
    "halves": CODES / 2.0, "categories": (["b", "a", "unused", "c"], np.array([1, 0, 3])[CODES]),
    "whole categories": ([7, 3, 5], CODES),
}  # fmt: skip
HARD, SOFT = {"C": math.inf, "tol": 0.1, "passes": 3}, {"C": 0.5, "passes": 3}
WAYS = [
    ("pegasos", "int8", SOFT), ("pegasos", "three", {**SOFT, "sample_weight": True}),
    ("pegasos", "categories", {**SOFT, "positive": "c", "scale": "std"}),
    ("pegasos", "halves", {**SOFT, "classes": [0.5, 1.0], "class_weight": "balanced"}),
    ("pegasos", "whole categories", {**SOFT, "valid": True}),
    ("pegasos", "float", {**SOFT, "valid": True, "early_stop": 2, "sample_weight": True, "scale": "maxabs"}),
    ("mirror", "bool", {**HARD, "bias": "midway"}), ("perceptron", "float", {**HARD, "sample_weight": True}),
    ("gd", "three", HARD), ("homotopic", "int8", HARD), ("batch-perceptron", "int8", HARD),
    ("normalized-gd", "categories", HARD), ("dual-momentum", "three", {**HARD, "multiclass": "joint"}),
]  # fmt: skip


@pytest.mark.parametrize("solver, kind, options", WAYS, ids=[f"{name} {kind}" for name, kind, _ in WAYS])
@pytest.mark.parametrize("shards", [False, True])
def test_bits_are_those_of_labels_in_memory(blocks, windows, monkeypatch, tmp_path, solver, kind, options, shards):
    weights = {"sample_weight": WEIGHTS} if options.get("sample_weight") else {}
    parts = [slice(0, 130), slice(130, None)] if shards else [slice(None)]
    data = [write(tmp_path / f"{k}.h5", KINDS[kind], part, **weights) for k, part in enumerate(parts)]
    options = {**{name: value for name, value in options.items() if name != "sample_weight"}, "solver": solver}
    if options.get("valid"):
        options["valid"] = write(tmp_path / "valid.h5", KINDS[kind])
    found = []
    for every in (False, True):
        monkeypatch.setattr(type(make_solver(solver)), "all_labels", lambda *_, every=every: every)
        windows.clear()
        result = sm.train(data, **options)
        assert set(windows) == ({ROWS} if every else set(np.diff(BOUNDS).tolist()))
        found.append((result, None if "classes" in options else result.model.evaluate(data)))
    (one, judged), (other, expected) = found
    assert np.array_equal(one.model.coef_, other.model.coef_) and one.model.classes_.tolist()
    assert np.array_equal(one.model.intercept_, other.model.intercept_)
    assert one.certificate == other.certificate and judged == expected


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_by_slices(tmp_path, hard, weighted):
    y, epsilons = 3.0 * X[:, 1] + 5.0, np.abs(X[:, 2]).astype(float)
    path = write(tmp_path / "a.h5", y, eps=epsilons)
    weights = WEIGHTS if weighted else NO_NUMBERS
    with open_source(path) as source:
        labels = SlicedLabels(
            source, NO_NUMBERS, source.labels_as(finite_numbers), weights,
            source.numbers("eps", ("epsilons", "epsilon=")), weighed=not hard, shift=5.0,
        )  # fmt: skip
        there = weights > 0.0 if weighted else np.ones(ROWS, bool)
        for start, stop in ((0, ROWS), (70, 71), (130, 200)):
            found, rows = labels.read(start, stop), slice(start, stop)
            assert found.first == start and np.array_equal(found.codes, np.where(there, 0, -1)[rows])
            np.testing.assert_array_equal(found.targets, np.where(there, y - 5.0, 0.0)[rows])
            np.testing.assert_array_equal(found.epsilons, epsilons[rows])
            assert np.array_equal(found.weights, weights[rows] if weighted and not hard else NO_NUMBERS)
        whole = labels.all()
        assert labels.row_bytes * ROWS == whole.held_bytes and labels.held_bytes <= weights.nbytes
        point = LinearPoint(np.ones((1, 5)), 1.0)
        problem, found = problem_of(np.ones((ROWS, 5))), []
        judges = [NumberValidator(source, one, terms("huber:0.7"), 1, 1 << 24) for one in (labels, whole)]
        for judge in judges:
            for [(first, _, block, own)] in judge.reader.groups(np.arange(1), 1):
                errors = new(Errors, problem, labels=own)
                judge.add(problem, errors, point, block._replace(bias=1.0), first)
                found.append(judge.errors(errors))
        assert found[0] == found[1] > 0.0


@pytest.mark.parametrize("kind", ["int8", "float", "halves", "three", "bool"])
def test_a_label_that_changes_during_the_run_is_an_error(tmp_path, kind):
    path = write(tmp_path / "a.h5", KINDS[kind])
    with open_source(path) as source:
        target, codes = setup.make_target(source)
        labels = SlicedLabels(source, codes, NO_NUMBERS)
        assert labels.read(60, 70).codes.tolist() == np.searchsorted(target.classes, KINDS[kind][60:70]).tolist()
        with h5py.File(path, "r") as file:
            place, dtype = file["y"].id.get_offset(), file["y"].dtype
        with open(path, "r+b") as file:
            os.pwrite(
                file.fileno(),
                np.array([77], np.int8 if kind == "bool" else dtype).tobytes(),
                place + 65 * dtype.itemsize,
            )
        if kind == "bool":  # HDF5 reads any other byte than 0 as true
            return
        with pytest.raises(sm.DataError, match=r"a\.h5 was changed during the run: the label of row 65 is new"):
            labels.read(60, 70)


@pytest.mark.parametrize("classes", [
    np.array([-3, 0, 70_000]), np.array([2**60, 2**60 + 1]), np.array([0.5, 1.0]), np.array([-1.0, 1e300]),
    np.array([False, True]), np.array(["a", "b"]), np.array([5], np.uint64), np.arange(-100, 100),
])  # fmt: skip
def test_labels_as_codes_by_the_definition(classes):
    new = np.random.default_rng(0).integers(-1, 9, len(classes)).astype(np.int16)
    coder, known = Coder(classes, new), dict(zip(classes.tolist(), new.tolist(), strict=True))
    given = np.random.default_rng(1).choice(classes, 99)
    assert coder(given).tolist() == [known[one] for one in given.tolist()]
    if classes.dtype.kind in "if":
        others = np.concatenate([classes + 1, [classes[0] - 1, 0]]).astype(classes.dtype)
        assert coder(others).tolist() == [known.get(one, UNKNOWN) for one in others.tolist()]
    if classes.dtype.kind == "f":
        assert coder(np.array([np.nan, np.inf, -np.inf, 0.7])).tolist() == [UNKNOWN] * 4


def test_texts_and_arrays_keep_their_codes(tmp_path):
    texts = write(tmp_path / "t.h5", np.array([b"no", b"yes"])[SIDES])
    with pytest.raises(sm.UsageError, match=r"reading its labels alone needs \d+M"):
        sm.train(texts, memory=1)
    other = write(tmp_path / "o.h5", SIDES)
    np.save(tmp_path / "y.npy", SIDES)
    for data, y, again in ((texts, None, False), (other, None, True), (other, SIDES, False),
                           (other, str(tmp_path / "y.npy"), True), (other, f"{other}:y", True)):  # fmt: skip
        with open_source(data, y=y) as source:
            assert bool(source.rereads_labels()) == again
            _, codes = setup.make_target(source)
            labels = SlicedLabels(source, codes, NO_NUMBERS).settled()
            assert isinstance(labels, KeptLabels) != again
            assert labels.held_bytes == (0 if again else 2 * ROWS)
            assert np.concatenate([piece.codes for piece in labels.pieces()]).tolist() == SIDES.tolist()


def test_a_large_chunk_of_labels_is_held_no_longer_than_it_is_read(tmp_path):
    rows = 500_000
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"] = np.zeros((rows, 1), np.int8)
        for name in ("y", "sample_weight"):
            file.create_dataset(name, data=np.arange(rows) % 2, chunks=(rows,), compression="gzip")
    with open_source(str(tmp_path / "a.h5")) as source:
        tracemalloc.start()
        target, codes = setup.make_target(source)
        labels = SlicedLabels(source, codes, NO_NUMBERS, source.sample_weight(), reading=source.column_bytes())
        labels.read(5, 9)
        assert len(target.classes) == 2 and 8 * rows < tracemalloc.get_traced_memory()[0] <= labels.held_bytes
        labels, codes = labels.all(), None
        assert labels.held_bytes == 10 * rows <= tracemalloc.get_traced_memory()[0] < 10 * rows + (1 << 20)
        tracemalloc.stop()


def test_shards_of_labels_of_several_kinds_keep_their_codes(tmp_path):
    paths = [write(tmp_path / "a.h5", SIDES, slice(0, 100)), write(tmp_path / "b.h5", SIDES * 1.0, slice(100, None))]
    with open_source(paths) as source:
        assert not source.rereads_labels()
        assert setup.make_target(source)[1].tolist() == SIDES.tolist()


class Endless(Source):
    """Rows of which there may be any number; none is ever read."""

    name, features, dtype, sparse = "endless.h5", 8, np.dtype(np.float32), False

    def __init__(self, rows):
        self.rows, self.nnz = rows, 8 * rows

    def bounds(self, max_bytes):
        return np.append(np.arange(0, self.rows, max(1, max_bytes // 32)), self.rows)

    def buffer_bytes(self, bounds):
        return 32 * int(np.diff(bounds).max())

    def allocate(self, bounds):
        return Buffer(np.empty((int(np.diff(bounds).max()), 8), np.float32))

    def read(self, start, stop, buffer):
        return DenseBlock(buffer.data[: stop - start], 0.0)

    def has_labels(self):
        return True

    def labels(self, chunk=1 << 16):
        return iter(())  # counted by the test

    def rereads_labels(self):
        return "f"

    def labels_as(self, made):
        return Repeated(self.rows, made(np.array([0.0, 1.0])))

    def sample_weight(self):
        return None

    def fingerprint(self):
        return "none"


class Repeated:
    """A column that repeats two values."""

    def __init__(self, rows, values):
        self.rows, self.values = rows, values

    def __len__(self):
        return self.rows

    def __getitem__(self, rows):
        start, stop, _ = rows.indices(self.rows)
        return self.values[np.arange(start, stop) % 2]


def test_rows_are_in_memory_only_if_their_labels_are_too():
    source, method = Endless(10**6), make_solver("pegasos")
    labels = SlicedLabels(source, source.labels_as(np.asarray), NO_NUMBERS, Repeated(10**6, np.ones(2)))
    problem = replace(problem_of(np.zeros((2, 8)), np.float32), rows=10**6)
    for budget, resident in ((32 * 10**6 + (24 << 20), True), (32 * 10**6 + (18 << 20), False)):
        found, plan = fitting.plan_of(source, method, problem, labels, budget, 0)
        assert (found.resident, plan.resident) == (resident, resident)
        assert plan.memory_bytes <= budget


@pytest.mark.parametrize("options", [
    {"solver": "pegasos", "C": 1.0}, {"solver": "mirror", "C": math.inf}, {"solver": "gd", "C": math.inf},
    {"solver": "pegasos", "C": [0.1, 1.0], "scale": "std", "valid": True},
    {"C": 1.0}, {"loss": "logistic"}, {"solver": "newton", "penalty": "l1"},
    {"C": [0.1, 1.0], "scale": "std", "valid": True},
], ids=str)  # fmt: skip
def test_the_bytes_of_a_plan_and_of_a_checkpoint_do_not_depend_on_the_number_of_rows(monkeypatch, options):
    def counted(chunks, rows, name, origin, coded, workers):
        assert not coded
        return np.array([0.0, 1.0]), np.empty(0, np.int16), np.array([rows - rows // 2, rows // 2])

    monkeypatch.setattr(setup, "census", counted)
    found = []
    for rows in (10**7, 10**9):
        with ExitStack() as stack:
            more = {"valid": Endless(10**8)} if options.get("valid") else {}
            job = prepare(stack, Endless(rows), Options(**{"memory": "64M", "checkpoint": "none", **options, **more}))
            plan, numbers, arrays = job.plan, *save_runs(job.training(History([]), None))
        assert plan.memory_bytes <= 64 << 20 and not plan.resident
        found.append((plan.memory_bytes, plan.block_rows))
        assert sum(array.nbytes for array in arrays.values()) + len(repr(numbers)) < 1 << 20
    assert found[0] == found[1]


def test_the_predicted_classes_of_rows_in_memory_take_few_scores_at_a_time():
    point, rows = LinearPoint(np.eye(10, 9), 0.0), 100_000
    block, labels = DenseBlock(np.random.default_rng(0).random((rows, 8)), 0.0), of_codes(np.zeros(rows))
    problem = SimpleNamespace(resident=True, workers=ALONE, per_trial=10, outputs=SimpleNamespace(parts=Parts()))
    found = SimpleNamespace(best_point=lambda problem: point)
    looked, predicted = (
        Predictions(problem, np.ones(10), SimpleNamespace(), None),
        new(Predicted, problem, labels=labels),
    )
    with traced() as allocated:
        looked.add(problem, predicted, looked.point(found), block, 0)
    assert allocated.peak < 4 << 20 < 8 * rows * 10
    assert (predicted.seen > 0).tolist() == [True] * 8 + [False] * 2 and predicted.seen.sum() == rows
