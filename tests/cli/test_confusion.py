"""What `evaluate` prints of classes that are taken for one another, beside scikit-learn's confusion matrix."""

import json

import numpy as np
import pytest
from conftest import write_h5
from sklearn.metrics import confusion_matrix

import streammargin as sm

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def judged(tmp_path, here):
    """A function: of a number of classes; (labels, predictions, what is printed, what is printed as JSON)."""

    def run(classes):
        rng = np.random.default_rng(classes)
        y = rng.integers(0, classes, 40 * classes)
        X = rng.normal(size=(len(y), classes)) + 2.0 * np.eye(classes)[y]
        names = np.array([f"class {k:02d}" for k in range(classes)], object)
        model = sm.train(X, names[y], loss="squared_hinge", C=0.01).model
        model.save(tmp_path / "m.npz")
        write_h5(tmp_path / "a.h5", X, names[y])
        printed = here("evaluate", "m.npz", "a.h5", cwd=tmp_path).stdout
        plain = json.loads(here("evaluate", "m.npz", "a.h5", "--json", cwd=tmp_path).stdout)
        return names[y], model.predict(X), printed, plain

    return run


@pytest.mark.parametrize("classes", [2, 20])
def test_up_to_twenty_classes_have_a_matrix(judged, classes):
    y, guess, printed, plain = judged(classes)
    _, _, table = printed.partition("confusion matrix, a line for each label and a column for each prediction:\n")
    head, *lines = [line.split("class ") for line in table.splitlines()]
    assert [part.strip() for part in head] == ["label", *(f"{k:02d}" for k in range(classes))]
    found = [[int(cell) for cell in line[1].split()[1:]] for line in lines]
    assert found == plain["confusion"] == confusion_matrix(y, guess).tolist()


def test_of_more_classes_the_most_confused_pairs_are_told(judged):
    y, guess, printed, plain = judged(21)
    assert "confusion matrix" not in printed
    pairs = [(label, other) for label, other in zip(y, guess, strict=True) if label != other]
    counts = sorted((pairs.count(pair) for pair in set(pairs)), reverse=True)[:10]
    told = plain["most_confused"]
    assert [one["rows"] for one in told] == counts and counts[0] > 1
    assert all(pairs.count((one["label"], one["predicted"])) == one["rows"] for one in told)
    lines = printed.partition("classes that are taken for another most often:\n")[2].splitlines()
    assert [line.split(None, 1) for line in lines] == [
        [str(one["rows"]), f"{one['label']} taken for {one['predicted']}"] for one in told
    ]


def test_a_model_without_mistakes_confuses_no_classes(tmp_path, here):
    X = np.repeat(np.eye(22), 3, axis=0)
    y = np.repeat(np.arange(22), 3)
    model = sm.train(X, y, C=100.0).model
    model.save(tmp_path / "m.npz")
    write_h5(tmp_path / "a.h5", X, y)
    assert model.evaluate((X, y))["most_confused"] == []
    assert "taken for" not in here("evaluate", "m.npz", "a.h5", cwd=tmp_path).stdout
