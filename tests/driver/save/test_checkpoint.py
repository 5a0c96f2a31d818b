"""A training that is stopped anywhere resumes from its directory and ends in the same bits."""

import logging
import math
import operator
import os
import shutil
from functools import reduce
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import slow, write_h5
from reference.datasets import as_form, noisy, separable
from reference.sources import CountingSource
from reference.stopped import bits, stop_after

import streammargin as sm
from streammargin.driver.save import checkpoint as module
from streammargin.driver.save import snapshot
from streammargin.driver.save.checkpoint import SLOTS, Checkpoint
from streammargin.driver.save.slots import read_plain, read_slot, write_slot
from streammargin.reading import plan

BLOCKS = range(0, 61, 12)
IDENTIFIED = 5  # the blocks of rows without files are read once before all else
WAYS = {
    "sdca": (noisy, {"C": 1.0, "scale": "std"}),
    "asdca": (noisy, {"C": 1.0, "penalty": "lp:1.5"}),
    "active-set": (separable, {"C": math.inf}),
    "adaptive": (separable, {"C": math.inf}),
    "dual-momentum": (separable, {"C": math.inf}),
}


def train(solver, folder=None, passes=12, tol=1e-9, **options):
    make, own = WAYS[solver]
    X, y = make()
    data = CountingSource(as_form(X, "dense"), y, bounds=BLOCKS)
    return sm.train(data, solver=solver, passes=passes, tol=tol, checkpoint=folder, **{**own, **options})


@pytest.mark.parametrize("solver", WAYS)
def test_stopped_again_and_again_it_ends_as_if_it_never_was(solver, tmp_path):
    folder = str(tmp_path / "checkpoints")
    result = train(solver, folder, should_stop=stop_after(3))
    starts = 1
    while result.reason == "signal":
        assert result.resumable and not result.converged
        result = train(solver, folder, should_stop=stop_after(IDENTIFIED + 3))
        starts += 1
    assert starts > 2 and not result.resumable
    assert bits(result) == bits(train(solver))
    reads = []
    again = train(solver, folder, should_stop=lambda: reads.append(1))
    assert bits(again) == bits(result) and len(reads) == IDENTIFIED  # at once


@pytest.mark.parametrize("form", ("dense", "csr"))
def test_stopped_before_the_scale_of_rows_in_memory_is_known(form, tmp_path):
    X, y = noisy()
    scaled = X * np.geomspace(1.0, 1e3, X.shape[1])
    options = {"scale": "maxabs", "passes": 5, "tol": 1e-9, "C": 1.0}
    folder = str(tmp_path / "checkpoints")
    stopped = sm.train(as_form(scaled, form), y, checkpoint=folder, should_stop=stop_after(0), **options)
    assert stopped.reason == "signal" and stopped.resumable
    resumed = sm.train(as_form(scaled, form), y, checkpoint=folder, **options)
    assert bits(resumed) == bits(sm.train(as_form(scaled, form), y, **options))


@pytest.mark.parametrize("seconds, cost, apart", [(10.0, 0.125, 10.0), (10.0, 1.0, 50.0)])
def test_slots_in_turn_whose_cost_is_held_to_a_share_of_the_time(seconds, cost, apart, tmp_path, monkeypatch):
    now, written = [0.0], []

    def slow(path, *given, write=write_slot):
        written.append((os.path.basename(path), now[0]))
        write(path, *given)
        now[0] += cost

    def a_second_a_step():
        now[0] += 1.0

    monkeypatch.setattr(module, "write_slot", slow)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0]))
    result = train("sdca", str(tmp_path), checkpoint_seconds=seconds, passes=150, tol=0, should_stop=a_second_a_step)
    told = [(e["path"], e["seconds"]) for e in result.history if e["event"] == "checkpoint"]
    assert told == [(str(tmp_path / name), pytest.approx(cost)) for name, _ in written]
    assert [name for name, _ in written] == [SLOTS[i % 2] for i in range(len(written))]
    times = [then for _, then in written[:-1]]  # the last one is written at the end
    assert times[0] == seconds and len(times) > 4
    gaps = np.diff(times) - cost
    assert gaps.min() >= apart and gaps.max() < apart + 1.0  # the first step after the interval


@pytest.mark.parametrize("before", [1, 4])
def test_more_passes_are_those_of_a_longer_training(before, tmp_path):
    # the slot from before the end may be of any moment
    train("sdca", str(tmp_path), passes=5, should_stop=stop_after(before))
    train("sdca", str(tmp_path), passes=5)
    then = train("sdca", str(tmp_path), passes=9)
    then.history[0]["params"]["passes"] = 9
    assert bits(then) == bits(train("sdca", passes=9))


def test_a_smaller_tolerance_goes_on(tmp_path):
    first = train("sdca", str(tmp_path), tol=0.3, passes=1000)
    assert first.converged and first.certificate["gap"] > 1e-2
    then = train("sdca", str(tmp_path), tol=1e-2, passes=1000)
    assert then.converged and then.certificate["gap"] <= 1e-2 and then.passes > first.passes


@pytest.mark.parametrize("solver, phase, every", [
    ("newton", "pass", range(13, 26, 2)), ("pdprox", "pass", range(13, 26, 2)),
    ("asdca", "certificate", range(13, 60)),
])  # fmt: skip
def test_a_smaller_tolerance_wakes_what_was_done_with_the_next_read(solver, phase, every, tmp_path):
    """In the middle of a read its sums would be those of some rows, or of an earlier pass and some rows again."""
    X, y = noisy()
    costs, woken = [0.01, 1.0, 10.0], 0

    def train(folder, tol, **options):
        data = CountingSource(X, y, bounds=BLOCKS)
        options = {"solver": solver, "C": costs, "valid": (X, y), "passes": 400, "checkpoint": folder, **options}
        return sm.train(data, tol=tol, **options)

    best = train(None, 1e-4).run_end["trials"]
    for blocks in every:
        folder = str(tmp_path / str(blocks))
        if train(folder, 0.1, should_stop=stop_after(blocks)).reason != "signal":
            break
        plain, arrays = read_slot(max(map(str, Path(folder).glob("slot-?")), key=lambda one: read_plain(one)["serial"]))
        within = plain["progress"]["phase"] == phase and arrays["progress/order"].size
        woken += bool(within and arrays["progress/done"].any())
        then = train(folder, 1e-4)
        assert then.converged and [one["C"] for one in then.run_end["trials"]] == costs
        assert all(one["gap"] <= 1e-4 for one in then.run_end["trials"])
    assert woken and all(one["gap"] <= 1e-4 for one in best)


@pytest.fixture(scope="module")
def ten_classes(tmp_path_factory):
    """A file of float32 rows whose blocks depend on whether the vectors are float32 too."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40_000, 30)).astype(np.float32)
    return write_h5(tmp_path_factory.mktemp("ten") / "data.h5", X, (X[:, :10] + 0.3 * X[:, 10:20]).argmax(axis=1))


@pytest.mark.parametrize("solver, memory, blocks", [
    ("sdca", "1G", (1, 1)), ("sdca", "20M", (1, 13)), ("sdca", "18M", (13, 17)),
    slow("asdca", "20M", (9, 17)),
])  # fmt: skip
def test_a_tolerance_may_ask_for_float64_later_and_for_less_again(
    solver, memory, blocks, ten_classes, tmp_path, monkeypatch
):
    monkeypatch.setattr(plan, "LEAST_BLOCK_BYTES", 1 << 18)
    options = {"solver": solver, "loss": "hinge", "memory": memory, "checkpoint": str(tmp_path)}
    ran = []
    for tol, passes in ((0.01, 9), (1e-12, 5), (0.95, 5)):
        stop = stop_after(2 if tol == 0.01 else 10**9)
        result = sm.train(ten_classes, tol=tol, passes=passes, should_stop=stop, **options)
        plain, arrays = read_slot(max(map(str, tmp_path.glob("slot-?")), key=lambda path: read_plain(path)["serial"]))
        ran.append((result.reason, result.passes, plain["least_tol"], arrays["state/theta"].dtype, arrays["bounds"]))
    assert [one[2:4] for one in ran] == [(0.01, np.float32), (1e-12, np.float64), (1e-12, np.float64)]
    before, then, again = (one[4] for one in ran)
    assert len(before) - 1 == blocks[0] and np.isin(before, then).all() and np.array_equal(then, again)
    assert (len(then) > len(before)) == (blocks[0] != blocks[1])
    assert [one[0] for one in ran] == ["signal", "passes", "tolerance"] and ran[1][1] == ran[2][1] == 5
    assert result.converged and result.certificate.gap <= 0.95


@pytest.mark.parametrize("blocks", range(40, 56, 3))
def test_a_larger_tolerance_that_was_met_already_is_enough_wherever_it_was_stopped(blocks, tmp_path):
    train("adaptive", str(tmp_path), passes=40, should_stop=stop_after(blocks))
    then = train("adaptive", str(tmp_path), tol=0.99, passes=40)
    assert then.reason == "tolerance" and then.converged and then.passes < 40


@pytest.mark.parametrize("passes", [12, 3])
def test_a_larger_tolerance_that_was_met_already_ends_it_at_once(passes, tmp_path):
    train("asdca", str(tmp_path), passes=passes, should_stop=stop_after(100))
    then = train("asdca", str(tmp_path), tol=0.9, passes=passes)
    assert then.reason == "tolerance" and then.converged and then.certificate.gap <= 0.9 and then.passes == passes


def test_a_copy_of_another_time_is_the_same_data(tmp_path):
    X, y = noisy()
    options = {"solver": "sdca", "tol": 0, "passes": 20}
    path, copy = write_h5(tmp_path / "data.h5", X, y), str(tmp_path / "copy.h5")
    stopped = sm.train(path, checkpoint=str(tmp_path / "it"), should_stop=stop_after(5), **options)
    shutil.copyfile(path, copy)
    os.utime(copy, (0, 0))
    resumed = sm.train(copy, checkpoint=str(tmp_path / "it"), **options)
    assert stopped.reason == "signal" and bits(resumed) == bits(sm.train(path, **options))


def test_streams_have_no_checkpoint(tmp_path):
    with pytest.raises(sm.UsageError, match="checkpoint"):
        sm.train(iter([noisy()]), solver="perceptron", checkpoint=str(tmp_path / "it"))
    with pytest.raises(TypeError, match="checkpoint"):  # which estimators have not
        sm.MarginClassifier(solver="perceptron", checkpoint=str(tmp_path / "it"))
    assert not (tmp_path / "it").exists()


@pytest.mark.parametrize("place, name", [
    ("streammargin.driver.save.checkpoint.__version__", "streammargin"), ("numba.__version__", "numba"),
    ("numpy.__version__", "numpy"),
    ("llvmlite.binding.get_host_cpu_name", "processor"),
    ("streammargin.driver.save.checkpoint.shipped", "kernels"),
])  # fmt: skip
def test_another_version_or_processor_is_named(place, name, tmp_path, monkeypatch):
    train("sdca", str(tmp_path), should_stop=stop_after(9))
    new = {"processor": lambda: "z80", "kernels": lambda sources: SimpleNamespace(processor="z80-v3")}
    monkeypatch.setattr(place, new.get(name, "99.9"))
    with pytest.raises(sm.UsageError, match=f"holds an unfinished training with {name} "):
        train("sdca", str(tmp_path))


@pytest.mark.parametrize("change, named", [
    ({"C": 2.0}, "C 1.0, not 2.0"), ({"seed": 1}, "seed"), ({"bias": 2.0}, "bias"),
    ({"scale": "none"}, "scale"), ({"memory": "2G"}, "memory"),
])  # fmt: skip
def test_another_training_is_refused_by_name(change, named, tmp_path):
    train("sdca", str(tmp_path), should_stop=stop_after(9))
    with pytest.raises(sm.UsageError, match=f"holds an unfinished training with {named}"):
        train("sdca", str(tmp_path), **change)


@pytest.mark.parametrize("other", ["perceptron", "newton", "asdca"])
def test_another_solver_is_named_though_its_blocks_and_its_C_differ(other, tmp_path):
    random = np.random.default_rng(0)
    X = random.standard_normal((40_000, 100)).astype(np.float32)
    data = write_h5(tmp_path / "data.h5", X, np.sign(X[:, 0] + random.standard_normal(40_000)))
    points = str(tmp_path / "points")
    sm.train(data, solver="sdca", passes=1, memory="18M", checkpoint=points, should_stop=stop_after(1))
    word = sm.solvers.make_solver(other)
    with pytest.raises(sm.UsageError, match=f"with solver 'ascent:momentum=no,order=permutation', not '{word}'"):
        sm.train(data, solver=other, passes=1, memory="18M", checkpoint=points)


@pytest.mark.parametrize("first, then, named", [
    ({"kernel": "rbf"}, {"map": "rff:5"}, "with kernel 'rbf[^']*', not None"),
    ({"map": "rff:4"}, {"map": "rff:5"}, "with map 'rff:4[^']*', not 'rff:5"),
    ({}, {"map": "rff:7"}, "with map None, not 'rff:7"),
    ({"kernel": "rbf"}, {"kernel": "poly"}, "with kernel 'rbf[^']*', not 'poly"),
])  # fmt: skip
def test_another_kernel_or_map_is_named_and_not_the_columns_that_it_makes(first, then, named, tmp_path):
    options = {"checkpoint": str(tmp_path), "tol": 1e-9}
    sm.train(noisy(), should_stop=stop_after(1), **options, **first)
    with pytest.raises(sm.UsageError, match=f"holds an unfinished training {named}"):
        sm.train(noisy(), **options, **then)


def test_other_rows_are_refused(tmp_path):
    X, y = noisy()
    sm.train((X, y), passes=3, checkpoint=str(tmp_path), should_stop=stop_after(1))
    with pytest.raises(sm.DataError, match="the data have other labels than those of the unfinished training in"):
        sm.train((X, -y), passes=3, checkpoint=str(tmp_path))
    with pytest.raises(sm.DataError, match="the data have 59 rows, not the 60 of the unfinished training in"):
        sm.train((X[1:], y[1:]), passes=3, checkpoint=str(tmp_path))
    with pytest.raises(sm.UsageError, match="holds an unfinished training without held-out data; leave out valid"):
        sm.train((X, y), passes=3, checkpoint=str(tmp_path), valid=(X, y))
    with pytest.raises(sm.DataError, match="X: some of the rows 0 to 59 changed since this training read them"):
        sm.train((X + 1, y), passes=3, checkpoint=str(tmp_path))


def test_other_bounds_of_the_weights_are_named_as_they_are_typed(tmp_path):
    options = {"checkpoint": str(tmp_path), "passes": 3, "C": 1.0}
    sm.train(noisy(), penalty="l2:low=0,high=1", should_stop=stop_after(1), **options)
    with pytest.raises(sm.UsageError, match="with penalty 'l2:low=0,high=1', not 'l2:low=0,high=2'; use"):
        sm.train(noisy(), penalty="l2:low=0,high=2", **options)


def test_other_names_of_the_columns_are_refused(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = noisy()
    frames = [pd.DataFrame(X, columns=[f"{letter}{k}" for k in range(X.shape[1])]) for letter in "ab"]
    sm.train((frames[0], y), passes=3, checkpoint=str(tmp_path), should_stop=stop_after(1))
    for other in (frames[1], X):
        with pytest.raises(sm.DataError, match="other names of columns than those of the unfinished training"):
            sm.train((other, y), passes=3, checkpoint=str(tmp_path))
    model = sm.train((frames[0], y), passes=4, checkpoint=str(tmp_path)).model
    assert model.feature_names_in_.tolist() == frames[0].columns.tolist()


def test_going_on_is_said(tmp_path, caplog):
    train("sdca", str(tmp_path), should_stop=stop_after(9))
    with caplog.at_level(logging.INFO, "streammargin"):
        train("sdca", str(tmp_path))
    assert f"resuming from the checkpoint in {tmp_path}" in caplog.text


@pytest.mark.parametrize("other", ["C", "labels", "rows of an array", "rows of a file"])
def test_a_training_that_is_done_refuses_no_other(other, tmp_path, caplog):
    X, y = noisy()
    folder, more = str(tmp_path / "it"), {"C": 2.0} if other == "C" else {}
    first, second = (X, y), (X + 1.0 if "rows" in other else X, -y if other == "labels" else y)
    if other == "rows of a file":  # which are compared once the training has gone on
        first = write_h5(tmp_path / "data.h5", *first)
    # one with a smaller tolerance, whose arithmetic is none of the other's business
    assert sm.train(first, passes=500, tol=1e-5, solver="sdca", checkpoint=folder).reason != "signal"
    if other == "rows of a file":
        second = write_h5(tmp_path / "data.h5", *second)
    options = {"passes": 50, "tol": 1e-2, "solver": "sdca", **more}
    with caplog.at_level(logging.WARNING, "streammargin"):
        result = sm.train(second, checkpoint=folder, **options)
    assert caplog.text.count(f"{folder} held a finished training") == 1
    assert bits(result) == bits(sm.train(second, **options)) and result.replaced
    again = sm.train(second, checkpoint=folder, **options)
    assert bits(again) == bits(result) and not again.replaced


def test_a_word_and_all_that_it_stands_for_are_one_training(tmp_path):
    X, y = noisy()
    options = {"passes": 30, "tol": 1e-9, "checkpoint": str(tmp_path)}
    sm.train((X, X[:, 0]), loss="quantile", should_stop=stop_after(1), **options)
    assert sm.train((X, X[:, 0]), loss="quantile:quantile=0.50", **options).reason != "signal"
    with pytest.raises(sm.UsageError, match=r"with penalty 'group\(groups=.*; use .group\("):
        sm.train((X, y), penalty=sm.penalties.Group(np.arange(X.shape[1])), should_stop=stop_after(1),
                 checkpoint=str(tmp_path / "groups"))  # fmt: skip
        sm.train((X, y), penalty=sm.penalties.Group(np.arange(X.shape[1]) // 2), checkpoint=str(tmp_path / "groups"))


def test_a_directory_that_cannot_be_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "file").write_text("no directory")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(sm.OutputError, match=r"cannot write checkpoints to .*; name another one"):
            train("sdca", str(folder))


def test_one_process_at_a_time(tmp_path):
    with Checkpoint(str(tmp_path), 60.0), pytest.raises(sm.OutputError, match="another process is training"):
        train("sdca", str(tmp_path))
    train("sdca", str(tmp_path))


def stopped(folder):
    """Two slots, of a training that was stopped."""
    train("sdca", folder, should_stop=stop_after(9))
    train("sdca", folder, should_stop=stop_after(IDENTIFIED + 9))
    serials = {name: read_slot(os.path.join(folder, name))[0]["serial"] for name in SLOTS}
    return sorted(SLOTS, key=serials.get)  # type: ignore[arg-type]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "another file"])
def test_a_damaged_slot_is_refused_and_the_other_taken(damage, tmp_path, caplog):
    folder = str(tmp_path / "it")
    older, newer = stopped(folder)
    hurt(os.path.join(folder, newer), damage)
    with caplog.at_level(logging.WARNING, "streammargin"):
        result = train("sdca", folder)
    assert f"{newer} is refused" in caplog.text and "the other checkpoint file is used" in caplog.text
    assert bits(result) == bits(train("sdca"))
    shutil.rmtree(folder)
    for name in stopped(folder):
        hurt(os.path.join(folder, name), damage)
    with pytest.raises(sm.DataError, match=f"{older} is refused.*delete .* to start from scratch"):
        train("sdca", folder)


def hurt(path, damage):
    content = bytearray(Path(path).read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 4
    damaged = {"cut": content[:-9], "empty": b"", "another file": b"\x89HDF" * 99}
    Path(path).write_bytes(damaged.get(damage, content))


def test_every_cut_and_every_flip_is_noticed(tmp_path):
    path = str(tmp_path / "slot")
    write_slot(path, {"serial": 1}, {"a": np.arange(3.0), "none": np.empty((2, 0), np.int16)})
    plain, arrays = read_slot(path)
    assert plain == {"serial": 1} and arrays["a"].tolist() == [0.0, 1.0, 2.0] and arrays["none"].shape == (2, 0)
    content = Path(path).read_bytes()
    for position in range(len(content)):
        flipped = bytes([content[position] ^ 64])
        for wrong in (content[:position], content[:position] + flipped + content[position + 1 :]):
            Path(path).write_bytes(wrong)
            with pytest.raises(ValueError, match="it "):
                read_slot(path)


@pytest.mark.parametrize("number", [1, 10, 12, 100])
def test_a_slot_of_another_format_is_refused_by_its_number(number, tmp_path):
    train("sdca", str(tmp_path), should_stop=stop_after(10))
    for path in tmp_path.glob("slot-?"):
        path.write_bytes(path.read_bytes().replace(b" 11\n", b" %d\n" % number, 1))
    wrong = rf"slot-a is refused: its format is {number}, .* of streammargin; this one reads 11; delete .* to start"
    with pytest.raises(sm.DataError, match=wrong):
        train("sdca", str(tmp_path))


def longer(array):
    return np.concatenate([array, array[-1:]])


def beyond(array):
    return array + 1000


def with_nan(array):
    return np.where(array == array.max(), np.nan, array)


@pytest.mark.parametrize("solver, name, change", [
    ("sdca", "progress/order", beyond), ("sdca", "progress/order", operator.neg),
    ("sdca", "progress/order", np.zeros_like), ("sdca", "progress/order", longer),
    ("sdca", "progress/done", longer), ("sdca", "state/theta", longer), ("sdca", "state/theta", with_nan),
    ("sdca", "state/sleep", np.float64),
    ("sdca", "position", lambda count: 1000), ("sdca", "progress/number", operator.neg), ("sdca", "rows", float),
    ("sdca", "phase", lambda name: "bias"), ("sdca", "reason", lambda none: "passes"),
    ("sdca", "proven", str), ("sdca", "progress/done", np.ones_like),
    ("sdca", "norms.visited", operator.neg), ("sdca", "norms.visited", lambda count: []),
    ("sdca", "multiplications", operator.neg),
    ("sdca", "multiplications", str), ("sdca", "numbers/state/number", lambda count: count + 1),
    ("sdca", "state/best.dual", operator.neg),
    ("active-set", "kept/small.rows.0", beyond), ("active-set", "kept/small.rows.0", operator.neg),
    ("active-set", "kept/small.rows.0", np.float64), ("active-set", "kept/small.rows.0", longer),
    ("active-set", "state/small.signs.0", longer), ("active-set", "state/small.u.0", lambda array: array[1:]),
    ("active-set", "state/heaps.filled", operator.neg), ("active-set", "state/heaps.filled", beyond),
    ("active-set", "state/heaps.ids", lambda array: array[:, 1:]),
    ("adaptive", "kept/kept.rows", beyond), ("adaptive", "state/order", beyond),
    ("adaptive", "state/order", operator.neg),
    ("adaptive", "state/mass", lambda array: array[:, 1:]), ("adaptive", "position", lambda count: 1000),
])  # fmt: skip
def test_a_whole_slot_of_values_that_no_training_has_is_refused(solver, name, change, tmp_path):
    train(solver, str(tmp_path), should_stop=stop_after(10))
    path = next(path for slot in SLOTS if (path := str(tmp_path / slot)) and os.path.exists(path))
    plain, arrays = read_slot(path)
    if name in arrays:
        assert arrays[name].size
        arrays[name] = np.ascontiguousarray(change(arrays[name]))
    else:
        part, _, name = name.rpartition("/")
        places = (
            (reduce(operator.getitem, part.split("/"), plain),)
            if part
            else (plain, plain["numbers"]["state"], plain["progress"])
        )
        where = next(place for place in places if name in place)
        where[name] = change(where[name])
    write_slot(path, plain, arrays)
    with pytest.raises(sm.DataError, match=r"slot-a does not fit this training: .*; delete .* to start from scratch"):
        train(solver, str(tmp_path))


def test_of_a_slot_that_does_not_fit_and_one_that_does_the_second_is_taken(tmp_path, caplog):
    folder = str(tmp_path / "it")
    _, newer = stopped(folder)
    plain, arrays = read_slot(os.path.join(folder, newer))
    write_slot(os.path.join(folder, newer), plain, {**arrays, "state/theta": longer(arrays["state/theta"])})
    with caplog.at_level(logging.WARNING, "streammargin"):
        result = train("sdca", folder)
    assert f"{newer} does not fit this training: theta has the shape" in caplog.text
    assert "the other checkpoint file is used" in caplog.text and bits(result) == bits(train("sdca"))


def test_proofs_of_a_slot_that_the_rows_contradict_are_none_of_this_training(tmp_path):
    train("sdca", str(tmp_path), tol=0.3, passes=1000)
    for path in tmp_path.glob("slot-?"):
        plain, arrays = read_slot(str(path))
        arrays["state/best.dual"] = 0.999 * arrays["state/best.primal"]
        write_slot(str(path), plain, arrays)
    with pytest.raises(sm.DataError, match=r"the numbers in .* are wrong: the duality gap is negative.*; delete .* to"):
        train("sdca", str(tmp_path), passes=1000)


@pytest.mark.parametrize("failure", ["full", "gone"])
def test_a_disk_that_fails_costs_a_warning_and_no_more(failure, tmp_path, monkeypatch, caplog):
    folder = str(tmp_path / "it")
    stopped(folder)
    kept = [Path(folder, name).read_bytes() for name in SLOTS]

    def fail(path, *rest):
        raise OSError(28, "No space left on device")

    if failure == "full":
        monkeypatch.setattr(module, "write_slot", fail)
    else:
        monkeypatch.setattr(snapshot, "restore", lambda *given, _=snapshot.restore: (
            _(*given), shutil.rmtree(folder)))  # fmt: skip
    with caplog.at_level(logging.WARNING, "streammargin"):
        result = train("sdca", folder, checkpoint_seconds=1e-9)
    assert caplog.text.count("no checkpoint could be written") == 1 and "the training continues" in caplog.text
    assert bits(result) == bits(train("sdca"))
    if failure == "full":
        assert kept == [Path(folder, name).read_bytes() for name in SLOTS]


def test_a_link_in_the_place_of_a_slot_is_not_followed(tmp_path):
    folder, precious = tmp_path / "points", tmp_path / "precious"
    folder.mkdir()
    for name in ("slot.part", "lock"):
        precious.write_text("years of work")
        (folder / name).symlink_to(precious)
        if name == "lock":
            with pytest.raises(sm.OutputError, match="cannot write checkpoints to"):
                train("sdca", str(folder))
            continue
        assert train("sdca", str(folder)).reason == "tolerance"
        assert precious.read_text() == "years of work" and not (folder / name).is_symlink()
        shutil.rmtree(folder)
        folder.mkdir()
    assert precious.read_text() == "years of work"


def test_a_file_of_another_kind_is_not_taken_for_half_a_slot(tmp_path):
    part = tmp_path / "slot.part"
    part.write_text("years of work")
    with pytest.raises(
        sm.OutputError, match=r"slot\.part was not written by a checkpoint, and would be replaced; move it"
    ):
        train("sdca", str(tmp_path))
    assert part.read_text() == "years of work"
    part.unlink()
    train("sdca", str(tmp_path), should_stop=stop_after(3))
    whole = (tmp_path / "slot-a").read_bytes()
    for left in (b"", whole[:10], whole[: len(whole) // 2], bytes(100)):  # of a process or a machine that was killed
        part.write_bytes(left)
        train("sdca", str(tmp_path), should_stop=stop_after(len(BLOCKS) + 3))  # they are compared first
        assert not part.exists()


@pytest.mark.parametrize("name", ["slot-a", "slot-b", "slot.part", "lock"])
@pytest.mark.parametrize("option", ["data", "y", "valid", "groups"])
def test_no_file_that_is_read_is_a_file_of_the_checkpoint(name, option, tmp_path):
    X, y = noisy()
    folder = tmp_path / "points"
    folder.mkdir()
    data = write_h5(tmp_path / "data.h5", X, y)
    given = {"data": data}
    if option == "groups":
        given["penalty"] = f"group:{folder / name}"
        (folder / name).write_text("".join(f"{column}\n" for column in range(X.shape[1])))
    else:
        write_h5(folder / name, X, y)
        given[option] = f"{folder / name}:y" if option == "y" else str(folder / name)
    before = (folder / name).read_bytes()
    with pytest.raises(sm.UsageError, match=f"the checkpoint's {name} .* is an input as well"):
        sm.train(**given, passes=3, checkpoint=str(folder), checkpoint_seconds=1e-6)
    assert (folder / name).read_bytes() == before
