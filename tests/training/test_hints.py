"""What a refusal advises works: each hint is followed to the letter."""

from __future__ import annotations

import itertools
import math
import random
import re
from contextlib import ExitStack

import numpy as np
import pytest

import streammargin as sm
from streammargin.errors import UsageError
from streammargin.losses import LOSSES
from streammargin.options.table import Options
from streammargin.solvers.registry import names
from streammargin.training.prepare import prepare

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 4))
ZEROS_AND_ONES = (RNG.random((12, 3)) < 0.5).astype(float)
ZEROS_AND_ONES[:2] = [[0.0] * 3, [1.0] * 3]
DATA = {
    "two classes": (X, np.arange(12) % 2),
    "three classes": (X, np.arange(12) % 3),
    "three labels": (X, ZEROS_AND_ONES),
    "three targets": (X, RNG.standard_normal((12, 3))),
    "one target": (X, RNG.standard_normal(12)),
}
PENALTIES = ["l2", "l1", "lp:1.5", "linf", "l21", "trace", "trace:0.5", "l2:low=0"]
GRID = list(itertools.product(
    [*LOSSES, "hinge:top=5", "absolute_error:top=5", None], PENALTIES, names(), [None, "ovr", "joint"],
    [None, 1.0, math.inf], [None, "free", 0.0],
))  # fmt: skip
NAMED = ("loss", "penalty", "solver", "multiclass", "C", "bias")
STEPS = 6  # hints that follow one another; the first that several faults need is told first
WORD = re.compile(r"leave out `(?P<out>\w+)(?:=[^`]*)?`|`(?P<name>\w+)=(?P<value>[^`]*)`|(?P<finite>a finite C)")


def refusal(data, options):
    """What `sm.train` says of these options; None if a solver supports them. Nothing is trained."""
    try:
        with ExitStack() as stack:
            prepare(stack, DATA[data], Options.of(options))
    except sm.StreamMarginError as error:
        return error
    return None


def advised(error, options):
    """The options after each hint that the sentence names."""
    found = []
    for hint in error.raw.rpartition("; ")[2].split(", or "):
        change = {}
        for word in WORD.finditer(hint):
            if word["out"]:
                change[word["out"]] = None
            elif word["finite"]:
                change["C"] = 1.0
            else:
                change[word["name"]] = float(word["value"]) if word["name"] in ("bias", "C") else word["value"]
        if hint.endswith("leave it out"):  # of the option that the sentence begins with
            change[error.raw[1 : error.raw.index("`", 1)]] = None
        if change:
            found.append({name: value for name, value in {**options, **change}.items() if value is not None})
    return found


@pytest.mark.parametrize("data", DATA)
def test_what_a_refusal_advises_works(data):
    of_solvers = 0
    for values in random.Random(0).sample(GRID, 100):
        options = {name: value for name, value in zip(NAMED, values, strict=True) if value is not None}
        error = refusal(data, options)
        for _ in range(STEPS):
            if error is None:
                break
            following = advised(error, options)
            assert following, (options, error.raw)
            others = [refusal(data, other) for other in following]
            if isinstance(error.__context__, sm.errors.Refusal):  # its hints were tried
                of_solvers += 1
                assert not any(others), (options, error.raw, others)
            options, error = following[0], others[0]
        assert error is None, (options, error.raw)
    assert of_solvers > 10


@pytest.mark.parametrize(
    "data, options, message",
    [
        (
            "two classes",
            {"penalty": "trace", "C": math.inf},
            'l2 and lp, not for penalty="trace.*"; give a finite C, or use penalty="l2"$',
        ),
        (
            "three classes",
            {"penalty": "trace", "C": math.inf},
            'l2 and lp, not for penalty="trace.*"; give a finite C, or use penalty="l2"$',
        ),
        ("two classes", {"penalty": "trace", "solver": "sdca"}, "sdca does not take penalty=.trace:1. "),
        (
            "three targets",
            {"loss": "l2_error", "solver": "pegasos"},
            'pegasos trains each target separately, and the loss joins them; use solver="newton"$',
        ),
        (
            "three targets",
            {"loss": "squared_error", "solver": "pegasos", "penalty": "l21"},
            'pegasos trains each class or output separately, and penalty="l21" joins them; use solver="newton"$',
        ),
        (
            "three classes",
            {"loss": "hinge:top=5", "multiclass": "joint"},
            r'the loss hinge:top=5 has no form for all classes .*; use multiclass="ovr", or loss="hinge"$',
        ),
        (
            "three classes",
            {"loss": "logistic", "penalty": "lp:1.5"},
            'p = 2 only, .*; use multiclass="ovr", or penalty="l2"$',
        ),
        (
            "three classes",
            {"loss": "hinge", "penalty": "lp:1.5", "multiclass": "joint", "solver": "asdca"},
            'neither momentum .*; use multiclass="ovr"',
        ),
        ("three targets", {"loss": "l2_error", "penalty": "lp:1.5"}, 'p = 2 only, not 1.5; use penalty="l2", or loss='),
        (
            "two classes",
            {"kernel": "rbf", "C": "path:3", "valid": DATA["two classes"]},
            'no default first C; name its ends, as in C="path:3,low=0.01,high=10"$',
        ),
        (
            "two classes",
            {"kernel": "rbf:0.5", "loss": "logistic"},
            'the losses hinge, .*, not logistic; use map="rff:500,gamma=0.5" in place of kernel, or loss="hinge"$',
        ),
        (
            "two classes",
            {"kernel": "poly:3", "loss": "logistic"},
            'takes the losses hinge, .*, not logistic; use loss="hinge"$',
        ),
        (
            "three classes",
            {"kernel": "rbf", "multiclass": "joint"},
            'one class against the rest at a finite C; use multiclass="ovr"$',
        ),
        (
            "three classes",
            {"kernel": "rbf", "multiclass": "joint", "C": math.inf, "bias": "free"},
            'without a constant; use multiclass="ovr", or bias=0$',
        ),
        (
            "two classes",
            {"kernel": "rbf", "solver": "diagonal", "bias": "free"},
            'without a constant; use solver="smo" and C=math.inf, or bias=0$',
        ),
        ("two classes", {"loss": "exponential", "C": 1.0}, "exponential lacks .*; use loss=.hinge.$"),
    ],
)
def test_mends_of_several_outputs(data, options, message):
    with pytest.raises(UsageError, match=message):
        sm.train(DATA[data], **options)


def test_a_map_in_place_of_a_kernel_solves_nearly_the_same_problem():
    mapped = sm.train(DATA["two classes"], map="rff:500,gamma=0.5", loss="logistic")
    assert mapped.converged and mapped.model.header["C"] == 1.0
