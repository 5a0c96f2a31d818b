"""The kernels are plain Python underneath: without the JIT they give the same answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import reference.cases


def test_same_answers_without_the_jit():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-W", "error", "-m", "reference.cases"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plain, compiled = json.loads(done.stdout), reference.cases.run()
    assert plain.keys() == compiled.keys()
    for name, numbers in compiled.items():
        rel = 1e-4 if name == "float32" else 1e-9
        assert plain[name] == pytest.approx(numbers, rel=rel, abs=rel), name
