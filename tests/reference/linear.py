"""The solvers that find linear models: those of kernel machines have tests of their own."""

from streammargin.solvers.registry import make_solver
from streammargin.solvers.registry import names as every


def names():
    """All words of solvers of linear models, `auto` included."""
    return [name for name in every() if name == "auto" or not make_solver(name).kernels]
