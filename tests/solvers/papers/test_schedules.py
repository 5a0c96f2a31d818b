"""How the penalty of a diagonal method falls, and the words for it."""

import math

import pytest
from reference.datasets import separable

import streammargin as sm
from streammargin.solvers.papers.diagonal import DECAYS


@pytest.mark.parametrize(
    ("decay", "t", "expected"),
    [
        ("linear", 10, 10.0),
        ("sqrt", 9, 3.0),
        ("log", 1, 0.0),
        ("log", 8, math.log(8)),
        ("square", 3, 9.0),
        ("exponential", 5, 32.0),
        ("exponential", 1023, 2.0**1023),
        ("exponential", 1024, math.inf),
        ("exponential", 2000, math.inf),
    ],
)
def test_the_five_decays(decay, t, expected):
    assert DECAYS[decay](t) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("cls", [sm.solvers.Diagonal, sm.solvers.InertialDiagonal])
@pytest.mark.parametrize("decay", DECAYS)
def test_words_of_the_penalty(cls, decay):
    word = f"{cls.name}:4,decay={decay}"
    known, canonical = cls(4.0, decay=decay), str(cls(4, decay=decay))
    assert sm.solvers.FAMILY.of(word) == known == sm.solvers.FAMILY.of(canonical)
    assert canonical.startswith(f"{word},gamma=adaptive")


@pytest.mark.parametrize("fields", ["t", "4/x", "0", "-1", "nan", "inf", "4,decay=cubic", "decay=", "4,linear"])
@pytest.mark.parametrize("solver", ["diagonal", "inertial-diagonal"])
def test_anything_else_is_an_error_that_names_them(solver, fields):
    with pytest.raises(sm.UsageError, match=f"{solver} has lambda0 .default none., decay .default exponential., gamma"):
        sm.train(separable(), solver=f"{solver}:{fields}")


def test_other_solvers_have_other_decays():
    with pytest.raises(sm.UsageError, match="the parameter decay of homotopic must be power, log or exponential, not"):
        sm.train(separable(), solver="homotopic:decay=linear")


def test_without_lambda0_the_penalty_is_in_the_units_of_the_rows():
    """lambda_0 = R^2: the default is the same on rows of any length, and is that number if it is given."""
    X, y = separable()
    largest = (X**2).sum(axis=1).max()
    own, given = (sm.train((X, y), solver=word, passes=40, tol=0) for word in ("diagonal", f"diagonal:{largest}"))
    assert own.certificate["margin_lower"] == pytest.approx(given.certificate["margin_lower"], rel=1e-9)
    longer = sm.train((8 * X, y), solver="diagonal", passes=40, tol=0)
    assert longer.certificate["margin_lower"] == pytest.approx(8 * own.certificate["margin_lower"], rel=1e-12)
