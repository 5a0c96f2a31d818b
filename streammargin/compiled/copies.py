"""Copy spans of an array. NumPy would need an index array of every entry, larger than the entries."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import ONLY_PROBLEM, SampleBlock
from streammargin.rows.blocks import CSRBlock, values_of


@kernel
def copy_spans(values, starts, stops, into):
    """Write values[starts_r : stops_r], one after the other, to the beginning of `into`; return their number.

    `into` may be the beginning of `values` if the spans are in order.
    """
    place = 0
    for r in range(starts.size):
        span = values[starts[r] : stops[r]]
        to = into[place : place + span.size]
        for k in range(span.size):
            to[k] = span[k]
        place += span.size
    return place


def warm(sample: SampleBlock) -> None:
    kinds = (sample.dtype, np.uint8) if sample.kind == "dense float32" else (sample.dtype,)  # or rows in bytes
    for values in (values_of(sample.block).reshape(-1).astype(kind) for kind in kinds):
        copy_spans(values, ONLY_PROBLEM, ONLY_PROBLEM, values.copy())
    if isinstance(sample.block, CSRBlock):
        copy_spans(sample.block.indices, ONLY_PROBLEM, ONLY_PROBLEM, sample.block.indices.copy())
