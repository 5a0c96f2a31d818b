"""Kernels K(x, z), the similarity of two rows. A new kernel is one class, with a NumPy body.

A kernel is a subclass of `Kernel` (base.py) with typed parameters, and `gram`, its values for rows of two arrays. A
kernel of x.z, ||x||^2 and ||z||^2 is a subclass of `OfProducts`, which is several times as fast. Names joined by + are
a sum, in Python as well: `Rbf(0.1) + Linear()`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from streammargin.errors import UsageError
from streammargin.kernels.base import Kernel, KernelSum, OfProducts
from streammargin.words import Family, called, classes_in

PEERS = {
    "gaussian": "rbf", "radial": "rbf", "polynomial": "poly", "tanh": "sigmoid", "dot": "linear", "cosine": "linear",
}  # fmt: skip


@dataclass(frozen=True)
class Kernels(Family[Kernel]):
    """The names of `kernel`; several of them are joined by +."""

    def of(self, value: object) -> Kernel:
        """The checked kernel of a name, a sum of names, or an object. Raises UsageError."""
        words = re.split(r"\+(?=[^\d])", value) if isinstance(value, str) else [value]
        made = [super(Kernels, self).of(one) for one in (value.parts if isinstance(value, KernelSum) else words)]
        if len(made) == 1:
            return made[0]
        if any(one.of_numbers for one in made):
            raise UsageError("`kernel=precomputed` cannot be combined with another kernel; add that one to the matrix")
        return KernelSum(*made)


KERNELS: dict[str, type[Kernel]] = {cls.name: cls for cls in classes_in(__name__, __path__, "KERNELS")}
FAMILY = Kernels("kernel", "kernels", Kernel, KERNELS, PEERS)  # type: ignore[type-abstract]
make_kernel, known_kernel = FAMILY.of, FAMILY.known  # of a word that is given, or saved


def __getattr__(name: str) -> Any:
    """The classes of all kernels: `kernels.Rbf`."""
    return called(name, [Kernel, OfProducts, KernelSum, *KERNELS.values()], __name__)


def __dir__() -> list[str]:
    return sorted(["Kernel", "OfProducts", "KernelSum", *(cls.__name__ for cls in KERNELS.values())])
