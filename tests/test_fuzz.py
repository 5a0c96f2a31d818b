"""A few mutated files for every reader; `python tests/fuzz.py` runs many."""

import random

import pytest
from fuzz import FILES, FINE, Kind, Reader, mutated, one, valid_folder
from fuzz_files import PLAIN, PLUGINS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.slow

# what is done to a file: bytes written over it, cut out of it, put into it, or taken from another place of it
PLACE = st.floats(0.0, 1.0, exclude_max=True)
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PLACE, st.binary(min_size=1, max_size=16)),
        st.tuples(st.just("cut"), PLACE, st.integers(1, 4096)),
        st.tuples(st.just("put"), PLACE, st.binary(min_size=1, max_size=64)),
        st.tuples(st.just("copy"), PLACE, PLACE),
    ),
    min_size=1,
    max_size=4,
)


def edited(whole, edits):
    """The bytes after these edits, at places that are shares of their length."""
    raw = bytearray(whole)
    for how, share, what in edits:
        place = int(share * len(raw))
        if how == "write":
            raw[place : place + len(what)] = what
        elif how == "cut":
            del raw[place : place + what]
        elif how == "put":
            raw[place:place] = what
        else:
            other = int(what * len(raw))
            raw[place : place + 32] = raw[other : other + 32]
    return bytes(raw) or b"\0"


@pytest.fixture(scope="module")
def reader():
    with Reader() as found:
        yield found


every_kind = pytest.mark.parametrize("kind", FILES)


@every_kind
def test_mutated_files_are_read_or_refused(tmp_path, reader, kind):
    if kind in PLUGINS:
        pytest.importorskip("hdf5plugin")
    whole = valid_folder(tmp_path, kind)
    found = [reader.read(kind, mutated(whole, random.Random(f"{kind} {case}"))) for case in range(25)]
    assert set(found) <= set(FINE) and "refused" in found


@every_kind
def test_edited_files_are_read_or_refused(tmp_path, reader, kind):
    """Hypothesis names the least edits that bring a reader down; --hypothesis-seed draws others."""
    if kind in PLUGINS:
        pytest.importorskip("hdf5plugin")
    whole = valid_folder(tmp_path, kind)

    @settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(EDITS)
    def read(edits):
        assert reader.read(kind, edited(whole, edits)) in FINE

    read()


def test_a_reader_that_dies_is_a_finding(reader):
    assert reader.read("no such kind", b"") == "ended by 1"
    assert reader.read("npy", b"") == "refused"


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("import os; os.kill(os.getpid(), 11)", "ended by SIGSEGV"),
        ("bytearray(1 << 40)", "MemoryError"),
        ("import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 2))\nwhile True: pass", "ended by SIGXCPU"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_what_a_process_may_not_do_is_a_finding(tmp_path, monkeypatch, fault, found):
    (tmp_path / "npy").mkdir()
    valid_folder(tmp_path / "npy", "npy")
    monkeypatch.setattr("fuzz.said", lambda folder, commands: exec(fault))
    assert one(str(tmp_path), "npy", b"x").startswith(found)


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ([["info", "no such file"]], "refused"),
        ([["train", PLAIN, "-o", "m.npz", "--passes", "1"]], "read"),
        (
            [["train", PLAIN, "--solver", "sdca", "--require-convergence", "--passes", "1", "--tol", "1e-9"]],
            "ends with 3",
        ),
    ],
)
def test_codes_and_sentences_are_looked_at(tmp_path, commands, found):
    (tmp_path / "npy").mkdir()
    valid_folder(tmp_path / "npy", "npy")
    FILES["some"] = Kind("y.npy", FILES["npy"].write, commands)
    (tmp_path / "some").symlink_to("npy")
    assert found in one(str(tmp_path), "some", b"x")
    del FILES["some"]
