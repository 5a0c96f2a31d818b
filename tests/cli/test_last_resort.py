"""A signal ends the process even if a library never comes back to Python."""

import contextlib
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from conftest import HANGS

pytestmark = pytest.mark.slow

COMMAND = """
import sys
import streammargin.cli.last_resort as last_resort
from streammargin.cli.entry import guarded
last_resort.PATIENCE, last_resort.CARRIER = float(sys.argv[1]), int(sys.argv[2])
last_resort.COMPUTING_PATIENCE = float(sys.argv[3])
def work():
    print("at work", flush=True)
    HANG
    return 0
sys.exit(guarded("streammargin", lambda: work))
"""
LOOSE = "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"  # lets go of the interpreter's lock
# one call of the interpreter, which sends the signal itself, and then never ends nor lets go of the lock
HELD = (
    "import ctypes, itertools, os; kill = ctypes.PyDLL(None).kill; "
    "any(itertools.chain(map(kill, [os.getpid()], [15]), itertools.repeat(0)))"
)


@contextlib.contextmanager
def started(hang, patience=2.0, carrier=5, enough=600.0):
    command = [sys.executable, "-c", COMMAND.replace("HANG", hang), str(patience), str(carrier), str(enough)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        time.sleep(0.5)
        try:
            yield process
        finally:
            process.kill()  # if it outlived a test that failed


@pytest.mark.parametrize("number, code, what", [("SIGTERM", 143, "terminated"), ("SIGINT", 130, "interrupted")])
def test_a_library_that_hangs_is_ended_with_the_process(number, code, what):
    with started(LOOSE) as process:
        process.send_signal(getattr(signal, number))
        assert process.wait(HANGS) == code and process.stderr.read() == f"streammargin: {what}\n"


def test_a_second_signal_ends_it_at_once():
    with started(LOOSE, patience=600.0) as process:
        for _ in range(100):  # those of the first second are one request, from when it is noticed
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.7)
                break
        assert process.returncode == 143


def test_so_is_one_that_keeps_the_lock_of_the_interpreter():
    with started(HELD, patience=600.0) as process:
        assert process.wait(HANGS) == -signal.SIGALRM


@pytest.mark.parametrize("what", ["f['X'].attrs['kind']", "f['y'][:]"])
def test_a_damaged_heap_of_texts(tmp_path, what):
    """HDF5 loops over an object of the heap whose size is wrong, with the lock if it reads an attribute."""
    path = tmp_path / "heap.h5"
    with h5py.File(path, "w") as file:
        file.create_group("X").attrs["kind"] = "csr_matrix"
        file["y"] = np.array([f"class {i % 3}" for i in range(60)], dtype=h5py.string_dtype())
    raw = bytearray(path.read_bytes())
    heap = raw.index(b"GCOL")
    raw[heap + 24 : heap + 26] = b"\xf2\x08"
    path.write_bytes(raw)
    hang = f"import h5py; f = h5py.File({str(path)!r}); {what}"
    with started(hang) as process:
        process.terminate()
        assert process.wait(HANGS) in (143, -signal.SIGALRM, -signal.SIGSEGV, 74)  # another HDF5 may see the damage


def computing(body):
    """A unit of a solver: a function of a module of solvers, of this body."""
    source = f"import ctypes, hashlib, operator, os\nfrom functools import partial\ndef compute():\n    {body}"
    return (
        "sys.modules['streammargin.solvers.long'] = module = type(sys)('streammargin.solvers.long'); "
        f"exec({source!r}, module.__dict__); module.compute()"
    )


def test_what_computes_is_ended_where_it_never_comes_back():
    body = "hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"
    with started(computing(body), patience=0.2, enough=2.0) as process:
        process.terminate()
        assert process.wait(HANGS) == 143 and process.stderr.read() == "streammargin: terminated\n"


def test_what_computes_is_left_to_finish():
    """A step of one class may take long; the handler is run after it."""
    # one call of the interpreter, between whose parts no handler is run: a signal, seconds of work, a word
    body = (
        "list(map(operator.call, [partial(ctypes.PyDLL(None).kill, os.getpid(), 15), "
        "partial(hashlib.pbkdf2_hmac, 'sha256', b'', b'', 12_000_000), partial(os.write, 1, b'computed')]))"
    )
    with started(computing(body), patience=0.2) as process:
        assert process.wait(HANGS) == 143 and process.stdout.read() == "computed"
