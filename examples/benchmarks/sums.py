"""CPU of the look at frozen weights over that of the sweep that stays beside it (docs/architecture.md).

    python -m examples.benchmarks.sums          median of 7 short slices, in turns

Rows are float32, dense or CSR, of one line of weights or ten.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from streammargin.compiled import certificate, look
from streammargin.losses import terms
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock
from streammargin.rows.labels import Labels, numbered_from

SLICES, SECONDS = 7, 0.03  # CPU seconds of a slice, about
Call = Callable[[], None]


def dense(rng: np.random.Generator, rows: int, columns: int) -> Block:
    return DenseBlock(rng.standard_normal((rows, columns)).astype(np.float32), 1.0)


def sparse(rng: np.random.Generator, rows: int, columns: int, entries: int) -> Block:
    share = np.arange(1, columns + 1) ** -0.8
    each = [np.unique(rng.choice(columns, entries, p=share / share.sum())) for _ in range(rows)]
    ends = np.cumsum([0, *map(len, each)])
    values = rng.random(ends[-1], np.float32) / np.float32(entries**0.5)
    return CSRBlock(values, np.concatenate(each).astype(np.uint32), ends, columns, 1.0)


def calls(rng: np.random.Generator, block: Block, K: int, name: str) -> dict[str, tuple[Call, Call]]:
    """For each kernel: (its call, the same sums by the look)."""
    rows, width, loss, numbers = block.rows(), block.features() + 1, terms(name), numbered_from(0)
    classes, active, zero = max(K, 2), np.arange(K), np.zeros(K)
    labels = Labels(
        rng.integers(0, classes, rows).astype(np.int16), np.arange(classes - K, classes) if K == 1 else active,
        np.ones((K, classes)), np.empty(0), np.empty(0),
    )  # fmt: skip
    w = rng.standard_normal((K, width)) / 5.0
    blur, none, wrong = 1e-16 * np.linalg.norm(w, axis=1), np.zeros((K, 0)), np.zeros(1, np.int64)
    alpha, image, no_sleep = np.full((K, rows), 0.5), np.zeros((K, width)), none
    point = look.Point(w[None], np.zeros((1, K)), blur[None])

    def looked(rule: look.Prox) -> None:
        found = look.Found(
            np.zeros((1, K, look.LOSS_SUMS)), np.zeros((K, 1, look.DUAL_SUMS)), np.zeros((K, 1, width)), wrong[None]
        )  # fmt: skip
        look.look(block, numbers, labels, loss, active, point, rule, found)

    def certified(alpha: np.ndarray, theta: np.ndarray) -> None:
        certificate.certify_block(
            block, numbers, labels, loss, 1, w, blur, alpha, no_sleep.astype(np.uint8), theta,
            certificate.new_sums(K), wrong,
        )  # fmt: skip

    return {
        "certify_block": (
            lambda: certified(alpha, image),
            lambda: looked(look.Prox(alpha, none, zero + np.inf, zero)),
        ),
        "certify_block, no duals": (
            lambda: certified(none, none),
            lambda: looked(look.Prox(none, none, zero, zero)),
        ),
    }  # fmt: skip


def cpu(call: Call, times: int) -> float:
    before = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - before) / times


def main() -> None:
    rng = np.random.default_rng(0)
    blocks = {
        "dense 30": dense(rng, 40000, 30), "dense 200": dense(rng, 10000, 200), "dense 784": dense(rng, 3000, 784),
        "CSR": sparse(rng, 10000, 47236, 75),
    }  # fmt: skip
    for where, block in blocks.items():
        for K in (1, 10):
            for name in ("hinge", "logistic"):
                for kernel, pair in calls(rng, block, K, name).items():
                    for call in pair:
                        call()  # compiles
                    times = max(1, int(SECONDS / max(1e-4, cpu(pair[1], 1))))
                    slices = [[cpu(call, times) for call in pair] for _ in range(SLICES)]
                    ours, looks = (median(each) for each in zip(*slices, strict=True))
                    print(f"{where:10} lines {K:2}  {name:9} {kernel:24} {looks / ours:.2f}", flush=True)


if __name__ == "__main__":
    main()
