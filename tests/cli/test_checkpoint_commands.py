"""Trainings as processes that are killed, stopped and started again with the same command."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import call, write_h5

CLOCKS = {"seconds", "read_seconds", "compute_seconds", "wait_seconds", "bytes_read", "reads", "rss_bytes", "model"}


@pytest.fixture
def work(tmp_path, endless):
    """The arguments of a training of about a second, its folder, and what it is expected to write."""
    X, y = endless
    data = write_h5(tmp_path / "data.h5", X[:8000], y[:8000])
    arguments = ["train", data, "-c", "100", "--tol", "1e-9", "--passes", "400"]
    straight = tmp_path / "straight"
    straight.mkdir()
    assert call(*command(arguments, straight)).returncode == 0
    folder = tmp_path / "it"
    folder.mkdir()
    return arguments, folder, written(straight)


def command(arguments, folder):
    return [*arguments, "-o", folder / "model.npz", "--log-json", folder / "log", "--checkpoint", folder / "points",
            "--checkpoint-seconds", "0.01", "--resume"]  # fmt: skip


def written(folder):
    """Arrays of the model, and the log without times and checkpoints."""
    with np.load(folder / "model.npz") as model:
        arrays = {name: model[name].tobytes() for name in model.files if name != "header"}
    log = (folder / "log").read_text().replace(str(folder), "FOLDER")
    events = [json.loads(line) for line in log.splitlines()]
    return arrays, [{k: v for k, v in e.items() if k not in CLOCKS} for e in events if e["event"] != "checkpoint"]


def start(arguments, folder):
    """A process that trains, once it has written a checkpoint."""
    words = [sys.executable, "-m", "streammargin", *map(str, command(arguments, folder))]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while process.poll() is None and not (folder / "points" / "slot-b").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("number, code", [(signal.SIGKILL, -9), (signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_killed_or_stopped_the_same_command_goes_on_to_the_same_bits(work, number, code):
    arguments, folder, expected = work
    process = start(arguments, folder)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == code, told
    assert (folder / "model.npz").exists() == (number != signal.SIGKILL)  # the model so far
    again = call(*command(arguments, folder))
    assert again.returncode == 0 and "goes on from" in again.stderr, again.stderr
    assert written(folder) == expected
    once_more = call(*command(arguments, folder))  # of a training that is done, at once
    assert once_more.returncode == 0 and "at its end" in once_more.stderr
    assert written(folder) == expected


def test_out_of_time_with_a_checkpoint_is_75_and_without_one_is_not(work):
    arguments, folder, expected = work
    assert call(*command([*arguments, "--max-seconds", "0.05"], folder)).returncode == 75
    assert call(*command(arguments, folder)).returncode == 0
    arrays, events = written(folder)
    assert events[1]["params"].pop("max_seconds") == 0.05 and expected[1][1]["params"].pop("max_seconds") is None
    assert (arrays, events) == expected
    assert call(*arguments, "--max-seconds", "0.05", "-o", folder / "other.npz").returncode == 0


def test_a_second_process_is_refused_and_harms_nothing(work):
    arguments, folder, expected = work
    process = start(arguments, folder)
    process.send_signal(signal.SIGSTOP)
    second = call(*command(arguments, folder))
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=120)
    assert second.returncode == 73 and "another process is training" in second.stderr
    assert process.returncode == 0 and written(folder) == expected


def test_force_does_not_begin_anew_over_a_checkpoint(work):
    arguments, folder, expected = work
    process = start(arguments, folder)
    process.kill()
    process.communicate(timeout=60)
    words = [word for word in command(arguments, folder) if word != "--resume"]
    for more in ([], ["--force"]):
        refused = call(*words, *more)
        assert refused.returncode == 2 and "add --resume to go on" in refused.stderr
    assert call(*command(arguments, folder)).returncode == 0 and written(folder) == expected


def test_what_others_wrote_is_not_replaced(work):
    arguments, folder, expected = work
    for name in ("model.npz", "log"):
        (folder / name).write_text("mine")
        refused = call(*command(arguments, folder))
        assert refused.returncode == 73 and name in refused.stderr and "--force" in refused.stderr
        assert (folder / name).read_text() == "mine"
        os.remove(folder / name)
    assert call(*command(arguments, folder)).returncode == 0
    (folder / "log").write_text("mine")  # after it was written by the training
    refused = call(*command(arguments, folder))
    assert refused.returncode == 73 and (folder / "log").read_text() == "mine"
    os.remove(folder / "log")
    assert call(*command(arguments, folder)).returncode == 0
    arrays, events = expected
    # a new log tells what was before, but for the warnings
    assert written(folder) == (arrays, [e for e in events if e.get("code") != "checkpoint"])
