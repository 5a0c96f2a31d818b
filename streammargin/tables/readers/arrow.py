"""Arrow in memory and in files: frames (the Arrow C stream), tables, Feather (IPC) and Parquet.

Columns of lists of numbers of one length, such as embeddings, become columns: each place in the lists is NAME[PLACE].
"""

from __future__ import annotations

import base64
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from streammargin.arrow import pa
from streammargin.errors import DataError, InputMissingError, StreamMarginError
from streammargin.files import no_file
from streammargin.matching import plain, spelt
from streammargin.tables.file_format import ARROW, PARQUET, STREAM, FileFormat
from streammargin.tables.header import ANYTHING, Expected, StoredNames, check_different, is_blank, names_of
from streammargin.tables.readers.base import USUAL, Reader, Room
from streammargin.tables.readers.messages import MARK, Checked, check_file
from streammargin.tables.readers.unit import RowGroup, by_rows, check_chunks
from streammargin.tables.types import is_category, kind_of, worded
from streammargin.wording import short, shown


class Lists:
    """The columns of lists of a table, and the columns that they become.

    types: of all columns as stored, by our names. first: the first values of a column, for the length of its lists;
    None if a column can be read once only: then lists of a type without a length stay. Raises DataError.
    """

    def __init__(self, name: str, types: Mapping[str, pa.DataType], first: Callable[[str], Any] | None) -> None:
        self.name = name
        self.widths: dict[str, int] = {}
        self.types: dict[str, pa.DataType] = {}  # of all columns that there are then
        self._of: dict[str, tuple[str, int]] = {}
        for column, type_ in types.items():
            width = _width(type_, column, first)
            if not width:
                self.types[column] = type_
                continue
            self.widths[column] = width
            places = {f"{column}[{place}]": (column, place) for place in range(width)}
            if twice := [each for each in places if each in types]:
                raise DataError(
                    f"{name} has a column {twice[0]} beside the lists of {short(column)}; rename one of them"
                )
            self._of |= places
            inner = type_.value_type
            self.types |= dict.fromkeys(places, pa.float32() if pa.types.is_float16(inner) else inner)

    def columns_of(self, name: str) -> list[str]:
        """The columns that a column of lists becomes; itself if it is another one."""
        return [f"{name}[{place}]" for place in range(self.widths[name])] if name in self.widths else [name]

    def stored(self, columns: Sequence[str]) -> list[str]:
        """The columns, as stored, that these are made of."""
        return list(dict.fromkeys(self._of.get(name, (name, 0))[0] for name in columns)) if self.widths else [*columns]

    def spread(self, batch: pa.RecordBatch, columns: Sequence[str], first: int) -> pa.RecordBatch:
        """These columns of a batch of stored ones; first: the number of its first row. Raises DataError."""
        if not self.widths:
            return batch
        apart = {name: self._numbers(batch.column(name), name, first) for name in batch.schema.names
                 if name in self.widths}  # fmt: skip
        arrays = []
        for name in columns:
            of, place = self._of.get(name, (name, 0))
            if of in apart:
                arrays.append(pa.array(np.ascontiguousarray(apart[of][:, place]), self.types[name], from_pandas=True))
            else:
                arrays.append(batch.column(of))
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _numbers(self, column: Any, name: str, first: int) -> np.ndarray:
        """The numbers (m, width) of lists; a missing number is NaN. Raises DataError for another length."""
        width = self.widths[name]
        where = f"{self.name}, row {{}}, column {short(name)}"
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise DataError(f"{where.format(first + row)}: the list is missing; give the row one, or leave it out")
        if not pa.types.is_fixed_size_list(column.type):
            lengths = column.value_lengths().to_numpy(zero_copy_only=False)
            if (wrong := lengths != width).any():
                row = int(wrong.argmax())
                raise DataError(f"{where.format(first + row)}: the list has {lengths[row]} numbers, and the first one "
                                f"{width}; give all lists one length")  # fmt: skip
        values = column.flatten().to_numpy(zero_copy_only=False)
        values = values.astype(np.float32) if values.dtype == np.float16 else values
        return values.reshape(len(column), width)


def _width(type_: pa.DataType, column: str, first: Callable[[str], Any] | None) -> int:
    """The length of the lists of a column; 0 if it has none that become columns."""
    fixed = pa.types.is_fixed_size_list(type_)
    if not (fixed or pa.types.is_list(type_) or pa.types.is_large_list(type_)) or kind_of(type_.value_type) != "number":
        return 0
    if fixed:
        return int(type_.list_size)
    found = None if first is None else first(column)
    return 0 if found is None or not len(found) or found[0].as_py() is None else len(found[0])


MOST_BATCH_ROWS = 1 << 14
BUFFER = 1 << 17  # bytes that are read at a time of a column of Parquet
ALL_GROUPS = slice(None)
FEATHER = b"ARROW1\0\0"  # in front of its first message


@contextlib.contextmanager
def damage(path: str) -> Iterator[None]:
    """Errors of Arrow as a DataError, or an InputMissingError, that names the file."""
    try:
        yield
    except StreamMarginError:  # says more
        raise
    except FileNotFoundError as error:
        raise no_file(path) from error
    except PermissionError as error:
        raise InputMissingError(f"{path} cannot be read ({error.strerror})") from error
    except UnicodeEncodeError as error:  # of a path: Arrow takes no other bytes than those of UTF-8
        raise InputMissingError(f"{path} cannot be read, as its name is not UTF-8; rename it") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} is damaged ({str(error).splitlines()[0][:200]}); write or fetch it again") from error


class Batches(Reader):
    """A table in memory, or a file that Arrow opens.

    `opened`  makes a fresh iterator over batches of the columns that are stored by these names, with at most this many
              rows.
    `first`   the number of its first row in the file.
    """

    def __init__(
        self, name: str, schema: pa.Schema, opened: Callable[[Sequence[str], int], Iterator[Any]], room: Room,
        paths: Sequence[str] = (), once: bool = False, count: int | None = None, first: int = 0,
    ) -> None:  # fmt: skip
        self.room: Room = room
        self.once, self.count, self._first = once, count, first
        with damage(name):  # names may be no UTF-8
            self.stored = StoredNames(schema.names)
        self.name: str = name
        self._opened, self._paths = opened, list(paths)
        check_different(name, self.stored.ours)
        types = dict(zip(self.stored.ours, schema.types, strict=True))
        with damage(name):
            self.lists = Lists(name, types, None if once else self._first_of)
        self.types = self.lists.types
        self.columns: list[str] = list(self.types)
        check_different(name, self.columns)

    def _first_of(self, column: str) -> Any:
        """The first values of a column; None if there is no row."""
        batches = (batch for batch in self._opened(self.stored.stored([column]), 1) if batch.num_rows)
        with contextlib.closing(batches):
            found = next(batches, None)
        return None if found is None else self.stored.called(found, [column]).column(0)

    def batches(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        as_it_is: pa.Schema | None = None  # of batches that need no change; to look at each column takes its time
        own, first = self.lists.stored(columns), 0
        with damage(self.name):
            for batch in self._opened(self.stored.stored(own), min(MOST_BATCH_ROWS, self.room.rows(len(columns)))):
                if batch.num_rows:
                    found = self.lists.spread(self.stored.called(batch, own), columns, first + self._first)
                    first += batch.num_rows
                    if as_it_is is None or not found.schema.equals(as_it_is):
                        changed = worded(found, words)
                        as_it_is = found.schema if changed.schema.equals(found.schema) else None
                        found = changed
                    yield found

    def place(self, row: int) -> str:
        return super().place(self._first + row)

    def files(self) -> list[str]:
        return self._paths


def of_object(data: Any, room: Room = USUAL, expected: Expected = ANYTHING) -> Reader:
    """A reader of a frame, a table, a dataset, or anything else with an Arrow C stream.

    Numbers and texts in a column that a model knows are texts, as in a file. A stream of batches can be read once.
    Raises DataError for columns that Arrow does not know.
    """
    if isinstance(data, pa.RecordBatchReader):
        return Batches("the stream", data.schema, lambda columns, rows: pieces(data, rows), room, once=True)
    if hasattr(data, "scanner"):  # a dataset of Arrow

        def opened(columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
            return iter(data.scanner(columns=list(columns), batch_size=rows, batch_readahead=1, fragment_readahead=1)
                        .to_batches())  # fmt: skip

        return Batches("the dataset", data.schema, opened, room)
    try:
        table, faults = _table_of_frame(data, expected) if hasattr(data, "iloc") else (_table(data), {})
    except UnicodeEncodeError as error:
        raise DataError(f"the table: {shown(error.object)} holds half a letter of UTF-16; correct it") from error
    table = table.rename_columns(names_of(table.column_names))

    def slices(columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        for name in faults:
            if name in columns:
                raise DataError(faults[name])
        return iter(table.select(list(columns)).to_batches(rows))

    return Batches("the table", table.schema, slices, room, count=table.num_rows)


def _table_of_frame(data: Any, expected: Expected) -> tuple[pa.Table, dict[str, str]]:
    """A frame of pandas as a table, without its index; the faults of columns that Arrow does not take, by name.

    Such a column has no values. expected: as of `of_object`. Raises DataError for names twice.
    """
    names = names_of(data.columns)
    check_different("the table", names)
    if any(map(is_blank, data.columns)):
        data = data.copy(deep=False)
        data.columns = names
    try:
        return pa.Table.from_pandas(data, preserve_index=False), {}
    except (pa.ArrowException, TypeError):
        columns, faults = {}, {}
        for name in data.columns:
            try:
                columns[name] = pa.Table.from_pandas(data[[name]], preserve_index=False)[0]
            except (pa.ArrowException, TypeError) as error:
                texts = _as_texts(data[name]) if str(name) in expected.names else None
                columns[name] = pa.nulls(len(data)) if texts is None else texts
                if texts is None:
                    faults[name] = _fault(data[name], name, error, expected)
        return pa.table(columns), faults


def _as_texts(column: Any) -> pa.Array | None:
    """A column of numbers and texts as texts, as a file has them; None if it holds others."""
    values = [plain(value) if there else None for value, there in zip(column, column.notna(), strict=True)]
    if not all(value is None or isinstance(value, (str, int, float)) for value in values):
        return None
    return pa.array([spelt(value) if isinstance(value, (int, float)) else value for value in values], pa.string())


def _fault(column: Any, name: str, error: Exception, expected: Expected) -> str:
    """The message on a column of a frame that Arrow does not take."""
    kinds = {row: type(value) for row, (value, there) in enumerate(zip(column, column.notna(), strict=True)) if there}
    if hasattr(column, "sparse"):
        return f"the table, column {short(name)}: it is sparse; give its values as .sparse.to_dense() has them"
    first = min(kinds, default=0)
    other = next((row for row, kind in kinds.items() if kind is not kinds[first]), None)
    where, why = f"the table, column {short(name)}", str(error.args[0]).splitlines()[0][:200]
    if other is not None:
        where = f"the table, row {other}, column {short(name)}"
        why = f"{kinds[other].__name__}, but row {first} has {kinds[first].__name__}"
    needed = expected.scored or name in {expected.label, *expected.names}
    leave = "" if needed else f", or leave it out with `drop={name}`"
    return f"{where}: Arrow does not take it ({why}); give the column one type{leave}"


def _table(data: Any) -> pa.Table:
    """An object with an Arrow C stream, as a table. Raises DataError."""
    try:
        return pa.table(data)
    except pa.ArrowException as error:
        why = "; ".join(str(part).splitlines()[0] for part in error.args)[:200]
        raise DataError(
            f"the table has a column that Arrow does not take ({why}); give each column one type"
        ) from error


def pieces(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of these batches, so many at a time."""
    for whole in batches:
        whole.validate(full=True)  # damaged offsets and texts
        for start in range(0, whole.num_rows, rows):
            yield whole.slice(start, rows)


def of_stream(file: Any, name: str, room: Room = USUAL) -> Reader:
    """A reader of an Arrow stream, which can be read once."""
    with damage(name):
        stream = pa.ipc.open_stream(Checked(file, name, room))
    return Batches(name, stream.schema, lambda columns, rows: pieces(stream, rows), room, once=True)


def of_stream_file(path: str, room: Room = USUAL) -> Reader:
    """A reader of a file that holds an Arrow stream."""

    def opened(columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        check_file(path, path, room, 0)
        with pa.OSFile(path) as file:
            yield from pieces(pa.ipc.open_stream(file), rows)

    with damage(path), pa.OSFile(path) as file:
        return Batches(path, pa.ipc.open_stream(file).schema, opened, room, [path])


def of_ipc(path: str, room: Room = USUAL) -> Reader:
    """A reader of a Feather (Arrow IPC) file."""
    with damage(path), pa.OSFile(path) as source:
        whole = pa.ipc.open_file(source)
        schema, count = whole.schema, whole.num_record_batches

    def opened(columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        check_file(path, path, room, len(FEATHER))
        with pa.OSFile(path) as source:  # not mapped: a process dies if a mapped file is cut
            wanted = sorted(place for name in columns for place in schema.get_all_field_indices(name))
            file = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=wanted))
            for number in range(count):
                yield from pieces([file.get_batch(number)], rows)

    return Batches(path, schema, opened, room, [path])


def parquet_file(path: str) -> Any:
    """A Parquet file, open. Its columns of text are read as codes: a long text may stand in many rows."""
    from streammargin.arrow import parquet

    known = parquet.read_metadata(path)
    fields = known.schema.to_arrow_schema()
    words = [field.name for field in fields if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    return parquet.ParquetFile(path, metadata=known, buffer_size=BUFFER, read_dictionary=words)


def of_groups(
    file: Any, columns: Sequence[str], rows: int, room: Room, groups: slice = ALL_GROUPS
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """The rows of a Parquet file, of these row groups alone; columns: our names of them."""
    names = StoredNames(file.schema_arrow.names)
    for group in range(file.num_row_groups)[groups]:
        if not columns:  # of a folder, all of them may be in its names
            yield from file.iter_batches(rows, row_groups=[group], columns=[])
            continue
        stored, bytes_of = file.metadata.row_group(group), Counter[str]()
        for chunk in map(stored.column, range(stored.num_columns)):
            # of lists there are several
            bytes_of[chunk.path_in_schema.split(".", 1)[0]] += chunk.total_uncompressed_size
        least = 8 * stored.num_rows  # repeated numbers take far less in the file
        sizes = {name: least + bytes_of[names.of(name)] for name in columns}
        per_row = sum(sizes.values()) // (stored.num_rows or 1)
        fit = max(1, min(rows, room.batch // max(1, per_row)))
        yield from by_rows(RowGroup(file, group, names), sizes, fit, room)
        pa.default_memory_pool().release_unused()  # buffers of one group would stay beside those of the next


def _schema(file: Any) -> pa.Schema:
    """The schema of a Parquet file by our names, with the categories of numbers that Parquet itself lacks."""
    schema = file.schema_arrow
    types = schema.types
    with contextlib.suppress(KeyError, TypeError, ValueError, pa.ArrowException):
        written = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(file.metadata.metadata[b"ARROW:schema"])))
        types = [theirs if is_category(theirs) else ours for ours, theirs in zip(types, written.types, strict=True)]
    return pa.schema(list(zip(names_of(schema.names), types, strict=True)))


def of_parquet(path: str, room: Room = USUAL, groups: slice = ALL_GROUPS) -> Reader:
    """A reader of a Parquet file, or of some of its row groups."""
    from streammargin.arrow import parquet

    with damage(path), parquet.ParquetFile(path) as whole:
        schema = _schema(whole)
        sizes = [whole.metadata.row_group(group).num_rows for group in range(whole.num_row_groups)]

    def opened(columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        with parquet_file(path) as file:
            if columns:
                check_chunks(path, file.metadata, range(file.num_row_groups)[groups])
            yield from of_groups(file, columns, rows, room, groups)

    first = sum(sizes[: groups.start or 0])
    return Batches(path, schema, opened, room, [path], count=sum(sizes[groups]), first=first)


FORMATS = (
    FileFormat(PARQUET, lambda path, expected, room: of_parquet(path, room), table=True, starts=(b"PAR1",),
               suffixes=(".parquet", ".pq"), called="Parquet"),
    FileFormat(ARROW, lambda path, expected, room: of_ipc(path, room), table=True, starts=(b"ARROW1",),
               suffixes=(".feather", ".arrow"), called="Arrow"),
    FileFormat(STREAM, lambda path, expected, room: of_stream_file(path, room), table=True, starts=(MARK,)),
)  # fmt: skip
