"""Trainings as processes that are killed, stopped and started again with the same command."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest
from conftest import HANGS, call, slow, traced

import streammargin as sm
from streammargin.api import train_by
from streammargin.cli.main import main
from streammargin.cli.train import _Signals
from streammargin.data_tools.generate import generate
from streammargin.driver.save.checkpoint import SLOTS
from streammargin.driver.save.slots import LOCK, read_plain
from streammargin.errors import UsageError
from streammargin.sinks.jsonl import JsonLines

CLOCKS = {
    "seconds", "compile_seconds", "read_seconds", "compute_seconds", "wait_seconds", "bytes_read", "reads",
    "rss_bytes", "model",
}  # fmt: skip
AT_ONCE = ["--max-seconds", "1e-6"]  # over after the first pass, however fast the machine

# Trains, with a slot after every block, and sends itself signals once it has written so many.
# No clock decides when they come, and the seconds between them are longer than what counts as one request.
STRUCK = """
import math, os, sys, time
from streammargin.cli import entry
from streammargin.driver.save import checkpoint
from streammargin.__main__ import main

numbers, left = [int(number) for number in sys.argv[1].split(",")], list(range(1, int(sys.argv[2])))
sys.argv = ["streammargin", *sys.argv[3:]]
entry.AGAIN, checkpoint.WRITING_TIME_SHARE = 0.1, math.inf
write = checkpoint.write_slot

def write_and_strike(*given):
    write(*given)
    if left:
        left.pop()
        return
    checkpoint.write_slot = write
    for number in numbers:
        os.kill(os.getpid(), number)
        time.sleep(2 * entry.AGAIN)

checkpoint.write_slot = write_and_strike
sys.exit(main())
"""


# Trains, and is killed as soon as a file whose name ends so has its name.
KILLED = """
import os, signal, sys
from streammargin import files
from streammargin.__main__ import main

rename, ending = files._rename, sys.argv.pop(1)

def rename_and_die(name, target, force):
    rename(name, target, force)
    if target.endswith(ending):
        os.kill(os.getpid(), signal.SIGKILL)

files._rename = rename_and_die
sys.exit(main())
"""


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """The arguments of a training, and what it writes when nothing ends it."""
    folder, data = tmp_path_factory.mktemp("straight"), str(tmp_path_factory.mktemp("data") / "data.h5")
    generate(data, rows=8000, features=8)
    arguments = ["train", data, "--solver", "sdca", "-c", "100", "--tol", "1e-9", "--passes", "60"]
    assert call(*command(arguments, folder)).returncode == 0
    return arguments, written(folder)


@pytest.fixture
def work(straight, tmp_path):
    """The arguments of a training, its folder, and what it is expected to write."""
    return straight[0], tmp_path, straight[1]


def command(arguments, folder):
    return [*arguments, "-o", folder / "model.npz", "--log-json", folder / "log", "--checkpoint", folder / "points",
            "--checkpoint-seconds", "1e-6"]  # fmt: skip


def written(folder):
    """Arrays of the model, and the log without times and checkpoints."""
    with np.load(folder / "model.npz") as model:
        arrays = {name: model[name].tobytes() for name in model.files if name != "header"}
    log = (folder / "log").read_text().replace(str(folder), "FOLDER")
    events = [json.loads(line) for line in log.splitlines()]
    return arrays, [{k: v for k, v in e.items() if k not in CLOCKS} for e in events if e["event"] != "checkpoint"]


def struck(arguments, folder, *numbers, slot=3):
    """The process of a training that is sent these signals in its midst."""
    words = [sys.executable, "-c", STRUCK, ",".join(str(int(number)) for number in numbers), str(slot)]
    return subprocess.Popen([*words, *map(str, command(arguments, folder))], stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number, code", [(signal.SIGKILL, -9), (signal.SIGTERM, 75), slow(signal.SIGINT, 130)])
def test_killed_or_stopped_the_same_command_goes_on_to_the_same_bits(work, number, code):
    arguments, folder, expected = work
    process = struck(arguments, folder, number)
    _, told = process.communicate(timeout=HANGS)
    assert process.returncode == code, told
    assert (folder / "model.npz").exists() == (number != signal.SIGKILL)  # the model so far
    again = call(*command(arguments, folder))
    assert again.returncode == 0 and "resumed from" in again.stderr, again.stderr
    assert written(folder) == expected
    once_more = call(*command(arguments, folder))  # of a training that is done, at once
    assert once_more.returncode == 0 and "at its end" in once_more.stderr and "certified gap" in once_more.stderr
    assert written(folder) == expected


@pytest.mark.slow
def test_a_path_that_is_killed_again_and_again_goes_on_to_the_same_bits(tmp_path):
    data, held_out = str(tmp_path / "data.h5"), str(tmp_path / "valid.h5")
    generate(data, rows=8000, features=8)
    generate(held_out, rows=500, features=8, seed=2)
    arguments = ["train", data, "--valid", held_out, "--penalty", "l1", "--solver", "pdprox", "-C", "path:4"]
    folder, straight = tmp_path / "killed", tmp_path / "straight"
    folder.mkdir()
    straight.mkdir()
    assert call(*command(arguments, straight)).returncode == 0
    passes = (straight / "log").read_text().count('"pass_end"')
    numbers = set()
    while True:
        process = struck(arguments, folder, signal.SIGKILL, slot=passes // 4)
        _, told = process.communicate(timeout=HANGS)
        if process.returncode == 0:
            break
        assert process.returncode == -9, told
        numbers |= {read_plain(str(folder / "points" / name))["path"]["number"] for name in SLOTS}
    assert len(numbers) > 2 and written(folder) == written(straight)


def test_a_second_ctrl_c_quits_at_once_and_loses_no_slot(work):
    arguments, folder, expected = work
    process = struck(arguments, folder, signal.SIGINT, signal.SIGINT)
    process.communicate(timeout=HANGS)
    assert process.returncode == 130 and not (folder / "model.npz").exists()
    assert sorted(os.listdir(folder / "points")) == ["lock", *SLOTS]
    again = call(*command(arguments, folder))
    assert again.returncode == 0 and "resumed from" in again.stderr, again.stderr
    assert written(folder) == expected


def test_out_of_time_with_a_checkpoint_is_75_and_without_one_is_not(work, here):
    arguments, folder, expected = work
    assert here(*command([*arguments, *AT_ONCE], folder)).returncode == 75
    assert here(*command(arguments, folder)).returncode == 0
    arrays, events = written(folder)
    begun = next(event["params"] for event in events if event["event"] == "run_start")
    assert begun["max_seconds"] == 1e-6
    begun["max_seconds"] = None
    assert (arrays, events) == expected
    assert here(*arguments, *AT_ONCE, "-o", folder / "other.npz").returncode == 0


def test_a_second_process_is_refused_and_harms_nothing(work):
    arguments, folder, expected = work
    process = struck(arguments, folder, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    second = call(*command(arguments, folder))
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=HANGS)
    assert second.returncode == 73 and "another process is training" in second.stderr
    assert process.returncode == 0 and written(folder) == expected


def test_force_does_not_begin_anew_over_a_checkpoint(work, here):
    arguments, folder, expected = work
    process = struck(arguments, folder, signal.SIGKILL)
    process.communicate(timeout=HANGS)
    for more in ([], ["--force"]):
        refused = here(*command(arguments, folder), "-C", "0.37", *more)
        assert refused.returncode == 2 and "delete it, or name another directory" in refused.stderr, refused.stderr
        assert "holds an unfinished training with C" in refused.stderr
    assert call(*command(arguments, folder), "--force").returncode == 0 and written(folder) == expected


def test_the_last_line_says_that_a_finished_directory_may_be_deleted(work, here):
    arguments, folder, expected = work
    stopped = here(*command(arguments, folder), *AT_ONCE)
    assert stopped.returncode == 75 and "deleted" not in stopped.stderr
    done = here(*command(arguments, folder))
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 0 and last.endswith("holds the finished training, for more passes or a smaller --tol; "
                                                  "it may be deleted"), last  # fmt: skip
    assert "deleted" not in here(*command(arguments, folder), "-q").stderr and written(folder)[0] == expected[0]


def test_files_beside_the_model_do_not_stop_the_same_command(work, here):
    """After Ctrl-C, which writes them, and kills between two outputs; a stranger's file does."""
    arguments, folder, expected = work
    made = [folder / "w.csv", folder / "r.html"]
    arguments = [*arguments, "--coef", made[0], "--report", made[1]]
    _, told = (process := struck(arguments, folder, signal.SIGINT)).communicate(timeout=HANGS)
    assert process.returncode == 130 and all(path.exists() for path in made), told
    assert f"the same command goes on from {folder / 'points'}" in told
    for ending in ("model.npz", "w.csv", "r.html"):
        words = [sys.executable, "-c", KILLED, ending, *map(str, command(arguments, folder))]
        assert subprocess.run(words, capture_output=True).returncode == -9
    done = call(*command(arguments, folder))
    assert done.returncode == 0 and "the report written to" in done.stderr, done.stderr
    assert written(folder) == expected
    for path in made:
        own = path.read_bytes()
        path.write_bytes(own + b"mine")
        refused = here(*command(arguments, folder))
        assert refused.returncode == 73 and f"{path.name} exists" in refused.stderr, refused.stderr
        assert path.read_bytes() == own + b"mine"
        path.write_bytes(own)
    refused = here(*command([*arguments, "-C", "0.37"], folder), "-o", folder / "other.npz", "--log-json", "-")
    assert refused.returncode == 73 and "w.csv exists" in refused.stderr, refused.stderr  # of another training


def unchanged(folder):
    """The bytes of the outputs and slots."""
    names = ["model.npz", "log", *(f"points/{name}" for name in SLOTS)]
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


@pytest.mark.slow
def test_another_training_takes_the_place_of_one_that_is_done_but_not_its_outputs(work, tmp_path_factory):
    arguments, folder, _ = work
    data, other = folder / "data.h5", tmp_path_factory.mktemp("other") / "data.h5"
    shutil.copy(arguments[1], data)
    arguments = ["train", data, *arguments[2:]]
    assert call(*command(arguments, folder)).returncode == 0
    before = unchanged(folder)
    generate(str(other), rows=8000, features=8, seed=1)
    (folder / "bad.h5").write_text("no rows")
    trials = {
        "model.npz exists": [[*arguments, "-C", "0.37"], ["train", folder / "bad.h5", *arguments[2:]]],
        "from another training": [["train", other, *arguments[2:]]],  # found out once its labels are known
    }
    for words, commands in trials.items():
        for one in commands:
            done = call(*command(one, folder))
            assert done.returncode == 73 and words in done.stderr and "--force" in done.stderr, done.stderr
            assert unchanged(folder) == before and not (folder / "model-2.npz").exists()
    with h5py.File(data, "r+") as file:  # the rows alone, which are read last
        file["X"][0] += 1.0
    for more, code in (([], 73), (["-o", folder / "m.npz"], 73), (["--force"], 0)):  # the second for the log's sake
        done = call(*command(arguments, folder), *more)
        assert done.returncode == code and (not code or unchanged(folder) == before), done.stderr
    assert "held a finished training, on other rows" in done.stderr and unchanged(folder) != before


@pytest.mark.slow
def test_a_log_that_begins_with_a_warning_is_the_trainings_own(tmp_path, blobs_file):
    """With momentum a constant cannot be free, which is said before the run starts; a run that is done says it once."""
    more = ["--loss", "squared_error", "--solver", "asdca", "--passes", "6", "--tol", "1e-12", "-q"]
    arguments, logs = command(["train", blobs_file, *more], tmp_path), []
    for _ in range(2):
        done = call(*arguments)
        assert done.returncode == 0, done.stderr
        events = map(json.loads, (tmp_path / "log").read_text().splitlines())
        logs.append([event for event in events if event["event"] not in ("checkpoint", "run_end")])
    names = [event["event"] for event in logs[0]]
    assert logs[0] == logs[1] and "run_start" in names and names[0] == "warning"


def test_a_model_that_was_saved_again_is_no_longer_the_trainings_own(work, here):
    arguments, folder, _ = work
    assert here(*command(arguments, folder)).returncode == 0
    sm.load_model(folder / "model.npz").save(folder / "model.npz", force=True)
    before = unchanged(folder)
    done = here(*command(arguments, folder))
    assert done.returncode == 73 and unchanged(folder) == before, done.stderr


@pytest.mark.parametrize("checkpoint", [[], ["--checkpoint", "points"]])
def test_an_empty_file_is_an_output_that_exists(checkpoint, blobs_file, tmp_path, here):
    (tmp_path / "m.npz").touch()
    done = here("train", blobs_file, "-o", "m.npz", *checkpoint, cwd=tmp_path)
    assert done.returncode == 73 and "m.npz exists" in done.stderr and not (tmp_path / "m.npz").read_bytes()


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_name_that_is_taken_while_it_trains_costs_another_name_and_73(force, blobs_file, tmp_path, here, monkeypatch):
    """By someone's file, or by a link to the rows: then even --force replaces nothing."""
    rows = (tmp_path / "blobs.h5").read_bytes()

    def train(*given):
        result = train_by(*given)
        if force:
            (tmp_path / "m.npz").symlink_to("blobs.h5")
            (tmp_path / "m-2.npz").hardlink_to(blobs_file)
        else:
            (tmp_path / "m.npz").write_text("mine")
        return result

    monkeypatch.setattr("streammargin.api.train_by", train)
    done = here("train", blobs_file, "-o", "m.npz", "--log-json", "log", *force, cwd=tmp_path)
    name = "m-3.npz" if force else "m-2.npz"
    assert done.returncode == 73 and f"the model is written to {name}" in done.stderr, done.stderr
    assert sm.load_model(tmp_path / name).header["converged"]
    end = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert (end["exit_code"], end["model"]) == (73, name)
    assert (tmp_path / "blobs.h5").read_bytes() == rows and (force or (tmp_path / "m.npz").read_text() == "mine")


def test_a_directory_that_vanishes_costs_neither_the_log_nor_the_model(work, monkeypatch):
    arguments, folder, (arrays, _) = work

    def gone(*given):
        if (folder / "points").is_dir():
            shutil.rmtree(folder / "points")
            (folder / "points").write_text("no directory can be made here")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("streammargin.driver.save.checkpoint.write_slot", gone)
    assert main([str(word) for word in command(arguments, folder)]) == 0
    found, events = written(folder)
    assert found == arrays and events[-1]["event"] == "run_end"
    assert [e["message"] for e in events if "could be written" in e.get("message", "")] == [
        "no checkpoint could be written to FOLDER/points: No space left on device; the training continues"
    ]


# Trains, with a slot every 10 ms, on a disk of its own that fails once the third is written; then looks at the slots.
FAILING = """
import math, os, subprocess, sys
from streammargin.cli import entry
from streammargin.driver.save import checkpoint
from streammargin.driver.save.slots import read_slot
from streammargin.__main__ import main

failure, folder, sys.argv = sys.argv[1], sys.argv[2], ["streammargin", *sys.argv[3:]]
mount = lambda *words: subprocess.run(["mount", *words, folder], check=True)
checkpoint.WRITING_TIME_SHARE = math.inf
mount("-t", "tmpfs", "-o", "size=4m", "none")
write, left = checkpoint.write_slot, [1, 2]

def write_and_fail(*given):
    write(*given)
    if left:
        left.pop()
        return
    checkpoint.write_slot = write
    if failure == "full":
        os.posix_fallocate(os.open(folder + "/filler", os.O_CREAT | os.O_WRONLY), 0, os.statvfs(folder).f_bavail * 4096)
    else:  # the lock is open, so that only another mount of the directory can be read-only
        mount("--bind", folder)
        mount("-o", "remount,bind,ro")

checkpoint.write_slot = write_and_fail
serials = lambda: sorted(read_slot(os.path.join(folder, name))[0]["serial"] for name in checkpoint.SLOTS)
entry.before_leaving.append(lambda: print(*serials(), flush=True))
sys.exit(main())
"""
OWN_MOUNTS = ["unshare", "--map-root-user", "--mount"]


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run([*OWN_MOUNTS, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode != 0,
    reason="needs the right to mount",
)
@pytest.mark.parametrize("failure, told", [("full", "No space left on device"), ("read-only", "Read-only file system")])
def test_a_disk_that_fails_while_training_costs_a_warning(work, failure, told):
    arguments, folder, (arrays, _) = work
    (folder / "points").mkdir()
    words = [sys.executable, "-c", FAILING, failure, str(folder / "points"), *map(str, command(arguments, folder))]
    done = subprocess.run([*OWN_MOUNTS, *words], capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0 and done.stdout == "2 3\n", done.stderr
    found, events = written(folder)
    assert found == arrays and [e["message"] for e in events if "could be" in e.get("message", "")] == [
        f"no checkpoint could be written to FOLDER/points: {told}; the training continues"
    ]


def test_what_others_wrote_is_not_replaced(work, here):
    arguments, folder, expected = work
    for name in ("model.npz", "log"):
        (folder / name).write_text("mine")
        refused = here(*command(arguments, folder))
        assert refused.returncode == 73 and name in refused.stderr and "--force" in refused.stderr
        assert (folder / name).read_text() == "mine"
        os.remove(folder / name)
    assert here(*command(arguments, folder)).returncode == 0
    (folder / "log").write_text("mine")  # after it was written by the training
    refused = here(*command(arguments, folder))
    assert refused.returncode == 73 and (folder / "log").read_text() == "mine"
    os.remove(folder / "log")
    assert here(*command(arguments, folder)).returncode == 0
    arrays, events = expected
    # a new log tells what was before, but for the warnings
    assert written(folder) == (arrays, [e for e in events if e.get("code") != "checkpoint"])


@pytest.mark.parametrize("name", ["slot-a", "slot-b", "slot.part", "lock", "."])
def test_no_output_is_a_file_of_the_checkpoint(name, blobs_file, tmp_path, here):
    folder = tmp_path / "points"
    if name != ".":  # else it is not there yet
        folder.mkdir()
    train = ["train", blobs_file, "--checkpoint", folder, "--force", "-q"]
    for words in (["-o", folder / name], ["-o", tmp_path / "m.npz", "--log-json", folder / name]):
        done = here(*train, *words)
        assert done.returncode == 2 and "are the same file" in done.stderr, done.stderr
        assert not folder.exists() or os.listdir(folder) == []


def test_nothing_in_the_directory_lets_a_training_replace_a_file(blobs_file, tmp_path, here):
    """Neither a list that names it, nor a link; the directory may be one that others write to."""
    folder, precious = tmp_path / "points", tmp_path / "precious.npz"
    folder.mkdir()
    precious.write_bytes(b"years of work")
    rows = (tmp_path / "blobs.h5").read_bytes()
    digest = hashlib.blake2b(b"years of work", digest_size=16).hexdigest()
    (folder / "outputs.json").write_text(json.dumps({str(precious): [digest, None]}))
    done = here("train", blobs_file, "--checkpoint", folder, "-o", precious, "-q")
    assert done.returncode == 73 and precious.read_bytes() == b"years of work"
    (folder / "outputs.json").unlink()
    for name, target in (("outputs.json", "blobs.h5"), ("slot-a", "precious.npz"), ("slot.part", "no")):
        (folder / name).symlink_to(tmp_path / target)
    done = here("train", blobs_file, "--checkpoint", folder, "-o", tmp_path / "m.npz", "-q")
    assert done.returncode == 65 and "slot-a is refused" in done.stderr, done.stderr  # a link is no slot
    (folder / "slot-a").unlink()
    assert here("train", blobs_file, "--checkpoint", folder, "-o", tmp_path / "m.npz", "-q").returncode == 0
    assert precious.read_bytes() == b"years of work" and (tmp_path / "blobs.h5").read_bytes() == rows
    os.mkfifo(folder / "slot-b")  # nor does a pipe keep it waiting
    assert here("train", blobs_file, "--checkpoint", folder, "-o", tmp_path / "m.npz", "-q").returncode == 0


def test_a_mark_beyond_the_end_of_the_log_takes_no_memory(tmp_path):
    (tmp_path / "log").write_text("{}\n" * 100)
    log = JsonLines(str(tmp_path / "log"), kept=True)
    with traced() as allocated, pytest.raises(UsageError, match="does not belong to the resumed training"):
        log.go_on({"bytes": 1 << 30, "digest": ""}, [])
    log.close()
    assert allocated.peak < 4 << 20
    assert (tmp_path / "log").read_text() == "{}\n" * 100


def test_a_training_that_was_killed_before_its_first_checkpoint_begins_again(work, here):
    """Its log has begun; that of other rows or options, or of a training that had a checkpoint, is kept."""
    arguments, folder, _ = work
    assert here(*command(arguments, folder)).returncode == 0
    model, log = (folder / "model.npz").read_bytes(), folder / "log"
    lines = log.read_text().splitlines(keepends=True)
    (folder / "model.npz").unlink()
    shutil.rmtree(folder / "points")
    first = lines[0]
    for text in ("".join(lines), first.replace('"C": ', '"C": 1'), first[:-9]):
        log.write_text(text)
        done = here(*command(arguments, folder))
        assert done.returncode == 73 and log.read_text() == text, done.stderr
    log.write_text(first + lines[1][:9])
    assert here(*command(arguments, folder)).returncode == 0
    assert len((folder / "model.npz").read_bytes()) > 0.9 * len(model) and '"run_end"' in log.read_text()


@pytest.mark.parametrize("more", [[], ["--cv", "3"], ["--sample-weight", "w"]], ids=["plain", "folds", "weights"])
def test_the_model_of_a_table_is_the_trainings_own(tmp_path, here, more):
    """Its rows are in a spool, and the options that are used up there are asked for by the next command, too."""
    rows = np.random.default_rng(0).standard_normal((300, 3))
    lines = [f"{a:.5f},{b:.5f},{abs(c):.5f},{'yes' if a + c > 0 else 'no'}\n" for a, b, c in rows]
    (tmp_path / "t.csv").write_text("a,b,w,y\n" + "".join(lines))
    command = ["train", "t.csv", "--y", "y", "-o", "m.npz", "--checkpoint", "c", "--solver", "sdca", "--tol", "1e-12",
               *more]  # fmt: skip
    assert here(*command, "--passes", "2", cwd=tmp_path).returncode == 0
    again = here(*command, "--passes", "4", cwd=tmp_path)
    assert again.returncode == 0 and "after 4 passes" in again.stderr, again.stderr
    assert here(*command, "-c", "0.5", "--passes", "4", cwd=tmp_path).returncode == 73


def test_a_signal_before_the_first_pass_leaves_the_model_that_is_there(blobs_file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.npz").write_bytes(b"as before")
    with monkeypatch.context() as struck:
        struck.setattr(_Signals, "should_stop", lambda self: self._catch(signal.SIGTERM, None) or "signal")
        assert main(["train", str(blobs_file), "-o", "m.npz", "--force", "--checkpoint", "run"]) == 75
        assert (tmp_path / "m.npz").read_bytes() == b"as before"
        assert "no pass was done; m.npz stays as it was" in capsys.readouterr().err
    assert main(["train", str(blobs_file), "-o", "m.npz", "--force", "--checkpoint", "run"]) == 0
    assert sm.load_model("m.npz").header["passes_done"] > 0


def test_a_run_killed_before_its_first_checkpoint_begins_anew(blobs_file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).touch()
    assert main(["train", str(blobs_file), "-o", "m.npz", "--checkpoint", "run"]) == 0
    assert "model written to m.npz" in capsys.readouterr().err
