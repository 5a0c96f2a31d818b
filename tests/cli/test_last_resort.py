"""A signal ends the process even where a library never comes back to Python."""

import contextlib
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

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
# calls that take very long: one lets go of the interpreter's lock, one does not
LOOSE, HELD = "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)", "sum(range(10**17))"


@contextlib.contextmanager
def started(hang, patience=2.0, carrier=5, enough=600.0):
    command = [sys.executable, "-c", COMMAND.replace("HANG", hang), str(patience), str(carrier), str(enough)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        time.sleep(0.5)
        try:
            yield process
        finally:
            process.kill()  # where it outlived a test that failed


@pytest.mark.parametrize("number, code, what", [("SIGTERM", 143, "terminated"), ("SIGINT", 130, "interrupted")])
def test_a_library_that_hangs_is_ended_with_the_process(number, code, what):
    with started(LOOSE) as process:
        process.send_signal(getattr(signal, number))
        assert process.wait(60) == code and process.stderr.read() == f"streammargin: {what}\n"


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
        process.terminate()
        assert process.wait(60) == -signal.SIGALRM


@pytest.mark.parametrize("what", ["f['X'].attrs['kind']", "f['y'][:]"])
def test_a_damaged_heap_of_texts(tmp_path, what):
    """HDF5 loops over an object of the heap whose size is wrong, with the lock where it reads an attribute."""
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
        assert process.wait(60) in (143, -signal.SIGALRM, -signal.SIGSEGV, 74)  # another HDF5 may see the damage


def computing(rounds):
    """A unit of a solver that takes so many rounds."""
    return (
        "sys.modules['streammargin.solvers.long'] = module = type(sys)('streammargin.solvers.long'); "
        f'exec(\'import hashlib\\ndef compute(): hashlib.pbkdf2_hmac("sha256", b"", b"", {rounds})\', '
        "module.__dict__); module.compute()"
    )


def test_what_computes_is_ended_where_it_never_comes_back():
    with started(computing("2**31 - 1"), patience=0.2, enough=2.0) as process:
        process.terminate()
        assert process.wait(60) == 143 and process.stderr.read() == "streammargin: terminated\n"


def test_what_computes_is_left_to_finish():
    """A step of one class may take long; the handler is run after it."""
    with started(computing("12_000_000"), patience=0.2) as process:
        begun = time.monotonic()
        process.terminate()
        assert process.wait(120) == 143 and time.monotonic() - begun > 1.0
