"""Absent rows change no bit of a kernel machine, and a weight is so many rows in gamma=scale."""

import math

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from reference.sources import CountingSource

import streammargin as sm
from streammargin.cli.main import main

RANDOM = np.random.default_rng(7)
N = 240
X = RANDOM.standard_normal((N, 3))
NUMBERS = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 - 1.0
CLASSES = np.digitize(NUMBERS, [-0.6, 0.3])
X += 0.3 * CLASSES[:, None]
X[RANDOM.random(X.shape) < 0.2] = 0.0
WEIGHTS = RANDOM.choice([0.0, 1.0, 2.0], N)
PRESENT = WEIGHTS > 0.0
OTHER = np.where(PRESENT[:, None], X, -1000.0 * X)
MAPS = ("rff:20", "nystroem:20")
SCALED = [{"kernel": "rbf"}, {"kernel": "poly:2,coef0=1+rbf"}, {"kernel": "sigmoid"}, *({"map": word} for word in MAPS)]
FORMS = {"dense": np.asarray, "csr": sp.csr_array, "float32": lambda Z: Z.astype(np.float32), "blocks": None}


def trained(rows, labels, weights=None, form="dense", **options):
    """A training in memory or in three blocks."""
    if form == "blocks":
        source = CountingSource(rows, labels, [0, 70, 150, N], weights)
        return sm.train(source, memory="20M", **options)
    return sm.train((FORMS[form](rows), labels), sample_weight=weights, **options)


def gammas(result):
    """The numbers in the word of its kernel or map."""
    word = result.model.header.get("kernel") or result.model.header["map"]
    return [float(part) for part in word.replace("+", ",").replace("=", ",").replace(":", ",").split(",")
            if part[0].isdigit()]  # fmt: skip


def bits(result):
    return {name: np.asarray(array).tobytes() for name, array in result.model.answer.arrays().items()}


def others(labels):
    """The labels, with others where rows are absent."""
    return np.where(PRESENT, labels, labels.max())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", SCALED, ids=str)
def test_gamma_is_of_present_rows_each_as_often_as_its_weight(options, form):
    y = (NUMBERS > 0.0).astype(int)
    given = gammas(trained(X, y, WEIGHTS, form, passes=2, **options))
    assert gammas(trained(OTHER, y, WEIGHTS, form, passes=2, **options)) == given
    often = np.repeat(np.arange(N), WEIGHTS.astype(int))
    np.testing.assert_allclose(given, gammas(trained(X[often], y[often], passes=2, **options)), rtol=1e-6)
    if form != "float32":
        assert gammas(trained(X, y, WEIGHTS, passes=2, **options)) == given
        values = X[often]
        assert any(one == pytest.approx(1.0 / (3.0 * values.var())) for one in given)


@pytest.mark.parametrize("options", SCALED, ids=str)
def test_gamma_leaves_rows_of_other_classes_out_and_no_class_weight_counts(options):
    two, far = CLASSES < 2, np.where(CLASSES[:, None] < 2, X, 50.0 * X)
    alone = gammas(sm.train((X[two], CLASSES[two]), passes=2, **options))
    assert gammas(sm.train((far, CLASSES), classes=[0, 1], passes=2, **options)) == alone
    every = gammas(sm.train((X, CLASSES), passes=2, **options))
    assert gammas(sm.train((X, CLASSES), class_weight={0: 3.0}, passes=2, **options)) == every  # nor with scale=std


def test_the_command_takes_the_same_gamma(tmp_path):
    data, model = write_h5(tmp_path / "a.h5", OTHER, CLASSES), str(tmp_path / "m.npz")
    with h5py.File(data, "a") as file:
        file["mass"] = WEIGHTS
    main(["train", data, "--kernel", "rbf", "--sample-weight", "mass", "-o", model, "--quiet"])
    assert sm.load_model(model).header["kernel"] == trained(X, CLASSES, WEIGHTS, kernel="rbf").model.header["kernel"]


WAYS = [
    ("hinge", {"C": 3.0}), ("hinge", {"C": 3.0, "early_stop": 2}), ("squared_hinge", {"C": 3.0}),
    ("epsilon_insensitive:0.1", {"C": 3.0}), ("squared_error", {"C": 3.0}), ("hinge", {"C": math.inf}),
    ("hinge", {"C": math.inf, "bias": "free"}),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernel", ["rbf:1", "linear", "poly:4,coef0=1", "rbf"])
@pytest.mark.parametrize("loss, options", WAYS, ids=str)
def test_what_absent_rows_hold_changes_no_bit(kernel, form, loss, options):
    y = NUMBERS if loss.startswith(("eps", "squared_e")) else CLASSES
    if "early_stop" in options:
        options = options | {"valid": (X[:50], y[:50])}
    hard = math.isinf(options["C"])  # steps without a bound are many
    options = options | {"kernel": "rbf:9" if hard else kernel, "loss": loss, "passes": 3 if hard else 20}
    given = trained(X, y, WEIGHTS, form, **options)
    assert bits(trained(OTHER, others(y), WEIGHTS, form, **options)) == bits(given)


@pytest.mark.parametrize("solver", ["dual-momentum", "normalized-gd", "gd", "batch-perceptron", "diagonal", "adaptive"])
def test_what_they_hold_changes_no_bit_of_the_methods_of_papers(solver):
    y = (NUMBERS > 0.0).astype(int)
    options = {"kernel": "rbf", "C": math.inf, "solver": solver, "passes": 10}
    assert bits(trained(OTHER, others(y), WEIGHTS, **options)) == bits(trained(X, y, WEIGHTS, **options))


def test_values_that_overflow_in_absent_rows_alone_are_no_error():
    far = np.where(PRESENT[:, None], X, 1e120 * X)
    options = {"kernel": "poly:3", "C": 3.0}
    assert bits(trained(far, CLASSES, WEIGHTS, **options)) == bits(trained(X, CLASSES, WEIGHTS, **options))
