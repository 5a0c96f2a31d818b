"""Parquet files with a changed byte in their footer, each in turn: all are read or refused, no process ends."""

import subprocess
import sys

import pyarrow as pa
from pyarrow import parquet

READ_ALL = """
import sys
from streammargin.errors import DataError
from streammargin.tables.readers.arrow import of_parquet

path = sys.argv[1]
whole = open(path, "rb").read()
start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
rows, refused = set(), 0
for place in range(start, len(whole) - 8):
    for bits in (0x30, 0x01):
        with open(path, "wb") as file:
            file.write(whole[:place] + bytes([whole[place] ^ bits]) + whole[place + 1 :])
        try:
            reader = of_parquet(path)
            rows.add(sum(batch.num_rows for batch in reader.batches(reader.columns, frozenset())))
        except DataError as error:
            assert str(error).startswith(f"{path} is damaged"), error
            refused += 1
print(max(rows), refused > 100)
"""


def test_no_byte_of_a_footer_ends_the_process(tmp_path):
    """pyarrow ends it for a damaged count of levels, when Python asks for the sizes of a column."""
    table = pa.table({"x": [0.5, 1.5, None], "city": ["a", "b", "a"]})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2, store_schema=False)
    done = subprocess.run([sys.executable, "-c", READ_ALL, str(tmp_path / "t.parquet")], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 True\n", "")
