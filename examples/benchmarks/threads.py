"""What do more threads gain? Wall and CPU seconds with 1, 2, ... threads in turns, beside those with one.

    python -m examples.benchmarks.threads [--data FOLDER] [--most N] [--repeats 5] [--rows 600000]

With `--most 2 --repeats 3` it takes some five minutes. Of each row of the table the median of the repeats is printed,
and whether the bits of all models agree. *alone*: the share of the CPU seconds, with one thread, that threads do not
share; it depends little on what else runs. The trainings are to a certified 1e-3 in memory. The last rows read a file
out of core, from the page cache.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from unittest import mock

import numpy as np

import streammargin as sm
from examples.benchmarks.sets import load, make
from streammargin.workers import Workers, cores

Work = Callable[[int], bytes]  # of a number of threads; the bits that it must not change


def made(rows: int, columns: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes, float32."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns), dtype=np.float32)
    scores = X @ rng.standard_normal((columns, classes), dtype=np.float32)
    noise = 0.6 * np.sqrt(columns) * rng.standard_normal((rows, classes), dtype=np.float32)
    return X, (scores + noise).argmax(1)


def training(data: object, **options: object) -> Work:
    return lambda threads: sm.train(data, threads=threads, **options).model.coef_.tobytes()  # type: ignore[arg-type]


def of_model(data: tuple[np.ndarray, np.ndarray]) -> Iterator[tuple[str, Work]]:
    """A certificate, predictions and figures of a model of these rows."""
    model = sm.train(data, passes=1, tol=0.5).model
    yield "certificate", training(data, init=model, solver="newton", tol=0.9)
    yield "predict", lambda threads: model.predict(data[0], threads=threads).tobytes()
    yield "evaluate", lambda threads: repr(model.evaluate(data, threads=threads)).encode()


def works(rows: int, mnist: str | None, folder: str) -> Iterator[tuple[str, Work]]:
    """Everything that is measured, by name."""
    wide = made(rows, 200, 2)
    yield f"{rows:,} x 200", training(wide)
    yield f"{rows:,} x 200, logistic, l1", training(wide, loss="logistic", penalty="l1", C=1e-3)
    for name, work in of_model(wide):
        yield f"{rows:,} x 200, {name}", work
    path = os.path.join(folder, "rows.h5")
    sm.write_hdf5([wide], path)
    del wide
    yield f"{5 * rows // 6:,} x 54, seven classes", training(made(5 * rows // 6, 54, 7))
    if mnist is not None:
        X, y, *_ = load("mnist10", make("mnist10", mnist, folder))
        yield "MNIST, ten classes", training((X, y))
        yield "MNIST, ten classes, logistic, ovr", training((X, y), loss="logistic", multiclass="ovr")
    budget = max(rows * 200 * 4 // 4, 32 << 20)
    yield from ((f"{5 * rows:,} x 20, {name}", work) for name, work in of_model(made(5 * rows, 20, 2)))
    yield f"{rows:,} x 200, a quarter in memory", training(path, memory=budget)
    yield f"{rows:,} x 200, a quarter in memory, logistic", training(path, memory=budget, loss="logistic")


def measured(work: Work, most: int, repeats: int) -> tuple[dict[int, list[tuple[float, float]]], bool]:
    """(Wall and CPU seconds of each repeat by the number of threads, whether all bits agree)."""
    bits = {work(threads) for threads in range(1, most + 1)}  # compiles, too
    seconds: dict[int, list[tuple[float, float]]] = {threads: [] for threads in range(1, most + 1)}
    for _ in range(repeats):
        for threads, found in seconds.items():
            started, spent = time.perf_counter(), time.process_time()
            bits.add(work(threads))
            found.append((time.perf_counter() - started, time.process_time() - spent))
    return seconds, len(bits) == 1


def alone(work: Work) -> float:
    """The share of the CPU seconds outside the pieces of work that threads would share."""
    each, inside, deep = Workers.each, 0.0, False

    def timed(
        self: Workers, do: Callable[..., object], pieces: Iterable[object], most: int | None = None
    ) -> Iterator[object]:  # fmt: skip
        def one(piece: object) -> object:
            nonlocal inside, deep
            if deep:
                return do(piece)
            deep, begun = True, time.thread_time()
            try:
                return do(piece)
            finally:
                deep, inside = False, inside + time.thread_time() - begun

        return each(self, one, pieces, most)

    begun = time.process_time()
    with mock.patch.object(Workers, "each", timed):
        work(1)
    return 1.0 - inside / (time.process_time() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="FOLDER", help="where MNIST is, as distributed")
    parser.add_argument("--most", type=int, default=cores(), help="most threads (default: all cores)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=600_000)
    options = parser.parse_args()
    counts = range(2, options.most + 1)
    print("| | s | " + " | ".join(f"{n} threads" for n in counts) + " | CPU | alone | bits |")
    print("|" + "---|" * (len(counts) + 5))
    with tempfile.TemporaryDirectory() as folder:
        for name, work in works(options.rows, options.data, folder):
            seconds, same = measured(work, options.most, options.repeats)
            wall, cpu = (
                {n: statistics.median(one[at] for one in found) for n, found in seconds.items()} for at in (0, 1)
            )
            gains = " | ".join(f"{wall[1] / wall[n]:.2f}" for n in counts)
            last = f"{cpu[options.most] / cpu[1]:.2f} | {alone(work):.2f} | {'same' if same else 'OTHERS'}"
            print(f"| {name} | {wall[1]:.2f} | {gains} | {last} |", flush=True)


if __name__ == "__main__":
    main()
