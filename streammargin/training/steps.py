"""The steps that rows take on their way to the solver, as the options say."""

from __future__ import annotations

import numpy as np

from streammargin.driver.labels import LabelReader
from streammargin.driver.progress import MAPPING, SCALING, TRANSFORMING
from streammargin.driver.ranges import bytes_of_spread
from streammargin.driver.steps import Mapping, Scaling, Step, Transforming, check_sample
from streammargin.maps import make_map
from streammargin.maps.fitted import Fitted
from streammargin.options.table import Options
from streammargin.sizes import parse_size
from streammargin.sources.base import Source
from streammargin.sources.mapped import MappedSource
from streammargin.sources.scaled import ScaledSource
from streammargin.sources.transformed import TransformedSource
from streammargin.transforms.chain import Chain


def transformed(source: Source, options: Options, chain: Chain | None = None) -> Source:
    """A source whose rows take the steps of `transform`: those of this chain, or of a new one."""
    if not options.steps:
        return source
    return TransformedSource(source, Chain.of(options.steps, source.dtype) if chain is None else chain)


def after_steps(source: Source, options: Options) -> Source:
    """A source after its scale and map, for planning: nothing can be read from it."""
    stored = source.dtype
    if options.scale != "none":
        source = ScaledSource(source, np.empty(0), np.empty(0))
    if options.map is not None:
        source = MappedSource(source, Fitted(make_map(options.map), stored))
    return source


def bytes_of_steps(source: Source, options: Options) -> int:
    """Bytes of what the scale and the map learn. UsageError for a map that draws more rows than there are."""
    scale = Scaling.nbytes(source.features) if options.scale != "none" else 0
    if options.map is None:
        return scale
    map = make_map(options.map)
    check_sample(map, source, source.rows)  # before the bytes that so many rows would take are asked for
    return scale + Mapping.nbytes(map, source)


def bytes_beside(source: Source, options: Options) -> int:
    """Bytes of the moments of columns that the first pass measures; 0 if a scale does, or the model is not linear."""
    if options.scale != "none" or options.map is not None or options.kernel is not None:
        return 0
    return bytes_of_spread(source.features, parse_size(options.memory))


def make_steps(source: Source, options: Options, labels: LabelReader, memory: int, present: int) -> dict[str, Step]:
    """The steps by the phases in which they are learned; memory: bytes for each read of them."""
    steps: dict[str, Step] = {}
    stored = source.dtype
    if isinstance(source, TransformedSource) and source.chain.learns:
        steps[TRANSFORMING] = Transforming(source, labels, memory)
    if options.scale != "none":
        kind, clip = options.scaling
        steps[SCALING] = Scaling(source, kind, labels, memory, clip)
        source = steps[SCALING].taken(source)
    if options.map is not None:
        steps[MAPPING] = Mapping(source, make_map(options.map), stored, labels, memory, present, options.seed)
    return steps
