"""What the driver relies on of every solver, whichever it is."""

import io
import json
import math

import numpy as np
import pytest
from reference.datasets import as_form, noisy, separable
from reference.sources import CountingSource

import streammargin as sm
from streammargin.driver import run as driver
from streammargin.driver import snapshot
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.progress import DONE
from streammargin.driver.scaling import Scaling
from streammargin.solvers.registry import names
from streammargin.specs.blocks import values_of

SOFT = ("pegasos", "newton")  # know a finite C only
# what makes a solver take another way: (name, data, options)
WAYS = [(name, kind, {"C": math.inf}) for name in names() if name not in SOFT for kind in ("separable", "classes")]
WAYS += [(name, "noisy", {"C": 1.0}) for name in ("sdca", "asdca", "pegasos", "newton")]
WAYS += [(name, "noisy", {"C": 0.1, "norm": 1.5}) for name in ("sdca", "asdca")]
WAYS += [(name, "separable", {"norm": 1.5, "average": True}) for name in ("mirror", "perceptron")]
WAYS += [(name, "numbers", {"loss": "interpolate"}) for name in ("sdca", "asdca")]
WAYS += [(name, "classes", {"multiclass": "joint"}) for name in ("dual-momentum", "gd", "adaptive")]
WAYS += [
    ("newton", "classes", {"C": 1.0}),
    ("pegasos", "noisy", {"average": True}),
    ("sdca", "noisy", {"C": [0.1, 1.0], "scale": "std"}),
]
WAYS += [("homotopic", "separable", {"stochastic": True}), ("homotopic", "separable", {"average": False})]
WAYS += [("batch-perceptron", "separable", {"average": False}), ("adaptive", "separable", {"schedule": "proven"})]
WAYS += [("active-set", "separable", {"C": math.inf, "bias": "midway", "scale": "maxabs"})]
WAYS += [("active-set", "large", {"C": math.inf}), ("sdca", "float32", {"C": 1.0})]


def data_of(kind):
    """Rows and labels that suit the kind of training."""
    if kind == "separable":
        return separable(90, seed=3)
    if kind == "large":  # a support that a small problem has no room for
        return separable(600, 300, seed=3)
    X, y = noisy(90)
    if kind == "numbers":
        return X[:10] + 0.1, y[:10] * 1.5
    return X.astype(np.float32 if kind == "float32" else float), (np.arange(90) % 3 if kind == "classes" else y)


def identifier(way):
    name, kind, options = way
    return " ".join([name, kind, *(f"{key}={value}" for key, value in options.items())])


every_way = pytest.mark.parametrize("way", WAYS, ids=map(identifier, WAYS))


@pytest.fixture
def trained(monkeypatch):
    """Train a way with another loop around its steps; the result and the steps."""

    def train(way, form, loop):
        def looped(run, between):
            with np.errstate(all="ignore"):
                return loop(run).outcome()

        name, kind, options = way
        X, y = data_of(kind)
        rows = as_form(X, form, X.dtype)
        data = CountingSource(rows, y, bounds=np.linspace(0, len(y), 6).astype(int))
        if kind == "large":
            monkeypatch.setattr("streammargin.solvers.active_set.LIMIT", 100)
        if isinstance(options.get("C"), list):
            options = {**options, "valid": (rows[::3], y[::3])}
        monkeypatch.setattr("streammargin.training.job.run", looped)
        return sm.train(data, solver=name, passes=7, tol=1e-9, seed=4, **{"bias": 1.0, **options})

    return train


def steps(run):
    """The run after every step."""
    while run.progress.phase != DONE:
        run.advance(run.met())
        yield run


@every_way
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_the_state_is_what_was_declared_and_takes_the_memory_that_was_counted(trained, way, form):
    def watched(run):
        for _ in steps(run):
            state = run.state
            snapshot.check_layout(run.solver.layout_now(run.problem, state), state.arrays)
            arrays = list(state.arrays.values())
            assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
            taken = sum(array.nbytes for array in arrays)
            taken += sum(kept.ids.nbytes + values_of(kept.rows).nbytes for kept in state.kept.values())
            assert taken <= run.solver.memory(run.problem)
        return run

    trained(way, form, watched)


def through_bytes(plain, arrays):
    """What comes back from a file."""
    file = io.BytesIO()
    np.savez(file, **{f"a{i}": array for i, array in enumerate(arrays.values())})
    file.seek(0)
    saved = np.load(file, allow_pickle=False)
    return json.loads(json.dumps(plain)), {name: saved[f"a{i}"] for i, name in enumerate(arrays)}


CLOCKS = {"seconds", "read_seconds", "compute_seconds", "wait_seconds", "bytes_read", "reads", "rss_bytes"}


def bits(result):
    """Weights, figures and events, but for the time they took."""
    events = [{key: value for key, value in event.items() if key not in CLOCKS} for event in result.history]
    return result.model.coef_.tobytes(), result.model.intercept_.tobytes(), json.dumps(events)


@every_way
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_a_training_that_is_saved_and_loaded_after_every_block_ends_in_the_same_bits(trained, way, form):
    """In fresh objects each time, so that nothing can lie anywhere else."""
    phases = []

    def straight(run):
        for _ in steps(run):
            pass
        return run

    def interrupted(run):
        while run.progress.phase != DONE:
            run.advance(run.met())
            saved = through_bytes(*snapshot.save(run))
            phases.append(run.progress.phase)
            run.stop_reading()
            run = fresh(run)
            snapshot.restore(run, *saved)
        return run

    assert bits(trained(way, form, interrupted)) == bits(trained(way, form, straight))
    assert len(set(phases)) > 1


def fresh(run):
    """A run that has not begun, of the same problem and plan."""
    run.history.restore({"events": [], "stride": 1, "seen": 0})
    scaling, reader, source = run.scaling, run.reader, run.reader.source
    if scaling is not None:
        center, factor = scaling.center, scaling.factor  # that the model and held-out rows are made with
        center[:], factor[:] = 0.0, 1.0
        scaling = Scaling(scaling.source, scaling.kind, scaling.codes, scaling.weights, 1 << 30)
        scaling.center, scaling.factor = center, factor
        source = scaling.scaled(scaling.source)
    reader = BlockReader(source, reader.bounds, 2)
    return driver.Run(
        run.problem, type(run.solver)(), reader, run.column, run.limits, run.costs, run.validator, run.history,
        midway=run.bias is not None, scaling=scaling,
    )  # fmt: skip
