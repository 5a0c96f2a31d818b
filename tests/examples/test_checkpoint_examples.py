"""The job for a scheduler runs again until it is done; every damage to a slot is noticed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HANGS, write_h5

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_job_is_queued_again_until_it_is_done(tmp_path, endless):
    X, y = endless
    data = write_h5(tmp_path / "data.h5", X[:4000], y[:4000])
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "PATH": path, "LAUNCH": "", "REQUEUE": "touch again"}

    def job(*more):
        words = ["bash", EXAMPLES / "requeue.sh", data, "-c", "100", "--tol", "1e-9", "--passes", "60", *more]
        return subprocess.run(words, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=HANGS)

    first = job("--max-seconds", "1e-6")  # over after the first pass, however fast the machine
    assert first.returncode == 75 and (tmp_path / "again").exists(), first.stderr
    os.remove(tmp_path / "again")
    second = job()
    assert second.returncode == 0 and not (tmp_path / "again").exists(), second.stderr
    assert "resumed from" in second.stderr


@pytest.mark.slow
def test_no_damage_goes_unnoticed():
    words = [sys.executable, EXAMPLES / "damage_checkpoints.py", "--times", "300", "--data", "12"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0 and "300 refused, 0 taken" in done.stdout, done.stderr
    assert "12 altered values: " in done.stdout and " 0 missed" in done.stdout, done.stdout
