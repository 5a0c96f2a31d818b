"""Threads: results in order, errors, forks, and how many there are; bits of trainings and predictions."""

import math
import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
import scipy.sparse
from conftest import call, write_h5
from reference.datasets import noisy, separable

import streammargin as sm
from streammargin.cli.main import main
from streammargin.options.table import Options
from streammargin.sizes import parse_size
from streammargin.solvers import leaves, roles
from streammargin.solvers.base import sum_bytes_of
from streammargin.solvers.newton import subproblem
from streammargin.solvers.newton.held import Held
from streammargin.solvers.proof.sums import LookSums
from streammargin.sources.labels import census
from streammargin.training.prepare import prepare
from streammargin.workers import LEAF_BYTES, Workers, _quotas, cores


@pytest.fixture
def small(monkeypatch):
    """Leaves of few rows."""
    monkeypatch.setattr(leaves, "LEAF_BYTES", 64)
    monkeypatch.setattr(leaves, "MERGED", 1)
    monkeypatch.setattr("streammargin.workers.LEAF_BYTES", 64)
    monkeypatch.setattr("streammargin.model.scoring._PIECE_BYTES", 1 << 10)


def test_results_come_in_the_order_of_the_pieces_and_threads_work_at_the_same_time():
    workers, meeting = Workers(3), threading.Barrier(3)

    def work(piece):
        if piece < 3:  # passes once all three threads are here
            meeting.wait(60)
        return piece, threading.get_ident()

    found = list(workers.each(work, range(40)))
    assert [piece for piece, _ in found] == list(range(40))
    assert len({thread for _, thread in found[:3]}) == 3
    workers.close()
    assert list(workers.each(lambda piece: piece + 1, range(3), most=2)) == [1, 2, 3]  # they start again
    workers.close()


def test_no_more_results_than_asked_for_are_there_at_once():
    alive, most = 0, 0

    class Result:
        def __init__(self):
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __del__(self):
            nonlocal alive
            alive -= 1

    for _ in Workers(2).each(lambda piece: Result(), range(30), most=4):
        pass
    assert most <= 8  # four, and four that were handed out


def test_the_first_error_is_that_of_the_first_piece_and_nothing_runs_on():
    ended = []

    def work(piece):
        if piece == 1:
            time.sleep(0.05)
        ended.append(piece)
        if piece in (1, 2):
            raise ValueError(piece)

    with pytest.raises(ValueError, match="1"):
        list(Workers(3).each(work, range(100)))
    count = len(ended)
    time.sleep(0.05)
    assert len(ended) == count < 100


def test_threads_go_on_while_a_result_is_used():
    """A piece further on can end although the first result is still in use; abandoned pieces have ended."""
    workers, later, ended = Workers(2), threading.Event(), []

    def work(piece):
        if piece == 2:
            later.set()
        ended.append(piece)
        return piece

    results = workers.each(work, iter(range(1000)))
    assert next(results) == 0 and later.wait(60)
    results.close()
    count = len(ended)
    time.sleep(0.02)
    assert len(ended) == count <= 4
    workers.close()


def test_workers_are_pickled_without_threads_and_start_anew_after_a_fork():
    workers = Workers(2)
    assert list(workers.each(abs, [-1, 2, -3])) == [1, 2, 3]
    again = pickle.loads(pickle.dumps(workers))
    assert again.threads == 2 and list(again.each(abs, [-4, 5])) == [4, 5]
    code = """
import os, numpy as np, streammargin as sm
from streammargin.workers import Workers
workers = Workers(2)
list(workers.each(abs, range(9)))
child = os.fork()
if child == 0:
    os._exit(0 if list(workers.each(abs, range(9))) == list(range(9)) else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=100).returncode == 0


def test_cores_are_those_that_the_process_may_use(tmp_path, monkeypatch):
    inner = tmp_path / "one" / "two"
    inner.mkdir(parents=True)
    own = tmp_path / "cgroup"
    own.write_text("0::/one/two\n")
    (tmp_path / "one" / "cpu.max").write_text("250000 100000\n")
    (inner / "cpu.max").write_text("max 100000\n")
    assert list(_quotas(tmp_path, own)) == [3.0]  # two cores and a half
    (tmp_path / "one" / "cpu.max").unlink()
    old = tmp_path / "cpu" / "one"
    old.mkdir(parents=True)
    (old / "cpu.cfs_quota_us").write_text("100000\n")
    (old / "cpu.cfs_period_us").write_text("100000\n")
    own.write_text("4:cpu,cpuacct:/one\n0::/\n")
    assert list(_quotas(tmp_path, own)) == [1.0]
    assert list(_quotas(tmp_path / "none", tmp_path / "none")) == []
    assert 1 <= cores() <= os.cpu_count()
    monkeypatch.setattr("streammargin.workers._quotas", lambda: [1.0])
    assert cores() == 1


@pytest.mark.parametrize("threads", [0, -1, 1.5, "two", True, 5000])
def test_other_numbers_of_threads_are_refused(threads):
    with pytest.raises(sm.UsageError, match=r"`?threads`? must be a whole number from 1 to 1024, or all, not"):
        sm.train(noisy(), threads=threads)
    model = sm.train(noisy(), passes=2).model
    with pytest.raises(sm.UsageError, match="threads"):
        model.predict(noisy()[0], threads=threads)


def test_a_training_goes_on_with_another_number_of_threads_in_the_same_bits(small, tmp_path):
    data = noisy(300, 6)
    given = {"solver": "newton", "tol": 1e-9, "C": 3.0}
    whole = sm.train(data, **given)
    for folder, (first, then) in {"a": (1, 3), "b": (2, "all")}.items():
        stops = iter([None] * 5)
        sm.train(
            data, threads=first, checkpoint=tmp_path / folder, should_stop=lambda s=stops: next(s, "signal"), **given
        )
        resumed = sm.train(data, threads=then, checkpoint=tmp_path / folder, **given)
        assert resumed.model.coef_.tobytes() == whole.model.coef_.tobytes()
        assert resumed.certificate == whole.certificate


def test_classes_are_solved_at_once_in_the_same_bits(monkeypatch, tmp_path):
    """Each has steps of its own in memory; a checkpoint between two units goes on with another number of threads."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000, 12))
    y = (X @ rng.standard_normal((12, 5)) + rng.standard_normal((2_000, 5))).argmax(axis=1)
    monkeypatch.setattr(subproblem, "UNIT", 1.0)  # a step each
    together, each = [], Workers.each
    monkeypatch.setattr(
        Workers,
        "each",
        lambda self, work, pieces, *most: (
            found := list(pieces),
            together.append(len(found)),
            each(self, work, found, *most),
        )[2],
    )
    given = {"loss": "hinge", "solver": "newton", "tol": 1e-8}
    one = sm.train((X, y), threads=1, **given)
    assert one.converged and max(together) == 1
    for units in (3, 9):
        stops = iter([None] * units)
        sm.train(
            (X, y), threads=3, checkpoint=tmp_path / f"{units}", should_stop=lambda s=stops: next(s, "signal"), **given
        )
        two = sm.train((X, y), threads=2, checkpoint=tmp_path / f"{units}", **given)
        assert two.model.coef_.tobytes() == one.model.coef_.tobytes()
        assert two.certificate == one.certificate
    assert max(together) == 3


def test_products_of_the_hessian_are_shared_in_the_same_bits(small, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9_000, 150), dtype=np.float32)
    y = X @ rng.standard_normal(150) > 5.0 * rng.standard_normal(9_000)
    shared, visit = [], Held._visit
    monkeypatch.setattr(Held, "_visit", lambda self, *given: shared.append(len(self.parts)) or visit(self, *given))
    one, *more = (sm.train((X, y), solver="newton", loss="logistic", threads=threads) for threads in (1, 2, 3))
    assert one.converged and min(shared) > 2
    for other in more:
        assert other.model.coef_.tobytes() == one.model.coef_.tobytes() and other.certificate == one.certificate


@pytest.mark.parametrize("sparse", [False, True])
def test_values_of_c_are_shared_by_threads_without_copies_of_their_sums(sparse, tmp_path, monkeypatch):
    X, y = noisy(4_000, 70)
    X = scipy.sparse.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0)) if sparse else X
    sm.write_hdf5([(X, y)], tmp_path / "rows.h5")
    monkeypatch.setattr(leaves, "copies", lambda *given: 0)
    sizes, add = set(), LookSums.add
    monkeypatch.setattr(
        LookSums, "add", lambda self, *given, **more: sizes.add(given[2].size) or add(self, *given, **more)
    )
    given = {"solver": "prox-newton", "C": [0.01, 0.1, 1.0, 10.0], "cv": 3, "penalty": "l1", "memory": "24M"}
    one, *more = (sm.train(tmp_path / "rows.h5", threads=threads, **given) for threads in (1, 2, 3))
    assert one.converged and {16, 8, 5} <= sizes
    for other in more:
        assert other.model.coef_.tobytes() == one.model.coef_.tobytes()
        assert other.certificate == one.certificate


@pytest.mark.parametrize("more", [{}, {"scale": "std"}, {"valid": noisy(50, 6)}], ids=str)
def test_the_copies_of_sums_are_taken_off_the_budget_once(small, more, monkeypatch):
    """Scaling and held-out rows make a second plan."""

    def planned():
        with ExitStack() as stack:
            return prepare(stack, noisy(300, 6), Options(solver="newton", **more), math.inf)

    job = planned()
    copied = job.problem.copies * sum_bytes_of(job.method, job.problem)
    monkeypatch.setattr(leaves, "copies", lambda *given: 0)
    whole = planned()
    assert copied > 0 and whole.problem.copies == 0
    assert job.problem.budget == whole.problem.budget - copied
    assert job.plan.memory_bytes == whole.plan.memory_bytes + copied


@pytest.mark.parametrize(("memory", "resident"), [("20M", False), ("60M", True)])
def test_rows_in_memory_leave_room_for_copies_of_large_sums(small, tmp_path, memory, resident):
    """On disk the rest of the budget is for rows that are kept, and copies may take a sixteenth of it."""
    path = tmp_path / "rows.h5"
    sm.write_hdf5([noisy(8_000, 400)], path)
    with ExitStack() as stack:
        job = prepare(stack, path, Options(solver="newton", loss="logistic", memory=memory), math.inf)
        assert job.run_start()["plan"]["most_threads"] == max(1, job.problem.copies)
        least = parse_size(memory) // (leaves.COPIES_BUDGET_PART * sum_bytes_of(job.method, job.problem))
    assert job.problem.resident == resident
    assert job.problem.copies > least if resident else job.problem.copies == 0


@pytest.mark.parametrize("split", [True, False])
def test_the_plan_says_how_many_threads_have_room_for_their_sums(split, tmp_path, monkeypatch, capsys):
    """Of rows that are worth splitting; the others take no copies."""
    if split:
        monkeypatch.setattr(leaves, "LEAF_BYTES", 64)
        monkeypatch.setattr(leaves, "MERGED", 1)
    sm.write_hdf5([noisy(8_000, 400)], tmp_path / "rows.h5")
    given = {"solver": "newton", "loss": "logistic", "memory": "20M", "threads": 3, "passes": 1}
    sm.train(tmp_path / "rows.h5", verbose=True, **given)
    words = [f"--{name}={value}" for name, value in given.items()]
    assert main(["train", str(tmp_path / "rows.h5"), "-o", str(tmp_path / "it.npz"), *words]) == 0
    said = capsys.readouterr().err.count(" MiB planned, with room for sums of 1 of 3 threads\n")
    assert said == (2 if split else 0)


def test_predictions_and_figures_are_those_of_one_thread(small, tmp_path):
    X, y = noisy(500, 8)
    model = sm.train((X, y), loss="logistic", passes=3).model
    alone = model.predict(X), model.decision_function(X), model.predict_proba(X), model.evaluate((X, y))
    several = (
        model.predict(X, threads=3), model.decision_function(X, threads=2), model.predict_proba(X, threads="all"),
        model.evaluate((X, y), threads=3),
    )  # fmt: skip
    for one, other in zip(alone[:3], several[:3], strict=True):
        assert one.tobytes() == other.tobytes()
    assert alone[3] == several[3]


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_that_are_not_finite_are_named_by_predict_and_evaluate(small, threads):
    """Their scores show them, also if the column has no weight; of several errors the first row's is told."""
    X, y = noisy(500, 8)
    X[:, 2] = 0.0
    model = sm.train((X, y), passes=3).model
    assert model.coef_[0, 2] == 0.0
    X[400, 1], X[170, 2], X[90, 0] = math.nan, -math.inf, 1e300
    model.coef_[0, 0] = 1e300
    for call_ in (lambda: model.predict(X, threads=threads), lambda: model.evaluate((X, y), threads=threads)):
        with pytest.raises(sm.DataError, match="the score of row 90 overflows"):
            call_()
    X[90, 0] = 1.0
    for call_ in (lambda: model.predict(X, threads=threads), lambda: model.evaluate((X, y), threads=threads)):
        with pytest.raises(sm.DataError, match="row 170, column 2 is an infinite value"):
            call_()


OTHER_READS = {
    "Moments": {"scale": "std"},
    "Errors": {"valid": noisy(200, 6)},
    "Predicted": {"data": (noisy(300, 6)[0], np.arange(300) % 7)},
    "Midway": {"C": math.inf, "bias": "midway", "data": separable(300, 6)},
}


@pytest.mark.parametrize("sums", OTHER_READS)
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix], ids=["dense", "csr"])
def test_reads_beside_the_passes_are_split_in_the_same_bits(small, sums, form, monkeypatch):
    """The moments of columns, held-out errors, the classes that are predicted, and the bias midway."""
    given = dict(OTHER_READS[sums])
    X, y = given.pop("data", noisy(300, 6))
    if "valid" in given:
        given["valid"] = form(given["valid"][0]), given["valid"][1]
    split, beside = set(), roles.beside
    monkeypatch.setattr(roles, "beside", lambda state, *names: split.add(type(state).__name__) or beside(state, *names))
    one, *more = (sm.train((form(X), y), threads=threads, **given) for threads in (1, 2, 3))
    assert sums in split
    for other in more:
        assert other.model.coef_.tobytes() == one.model.coef_.tobytes()
        assert other.model.intercept_.tobytes() == one.model.intercept_.tobytes()
        assert (
            other.certificate == one.certificate and other.run_end["never_predicted"] == one.run_end["never_predicted"]
        )
    monkeypatch.setattr(leaves, "bounds", lambda problem, block, square: np.array([0, block.rows()]))
    whole = sm.train((form(X), y), **given)
    assert one.model.coef_ == pytest.approx(whole.model.coef_, rel=1e-9)
    assert one.certificate["valid_error"] == whole.certificate["valid_error"]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_labels_are_counted_by_threads_and_the_first_error_is_that_of_the_lowest_row(threads):
    rng = np.random.default_rng(0)
    values = {
        "whole": rng.integers(-3, 4, 900),
        "reals": rng.integers(0, 5, 900) / 2.0,
        "text": rng.choice(["b", "a"], 900),
    }

    def counted(labels, bad=()):
        chunks = np.array_split(labels.astype(object) if bad else labels, 9)
        for row, what in bad:
            chunks[row // 100][row % 100] = what
        return census(iter(chunks), 900, workers=Workers(threads))

    for labels in values.values():
        classes, codes, counts = counted(labels)
        known, inverse, found = np.unique(labels, return_inverse=True, return_counts=True)
        assert classes.tolist() == known.tolist() and classes.dtype == labels.dtype
        assert codes.tolist() == inverse.tolist() and counts.tolist() == found.tolist()
    with pytest.raises(sm.DataError, match="row 150 has no label"):
        counted(values["reals"], [(270, math.inf), (150, None), (310, math.nan)])

    def unreadable():
        yield np.arange(10.0)
        yield np.array([1.0, math.inf])
        raise OSError("after these labels")

    with pytest.raises(sm.DataError, match="the label of row 11 is infinite"):
        census(unreadable(), 100, workers=Workers(threads))


def test_pieces_of_a_piece_are_done_by_its_thread():
    workers = Workers(2)

    def work(piece):
        return {threading.get_ident()} == set(workers.each(lambda part: threading.get_ident(), range(5)))

    assert list(workers.each(work, range(20))) == [True] * 20
    workers.close()


def test_the_commands_take_threads_and_write_the_same_files(tmp_path):
    X, y = noisy(200, 5)
    data = write_h5(tmp_path / "rows.h5", X, y)
    for threads in ("1", "all"):
        model, out = tmp_path / f"{threads}.npz", tmp_path / f"{threads}.txt"
        assert call("train", data, "-o", model, "--threads", threads).returncode == 0
        assert call("predict", model, data, "-o", out, "--threads", threads).returncode == 0
        assert call("evaluate", model, data, "--threads", threads).returncode == 0
    one, other = (sm.load_model(tmp_path / f"{threads}.npz") for threads in ("1", "all"))
    assert one.coef_.tobytes() == other.coef_.tobytes()
    assert "threads" not in one.header
    assert (tmp_path / "1.txt").read_text() == (tmp_path / "all.txt").read_text()
    wrong = call("train", data, "-o", tmp_path / "no.npz", "--threads", "many")
    assert wrong.returncode == 2 and "'many' is neither a whole number nor all" in wrong.stderr
    assert not (tmp_path / "no.npz").exists()


def test_estimators_take_n_jobs(small):
    from streammargin import MarginClassifier

    X, y = noisy(300, 6)
    alone = MarginClassifier(random_state=0).fit(X, y)
    for jobs in (1, 2, -1):
        several = MarginClassifier(random_state=0, n_jobs=jobs).fit(X, y)
        assert several.coef_.tobytes() == alone.coef_.tobytes()
    for jobs in (0, 1.5, "all", True, 5000):
        with pytest.raises(sm.UsageError, match=f"n_jobs must be None, a number from 1 to 1024, or -1.*not {jobs!r}"):
            MarginClassifier(n_jobs=jobs).fit(X, y)


def test_leaves_are_of_a_size_that_is_worth_a_call():
    assert LEAF_BYTES == 4 << 20
    X, y = noisy(60, 5)
    assert sm.train((X, y), threads=4).history[-1]["event"] == "run_end"
