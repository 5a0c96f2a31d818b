"""Orders of rows and blocks: seeded, the same on every machine.

A generator of NumPy takes longer to make than a few hundred rows to visit, and a pass over a file wants one for each of
thousands of blocks. These orders are drawn by SplitMix64 (Steele, Lea and Flood 2014, Fast splittable pseudorandom
number generators, with Stafford's mix 13), whose state is one number.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import Sample

WORD = (1 << 64) - 1
STEP, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
ONE, _27, _30, _31, _32 = (np.uint64(bits) for bits in (1, 27, 30, 31, 32))


def permutation(size: int, *seed: int) -> np.ndarray:
    """A permutation of range(size), int64, drawn from these numbers (all >= 0); size < 2^32."""
    order = np.arange(size)
    if size > 1:
        with np.errstate(over="ignore"):  # words wrap around; of use without the JIT only
            shuffle(order, np.array(list(_words(seed)), np.uint64))
    return order


def _words(seed: tuple[int, ...]) -> Iterator[int]:
    """The numbers in pieces of 64 bits: one of each, but for seeds that are longer."""
    for number in map(int, seed):
        yield number & WORD
        while (number := number >> 64) > 0:
            yield number & WORD


@register_jitable
def mixed(word):
    """A word (uint64) all of whose bits depend on all of this one's."""
    word = (word ^ (word >> _30)) * FIRST
    word = (word ^ (word >> _27)) * SECOND
    return word ^ (word >> _31)


@kernel
def shuffle(order, words):
    """Shuffle an array, as the seed words (uint64) say (Fisher and Yates; Durstenfeld 1964)."""
    state = np.uint64(words.size)
    for word in words:
        state = mixed(state + STEP) ^ word
    state = mixed(state)
    for last in range(order.size - 1, 0, -1):
        state += STEP
        # the upper half of the word as a part of 1, times the number of places
        place = np.int64(((mixed(state) >> _32) * (np.uint64(last) + ONE)) >> _32)
        order[last], order[place] = order[place], order[last]


def warm(sample: Sample) -> None:
    permutation(2, 0)
