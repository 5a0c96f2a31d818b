"""Block plans keep the budget; the reader hands over every block, checked, and passes errors on."""

import re
import threading

import numpy as np
import pytest
from conftest import traced, write_h5
from hypothesis import given, settings
from hypothesis import strategies as st

import streammargin as sm
from streammargin.compiled import jit
from streammargin.errors import DataError, UsageError
from streammargin.penalties.base import PenalisedColumns, Penalty
from streammargin.reading.plan import LEAST_BLOCK_BYTES, make_plan
from streammargin.reading.prefetch import BlockReader
from streammargin.rows.blocks import values_of
from streammargin.sizes import format_size, parse_size


@pytest.mark.parametrize(
    "text, size",
    [("512M", 512 << 20), ("1G", 1 << 30), ("1.5g", 3 << 29), ("7", 7), ("2KiB", 2048), ("3 MB", 3 << 20), (99, 99)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1X", "one", 0, -5])
def test_what_is_no_size(text):
    with pytest.raises(UsageError):
        parse_size(text)


@given(st.integers(1, 1 << 45))
def test_format_size_reads_back(size):
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.006)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two open sources of 40,000 rows: dense, and CSR with rows of very different lengths."""
    import scipy.sparse as sp

    folder = tmp_path_factory.mktemp("plans")
    random = np.random.default_rng(0)
    X = random.standard_normal((40_000, 50)).astype(np.float32)
    lengths = np.where(random.random(40_000) < 0.01, 2000, 10)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.arange(length) for length in lengths]).astype(np.int32)
    S = sp.csr_matrix((random.standard_normal(indptr[-1]).astype(np.float32), indices, indptr), shape=(40_000, 2000))
    y = np.arange(40_000) % 2
    with (
        sm.open_source(write_h5(folder / "d.h5", X, y)) as dense,
        sm.open_source(write_h5(folder / "s.h5", S, y)) as sparse,
    ):
        yield dense, sparse


@settings(max_examples=40)
@given(budget=st.integers(15 << 20, 64 << 20), state=st.integers(0, 1 << 20), kind=st.integers(0, 1))
def test_plans_keep_the_budget(files, budget, state, kind):
    source = files[kind]
    plan = make_plan(source, budget, state)
    assert plan.memory_bytes <= budget
    assert plan.bounds[0] == 0 and plan.bounds[-1] == source.rows and np.all(np.diff(plan.bounds) > 0)
    buffers = [source.allocate(plan.bounds) for _ in range(plan.buffers)]
    held = sum(buffer.nbytes for buffer in buffers)
    assert held + state <= plan.memory_bytes
    assert plan.resident == (plan.blocks == 1)


def test_too_small_a_budget_names_the_least_one(files):
    for source in files:
        with pytest.raises(UsageError, match="too small") as caught:
            make_plan(source, 1 << 20, 0)
        least = parse_size(str(caught.value).split('memory="')[1].split('"')[0])
        assert make_plan(source, least, 0).memory_bytes <= least
        with pytest.raises(UsageError):
            make_plan(source, least - (1 << 20), 0)


@pytest.mark.parametrize("solver", ["adaptive", "asdca"])
def test_the_least_budget_that_a_training_names_is_enough(files, solver):
    dense, _ = files
    options = {"solver": solver, "passes": 1, "tol": 1e-9}
    with pytest.raises(UsageError, match="the smallest plan needs") as caught:
        sm.train(dense, memory=1, **options)  # less than the weights
    least = int(str(caught.value).split('memory="')[1].split("M")[0])
    assert sm.train(dense, memory=f"{least}M", **options).passes == 1
    with pytest.raises(UsageError, match="the smallest plan needs"):
        sm.train(dense, memory=f"{least - 1}M", **options)


GROUPS = np.arange(30_000) // 2
PENALTIES = sm.penalties


@pytest.mark.parametrize("word", [
    PENALTIES.L1(high=1.0), PENALTIES.ElasticNet(low=0.0), PENALTIES.Group(GROUPS), PENALTIES.Group(GROUPS, 0.5),
    PENALTIES.SparseGroup(GROUPS), PENALTIES.Exclusive(GROUPS),
], ids=str)  # fmt: skip
def test_the_vectors_of_a_penalty_are_in_the_plan(word, monkeypatch):
    with traced() as allocated:
        penalty = word.of_columns(PenalisedColumns(GROUPS.size, np.asarray))
        assert isinstance(penalty.norm, (tuple, type(None)))
    assert 8 * GROUPS.size < allocated.held < penalty.nbytes + 8 * GROUPS.size // 10
    X = np.random.default_rng(0).standard_normal((4, GROUPS.size))

    def planned():
        return sm.train((X, [0, 1, 0, 1]), penalty=word, solver="pdprox", passes=1).history[0]["plan"]["memory_bytes"]

    counted, own = planned(), penalty.nbytes
    monkeypatch.setattr(Penalty, "nbytes", 0)
    assert counted - planned() == own


def test_every_block_arrives_in_the_order_asked(files):
    for source in files:
        bounds = source.bounds(LEAST_BLOCK_BYTES)
        reader = BlockReader(source, bounds, 2)
        order = np.random.default_rng(1).permutation(len(bounds) - 1)
        seen = []
        for start, stop, block in reader.stream(order):
            assert block.rows() == stop - start
            seen.append(start)
        assert seen == bounds[order].tolist()
        assert reader.counts.bytes_read >= source.nnz * 4 and reader.counts.read_seconds > 0


def test_an_error_in_the_reader_reaches_the_consumer_and_the_thread_ends(files):
    source = files[0]

    class Broken(type(source)):
        def __init__(self):
            self.__dict__.update(source.__dict__)

        def read(self, start, stop, buffer):
            if start > 10_000:
                raise DataError("torn page")
            return super().read(start, stop, buffer)

    before = threading.active_count()
    reader = BlockReader(Broken(), source.bounds(LEAST_BLOCK_BYTES), 2)
    with pytest.raises(DataError, match="torn page"):
        for _ in reader.stream(np.arange(len(reader.bounds) - 1)):
            pass
    assert threading.active_count() == before


@pytest.mark.parametrize("resident", [True, False])
def test_compiling_while_rows_are_read_is_no_waiting(files, resident, monkeypatch):
    """The first reads compile kernels, for 4 of 5 seconds; a clock stands still but for them."""
    source, now = files[0], [0.0]
    read, clock = source.read, jit._CompileClock()
    monkeypatch.setattr(jit, "_clock", clock)
    monkeypatch.setattr("streammargin.reading.prefetch.time.perf_counter", lambda: now[0])

    def slow(*given):
        now[0], clock.seconds = now[0] + 5.0, clock.seconds + 4.0
        return read(*given)

    monkeypatch.setattr(source, "read", slow)
    bounds = np.array([0, source.rows]) if resident else source.bounds(LEAST_BLOCK_BYTES)[[0, 1, 2, -1]]
    reader = BlockReader(source, bounds, 2, resident)
    list(reader.stream(np.arange(len(bounds) - 1)))
    assert reader.counts.read_seconds == len(bounds) - 1 >= reader.counts.wait_seconds


def test_leaving_early_ends_the_thread(files):
    before = threading.active_count()
    reader = BlockReader(files[0], files[0].bounds(LEAST_BLOCK_BYTES), 2)
    stream = reader.stream(np.arange(len(reader.bounds) - 1))
    next(stream)
    stream.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    "buffers, together, most", [(2, 2, 1), (3, 2, 2), (4, 3, 2), (5, 4, 3), (7, 4, 4), (8, 4, 4), (4, 1, 1)]
)
def test_blocks_of_a_group_are_valid_together(files, buffers, together, most):
    for source in files:
        reader = BlockReader(source, source.bounds(LEAST_BLOCK_BYTES), buffers)
        order = np.arange(len(reader.bounds) - 1)[::-1]
        seen = []
        for group in reader.groups(order, together):
            for start, stop, block, _ in group:
                alone = source.read(start, stop, source.allocate(np.array([start, stop])))
                assert np.array_equal(values_of(block), values_of(alone))
            seen.append([start for start, *_ in group])
        assert [start for starts in seen for start in starts] == [int(reader.bounds[index]) for index in order]
        sizes = [len(starts) for starts in seen]
        assert max(sizes) <= most and max(sizes) - min(sizes) <= 1
        assert len(sizes) == -(-len(order) // most)
        # what is left after some groups is cut as it was: a training that is resumed goes on so
        rest = list(reader.groups(order[sizes[0] :], together))
        assert [[start for start, *_ in group] for group in rest] == seen[1:]


def test_duals_and_weights_of_arrays_in_memory_are_counted():
    X, y = np.eye(20_000, 2), np.arange(20_000) % 2
    with pytest.raises(UsageError, match='memory="1M" or more'):
        sm.train((X, y), memory="100K", solver="ascent")
    assert sm.train((X, y), memory="1M", passes=1, solver="ascent").passes == 1


@pytest.mark.parametrize("more", [{}, {"valid": "rows.h5"}, {"valid": "rows.h5", "scale": "std"}], ids=str)
@pytest.mark.parametrize("solver", ["adaptive", "active-set", "sdca"])
def test_the_least_budget_that_is_named_is_enough(tmp_path, monkeypatch, solver, more):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6000, 400)).astype(np.float32), np.arange(6000) % 2
    write_h5("rows.h5", X, y)
    options = {"solver": solver, "C": np.inf, "passes": 1, **more}
    with pytest.raises(UsageError, match="use memory=") as caught:
        sm.train("rows.h5", memory="1M", **options)
    least = re.search(r'memory="(\d+M)"', str(caught.value))[1]
    assert sm.train("rows.h5", memory=least, **options).passes == 1
