"""What a state and its workspace declare is what a training allocates, but for what all solvers share."""

import math

import numpy as np
import pytest
from conftest import traced

import streammargin as sm
from streammargin.solvers import roles
from streammargin.solvers.roles import K, N, Rows, W, f8, of, state
from streammargin.solvers.state import State

WIDE = 100_000
SMALL = 4 << 20  # bytes of all that does not grow with the columns, and of the allocator
CASES = [
    ("dual-momentum", math.inf), ("gd", math.inf), ("normalized-gd", math.inf), ("batch-perceptron", math.inf),
    ("homotopic", math.inf), ("diagonal", math.inf), ("inertial-diagonal", math.inf), ("adaptive", math.inf),
    ("pegasos", 1.0), ("perceptron", math.inf), ("mirror", math.inf), ("sdca", 1.0), ("asdca", 1.0), ("pdprox", 1.0),
]  # fmt: skip


@state
class Declared(State):
    workspace = of(2, K, W), of(N)
    alpha: Rows[f8]


@state
class More(Declared):
    workspace = (of(W),)


def test_a_workspace_counts_and_is_no_part_of_the_state():
    class Small:
        count, groups, rows, features, width, trials, dtype = 2, 2, 5, 3, 4, 1, np.dtype(np.float32)

    own = sum(array.bytes for array in roles.layout(More, Small).values())
    assert roles.state_bytes(More, Small) == own + 8 * (2 * 2 * 4 + 5 + 4)
    assert not hasattr(roles.new(More, Small, labels=None), "__dict__") and "workspace" not in roles.layout(More, Small)


@pytest.mark.parametrize("solver, C", CASES)
def test_a_training_allocates_no_more_than_was_declared(solver, C):
    random = np.random.default_rng(0)
    X = random.standard_normal((12, WIDE)).astype(np.float32)
    y = np.where(X[:, 0] > 0.0, 1, -1)
    X[:, 0] += y
    sm.train((X, y), solver=solver, C=C, passes=2)  # compiles
    with traced() as allocated:
        result = sm.train((X, y), solver=solver, C=C, passes=4)
    assert allocated.peak <= result.history[0]["plan"]["memory_bytes"] + SMALL
