"""The kernels are plain Python underneath: without the JIT all of them give the same answers."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import reference.cases

pytestmark = pytest.mark.slow

LEAST = 0.98  # of the lines of all functions in compiled/, but for the files that compile and warm them


@pytest.fixture(scope="module")
def uncompiled():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-W", "error", "-m", "reference.cases"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_same_answers_without_the_jit(uncompiled):
    plain, compiled = uncompiled["figures"], reference.cases.run()
    assert plain.keys() == compiled.keys()
    for name, numbers in compiled.items():
        rel = 1e-4 if name == "float32" else 1e-9
        assert plain[name] == pytest.approx(numbers, rel=rel, abs=rel), name


@pytest.mark.parametrize("path", reference.cases.KERNELS, ids=lambda path: path.stem)
def test_every_kernel_has_run_without_the_jit(uncompiled, path):
    missed = set(uncompiled["missed"].get(str(path), ()))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name not in reference.cases.WARM:
            lines = {inner.lineno for inner in node.body if not isinstance(inner, ast.Expr | ast.FunctionDef)}
            assert not lines or lines - missed, f"{node.name} was never called"


def test_nearly_all_of_their_lines_have_run_without_the_jit(uncompiled):
    assert uncompiled["share"] >= LEAST, uncompiled["missed"]
