"""Every kind of bad input: one sentence, the right exit code, and nothing left behind."""

import importlib
import json
import os
import pathlib
import re
import resource
import subprocess
import sys

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import call, write_h5

import streammargin as sm
from streammargin.cli.main import main
from streammargin.data_tools.convert import convert
from streammargin.errors import InputMissingError
from streammargin.reading.plan import SLACK_BYTES

pytestmark = pytest.mark.usefixtures("inside")


def fails(capsys, code, *words, arguments):
    """Run the command in this process: exit code, one line on stderr with these words, nothing on stdout."""
    assert main([str(a) for a in arguments]) == code
    out, err = capsys.readouterr()
    error = [line for line in err.splitlines() if line.startswith("streammargin: error: ")]
    assert out == "" and len(error) == 1 and "Traceback" not in err
    for word in words:
        assert word in error[0], error[0]


@pytest.fixture
def trains_not(capsys, tmp_path):
    """Training on this file fails and leaves the folder as it was."""

    def check(path, code, *words, options=()):
        before = sorted(os.listdir(tmp_path))
        fails(capsys, code, *words, arguments=["train", path, *options])
        assert sorted(os.listdir(tmp_path)) == before

    return check


CSC = {"encoding-type": "csc_matrix", "encoding-version": "0.1.0", "shape": (3, 3)}
FAULTS = {  # what makes the file, if there is one; words of the sentence in the shell
    "none.h5": (None, 66, ["none.h5: no such file"]),
    "folder": (os.mkdir, 66, ["folder is a directory"]),
    "a.parquet": (b"PAR1\x15" + bytes(64), 65, ["a.parquet is damaged"]),
    "a.txt": (b"Dear diary\n", 65, ["a.txt is not an HDF5 file", "streammargin-data convert a.txt OUT.h5"]),
    "no_rows.h5": ({"data": np.ones((4, 2)), "y": np.ones(4)}, 65, ["no dataset X of rows; it has data, y", "--x N"]),
    "no_labels.h5": ({"X": np.ones((4, 2))}, 65, ["has no labels under the name y", "--y NAME"]),
    "one.h5": ({"X": np.ones((9, 2)), "y": np.ones(9)}, 65, ["have the label 1.0; training needs two classes"]),
    "csc.h5": ({"X": CSC}, 65, ["csc_matrix", "streammargin-data convert csc.h5 OUT.h5"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_no_data_is_a_sentence(trains_not, name):
    """In the words of the shell; tests/sources/ has every fault."""
    content, code, words = FAULTS[name]
    if callable(content):
        content(name)
    elif isinstance(content, bytes):
        pathlib.Path(name).write_bytes(content)
    elif content:
        with h5py.File(name, "w") as file:
            for key, value in content.items():
                if value is CSC:
                    file.create_group(key).attrs.update(value)
                else:
                    file[key] = value
    trains_not(name, code, *words)


def test_standard_input_and_pipes(trains_not, tmp_path, capsys):
    trains_not("-", 66, "standard input is not open; name a file")
    done = call("train", "-", input="", cwd=tmp_path)
    assert done.returncode == 65 and "standard input is empty" in done.stderr and os.listdir(tmp_path) == []
    os.mkfifo(tmp_path / "pipe")
    trains_not("pipe", 66, "pipe is a device, a pipe or a socket")
    with pytest.raises(InputMissingError, match="standard input is not open; name a file"):
        convert("-", "out.h5")


@pytest.mark.parametrize("value, what", [(np.nan, "NaN"), (np.inf, "an infinite value")])
@pytest.mark.parametrize("memory", ["1G", "16M"])
def test_not_finite(trains_not, tmp_path, value, what, memory):
    X = np.ones((30_000, 64), np.float32)
    X[23_456, 7] = value
    write_h5(tmp_path / "a.h5", X, np.arange(30_000) % 2)
    trains_not("a.h5", 65, f"a.h5: row 23456, column 7 is {what}", "drop the row", options=["--memory", memory])


def test_rows_without_values_are_fine(capsys, tmp_path, sparse_blobs):
    X, y = sparse_blobs
    X = sp.csr_matrix(sp.vstack([sp.csr_matrix((3, 10), dtype=np.float32), X, sp.csr_matrix((2, 10))]), dtype="f4")
    write_h5(tmp_path / "a.h5", X, np.concatenate([[1, -1, 1], y, [-1, 1]]))
    assert main(["train", "a.h5"]) == 0
    assert "converged" in capsys.readouterr().err


def test_memory_budget_too_small_names_the_minimum(capsys, tmp_path):
    write_h5(tmp_path / "a.h5", np.ones((50_000, 100), np.float32), np.arange(50_000) % 2)
    assert main(["train", "a.h5", "--memory", "2M"]) == 2
    error = capsys.readouterr().err
    minimum = int(error.rpartition("--memory ")[2].partition("M")[0])
    assert "too small for a.h5" in error and f"needs {minimum}M" in error
    assert main(["train", "a.h5", "--memory", f"{minimum - 1}M"]) == 2
    capsys.readouterr()
    assert main(["train", "a.h5", "--memory", f"{minimum}M", "--passes", "1"]) == 0


@pytest.mark.parametrize(
    "options, words",
    [
        (["-c", "0"], ["C must be positive"]),
        (["-c", "1e306"], ["too large to compute with", "C = inf"]),
        (["-c", "1,2"], ["--valid DATA"]),
        (["-c", "x"], ["'x' is not a number"]),
        (["--solver", "adam"], ["unknown solver 'adam'", "sdca"]),
        (["--loss", "square"], ["unknown loss 'square'", "did you mean --loss squared_hinge?"]),
        (["--multiclass", "softmax"], ["must be ovr or joint, not 'softmax'; the softmax is --loss logistic with"]),
        (["--multiclass", "crammer_singer"], ["it is --loss hinge with --multiclass joint"]),
        (["--tol", "-1"], ["tol must be"]),
        (["--penalty", "lp:2.5"], ["the parameter p of lp"]),
        (["--passes", "0"], ["passes must be a whole number and at least 1"]),
        (["--threads", "0"], ["--threads must be a whole number from 1 to 1024, or all, not 0"]),
        (["--memory", "lots"], ["512M"]),
        (["--bias", "-1"], ["bias must be"]),
        (["--loss", "smooth_hinge:0"], ["width"]),
        (["--positive", "7"], ["there is no label '7'", "-1, 1"]),
        (["--classes", "1,9"], ["there is no label '9'"]),
        (["--class-weight", "heavy"], ["LABEL=WEIGHT"]),
        (["--class-weight", "1=-2"], ["must be a positive number"]),
        (["--loss", "logistic", "-c", "inf"], ["hard margin"]),
        (["-X", "1"], ["unrecognized arguments: -X 1"]),
        (["--tolerance=3", "--valied", "a"], ["did you mean --tol or --valid? see streammargin train --help"]),
        (["--frobnicate"], ["unrecognized arguments: --frobnicate; see streammargin train --help"]),
        (["--seed", "-1"], ["seed must be"]),
        (["--passes", "1.5"], ["--passes: '1.5' is not a whole number"]),
        (["--memory", "9" * 400], ["--memory must be positive and less than"]),
        (["--memory", "0.1"], ["--memory must be positive"]),
        (["-c", "-inf"], ["C must be positive"]),
        (["--classes", "-1,7"], ["there is no label '7'"]),
        (["--class-weight", "-1=2,7=3"], ["there is no label '7'"]),
        (["--classes", ""], ["empty label"]),
        (["--classes", "1,"], ["empty label"]),
        (["--y", ""], ["the name is empty"]),
        (["-o", ""], ["the name is empty"]),
        (["-o", "-"], ["cannot be standard output", "name a file"]),
        (["--log-json", "blobs.h5"], ["the log blobs.h5 is an input as well"]),
        (["--log-json", "link.h5"], ["the log link.h5 is an input as well"]),
        (["-o", "blobs.h5"], ["the model blobs.h5 is an input as well"]),
        (["-o", "blobs.h5", "--force"], ["the model blobs.h5 is an input as well"]),
        (["-o", "v.h5", "--force", "--valid", "v.h5"], ["the model v.h5 is an input as well"]),
        (["--log-json", "y.npy", "--y", "y.npy"], ["the log y.npy is an input as well"]),
        (["--log-json", "v.h5", "--y", "v.h5:y"], ["the log v.h5 is an input as well"]),
        (["--drop", "a", "--drop", "b"], ["--drop is given twice; give it once, with commas between its values"]),
        (["--columns", "a", "--columns", "b"], ["--columns is given twice; give it once, with commas"]),
        (["--text", "a", "--text", "b"], ["--text is given twice; give it once; see"]),
        (["-o", "new", "--log-json", "./new"], ["the log ./new and the model are the same file"]),
    ],
)
def test_usage(trains_not, blobs, blobs_file, tmp_path, options, words):
    write_h5(tmp_path / "v.h5", *blobs)
    np.save(tmp_path / "y.npy", blobs[1])
    (tmp_path / "link.h5").symlink_to("blobs.h5")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    trains_not(blobs_file, 2, *words, options=options)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_output_exists(trains_not, blobs_file, tmp_path):
    (tmp_path / "m.npz").write_text("precious")
    trains_not(
        blobs_file, 73, "m.npz exists; use --force to replace it, or name another output", options=["-o", "m.npz"]
    )
    assert (tmp_path / "m.npz").read_text() == "precious"


@pytest.mark.parametrize("options, told", [
    (["-o", "no/m.npz"], "cannot create no/m.npz"),
    (["-o", "/proc/m.npz"], "cannot create /proc/m.npz"),
    (["--log-json", "no/l"], "cannot create the log no/l"),
    (["--checkpoint", "a/" * 2000], "cannot write checkpoints to a/a/a"),
])  # fmt: skip
def test_outputs_that_cannot_be(trains_not, blobs_file, options, told):
    trains_not(blobs_file, 73, told, options=options)


def test_long_names_fail_before_the_training_or_not_at_all(trains_not, blobs_file, tmp_path):
    longest = os.pathconf(tmp_path, "PC_NAME_MAX")
    trains_not(blobs_file, 73, "cannot create", options=["-o", "m" * (longest + 1)])
    trains_not("none.h5", 73, "new/ is a directory", options=["-o", "new/"])
    assert main(["train", blobs_file, "-q", "-o", "m" * longest]) == 0
    assert sorted(os.listdir(tmp_path)) == ["blobs.h5", "m" * longest]


def test_a_log_is_replaced_only_by_force(trains_not, blobs_file, tmp_path):
    (tmp_path / "log").write_text("precious")
    trains_not(blobs_file, 73, "the log log exists; use --force to replace it", options=["--log-json", "log"])
    assert (tmp_path / "log").read_text() == "precious"
    assert main(["train", blobs_file, "-q", "--log-json", "log", "--force"]) == 0
    assert "run_end" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("more", [[], ["--checkpoint", "points"]])
def test_the_log_of_a_refused_training_does_not_stop_the_next_one(capsys, blobs_file, tmp_path, more):
    train = ["train", blobs_file, "-o", "m.npz", "--log-json", "log"]
    fails(capsys, 2, "the smallest plan needs", arguments=[*train, "--memory", "100", "--report", "r.html"])
    [end] = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert (end["status"], end["exit_code"]) == ("error", 2) and sorted(os.listdir(tmp_path)) == ["blobs.h5", "log"]
    assert main([*train, *more, "-q"]) == 0
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["event"] == "run_start"
    fails(capsys, 73, "m.npz exists", arguments=train)
    fails(capsys, 73, "the log log exists; use --force to replace it", arguments=[*train, "-o", "n.npz"])


@pytest.mark.parametrize("when", ["during the run", "while it is written"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_name_that_a_model_got_is_said_under_q_too(blobs_file, tmp_path, monkeypatch, capsys, when, checkpoint):
    where, name = ("streammargin.api", "train_by") if when == "during the run" else ("streammargin.files", "_rename")
    module = importlib.import_module(where)
    proceed = getattr(module, name)

    def beside_another(*given, **options):
        if name == "train_by" or str(given[1]).endswith("m.npz"):
            (tmp_path / "m.npz").write_text("precious")
        return proceed(*given, **options)

    monkeypatch.setattr(module, name, beside_another)
    more = ["--checkpoint", "checkpoint"] if checkpoint else []
    assert main(["train", blobs_file, "-q", "-o", "m.npz", "--log-json", "log", *more]) == 73
    told = "m.npz appeared during the training; the model is written to m-2.npz"
    assert capsys.readouterr().err == f"warning: {told}\n" and told in (tmp_path / "log").read_text()
    assert (tmp_path / "m.npz").read_text() == "precious" and (tmp_path / "m-2.npz").exists()


def test_width_other_than_the_models(capsys, blobs, blobs_file, tmp_path):
    assert main(["train", blobs_file, "-o", "m.npz"]) == 0
    capsys.readouterr()
    write_h5(tmp_path / "wide.h5", np.ones((5, 11), np.float32), np.ones(5))
    for verb in ("predict", "evaluate"):
        fails(capsys, 65, "wide.h5 has 11 features", "10", arguments=[verb, "m.npz", "wide.h5"])


def test_valid_of_another_width(trains_not, blobs_file, tmp_path):
    write_h5(tmp_path / "wide.h5", np.ones((5, 11), np.float32), np.ones(5))
    trains_not(blobs_file, 65, "wide.h5 has 11 columns", "--features", options=["--valid", "wide.h5"])


def test_unknown_labels_are_named_in_evaluation(capsys, blobs, blobs_file, tmp_path):
    assert main(["train", blobs_file, "-o", "m.npz"]) == 0
    capsys.readouterr()
    write_h5(tmp_path / "other.h5", blobs[0], np.where(np.arange(200) == 33, 5, blobs[1]))
    fails(capsys, 65, "row 33 has the label 5, unknown to the model", arguments=["evaluate", "m.npz", "other.h5"])


def test_model_that_is_none(capsys, blobs_file, tmp_path):
    fails(capsys, 66, "no such model", arguments=["predict", "none.npz", blobs_file])
    np.savez(tmp_path / "a.npz", coef=np.ones(3))
    fails(capsys, 65, "a.npz is not a model", arguments=["predict", "a.npz", blobs_file])
    np.savez(tmp_path / "b.npz", coef=np.array([object()], dtype=object))
    fails(capsys, 65, "b.npz is not a model", arguments=["predict", "b.npz", blobs_file])


def test_not_separable(capsys, blobs_file, tmp_path):
    assert main(["train", blobs_file, "-c", "inf", "-o", "auto.npz"]) == 0
    assert "(not_separable)" in capsys.readouterr().err
    assert main(["train", blobs_file, "-c", "inf", "--solver", "sdca", "-o", "m.npz"]) == 0
    error = capsys.readouterr().err
    assert "(small_margin)" in error and "finite --C" in error and "lower --tol" in error
    assert re.search(r"a margin above [\d.e-]+, which is below [\d.e-]+, --tol times the mean row norm", error)
    assert main(["train", blobs_file, "-c", "inf", "-o", "n.npz", "--require-convergence"]) == 3


def test_a_full_disk_while_the_model_is_written(tmp_path):
    random = np.random.default_rng(0)
    write_h5(tmp_path / "a.h5", random.standard_normal((60, 4_000)).astype("f4"), np.arange(60) % 2)
    (tmp_path / "m.npz").write_text("precious")

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    done = subprocess.run(
        [sys.executable, "-m", "streammargin", "train", "a.h5", "-o", "m.npz", "--force", "-q"],
        capture_output=True, text=True, preexec_fn=small_files,
        env={**os.environ, "STREAMMARGIN_PATIENCE": "1000", "PYTHONDONTWRITEBYTECODE": "1"},  # the limit cuts these too
    )  # fmt: skip
    assert done.returncode == 74, done.stderr
    assert "cannot write m.npz" in done.stderr and "free some space" in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "m.npz"] and (tmp_path / "m.npz").read_text() == "precious"


def test_a_log_that_fails_costs_the_exit_code_and_not_the_model(blobs_file, tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    done = call("train", blobs_file, "-o", "m.npz", "--log-json", "/dev/full", cwd=tmp_path)
    assert done.returncode == 74 and "the log ends here: No space" in done.stderr and (tmp_path / "m.npz").exists()


def test_a_reader_that_leaves_costs_nothing(blobs_file, tmp_path):
    command = (
        f"{sys.executable} -m streammargin train {blobs_file} -o m.npz --log-json - -q | true; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "0" and (tmp_path / "m.npz").exists() and "Error" not in done.stderr


def test_devices_and_pipes_are_not_replaced_and_no_link_is_written_through(blobs_file, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = call("train", blobs_file, "-o", "pipe", "--force", cwd=tmp_path)
    assert done.returncode == 73 and "pipe" in done.stderr and not (tmp_path / "pipe").is_file()
    done = call("train", blobs_file, "-o", "m.npz", "--log-json", "pipe", cwd=tmp_path)
    assert done.returncode == 73 and "the log pipe is a pipe or a socket; name a file" in done.stderr, done.stderr
    (tmp_path / "real.npz").write_text("mine")
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    assert call("train", blobs_file, "-o", "link.npz", cwd=tmp_path).returncode == 73
    assert call("train", blobs_file, "-o", "link.npz", "--force", cwd=tmp_path).returncode == 0
    assert not (tmp_path / "link.npz").is_symlink() and (tmp_path / "real.npz").read_text() == "mine"


def test_predictions_never_replace_their_input(capsys, blobs_file, tmp_path):
    assert main(["train", blobs_file, "-q", "-o", "m.npz"]) == 0
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for output in ("m.npz", blobs_file):
        fails(capsys, 2, "an input as well", arguments=["predict", "m.npz", blobs_file, "-o", output, "--force"])
    fails(
        capsys, 2, "is an input as well", arguments=["export", "m.npz", "--to", "liblinear", "-o", "m.npz", "--force"]
    )
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_rights_of_an_output_are_those_of_any_new_file(blobs_file, tmp_path):
    assert main(["train", blobs_file, "-q", "-o", "m.npz"]) == 0
    (tmp_path / "other").touch()
    assert (tmp_path / "m.npz").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_info_shows_shards_many_labels_and_no_plan(capsys, tmp_path):
    X = np.ones((60, 3))
    write_h5(tmp_path / "1.h5", X, np.arange(60))
    write_h5(tmp_path / "2.h5", X, np.arange(60) % 50)
    assert main(["info", "1.h5", "2.h5", "--memory", "1K"]) == 0
    lines = capsys.readouterr().out.splitlines()
    facts = {line[:12].strip(): line[13:] for line in lines}
    assert facts["rows"] == "120" and "shards: 2" in facts["layout"]
    assert facts["labels"].startswith("0: 3, 1: 3,") and facts["labels"].endswith("19: 2, ... (60 in all)")
    assert facts["reading plan"].startswith("none (a memory budget of 1K is too small")
    assert main(["info", "1.h5"]) == 0
    assert f"memory: {SLACK_BYTES / 2**20:.1f} MiB" in capsys.readouterr().out
    assert main(["train", "1.h5", "--classes", "1,2", "-q", "-o", "m.npz"]) == 0
    capsys.readouterr()
    assert main(["info", "m.npz"]) == 0
    shown = capsys.readouterr().out
    assert "None" not in shown and "{" not in shown and "certificate  primal: " in shown
    fails(capsys, 2, "one model at a time", arguments=["info", "m.npz", "m.npz"])
    (tmp_path / "cut.npz").write_bytes((tmp_path / "m.npz").read_bytes()[:200])
    for command in (["info", "cut.npz"], ["predict", "cut.npz", "1.h5", "-o", "p.txt"]):
        fails(capsys, 65, "cut.npz is not a model, or it is truncated", arguments=command)


def test_labels_of_several_lines_stay_one_line(capsys, blobs, tmp_path):
    X, y = blobs
    write_h5(tmp_path / "a.h5", X, np.where(y > 0, "up\nand\x1b[31m", "d\u00f6wn\u2028").astype(object))
    assert main(["train", "a.h5", "-q", "-o", "m.npz"]) == 0
    assert main(["predict", "m.npz", "a.h5", "-o", "p.txt"]) == 0
    lines = (tmp_path / "p.txt").read_text(encoding="utf-8").split("\n")
    assert len(lines) == 201 and set(lines[:-1]) == {"up\\nand\\x1b[31m", "d\u00f6wn\\u2028"}
    assert main(["info", "a.h5"]) == 0
    assert "up\\nand\\x1b[31m: " in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--x", "--y", "--valid", "--log-json", "--memory"])
def test_two_dashes_are_no_value(trains_not, blobs_file, option):
    """argparse makes an empty list of them."""
    trains_not(blobs_file, 2, f"argument {option}: -- is not a value", options=[f"{option}=--"])


@pytest.mark.parametrize("how", [["evaluate"], ["evaluate", "--json"], ["predict"], ["predict", "--decision"]])
def test_scores_beyond_the_numbers(capsys, blobs, blobs_file, tmp_path, how):
    X, y = blobs
    sm.train((X, y)).model.save("m.npz")
    with h5py.File(tmp_path / "large.h5", "w") as file:
        file["X"], file["y"] = 1.7e308 * np.sign(X.astype(float)), y
    verb, *options = how
    fails(capsys, 65, "large.h5: the score of row ", "overflows",
          arguments=[verb, "m.npz", "large.h5", *options])  # fmt: skip


def test_verify_refuses_what_its_model_has_not(here, blobs_file, tmp_path):
    sm.train(str(blobs_file)).model.save("m.npz")
    (tmp_path / "a.csv").write_text("a,y\n1,0\n3,1\n")
    for arguments, code, told in (
        ((blobs_file, "--tasks", "y"), 2, "the tasks of the rows are unknown here; leave out --tasks"),
        ((blobs_file, "--columns", "a"), 2, "this model finds its columns by name"),
        (("a.csv",), 65, "a.csv is a table, and m.npz was trained on other rows; give the file of its rows"),
    ):
        done = here("verify", "m.npz", *arguments)
        assert done.returncode == code and told in done.stderr
