"""A name that was mistyped: exit code 2 wherever it is typed, and the one that is like it."""

import h5py
import numpy as np
import pandas as pd
import pytest

import streammargin as sm
from streammargin.cli.main import main
from streammargin.wording import nearest

ROWS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table and a file of HDF5 with labels churned, and a model of each."""
    folder, random = tmp_path_factory.mktemp("misnamed"), np.random.default_rng(0)
    X, churned = random.standard_normal((ROWS, 2)), np.arange(ROWS) % 2
    table = pd.DataFrame({"age": X[:, 0], "customer": X[:, 1], "churned": churned})
    table.to_csv(folder / "t.csv", index=False)
    with h5py.File(folder / "t.h5", "w") as file:
        file["X"], file["churned"] = X, churned
    for name in ("t.csv", "t.h5"):
        sm.train(str(folder / name), y="churned", tol=0.5).model.save(folder / f"{name}.npz")
    return folder


@pytest.mark.parametrize("data", ["t.csv", "t.h5"])
@pytest.mark.parametrize(
    "command, wrong, meant",
    [("train DATA -o new.npz --y chruned", "chruned", "churned"),
     ("evaluate DATA.npz DATA --y Chruned", "Chruned", "churned"),
     ("report DATA.npz -o r.html --test DATA --y chruned", "chruned", "churned"),
     ("train DATA -o new.npz --y churned --cv 3,by=curned", "curned", "churned")],
)  # fmt: skip
def test_a_mistyped_label_or_group_is_a_mistake_of_usage(folder, data, command, wrong, meant, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(command.replace("DATA", data).split()) == 2
    said = capsys.readouterr().err
    assert wrong in said and f"did you mean {meant}? it has " in said


def test_verify_says_the_same_of_a_file_of_rows(folder, capsys):
    words = ["verify", str(folder / "t.h5.npz"), str(folder / "t.h5"), "--y", "chruned"]
    assert main(words) == 2
    assert "chruned is not a dataset of the shape (40,)" in capsys.readouterr().err
    assert main([*words, "--debug"]) == 2
    assert "verification/verify.py" in capsys.readouterr().err  # where it was raised


@pytest.mark.parametrize(
    "command",
    ["predict t.csv.npz t.csv --id custmer", "train t.csv -o new.npz --y churned --drop custmer",
     "train t.csv -o new.npz --y churned --categorical custmer",
     "complete t.csv -o c.npz --columns custmer,age --y churned"],
)  # fmt: skip
def test_so_is_any_other_column(folder, command, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(command.split()) == 2
    assert "did you mean customer? it has age, customer, churned" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["h5", "npz", "zarr"])
def test_so_are_rows(folder, tmp_path, kind, capsys):
    """Nobody typed the name that a model remembers: a zarr store without it is bad data; of other files X is read."""
    X, y, paths = np.random.default_rng(1).standard_normal((ROWS, 2)), np.arange(ROWS) % 2, {}
    for place in ("counts", "other"):
        paths[place] = path = str(tmp_path / f"{place}.{kind}")
        if kind == "h5":
            with h5py.File(path, "w") as file:
                file["X"], file[f"layers/{place}"], file["y"] = X, X, y
        elif kind == "npz":
            np.savez(path, **{"X": X, f"layers/{place}": X, "y": y})
        else:
            root = pytest.importorskip("zarr").open(path, mode="w")
            for name, values in (("X", X), (f"layers/{place}", X), ("y", y)):
                root[name] = values
    model = str(tmp_path / "model.npz")
    assert main(["train", paths["counts"], "--y=y", "--x=layers/counts", "--tol=0.5", "-o", model]) == 0
    for command in (["train", paths["counts"], "--y=y", "-o", "new.npz"], ["predict", model, paths["counts"]]):
        assert main([*command, "--x=layers/cuonts"]) == 2
        said = capsys.readouterr().err
        assert "did you mean layers/counts? it has " in said and "name the rows with --x" in said
    assert main(["predict", model, paths["other"]]) == (65 if kind == "zarr" else 0)
    said = capsys.readouterr().err
    assert "did you mean" not in said and "layers/counts" in said


def test_columns_of_other_names_are_said_to_be_like_those_of_the_model(folder, tmp_path, capsys):
    (tmp_path / "t.csv").write_text("agee,customer\n1,2\n")
    assert main(["predict", str(folder / "t.csv.npz"), str(tmp_path / "t.csv")]) == 65
    assert "if agee is age, rename it; let those of the model count as 0" in capsys.readouterr().err
    (tmp_path / "t.csv").write_text("age,customer,Churn\n1,2,0\n")
    assert main(["evaluate", str(folder / "t.csv.npz"), str(tmp_path / "t.csv")]) == 65
    assert "if Churn is churned, rename it; name the labels with --y" in capsys.readouterr().err


def test_a_label_that_nobody_typed_is_a_lack_of_the_data(folder, tmp_path, capsys):
    table = pd.read_csv(folder / "t.csv").drop(columns="churned")
    table.to_csv(tmp_path / "t.csv", index=False)
    assert main(["evaluate", str(folder / "t.csv.npz"), str(tmp_path / "t.csv")]) == 65
    assert main(["train", str(folder / "t.h5"), "-o", str(tmp_path / "m.npz")]) == 65
    assert "did you mean" not in capsys.readouterr().err


def test_labels_are_named_by_place_in_evaluate_as_in_train(folder, capsys):
    for y in ("churned", "2", "-1"):
        assert main(["evaluate", str(folder / "t.csv.npz"), str(folder / "t.csv"), f"--y={y}", "--json"]) == 0
    assert len(set(capsys.readouterr().out.splitlines())) == 1


def test_a_mistyped_verb_names_the_one_that_was_meant(capsys):
    assert main(["trian", "t.csv"]) == 2
    assert "there is no VERB 'trian'; did you mean train? known: train, complete," in capsys.readouterr().err


def test_names_that_are_not_alike_are_not_offered():
    assert nearest("abc", ["xyz", "q"]) == "" and nearest("CHURN", ["age", "churn"]) == "churn"
    assert nearest("obs/none", ["X", "obs/counts"]) == "" and nearest("obs/a", ["obs/b", "obs/A"]) == "obs/A"
