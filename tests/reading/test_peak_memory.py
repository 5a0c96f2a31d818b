"""Trainings out of core take no more memory than their plan counts, however many blocks there are."""

import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import HANGS, write_h5

SCRIPT = """
import json, sys
from streammargin.cli.entry import return_freed_arrays
return_freed_arrays()
import streammargin as sm
from streammargin.reading import plan

plan.BLOCK_BYTES = plan.LEAST_BLOCK_BYTES = int(sys.argv[3])  # a small file has as many blocks as a large one

def peak(path, memory, **options):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    result = sm.train(path, memory=memory, **options)
    with open("/proc/self/status") as file:
        [line] = [line for line in file if line.startswith("VmHWM")]
    return result, int(line.split()[1]) << 10

options = json.loads(sys.argv[4])
for _ in range(2):
    _, before = peak(sys.argv[1], "20M", **options)
result, after = peak(sys.argv[2], "40M", **options)
print(json.dumps([result.history[0]["plan"], result.converged, after - before]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are those of Linux")
@pytest.mark.parametrize("options", [{"solver": "newton"}, {"solver": "pegasos", "passes": 3}], ids=str)
def test_two_thousand_blocks(tmp_path, options):
    random = np.random.default_rng(0)
    X = random.standard_normal((270_000, 30)).astype(np.float32)
    y = (X[:, 0] + random.standard_normal(len(X)) > 0.0).astype(np.int8)
    paths = [write_h5(tmp_path / f"{size}.h5", X[:size], y[:size]) for size in (3_000, len(X))]
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *paths, str(16 << 10), json.dumps(options)],
        capture_output=True, text=True, timeout=HANGS, check=True,
    )  # fmt: skip
    plan, converged, more = json.loads(run.stdout)
    assert 1900 < plan["blocks"] < 2100 and converged == (options["solver"] == "newton")
    assert more <= plan["memory_bytes"]
