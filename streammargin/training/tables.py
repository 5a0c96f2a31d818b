"""Tables as data of a training: their rows are spooled first, and the model keeps their schema."""

from __future__ import annotations

import logging
from contextlib import ExitStack

from streammargin.errors import UsageError
from streammargin.options.table import Options, Where, options_for
from streammargin.sources.open import is_path
from streammargin.tables.asked import Asked
from streammargin.tables.open import is_table
from streammargin.wording import Message, shown

LOG = logging.getLogger("streammargin")
NAMES = [line.name for line in options_for(Where.SHELL) if line.theme == "table"]


def from_tables(stack: ExitStack, data: object, options: Options) -> tuple[object, Options]:
    """Data and options with tables replaced by sources of their rows; the stack removes what is temporary.

    Raises DataError, OutputError, ReadWriteError, and UsageError for options of tables without a table.
    """
    beside = not isinstance(options.y, (str, type(None)))  # labels in an array: the columns of a frame are all values
    if not is_table(data) or (beside and not is_path(data)):
        given = [name for name in NAMES if getattr(options, name) is not None]
        if given:
            raise UsageError(f"`{given[0]}` is for tables: frames, CSV, Parquet, Feather; leave it out")
        return data, options
    from streammargin.tables.open import open_table
    from streammargin.tables.spool import again, spooled
    from streammargin.tables.table import Table, matched, with_roles

    for name in ("y", "sample_weight"):
        if not isinstance(getattr(options, name), (str, type(None))):
            raise UsageError(f"`{name}` of a table is the name of a column, not {shown(getattr(options, name))}")
    if options.x is not None:
        raise UsageError("`x` names a dataset of HDF5; name the columns of a table with `columns`")
    asked = asked_of(options)
    reader = open_table(data, asked.y)
    if reader.once:
        reader = again(stack, reader, options.spool)
    table = with_roles(reader, asked, options.sample_weight)  # type: ignore[arg-type]  # checked above
    source = stack.enter_context(spooled(table, options.spool))
    if options.scale == "none" and (remark := source.ranges()):
        LOG.warning(Message(remark), extra={"code": "scale"})
    valid = options.valid
    if is_table(valid):
        other = open_table(valid, asked.y)
        if other.once:
            other = again(stack, other, options.spool)
        schema = matched(other, source.table_schema, table.label)
        held_out = Table(other, asked, tuple(column.name for column in schema.columns), table.label)
        valid = stack.enter_context(spooled(held_out, options.spool, schema))
    spooled_away = dict.fromkeys(["y", "sample_weight", *NAMES])
    return source, Options.of({**vars(options), "valid": valid, **spooled_away})


def asked_of(options: Options) -> Asked:
    """What the options ask of a table."""
    name, _, grams = (options.text or "").partition(",ngrams=")
    return Asked(
        y=None if options.y is None else str(options.y), columns=tuple(options.columns or ()),
        drop=tuple(options.drop or ()), text=((name, int(grams or 1)),) if name else (), missing=options.missing,
    )  # fmt: skip
