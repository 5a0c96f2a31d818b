"""Logistic regression on two workers of dask: streammargin, dask-ml and gblinear of xgboost, on the same rows.

    python -m examples.benchmarks.cluster_peers FOLDER [--rows 2000000] [--who "ours;dask-ml, newton"] [--kill]

FOLDER takes the file of rows and the optimum, which are made once, by `ours`. Each is run with more and more
iterations. The table has the first run within 1e-3 of the optimum: its seconds, CPU seconds of all processes, and what
each worker used. With --kill, a worker is ended by SIGKILL in the middle of that run. The peers may be installed in an
environment of their own.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import h5py
import numpy as np
from distributed import Client, LocalCluster

COLUMNS, C, CHUNK, WITHIN, LONGEST = 50, 1.0, 125_000, 1e-3, 300.0
Fit = Callable[[Client, Any, Any, int], np.ndarray]  # weights (51,), the constant last


def part(path: str, name: str, start: int, stop: int) -> np.ndarray:
    with h5py.File(path) as file:
        found = file[name][start:stop]
    return found if name == "X" else (found > 0).astype(np.int64)


def array(path: str, name: str, rows: int) -> Any:
    """An Array that reads its chunks from the file."""
    tail, dtype = ((COLUMNS,), np.float32) if name == "X" else ((), np.int64)
    parts = [
        da.from_delayed(
            dask.delayed(part)(path, name, k, min(rows, k + CHUNK)), (min(rows, k + CHUNK) - k, *tail), dtype
        )
        for k in range(0, rows, CHUNK)
    ]
    return da.concatenate(parts)


def objective(path: str, w: np.ndarray, penalised: bool) -> float:
    """1/2 ||w||^2 + C times the sum of the losses; penalised: the constant, too."""
    free = w[:-1] if not penalised else w
    total = 0.5 * float(free @ free)
    with h5py.File(path) as file:
        for k in range(0, len(file["y"]), CHUNK):
            margins = np.where(file["y"][k : k + CHUNK] > 0, 1.0, -1.0) * (file["X"][k : k + CHUNK] @ w[:-1] + w[-1])
            total += C * float(np.logaddexp(0.0, -margins).sum())
    return total


class Refused(Exception):
    """A peer does not offer this method."""


def ours(client: Client, X: Any, y: Any, iterations: int) -> np.ndarray:
    import streammargin as sm

    model = sm.dask.train(client, (X, y), loss="logistic", C=C, passes=iterations, tol=1e-9, memory="256M").model
    return np.append(model.coef_[0], model.intercept_)


def dask_ml(solver: str) -> Fit:
    def fit(client: Client, X: Any, y: Any, iterations: int) -> np.ndarray:
        from dask_ml.linear_model import LogisticRegression

        with client.as_current():
            held = client.persist([X, y])
            found = LogisticRegression(C=C, solver=solver, max_iter=iterations, tol=1e-12).fit(*held)
        return np.append(np.ravel(found.coef_), found.intercept_)

    return fit


def xgboost(client: Client, X: Any, y: Any, iterations: int) -> np.ndarray:
    from xgboost import dask as on_dask

    given = {"booster": "gblinear", "objective": "binary:logistic", "lambda": 1.0 / (C * len(X)), "eta": 0.5}
    with client.as_current():
        held = on_dask.DaskDMatrix(client, *client.persist([X, y]))
        try:
            trained = on_dask.train(client, given, held, num_boost_round=iterations)
        except NotImplementedError as error:  # as of xgboost 3.2 for gblinear
            raise Refused(str(error)) from error
    text = trained["booster"].get_dump()[0].split()
    numbers = [float(word) for word in text if word not in ("bias:", "weight:")]
    return np.array([*numbers[1:], numbers[0]])


PEERS: dict[str, tuple[Fit, bool, list[int]]] = {  # whether the constant is penalised, iterations
    "ours": (ours, True, [3, 4, 5, 6, 8]),
    "dask-ml, newton": (dask_ml("newton"), True, [2, 3, 4, 6]),
    "dask-ml, lbfgs": (dask_ml("lbfgs"), True, [5, 10, 20, 40]),
    "dask-ml, admm": (dask_ml("admm"), True, [5, 20, 60]),
    "xgboost, gblinear": (xgboost, False, [5, 20, 80, 320]),
}


def used() -> tuple[float, int]:
    """CPU seconds of this process so far, and the bytes that it read."""
    with open("/proc/self/io") as file:
        return time.process_time(), int(file.readline().split()[1])


def since(before: list[tuple[float, int]], client: Client) -> tuple[list[tuple[float, int]], str]:
    """What this process and each worker used so far, and the text of what is new: all CPU seconds, each worker's."""
    now = [used(), *(told for _, told in sorted(client.run(used).items()))]
    more = [(cpu - begun, read - had) for (cpu, read), (begun, had) in zip(now, before or now, strict=True)]
    each = ", ".join(f"{cpu:.1f} s {read >> 20} MB" for cpu, read in more[1:])
    return now, f"{sum(cpu for cpu, _ in more):.1f} | {each}"


def run(path: str, rows: int, name: str, optimum: float, kill: bool) -> str:
    fit, penalised, tries = PEERS[name]
    told = ""
    for iterations in tries:
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            X, y = array(path, "X", rows), array(path, "y", rows)
            fit(client, X, y, 1)  # compiles
            before, started = since([], client)[0], time.perf_counter()
            w = fit(client, X, y, iterations)
            seconds, (_, spent) = time.perf_counter() - started, since(before, client)
            gap = objective(path, w, penalised) / optimum - 1.0
            told = f"| {name} | {iterations} | {seconds:.1f} | {spent} | {gap:.1e} |"
            if gap > WITHIN:
                continue
            return told + (f" {killed(client, fit, X, y, iterations, seconds, w)} |" if kill else "")
    return told + " not reached |"


def killed(client: Client, fit: Fit, X: Any, y: Any, iterations: int, seconds: float, w: np.ndarray) -> str:
    """What becomes of the same run if a worker is killed in its middle."""
    ended: list[Any] = []

    def again() -> None:
        try:
            found = fit(client, X, y, iterations)
            ended.append("the same bits" if np.array_equal(found, w) else f"differs by {abs(found - w).max():.1e}")
        except Exception as error:
            ended.append(f"{type(error).__name__}: {str(error).splitlines()[0][:100]}")

    started, thread = time.perf_counter(), threading.Thread(target=again, daemon=True)
    of_worker = client.run(os.getpid)
    thread.start()
    thread.join(seconds / 2)
    os.kill(sorted(of_worker.values())[0], signal.SIGKILL)
    thread.join(LONGEST)
    return f"{time.perf_counter() - started:.1f} s, {ended[0]}" if ended else f"no end within {LONGEST:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--who", default=";".join(PEERS), help="names, with semicolons between (default: %(default)s)")
    parser.add_argument("--kill", action="store_true")
    given = parser.parse_args()
    path, known = str(given.folder / f"rows-{given.rows}-{COLUMNS}.h5"), given.folder / f"optimum-{given.rows}.txt"
    if not known.exists():
        import streammargin as sm
        from examples.benchmarks.cluster import rows_of

        given.folder.mkdir(exist_ok=True)
        rows_of(given.folder, given.rows, COLUMNS)
        known.write_text(str(sm.train(path, loss="logistic", C=C, tol=1e-6).certificate.primal))
    print(
        "| who | iterations | s | CPU s | each worker: CPU, read | above the optimum |"
        + " a worker killed |" * given.kill
    )
    for name in given.who.split(";"):
        try:
            print(run(path, given.rows, name, float(known.read_text()), given.kill), flush=True)
        except Refused as error:
            print(f"| {name} | refused: {error} |", flush=True)


if __name__ == "__main__":  # workers import this file
    main()
