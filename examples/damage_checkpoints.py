"""Cuts and flips bytes of a checkpoint's slots at random and counts the damage that was not refused.

    python examples/damage_checkpoints.py [--times 1000] [--seed 0]

Exit code 1 where a damaged slot was taken for a whole one.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

import numpy as np

import streammargin as sm
from streammargin.driver.checkpoint import SLOTS
from streammargin.driver.slots import read_slot


def damaged(content, moments):
    """The bytes without their end, or with one to four bits flipped."""
    if moments.random() < 0.3:
        return content[: moments.randrange(len(content))]
    changed = bytearray(content)
    for place in moments.sample(range(8 * len(content)), moments.randint(1, 4)):
        changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    moments, rng = random.Random(options.seed), np.random.default_rng(options.seed)
    X = rng.standard_normal((300, 8))
    taken = 0
    with tempfile.TemporaryDirectory() as folder:
        sm.train((X, np.where(X[:, 0] + 0.5 * X[:, 1] > 0.1, 1, -1)), checkpoint=folder, passes=5, tol=0)
        slots = [path for name in SLOTS if (path := Path(folder, name)).exists()]
        whole = [path.read_bytes() for path in slots]
        for _ in range(options.times):
            number = moments.randrange(len(slots))
            slots[number].write_bytes(damaged(whole[number], moments))
            try:
                read_slot(str(slots[number]))
            except ValueError:
                continue
            taken += 1
    print(f"{options.times} damaged slots: {options.times - taken} refused, {taken} taken for whole ones")
    return int(taken > 0)


if __name__ == "__main__":
    sys.exit(main())
