"""The solvers: one file each in a folder of SHELVES. The file and its class are named after the word.

So `papers/batch_perceptron.py` has the class `BatchPerceptron`, with `name = "batch-perceptron"`. The words are found
by that line in the text of the files. So a list of words needs no import, and no compiler.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from streammargin.errors import UsageError
from streammargin.solvers.word import Auto, SolverWord
from streammargin.words import Family

if TYPE_CHECKING:
    from streammargin.solvers.base import Method

TAKE = "recommended"
SHELVES = {  # folder -> its heading in `streammargin solvers`
    "coordinate": TAKE, "newton": TAKE, "columns": TAKE, "margin": TAKE, "expansion": TAKE,
    "completion": TAKE, "streams": "streams", "papers": "methods from papers",
}  # fmt: skip
SHORT_WORDS = {"sdca": "ascent:momentum=no", "asdca": "ascent:momentum=yes", "prox-newton": "newton"}
PEERS = {  # words of scikit-learn, LIBLINEAR and others
    "liblinear": "ascent", "dcd": "sdca", "coordinate_descent": "ascent", "sag": "ascent", "saga": "pdprox",
    "sgd": "pegasos", "lbfgs": "newton", "bfgs": "newton", "tron": "newton", "newton-cg": "newton",
    "newton-cholesky": "newton",
}  # fmt: skip


class FoundSolvers(Mapping[str, type[SolverWord]]):
    """The classes of solvers by word, each imported on first use."""

    @cached_property
    def files(self) -> dict[str, tuple[str, str]]:
        """Word -> folder and module."""
        found = {}
        for folder in SHELVES:
            for one in pkgutil.iter_modules([os.path.join(os.path.dirname(__file__), folder)]):
                word = one.name.replace("_", "-")
                if f'name = "{word}"' in _source(one):
                    found[word] = (folder, f"{__package__}.{folder}.{one.name}")
        return found

    def __getitem__(self, word: str) -> type[SolverWord]:
        if word == Auto.name:
            return Auto
        made: type[SolverWord] = getattr(importlib.import_module(self.files[word][1]), class_of(word))
        return made

    def __iter__(self) -> Iterator[str]:
        yield Auto.name
        yield from self.files

    def __len__(self) -> int:
        return 1 + len(self.files)

    def shelf(self, word: str) -> str:
        """The heading of a word in `streammargin solvers`."""
        return TAKE if word == Auto.name else SHELVES[self.files[word][0]]


def _source(found: pkgutil.ModuleInfo) -> str:
    """The text of a module, without importing it."""
    spec = found.module_finder.find_spec(found.name, None)
    return getattr(spec and spec.loader, "get_source")(found.name) or ""  # noqa: B009  # what mypy knows lacks it


def class_of(word: str) -> str:
    """The name of the class of a word."""
    return "".join(part.title() for part in word.split("-"))


SOLVER_CLASSES = FoundSolvers()
FAMILY = Family("solver", "solvers", SolverWord, SOLVER_CLASSES, PEERS, SHORT_WORDS)


def names() -> list[str]:
    """All words, `auto` included."""
    return FAMILY.words


def make_solver(value: object) -> Method:
    """The solver of a word, or of an object of a subclass of `Method`. Raises UsageError, for `auto` as well."""
    from streammargin.solvers.base import Method

    made = FAMILY.of(value)
    if not isinstance(made, Method):
        raise UsageError(f"`solver={made}` is not a solver itself; name one of {', '.join(list(SOLVER_CLASSES)[1:])}")
    return made
