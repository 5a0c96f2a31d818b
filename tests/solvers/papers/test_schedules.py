"""The text of --schedule."""

import math

import pytest
from reference.datasets import separable

import streammargin as sm
from streammargin.solvers.papers.schedules import parse_schedule


@pytest.mark.parametrize(
    ("text", "t", "inverse"),
    [
        ("4/t", 10, 2.5),
        ("0.5/sqrt t", 9, 6.0),
        ("2/sqrt(t)", 16, 2.0),
        ("1/log t", 1, 0.0),
        ("2 / log( t )", 8, math.log(8) / 2),
        ("1e-2/t^2", 3, 900.0),
        ("(3)/(t**2)", 6, 12.0),
        ("8/2^t", 5, 4.0),
        ("1/2^t", 1023, 2.0**1023),
        ("1/2^t", 1024, math.inf),
        ("1/2^T", 2000, math.inf),
    ],
)
def test_the_five_forms(text, t, inverse):
    assert parse_schedule(text).inverse(t) == pytest.approx(inverse, rel=1e-15)


@pytest.mark.parametrize("text", ["", "t", "4", "4/x", "/t", "0/t", "-1/t", "nan/t", "inf/t", "4/t/t", "4/3^t"])
def test_anything_else_is_an_error_that_names_them(text):
    with pytest.raises(sm.UsageError, match=r"L0/log t, L0/sqrt t, L0/t, L0/t\^2, L0/2\^t"):
        parse_schedule(text)


@pytest.mark.parametrize("solver", ["diagonal", "inertial-diagonal"])
def test_a_wrong_schedule_is_found_before_the_rows_are_read(solver):
    with pytest.raises(sm.UsageError, match="schedule must be one of"):
        sm.train(separable(), solver=solver, schedule="fast")


def test_other_solvers_have_no_schedule():
    with pytest.raises(sm.UsageError, match="no use for schedule"):
        sm.train(separable(), solver="homotopic", schedule="1/t")
