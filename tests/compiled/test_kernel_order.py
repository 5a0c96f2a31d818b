"""Orders are those of SplitMix64, written down here with Python's integers, and each is as likely as another."""

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from streammargin.compiled.order import mixed, permutation, uniforms

WORD = (1 << 64) - 1


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
    return z ^ (z >> 31)


def first_state(seed):
    state = len(seed)
    for word in seed:
        state = mix(state + 0x9E3779B97F4A7C15 & WORD) ^ word
    return mix(state)


def order_of(size, *seed):
    state, order = first_state(seed), list(range(size))
    for last in range(size - 1, 0, -1):
        state = state + 0x9E3779B97F4A7C15 & WORD
        place = (mix(state) >> 32) * (last + 1) >> 32
        order[last], order[place] = order[place], order[last]
    return order


def test_the_words_are_those_of_the_paper():
    """The first words from the states 0 and 1234567, as published with the generator."""
    state = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        assert int(mixed(state)) == mix(int(state)) == 0xE220A8397B1DCDAF
        assert int(mixed(state + np.uint64(1234567))) == 6457827717110365317


@pytest.mark.parametrize("size", [0, 1, 2, 1000])
@pytest.mark.parametrize("seed", [(), (3,), (3, 1, 4), (2**40, 0)])
def test_the_order_of_a_seed(size, seed):
    order = permutation(size, *seed)
    assert order.dtype == np.int64 and order.tolist() == order_of(size, *seed)


@pytest.mark.parametrize("seed", [(), (3,), (3, 1, 4), (2**40, 0)])
def test_the_random_numbers_of_a_seed(seed):
    state, expected = first_state(seed), []
    for _ in range(1000):
        state = state + 0x9E3779B97F4A7C15 & WORD
        expected.append((mix(state) >> 11) / 2**53)
    numbers = uniforms(1000, *seed)
    assert numbers.tolist() == expected and uniforms(0, *seed).size == 0
    assert chisquare(np.histogram(numbers, 20, (0.0, 1.0))[0]).pvalue > 1e-3


def test_every_order_is_as_likely_as_another():
    """For seeds as they come: small words that follow one another."""
    for seeds in (
        [(0, number) for number in range(24_000)],
        [(seed, 1, 7) for seed in range(24_000)],
        [(0, number, 512 * block) for number in range(1, 25) for block in range(1000)],
    ):
        drawn = [tuple(permutation(4, *seed).tolist()) for seed in seeds]
        counts = [drawn.count(order) for order in itertools.permutations(range(4))]
        assert chisquare(counts).pvalue > 1e-3


def test_where_a_row_comes_does_not_depend_on_where_it_came_in_the_pass_before():
    one, next_one = permutation(50_000, 0, 1), permutation(50_000, 0, 2)
    assert abs(np.corrcoef(one, next_one)[0, 1]) < 0.02
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.02
