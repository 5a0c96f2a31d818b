"""What the driver relies on of every solver, whichever it is."""

import io
import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from conftest import slow
from reference import stopped
from reference.datasets import as_form, noisy, separable
from reference.linear import names
from reference.sources import CountingSource

import streammargin as sm
from streammargin.driver.learn.steps import Scaling
from streammargin.driver.loop import run as driver
from streammargin.driver.loop.holders import Holders
from streammargin.driver.save import snapshot
from streammargin.driver.status.progress import CERTIFICATE, DONE, SCALING
from streammargin.reading.prefetch import BlockReader
from streammargin.rows.blocks import values_of
from streammargin.solvers import base, leaves, roles
from streammargin.solvers.base import NUMBERS
from streammargin.solvers.cache import rows as row_store
from streammargin.solvers.coordinate import coupled, from_weights
from streammargin.solvers.newton import held, sampled, truncated
from streammargin.solvers.newton import subproblem as descent
from streammargin.solvers.registry import make_solver
from streammargin.sources.arrays import ArraySource

SOFT = ("ascent", "pegasos", "newton", "pdprox", "prox-newton")  # know a finite C only
# what makes a solver take another way: (name, data, options)
WAYS = [(name, kind, {"C": math.inf}) for name in names() if name not in SOFT for kind in ("separable", "classes")]
WAYS += [(name, "noisy", {"C": 1.0}) for name in ("sdca", "asdca", "ascent", "pegasos", "newton")]
WAYS += [(name, "noisy", {"C": 0.1, "penalty": "lp:1.5"}) for name in ("sdca", "asdca")]
WAYS += [(name, "separable", {"penalty": "lp:1.5"}) for name in ("mirror:average", "perceptron:average")]
WAYS += [(name, "numbers", {"loss": "interpolate"}) for name in ("sdca", "asdca")]
NUMERIC = [
    name for name in SOFT + ("sdca", "asdca") if NUMBERS in make_solver(name).takes
]  # serve numbers at a finite C
WAYS += [(name, "measured", {"C": 0.3, "loss": "huber:0.7"}) for name in NUMERIC]
WAYS += [("pdprox", "measured", {"C": 0.3, "loss": "huber:0.7,top=20"})]
WAYS += [(name, "classes", {"multiclass": "joint"}) for name in ("dual-momentum", "gd", "adaptive", "batch-perceptron")]
WAYS += [("ascent", "classes", {"multiclass": "joint", "loss": "logistic", "C": [0.1, 1.0]})]
WAYS += [("ascent", "float32 classes", {"multiclass": "joint", "loss": "hinge", "C": 0.3})]
WAYS += [("newton", "wide classes", {"multiclass": "joint", "loss": "logistic", "C": [0.3, 1.0]})]
WAYS += [
    ("newton", "classes", {"loss": "hinge", "C": 1.0}),
    ("pegasos:average", "noisy", {}),
    ("sdca", "noisy", {"C": [0.1, 1.0], "scale": "std"}),
]
WAYS += [
    ("pdprox", "noisy", {"penalty": "l1", "C": 0.3}),
    ("pdprox", "noisy", {"penalty": "l2:low=-0.1,high=0.2", "C": 0.3}),
    ("pdprox:dual", "noisy", {"loss": "hinge:top=20.0"}),
    ("pdprox", "classes", {"C": [0.1, 1.0], "loss": "hinge", "penalty": "elasticnet", "scale": "std"}),
    *[(name, "noisy", {"C": 0.3, "penalty": "elasticnet", "bias": 1.0}) for name in ("sdca", "ascent")],
    ("prox-newton", "noisy", {"penalty": "l1", "C": 0.3}),
    (
        "prox-newton",
        "classes",
        {"C": [0.1, 1.0], "penalty": "elasticnet", "loss": "logistic", "scale": "std", "multiclass": "ovr"},
    ),
]
WAYS += [(word, "separable", {}) for word in ("homotopic:stochastic", "homotopic:average=no")]
WAYS += [(f"homotopic:{word}", "separable", {}) for word in ("s0=3,units=paper", "stochastic,group=1,decay=log")]
WAYS += [("normalized-gd:step=sqrt", "separable", {})]
WAYS += [(word, "separable", {}) for word in ("batch-perceptron:average=no", "adaptive:step=proven", "pdprox:average")]
# as the papers print them
PRINTED = ("diagonal:1,decay=linear,gamma=fixed", "inertial-diagonal:gamma=fixed,alpha=10,restarts=no,ahead=no")
WAYS += [(word, kind, {}) for word in PRINTED for kind in ("separable", "classes")]
WAYS += [("active-set", "separable", {"C": math.inf, "bias": "midway", "scale": "maxabs"})]
WAYS += [
    ("pdprox", "in memory", {"penalty": "l1", "C": 2.0, "loss": loss, "multiclass": "ovr"})
    for loss in ("hinge", "logistic")
]
WAYS += [(name, "targets", {"C": 0.3, "loss": "huber:0.7"}) for name in ("newton", "pdprox", "sdca")]
WAYS += [(name, "labels", {"C": 1.0}) for name in ("newton", "asdca")]
WAYS += [
    ("pdprox", "classes", {"C": [0.1, 1.0], "loss": "hinge", "penalty": "l21", "multiclass": word})
    for word in ("joint", "ovr")
]
WAYS += [("pdprox:dual,scale=4", "targets", {"C": 0.3, "loss": "l2_error", "penalty": "trace"})]
WAYS += [("pdprox:primal", "targets", {"C": 0.3, "loss": "epsilon_insensitive:0.1", "penalty": "l1inf"})]
WAYS += [("pdprox", "labels", {"C": [0.1, 1.0], "penalty": "l1", "loss": "logistic", "scale": "std"})]
WAYS += [("newton", "tasks", {"C": 0.3, "loss": loss, "penalty": "l1inf"}) for loss in ("absolute_error", "huber")]
WAYS += [
    ("prox-newton", kind, {"penalty": penalty, "loss": loss, "C": 0.3})
    for kind in ("few columns", "few columns in memory")
    for penalty, loss in (("l1", "hinge"), ("elasticnet", "logistic"))
]
WAYS += [
    ("prox-newton", "few columns, classes", {"C": [0.5, 2.0], "penalty": "l1", "loss": "logistic", "multiclass": "ovr"})
]
WAYS += [("active-set", "large", {"C": math.inf}), ("sdca", "float32", {"C": 1.0})]
WAYS = [way for way in WAYS if way[0].partition(":")[0] in names()]  # the core has none of the papers


def data_of(kind):
    """Rows and labels that suit the kind of training."""
    if kind == "separable":
        return separable(90, seed=3)
    if kind == "large":  # a support that a small problem has no room for
        return separable(600, 300, seed=3)
    X, y = noisy(90)
    if kind in ("measured", "tasks"):
        return X, X[:, 0] + y * np.sqrt(np.arange(90.0)) / 3.0
    if kind == "targets":
        return X, np.column_stack([X[:, 0] + 3.0 * y, X[:, 1] - 2.0, y * X[:, 2]])
    if kind == "labels":
        return X, np.column_stack([y > 0, X[:, 1] > 0.3, y * X[:, 2] > 0.0])
    if kind == "numbers":
        return X[:10] + 0.1, y[:10] * 1.5
    labels = np.arange(90) % 3 if kind.endswith("classes") or kind == "in memory" else y
    return X.astype(np.float32 if kind.startswith("float32") else float), labels


def identifier(way):
    name, kind, options = way
    return " ".join([name, kind, *(f"{key}={value}" for key, value in options.items())])


every_way = pytest.mark.parametrize("way", WAYS, ids=map(identifier, WAYS))


PHASES = dict(driver.PHASES)


@pytest.fixture
def trained(monkeypatch):
    """Train a way, perhaps with another loop around its steps; with the result come what ran and what was read.

    blocks: their number or bounds, 0 for rows in memory.
    """

    def train(way, form, loop=None, data=None, blocks=None, sample_weight=None):
        ran, sweeps = [], []

        def looped(training, between):
            run = training.run
            ran.append(run)
            phase = PHASES[CERTIFICATE]
            counted = replace(phase, begin=lambda run: (sweeps.append(1), phase.begin(run)))
            monkeypatch.setitem(driver.PHASES, CERTIFICATE, counted)
            with np.errstate(all="ignore"):
                return (loop or to_the_end)(run).outcome()

        name, kind, options = way
        X, y = data_of(kind)
        if isinstance(options.get("C"), list):
            options = {**options, "valid": (as_form(X, form, X.dtype)[::3], y[::3])}
        X, y = (X, y) if data is None else data
        if kind == "tasks":
            options = {**options, "tasks": np.argmax(np.abs(X[:, :3]), axis=1)}  # of a row, whatever its size
        blocks = blocks if blocks is not None else 0 if kind.endswith("in memory") else 5
        bounds = np.linspace(0, len(y), blocks + 1).astype(int) if isinstance(blocks, int) else blocks
        rows = as_form(X, form, X.dtype)
        in_memory = ArraySource(rows, y, sample_weight)
        source = in_memory if blocks == 0 else CountingSource(rows, y, bounds, sample_weight)
        if kind == "large":
            monkeypatch.setattr("streammargin.solvers.margin.small_problem.LIMIT", 100)
        if kind == "wide classes":  # for a Hessian, with room for some of the rows
            for number, value in {
                "WIDE_HESSIAN_COLUMNS": 0,
                "LEAST_DRAWN_ROWS": 0,
                "sample_bytes": lambda problem: 15_000,
            }.items():
                monkeypatch.setattr(sampled, number, value)
        if kind.startswith("few columns"):  # in the Hessian of a read
            monkeypatch.setattr("streammargin.solvers.newton.curved_columns.FREE_CURVED_WORK", (0.3, 0.3))
        if kind == "in memory":  # and steps on columns are hard at once
            monkeypatch.setattr("streammargin.solvers.columns.working_set.EASY", -1)
        monkeypatch.setattr("streammargin.training.rows.run", looped)
        result = sm.train(source, solver=name, passes=7, tol=1e-9, seed=4, **{"bias": 1.0, **options})
        result.ran, result.source, result.sweeps = ran[0], source, len(sweeps)
        return result

    return train


def steps(run):
    """The run after every step."""
    while run.progress.phase != DONE:
        run.advance(run.met())
        yield run


def to_the_end(run):
    for _ in steps(run):
        pass
    return run


def check_fields(problem, solver, state):
    """Every array has the shape and type that its field declares, and every number its kind."""
    dtype = solver.dtype(problem)
    again = roles.new(type(state), problem, dtype, labels=state.labels)
    roles.load(again, problem, dtype, roles.save(state))


@every_way
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_the_state_is_what_was_declared_and_takes_the_memory_that_was_counted(trained, way, form):
    def watched(run):
        for _ in steps(run):
            state = run.state
            check_fields(run.problem, run.solver, state)
            arrays = list(roles.save(state).arrays.values())
            kept = [piece for _, cache in roles.rows_kept(state) for piece in cache.pieces.values()]
            assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
            taken = sum(array.nbytes for array in arrays)
            taken += sum(piece.ids.nbytes + values_of(piece.rows).nbytes for piece in kept)
            assert taken <= run.method.memory(run.problem)
        return run

    trained(way, form, watched)


def through_bytes(plain, arrays):
    """What comes back from a file."""
    file = io.BytesIO()
    np.savez(file, **{f"a{i}": array for i, array in enumerate(arrays.values())})
    file.seek(0)
    saved = np.load(file, allow_pickle=False)
    return json.loads(json.dumps(plain)), {name: saved[f"a{i}"] for i, name in enumerate(arrays)}


def bits(result):
    """Weights, figures and events, but for the time they took and what the source is."""
    return stopped.bits(result, "data")


@pytest.fixture
def small_units(monkeypatch):
    """What takes half a second else is many units."""
    for module in (base, coupled, descent, from_weights, row_store):
        monkeypatch.setattr(module, "UNIT", 3e3)
    for module in (held, truncated):  # products with the rows, of which a step takes many
        monkeypatch.setattr(module, "UNIT", 3e5)


@every_way
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_a_training_that_is_saved_and_loaded_after_every_unit_ends_in_the_same_bits(trained, way, form, small_units):
    """In fresh objects each time, so that nothing can lie anywhere else."""
    phases = []
    again = trained(way, form, lambda run: saved_and_loaded(run, fresh, phases))
    assert bits(again) == bits(trained(way, form))
    assert len(set(phases)) > 1


def saved_and_loaded(run, anew, phases=None):
    """The run at its end, which is saved after every unit, and goes on in another one; phases: those that it was in."""
    while run.progress.phase != DONE:
        run.advance(run.met())
        saved = through_bytes(*snapshot.save(run))
        if phases is not None:
            phases.append(run.progress.phase)
        run.stop_reading()
        run = anew(run)
        snapshot.restore(run, *saved)
    return run


@every_way
@pytest.mark.parametrize("reason", ["signal", slow("seconds")])
def test_a_training_may_end_after_any_unit(trained, way, reason, small_units):
    """What is proven then is true: it agrees with all that was proven before, and is of the weights that are left."""
    units = []
    whole = trained(way, "dense", lambda run: [units.append(1) for _ in steps(run)] and run)
    for number in sorted({0, 1, 2, *np.linspace(3, len(units) - 1, 9).astype(int).tolist()}):

        def ended(run, number=number):
            made = 0
            while run.progress.phase != DONE:
                run.advance(run.met() if made != number else reason)
                made += 1
            return run

        result = trained(way, "dense", ended)
        assert np.isfinite(result.model.coef_).all() and result.reason
        assert_they_agree([whole, result])


def fresh(run):
    """A run that has not begun, of the same problem and plan."""
    run.history.restore({"events": [], "stride": 1, "seen": 0})
    scaling, reader, source = run.steps.get(SCALING), run.reader, run.reader.source
    steps = {}
    if scaling is not None:
        center, factor = scaling.center, scaling.factor  # that the model and held-out rows are made with
        center[:], factor[:] = 0.0, 1.0
        scaling = Scaling(scaling.source, scaling.kind, scaling.reader.labels, 1 << 30)
        scaling.center, scaling.factor = center, factor
        source, steps = scaling.taken(scaling.source), {SCALING: scaling}
    reader = BlockReader(source, reader.bounds, reader.buffer_count, labels=reader.labels)
    shared = replace(run.shared, reader=reader, steps=steps, should_stop=None)
    return driver.Run(shared, run.problem, run.costs, run.method)


class Apart(Holders):
    """Numbers of rows are arrays of their own, as workers of a cluster are sent them, and come back afterwards."""

    def parts(self, visits, number):
        return [roles.with_rows(part, {path: rows.copy() for path, rows in roles.rows_of(part).items()})
                for part in super().parts(visits, number)]  # fmt: skip

    def visit(self, problem, visits, order):
        for number, (count, parts) in zip(order.tolist(), super().visit(problem, visits, order), strict=True):
            for (_, state), part in zip(visits, parts, strict=True):
                changed = roles.rows_of(part)
                for path, rows in roles.rows_of(state, *self.bounds[number : number + 2].tolist()).items():
                    rows[...] = changed[path]
            yield count, parts


def in_three(run):
    """A run that has not begun, of the same problem, whose rows are in three places."""

    def split(reader):
        rows = int(reader.bounds[-1])
        ends = [0, rows // 4, rows // 4 + 1, rows]
        inner = [range(first, stop, max(1, (stop - first) // 2)) for first, stop in pairwise(ends)]
        bounds = np.array([*(start for some in inner for start in some), rows])
        own = BlockReader(reader.source, bounds, reader.buffer_count, labels=reader.labels)
        own.counts = reader.counts
        return Apart(own, np.searchsorted(bounds, ends))

    readers = [
        run.reader,
        *(step.reader for step in run.steps.values()),
        *([run.validator.reader] if run.validator else []),
    ]
    shared = replace(run.shared, holders={reader: split(reader) for reader in readers})
    problem = replace(run.problem, holders=3, resident=False)
    run.method.check(problem)
    return driver.Run(shared, problem, run.costs, run.method)


ONE_PLACE = ("sdca", "asdca", "mirror", "perceptron", "pegasos", "adaptive", "active-set")


def in_one_place(method, options):
    """Whether docs/states.md says that this method needs all rows in one place."""
    other = method.called == "ascent" and options.get("penalty", "l2") != "l2"
    return method.called in ONE_PLACE or getattr(method, "stochastic", False) or other


@every_way
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_three_holders_of_rows_have_the_figures_of_one(trained, way, form):
    """Of methods that add up over rows; the others say why they need all rows in one place."""
    one = trained(way, form)
    problem, method = replace(one.ran.problem, holders=3, resident=False), one.ran.method
    if in_one_place(method, way[2]):
        with pytest.raises(sm.errors.Refusal, match=f"{method.whole}|on several machines ascent takes"):
            method.check(problem)
        return
    three = trained(way, form, lambda run: to_the_end(in_three(run)))
    assert bits(
        trained(way, form, lambda run: saved_and_loaded(in_three(run), lambda run: in_three(fresh(run))))
    ) == bits(three)
    assert assert_they_agree([one, three])
    if one.ran.problem.resident:
        one = trained(way, form, blocks=2)  # in memory pdprox steps on columns first, and prox-newton moves centres
    if way[0] != "newton" and method.route(problem)[0] == method.route(one.ran.problem)[0]:
        assert figures(three) == pytest.approx(figures(one), rel=1e-6)


# the plan says in which order these visit rows, and so which way they go; the others make their steps between passes
ROW_BY_ROW = ("ascent", "sdca", "asdca", "mirror", "perceptron", "pegasos", "adaptive")


def goes_one_way(way):
    return way[0].partition(":")[0] not in ROW_BY_ROW and "stochastic" not in way[0]


def assert_one_way(results):
    first, *others = (weights_of(result) for result in results)
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-6, atol=1e-9 * np.abs(first).max())


def weights_of(result):
    """Weights and constants; of a hard margin the direction alone: rounding decides which length of it was best."""
    w = np.column_stack([result.model.coef_, result.model.intercept_])
    return w / (np.linalg.norm(w) or 1.0) if result.ran.problem.hard else w


def assert_they_agree(results):
    """No certificate of one training, of the same rows, C and class, lies beyond the bounds of another."""
    proven = {}
    for result in results:
        certificates = [event for event in result.history if event["event"] == "certificate"]
        for number, event in enumerate(certificates):
            for k, figures in enumerate(event["per_class"]):
                proven.setdefault((number % result.ran.problem.trials, k), []).append(figures)
    for found in proven.values():
        lower = max(figures["margin_lower"] for figures in found) if found[0]["margin_lower"] is not None else 0.0
        if lower > 0.0:
            assert lower <= min(figures["margin_upper"] for figures in found) * (1 + 1e-9)
        if found[0]["residual"] is None:
            assert max(figures["dual"] for figures in found) <= min(figures["primal"] for figures in found) * (1 + 1e-9)
    return len(proven)


@every_way
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_the_plan_changes_no_proof_and_no_more_reads(trained, way, form):
    """Nor the way of a method that steps between passes, but for the order of its sums."""
    n = len(data_of(way[1])[1])
    results = [trained(way, form, blocks=blocks) for blocks in (2, 5, (0, 1, n // 3, n // 3 + 1, n), 0)]
    assert assert_they_agree(results)
    if goes_one_way(way):
        # on rows in memory newton begins with sdca, prox-newton moves centres, and the weights of pdprox on columns
        assert_one_way(results[:3] if way[0] in ("newton", "prox-newton", "pdprox") else results)
    for result in results[:3]:
        run, solver = result.ran, result.ran.solver
        if not result.sweeps:  # a read proves its own weights
            kinds = [event["event"] for event in result.history]
            # the first pass takes one, to start from; but for steps on a sample, and of prox-newton, as for numbers
            sample = way[:2] != ("newton", "wide classes") and way[0] == "newton"
            sample = sample and not (run.problem.resident or run.problem.numeric)
            assert kinds.count("certificate") == (result.passes - sample) * run.problem.trials
        if way[0].startswith("adaptive"):
            continue  # it chooses the blocks of a pass
        beside = len(run.steps) + run.shared.midway
        reads = solver.prologue_passes(run.problem) + result.passes + result.sweeps + beside
        counts = [result.source.reads[block] for block in sorted(result.source.reads)]
        # and at last from the first block on, until each class was predicted often
        if run.problem.per_trial > 1 or result.run_end["never_predicted"] or result.run_end["rarely_predicted"]:
            counts = [count - (count == reads + 1 and set(counts[:i]) <= {count}) for i, count in enumerate(counts)]
        assert set(counts) == {reads}


def figures(result):
    """What was proven, as numbers."""
    known = vars(result.certificate)
    return {name: known[name] for name in ("primal", "dual", "margin_lower", "margin_upper") if known[name] is not None}


@every_way
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_threads_change_no_bit_and_leaves_no_figure(trained, way, form, monkeypatch):
    """Blocks are split into leaves whatever the number of threads; sums over leaves are those over blocks."""
    name, kind, options = way
    whole = trained(way, form)
    monkeypatch.setattr(leaves, "LEAF_BYTES", 64)
    monkeypatch.setattr(leaves, "MERGED", 1)
    split, bounds = [], leaves.bounds
    monkeypatch.setattr(leaves, "bounds", lambda *given: split.append(bounds(*given)) or split[-1])
    one, *more = (trained((name, kind, {**options, "threads": threads}), form) for threads in (1, 2, 3))
    few = kind == "numbers"  # rows: blocks stay whole
    assert few or max((len(ends) for ends in split), default=3) > 2
    for other in more:
        assert bits(one) == bits(other)
    assert few or one.ran.problem.copies > 1
    assert one.ran.problem.workers._pool is None  # its threads have ended
    assert figures(one) == pytest.approx(figures(whole), rel=1e-6)


@every_way
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_a_row_of_weight_0_may_be_any_and_is_absent(trained, way, form):
    """Other weights mean nothing to a hard margin, nor to interpolation."""
    X, y = data_of(way[1])
    present = np.arange(len(y)) % 4 != 1
    weights = np.where(present, 1.0 + np.arange(len(y)) % 3, 0.0)
    other, labels = X.copy(), y.copy()
    other[~present] *= -100
    labels[~present] = y[0]
    given = trained(way, form, sample_weight=weights)
    assert bits(trained(way, form, data=(other, labels), sample_weight=weights)) == bits(given)
    costs = None if given.ran.problem.objective.infeasible or way[1] == "numbers" else weights[present]
    left = trained(way, form, data=(X[present], y[present]), sample_weight=costs)
    assert assert_they_agree([given, left])
    if goes_one_way(way) and way[1] != "wide classes":  # whose sample depends on the numbers of rows
        assert_one_way([given, left])
