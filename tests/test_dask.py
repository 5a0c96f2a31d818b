"""Trainings whose rows are read by the workers of a dask cluster, of two processes; one of them is killed."""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5

import streammargin as sm

pytest.importorskip("distributed")

import dask
from clusters import NEEDED, bits, killing, on_one_worker
from distributed import Client, LocalCluster

from streammargin.dask import cluster as on_cluster
from streammargin.dask import rounds, worker

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.usefixtures("small_blocks"),
]


@pytest.fixture(scope="module")
def rows():
    """X (3000, 10), labels of three classes."""
    random = np.random.default_rng(7)
    y = random.integers(0, 3, 3000)
    X = random.standard_normal((3000, 10)) + 0.8 * np.eye(3, 10)[y]
    return X.astype(np.float32), y


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    """Two classes in three files of different lengths."""
    X, y = rows
    folder = tmp_path_factory.mktemp("rows")
    ends = [0, 300, 1800, 3000]
    return [
        write_h5(folder / f"part-{k}.h5", X[first:stop], np.where(y[first:stop] > 0, "yes", "no").astype("S"))
        for k, (first, stop) in enumerate(pairwise(ends))
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "logistic", "penalty": "l1", "C": 0.1, "scale": "std"},
        {"C": np.inf, "solver": "dual-momentum", "passes": 5},
        {"transform": "tfidf,unit", "scale": "std:clip=2"},
    ],
    ids=["newton", "l1, scaled", "hard margin", "steps of rows"],
)
def test_one_worker_and_two_have_the_same_bits_and_the_answer_of_one_machine(client, files, monkeypatch, options):
    two = sm.dask.train(client, files, **NEEDED | options)
    with on_one_worker(monkeypatch):
        one = sm.dask.train(client, files, **NEEDED | options)
    assert bits(one) == bits(two)
    alone = sm.train(files, **NEEDED | options)
    assert two.converged == alone.converged
    np.testing.assert_allclose(two.model.coef_, alone.model.coef_, atol=0.03)
    if two.converged:
        bounds = [(each.certificate.dual, each.certificate.primal) for each in (two, alone)]
        assert max(dual for dual, _ in bounds) <= min(primal for _, primal in bounds) * (1 + 1e-9)


def test_a_worker_that_is_killed_changes_no_bit(client, mortals, files, monkeypatch):
    whole = sm.dask.train(client, files, **NEEDED)
    killed = killing(monkeypatch, mortals, 2)
    assert bits(sm.dask.train(mortals, files, **NEEDED)) == bits(whole)
    assert killed


def test_workers_that_come_and_go_change_no_bit(client, files, monkeypatch):
    """As when one joins in the middle, or retires: the rounds are shared out between others each time."""
    whole = sm.dask.train(client, files, **NEEDED)
    both, seen = rounds.Round.workers, []

    def some(self):
        seen.append(both(self)[len(seen) % 2 :])
        return seen[-1]

    monkeypatch.setattr(rounds.Round, "workers", some)
    assert bits(sm.dask.train(client, files, **NEEDED)) == bits(whole)
    assert {len(some) for some in seen} == {1, 2}


def test_several_classes_of_which_a_file_lacks_one_and_held_out_rows(client, rows, tmp_path):
    X, y = rows
    order = np.argsort(y, kind="stable")  # sorted by class
    for k, part in enumerate(np.array_split(order, 4)):
        write_h5(tmp_path / f"part-{k}.h5", X[part], y[part], sample_weight=np.linspace(0.5, 2.0, len(part)))
    held_out = write_h5(tmp_path / "held.h5", X[::3], y[::3])
    given = {"C": [0.01, 1.0], "valid": held_out, **NEEDED}
    found = sm.dask.train(client, str(tmp_path / "part-*.h5"), **given)
    alone = sm.train(sorted(str(path) for path in tmp_path.glob("part-*.h5")), **given)
    assert found.converged and found.model.classes_.tolist() == [0, 1, 2]
    assert found.certificate.valid_error == pytest.approx(alone.certificate.valid_error, abs=0.01)
    assert found.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-4)
    early = sm.dask.train(client, str(tmp_path / "part-*.h5"), **given | {"C": 1.0, "early_stop": 1})
    assert early.certificate.valid_error == pytest.approx(found.certificate.valid_error, abs=0.02)
    events = [event for event in found.history if event["event"] == "pass_end"]
    size = X.nbytes
    assert all(event["bytes_read"] >= size for event in events)


def test_text_labels_are_sent_to_each_worker_once(client, files, monkeypatch):
    """Their codes are in memory here: workers that have them are not sent them again."""
    monkeypatch.setattr(on_cluster, "SMALL_RECIPE_BYTES", 0)
    sent, ask = [], on_cluster.Cluster._ask

    def asked(self, round_, address, shards, task):
        sent.append((address, task.token) in self._knows)
        ask(self, round_, address, shards, task)

    monkeypatch.setattr(on_cluster.Cluster, "_ask", asked)
    large = sm.dask.train(client, files, **NEEDED)
    assert not all(sent) and any(sent)
    client.run(lambda: worker._opened.clear())  # of the workers, whatever this process has open
    monkeypatch.setattr(on_cluster, "_Task", forgetful(on_cluster._Task))
    assert bits(sm.dask.train(client, files, **NEEDED)) == bits(large)


@pytest.mark.slow
def test_an_order_has_no_hessian(client, tmp_path, monkeypatch):
    """The one where the last step began is of who decides; no worker needs it."""
    random, sizes = np.random.default_rng(3), []
    X = random.standard_normal((2000, 200)).astype(np.float32)
    path = write_h5(tmp_path / "wide.h5", X, (X[:, 0] + random.standard_normal(2000) > 0).astype(int))
    ask = on_cluster.Cluster._ask

    def asked(self, round_, address, shards, task):
        sizes.append(len(task.order))
        ask(self, round_, address, shards, task)

    monkeypatch.setattr(on_cluster.Cluster, "_ask", asked)
    sm.dask.train(client, path, **NEEDED)
    assert sizes and max(sizes) < 201 * 201 * 8 / 4


def forgetful(task):
    """A task whose workers forget what was sent to them, at the second time."""

    class Made(task):
        made = 0

        def __init__(self, *given):
            super().__init__(*given)
            Made.made += 1
            if Made.made > 1:
                self.token = f"{self.token}-{Made.made}"

    return Made


def test_a_row_that_cannot_be_read_is_named(client, rows, tmp_path):
    X, y = rows
    X = X.copy()
    X[1500, 3] = np.nan
    good, bad = write_h5(tmp_path / "good.h5", X[:1400], y[:1400]), write_h5(tmp_path / "bad.h5", X[1400:], y[1400:])
    with pytest.raises(sm.DataError, match=r"bad\.h5: row 100, column 3 is NaN"):
        sm.dask.train(client, [good, bad], **NEEDED)


def test_a_file_that_changes_meanwhile_is_an_error(client, files, tmp_path):
    copies = []
    for path in files:
        copies.append(str(tmp_path / os.path.basename(path)))
        with open(path, "rb") as source, open(copies[-1], "wb") as copy:
            copy.write(source.read())

    def changed(event):
        if event["event"] == "pass_end":
            os.utime(copies[1], (1.0, 1.0))

    with pytest.raises(sm.DataError, match=r"part-1\.h5 was changed during the run"):
        sm.dask.train(client, copies, listeners=[changed], **NEEDED)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"solver": "sdca"}, "sdca changes its weights with each row, so one process reads them all; use solver="),
        ({"solver": "ascent", "penalty": "lp:1.5"}, "on several machines ascent takes the penalty l2 alone"),
        ({"solver": "perceptron", "C": np.inf}, "perceptron changes its weights with each row, so"),
        ({"kernel": "rbf"}, "smo needs all rows in one place; train on one machine"),
        ({"memory": "12M"}, "a memory budget of 12M is too small"),
        ({"max_iter": 5}, "there is no max_iter here; give passes"),
    ],
)
def test_what_workers_do_not_serve_is_refused(client, files, options, message):
    with pytest.raises(sm.UsageError, match=message):
        sm.dask.train(client, files, **{**NEEDED, **options})


def test_a_file_that_workers_do_not_see_is_named(client, files, tmp_path, monkeypatch):
    """It is there until the first of them is asked."""
    path, ask = tmp_path / "rows.h5", on_cluster.Cluster._ask
    shutil.copy(files[0], path)
    monkeypatch.setattr(on_cluster.Cluster, "_ask", lambda *given: (path.unlink(missing_ok=True), ask(*given)))
    with pytest.raises(sm.InputMissingError, match=r"a worker says: .*rows\.h5 cannot be read .*so all must see them"):
        sm.dask.train(client, path, **NEEDED)


def test_an_error_leaves_no_task_to_the_workers(client, rows):
    parts = [dask.delayed(rows), dask.delayed(divmod)(1, 0), dask.delayed(time.sleep)(2.0)]
    with pytest.raises(ZeroDivisionError):
        sm.dask.train(client, parts, **NEEDED)
    assert not [key for key, task in client.futures.items() if task.status == "pending"]


def test_hessians_of_text_are_refused(client, tmp_path):
    X = sp.random(300, 5000, density=0.01, format="csr", random_state=1, dtype=np.float32)
    path = write_h5(tmp_path / "text.h5", X, np.arange(300) % 2)
    with pytest.raises(sm.UsageError, match='5001 x 5001 numbers, and 4000 is the most; use solver="ascent"'):
        sm.dask.train(client, path, solver="newton", **NEEDED)


def test_rows_in_memory_are_refused(client, rows, tmp_path):
    with pytest.raises(sm.UsageError, match="workers read files by themselves"):
        sm.dask.train(client, rows)
    (tmp_path / "rows.csv").write_text("a,y\n1,0\n2,1\n")
    with pytest.raises(sm.UsageError, match="give spool="):
        sm.dask.train(client, tmp_path / "rows.csv", y="y")
    with pytest.raises(sm.InputMissingError, match=r"no file matches .*nothing-\*"):
        sm.dask.train(client, str(tmp_path / "nothing-*"))


def test_a_table_is_spooled_once_to_where_workers_read_it(client, rows, tmp_path):
    X, y = rows
    text = "\n".join(
        ",".join(map(repr, [*row.tolist(), int(label)])) for row, label in zip(X[:500], y[:500], strict=True)
    )
    (tmp_path / "rows.csv").write_text(",".join([*"abcdefghij", "y"]) + "\n" + text + "\n")
    found = sm.dask.train(client, tmp_path / "rows.csv", y="y", positive=1, spool=str(tmp_path), **NEEDED)
    alone = sm.train(str(tmp_path / "rows.csv"), y="y", positive=1, spool=str(tmp_path), **NEEDED)
    assert found.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-4)


def test_h5ad_files_are_shards(client, rows, tmp_path):
    anndata, pd = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    X, y = rows
    paths = []
    for k, part in enumerate(np.array_split(np.arange(len(X)), 3)):
        obs = pd.DataFrame({"kind": pd.Categorical(np.array(["a", "b", "c"])[y[part]])}, index=list(map(str, part)))
        paths.append(str(tmp_path / f"{k}.h5ad"))
        anndata.AnnData(sp.csr_matrix(X[part]), obs=obs).write_h5ad(paths[-1])
    found = sm.dask.train(client, paths, y="kind", **NEEDED)
    assert found.model.classes_.tolist() == ["a", "b", "c"]
    assert found.certificate.primal == pytest.approx(sm.train(paths, y="kind", **NEEDED).certificate.primal, rel=2e-4)


def test_a_checkpoint_goes_on_with_another_number_of_workers(client, files, tmp_path, monkeypatch):
    whole = sm.dask.train(client, files, **NEEDED)
    passes = []

    def stop():
        return "signal" if len(passes) == 3 else None

    def count(event):
        passes.extend([event] * (event["event"] == "pass_end"))

    given = {**NEEDED, "checkpoint": str(tmp_path / "saved")}
    first = sm.dask.train(client, files, listeners=[count], should_stop=stop, **given)
    assert first.reason == "signal" and first.resumable and first.passes == 3
    with on_one_worker(monkeypatch):
        rest = sm.dask.train(client, files, **given)
    assert bits(rest) == bits(whole)


def test_a_scheduler_that_ends_leaves_a_sentence_and_a_checkpoint(files, tmp_path, client):
    saved = str(tmp_path / "saved")
    passes = []
    with (
        LocalCluster(n_workers=1, processes=False, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as other,
    ):

        def end(event):
            passes.extend([event] * (event["event"] == "pass_end"))
            if len(passes) == 2:
                cluster.close()

        with pytest.raises(sm.ReadWriteError, match=r"the dask cluster ended.*resumes from .*saved"):
            sm.dask.train(other, files, listeners=[end], checkpoint=saved, **NEEDED)
    rest = sm.dask.train(client, files, checkpoint=saved, **NEEDED)
    assert bits(rest) == bits(sm.dask.train(client, files, **NEEDED))


@pytest.mark.slow
def test_a_command_whose_scheduler_ends_says_so_and_goes_on_with_another(client, files, tmp_path):
    given = ["--memory", "64M", "-q", "-c", "100", "--tol", "1e-9", "-o", tmp_path / "model.npz"]
    command = [
        sys.executable,
        "-m",
        "streammargin",
        "train",
        *files,
        *given,
        "--checkpoint",
        tmp_path / "saved",
        "--dask",
    ]
    with LocalCluster(
        n_workers=1, processes=False, protocol="tcp", threads_per_worker=1, dashboard_address=":0"
    ) as cluster:
        command_of = subprocess.Popen([*command, cluster.scheduler_address], stderr=subprocess.PIPE, text=True)
        while cluster.scheduler.transition_counter < 30 and command_of.poll() is None:  # some tasks
            threading.Event().wait(0.05)
    told = command_of.communicate()[1]
    assert command_of.returncode == 74 and "Traceback" not in told
    assert re.search(r"the dask cluster ended.*; the same training resumes from .*saved", told)
    ran = subprocess.run([*command, client.scheduler.address], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_no_worker_is_a_sentence_and_waiting_can_be_stopped(files, monkeypatch):
    asked = []

    def stop():
        asked.append(1)
        return "signal" if len(asked) > 3 else None

    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        assert sm.dask.train(client, files, should_stop=stop, **NEEDED).reason == "signal"
        monkeypatch.setattr(rounds, "NOBODY", 0.0)
        with pytest.raises(sm.ReadWriteError, match="has had no worker for 0 seconds"):
            sm.dask.train(client, files, **NEEDED)


def test_workers_that_all_go_while_they_are_waited_for_are_a_sentence(files, monkeypatch):
    """As when they were killed, and none starts again: their tasks are with nobody."""
    ask = on_cluster.Cluster._ask
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):

        def asked(self, *given):
            for one in list(client.scheduler_info()["workers"]):
                client.retire_workers([one])
            ask(self, *given)

        monkeypatch.setattr(on_cluster.Cluster, "_ask", asked)
        monkeypatch.setattr(rounds, "LOOKS", 0.5)
        monkeypatch.setattr(rounds, "NOBODY", 1.0)
        with pytest.raises(sm.ReadWriteError, match="has had no worker for 1 seconds"):
            sm.dask.train(client, files, **NEEDED)


def test_tasks_that_always_fail_end_the_training(client, files, monkeypatch):
    """As those of workers that are killed for their memory each time."""
    monkeypatch.setattr(on_cluster, "work", lambda *given: 1 / 0)
    with pytest.raises(sm.ReadWriteError, match=r"tasks ended without an answer .* by ZeroDivisionError"):
        sm.dask.train(client, files, **NEEDED)


def test_the_command_trains_on_a_scheduler(client, files, tmp_path, here):
    model = tmp_path / "model.npz"
    ran = here("train", *files, "--dask", client.scheduler.address, "-o", model, "--memory", "64M", "-q", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = sm.dask.train(client, files, memory="64M")
    assert sm.load_model(model).coef_.tobytes() == found.model.coef_.tobytes()


def test_the_command_takes_a_pattern(client, files, tmp_path, here):
    given = ["--dask", client.scheduler.address, "--memory", "64M", "-q", "-o", tmp_path / "m.npz", "--passes", "1"]
    ran = here("train", str(files[0]).replace("part-0", "part-*"), *given, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    ran = here("train", "nope-*.h5", *given, "--force", cwd=tmp_path)
    assert ran.returncode == 66 and "no file matches nope-*.h5" in ran.stderr


@pytest.mark.parametrize("scheduler", ["nonsense://127.0.0.1:1", "words", "part-1.h5", "list.json"])
def test_no_scheduler_is_a_sentence(files, tmp_path, here, scheduler):
    (tmp_path / "list.json").write_text("[]")
    shutil.copy(files[0], tmp_path / "part-1.h5")
    ran = here("train", *files, "--dask", scheduler, "-o", tmp_path / "model.npz", cwd=tmp_path)
    assert ran.returncode == 74 and f"no dask scheduler answers at {scheduler}" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", None], ids=["http", "silent", "a worker"])
def test_what_is_no_scheduler_is_a_sentence_within_the_limit_of_dask(client, files, tmp_path, here, answer):
    """A client of dask takes the answer of HTTP for a size, and waits for ever where nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server, dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        place = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        if answer is None:
            place = next(iter(client.run(os.getpid)))
        elif answer:
            threading.Thread(target=lambda: server.accept()[0].sendall(answer), daemon=True).start()
        ran = here("train", *files, "--dask", place, "-o", tmp_path / "model.npz", cwd=tmp_path)
    assert ran.returncode == 74 and f"no dask scheduler answers at {place}" in ran.stderr


def test_a_client_is_a_client(files):
    with pytest.raises(sm.UsageError, match=r"client must be a distributed\.Client, not str"):
        sm.dask.train("tcp://127.0.0.1:8786", files)


def test_a_worker_that_ends_collects_no_garbage():
    """On a busy machine that took longer than the four seconds, after which a Nanny kills with a warning."""
    asked = "atexit.register(lambda: print(gc.get_freeze_count() > 0)); import streammargin.dask.worker"
    ran = subprocess.run([sys.executable, "-c", f"import atexit, gc; {asked}"], capture_output=True)
    assert ran.stdout == b"True\n"


@pytest.mark.parametrize("shards", [1, 2, 3, 5, 8, 13])
def test_sums_are_added_in_one_order_whoever_adds_them(shards, monkeypatch):
    """The nodes of the tree are added up alike, in whatever order shards and sums of several of them come."""
    monkeypatch.setattr(worker.roles, "merge", lambda part, other, sums: part.append(list(part) + ["+"] + list(other)))
    visits = [(sm.solvers, None)]
    monkeypatch.setattr(sm.solvers, "sums", (), raising=False)

    def summed(groups):
        whole = {}
        for group in groups:
            own = {}
            for shard in group:
                worker.climb(own, shards, (0, shard), [[shard]], visits)
            for node, parts in own.items():
                worker.climb(whole, shards, node, parts, visits)
        [parts] = whole.values()
        return parts

    random, whole = np.random.default_rng(shards), summed([range(shards)])
    for cut in range(shards + 1):
        assert summed([range(cut), range(cut, shards)]) == whole
        order = random.permutation(shards).tolist()
        assert summed([order[:cut], order[cut:]]) == whole
