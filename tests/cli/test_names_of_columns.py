"""Columns by name from the shell: h5ad -> train -> shuffled columns -> predict gives the same labels."""

import json

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

import streammargin as sm
from streammargin.cli.main import main
from streammargin.data_tools.convert import convert

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")

CELLS, GENES = 150, 20
SHUFFLED = np.random.default_rng(5).permutation(GENES)


def cells():
    random = np.random.default_rng(0)
    X = sp.random(CELLS, GENES, 0.4, format="csr", random_state=random, dtype=np.float32)
    kinds = np.array(["B", "NK", "T"])[np.argmax(X @ random.standard_normal((GENES, 3)), axis=1)]
    obs = pd.DataFrame({"kind": pd.Categorical(kinds)}, index=[f"cell{k}" for k in range(CELLS)])
    return anndata.AnnData(X, obs=obs, var=pd.DataFrame(index=[f"GENE{j}" for j in range(GENES)]))


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """The model, the cells, those with shuffled columns, and those with 15 of them."""
    folder = tmp_path_factory.mktemp("names")
    data = cells()
    data.write_h5ad(folder / "cells.h5ad")
    data[:, SHUFFLED].copy().write_h5ad(folder / "shuffled.h5ad")
    data[:, SHUFFLED[:15]].copy().write_h5ad(folder / "fewer.h5ad")
    paths = [str(folder / name) for name in ("m.npz", "cells.h5ad", "shuffled.h5ad", "fewer.h5ad")]
    assert main(["train", paths[1], "--y", "obs/kind", "-o", paths[0], "--scale", "std"]) == 0
    return paths


def test_round_trip_from_the_shell(paths, here):
    model, data, shuffled, _ = paths
    straight, by_name = here("predict", model, data), here("predict", model, shuffled)
    assert straight.returncode == by_name.returncode == 0 and not straight.stderr
    assert by_name.stdout == straight.stdout and len(set(straight.stdout.split())) == 3
    assert by_name.stderr == (
        f"warning: the columns of {shuffled} are in another order than the model's: matched by name\n"
    )
    figures = [here("evaluate", model, path, "--y", "obs/kind", "--json").stdout for path in (data, shuffled)]
    assert json.loads(figures[0])["mistakes"] == json.loads(figures[1])["mistakes"]


def test_round_trip_from_python(paths):
    data, shuffled = paths[1:3]
    model = sm.train(data, y="obs/kind").model
    assert model.feature_names_in_.tolist() == [f"GENE{j}" for j in range(GENES)]
    np.testing.assert_array_equal(model.predict(shuffled), model.predict(data))
    by_position = model.predict(anndata.read_h5ad(shuffled).X)
    assert (by_position != model.predict(data)).any()  # what became of them without names


def test_missing_columns_are_refused_or_taken_as_zero(paths, capfd):
    model, fewer = paths[0], paths[3]
    assert main(["predict", model, fewer]) == 65
    said = capfd.readouterr().err
    assert "fewer.h5ad lacks 5 columns of the model (GENE" in said and "--missing-columns zero" in said
    assert main(["predict", model, fewer, "--missing-columns", "zero"]) == 0
    out, said = capfd.readouterr()
    assert "fewer.h5ad lacks 5 columns of the model's 20 (GENE" in said
    filled = cells().X.toarray()
    filled[:, SHUFFLED[15:]] = 0.0
    assert out.split() == sm.load_model(model).predict(filled).tolist()
    assert main(["evaluate", model, fewer, "--y", "kind", "--missing-columns", "zero"]) == 0
    assert main(["predict", model, fewer, "--missing-columns", "mean"]) == 2


def test_info_says_whether_there_are_names(paths, tmp_path, capsys):
    model, data = paths[:2]
    for path in (model, data):
        assert main(["info", path, "--json"]) == 0
        named = json.loads(capsys.readouterr().out)["feature_names"]
        assert named == {"count": GENES, "first": [f"GENE{j}" for j in range(5)]}
        assert main(["info", path]) == 0
        assert "feature names count: 20, first: GENE0, GENE1, GENE2, GENE3, GENE4\n" in capsys.readouterr().out
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["X"], file["y"] = np.eye(4), [0, 1, 0, 1]
    assert main(["info", str(tmp_path / "plain.h5")]) == 0
    assert "feature names none\n" in capsys.readouterr().out
    with h5py.File(tmp_path / "plain.h5", "a") as file:
        file["feature_names"] = np.array([b"a"])
    assert main(["info", str(tmp_path / "plain.h5")]) == 0
    assert "feature names none (" in capsys.readouterr().out


def test_info_shows_the_largest_weights_by_name(paths, tmp_path, capsys):
    model = sm.load_model(paths[0])
    assert main(["info", paths[0], "--top", "3"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("and for the columns as stored, scaling folded in:") == 3
    for label, weights in zip(model.classes_.tolist(), model.coef_, strict=True):
        scaled = weights * model.moments[1]
        largest = int(np.abs(scaled).argmax())
        heading = f"weights of {label} times the standard deviation of the column, and for the columns as stored, "
        numbers = f"{scaled[largest]:>12.5g}  {weights[largest]:>12.5g}  GENE{largest}\n"
        assert f"{heading}scaling folded in:\n{numbers}" in shown
    most = model.top_columns(1)[0]
    assert f"columns by their effect on all scores:\n{most['effect']:>12.5g}  {most['name']}\n" in shown
    assert main(["info", paths[0], "--top", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["top_features"] == model.top_features(2) and told["top_columns"] == model.top_columns(2)
    assert main(["info", paths[0], "--json"]) == 0
    assert "top_features" not in json.loads(capsys.readouterr().out)
    random = np.random.default_rng(0)
    X = random.standard_normal((50, 3))
    sm.train((X, X[:, 1] > 0)).model.save(tmp_path / "two.npz")
    assert main(["info", str(tmp_path / "two.npz"), "--top", "1"]) == 0
    assert "weights of True against False times" in (shown := capsys.readouterr().out)
    assert shown.splitlines()[-1].endswith("  column 1")


def test_top_is_for_models(paths, capsys):
    assert main(["info", paths[1], "--top", "2"]) == 2
    assert "--top shows the weights of a model" in capsys.readouterr().err
    for number in ("0", "-3", "2.5"):
        assert main(["info", paths[0], "--top", number]) == 2


def test_labels_go_into_a_copy_of_the_cells(paths, tmp_path, here):
    model, path = paths[:2]
    out = tmp_path / "labelled.h5ad"
    done = here("predict", model, path, "--obs", "guess", "-o", out)
    assert done.returncode == 0, done.stderr
    before, after = anndata.read_h5ad(path), anndata.read_h5ad(out)
    assert after.obs.columns.tolist() == [*before.obs.columns, "guess"]
    assert after.obs["guess"].astype(str).tolist() == sm.load_model(model).predict(path).tolist()
    assert (after.X != before.X).sum() == 0 and "guess" not in before.obs
    done = here("predict", model, path, "--obs", "guess", "--probability", "-o", out, "--force")
    assert done.returncode == 0, done.stderr
    likely, loaded = anndata.read_h5ad(out), sm.load_model(model)
    assert likely.obs["guess"].tolist() == after.obs["guess"].tolist()
    np.testing.assert_array_equal(likely.obsm["guess_probability"], loaded.predict_proba(path))
    assert likely.uns["guess_classes"].tolist() == loaded.classes_.tolist() and (likely.X != before.X).sum() == 0
    convert(path, str(tmp_path / "made.h5"), y="obs/kind")  # the labels beside the cells, which anndata does not load
    made = (tmp_path / "made.h5").rename(tmp_path / "made.h5ad")
    with h5py.File(made, "a") as file:
        file["sample_weight"] = np.ones(len(after))
        for part in ("X", "var"):  # an older anndata wrote raw so
            file.copy(part, f"raw.{part}")
    done = here("predict", model, made, "--obs", "guess", "-o", out, "--force")
    assert done.returncode == 0 and "made.h5ad leaves out sample_weight, y: anndata loads no file" in done.stderr
    assert anndata.read_h5ad(out).obs["guess"].tolist() == after.obs["guess"].tolist()
    assert (anndata.read_h5ad(out).raw.X != before.X).sum() == 0
    with h5py.File(made) as file:
        assert "y" in file
    made.unlink()
    likely.obs = likely.obs.drop(columns="guess")
    likely.write_h5ad(tmp_path / "twice.h5ad")
    done = here("predict", model, tmp_path / "twice.h5ad", "--obs", "guess", "--probability", "-o", tmp_path / "b.h5ad")
    assert done.returncode == 2 and "has obsm/guess_probability already" in done.stderr
    (tmp_path / "twice.h5ad").unlink()
    for wrong, said in (
        (
            ["--obs", "kind", "-o", tmp_path / "b.h5ad"],
            "has obs/kind already; name another column, as --obs kind_predicted",
        ),
        (["--obs", "guess"], "name it with -o"),
        (["--obs", "guess", "-o", tmp_path / "b.h5ad", "--decision"], "omit --decision"),
        (["--obs", "a/b", "-o", tmp_path / "b.h5ad"], "has no slash"),
    ):
        done = here("predict", model, path, *wrong)
        assert done.returncode == 2 and said in done.stderr
    assert [part.name for part in tmp_path.iterdir()] == ["labelled.h5ad"]


def test_raw_counts_of_cells_are_told_unless_a_step_or_a_scale_changes_them(tmp_path, capfd):
    data = cells()
    told = "its first rows hold counts up to {:g}, which are not scaled; --transform total:10000,log1p makes"
    data.X.data = np.random.default_rng(1).poisson(9.0, data.X.nnz).astype(np.float32)
    counts, most = data.X.copy(), data.X.max()
    assert most > 10.0
    path, model = str(tmp_path / "raw.h5ad"), str(tmp_path / "m.npz")

    def said(*more):
        data.write_h5ad(path)
        assert main(["train", path, "--y", "obs/kind", "-o", model, "--tol", ".5", "--force", *more]) == 0
        return "hold counts" in (text := capfd.readouterr().err) and told.format(data.X.max()) in text

    assert said()
    assert not said("--transform", "log1p") and not said("--scale", "std")
    data.X = counts.toarray()
    assert said()
    for other in (counts.minimum(2.0), counts * 1.5, -counts):  # marks, what is no count, and what is below 0
        data.X = sp.csr_matrix(other)
        assert not said()
    for rows, logged in ((counts, False), (counts.log1p(), True)):
        data.X = rows
        data.write_h5ad(path)
        assert main(["train", path, "--y", "obs/kind", "-o", model, "--tol", ".5", "--force", "--transform",
                     "total:10000,log1p"]) == 0  # fmt: skip
        told = f"hold fractions up to {rows.max():g}, and no counts; if they are logarithms already, leave out --trans"
        assert (told in capfd.readouterr().err) == logged
