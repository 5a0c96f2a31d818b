"""Which solvers there are: one file each in a folder of SHELVES, which is called as the word and has its class.

So `papers/batch_perceptron.py` has the class `BatchPerceptron`, with `name = "batch-perceptron"`. That line is looked
for in the text of a file: to know the words takes no import, and so no compiler.
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

TAKE = "the ones to take"
SHELVES = {  # folder -> what `streammargin solvers` shows its solvers under
    "coordinate": TAKE, "newton": TAKE, "columns": TAKE, "margin": TAKE,
    "streams": "streams", "papers": "methods after the papers",
}  # fmt: skip
SHORT = {"sdca": "ascent:momentum=no", "asdca": "ascent:momentum=yes", "prox-newton": "newton"}
PEERS = {  # words of scikit-learn, LIBLINEAR and others
    "liblinear": "ascent", "dcd": "sdca", "coordinate_descent": "ascent", "sag": "ascent", "saga": "pdprox",
    "sgd": "pegasos", "lbfgs": "newton", "bfgs": "newton", "tron": "newton", "newton-cg": "newton",
    "newton-cholesky": "newton", "smo": "active-set",
}  # fmt: skip


class Found(Mapping[str, type[SolverWord]]):
    """The classes of solvers by word, each imported when it is asked for."""

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
        """What a word of ours is shown under."""
        return TAKE if word == Auto.name else SHELVES[self.files[word][0]]


def _source(found: pkgutil.ModuleInfo) -> str:
    """The text of a module, which is not imported."""
    spec = found.module_finder.find_spec(found.name, None)
    return getattr(spec and spec.loader, "get_source")(found.name) or ""  # noqa: B009  # what mypy knows lacks it


def class_of(word: str) -> str:
    """The name of the class of a word."""
    return "".join(part.title() for part in word.split("-"))


CLASSES = Found()
FAMILY = Family("solver", "solvers", SolverWord, CLASSES, PEERS, SHORT)


def names() -> list[str]:
    """What may be asked for, `auto` among it."""
    return FAMILY.words


def make_solver(value: object) -> Method:
    """The solver that a word stands for, or an object of a subclass of `Method`. Raises UsageError; of `auto` too."""
    from streammargin.solvers.base import Method

    made = FAMILY.of(value)
    if not isinstance(made, Method):
        raise UsageError(f"`solver={made}` is none by itself; name one of {', '.join(list(CLASSES)[1:])}")
    return made
