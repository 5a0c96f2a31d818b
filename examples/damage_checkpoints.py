"""Damages checkpoints, and the data under them, at random and counts the damage that was not noticed.

    python examples/damage_checkpoints.py [--times 1000] [--data 100] [--seed 0]

--times: bytes of a slot are cut or flipped, and the slot must be refused.

--data: one value of a file is changed at a random place, and the file's times are restored. This happens before,
while or after a training with checkpoints is stopped. The training must end with an error that names the file. If it
had not read that row yet, it may instead end with the exact weights of a training on the changed file.

Exit code 1 if damage went unnoticed.
"""

import argparse
import logging
import os
import random
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp

import streammargin as sm
from streammargin.driver.save.checkpoint import SLOTS
from streammargin.driver.save.slots import read_slot

ROWS, COLUMNS = 20_000, 60  # several blocks of 1 MiB
WAYS = [
    {"solver": "sdca"},
    {"solver": "sdca", "scale": "std"},
    {"solver": "newton"},
    {"solver": "pdprox", "penalty": "l1"},
    {"solver": "adaptive", "C": float("inf")},
]


def damaged(content, moments):
    """The bytes without their end, or with one to four bits flipped."""
    if moments.random() < 0.3:
        return content[: moments.randrange(len(content))]
    changed = bytearray(content)
    for place in moments.sample(range(8 * len(content)), moments.randint(1, 4)):
        changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def damage_slots(times, moments, rng):
    """The number of damaged slots, of this many, that were accepted as intact."""
    X = rng.standard_normal((300, 8))
    taken = 0
    with tempfile.TemporaryDirectory() as folder:
        sm.train((X, np.where(X[:, 0] + 0.5 * X[:, 1] > 0.1, 1, -1)), checkpoint=folder, passes=5, tol=0)
        slots = [path for name in SLOTS if (path := Path(folder, name)).exists()]
        whole = [path.read_bytes() for path in slots]
        for _ in range(times):
            number = moments.randrange(len(slots))
            slots[number].write_bytes(damaged(whole[number], moments))
            try:
                read_slot(str(slots[number]))
            except ValueError:
                continue
            taken += 1
    print(f"{times} damaged slots: {times - taken} refused, {taken} taken for whole ones")
    return taken


def write(path, rng, sparse):
    """Rows that are separated, dense or CSR."""
    X = rng.standard_normal((ROWS, COLUMNS))
    X *= rng.random(X.shape) < (0.4 if sparse else 1.0)
    y = np.where(X @ rng.standard_normal(COLUMNS) > 0.0, 1, -1)
    X[:, 0] += 0.5 * y
    with h5py.File(path, "w") as file:
        file["y"] = y
        if not sparse:
            file["X"] = X
            return
        rows = sp.csr_matrix(X)
        group = file.create_group("X")
        group["data"], group["indices"], group["indptr"] = rows.data, rows.indices, rows.indptr
        group.attrs["shape"] = X.shape


def alter(path, share):
    """Add 1 to the value at this position of the rows, and restore the times of the file."""
    before = os.stat(path)
    with h5py.File(path, "r") as file:
        values = file["X/data"] if isinstance(file["X"], h5py.Group) else file["X"]
        place, dtype = values.id.get_offset() + 8 * int(share * values.size), values.dtype
    with open(path, "r+b") as file:
        file.seek(place)
        value = np.frombuffer(file.read(8), dtype) + 1.0
        file.seek(place)
        file.write(value.tobytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


class Steps:
    """A clock that stops the run at one call, and acts at another."""

    def __init__(self, stop, moment=-1, act=None):
        self.looks, self.stop, self.moment, self.act = 0, stop, moment, act

    def __call__(self):
        if self.looks == self.moment and self.act is not None:
            self.act()
        self.looks += 1
        return "signal" if self.looks > self.stop else None


def damage_data(times, moments, rng):
    """The number of files with an altered value, of this many, on which a training resumed."""
    noticed = unread = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(times):
            path, checkpoint = os.path.join(folder, "data.h5"), os.path.join(folder, f"checkpoint-{number}")
            write(path, rng, sparse=moments.random() < 0.5)
            options = {**moments.choice(WAYS), "memory": "22M", "tol": 0, "passes": 4, "bias": 1.0}
            share, stop = moments.random(), moments.randrange(1, 60)
            moment = moments.randrange(-1, stop + 1)  # -1: when it was stopped

            def act(path=path, share=share):
                alter(path, share)

            try:
                steps = Steps(stop, moment, act)
                result = sm.train(path, checkpoint=checkpoint, should_stop=steps, **options)
                if steps.looks <= moment or moment < 0:
                    act()
                result = sm.train(path, checkpoint=checkpoint, **options)
            except sm.DataError as error:
                noticed += path in str(error)
                continue
            unread += result.model.coef_.tobytes() == sm.train(path, **options).model.coef_.tobytes()
    missed = times - noticed - unread
    print(f"{times} altered values: {noticed} noticed, {unread} not read before, {missed} missed")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--data", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.getLogger("streammargin").setLevel(logging.ERROR)
    moments, rng = random.Random(options.seed), np.random.default_rng(options.seed)
    return int(damage_slots(options.times, moments, rng) + damage_data(options.data, moments, rng) > 0)


if __name__ == "__main__":
    sys.exit(main())
