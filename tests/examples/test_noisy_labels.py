"""The shell script of noisy labels runs on text as it is distributed, plain and compressed."""

import bz2
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "noisy_labels.sh"
NEEDED = [name for name in ("sh", "awk", "bzip2") if shutil.which(name) is None]


def text(seed, rows):
    """Rows of five columns in LIBSVM's format, with labels that a line through the first two makes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 5))
    labels = np.where(X[:, 0] + X[:, 1] > 0.0, "+1", "-1")
    lines = (" ".join(f"{j}:{value:.4f}" for j, value in enumerate(row, 1)) for row in X)
    return "".join(f"{label} {line}\n" for label, line in zip(labels, lines, strict=True)).encode()


@pytest.mark.skipif(bool(NEEDED), reason=f"{', '.join(NEEDED)} missing")
@pytest.mark.slow
def test_it_compares_the_largest_losses_with_the_plain_hinge(tmp_path):
    (tmp_path / "train.bz2").write_bytes(bz2.compress(text(0, 2000)))
    (tmp_path / "test").write_bytes(text(1, 1000))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    said = {}
    for seed in ("1", "1", "2"):
        done = subprocess.run(
            ["sh", str(SCRIPT), "train.bz2", "test", seed], cwd=tmp_path, env=environment, capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        found = re.fullmatch(r"top: +accuracy +(0\.\d+)\nhinge: +accuracy +(0\.\d+)\n", done.stdout)
        said.setdefault(seed, []).append([float(value) for value in found.groups()])
        assert min(said[seed][-1]) > 0.9
    assert said["1"][0] == said["1"][1] != said["2"][0]
    assert sorted(os.listdir(tmp_path)) == ["test", "train.bz2"]
