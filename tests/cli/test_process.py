"""The command as a process: standard streams that are closed, full or of another encoding, and signals."""

import os
import re
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from conftest import HANGS, write_h5

import streammargin as sm
from streammargin.cli.main import main
from streammargin.model.linear import LinearModel

COMMAND = f"{sys.executable} -m streammargin"


@pytest.fixture
def model(tmp_path):
    """A model file of two labels that are not ASCII, and the rows for it in rows.h5."""
    LinearModel(np.array([[1.0, 0.0]]), np.zeros(1), np.array(["näh", "jå"]), {}).save(tmp_path / "m.npz")
    write_h5(tmp_path / "rows.h5", np.array([[1.0, 2.0], [-1.0, 2.0]]), np.array([1, 2]))
    return "m.npz"


def shell(line, folder, **environment):
    """A line for the shell, where COMMAND stands for the command."""
    return subprocess.run(
        ["bash", "-c", line.replace("COMMAND", COMMAND)], cwd=folder, capture_output=True, text=True, timeout=HANGS,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.parametrize("where", ["/dev/full", "&-"])
@pytest.mark.parametrize("verb", ["info rows.h5", "predict m.npz rows.h5"])
def test_results_that_are_lost_are_an_error(model, tmp_path, verb, where):
    if where == "/dev/full" and not os.path.exists(where):
        pytest.skip("needs /dev/full")
    done = shell(f"COMMAND {verb} >{where}", tmp_path)
    assert done.returncode == 74 and len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("streammargin: error: cannot write to standard output (")


@pytest.mark.parametrize("where", ["/dev/full", "&-"])
def test_messages_that_are_lost_cost_nothing(tmp_path, blobs_file, where):
    if where == "/dev/full" and not os.path.exists(where):
        pytest.skip("needs /dev/full")
    assert shell(f"COMMAND train {blobs_file} -o m.npz 2>{where}", tmp_path).returncode == 0
    assert sm.load_model(tmp_path / "m.npz").header["converged"]
    done = shell(f"COMMAND train none.h5 2>{where}", tmp_path)
    assert (done.returncode, done.stdout) == (66, "")


def test_a_reader_that_has_enough_is_no_error(model, tmp_path):
    done = shell("COMMAND info rows.h5 | head -1; echo ${PIPESTATUS[0]}", tmp_path)
    assert done.stdout.split() == ["kind", "data", "0"] and done.stderr == ""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_labels_on_stdout_are_those_of_files_whatever_the_encoding(model, tmp_path, encoding, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, verb in enumerate(("predict --decision", "predict")):
        assert main([*verb.split(), model, "rows.h5", "-o", f"{number}.txt"]) == 0
        done = shell(f"COMMAND {verb} {model} rows.h5 > out.txt", tmp_path, PYTHONIOENCODING=encoding)
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "out.txt").read_bytes() == (tmp_path / f"{number}.txt").read_bytes()
    assert (tmp_path / "out.txt").read_text("utf-8").splitlines()[0] == "j\xe5"


def test_files_and_messages_bear_an_encoding_without_their_letters(model, tmp_path):
    done = shell(f"COMMAND predict {model} rows.h5 -o file.txt", tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "labels of 2 rows written to file.txt\n")
    assert (tmp_path / "file.txt").read_text("utf-8").splitlines() == ["j\xe5", "n\xe4h"]
    done = shell("COMMAND train näh.h5", tmp_path, PYTHONIOENCODING="ascii")  # a message is escaped, not lost
    assert done.returncode == 66 and "n\\xe4h.h5: no such file" in done.stderr


@pytest.mark.parametrize("output", ["p.npy", "p.h5", "p.txt"])
def test_predictions_on_a_full_disk_leave_nothing(model, tmp_path, output):
    with h5py.File(tmp_path / "many.h5", "w") as file:
        file["X"] = np.zeros((40_000, 2), np.float32)
    before = sorted(os.listdir(tmp_path))
    done = shell(f"ulimit -f 60; COMMAND predict {model} many.h5 --decision -o {output}", tmp_path)
    assert done.returncode == 74 and sorted(os.listdir(tmp_path)) == before, done.stderr
    assert len(done.stderr.splitlines()) == 1 and "cannot write" in done.stderr and "free some space" in done.stderr
    assert not re.search(r"0x[0-9a-f]+|file descriptor|fd = ", done.stderr)


@pytest.mark.parametrize("number, what", [(signal.SIGTERM, "terminated"), (signal.SIGHUP, "hung up")])
def test_signals_leave_no_half_predictions(tmp_path, number, what):
    LinearModel(np.ones((20, 2)), np.zeros(20), np.arange(20), {}).save(tmp_path / "m.npz")
    for rows in (10, 30_000_000):
        with h5py.File(tmp_path / "rows.h5", "w") as file:
            file.create_dataset("X", (rows, 2), np.float32)
        if rows == 10:  # compiles, so that the signal comes while rows are written
            assert shell("COMMAND predict m.npz rows.h5", tmp_path).returncode == 0
    before = sorted(os.listdir(tmp_path))
    child = subprocess.Popen(
        [*COMMAND.split(), "predict", "m.npz", "rows.h5", "--decision", "-o", "p.txt"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while child.poll() is None and not any(name.endswith(".part") for name in os.listdir(tmp_path)):
        time.sleep(0.01)
    child.send_signal(number)
    _, error = child.communicate(timeout=HANGS)
    assert (child.returncode, error) == (128 + number, f"streammargin: {what}\n")
    assert sorted(os.listdir(tmp_path)) == before


def test_interrupts_while_modules_are_imported_are_one_line(model, tmp_path):
    # the first line of the command's own code is reached long before the libraries are there
    code = (
        "import os, signal, sys, threading; from streammargin.__main__ import main; "
        "sys.argv = ['streammargin', 'info', 'rows.h5']; import streammargin.cli.entry as entry; "
        "real = entry.repair_streams; "
        "entry.repair_streams = lambda: (real(), os.kill(os.getpid(), signal.SIGINT)); sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=HANGS)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "streammargin: interrupted\n")


def test_a_signal_that_is_ignored_stays_so(model, tmp_path):
    code = (
        "import os, signal, sys; import streammargin.cli.entry as entry; from streammargin.__main__ import main; "
        f"sys.argv = ['streammargin', 'predict', {model!r}, 'rows.h5']; real = entry.repair_streams; "
        "entry.repair_streams = lambda: (real(), os.kill(os.getpid(), signal.SIGHUP)); sys.exit(main())"
    )
    words = ["sh", "-c", 'trap \'\' HUP; exec "$0" -c "$1"', sys.executable, code]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0 and done.stdout.split() == ["jå", "näh"], done.stderr


STRIKE = "os.kill(os.getpid(), signal.SIGTERM)"


@pytest.mark.parametrize(
    "where",
    [
        "Last()",
        f"exec({STRIKE!r})",
        "sys.meta_path.insert(0, Last()); import streammargin.files",
        f"entry.before_leaving.append(lambda: os.kill(os.getpid(), signal.SIGINT)); {STRIKE}",
    ],
)
def test_a_signal_ends_the_command_wherever_it_strikes(tmp_path, where):
    # Python drops what is raised while an object is collected; after what is raised in exec, python -m ends by SIGINT;
    # a module whose import has begun lacks its functions; of two signals the first is told
    (tmp_path / "struck.py").write_text(
        "import os, signal, sys, time; import streammargin.cli.entry as entry\n"
        "class Last:\n"
        "    def __del__(self):\n"
        f"        {STRIKE}; time.sleep(0)\n"
        "    def find_spec(self, *given):\n"
        f"        if 'streammargin.files' in sys.modules: {STRIKE}\n"
        "def job():\n"
        f"    {where}; time.sleep(900)\n"
        "sys.exit(entry.guarded('streammargin', lambda: job))\n"
    )
    done = subprocess.run([sys.executable, "-m", "struck"], cwd=tmp_path, capture_output=True, text=True, timeout=HANGS)
    assert (done.returncode, done.stderr) == (143, "streammargin: terminated\n")


SIGNALLED = """
import os, signal, sys
import streammargin.cli.entry as entry
from streammargin.cli import last_resort
last_resort.start = lambda *given: None  # it clears the alarm as well
def job():
    BEFORE
    entry.before_leaving.append(lambda: print(signal.alarm(0), flush=True))
    os.kill(os.getpid(), signal.SIGTERM)
sys.exit(entry.guarded("streammargin", lambda: job))
"""


def signalled(before, stderr=subprocess.PIPE):
    """A command that does something before a signal ends it, and prints the seconds of an alarm that is left."""
    words = [sys.executable, "-c", SIGNALLED.replace("BEFORE", before)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=stderr, timeout=HANGS)
    assert done.returncode == 143
    return done.stdout


def test_a_signal_clears_the_line_of_progress():
    here, terminal = os.openpty()
    os.set_blocking(here, False)
    signalled("print('5,000 rows written', end='', file=sys.stderr, flush=True)", terminal)
    assert os.read(here, 999) == b"5,000 rows written\r\x1b[Kstreammargin: terminated\r\n"
    os.close(here)
    os.close(terminal)


def test_a_signal_whose_message_fails_leaves_no_alarm():
    out, into = os.pipe()
    os.close(out)
    assert signalled("pass", into) == b"0\n"
    os.close(into)


def test_a_signal_ends_the_worker_processes():
    """One that is left would keep standard output open."""
    assert signalled(
        "from concurrent.futures import ProcessPoolExecutor; from multiprocessing import get_context; "
        "pool = ProcessPoolExecutor(1, mp_context=get_context('spawn')); pool.submit(os.getpid).result()"
    ).endswith(b"0\n")


@pytest.mark.parametrize("keep", [[], ["--keep"]])
def test_a_signal_to_the_demo_leaves_no_half_file(tmp_path, keep):
    words = [*COMMAND.split(), "demo", "--size", "200M", "--dir", str(tmp_path), *keep]
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while child.poll() is None and not list(tmp_path.glob("*/.streammargin-*.part")):
        time.sleep(0.01)
    child.terminate()
    assert child.wait(HANGS) == 143
    assert len(list(tmp_path.rglob("*"))) == len(keep)  # the folder


@pytest.mark.parametrize("option", ["--y", "--sample-weight"])
@pytest.mark.parametrize("name", ["other.npy", "other.h5:y"])
def test_a_file_beside_the_rows_that_may_not_be_read_is_named(tmp_path, blobs_file, option, name):
    np.save(tmp_path / "other.npy", np.ones(10))
    write_h5(tmp_path / "other.h5", np.ones((10, 2)), np.ones(10))
    file = tmp_path / name.partition(":")[0]
    file.chmod(0)
    plain = "setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-dac_override,-dac_read_search "
    if os.geteuid() == 0 and shell("which setpriv", tmp_path).returncode:
        pytest.skip("the superuser may read everything")
    done = shell(f"{plain if os.geteuid() == 0 else ''}COMMAND train {blobs_file} {option} {name} -q", tmp_path)
    assert done.returncode == 66, done.stderr
    assert done.stderr == f"streammargin: error: {file.name} cannot be read (Permission denied)\n"


LEFT = """
import hashlib, os, signal, sys, threading, time
import streammargin.cli.entry as entry
from streammargin.cli import last_resort
from streammargin.cli.train import _Signals
from streammargin.files import replacing, temporary_folder

entry.AGAIN = 0.1
def hang():
    last_resort.CALL_PATIENCE = 0.5
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
def twice():
    with _Signals():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(2 * entry.AGAIN)
def job():
    with replacing("out") as name, temporary_folder("out") as folder:
        open(folder + "/rows", "w").close()
        print(len(os.listdir()), flush=True)
        WAY
        time.sleep(900)
sys.exit(entry.guarded("streammargin", lambda: job))
"""


@pytest.mark.parametrize("way", ["os.kill(os.getpid(), signal.SIGTERM)", "twice()", "hang()"])
def test_a_process_that_a_signal_ends_at_once_leaves_no_half_file(tmp_path, way):
    """At a first signal, at a second one of a run, and in a library that does not come back."""
    done = subprocess.run(
        [sys.executable, "-c", LEFT.replace("WAY", way)], cwd=tmp_path, capture_output=True, text=True, timeout=HANGS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (143, "2\n"), done.stderr
    assert os.listdir(tmp_path) == []


FREED = """
import numpy as np
from streammargin.cli.entry import return_freed_arrays
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
return_freed_arrays()
large = np.ones(2 << 20)  # 16 MiB: freed, they would raise the size from which arrays have pages of their own
del large
rows = [(np.ones(1 << 19), bytes(100_000)) for _ in range(40)]  # of 4 MiB, with something that stays behind each
stay = [small for _, small in rows]
before = resident()
del rows
print(before - resident())
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_freed_arrays_go_back_to_the_system():
    returned = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True).stdout
    assert int(returned) > 150


@pytest.fixture
def full_pipe():
    """The end to write to of a pipe that nobody reads, and that is full."""
    out, into = os.pipe()
    os.set_blocking(into, False)
    while True:
        try:
            os.write(into, bytes(4096))
        except BlockingIOError:
            break
    os.set_blocking(into, True)
    yield into
    os.close(out)
    os.close(into)


@pytest.mark.parametrize("stream", ["stderr", "stdout"])
def test_one_signal_ends_a_run_whose_messages_nobody_reads(stream, tmp_path, blobs_file, full_pipe):
    """It waits for a reader, is told to stop, and writes the model so far."""
    code = (
        "import sys, threading; import streammargin.cli.entry as entry; from streammargin.__main__ import main\n"
        "takes = entry._takes\n"
        "def told(*given):\n"
        "    answer = takes(*given)\n"
        "    if not answer: open('waits', 'w').close()\n"
        "    return answer\n"
        "entry._takes = told; sys.exit(main())"
    )
    words = ["train", blobs_file, "-o", "m.npz", "--tol", "0", "-v", "--log-json", "-"]
    other = {"stdout": "stderr", "stderr": "stdout"}[stream]
    child = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=tmp_path, **{stream: full_pipe, other: subprocess.DEVNULL}
    )
    while child.poll() is None and not (tmp_path / "waits").exists():
        time.sleep(0.01)
    child.terminate()
    assert child.wait(HANGS) == 143 and sm.load_model(tmp_path / "m.npz").header["reason"] == "signal"


def test_the_last_resort_ends_a_process_whose_messages_nobody_reads(full_pipe):
    code = (
        "import hashlib, os, signal, sys, threading; import streammargin.cli.entry as entry\n"
        "from streammargin.cli import last_resort\n"
        "last_resort.CALL_PATIENCE = 0.5\n"
        "def job():\n"
        "    threading.Thread(target=print, args=('x' * 9999,), kwargs={'file': sys.stderr}, daemon=True).start()\n"
        "    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()\n"
        "    hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)\n"
        "sys.exit(entry.guarded('streammargin', lambda: job))"
    )
    assert subprocess.run([sys.executable, "-c", code], stderr=full_pipe, timeout=HANGS).returncode == 143
