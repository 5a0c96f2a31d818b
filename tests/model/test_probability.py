"""Probabilities of classes are those of the logistic loss, and no other loss has any."""

import math

import h5py
import numpy as np
import pytest
from conftest import write_h5

import streammargin as sm
from streammargin.cli.main import main
from streammargin.model.linear import LinearModel


def logistic_model(scores_of_one, classes, **header):
    """A model of one column whose scores at 1 are these."""
    coef = np.array(scores_of_one, float)[:, None]
    return LinearModel(coef, np.zeros(len(coef)), np.array(classes), {"loss": "logistic", "C": 1.0, **header})


@pytest.mark.parametrize("score", [-800.0, -3.0, 0.0, 0.5, 40.0, 800.0])
def test_of_two_classes_it_is_the_sigmoid_of_the_score(score):
    found = logistic_model([score], ["no", "yes"]).predict_proba(np.ones((1, 1)))
    assert found.shape == (1, 2) and found.dtype == np.float64
    smaller = 1.0 / (1.0 + math.exp(abs(score))) if abs(score) < 700 else 0.0
    expected = [smaller, 1.0 - smaller] if score > 0 else [1.0 - smaller, smaller]
    assert found[0] == pytest.approx(expected, rel=1e-12) and found.sum() == pytest.approx(1.0, rel=1e-15)


def test_of_several_classes_sigmoids_are_divided_by_their_sum():
    scores = np.array([1.5, -0.5, -2.0])
    found = logistic_model(scores, [1, 2, 3]).predict_proba(np.ones((2, 1)))
    sigmoids = 1.0 / (1.0 + np.exp(-scores))
    assert found == pytest.approx(np.tile(sigmoids / sigmoids.sum(), (2, 1)), rel=1e-13)


def test_where_all_of_them_are_too_small_for_numbers_they_still_add_up_to_1():
    found = logistic_model([-1000.0, -1001.0, -2000.0], [1, 2, 3]).predict_proba(np.ones((1, 1)))
    assert found[0] == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0.0], rel=1e-12)


def test_a_training_with_the_logistic_loss_has_those_of_its_likelihood(blobs, tmp_path):
    X, y = blobs
    path = write_h5(tmp_path / "rows.h5", X, y)
    model = sm.train((X, y), loss="logistic").model
    found = model.predict_proba(path)
    likelihoods = found[np.arange(200), (y == model.classes_[1]).astype(int)]
    assert -np.log(likelihoods).mean() == pytest.approx(model.evaluate((X, y))["loss"], rel=1e-12)
    assert np.array_equal(model.classes_[found.argmax(axis=1)], model.predict(X))
    model.save(tmp_path / "m.npz")
    assert np.array_equal(sm.load_model(str(tmp_path / "m.npz")).predict_proba(X), found)


@pytest.mark.parametrize(
    "header, words",
    [
        ({"loss": "hinge"}, ["hinge", 'loss="logistic"', "CalibratedClassifierCV"]),
        ({"loss": "exponential", "C": math.inf}, ["exponential", "CalibratedClassifierCV"]),
        ({"loss": "Own(rate=2.0)"}, ["Own(rate=2.0)", "CalibratedClassifierCV"]),
        ({"C": math.inf}, ["C = inf", "CalibratedClassifierCV"]),
    ],
)
def test_other_models_have_none_and_name_what_makes_some(header, words):
    with pytest.raises(sm.UsageError) as error:
        logistic_model([1.0], [0, 1], **header).predict_proba(np.ones((1, 1)))
    assert all(word in str(error.value) for word in words)


def test_a_model_of_numbers_has_none():
    with pytest.raises(sm.UsageError, match="numbers"):
        logistic_model([1.0], [], loss="squared_error").predict_proba(np.ones((1, 1)))


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """rows.h5, of one row, and the models two.npz and three.npz in the working directory."""
    monkeypatch.chdir(tmp_path)
    write_h5("rows.h5", np.ones((1, 1)))
    logistic_model([2.0], ["no", "yes"]).save("two.npz")
    logistic_model([1.5, -0.5, -2.0], ["New York", "Rome", 'the "Hague"']).save("three.npz")
    logistic_model([2.0], ["no", "yes"], loss="hinge").save("hinge.npz")
    logistic_model([2.0], [], loss="squared_error").save("numbers.npz")


def printed(capsys, *arguments):
    assert main(["predict", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_shell_prints_them_after_a_line_of_classes(saved, capsys):
    head, row = printed(capsys, "two.npz", "rows.h5", "--probability")
    assert head == "no yes"
    assert np.array(row.split(), float) == pytest.approx([1 / (1 + math.exp(2)), 1 / (1 + math.exp(-2))], rel=1e-15)
    head, row = printed(capsys, "three.npz", "rows.h5", "--probability")
    assert head == '"New York" Rome "the ""Hague"""' and sum(map(float, row.split())) == pytest.approx(1.0)


def test_scores_come_after_a_line_of_the_classes_that_they_speak_for(saved, capsys):
    assert printed(capsys, "two.npz", "rows.h5", "--decision") == ["yes", "2.0"]
    head, row = printed(capsys, "three.npz", "rows.h5", "--decision")
    assert head == '"New York" Rome "the ""Hague"""' and row == "1.5 -0.5 -2.0"
    assert printed(capsys, "numbers.npz", "rows.h5", "--decision") == ["2.0"]  # there are no classes
    assert printed(capsys, "two.npz", "rows.h5") == ["yes"]


def test_files_of_arrays_have_them_too(saved, capsys):
    printed(capsys, "three.npz", "rows.h5", "--probability", "-o", "p.h5")
    printed(capsys, "three.npz", "rows.h5", "--probability", "-o", "p.npy")
    printed(capsys, "two.npz", "rows.h5", "--decision", "-o", "s.h5")
    printed(capsys, "two.npz", "rows.h5", "-o", "l.h5")
    with h5py.File("p.h5") as file:
        assert file["classes"].asstr()[:].tolist() == ["New York", "Rome", 'the "Hague"']
        assert np.array_equal(file["probabilities"][:], np.load("p.npy")) and file["probabilities"].shape == (1, 3)
    with h5py.File("s.h5") as file:
        assert file["classes"].asstr()[:].tolist() == ["yes"] and file["scores"][:].tolist() == [2.0]
    with h5py.File("l.h5") as file:
        assert sorted(file) == ["labels"] and file["labels"].asstr()[:].tolist() == ["yes"]


@pytest.mark.parametrize("model", ["hinge.npz", "numbers.npz"])
def test_the_shell_refuses_a_model_that_has_none_and_writes_nothing(saved, capsys, tmp_path, model):
    assert main(["predict", model, "rows.h5", "--probability", "-o", "p.npy"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and not (tmp_path / "p.npy").exists()
    assert model != "hinge.npz" or ("CalibratedClassifierCV" in said and "--loss logistic" in said)


def test_either_scores_or_probabilities(saved, capsys):
    assert main(["predict", "two.npz", "rows.h5", "--probability", "--decision"]) == 2
