"""Every method, loss, penalty and form of labels that workers of a dask cluster support, on few rows."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import slow, write_h5

import streammargin as sm

pytest.importorskip("distributed")

from clusters import NEEDED, bits, killing, on_one_worker

from streammargin.verification.verify import verify

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.usefixtures("small_blocks"),
]
CUTS = [0, 150, 700, 1200]  # of three files
GROUPS = sm.penalties.Group(np.repeat(np.arange(5), 2))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Shards by name: of two classes, of three with weights, one and three numbers, three labels; separable ones."""
    random = np.random.default_rng(11)
    kinds = random.integers(0, 3, CUTS[-1])
    X = (random.standard_normal((CUTS[-1], 10)) + 0.8 * np.eye(3, 10)[kinds]).astype(np.float32)
    numbers = X[:, :2] @ random.standard_normal((2, 3)) + 0.1 * random.standard_normal((CUTS[-1], 3))
    apart = X + np.where(X[:, :1] > 0, 0.3, -0.3) * np.eye(1, 10)
    kept = {
        "two": (X, (kinds > 0).astype(int)), "three": (X, kinds), "number": (X, numbers[:, 0]),
        "numbers": (X, numbers), "labels": (X, np.stack([kinds == 0, kinds > 0, X[:, 3] > 0], 1).astype(int)),
        "sparse": (sp.csr_matrix(np.where(X > 0.5, X, 0.0)), (kinds > 0).astype(int)),
        "tasks": (X, (kinds > 0).astype(int)), "apart": (apart.astype(np.float32), (X[:, 0] > 0).astype(int)),
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("pairs")
    beside = {
        "three": {"sample_weight": np.linspace(0.5, 2.0, CUTS[-1])},
        "tasks": {"task": np.arange(CUTS[-1]) // 400},
    }
    return {
        name: [
            write_h5(
                folder / f"{name}-{first}.h5", rows[first:stop], y[first:stop],
                **{column: values[first:stop] for column, values in beside.get(name, {}).items()},
            )
            for first, stop in pairwise(CUTS)
        ]
        for name, (rows, y) in kept.items()
    }  # fmt: skip


PAIRS = [
    ("two", {"penalty": GROUPS, "loss": "logistic", "C": 0.1}),
    ("two", {"C": "path:3", "penalty": "l1", "loss": "logistic", "valid": "two"}),
    ("three", {"multiclass": "joint", "loss": "logistic", "C": 0.1, "scale": "maxabs"}),
    ("three", {"solver": "pdprox", "class_weight": "balanced", "C": [0.01, 0.1], "valid": "three"}),
    ("sparse", {"map": "nystroem:40", "scale": "std"}),
    ("three", {"map": "rff:30", "multiclass": "joint", "loss": "logistic", "valid": "three"}),
    ("tasks", {"tasks": "task", "penalty": "l21", "C": 0.1, "valid": "tasks"}),
    ("number", {"loss": "quantile:0.3"}),
    ("numbers", {"loss": "l2_error"}),
    ("labels", {"loss": "squared_hinge"}),
    ("apart", {"C": np.inf, "solver": "inertial-diagonal", "passes": 6}),
    ("apart", {"C": np.inf, "solver": "batch-perceptron", "passes": 6}),
]
OWN = [  # kernels of their own
    ("two", {"loss": "hinge:top=100", "C": 0.1}),
    ("two", {"solver": "pdprox", "penalty": "l1", "C": 0.1}),
    ("three", {"multiclass": "joint", "C": 0.1}),
    ("three", {"multiclass": "joint", "penalty": "l1", "C": 0.1, "valid": "three", "early_stop": 2}),
    ("numbers", {"loss": "epsilon_insensitive", "solver": "pdprox", "C": 0.1}),
    ("apart", {"C": np.inf, "solver": "diagonal", "passes": 6}),
]


def named(pair):
    return ", ".join([pair[0], *(f"{name}={value}" for name, value in pair[1].items() if value is not GROUPS)])


@pytest.mark.parametrize("pair", [*PAIRS, *map(slow, OWN)], ids=map(named, PAIRS + OWN))
def test_a_cluster_finds_what_one_machine_finds(client, files, pair, tmp_path):
    """Both prove their answers, and no proof contradicts the other."""
    name, options = pair
    options = {**NEEDED, "tol": 1e-3, **options}
    if "valid" in options:
        options["valid"] = files[options["valid"]][1]
    found, alone = sm.dask.train(client, files[name], **options), sm.train(files[name], **options)
    found.model.save(tmp_path / "model.npz")
    checks = verify(tmp_path / "model.npz", files[name], options.get("valid"))
    assert len(checks) > 2 and not [check for check in checks if check.agrees is False]
    pair = [each.certificate for each in (found, alone)]
    if options.get("C") == np.inf:
        assert max(each.margin_lower for each in pair) <= min(each.margin_upper for each in pair) * (1 + 1e-9)
        return
    assert found.reason == alone.reason
    assert found.converged or "early_stop" in options
    if found.history[-1]["C"] == alone.history[-1]["C"]:
        assert max(each.dual for each in pair) <= min(each.primal for each in pair) * (1 + 1e-9)


KEPT = [
    ("two", {"solver": "pdprox", "C": 0.1}),
    ("two", {"map": "nystroem:40"}),
    ("apart", {"C": np.inf, "solver": "diagonal", "passes": 8}),
]


@pytest.mark.parametrize("pair", [KEPT[0], *map(slow, KEPT[1:])], ids=map(named, KEPT))
def test_numbers_of_rows_outlive_a_worker_and_a_checkpoint(client, mortals, files, pair, tmp_path, monkeypatch):
    """They come with each task, and go back with its answer, so no worker keeps any; nor what a map has learned."""
    name, options = pair
    whole = sm.dask.train(client, files[name], **NEEDED | options)
    passes = []
    first = sm.dask.train(
        client, files[name], **NEEDED | options, checkpoint=str(tmp_path / "saved"),
        listeners=[lambda event: passes.extend([event] * (event["event"] == "pass_end"))],
        should_stop=lambda: "signal" if len(passes) == 3 else None,
    )  # fmt: skip
    assert first.resumable and first.passes == 3
    with on_one_worker(monkeypatch):
        assert bits(sm.dask.train(client, files[name], **NEEDED | options, checkpoint=str(tmp_path / "saved"))) == bits(
            whole
        )
    killed = killing(monkeypatch, mortals, 4)
    assert bits(sm.dask.train(mortals, files[name], **NEEDED | options)) == bits(whole)
    assert killed


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Shards of sparse rows of more columns than a Hessian has room for, of three classes."""
    random, folder = np.random.default_rng(3), tmp_path_factory.mktemp("text")
    X = sp.random(900, 5000, density=0.004, format="csr", random_state=random, dtype=np.float32)
    scores = X @ random.standard_normal((5000, 3)) + 0.05 * random.standard_normal((900, 3))
    return [
        write_h5(
            folder / f"{first}.h5",
            sp.csr_matrix(X[first:stop]),
            scores[first:stop].argmax(axis=1),
            numbers=scores[first:stop],
        )
        for first, stop in ((0, 100), (100, 600), (600, 900))
    ]


TEXT = [
    {},
    {"loss": "squared_hinge", "scale": "maxabs"},
    {"loss": "logistic", "multiclass": "ovr", "C": [1.0, 30.0], "class_weight": "balanced"},
]
OWN_TEXT = [
    {"loss": "logistic", "multiclass": "joint", "C": [1.0, 30.0], "class_weight": "balanced"},
    {"multiclass": "joint", "scale": "maxabs"},
    {"loss": "l2_error", "y": "numbers"},
]


@pytest.mark.parametrize("options", [*TEXT, *map(slow, OWN_TEXT)], ids=map(str, TEXT + OWN_TEXT))
def test_rows_of_many_columns_are_worked_on_at_home_and_in_one_place(client, text, options, tmp_path):
    options = {**NEEDED, "tol": 1e-3, "C": 10.0, **options}
    if isinstance(options["C"], list):
        options["valid"] = text[1]
    found, alone = sm.dask.train(client, text, **options), sm.train(text, **options)
    assert found.converged and alone.converged and found.passes < 12
    if found.history[-1]["C"] == alone.history[-1]["C"]:
        bounds = [(each.certificate.dual, each.certificate.primal) for each in (found, alone)]
        assert max(dual for dual, _ in bounds) <= min(primal for _, primal in bounds) * (1 + 1e-9)
    found.model.save(tmp_path / "model.npz")
    checks = verify(tmp_path / "model.npz", text, y=options.get("y"))
    assert len(checks) > 2 and not [check for check in checks if check.agrees is False]
    kept = [event["kept_rows"] for event in found.history if event["event"] == "pass_end"]
    assert kept[0] == 0 < kept[-1]


@pytest.mark.slow
def test_columns_that_matter_are_worked_on_in_one_place(client, text):
    options = {**NEEDED, "tol": 1e-3, "C": 30.0, "penalty": "l1", "loss": "hinge"}
    found, alone = sm.dask.train(client, text, **options), sm.train(text, **options)
    assert found.converged and alone.converged and found.passes < 12
    bounds = [(each.certificate.dual, each.certificate.primal) for each in (found, alone)]
    assert max(dual for dual, _ in bounds) <= min(primal for _, primal in bounds) * (1 + 1e-9)


TOGETHER = [{}, {"loss": "logistic", "multiclass": "joint"}, {"penalty": "l1"}]


@pytest.mark.parametrize("together", [TOGETHER[0], *map(slow, TOGETHER[1:])], ids=["hinge", "softmax", "l1"])
def test_rows_in_one_place_outlive_a_worker_and_a_checkpoint(client, mortals, text, together, tmp_path, monkeypatch):
    options = {**NEEDED, "C": 10.0, "tol": 1e-4, **together}
    whole, passes = sm.dask.train(client, text, **options), []
    first = sm.dask.train(
        client, text, **options, checkpoint=str(tmp_path / "saved"),
        listeners=[lambda event: passes.extend([event] * (event["event"] == "pass_end"))],
        should_stop=lambda: "signal" if len(passes) == 3 else None,
    )  # fmt: skip
    assert first.resumable and whole.passes > 4
    with on_one_worker(monkeypatch):
        rest = sm.dask.train(client, text, **options, checkpoint=str(tmp_path / "saved"))
    assert bits(rest) == bits(whole)
    killed = killing(monkeypatch, mortals, 3)
    assert bits(sm.dask.train(mortals, text, **options)) == bits(whole)
    assert killed
