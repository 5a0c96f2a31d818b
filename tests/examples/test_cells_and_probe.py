"""The scripts of cells and of a probe run on tiny data, and leave what they say."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import streammargin as sm

ROOT = Path(__file__).parents[2]


def run(tmp_path, *command):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", *command, "--dir", str(tmp_path)], cwd=ROOT, env=environment,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork missing")
def test_cells(tmp_path):
    ad = pytest.importorskip("anndata")
    said = run(tmp_path, "examples.cells", "--cells", "300", "--genes", "90", "--types", "3", "--top", "9", "-C", "1",
               "--path", "0.1,0.5")  # fmt: skip
    assert "of 90 genes are kept" in said and said.count("class type 0") == 6
    few, more = (sm.load_model(tmp_path / f"l21_{C}.npz") for C in ("0.1", "0.5"))
    assert 0 < np.any(few.coef_, axis=0).sum() <= np.any(more.coef_, axis=0).sum() < 90
    with open(tmp_path / "markers.csv") as file:
        markers = list(csv.DictReader(file))
    assert {row["type"] for row in markers} == {"type 00", "type 01", "type 02"}
    assert all(float(row["weight"]) > 0 for row in markers)
    made = ad.read_h5ad(tmp_path / "annotated.h5ad")
    labels, likely = made.obs["predicted"].astype(str), made.obsm["predicted_probability"]
    assert (labels == made.obs["true_type"].astype(str)).mean() > 0.8
    assert made.uns["predicted_classes"].tolist() == ["type 00", "type 01", "type 02"]
    assert labels.tolist() == made.uns["predicted_classes"][likely.argmax(axis=1)].tolist()
    assert abs(likely.sum(axis=1) - 1.0).max() < 1e-6


def test_probe(tmp_path):
    pytest.importorskip("pyarrow")
    small = ["--rows", "400", "--columns", "16", "--classes", "4", "--noise", "1"]
    said = run(tmp_path, "examples.probe", *small, "-C", "0.1,1", "--beside")
    assert said.count("held-out error 0.") == 2 + 4  # of lbfgs, and of SGD
    assert (tmp_path / "probe.html").read_text().startswith("<!")
    assert json.loads((tmp_path / "probe.json").read_text())
