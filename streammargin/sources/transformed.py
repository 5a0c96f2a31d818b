"""A source whose rows take steps while they are read; the stored data are never rewritten."""

from __future__ import annotations

from streammargin.errors import DataError
from streammargin.rows.blocks import Block, alone, values_of
from streammargin.sources.base import Buffer, Source
from streammargin.sources.checks import check_block
from streammargin.sources.scaled import target
from streammargin.sources.view import View
from streammargin.transforms.base import RowFault
from streammargin.transforms.chain import Chain


class TransformedSource(View):
    """The rows of another source after the steps of a chain, in the same precision. What it learned may come later."""

    def __init__(self, source: Source, chain: Chain) -> None:
        super().__init__(source)
        self.chain: Chain = chain

    def whole(self) -> Block | None:
        return None

    def held_bytes(self) -> int:
        return self.source.held_bytes() + self.chain.nbytes(self.features)

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        block = alone(check_block(self.source, self.source.read(start, stop, buffer), start))
        try:
            return self.chain.fill(block, target(buffer.data, values_of(block)))
        except RowFault as fault:
            where, row = self.place(start + fault.row)
            raise DataError(f"{where}: row {row}{fault}") from None

    def ranges(self) -> str | None:
        return None
