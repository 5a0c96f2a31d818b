"""Sparse weights if few columns fit into memory: fewer reads, the same optimum, the same bits after a stop."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import slow, write_h5
from reference.datasets import as_form
from reference.stopped import until_done

import streammargin as sm
from streammargin.api import train_by
from streammargin.driver.loop import run as driver
from streammargin.driver.loop.holders import Holders
from streammargin.options.table import Options
from streammargin.reading import plan
from streammargin.reading.prefetch import BlockReader
from streammargin.solvers.cache.columns import ColumnCache
from streammargin.solvers.columns import kept_columns, working_set
from streammargin.solvers.columns.kept_columns import KeptState, Sent
from streammargin.training import rows as in_rows

ROWS, FEATURES, EACH = 2500, 1200, 60
OPTIONS = {"solver": "pdprox", "penalty": "l1", "C": 0.05, "tol": 1e-2, "bias": 0.0}
MEMORY = 1_150_000


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Rows of 60 words of 1,200, some of them frequent and most of them rare."""
    rng = np.random.default_rng(0)
    X = np.zeros((ROWS, FEATURES), np.float32)
    words = (20 * (1 + FEATURES / 20) ** rng.random((ROWS, EACH)) - 20).astype(int)
    np.put_along_axis(X, words, rng.uniform(0.5, 1.0, words.shape).astype(np.float32), axis=1)
    y = np.where(X @ (rng.standard_normal(FEATURES) * (np.arange(FEATURES) % 16 == 5)) > 0.0, 1, -1)
    y[rng.random(ROWS) < 0.05] *= -1
    path = tmp_path_factory.mktemp("text") / "text.h5"
    write_h5(path, as_form(X, "csr", np.float32), y)
    return str(path), (as_form(X, "csr", np.float32), y)


@pytest.fixture(autouse=True)
def small_plans(monkeypatch):
    monkeypatch.setattr(plan, "SLACK_BYTES", 0)
    monkeypatch.setattr(plan, "LEAST_BLOCK_BYTES", 1 << 15)
    monkeypatch.setattr("streammargin.solvers.cache.rows.BUFFERS", 1 << 15)


class Three(Holders):
    """Three holders of as many rows each."""

    def __init__(self, reader):
        own = BlockReader(reader.source, np.linspace(0, ROWS, 4).astype(np.int64), 2, labels=reader.labels)
        own.counts = reader.counts
        super().__init__(own, np.arange(4))


def in_three_places(path, listeners=(), should_stop=None, **options):
    return train_by(path, Options.of(options), listeners, should_stop, Three)


def stopped_and_resumed(path, folder, blocks=40, **options):
    """The result of a training that is stopped each time after this many blocks."""
    result, starts = until_done(partial(sm.train, path, checkpoint=folder, **options), blocks)
    assert starts > 2
    return result


def test_columns_between_reads_take_fewer_of_them_and_go_on_after_a_stop(text, tmp_path, monkeypatch):
    path, _ = text
    kept = sm.train(path, **OPTIONS, memory=MEMORY)
    assert kept.converged and kept.history[0]["plan"]["blocks"] > 10
    resumed = stopped_and_resumed(path, str(tmp_path / "stopped"), **OPTIONS, memory=MEMORY)
    assert resumed.model.coef_.tobytes() == kept.model.coef_.tobytes()
    assert resumed.certificate == kept.certificate
    monkeypatch.setattr(kept_columns, "LEAST_KEPT_SHARE", 1.0)  # no room is large enough
    without = sm.train(path, **OPTIONS, memory=MEMORY)
    passes = [result.history[-1]["passes"] for result in (kept, without)]
    assert passes[0] <= 20 and passes[1] > 2 * passes[0]


def test_columns_in_memory_are_gathered_again_after_a_stop(text, tmp_path):
    path, _ = text
    whole = sm.train(path, **OPTIONS)
    assert whole.converged and whole.history[0]["plan"]["blocks"] == 1 and whole.passes > 3
    resumed = stopped_and_resumed(path, str(tmp_path / "stopped"), 2, **OPTIONS)
    assert resumed.model.coef_.tobytes() == whole.model.coef_.tobytes()
    assert resumed.certificate == whole.certificate


@pytest.mark.parametrize(
    "options",
    [
        {"bias": 1.0},
        {"penalty": sm.penalties.Group(np.arange(FEATURES) // 4), "C": 0.2},
        {"loss": "logistic", "penalty": "elasticnet:0.9"},
        slow({"C": 2.0, "tol": 0.3}),  # more columns matter than fit, and it goes on without
    ],
)
def test_the_optimum_is_that_of_steps_in_memory(text, options):
    path, rows = text
    options = {**OPTIONS, **options}
    kept = sm.train(path, **options, memory=MEMORY)
    inside = sm.train(*rows, **options)
    assert kept.converged and inside.converged
    found, best = kept.certificate, inside.certificate
    assert max(found.dual, best.dual) <= min(found.primal, best.primal)


def test_arrays_of_a_damaged_checkpoint_are_refused():
    problem = SimpleNamespace(rows=3, features=2, count=1, dtype=np.dtype(np.float32))
    whole = {
        "sizes": np.array([2, 0, 3, 0]), "chosen": np.array([True, False, True]), "others": np.zeros((1, 3)),
        "ends": np.array([1, 4, 5]), "rows": np.array([0, 0, 0, 1, 0, 0], np.int32), "values": np.zeros(6, np.float32),
    }  # fmt: skip

    def fits(arrays):
        lists = {name: [array] for name, array in arrays.items() if name != "others"}
        kept = KeptState(columns=ColumnCache(**lists), others=arrays["others"], off=np.ones(1))
        return kept_columns.fits(problem, kept)

    assert fits(whole)
    for name, wrong in [
        ("sizes", whole["sizes"] + 1), ("sizes", -whole["sizes"]), ("sizes", 0 * whole["sizes"]),
        ("chosen", whole["chosen"][:2]), ("chosen", ~whole["chosen"]),
        ("chosen", np.empty(0, bool)), ("others", np.zeros((1, 2))), ("others", np.zeros((1, 0))),
        ("ends", np.array([3, 4, 5])), ("ends", np.array([1, 1, 5])), ("ends", np.zeros(2, np.int64)),
        ("ends", np.empty(0, np.int64)), ("rows", whole["rows"] + 2), ("rows", whole["rows"] - 1),
        ("values", whole["values"][:5]),
    ]:  # fmt: skip
        assert not fits(whole | {name: wrong}), (name, wrong)


def test_columns_of_a_damaged_checkpoint_that_were_sent_are_refused():
    problem, whole = SimpleNamespace(features=4), {"sizes": [2, 0, 1], "columns": [0, 3, 1]}

    def fits(sizes, columns):
        sizes, columns = np.array(sizes), np.array(columns, np.int32)
        return kept_columns.sent_fits(problem, Sent(values=np.ones(3, np.float32), columns=columns, sizes=sizes), 3)

    assert fits(**whole)
    for name, wrong in [
        ("sizes", [2, 1]), ("sizes", [2, 0, 2]), ("sizes", [4, -2, 1]), ("columns", [0, 3]), ("columns", [0, 4, 1]),
        ("columns", [-1, 3, 1]),
    ]:  # fmt: skip
        assert not fits(**whole | {name: wrong}), (name, wrong)


@pytest.mark.parametrize("options", [{}, {"loss": "logistic", "bias": 1.0, "C": 0.2}], ids=["hinge", "logistic"])
def test_columns_of_rows_in_several_places_are_worked_on_in_one(text, options, tmp_path):
    path, _ = text
    options = {**OPTIONS, **options, "tol": 1e-3}
    alone, three = sm.train(path, **options), in_three_places(path, **options)
    assert alone.converged and three.converged and three.passes <= alone.passes + 3
    assert max(alone.certificate.dual, three.certificate.dual) <= min(
        alone.certificate.primal, three.certificate.primal
    )
    passes, folder = [], str(tmp_path / "stopped")
    first = in_three_places(
        path, [lambda event: passes.extend([event] * (event["event"] == "pass_end"))],
        lambda: "signal" if len(passes) == 3 else None, **options, checkpoint=folder,
    )  # fmt: skip
    rest = in_three_places(path, checkpoint=folder, **options)
    assert first.resumable and rest.model.coef_.tobytes() == three.model.coef_.tobytes()
    assert rest.certificate == three.certificate


@pytest.fixture
def states(monkeypatch):
    """After each pass of a run: its stage, the class of its state, and which problems move on columns."""
    found, run = [], in_rows.run

    def watched(training, *given):
        phase = driver.PHASES["pass"]

        def ended(course):
            stage, share = course.progress.stage, phase.end(course)
            if share is None:
                sigma = getattr(course.state, "sigma", np.zeros(course.problem.count))
                found.append((stage, type(course.state).__name__, (sigma > 0.0).tolist()))
            return share

        monkeypatch.setitem(driver.PHASES, "pass", replace(phase, end=ended))
        return run(training, *given)

    monkeypatch.setattr(in_rows, "run", watched)
    return found


def test_the_driver_changes_over_once_no_problem_moves_on_columns(text, states):
    sm.train(text[0], **{**OPTIONS, "C": 2.0, "tol": 1e-3}, memory=MEMORY, passes=20)
    stages = [stage for stage, *_ in states]
    assert stages == sorted(stages) and set(stages) == {"columns", "steps"}
    assert {kind for stage, kind, _ in states if stage == "steps"} == {"Restarted"}
    states.clear()
    sm.train(text[0], **OPTIONS)
    assert {stage for stage, *_ in states} == {"columns"}
    for options in ({"penalty": "l2norm"}, {"loss": "hinge:top=100"}):
        states.clear()
        sm.train(text[0], **{**OPTIONS, **options}, passes=3)
        assert {stage for stage, *_ in states} == {"steps"}
    states.clear()
    sm.train(text[0], **{**OPTIONS, "solver": "pdprox:dual"}, passes=3)
    assert {stage for stage, *_ in states} == {"paper"}


def test_a_problem_that_leaves_its_columns_takes_no_other_along(text, tmp_path, states):
    """Of two values of C the smaller one keeps its columns, while the larger one continues without them."""
    path, (X, y) = text
    options = {**OPTIONS, "C": [0.02, 2.0], "tol": 1e-3, "valid": (X[:100], y[:100]), "memory": 1_600_000, "passes": 12}
    whole = sm.train(path, **options)
    moving = [on for stage, _, on in states if stage == "columns"]
    assert [True, True] in moving and moving[-1] == [True, False] and len(moving) == whole.passes
    resumed = stopped_and_resumed(path, str(tmp_path / "stopped"), **options)
    assert resumed.model.coef_.tobytes() == whole.model.coef_.tobytes()


def test_steps_end_at_no_more_than_a_share_of_the_primal_while_duals_prove_nothing(text, monkeypatch):
    seen, settle = [], working_set.settle

    def watched(problem, penalty, run, task, chosen, goal):
        seen.append((float(run.best.dual[task.k]), goal / float(run.best.primal[task.k])))
        return settle(problem, penalty, run, task, chosen, goal)

    monkeypatch.setattr(working_set, "settle", watched)
    sm.train(text[0], **OPTIONS | {"loss": "logistic", "penalty": "elasticnet:0.9"}, memory=MEMORY)
    assert seen[0][0] < 0.0 and max(share for _, share in seen) <= kept_columns.GAP_SHARE_AT_HAND
