"""The benchmarks run at toy size, judge by correct numbers, and continue after a stop."""

import importlib
import importlib.util
import json
import math
import os
import re
import subprocess
import sys

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import HANGS

pytest.importorskip("sklearn", reason="the peers need the extra `benchmarks`")

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def command(name, *arguments, path=()):
    """The lines that a benchmark prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), ROOT])}
    done = subprocess.run(
        [sys.executable, "-m", f"examples.benchmarks.{name}", *map(str, arguments)],
        capture_output=True, text=True, env=environment, cwd=ROOT, timeout=HANGS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module


@pytest.mark.slow
def test_ours_and_a_peer_are_measured_beside_each_other_and_only_once(tmp_path):
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "snapml.py").write_text("raise ImportError('it is not installed')")
    out = tmp_path / "rows.jsonl"
    arguments = [tmp_path, "--work", tmp_path / "work", "--out", out, "--rows", 150, "--repeats", 2, "--seconds", HANGS,
                 "--sets", "D,a9a", "--losses", "hinge,logistic", "--C", 1, "--gaps", "1e-2,1e-3",
                 "--peers", "LinearSVC,Snap ML", "--solvers", "sdca"]  # fmt: skip
    said = command("in_memory", *arguments, path=[absent])
    assert "a9a: left out, a9a is made of a9a/a9a.bz2" in said
    assert "Snap ML is left out, ImportError: it is not installed" in said
    rows = rows_of(out)
    assert [(row["loss"], row["side"]) for row in rows] == [
        ("hinge", "streammargin sdca"), ("hinge", "LinearSVC"), ("logistic", "streammargin sdca"),
    ]  # fmt: skip
    for row in rows:
        assert (row["rows"], row["features"]) == (150, 784)
        for gap, found in row["reached"].items():
            assert found["suboptimality"] <= float(gap) and len(found["seconds"]) == 2
            assert min(found["seconds"]) <= found["median"] <= max(found["seconds"])
    ours = [row for row in rows if row["side"] == "streammargin sdca"]
    assert all(set(row["reached"]) == {"0.01", "0.001"} for row in ours)
    assert all(found["certified_gap"] <= float(gap) for row in ours for gap, found in row["reached"].items())
    assert all(row["reference_gap"] <= 1e-4 for row in ours)
    text = out.read_text().splitlines(keepends=True)
    out.write_text(text[0] + text[2][:40])  # stopped in the middle of a row
    command("in_memory", *arguments, path=[absent])
    again = rows_of(out)
    assert again[0] == rows[0]
    assert sorted((row["loss"], row["side"]) for row in again) == sorted((row["loss"], row["side"]) for row in rows)
    assert "| D | 1 |" in command("report", out)


@pytest.mark.parametrize("stopped, point, said", [
    ("cut off at 2 s with setting 3", (0.1, 1.0), "> 20"), (None, (1e-4, 3.0), "> 20"), (None, (1e-4, 0.39), "4.00"),
    ("TimeoutError: a gap of 1 after 2 s", (0.1, 1.0), "> 20"), (None, (1e-4, math.inf), "> 20"),
    (None, (0.1, 1.0), "never"), ("no room", (0.1, 1.0), "never"), ("no room", None, "-"),
])  # fmt: skip
def test_a_peer_is_slower_only_if_it_was_cut_off_or_got_there_late(stopped, point, said, module):
    report = module("examples.benchmarks.report")
    points = [] if point is None else [{"suboptimality": point[0], "seconds": point[1]}]
    there = [one["seconds"] for one in points if one["suboptimality"] < 1e-3 and one["seconds"] != 3.0]
    reached = {"1e-3": {"median": there[0]}} if there else {}
    peer = {"stopped": stopped, "reached": reached, "points": points}
    ours = {"reached": {"1e-3": {"median": 0.0975}}, "limits": {"1e-3": 2.0}}
    assert report.ratio({"streammargin auto": ours, "peer": peer}, "1e-3") == said
    assert report.ratio({"streammargin auto": ours}, "1e-3") == "-"
    assert report.mean([said, "0.25", "never"]) == {"> 20": "2.24", "4.00": "1.00"}.get(said, "0.25")


def test_the_objective_is_that_of_every_row_by_itself(module):
    judge = module("examples.benchmarks.judge")
    random = np.random.default_rng(3)
    X, y = random.standard_normal((40, 5)).astype(np.float32), random.integers(0, 3, 40)
    W = random.standard_normal((3, 5))
    phi = {"hinge": lambda u: max(0.0, 1.0 - u), "squared_hinge": lambda u: max(0.0, 1.0 - u) ** 2,
           "logistic": lambda u: np.log(1.0 + np.exp(-u))}  # fmt: skip
    for loss, function in phi.items():
        naive = sum(0.5 * w @ w for w in W) + 0.7 * sum(
            function((1 if y[i] == k else -1) * float(X[i].astype(float) @ W[k])) for i in range(40) for k in range(3)
        )
        for rows in (X, sp.csr_matrix(X)):
            assert judge.objective(rows, y, W, 0.7, loss) == pytest.approx(naive, rel=1e-12)
    wrong = sum(int(np.argmax(W @ X[i].astype(float))) != y[i] for i in range(40))
    assert judge.error(X, y, W) == wrong / 40


PEERS = """
import json, sys, warnings
import numpy as np
from examples.benchmarks import judge, sides
warnings.simplefilter("ignore")  # the peers' own
loss, random = sys.argv[1], np.random.default_rng(4)
y = np.where(random.random(300) < 0.5, -1, 1)
X = (random.standard_normal((300, 6)) + 0.5 * y[:, None]).astype(np.float32)
found = {}
for name, side in {"ours": sides.find("streammargin sdca"), **sides.peers()}.items():
    if loss in side.losses and not name.startswith("Vowpal"):  # which never gets that near
        try:
            W, _ = side.solve(side.prepare(X, y, 1), loss, 0.5, 1e-6 if name == "ours" else side.settings[-1], 1e9)
        except ImportError:
            continue
        found[name] = judge.objective(X, y, W, 0.5, loss)
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_every_peer_that_is_here_solves_the_same_problem(loss):
    # in a process of their own: a library of a peer may make the processor take the smallest numbers for 0
    done = subprocess.run([sys.executable, "-c", PEERS, loss], capture_output=True, text=True, cwd=ROOT, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    optimum = found.pop("ours")
    assert found
    for name, objective in found.items():
        assert abs(objective / optimum - 1.0) < 1e-3, name


PENALISED = """
import itertools, json, sys, types, warnings
import numpy as np, scipy.sparse as sp
from examples.benchmarks import judge, sides
from streammargin.driver.status import clock
warnings.simplefilter("ignore")
looks = itertools.count()  # ours and Algorithm 1 are cut off by this clock: each look takes a tenth of a millisecond
clock.time = types.SimpleNamespace(perf_counter=lambda: 1e-4 * next(looks))
random = np.random.default_rng(4)
y = np.where(random.random(200) < 0.5, -1, 1)
X = sp.csr_matrix((random.standard_normal((200, 6)) + 0.5 * y[:, None]).astype(np.float32))
found = {}
for loss in ("hinge", "logistic"):
    problem = judge.Penalised(loss, "l1")
    for name, side in {"ours": sides.find("streammargin pdprox"), **sides.peers(sides.PENALISED)}.items():
        if name == "ours" or (loss, "l1") in side.losses:
            try:
                setting = 1e-6 if name == "ours" else side.settings[-1]
                W, _ = side.solve(side.prepare(X, y, 1), problem, 0.5, setting, 9.0)
            except ImportError:
                continue
            found[f"{loss} {name}"] = problem.objective(X, y, W, 0.5)
print(json.dumps(found))
"""


@pytest.mark.slow
def test_every_peer_with_a_penalty_that_is_here_solves_the_same_problem():
    done = subprocess.run([sys.executable, "-c", PENALISED], capture_output=True, text=True, cwd=ROOT, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"hinge HiGHS simplex", "hinge Algorithm 1", "logistic LogisticRegression saga"} <= set(found)
    for name, objective in found.items():
        assert abs(objective / found[f"{name.split()[0]} ours"] - 1.0) < 1.1e-3, name


def test_the_objective_with_a_penalty_is_that_of_every_column_by_itself(module):
    judge, nonsmooth = module("examples.benchmarks.judge"), module("examples.benchmarks.nonsmooth")
    random = np.random.default_rng(3)
    X, y, w = random.standard_normal((20, 123)), np.where(random.random(20) < 0.5, -1, 1), random.standard_normal(123)
    groups = nonsmooth.groups_of("a9a", 123)
    assert np.array_equal(np.bincount(groups), [5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41])
    by_group = [np.sqrt(sum(groups == g)) * np.linalg.norm(w[groups == g]) for g in range(14)]
    penalties = {"l1": sum(abs(w)), "elasticnet": sum(0.5 * abs(w) + 0.25 * w**2), "group": sum(by_group)}
    errors = sum(0.5 * (y - X @ w) ** 2)
    for penalty, value in penalties.items():
        problem = judge.Penalised("squared_error", penalty, groups)
        assert problem.objective(X, y, w[None], 0.3) == pytest.approx(value + 0.3 * errors, rel=1e-12)


def test_a_peer_is_held_to_its_loosest_setting_and_cut_off(module):
    ruler, worker = module("examples.benchmarks.ruler"), module("examples.benchmarks.worker")

    class Answers:
        """In place of a process: (seconds, objective) by setting."""

        def __init__(self, table):
            self.table, self.asked = table, []

        def solve(self, loss, C, setting, limit):
            self.asked.append(setting)
            seconds, value, *gap = self.table[setting]
            if seconds > limit:
                raise worker.CutOff
            dual = {"dual": value - gap[0], "proven": True, "certified_gap": gap[0]} if gap else {}
            if gap:  # the first call compiles
                dual["compile_seconds"] = 2.0 if len(self.asked) == 1 else 0.0
            return seconds, value, dual

    ours = Answers({1e-4: (0.3, 1.0, 0.0), 1e-2: (0.05, 1.005, 0.01), 1e-3: (0.1, 1.0005, 1e-3)})
    peer = Answers({10.0: (0.1, 1.5), 3.0: (0.2, 1.009), 1.0: (0.5, 1.002), 0.5: (1.5, 1.0009), 0.2: (9.0, 1.0)})
    rows = ruler.measure(
        ["streammargin x", "LIBLINEAR -s 3"], {"streammargin x": ours, "LIBLINEAR -s 3": peer}, "hinge", 1.0,
        [1e-2, 1e-3], ruler.Limits(longest=60.0, reference=60.0, repeats=3), lambda value: {"objective": value},
    )  # fmt: skip
    assert rows[1]["limits"] == {"0.01": pytest.approx(1.0), "0.001": pytest.approx(2.0)}
    assert {gap: found["setting"] for gap, found in rows[1]["reached"].items()} == {"0.01": 3.0, "0.001": 0.5}
    assert peer.asked == [10.0, 3.0, 1.0, 0.5] + 3 * [3.0, 0.5]
    assert rows[1]["reached"]["0.01"]["median"] == 0.2
    assert rows[0]["compile_seconds"] == 2.0 and rows[1]["compile_seconds"] == 0.0
    assert ours.asked == [1e-2, 1e-2, 1e-4, 1e-2, 1e-2, 1e-3] + 3 * [1e-2, 1e-3]
    slow = Answers({10.0: (0.1, 1.5), 3.0: (2.5, 1.0)})
    rows = ruler.measure(
        ["streammargin x", "LIBLINEAR -s 3"], {"streammargin x": ours, "LIBLINEAR -s 3": slow}, "hinge", 1.0,
        [1e-2, 1e-3], ruler.Limits(longest=60.0, reference=60.0, repeats=3), lambda value: {"objective": value},
    )  # fmt: skip
    assert rows[1]["reached"] == {} and rows[1]["best"] == pytest.approx(0.5)
    assert rows[1]["stopped"] == "cut off at 2 s with setting 3"


@pytest.mark.slow
def test_a_call_that_takes_too_long_is_stopped(module, tmp_path):
    sets, worker = module("examples.benchmarks.sets"), module("examples.benchmarks.worker")
    path = sets.make("D", "", str(tmp_path), 100)
    side = worker.Worker("LinearSVC", "D", path, 100, 1)
    try:
        with pytest.raises(worker.CutOff):
            side.solve("hinge", 1e6, 1e-12, 1e-6)
        assert side.solve("hinge", 1.0, 0.1, 60.0)[1].shape == (1, 784)
    finally:
        side.close()


@pytest.mark.slow
def test_reads_and_seconds_to_each_gap_out_of_core(tmp_path):
    out = tmp_path / "rows.jsonl"
    arguments = [tmp_path, "--work", tmp_path, "--out", out, "--rows", 3000, "--sets", "csr100,dense200-sorted",
                 "--C", 0.1, "--repeats", 2, "--states", "cached", "--memory", "10%,64M"]  # fmt: skip
    said = command("out_of_core", *arguments)
    rows = rows_of(out)
    assert [(row["set"], row["memory"]) for row in rows] == [
        (name, memory) for name in ("csr100", "dense200-sorted") for memory in ("10%", "64M")
    ]
    for row in rows:
        assert row["gap"] <= 1e-4 and set(row["reached"]) == {"0.01", "0.001", "0.0001"}
        reads = [found["reads"][-1] for found in row["reached"].values()]
        assert 0.9 <= reads[0] <= reads[1] <= reads[2] <= row["reads"] * 1.2
        assert f"| {row['set']} |" in said
    with h5py.File(tmp_path / "dense200-sorted-3000.h5") as file:
        y = file["y"][:]
        assert set(y) == {-1, 1} and (np.diff(y) >= 0).all() and file["X"].shape == (3000, 200)
    assert command("out_of_core", *arguments).count("ended at") == 0  # nothing is measured twice
    if importlib.util.find_spec("matplotlib") is not None:  # of the extra `benchmarks`
        assert (tmp_path / "rows.png").read_bytes().startswith(b"\x89PNG")


def test_bytes_that_were_read_are_counted(module, tmp_path):
    disk = module("examples.benchmarks.disk")
    path = tmp_path / "file"
    path.write_bytes(bytes(3 << 20))
    before = disk.bytes_read()
    assert disk.raw_read(str(path)) > 0.0
    assert 3 << 20 <= disk.bytes_read() - before < 4 << 20


def test_orders_of_customers(tmp_path):
    path = tmp_path / "customers.csv"
    command("customers", path, "--rows", 500)
    names, *rows = [line.split(",") for line in path.read_text().splitlines()]
    assert len(rows) == 500 and all(len(row) == len(names) == 28 for row in rows)
    assert {row[-1] for row in rows} == {"yes", "no"} and 0.01 < sum(row.count("") for row in rows) / 10_500 < 0.05


@pytest.mark.slow
def test_held_out_errors_beside_sgd(tmp_path):
    out = tmp_path / "rows.jsonl"
    said = command("held_out", tmp_path, "--work", tmp_path, "--out", out, "--rows", 2000, "--sets", "A", "--most", 2)
    rows = {row["side"]: row for row in rows_of(out)}
    assert {"streammargin auto", "SGDClassifier"} <= set(rows)
    assert rows["streammargin auto"]["certified_end"]["gap"] <= 1e-3
    assert abs(rows["streammargin auto"]["certified_end"]["error"] - rows["SGDClassifier"]["optimum_error"]) < 0.05
    assert "optimum" in said


def test_the_first_point_that_stays_within_the_error(module):
    settled = module("examples.benchmarks.held_out").settled
    points = [{"error": error} for error in (0.3, 0.1, 0.2, 0.1, 0.05)]
    assert settled(points, 0.15) is points[3]
    assert settled(points, 0.3) is points[0] and settled(points, 0.01) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, arguments, said",
    [
        ("many_rows", ["--rows", 3000, "--tol", "1e-2"], r"second run: .* certified gap \S+ \(tolerance\)"),
        (
            "no_options",
            ["DIR", "--work", "DIR", "--sets", "A,D", "--rows", 400],
            r"A .* ascent:momentum=auto,order=permutation .*\nD .* newton .* gap \d",
        ),
        ("checkpoints", ["--rows", 3000, "--passes", 2], r"3,000 rows, sdca: a slot of \d+ MiB in \S+ s, [12] in "),
        ("passes", ["--size", "12M", "--pairs", 1, "--kinds", "csr"], r"page cache .* ratio \d"),
        (
            "beside",
            [ROOT, ROOT, "DIR", "--only", "D hinge C=1 ", "--rows", 300, "--rounds", 1],
            r"\n1 rows, (\S+) to \1, median \1, geometric mean \1\n[01] above 1.15:",
        ),
        ("folds", ["large", "--rows", 3000], r"logistic .* reads \d.*\nhinge .* worst gap \d\S+e-0[4-9] .* passes \d"),
        ("steps", ["--repeats", 1, "--rows", 300, "--solvers", "diagonal"], r"diagonal .* times that"),
        ("memory", ["--sizes", "1M", "--only", "dense", "--no-limit"], r"dense +1M .* yes"),
        ("few_columns", ["--rows", 800, "--columns", 20, "--repeats", 1, "--shares", ".1"], r"l1 \| 0.1 \| \d+ \| 0"),
        ("in_arrays", ["--hinge", "--repeats", 1], r"60 x 5 \| \S+ ms \| \S+ ms \|\n\| breast cancer"),
        ("first_fit", ["--only", "table", "--patience", 2], r"table \| \S+ CPU s, \d+ kernels"),
        (
            "first_fit",
            ["--only", "hdf5, digits, softmax", "--measure", "DIR/kernels"],
            r"softmax: newton conjugate proximal arrays, \d+ kernels",
        ),
        (
            "margin",
            ["DIR", "--only", "lp", "--rows", 60, "--solvers", "active-set", "--repeats", 1],
            r"best: active-set",
        ),
    ],
)
def test_the_other_commands_run(tmp_path, name, arguments, said):
    given = [str(part).replace("DIR", str(tmp_path)) for part in arguments]
    assert re.search(said, command(name, *given))


@pytest.mark.slow
def test_threads_are_measured_beside_one_another():
    said = command("threads", "--rows", 3000, "--repeats", 1, "--most", 2).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said[2:]]
    assert len(rows) == 11 and {row[-1] for row in rows} == {"same"}
    assert all(float(cell) > 0.0 for row in rows for cell in row[2:4])


def test_ratings_are_chosen_and_judged_apart_and_test_ratings_change_nothing_before(module):
    ratings = module("examples.benchmarks.ratings")
    i, j, stars = ratings.made(40, 60, 800)
    parts = ratings.split((i, j, stars), 3)
    cells = [set(zip(a.tolist(), b.tolist(), strict=True)) for a, b, _ in parts]
    assert [len(each) for each in cells] == [part[0].size for part in parts] and min(map(len, cells)) > 40
    assert set.union(*cells) == set(zip(i.tolist(), j.tolist(), strict=True)) and sum(map(len, cells)) == i.size
    assert all(set(part[k].tolist()) <= set(parts[0][k].tolist()) for part in parts for k in (0, 1))
    other = stars + np.array([(a, b) in cells[2] for a, b in zip(i.tolist(), j.tolist(), strict=True)])
    again = ratings.split((i, j, other), 3)
    assert all(np.array_equal(again[k][2], parts[k][2]) for k in (0, 1))
    assert np.allclose(again[2][2], parts[2][2] + 1.0)
    assert not np.array_equal(ratings.split((i, j, stars), 4)[1][0], parts[1][0])
