"""Words of losses and penalties with one number, for tests that take them one after the other."""

import numpy as np

from streammargin.losses import terms
from streammargin.penalties import FAMILY, make_penalty
from streammargin.penalties.base import PenalisedColumns

LOSSES = ("hinge", "squared_hinge", "smooth_hinge", "logistic")  # of classes; optimum.py solves these
DUAL_LOSSES = (*LOSSES, "generalized_hinge")


def loss_word(name, number):
    """The word of a loss with this width, slope, quantile or epsilon, if it has one."""
    own = ("smooth_hinge", "generalized_hinge", "quantile", "epsilon_insensitive", "interpolate", "huber")
    return f"{name}:{number}" if name in own else name


def sized(name, number):
    """What kernels take of it."""
    return terms(loss_word(name, number))


def penalty(name, **fields):
    """The object of a penalty's word, of which the first part of the name is one."""
    return FAMILY.find(name.split()[0])(**fields)


def of_columns(word, columns=2):
    """The penalty of a word, or of its object, for this many columns; groups: given as numbers."""
    return make_penalty(word).of_columns(PenalisedColumns(columns, np.asarray))
