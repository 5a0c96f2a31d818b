"""A signal or the clock ends a training between two units of any phase, not only between blocks."""

import numpy as np
import pytest
from reference.datasets import noisy
from reference.sources import CountingSource
from reference.stopped import bits

import streammargin as sm
from streammargin.driver.status import clock
from streammargin.reading import plan
from streammargin.solvers.cache import rows as row_store
from streammargin.solvers.columns import gathered_steps
from streammargin.solvers.columns import working_set as column_steps
from streammargin.solvers.margin import small_problem
from streammargin.solvers.newton import model, near_margin, steps
from streammargin.solvers.newton import sample as sample_start
from streammargin.sources.arrays import ArraySource

CLASSES = 6


def classes(n=900, d=8):
    random = np.random.default_rng(4)
    X = random.standard_normal((n, d))
    return X, np.argmax(X[:, :CLASSES] + 0.7 * random.standard_normal((n, CLASSES)), axis=1)


def counted(monkeypatch, module, name, after=lambda: None):
    """The calls of a function, which takes its time: `after` is called with each."""
    calls, own = [], getattr(module, name)

    def call(*given, **named):
        calls.append(1)
        after()
        return own(*given, **named)

    monkeypatch.setattr(module, name, call)
    return calls


@pytest.fixture
def small_plans(monkeypatch):
    monkeypatch.setattr(plan, "SLACK_BYTES", 0)
    monkeypatch.setattr(plan, "LEAST_BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr("streammargin.solvers.cache.rows.BUFFERS", 0)
    monkeypatch.setattr(gathered_steps, "UNIT", 0.0)


# the work of one class, and a training that makes it for one class after the other
WORK = [
    (near_margin, "solve", {"loss": "hinge", "solver": "newton"}, 30),
    (sample_start, "solve", {"loss": "hinge", "solver": "newton"}, 0),
    (steps, "solve", {"loss": "hinge", "solver": "newton", "tol": 1e-9}, 0),
    (model, "minimise_quadratic", {"loss": "hinge", "solver": "prox-newton", "penalty": "l1"}, 0),
    (model, "minimise_quadratic", {"loss": "hinge", "solver": "prox-newton", "penalty": "l1"}, 10),
    (small_problem.kernel, "nearest_point", {"solver": "active-set", "C": np.inf}, 10),
    (column_steps, "minimise", {"loss": "hinge", "solver": "pdprox", "penalty": "l1"}, 0),
    (gathered_steps, "over", {"loss": "logistic", "solver": "pdprox", "penalty": "l21", "tol": 1e-9}, 0),
]
of_each = pytest.mark.parametrize(
    "module, name, options, blocks", WORK, ids=[f"{m.__name__.rpartition('.')[2]}-{b}" for m, _, _, b in WORK]
)


def rows_for(blocks, options):
    X, y = classes()
    if not blocks:
        return (X, y), {}
    tight = {"memory": int(0.5 * X.nbytes) + 200 * len(y)} if options["solver"] == "newton" else {}
    return CountingSource(X, y, np.linspace(0, len(y), blocks + 1).astype(int)), tight


@of_each
def test_a_signal_is_heard_between_the_work_of_two_classes(module, name, options, blocks, monkeypatch, small_plans):
    calls = counted(monkeypatch, module, name)
    data, memory = rows_for(blocks, options)
    result = sm.train(data, **options, **memory, should_stop=lambda: "signal" if len(calls) >= 2 else None)
    assert result.reason == "signal" and len(calls) == 2
    assert np.isfinite(result.model.coef_).all() and result.model.coef_.shape[0] == CLASSES


@of_each
def test_so_is_the_clock(module, name, options, blocks, monkeypatch, small_plans):
    now = [0.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    calls = counted(monkeypatch, module, name, lambda: now.__setitem__(0, now[0] + 100.0))
    data, memory = rows_for(blocks, options)
    result = sm.train(data, **options, **memory, max_seconds=150)
    assert result.reason == "seconds" and len(calls) == 2


@pytest.mark.parametrize("blocks", [0, 10])
def test_steps_on_gathered_columns_are_made_in_units(blocks, monkeypatch, small_plans):
    """A signal or the clock waits for some rows; how long a unit is changes no bit."""
    data, options = rows_for(blocks, {"solver": "pdprox"})[0], {"loss": "logistic", "solver": "pdprox", "tol": 1e-6}
    calls = counted(monkeypatch, gathered_steps, "over")
    cut = sm.train(data, **options, penalty="l21")
    units = len(calls)
    monkeypatch.setattr(gathered_steps, "UNIT", 1e9)
    whole = sm.train(data, **options, penalty="l21")
    assert whole.converged and units > 5 * (len(calls) - units)
    assert bits(cut)[0] == bits(whole)[0]
    monkeypatch.setattr(gathered_steps, "UNIT", 0.0)
    calls.clear()
    result = sm.train(data, **options, penalty="l21", should_stop=lambda: "signal" if len(calls) >= 2 else None)
    assert result.reason == "signal" and len(calls) == 2


@pytest.mark.parametrize("options", [{}, {"scale": "std"}, {"solver": "pdprox"}, {"solver": "gd", "C": np.inf}])
def test_the_time_may_be_up_before_any_pass(options):
    result = sm.train(classes(), max_seconds=1e-9, **options)
    assert (result.reason, result.passes, result.converged) == ("seconds", 0, False)
    assert not result.model.coef_.any() and result.certificate.gap is None
    assert set(result.model.predict(classes()[0])) <= set(range(CLASSES))


def looked_at(number, of):
    """Stop once this many reads of a source were made."""
    return lambda: "signal" if sum(of.reads.values()) >= number else None


def test_a_signal_ends_the_read_of_held_out_errors():
    X, y = classes()
    valid = CountingSource(X, y, np.linspace(0, len(y), 31).astype(int))
    heard = []
    result = sm.train((X, y), tol=1e-9, valid=valid, should_stop=looked_at(3, valid), listeners=[heard.append])
    assert result.reason == "signal" and sum(valid.reads.values()) < 12  # some are read ahead
    assert result.certificate.gap is not None and result.certificate.valid_error is None  # what was proven stays
    assert [event for event in heard if event["event"] == "certificate"][-1]["valid_error"] is None
    assert "held-out errors" in {event.get("phase") for event in heard}


def test_a_signal_ends_the_look_for_classes_that_are_never_predicted():
    X, _ = noisy(600)
    y = np.where(np.arange(600) % 50 == 0, np.arange(600) // 50 % 3 + 1, 0)  # rare ones
    source = CountingSource(X, y, np.linspace(0, 600, 31).astype(int))
    heard, options = [], {"C": 0.01, "solver": "sdca"}
    whole = sm.train(source, **options, listeners=[heard.append])
    assert whole.run_end["never_predicted"] and whole.converged
    assert "predictions" in {event.get("phase") for event in heard}
    reads = sum(source.reads.values())
    source = CountingSource(X, y, np.linspace(0, 600, 31).astype(int))
    result = sm.train(source, **options, should_stop=looked_at(reads - 20, source))
    assert sum(source.reads.values()) < reads
    # all but this look was done
    assert result.run_end["never_predicted"] is None and result.reason == whole.reason and result.converged
    np.testing.assert_array_equal(result.model.coef_, whole.model.coef_)


def test_a_training_stopped_in_that_look_goes_on_with_a_smaller_tolerance(tmp_path):
    X, _ = noisy(600)
    y = np.where(np.arange(600) % 50 == 0, np.arange(600) // 50 % 3 + 1, 0)
    heard, options = [], {"C": 0.03, "solver": "sdca", "checkpoint": str(tmp_path)}

    def stop():
        return "signal" if heard and heard[-1].get("phase") == "predictions" else None

    source = CountingSource(X, y, np.linspace(0, 600, 31).astype(int))
    first = sm.train(source, tol=0.5, should_stop=stop, listeners=[heard.append], **options)
    assert first.converged and first.run_end["never_predicted"] is None
    slots = sorted(tmp_path.glob("slot-*"), key=lambda path: path.stat().st_mtime_ns)
    slots[-1].unlink()  # as if it was killed then: the slot of the signal is left
    source = CountingSource(X, y, np.linspace(0, 600, 31).astype(int))
    then = sm.train(source, tol=1e-6, **options)
    assert then.converged and then.passes > first.passes and then.certificate.gap <= 1e-6


def test_a_block_out_of_core_is_smaller_where_each_class_visits_it(monkeypatch, small_plans):
    monkeypatch.setattr(plan, "ALL_CLASSES", CLASSES * plan.LEAST_BLOCK_BYTES)
    monkeypatch.setattr(CountingSource, "bounds", ArraySource.bounds)
    X, y = classes()
    rows = [
        sm.train(CountingSource(X, labels, []), solver="sdca", passes=1, memory=20 * X.nbytes)
        .history[0]["plan"]["block_rows"]
        for labels in (y, y > 2)
    ]  # fmt: skip
    assert [X.itemsize * X.shape[1] * size for size in rows] == [plan.LEAST_BLOCK_BYTES, plan.ALL_CLASSES]


def test_rows_in_memory_are_visited_by_as_many_as_make_a_unit(monkeypatch):
    """A visit of all rows for all classes may take long, and is one of some of them at a time."""
    from streammargin.solvers.coordinate import from_weights

    data, looks = classes(), []
    alone = sm.train(data, loss="hinge", solver="sdca", passes=3, tol=0.0, should_stop=lambda: looks.append(1))
    for module in (from_weights, row_store):
        monkeypatch.setattr(module, "UNIT", 1e4)
    few = len(looks)
    cut = sm.train(data, loss="hinge", solver="sdca", passes=3, tol=0.0, should_stop=lambda: looks.append(1))
    assert len(looks) - few > few + 20
    assert cut.certificate.dual <= alone.certificate.primal and alone.certificate.dual <= cut.certificate.primal


def test_the_work_after_a_pass_is_no_read_that_has_to_fit_in_at_the_end(monkeypatch, small_plans):
    now = [0.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    calls = counted(monkeypatch, near_margin, "solve", lambda: now.__setitem__(0, now[0] + 100.0))
    data, memory = rows_for(30, {"solver": "newton"})
    result = sm.train(data, loss="hinge", solver="newton", tol=1e-9, max_seconds=1000, **memory)
    assert result.reason == "seconds" and len(calls) == 10 and result.certificate.gap is not None
