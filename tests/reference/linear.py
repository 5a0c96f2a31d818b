"""The solvers that find linear models: those of kernel machines and of matrices have tests of their own."""

from streammargin.solvers.base import KERNELS, MATRICES
from streammargin.solvers.registry import make_solver
from streammargin.solvers.registry import names as every


def names():
    """All words of solvers of linear models, `auto` included."""
    return [name for name in every() if name == "auto" or not special(make_solver(name))]


def special(method):
    """Whether a solver finds no linear model."""
    return KERNELS in method.takes or MATRICES in method.takes
