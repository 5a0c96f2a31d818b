"""Several steps, one after the other, with what they learned: what rows go through, in training and prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streammargin.rows.blocks import Block, DenseBlock, alone, values_of
from streammargin.transforms.base import Learned, RowFault, Stored, Transform, TransformSums
from streammargin.words import Family

STEPPED_VALUES = 1 << 15  # values that take all steps at a time; a longer row takes them alone
STEPPED_COPIES = 5  # of a piece, in float64, that steps make
NAME = "transform"  # the arrays of a model file have this name, and others that begin with it


class Link(NamedTuple):
    """A step, the type that values are rounded to behind it, and what it learned, which a read may fill in later."""

    step: Transform
    dtype: np.dtype
    learned: Learned


class Chain:
    """Steps in their order. Values are float64 between steps; blocks have the type of the last one."""

    def __init__(self, links: Sequence[Link]) -> None:
        self.links: tuple[Link, ...] = tuple(links)

    @classmethod
    def of(cls, steps: Sequence[Transform], dtype: np.dtype) -> Chain:
        """Steps that have learned nothing yet; dtype: of the rows behind the last one."""
        wide = np.dtype(np.float64)
        return cls([Link(step, wide if step is not steps[-1] else dtype, {}) for step in steps])

    def __str__(self) -> str:
        return ",".join(str(link.step) for link in self.links)

    def __add__(self, other: Chain) -> Chain:
        """These steps, and then the others."""
        return Chain([*self.links, *other.links])

    @property
    def dtype(self) -> np.dtype:
        """The type of the rows behind all steps."""
        return self.links[-1].dtype

    @property
    def learns(self) -> bool:
        """Whether a step learns from a read of the rows."""
        return any(link.step.learns for link in self.links)

    def learn(self, seen: TransformSums) -> None:
        """Let the steps learn, in place."""
        for link in self.links:
            link.learned.update(link.step.learn(seen))

    def nbytes(self, features: int) -> int:
        """Bytes of what the steps learn, and of the pieces that they work on."""
        arrays = 8 * features * sum(len(link.step.learns) for link in self.links)
        return arrays + 8 * STEPPED_COPIES * STEPPED_VALUES

    def rows(self, block: Block) -> Block:
        """A copy of the rows after all steps. RowFault."""
        block = alone(block)
        out = np.empty(values_of(block).shape, self.dtype)
        return self.fill(block, out)

    def fill(self, block: Block, out: np.ndarray) -> Block:
        """The rows after all steps, with the values in `out`, which may be those of the block. RowFault."""
        before, after, dense = values_of(block).reshape(-1), out.reshape(-1), isinstance(block, DenseBlock)
        starts = np.arange(block.rows() + 1) * block.features() if isinstance(block, DenseBlock) else block.indptr
        low = 0
        while low < block.rows():
            high = max(low + 1, int(np.searchsorted(starts, starts[low] + STEPPED_VALUES, side="right")) - 1)
            own = slice(int(starts[low]), int(starts[high]))
            columns = None if dense else block.indices[own]  # type: ignore[union-attr]
            rows = Stored(starts[low : high + 1] - starts[low], columns, block.features(), before[own])
            try:
                after[own] = self._values(before[own].astype(np.float64), rows)
            except RowFault as fault:
                fault.row += low
                raise
            low = high
        return block._replace(X=out) if isinstance(block, DenseBlock) else block._replace(data=out)

    def _values(self, values: np.ndarray, rows: Stored) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            for link in self.links:
                values = link.step.values(values, rows, link.learned)
                values = values if link.dtype == np.float64 else values.astype(link.dtype).astype(np.float64)
        wrong = ~np.isfinite(values)
        rows._replace(raw=None).refuse(wrong, values, f" behind the steps {self}; drop the row, or replace the value")
        return values

    def arrays(self) -> dict[str, np.ndarray]:
        """Its arrays by their names in a model file; `restored` is the inverse."""
        words, dtypes = zip(*((str(link.step), link.dtype.name) for link in self.links), strict=True)
        found = {NAME: np.array(words), f"{NAME}.dtypes": np.array(dtypes)}
        for number, link in enumerate(self.links):
            found |= {f"{NAME}.{number}.{name}": array for name, array in link.learned.items()}
        return found


def restored(arrays: Mapping[str, Any], features: int, known: Family[Transform]) -> Chain:
    """The steps of a model file. ValueError if they are damaged, UsageError for one that is not known."""
    links = []
    dtypes = arrays[f"{NAME}.dtypes"].tolist()
    for number, (word, dtype) in enumerate(zip(arrays[NAME].tolist(), dtypes, strict=True)):
        step = known.known(word)
        named = {name: f"{NAME}.{number}.{name}" for name in step.learns}
        learned = {name: arrays[key] for name, key in named.items() if key in arrays}
        for name in step.learns:
            array = learned.get(name)
            if array is None or array.shape != (features,) or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"its step {word} lacks {features} finite numbers {name}")
        if dtype not in ("float32", "float64"):
            raise ValueError(f"its step {word} makes values of the type {dtype!r:.40}")
        links.append(Link(step, np.dtype(dtype), learned))
    if not links:
        raise ValueError(f"its array {NAME} is empty")
    return Chain(links)
