"""The solvers that find linear models: those of kernel machines and of matrices have tests of their own."""

import math

import pytest

import streammargin as sm
from streammargin.solvers.base import KERNELS, MATRICES
from streammargin.solvers.registry import make_solver
from streammargin.solvers.registry import names as every_name


def names():
    """All words of solvers of linear models, `auto` included."""
    return [name for name in every_name() if name == "auto" or not special(make_solver(name))]


def special(method):
    """Whether a solver finds no linear model."""
    return KERNELS in method.takes or MATRICES in method.takes


HARD = sorted(set(names()) - {"ascent", "newton", "pdprox", "pegasos", "prox-newton"})  # which need a finite C
ANY_NORM = ("sdca", "asdca", "mirror", "perceptron")
# words of the hard margin, each with the options by which its solver takes another way
WAYS = [(word, {}) for word in (
    *HARD, "homotopic:average=no", "homotopic:stochastic", "homotopic:average=no,stochastic", "perceptron:average",
    "mirror:average", "adaptive:step=proven", "normalized-gd:step=sqrt", "batch-perceptron:average=no",
)]  # fmt: skip
WAYS += [("dual-momentum", {"loss": "logistic"})]
NORMS = [(word, {"penalty": f"lp:{p}"}) for word in ANY_NORM for p in (1.5, 1.2)]
NORMS += [(f"{word}:average", {"penalty": "lp:1.5"}) for word in ("mirror", "perceptron")]


def every(ways):
    """Parametrizes a test by ways."""
    return pytest.mark.parametrize("way", ways, ids=lambda way: " ".join([way[0], *map(str, way[1].values())]))


def norm_of(way):
    return float(way[1].get("penalty", "lp:2").removeprefix("lp:"))


def train(way, data, **options):
    word, own = way
    return sm.train(data, **{"solver": word, "C": math.inf, **own, **options})
