"""Small sets, in a minute or two: time of warm fits, reads out of core, a first fit, and memory.

    asv continuous --config examples/benchmarks/asv/asv.conf.json origin/main HEAD

compares two commits. A pull request runs it (.github/workflows/benchmarks.yml). The other benchmarks are larger, and
compare with other packages; docs/benchmarks has their figures.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

import streammargin as sm

FIRST = """
import resource
import numpy as np
import streammargin as sm
rng = np.random.default_rng(0)
X = rng.standard_normal((569, 30))
sm.train((X, np.where(X[:, 0] > 0, 1, -1)), C=1.0, **%r)
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""


def rows(kind: str) -> tuple[object, np.ndarray]:
    """Rows and labels in which one label in twenty is wrong."""
    rng = np.random.default_rng(0)
    if kind == "text":
        shape, stored = (5_000, 20_000), 60 * 5_000
        X = sp.csr_matrix(
            (rng.random(stored), (np.repeat(np.arange(5_000), 60), rng.integers(0, 20_000, stored))), shape
        )
        scores = X @ rng.standard_normal(20_000)
    else:
        X = rng.standard_normal((20_000, 50))
        scores = X @ rng.standard_normal(50)
    return X, np.where((scores > np.median(scores)) ^ (rng.random(len(scores)) < 0.05), 1, -1)


class Fit:
    """CPU seconds of a fit whose kernels are compiled."""

    params: ClassVar = [["dense", "text"], ["hinge", "logistic"], ["l2", "l1"]]
    param_names: ClassVar = ["rows", "loss", "penalty"]
    timer = staticmethod(time.process_time)
    number, warmup_time, timeout = 1, 0.0, 600

    def setup(self, kind: str, loss: str, penalty: str) -> None:
        self.data = rows(kind)
        self.options = {"loss": loss, "penalty": penalty, "C": 0.1}
        sm.train(self.data, **self.options)

    def time_fit(self, kind: str, loss: str, penalty: str) -> None:
        sm.train(self.data, **self.options)


class OutOfCore:
    """A file of 64 MB within 16 MB: how often it is read, and how far the process grows."""

    timeout = 600

    def setup(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "rows.h5")
        rng = np.random.default_rng(0)
        w = rng.standard_normal(100)

        def batches():
            for _ in range(16):
                X = rng.standard_normal((10_000, 100)).astype(np.float32)
                yield X, np.where(X @ w + 5 * rng.standard_normal(10_000) > 0, 1, -1)

        sm.write_hdf5(batches(), self.path)

    def teardown(self) -> None:
        self.folder.cleanup()

    def _train(self) -> sm.TrainResult:
        return sm.train(self.path, C=0.01, memory="16M")

    def track_reads(self) -> float:
        events = self._train().history
        read = sum(event["bytes_read"] for event in events if event["event"] == "pass_end")
        return read / os.path.getsize(self.path)

    track_reads.unit = "reads"  # type: ignore[attr-defined]

    def track_growth(self) -> float:
        sm.train(self.path, C=0.01, memory="16M", passes=1, tol=0.5)  # the kernels are compiled
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._train()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0

    track_growth.unit = "MiB"  # type: ignore[attr-defined]


class First:
    """CPU seconds of a process whose first fit compiles what it needs."""

    params: ClassVar = [["hinge", "logistic"]]
    param_names: ClassVar = ["loss"]
    timeout = 600

    def track_cpu(self, loss: str) -> float:
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "STREAMMARGIN_SHIPPED": "0"}
            done = subprocess.run(
                [sys.executable, "-c", FIRST % {"loss": loss}],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
        return float(done.stdout)

    track_cpu.unit = "s"  # type: ignore[attr-defined]
