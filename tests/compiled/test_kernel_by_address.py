"""Losses that kernels call by address: one kernel serves all of them, and each call reaches its own loss."""

import math
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.serialize import dumps

from streammargin.compiled.by_address import COLUMN_TYPE, NUMBER, _Code, by_address
from streammargin.compiled.jit import kernel
from streammargin.compiled.judged import DUAL_SHARES, FIELDS, NOTHING, SAID, SIGNS, VALUE, A, judge_of
from streammargin.compiled.overloads import expose
from streammargin.losses import terms
from streammargin.losses.crammer_singer import CrammerSingerTerms
from streammargin.losses.l2_error import L2ErrorTerms


class Tilted(NamedTuple):
    """A loss of the user's: cap * (u^2 + tilt u)."""

    tilt: float
    unused: float

    def primal(self, u: float, cap: float) -> float:
        return cap * (u * u + self.tilt * u)


@by_address(NUMBER, COLUMN_TYPE, COLUMN_TYPE)
def values(loss, cap, margins, found):
    for r in range(margins.size):
        found[r] = loss.primal(margins[r], cap)


@kernel
def valued(function, cap, margins, found):
    function.call(cap, margins, found)


def test_one_kernel_serves_all_losses():
    expose(Tilted)
    u, found = np.linspace(-3.0, 3.0, 7), np.empty(7)
    for loss in (terms("hinge"), terms("logistic"), terms("quantile:quantile=.3"), Tilted(0.5, 7.0), Tilted(-0.5, 7.0)):
        valued(values.of(loss), 2.0, u, found)
        assert found == pytest.approx([loss.primal(one, 2.0) for one in u.tolist()], rel=1e-15)
        plain = np.empty(7)
        values.of(loss).call(2.0, u, plain)
        assert plain == pytest.approx(found, rel=1e-15)
    assert len(getattr(valued, "signatures", [0])) == 1


def test_what_is_compiled_is_found_again_by_another_process():
    """The type that names a function and a class is equal to itself after it was written and read."""
    code = _Code(values, Tilted)
    assert pickle.loads(dumps(code)) == code != _Code(values, CrammerSingerTerms)
    assert len(dumps(code)) < 2000  # no source or bytecode


def test_losses_of_two_classes_with_the_same_fields_are_two():
    assert CrammerSingerTerms(1.0) == L2ErrorTerms(1.0)  # as tuples
    shares = []
    for loss in (CrammerSingerTerms(1.0), L2ErrorTerms(1.0), CrammerSingerTerms(1.0)):
        columns, said = np.full((FIELDS, 2, 3), 0.25), np.empty(SAID)
        columns[SIGNS] = np.array([[1.0], [-1.0]])
        judge_of(loss).call(NOTHING._replace(duals=True), columns, np.empty((4, 3)), 3, said)
        shares.append((said[VALUE], columns[DUAL_SHARES, 0, 0], tuple(columns[A, :, 0])))
    assert shares[0] == shares[2] != shares[1]
    assert shares[1][0] == pytest.approx(3 * 0.25 * math.hypot(0.25, 0.25))


def test_a_class_that_is_defined_again_is_another_loss():
    """As in a notebook, whose cell is run again after a change."""
    u, found = np.array([1.0, 2.0]), np.empty(2)
    for power, primal in ((2.0, lambda self, u, cap: u * u), (3.0, lambda self, u, cap: u * u * u)):
        again = type("Again", (Tilted,), {"primal": primal})
        expose(again)
        valued(values.of(again(0.0, 0.0)), 1.0, u, found)
        assert found.tolist() == [1.0, 2.0**power]
