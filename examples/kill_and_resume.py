"""Kills trainings at random moments, resumes them, and compares every bit with trainings that were never killed.

    python examples/kill_and_resume.py [--kills 300] [--seed 0] [--solver NAME] [--outputs] [--tasks] [--kernels]
        [--threads 1,2,3]

Covers every solver; dense and CSR rows; two and three classes, regression and several outputs (`--outputs`: these
alone); tasks and ratings (`--tasks`: these alone); kernels and maps (`--kernels`: these alone); several C and paths
over C; rows in memory and out of core; --scale; and a centred bias. Each training runs in its own process. SIGKILL ends
it at start-up, between blocks, in a checkpoint, or before or after a change of stage. Checkpoints may take half of the
time here. Short phases, such as a certificate, are targeted. The training is restarted until it finishes, each time
with one of `--threads`, at random. Then the weights, the model's header and the log are compared, except checkpoints,
times, memory and bytes read. Exit code 1 if anything differs.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp

import streammargin as sm
from streammargin.__main__ import main
from streammargin.driver.save import checkpoint
from streammargin.driver.save.checkpoint import SLOTS
from streammargin.driver.save.slots import PART_FILE, read_plain, write_slot
from streammargin.solvers.base import KERNELS, MATRICES
from streammargin.solvers.newton import sampled
from streammargin.solvers.registry import make_solver, names

CLOCKS = {
    "seconds", "compile_seconds", "read_seconds", "compute_seconds", "wait_seconds", "bytes_read", "reads",
    "rss_bytes",
}  # fmt: skip
ROWS, FEATURES = 24_000, 40
RATINGS, FEW = "ratings.csv", "few"
PHASES = [None, None, None, "scaling", "prologue", "certificate", "bias"]  # to be killed in; None: at any moment
OF_OUTPUTS = [None, None, None, None, "certificate"]  # the same for several outputs and tasks, without the others


def write_rows(path, sparse, classes, rows=ROWS):
    """Rows that hyperplanes separate, labels y, and numbers `target`; 8 MB, or 2 MB sparse."""
    rng = np.random.default_rng(classes)
    centers = 2.5 * rng.standard_normal((classes, FEATURES))
    y = rng.integers(0, classes, rows)
    X = centers[y] + rng.standard_normal((rows, FEATURES))
    with h5py.File(path, "w") as file:
        file["y"], file["target"] = y, X @ centers[0] + y
        file["task"] = rng.integers(0, 5, rows)
        file["targets"] = X @ rng.standard_normal((FEATURES, 4)) + y[:, None]
        if not sparse:
            file["X"] = X
            return
        X = sp.csr_matrix(np.where(rng.random(X.shape) < 0.3, X, 0.0))
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": X.shape})
        group["data"], group["indices"], group["indptr"] = X.data, X.indices, X.indptr.astype(np.int64)


def written(folder):
    """The files by (sparse, classes)."""
    data = {}
    for sparse in (False, True):
        for classes in (2, 3):
            data[sparse, classes] = str(folder / f"{'csr' if sparse else 'dense'}{classes}.h5")
            write_rows(data[sparse, classes], sparse, classes)
    data[FEW] = str(folder / "few.h5")
    write_rows(data[FEW], False, 3, 2_000)
    data[RATINGS] = str(folder / RATINGS)
    write_ratings(data[RATINGS])
    return data


def write_ratings(path):
    """Stars from 1 to 5 of 120 users and 150 films."""
    rng = np.random.default_rng(9)
    i, j = np.nonzero(rng.random((120, 150)) < 0.4)
    taste = rng.standard_normal((120, 4)) @ rng.standard_normal((4, 150))
    stars = np.clip(np.round(3.0 + taste[i, j]), 1, 5).astype(int)
    lines = [f"u{a},f{b},{c}" for a, b, c in zip(i, j, stars, strict=True)]
    Path(path).write_text("\n".join(["user,film,stars", *lines]) + "\n")


def of_several_outputs(data):
    """Arguments of `train`: one W for all classes, and several targets; in memory and out of core."""
    joint = {"multiclass": "joint"}
    targets = {"y": "targets"}
    for number, given in enumerate((
        {"solver": "newton", "loss": "logistic", **joint}, {"solver": "ascent", "loss": "logistic", **joint},
        {"solver": "newton", "loss": "hinge", **joint}, {"solver": "ascent", "loss": "hinge", **joint},
        {"loss": "logistic", "penalty": "trace", **joint}, {"loss": "hinge", "penalty": "l21:0.5", "multiclass": "ovr"},
        {"loss": "squared_error", "penalty": "l21", **targets}, {"loss": "l2_error", "penalty": "trace", **targets},
        {"loss": "absolute_error", "penalty": "l1inf", **targets}, {"loss": "huber", "solver": "pdprox", **targets},
        {"loss": "l2_error", "solver": "ascent", "bias": 1, **targets},
    )):  # fmt: skip
        for outside in (False, True):
            path = data[bool(number % 2) ^ outside, 3]
            memory = f"{least_memory(path, tol=1e-12, **given)}M" if outside else "1G"
            options = [part for name, value in given.items() for part in (f"--{name}", str(value))]
            yield [path, "--tol", "1e-12", "--passes", "8", "--memory", memory, *options]
    # out of core, on a sample of the rows
    yield [data[False, 3], "--solver", "newton", "--loss", "logistic", "--tol", "1e-12", "--passes", "8", "--memory",
           "18M"]  # fmt: skip


def of_tasks(data):
    """Arguments of `train` for rows of several tasks, in memory and out of core, and of `complete`."""
    for given in (
        {"loss": "absolute_error", "penalty": "l1inf"}, {"loss": "epsilon_insensitive:1", "penalty": "l1inf:0.5"},
        {"loss": "huber", "penalty": "trace"}, {"loss": "squared_error", "penalty": "l21"},
    ):  # fmt: skip
        given = {"tasks": "task", "y": "target", **given}
        for sparse in (False, True):
            options = [part for name, value in given.items() for part in (f"--{name}", value)]
            memory = f"{least_memory(data[sparse, 3], tol=1e-12, **given)}M" if sparse else "1G"
            yield [data[sparse, 3], "--tol", "1e-12", "--passes", "12", "--memory", memory, *options]
    for name, loss in (("factors", "absolute_error"), ("splitting", "squared_error"), ("completion", "hinge:1,2,3,4")):
        yield [data[RATINGS], "--tol", "1e-12", "--passes", "70", "--solver", name, "--loss", loss, "-c", "2"]


def of_kernels(data):
    """Arguments of `train` for kernel machines by each method, and for linear solvers behind a map."""
    rbf, hard = ["--kernel", "rbf", "--tol", "1e-6", "--passes", "12"], ["--C", "inf"]
    for memory in ("1G", "40M"):
        yield [data[False, 3], *rbf, "--C", "0.1,1", "--valid", data[FEW], "--memory", memory]
    for key, memory in (((False, 2), "1G"), ((False, 3), "24M"), ((True, 2), "24M")):
        yield [data[key], *rbf, *hard, "--bias", "free", "--memory", memory]
    for solver in ("dual-momentum", "adaptive"):
        yield [data[FEW], *rbf, *hard, "--solver", solver, "--multiclass", "joint"]
    for solver in ("inertial-diagonal", "batch-perceptron", "adaptive"):
        yield [data[FEW], *rbf, *hard, "--solver", solver, "--memory", "27M"]
    yield [data[FEW], *rbf, "--solver", "pdprox", "--y", "target", "--loss", "huber"]
    for word, solver, key in (("nystroem:60", "ascent", (False, 3)), ("rff:60", "newton", (False, 2)),
                              ("nystroem:60,kernel=poly:2", "newton", (True, 3))):  # fmt: skip
        given = {"map": word, "solver": solver, "tol": 1e-12}
        for memory in ("1G", f"{least_memory(data[key], **given)}M"):
            yield [data[key], "--map", word, "--solver", solver, "--tol", "1e-12", "--passes", "8", "--memory", memory,
                   "--scale", "std"]  # fmt: skip


def ways(data):
    """Arguments of `train`, so that each solver meets each kind of data."""
    kinds = [(sparse, classes, memory) for sparse in (False, True) for classes in (2, 3) for memory in ("1G", None)]
    solvers = {name: make_solver(name) for name in sorted(set(names()) - {"auto"})}
    linear = (name for name, solver in solvers.items() if not {KERNELS, MATRICES} & {*solver.takes})
    for i, name in enumerate(linear):
        for sparse, classes, memory in (kinds[i % 8], kinds[(i + 3) % 8]):
            more = ["--tol", "1e-12", "--passes", "12", "--solver", name]
            scale = "maxabs" if i % 3 == 0 else "none"
            if memory is None:
                memory = f"{least_memory(data[sparse, classes], solver=name, tol=1e-12, scale=scale)}M"
            yield [data[sparse, classes], *more, "--memory", memory, "--scale", scale]
    for sparse, memory in ((False, "1G"), (True, "64M")):
        yield [data[sparse, 2], "--tol", "1e-3", "--solver", "smo", "--kernel", "rbf", "--memory", memory]
    few = ["--tol", "1e-12", "--passes", "6"]
    yield [data[False, 2], *few, "--solver", "active-set", "--C", "inf", "--bias", "midway"]
    yield [data[True, 3], *few, "--solver", "adaptive", "--multiclass", "joint"]
    for name, penalty, key in (("pdprox", "l1", (True, 3)), ("sdca", "elasticnet", (False, 2))):
        yield [data[key], *few, "--solver", name, "--penalty", penalty, "--bias", "1"]
    # rows kept between two reads, at last all rows; blocks visited in turns
    for name, classes, passes in (
        ("newton", 2, 13), ("newton", 3, 4), ("sdca", 2, 8), ("sdca", 3, 8), ("asdca", 2, 8), ("asdca", 3, 8)
    ):  # fmt: skip
        memory = f"{least_memory(data[False, classes], solver=name, tol=1e-12) + 4}M"
        yield [data[False, classes], "--tol", "1e-12", "--passes", str(passes), "--solver", name, "--memory", memory]
    # solvers that hand over: from the third pass on, and after the 7th and the 62nd
    for name, C, passes in (("active-set", "inf", 8), ("newton", "1", 70)):
        yield [data[False, 2], "--tol", "1e-16", "--passes", str(passes), "--solver", name, "--C", C]
    for name, sparse in (("newton", False), ("sdca", True), ("asdca", False), ("pegasos", True)):
        several = ["--C", "0.1,1,10", "--valid", data[sparse, 3]]
        yield [data[sparse, 3], *few, "--solver", name, *several]
    numbers = ["--y", "target", "--loss"]
    for name, loss, key in (
        ("sdca", "absolute_error", (False, 2)), ("asdca", "squared_error", (True, 2)), ("pdprox", "quantile", (True, 3))
    ):  # fmt: skip
        yield [data[key], *few, *numbers, loss, "--solver", name]
    for key, C, more in (
        ((True, 3), "path:3,high=0.001", []),
        ((False, 2), "path:3,low=3e-7,high=1e-5", [*numbers, "squared_error"]),
    ):
        path = ["--solver", "pdprox", "--penalty", "l1", "--C", C, "--valid", data[key]]
        yield [data[key], "--tol", "0.2", "--passes", "120", *path, *more]


def least_memory(path, **options):
    """The least budget in MiB, which the message about a smaller one names; it holds the labels and no more."""
    try:
        sm.train(path, memory="1M", **options)
    except sm.UsageError as error:
        return int(str(error).split("needs ")[1].split("M;")[0])
    raise AssertionError("a budget of 1M was enough")


def command(way, folder, threads="1"):
    """The same command for every start, but for the number of threads."""
    verb = "complete" if way[0].endswith(RATINGS) else "train"
    return [verb, *way, "-o", str(folder / "model.npz"), "--log-json", str(folder / "log"), "-q", "--checkpoint",
            str(folder / "checkpoints"), "--checkpoint-seconds", "0.001", "--threads", threads]  # fmt: skip


def start(arguments, phase=None):
    """The number of a new process that trains, and kills itself in this phase; the kernels are compiled in it."""
    process = os.fork()
    if process:
        return process
    if phase is not None:
        checkpoint.write_slot = striking_in(phase)
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 2)
    sys.argv = ["streammargin", *arguments]
    code = 70
    with contextlib.suppress(BaseException):
        code = main()
    os._exit(code)


def striking_in(phase):
    """A function that writes a slot, and kills the process if the slot is of this phase."""

    def write(path, plain, arrays):
        write_slot(path, plain, arrays)
        if plain["progress"]["phase"] == phase:
            os.kill(os.getpid(), signal.SIGKILL)

    return write


def finished(process, seconds):
    """The exit code of a process that ends by itself within the seconds; None for one that was killed."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        there, status = os.waitpid(process, os.WNOHANG)
        if there:
            break
        time.sleep(0.0005)
    else:
        os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    return None if code == -signal.SIGKILL else code


def where(slots):
    """The phase in which the newest slot was written; the process was killed shortly after."""
    if not slots:
        return "before the first checkpoint"
    newest = max(map(read_plain, slots), key=lambda plain: plain["serial"])
    return f"in {newest['progress']['phase']}"


def bits(folder):
    """All that must not differ."""
    with np.load(folder / "model.npz") as model:
        arrays = {name: model[name].tobytes() for name in model.files if name != "header"}
        header = json.loads(str(model["header"]))
    log = [json.loads(line) for line in (folder / "log").read_text().replace(str(folder), "FOLDER").splitlines()]
    events = [without_clocks(event) for event in log if event["event"] != "checkpoint"]
    for event in events:
        event.pop("model", None)
    return arrays, without_clocks(header), events


def without_clocks(values):
    return {name: value for name, value in values.items() if name not in CLOCKS}


def run():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solver", choices=sorted(set(names()) - {"auto"}), help="this one alone")
    parser.add_argument("--outputs", action="store_true", help="trainings for several outputs alone")
    parser.add_argument("--tasks", action="store_true", help="trainings with tasks, and of ratings, alone")
    parser.add_argument("--kernels", action="store_true", help="trainings with a kernel, or a map, alone")
    parser.add_argument("--threads", type=lambda text: text.split(","), default=["1"], metavar="N,...")
    options = parser.parse_args()
    moments = random.Random(options.seed)
    # also for the processes that are started later: checkpoints are many, and few columns are enough for a sample
    checkpoint.WRITING_TIME_SHARE, sampled.WIDE_HESSIAN_COLUMNS = 0.5, 0
    chosen = [options.outputs and of_several_outputs, options.tasks and of_tasks, options.kernels and of_kernels]
    phases, counts = OF_OUTPUTS if any(chosen) else PHASES, Counter()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        cases = []
        data = written(root)
        groups = list(filter(None, chosen)) or [ways, of_several_outputs, of_tasks, of_kernels]
        every = [way for group in groups for way in group(data)]
        for number, way in enumerate(way for way in every if options.solver in (None, *way)):
            folder = root / f"straight{number}"
            folder.mkdir()
            compiling = root / f"compiling{number}"
            compiling.mkdir()
            finished(start(command(way, compiling)), 600)
            began = time.perf_counter()
            code = finished(start(command(way, folder)), 600)
            if code != 0:
                sys.exit(f"{' '.join(way)}: exit code {code}")
            cases.append((way, bits(folder), time.perf_counter() - began))
        while counts["kills"] < options.kills:
            way, expected, seconds = cases[counts["trainings"] % len(cases)]
            folder = root / f"killed{counts['trainings']}"
            folder.mkdir()
            counts["trainings"] += 1
            while True:
                phase = moments.choice(phases)
                moment = moments.uniform(0.0, seconds) if phase is None else 600.0
                again = command(way, folder, moments.choice(options.threads))
                if (code := finished(start(again, phase), moment)) is not None:
                    break
                counts["kills"] += 1
                there = os.listdir(folder / "checkpoints") if (folder / "checkpoints").exists() else []
                slots = [str(folder / "checkpoints" / slot) for slot in there if slot in SLOTS]
                counts["while a checkpoint was written"] += PART_FILE in there
                counts[where(slots)] += 1
            if code != 0 or bits(folder) != expected:
                counts["different"] += 1
                print(f"DIFFERENT: exit code {code}: streammargin {' '.join(way)}")
            print(f"{counts['kills']} kills of {counts['trainings']} trainings", end="\r", flush=True)
    print(f"{len(cases)} ways to train; " + ", ".join(f"{what}: {count}" for what, count in sorted(counts.items())))
    return int(counts["different"] > 0)


if __name__ == "__main__":
    sys.exit(run())
