"""The commands as a user starts them: what stands on stdout, in files, in events, and the exit codes."""

import json
import os
import re
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest
from conftest import HANGS, call, two_clouds, write_h5
from reference.datasets import separable

import streammargin as sm
from streammargin.cli.main import main
from streammargin.data_tools.generate import generate
from streammargin.kernels import KERNELS
from streammargin.saved.words import left_out


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(data, model, completed process of the training, its log)"""
    folder = tmp_path_factory.mktemp("trained")
    data = write_h5(folder / "blobs.h5", *two_clouds())
    done = call("train", data, "-o", "m.npz", "--log-json", "log", cwd=folder)
    assert done.returncode == 0, done.stderr
    return data, str(folder / "m.npz"), done, folder / "log"


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_train_says_what_it_did_on_stderr_alone(trained):
    done = trained[2]
    assert done.stdout == ""
    assert "converged (tolerance)" in done.stderr and "certified gap" in done.stderr and "\x1b" not in done.stderr


def test_the_events(trained):
    log = events(trained[3])
    kinds = [event["event"] for event in log]
    assert kinds[0] == "run_start" and kinds[-1] == "run_end" and "certificate" in kinds
    start, end = log[0], log[-1]
    assert {"schema", "version", "params", "data", "plan"} <= start.keys() and start["schema"] == 1
    assert start["data"]["rows"] == 200 and start["data"]["features"] == 10 and start["data"]["nnz"] == 2000
    assert {"path", "fingerprint"} <= start["data"].keys()
    assert start["plan"].keys() >= {"block_rows", "blocks", "memory_bytes"}
    keys = {"pass", "rows", "seconds", "read_seconds", "compute_seconds", "wait_seconds", "bytes_read", "mistakes",
            "rss_bytes", "estimate"}  # fmt: skip
    passes = [event for event in log if event["event"] == "pass_end"]
    assert all(keys <= event.keys() for event in passes)
    assert [event["pass"] for event in passes] == list(range(1, len(passes) + 1))
    exact = [event for event in log if event["event"] == "certificate"][-1]
    assert exact.keys() >= {"pass", "primal", "dual", "gap", "margin_lower", "margin_upper", "margin_gap", "mistakes",
                            "train_error", "valid_error", "per_class"}  # fmt: skip
    assert 0 <= exact["gap"] <= 1e-3 and exact["margin_lower"] is None and exact["valid_error"] is None
    assert exact["gap"] == pytest.approx((exact["primal"] - exact["dual"]) / exact["primal"])
    assert {"status": "ok", "converged": True, "reason": "tolerance", "exit_code": 0}.items() <= end.items()
    assert end["passes"] == len(passes) and end["model"] == "m.npz"


def test_log_on_stdout_and_infinity(blobs_file, tmp_path, here):
    done = here("train", blobs_file, "-c", "inf", "-o", "m.npz", "--log-json", "-", "-q", cwd=tmp_path)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["params"]["C"] == "inf" and lines[-1]["reason"] == "not_separable" and not lines[-1]["converged"]


def test_default_output_and_force(blobs_file, tmp_path, here):
    assert here("train", blobs_file, "-q", cwd=tmp_path).stderr == ""
    assert (tmp_path / "blobs.model.npz").exists()
    assert here("train", blobs_file, "-q", cwd=tmp_path).returncode == 73
    assert here("train", blobs_file, "-q", "--force", cwd=tmp_path).returncode == 0


def test_predict_to_everything(trained, blobs, tmp_path, here):
    data, model, *_ = trained
    X, _ = blobs
    reference = sm.load_model(model)
    labels, scores = reference.predict(X), reference.decision_function(X)
    printed = here("predict", model, data)
    assert [int(line) for line in printed.stdout.split()] == labels.tolist() and printed.stderr == ""
    printed = here("predict", model, data, "--decision")
    head, *lines = printed.stdout.split()
    assert head == "1" and np.array(lines, float) == pytest.approx(scores, rel=1e-14)
    for name, decision in (("p.txt", []), ("p.npy", []), ("p.h5", []), ("s.npy", ["--decision"])):
        done = here("predict", model, data, "-o", tmp_path / name, *decision)
        what = f"{'scores' if decision else 'labels'} of {len(X)} rows"
        assert done.returncode == 0 and done.stderr == f"{what} written to {tmp_path / name}\n"
    assert [int(line) for line in (tmp_path / "p.txt").read_text().split()] == labels.tolist()
    assert np.array_equal(np.load(tmp_path / "p.npy"), labels)
    assert np.allclose(np.load(tmp_path / "s.npy"), scores)
    with h5py.File(tmp_path / "p.h5") as file:
        assert np.array_equal(file["labels"][:], labels)
    again = here("predict", model, data, "-o", tmp_path / "p.npy")
    assert again.returncode == 73 and "--force" in again.stderr
    quiet = here("predict", model, data, "-o", tmp_path / "p.npy", "--force", "-q")
    assert quiet.returncode == 0 and quiet.stderr == ""


def test_text_labels_come_back(tmp_path, blobs, here):
    X, y = blobs
    names = np.where(y > 0, "spam", "ham").astype(object)
    write_h5(tmp_path / "a.h5", X, names.astype(h5py.string_dtype()))
    assert here("train", "a.h5", "-o", "m.npz", "-q", "--class-weight", "spam=2", cwd=tmp_path).returncode == 0
    assert set(here("predict", "m.npz", "a.h5", cwd=tmp_path).stdout.split()) == {"spam", "ham"}


def test_evaluate(trained, blobs, here):
    data, model, *_ = trained
    X, y = blobs
    reference = sm.load_model(model)
    found = json.loads(here("evaluate", model, data, "--json").stdout)
    wrong = int(np.sum(reference.predict(X) != y))
    u = y * reference.decision_function(X)
    assert found["mistakes"] == wrong and found["accuracy"] == 1 - wrong / 200
    assert found["loss"] == pytest.approx(np.maximum(0, 1 - u).mean())
    assert found["margin"] == pytest.approx(u.min() / np.linalg.norm(reference.coef_))
    assert f"{1 - wrong / 200:.4f}"[:5] in here("evaluate", model, data).stdout


@pytest.mark.parametrize(
    "options, told, every",
    [
        ([], "are the training rows", 7),
        ([], "are the training rows", 200),  # no mistakes
        (["--cv", "3"], "are the training rows", 7),
        (["--valid", "20%"], "may be the training rows, 160 of 200 trained on", 7),
        (["--kernel", "rbf"], "may be the training rows", 7),
        (["--loss", "squared_error"], "are the training rows", 7),
        (["--loss", "squared_error", "--valid", "20%"], "are the training rows, 160 of 200 trained on", 7),
    ],
)
def test_evaluate_says_that_rows_are_those_of_the_training(tmp_path, blobs, here, options, told, every):
    X, y = blobs
    y = np.where((np.arange(200) + 1) % every, y, -y)
    write_h5(tmp_path / "a.h5", X, y)
    write_h5(tmp_path / "b.h5", X, np.where(np.arange(200) % 5, y, -y))
    write_h5(tmp_path / "c.h5", X * (1.0 + 1e-6), y)  # as many mistakes
    assert here("train", "a.h5", "-o", "m.npz", "-q", *options, cwd=tmp_path).returncode == 0
    error = sm.load_model(tmp_path / "m.npz").header["certificate"]["valid_error"]
    known = "" if error is None else f"; the held-out error was {error:.6g}"
    note = f"these {told}: {'if so, ' * told.startswith('may')}new ones will go wrong more often{known}\n"
    for data, said in (("a.h5", note), ("c.h5", note * told.startswith("may")), ("b.h5", "")):
        lines = here("evaluate", "m.npz", data, cwd=tmp_path).stderr.splitlines(keepends=True)
        assert "".join(line for line in lines if not line.startswith("compil")) == said


FLAT = "the probabilities tell hardly more than the shares of the classes: log loss 0.6"


@pytest.mark.parametrize(
    "C, told, advice",
    [("1e-6", FLAT, "larger"), ("1", "", ""), ("1e4", "the probabilities are too sure: log loss ", "smaller")],
)
def test_evaluate_says_that_probabilities_are_flat_or_too_sure(tmp_path, blobs, here, C, told, advice):
    X, y = blobs
    if C == "1e4":  # more columns than so few rows with wrong labels can bear
        X, y = np.hstack([X, np.random.default_rng(0).normal(size=(200, 40))]), np.where(np.arange(200) % 10, y, -y)
    write_h5(tmp_path / "a.h5", X[:150], y[:150])
    write_h5(tmp_path / "b.h5", X[150:], y[150:])
    assert here("train", "a.h5", "-o", "m.npz", "-q", "--loss", "logistic", "-C", C, cwd=tmp_path).returncode == 0
    said = here("evaluate", "m.npz", "b.h5", cwd=tmp_path).stderr
    assert said.startswith(told) and said.endswith(f"use --calibrate or a {advice} --C\n" if told else "")
    assert said.count("\n") == bool(told)


def test_evaluate_says_that_probabilities_are_worse_than_shares_though_labels_tell_little(tmp_path, here):
    random = np.random.default_rng(0)
    X = random.standard_normal((600, 3))
    write_h5(tmp_path / "a.h5", X, np.where(X[:, 0] + 2.0 * random.standard_normal(600) > 2.2, 1, -1))
    assert here("train", "a.h5", "-o", "m.npz", "-q", "--loss", "logistic", "-C", 1e-4, cwd=tmp_path).returncode == 0
    worse = "the probabilities tell less than the shares of the classes: log loss 0.6"
    assert worse in here("evaluate", "m.npz", "a.h5", cwd=tmp_path).stderr


def test_evaluate_many_classes(tmp_path, here):
    generate(str(tmp_path / "a.h5"), rows=600, features=8, classes=30, seed=1)
    here("train", "a.h5", "-o", "m.npz", "-q", "--tol", "0.1", cwd=tmp_path)
    lines = here("evaluate", "m.npz", "a.h5", cwd=tmp_path).stdout.splitlines()
    parts = json.loads(here("evaluate", "m.npz", "a.h5", "--json", cwd=tmp_path).stdout)["per_class"]
    assert "the 10 of 30 classes with the smallest F1 (--json has all):" in lines
    worst = sorted(parts, key=lambda part: part["f1"])[:10]
    shown = [line.split()[1].rstrip(":") for line in lines if line.startswith("class ")]
    assert shown == [str(part["label"]) for part in worst]


def test_info_names_the_matrix_of_the_training(tmp_path, capsys):
    X = np.random.default_rng(0).standard_normal((40, 2))
    for x in ("layers/counts", "X"):
        with h5py.File(tmp_path / "rows.h5", "w") as file:
            file[x], file["y"] = X, np.arange(40) % 2
        asked = {} if x == "X" else {"x": x}
        sm.train(str(tmp_path / "rows.h5"), tol=0.5, **asked).model.save(tmp_path / "m.npz", force=True)
        assert main(["info", str(tmp_path / "m.npz"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["trained_on"] == asked.get("x")
        assert main(["info", str(tmp_path / "m.npz")]) == 0
        assert ("trained on   layers/counts\n" in capsys.readouterr().out) == (x != "X")


def test_info_on_data_and_model(trained, here):
    data, model, *_ = trained
    found = json.loads(here("info", data, "--json").stdout)
    assert found["rows"] == 200 and found["features"] == 10 and sum(found["labels"].values()) == 200
    assert found["reading_plan"]["blocks"] == 1 and found["dtype"] == "float32"
    found = json.loads(here("info", model, "--json").stdout)
    assert found["kind"] == "model" and found["classes"] == ["-1", "1"] and found["converged"] is True
    assert "rows" in here("info", data).stdout
    lines = here("info", model).stdout.splitlines()
    assert "rows         200" in lines and not any(line.startswith(("problem", "measured")) for line in lines)


@pytest.mark.parametrize("rows, share", [(203, "0.2"), (204, "0.25"), (200, "10%")])
def test_the_run_info_verify_and_log_say_how_many_rows_were_held_out(tmp_path, here, rows, share):
    generate(str(tmp_path / "a.h5"), rows=rows, features=4, seed=1)
    said = here("train", "a.h5", "-o", "m.npz", "--valid", share, "--log-json", "log", cwd=tmp_path).stderr
    folds = {"0.2": 5, "0.25": 4, "10%": 10}[share]
    held_out = int(left_out(0, rows, folds, 0).sum())
    assert held_out in (rows // folds, rows // folds + 1)
    assert f"a.h5: {rows - held_out} of {rows} rows, {held_out} held out, 4 features" in said
    told = here("info", "m.npz", cwd=tmp_path).stdout
    assert f"rows         {rows - held_out} of {rows}, {held_out} held out" in told
    verified = here("verify", "m.npz", "a.h5", cwd=tmp_path).stdout.splitlines()
    assert verified[1].split() == ["rows", str(rows), str(rows), "agrees"]
    assert verified[2].split() == ["held", "out", str(held_out)]
    start = json.loads((tmp_path / "log").read_text().splitlines()[0])
    assert (start["data"]["rows"], start["data"]["held_out"]) == (rows, held_out)
    facts = json.loads(here("info", "m.npz", "--json", cwd=tmp_path).stdout)
    assert (facts["rows"], facts["held_out_rows"]) == (rows, held_out)
    wrong = facts["certificate"]["valid_error"] * held_out  # of as many rows
    assert wrong == pytest.approx(round(wrong), abs=1e-9)


def test_positive_classes_scale_bias_weights_and_valid(tmp_path, here):
    generate(str(tmp_path / "a.h5"), rows=600, features=8, classes=4, seed=1)
    generate(str(tmp_path / "v.h5"), rows=300, features=8, classes=4, seed=1)
    options = ["--scale", "std", "-B", "1", "--class-weight", "balanced", "--valid", "v.h5", "-q"]
    assert here("train", "a.h5", "-o", "p.npz", "--positive", "2", *options, cwd=tmp_path).returncode == 0
    model = sm.load_model(tmp_path / "p.npz")
    assert model.classes_.tolist() == ["not 2", "2"] and model.intercept_[0] != 0.0
    assert here("train", "a.h5", "-o", "c.npz", "--classes", "1,3", *options, cwd=tmp_path).returncode == 0
    assert sm.load_model(tmp_path / "c.npz").classes_.tolist() == [1, 3]
    done = here("train", "a.h5", "-o", "m.npz", *options, "-c", "0.01,0.1,1", "--log-json", "-", cwd=tmp_path)
    log = [json.loads(line) for line in done.stdout.splitlines()]
    last = {}
    for event in log:
        if event["event"] == "certificate":
            last[event["pass"]] = [*last.get(event["pass"], []), event["valid_error"]]
    errors = list(last.values())[-1]
    model = sm.load_model(tmp_path / "m.npz")
    assert len(errors) == 3 and model.header["C"] == [0.01, 0.1, 1][int(np.argmin(errors))]
    with h5py.File(tmp_path / "v.h5") as file:
        assert np.mean(model.predict(file["X"][:]) != file["y"][:]) == min(errors)


def test_labels_in_a_file_of_their_own_are_not_those_of_the_held_out_rows(blobs_file, tmp_path, here):
    with h5py.File(blobs_file) as file:
        X, y = file["X"][:], file["y"][:]
    write_h5(tmp_path / "rows.h5", X)
    np.save(tmp_path / "labels.npy", y)
    write_h5(tmp_path / "v.h5", X, -y)
    done = here("train", "rows.h5", "--y", "labels.npy", "--valid", "v.h5", "--log-json", "-", cwd=tmp_path)
    end = json.loads(done.stdout.splitlines()[-1])
    assert end["valid_error"] > 0.5 and set(y) == {-1, 1}


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_leave_the_model_so_far(tmp_path, number, code):
    generate(str(tmp_path / "a.h5"), rows=100_000, features=50)
    child = subprocess.Popen(
        [sys.executable, "-m", "streammargin", "train", "a.h5", "--tol", "1e-12", "--passes", "1000000",
         "--log-json", "-", "--memory", "20M"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in child.stdout:
        if json.loads(line)["event"] == "pass_end":
            break
    child.send_signal(number)
    out, err = child.communicate(timeout=HANGS)
    assert child.returncode == code, err
    end = json.loads(out.splitlines()[-1])
    assert end["reason"] == "signal" and end["exit_code"] == code and end["converged"] is False
    model = sm.load_model(tmp_path / "a.model.npz")
    assert model.header["converged"] is False and np.any(model.coef_ != 0.0)


@pytest.mark.parametrize("solver", ["perceptron", "mirror"])
def test_rows_that_are_only_separated_did_not_converge(solver, tmp_path, capsys):
    file = write_h5(tmp_path / "data.h5", *separable(rows=200, margin=2.0))
    command = ["train", file, "--solver", solver, "--tol", "0.1", "--passes", "5000", "--force"]
    for more, code in ([], 0), (["--require-convergence"], 3):
        assert main([*command, "-o", str(tmp_path / "m.npz"), "--log-json", str(tmp_path / "log"), *more]) == code
        end = events(tmp_path / "log")[-1]
        assert end["reason"] == "separated" and end["converged"] is False and end["exit_code"] == code
        said = capsys.readouterr().err
        assert "not converged (separated)" in said and "use --solver auto" in said and "--passes" not in said


def test_require_convergence_and_limits(endless, tmp_path, here):
    file = write_h5(tmp_path / "endless.h5", *endless)
    done = here("train", file, "-c", "100", "--tol", "1e-9", "--passes", "1", "--require-convergence", cwd=tmp_path)
    assert done.returncode == 3 and "not converged (passes)" in done.stderr
    assert "far from the tolerance 1e-09; use a smaller --C, raise --passes or --tol" in done.stderr
    assert "--scale" not in done.stderr  # the columns have one range
    done = here("train", file, "-c", "100", "--force", "--tol", "0", "--passes", "100000000", "--max-seconds", "1",
                "--log-json", "-", cwd=tmp_path)  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1])["reason"] == "seconds"
    assert done.returncode == 0 and "warning" in done.stderr


def test_a_hard_margin_that_is_slow_names_the_solver_for_it(tmp_path, here):
    file = write_h5(tmp_path / "apart.h5", np.array([[1.0, 0.1], [1.0, -0.1]]), np.array([1, 0]))
    for solver, named in (("sdca", True), ("active-set", False)):
        done = here(
            "train", file, "-c", "inf", "--passes", "1", "--solver", solver, "--force", "-e", "1e-9", cwd=tmp_path
        )
        assert done.returncode == 0 and "raise --passes" in done.stderr
        assert ("use --solver auto, " in done.stderr) == named and "smaller" not in done.stderr


def test_usage_error_and_help_are_on_the_right_stream():
    done = call("train")
    assert done.returncode == 2 and done.stdout == "" and "streammargin: error:" in done.stderr
    done = call("train", "--help")
    assert done.returncode == 0 and "--checkpoint" in done.stdout and "hinge" in done.stdout
    assert call("--version").stdout.strip() == f"streammargin {sm.__version__}"


def test_unexpected_errors_are_one_sentence_without_debug(tmp_path, monkeypatch, capsys):
    from streammargin.cli import info
    from streammargin.cli.main import main

    def broken(options):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(info, "run", broken)
    assert main(["info", "x"]) == 1
    error = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: oh" in error and "Traceback" not in error
    assert main(["info", "x", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_error_of_a_kernel_of_yours_names_it(tmp_path, monkeypatch, capsys, blobs):
    class Broken(sm.kernels.Kernel):
        def gram(self, X, Z):
            return {}["oh"]

    monkeypatch.setitem(KERNELS, "broken", Broken)
    file = write_h5(tmp_path / "rows.h5", *blobs)
    for words in (["--kernel", "linear+broken"], ["--map", "nystroem:3,kernel=broken"]):
        assert main(["train", file, *words]) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == "streammargin: error: gram of broken:weight=1 raises KeyError: 'oh' (--debug shows where)"
    with pytest.raises(KeyError):
        sm.train(blobs, kernel=Broken())


def test_shards_are_one_data_set(tmp_path, blobs, here):
    X, y = blobs
    write_h5(tmp_path / "1.h5", X[:120], y[:120])
    write_h5(tmp_path / "2.h5", X[120:], y[120:])
    assert here("train", "1.h5", "2.h5", "-o", "m.npz", "--tol", "1e-6", "-q", cwd=tmp_path).returncode == 0
    whole = sm.train((X, y), tol=1e-6)
    primal = sm.load_model(tmp_path / "m.npz").header["certificate"]["primal"]
    assert primal == pytest.approx(whole.certificate["primal"], rel=2e-6)


def test_liblinear_export(trained, tmp_path, here):
    model = trained[1]
    assert here("export", model, "--to", "liblinear", "-o", tmp_path / "m.txt").returncode == 0
    head, _, body = (tmp_path / "m.txt").read_text().partition("w\n")
    w = np.array(body.split(), float)
    assert "label 1 -1" in head and "nr_feature 10" in head and "bias 1" in head
    saved = sm.load_model(model)
    assert np.array_equal(w, np.append(saved.coef_[0], saved.intercept_))


@pytest.mark.slow
def test_demo_compiles_what_a_first_user_goes_on_with_and_counts_none_of_it(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run(*words):
        data_tools = words[0] in ("generate", "split")
        command = [sys.executable, "-m", "streammargin.data_tools" if data_tools else "streammargin", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=HANGS)
        assert done.returncode == 0, done.stderr
        return done.stdout, sorted(path.name for path in (tmp_path / "cache").rglob("*.nbc"))

    said, kernels = run("demo", "--size", "100M", "--memory", "40M", "--dir", ".")
    assert kernels and int(re.search(r"memory: (\d+) MiB more", said)[1]) <= 40, said
    run("generate", "clicks.h5", "--size", "100M", "--sparse", "--features", "32768", "--nonzeros", "64")
    run("split", "clicks.h5", "train.h5", "test.h5", "--test-size", "0.1")
    run("train", "train.h5", "-o", "clicks.npz", "-c", "0.1", "--memory", "40M", "--valid", "test.h5")
    run("predict", "clicks.npz", "test.h5")
    assert run("verify", "clicks.npz", "train.h5")[1] == kernels


def test_demo_small(tmp_path):
    done = call("demo", "--size", "40M", "--memory", "28M", "--dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "proven: the objective" in done.stdout and "within a relative" in done.stdout and os.listdir(tmp_path) == []
    assert done.stdout.endswith("is deleted, with the data and the model; --keep keeps them\n")
    assert call("demo", "--dir", tmp_path / "none").returncode == 73
