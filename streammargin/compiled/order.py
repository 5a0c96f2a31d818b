"""Seeded permutations and random numbers, for the order of rows and blocks; the same on every machine.

Creating a NumPy generator takes longer than visiting a few hundred rows. A pass over a file needs one for each of
thousands of blocks. So the generator is SplitMix64, whose state is one number (Steele, Lea and Flood 2014, Fast
splittable pseudorandom number generators, with Stafford's mix 13).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import SampleBlock

WORD = (1 << 64) - 1
STATE_STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
ONE, _11, _27, _30, _31, _32 = (np.uint64(bits) for bits in (1, 11, 27, 30, 31, 32))


def permutation(size: int, *seed: int) -> np.ndarray:
    """A permutation of range(size), int64, drawn from these numbers (all >= 0); size < 2^32."""
    order = np.arange(size)
    if size > 1:
        with np.errstate(over="ignore"):  # words wrap around; NumPy would warn without the JIT
            shuffle(order, np.array(list(_words(seed)), np.uint64))
    return order


def uniforms(size: int, *seed: int) -> np.ndarray:
    """Random numbers in [0, 1), (size,) float64, drawn from these numbers (all >= 0)."""
    values = np.empty(size)
    with np.errstate(over="ignore"):
        draw(values, np.array(list(_words(seed)), np.uint64))
    return values


def _words(seed: tuple[int, ...]) -> Iterator[int]:
    """The numbers in words of 64 bits."""
    for number in map(int, seed):
        yield number & WORD
        while (number := number >> 64) > 0:
            yield number & WORD


@register_jitable
def mixed(word: np.uint64) -> np.uint64:
    """A word (uint64) each bit of which depends on all bits of the argument."""
    word = (word ^ (word >> _30)) * FIRST_FACTOR
    word = (word ^ (word >> _27)) * SECOND_FACTOR
    return word ^ (word >> _31)


@register_jitable
def seeded(words: np.ndarray) -> np.uint64:
    """The first state for these words (uint64)."""
    state = np.uint64(words.size)
    for word in words:
        state = mixed(state + STATE_STEP) ^ word
    return mixed(state)


@kernel
def draw(values, words):
    """Fill values (m,) float64 with numbers in [0, 1): the upper 53 bits of each word."""
    state = seeded(words)
    for place in range(values.size):
        state += STATE_STEP
        values[place] = np.float64(mixed(state) >> _11) * 2.0**-53


@kernel
def shuffle(order, words):
    """Shuffle an array in place, seeded by words (uint64) (Fisher and Yates; Durstenfeld 1964)."""
    state = seeded(words)
    for last in range(order.size - 1, 0, -1):
        state += STATE_STEP
        # the upper half of the word, scaled to 0 .. last
        place = np.int64(((mixed(state) >> _32) * (np.uint64(last) + ONE)) >> _32)
        order[last], order[place] = order[place], order[last]


def warm(sample: SampleBlock) -> None:
    permutation(2, 0)
    uniforms(2, 0)
