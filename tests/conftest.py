"""What several test files need: small data sets, files of them, and the commands as a user starts them."""

import contextlib
import fcntl
import logging
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import tracemalloc
import zlib
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from threadpoolctl import threadpool_limits

from streammargin.cli.main import main
from streammargin.compiled import jit
from streammargin.reading import plan

HANGS = 900  # seconds for what takes a few, however busy the machine is: who takes longer does not come back

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # by default hypothesis fails what takes a fifth of a second

os.environ.setdefault("STREAMMARGIN_PATIENCE", "0")  # kernels are compiled at once: tests compare bits
jit.PLAIN_SECONDS = float(os.environ["STREAMMARGIN_PATIENCE"])  # the package, imported above, has read it already
logging.getLogger("streammargin.compiling").setLevel("ERROR")  # else a busy machine adds warnings to those of tests

# each worker has its share of the processors: threads of BLAS that wait for one another would take all of them
SHARE = (os.cpu_count() or 1) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
THREADS = os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, SHARE)))
threadpool_limits(int(THREADS), user_api="blas")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the commands that tests interrupt inherit it
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # or nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each of the many commands compiles the package to bytecode anew


QUICK = [  # of the folder of tests: the files that `-m quick` takes, but for their slow tests
    "losses/*", "penalties/*", "rows/*", "options/*", "model/*", "test_*.py",
    "sources/test_open.py", "sources/test_sources_dense.py", "sources/test_sources_csr.py",
    "sources/test_sources_labels.py", "sources/test_sources_names.py", "sources/test_write_hdf5.py",
    "data_tools/test_convert.py", "data_tools/test_csv_columns.py",
    "compiled/test_kernel_rows.py", "compiled/test_kernel_sdca.py", "compiled/test_kernel_newton.py",
    "solvers/test_contract.py", "solvers/coordinate/test_ascent.py", "solvers/test_auto.py", "solvers/test_roles.py",
    "driver/status/test_stopping_and_events.py", "training/test_stream_training.py", "reading/test_plan_and_reading.py",
    "estimators/test_names.py", "sinks/test_console.py", "cli/test_names_of_columns.py",
]  # fmt: skip
TESTS = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    quick = {path for pattern in QUICK for path in TESTS.glob(pattern)}
    for item in items:
        if item.path in quick and not item.get_closest_marker("slow"):
            item.add_marker("quick")


def slow(*values):
    """Values of a parametrization that the slow tests take: those of whom no other test needs the kernels."""
    return pytest.param(*values, marks=pytest.mark.slow)


def write_h5(path, X, y=None, **columns):
    """A data file in the project's layout, written by h5py alone."""
    with h5py.File(path, "w") as file:
        if sp.issparse(X):
            group = file.create_group("X")
            group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": X.shape})
            group["data"], group["indices"], group["indptr"] = X.data, X.indices, X.indptr.astype(np.int64)
        else:
            file["X"] = X
        if y is not None:
            file["y"] = y
        for name, values in columns.items():
            file[name] = values
    return str(path)


def call(*arguments, module="streammargin", **options):
    """Run a command in a process of its own; the completed process, with text output."""
    options = {"capture_output": True, "text": True, "timeout": HANGS, **options}
    return subprocess.run([sys.executable, "-m", module, *map(str, arguments)], **options)


@contextlib.contextmanager
def traced():
    """Bytes that Python and NumPy allocate within: what they `held` at its end, and the `peak`."""
    allocated = SimpleNamespace()
    tracemalloc.start()
    try:
        yield allocated
        allocated.held, allocated.peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """The working directory is the folder of the test."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def here(capsys, monkeypatch):
    """As `call`, but in this process: for what a command answers, if nothing is said of processes and streams."""

    def run(*arguments, cwd=".", main=main):
        capsys.readouterr()
        with monkeypatch.context() as patched:
            patched.chdir(cwd)
            code = main([*map(str, arguments)])
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


def two_clouds():
    """X (200, 10) float32, y (200,) of -1 and 1: two overlapping clouds."""
    random = np.random.default_rng(7)
    y = np.where(random.random(200) < 0.5, -1, 1)
    X = (random.standard_normal((200, 10)) + 0.4 * y[:, None]).astype(np.float32)
    return X, y


@pytest.fixture
def blobs():
    """`two_clouds`, for a test that may change them."""
    return two_clouds()


@pytest.fixture
def blobs_file(blobs, tmp_path):
    """The path of a dense file of `blobs`."""
    return write_h5(tmp_path / "blobs.h5", *blobs)


@pytest.fixture
def endless():
    """X (20000, 8), y: clouds that overlap so much, that at C = 100 no run of seconds comes near the optimum."""
    random = np.random.default_rng(9)
    y = np.where(random.random(20000) < 0.5, -1, 1)
    return (random.standard_normal((20000, 8)) + 0.1 * y[:, None]).astype(np.float32), y


@pytest.fixture
def sparse_blobs(blobs):
    """`blobs` with four values in ten set to zero, as CSR."""
    X, y = blobs
    kept = np.random.default_rng(8).random(X.shape) < 0.6
    return sp.csr_matrix(np.where(kept, X, 0).astype(np.float32)), y


def compiled_by_one(kernel, types, compile=jit.CompiledKernel.compile):
    """A kernel that another of pytest's workers compiles is waited for, and read from the cache."""
    key = f"{kernel.__module__}.{kernel.__qualname__}{types}"
    place = zlib.crc32(key.encode())  # a byte of the file, whose lock is that of this kernel
    with global_compiler_lock:
        fcntl.lockf(LOCKS, fcntl.LOCK_EX, 1, place)
        try:
            return compile(kernel, types)
        finally:
            fcntl.lockf(LOCKS, fcntl.LOCK_UN, 1, place)


CLONE = zlib.crc32(bytes(TESTS))  # has a cache of its own
LOCKS = os.open(f"{tempfile.gettempdir()}/streammargin-tests-{os.getuid()}-{CLONE:08x}.lock", os.O_RDWR | os.O_CREAT)
jit.CompiledKernel.compile = compiled_by_one


class SlowToCompile(event.Listener):
    """Notes where the compiler makes the text of an error in shapes, which takes it seconds: a slice is set to one.

    And where it compiles a kernel of the package again as the columns of a matrix, not its rows, are contiguous.
    """

    def __init__(self):
        self.found = []

    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        if "raise_with_shape_context" in function.__qualname__:
            self.found.append("a kernel sets a slice to an array; write a loop over its values")
        if function.__module__.startswith("streammargin.compiled") and re.search(r", '?F\b", str(event.data["args"])):
            self.found.append(f"{function.__qualname__} is given an array in Fortran's order; make a copy in C's")

    def on_end(self, event):
        pass


@pytest.fixture(scope="session")
def slow_to_compile():
    """What this process has met so far of that kind."""
    listener = SlowToCompile()
    event.register("numba:compile", listener)
    return listener


@pytest.fixture(autouse=True)
def no_slow_compiling(slow_to_compile):
    """Fails the test whose kernels, if they are not cached, take seconds longer to compile than they should."""
    slow_to_compile.found.clear()
    yield
    assert not slow_to_compile.found


@contextlib.contextmanager
def two_workers():
    """A client of a cluster of two processes of dask."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    try:
        with distributed.Client(cluster, set_as_default=False) as client:
            yield client
    finally:
        with contextlib.suppress(KeyError):  # of dask, where a worker was killed
            cluster.close()


@pytest.fixture(scope="module")
def client():
    """Of workers that live as long as the tests of a file."""
    with two_workers() as client:
        yield client


@pytest.fixture
def mortals():
    """A client of workers that may be killed: it is not certain that they start again."""
    with two_workers() as client:
        yield client


@pytest.fixture(scope="module")
def patient():
    """Kernels of small problems run as plain Python, as for users: for files whose tests look at no bit of theirs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jit, "PLAIN_SECONDS", math.inf)
        yield


@pytest.fixture
def small_blocks(monkeypatch):
    """Rows are read in blocks of 8 KB by the workers of a cluster."""
    monkeypatch.setattr(plan, "EVEN_BYTES", 1 << 13)
