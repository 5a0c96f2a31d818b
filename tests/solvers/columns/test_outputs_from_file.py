"""Losses of several outputs with penalties over the rows of W, certified from a file of ten times the memory budget.

SLACK_BYTES and the least block are small here, as in tests/solvers/test_out_of_core.py.
"""

import os

import h5py
import numpy as np
import pytest

import streammargin as sm
from streammargin.reading import plan
from streammargin.verification.verify import verify

ROWS, FEATURES, K, C, TOL = 24_000, 10, 3, 0.003, 1e-3
CLASSES = {"hinge": 20, "logistic": 12}  # most reads
TARGETS = {
    "absolute_error": 20, "epsilon_insensitive:0.2": 20, "quantile:0.3": 20, "huber:0.5": 15, "squared_error": 6,
    "l2_error": 20,
}  # fmt: skip
LABELS = {"hinge": 25, "logistic": 12}
LOSSES = [
    (kind, loss, most)
    for kind, losses in (("classes", CLASSES), ("targets", TARGETS), ("labels", LABELS))
    for loss, most in losses.items()
]
PENALTIES = ["l21", "l1inf", "trace", "exclusive", "l2"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same rows with classes, targets (n, K) that share three columns, and labels (n, K) of 0 and 1."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("files")
    X = rng.standard_normal((ROWS, FEATURES)).astype(np.float32)
    Y = X[:, :3] @ rng.standard_normal((3, K)) + 0.5 * rng.standard_t(3, (ROWS, K))
    for name, y in (("classes", Y.argmax(axis=1)), ("targets", Y), ("labels", (Y > 0.0).astype(np.int8))):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["X"], file["y"] = X, y
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("kind, loss, most", LOSSES)
def test_every_pair_is_certified_with_a_tenth_of_the_file_as_memory(
    files, tmp_path, monkeypatch, kind, loss, most, penalty
):
    monkeypatch.setattr(plan, "SLACK_BYTES", 0)
    monkeypatch.setattr(plan, "LEAST_BLOCK_BYTES", 1 << 12)
    path, model = str(files / f"{kind}.h5"), str(tmp_path / "model.npz")
    tenth = os.path.getsize(path) // 10
    multiclass = {"multiclass": "joint"} if kind == "classes" else {}
    result = sm.train(path, loss=loss, penalty=penalty, C=C, tol=TOL, memory=tenth, passes=100, **multiclass)
    planned, gap = result.history[0]["plan"], result.certificate.gap
    assert planned["blocks"] > 10 and planned["memory_bytes"] <= tenth
    assert result.converged and gap <= TOL and result.passes <= most
    result.model.save(model)
    checks = verify(model, path)
    assert [check.name for check in checks if check.agrees is False] == []
    found = next(check.found for check in checks if check.name == "primal")
    assert found * (1.0 - 2.0 * TOL) <= result.certificate.dual <= found
