"""What `verify` finds in models and files, right and wrong: formulas, damage, what it refuses, memory."""

import json
import math
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from conftest import traced, write_h5
from reference.datasets import noisy, separable
from reference.wide import WideHinge
from reference.words import of_columns

import streammargin as sm
from streammargin.cli.main import main
from streammargin.formulas import LOSS_FORMULAS as FORMULAS
from streammargin.formulas import OF_LINES, bounded
from streammargin.formulas import PENALTY_FORMULAS as PENALTY_FORMULAS
from streammargin.losses import LOSSES
from streammargin.penalties import PENALTIES
from streammargin.penalties.base import PenalisedColumns
from streammargin.result import Certificate
from streammargin.saved.words import spelled
from streammargin.stored import numbers_of
from streammargin.verification.verify import Saved, verify

X, y = noisy()
CLASSES = np.arange(60) % 3
GROUPS = np.arange(12) // 3
APART = (X[:, :4] + 9.0 * np.eye(3, 4)[CLASSES], CLASSES)
WEIGHTS = {"sample_weight": np.arange(60) % 4 / 2.0}
NUMBERS = 3.0 * X[:, 0] + y + 40.0
TARGETS = np.column_stack([NUMBERS, X[:, 1] - y, X[:, 2]])


def disagreeing(checks):
    return [check.name for check in checks if check.agrees is False]


@pytest.fixture
def trained(tmp_path):
    """Train on a file and save: (model, data) paths."""

    def train(rows, labels, columns=None, **options):
        data, model = write_h5(tmp_path / "data.h5", rows, labels, **(columns or {})), str(tmp_path / "model.npz")
        sm.train(data, **options).model.save(model, force=True)
        return model, data

    return train


# what is trained on, with weights or without, and how
MODELS = {
    "hinge": (X, y, {}, {}),
    "classes": (
        sp.csr_matrix(X),
        CLASSES,
        WEIGHTS,
        {"loss": "logistic", "class_weight": "balanced", "scale": "std", "multiclass": "ovr"},
    ),
    "softmax": (sp.csr_matrix(X), CLASSES, WEIGHTS, {"loss": "logistic", "class_weight": "balanced", "scale": "std"}),
    "Crammer-Singer": (X, CLASSES, WEIGHTS, {"loss": "hinge", "multiclass": "joint", "penalty": "l1", "scale": "std"}),
    "some classes": (X, CLASSES, {}, {"classes": [0, 2], "scale": "maxabs", "solver": "sdca", "penalty": "lp:1.5"}),
    "one against the rest": (X, CLASSES, WEIGHTS, {"positive": "1", "loss": "smooth_hinge:0.5"}),
    "columns of all classes": (X, CLASSES, WEIGHTS, {"loss": "hinge", "penalty": "l21", "scale": "std"}),
    "targets of few mixtures": (X, TARGETS, WEIGHTS, {"penalty": "trace:0.5", "loss": "squared_error"}),
    "lengths of errors": (X, TARGETS, {}, {"penalty": "l1inf", "loss": "l2_error", "bias": 1.0}),
    "text": (X, np.array([f"<{label}>" for label in CLASSES], dtype="S"), {}, {"solver": "sdca"}),
    "l1": (X, y, {}, {"penalty": "l1", "solver": "pdprox", "bias": 3.0}),
    "groups": (X, CLASSES, {}, {"loss": "hinge", "penalty": sm.penalties.Group(GROUPS, 0.4), "bias": 1.0}),
    "sparse groups": (X, CLASSES, WEIGHTS, {"penalty": sm.penalties.SparseGroup(GROUPS, 0.4), "scale": "maxabs"}),
    "above 0": (
        X,
        CLASSES,
        WEIGHTS,
        {
            "penalty": "elasticnet:0.3,low=0",
            "scale": "std",
            "loss": "logistic",
            "multiclass": "ovr",
            "solver": "pdprox",
        },
    ),
    "between": (sp.csr_matrix(X), NUMBERS, {}, {"penalty": "l1:low=-0.1,high=0.3", "loss": "huber", "bias": 2.0}),
    "ball": (X, y, {}, {"penalty": "l2:radius=0.1", "bias": 1.0, "scale": "maxabs"}),
    "exclusive": (X, y, {}, {"penalty": sm.penalties.Exclusive(GROUPS), "solver": "pdprox", "passes": 20}),
    "budget": (X, y, {}, {"solver": "pdprox", "loss": "hinge:top=29.5"}),
    "budget of numbers": (X, NUMBERS, {}, {"loss": "huber:0.5,top=9.5", "penalty": "l1"}),
    "budget of sides": (X, NUMBERS, WEIGHTS, {"loss": "quantile:0.2,top=9.5", "bias": 1.0}),
    "quantile": (sp.csr_matrix(X), NUMBERS, WEIGHTS, {"loss": "quantile:0.2", "penalty": "l1"}),
    "numbers to meet": (X[:6] + 0.1, NUMBERS[:6], {}, {"loss": "interpolate:0.1", "penalty": "lp:1.5"}),
    "hard": (*separable(), {}, {"C": math.inf, "penalty": "lp:1.5"}),
    "midway": (*APART, {}, {"C": math.inf, "bias": "midway", "scale": "std"}),
    "joint": (*APART, {}, {"C": math.inf, "multiclass": "joint"}),
    "not separable": (X, y, {}, {"C": math.inf, "solver": "perceptron", "passes": 3, "bias": 1.0}),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_was_certified_is_found_again(trained, name):
    rows, labels, columns, options = MODELS[name]
    model, data = trained(rows, labels, columns, **options)
    checks = verify(model, data)
    assert disagreeing(checks) == []
    assert {check.name for check in checks} & {"primal", "margin_lower"}


@pytest.mark.parametrize("name", MODELS)
def test_an_altered_weight_is_found(trained, name):
    rows, labels, columns, options = MODELS[name]
    model, data = trained(rows, labels, columns, **options)
    loaded = sm.load_model(model)
    k, j = np.unravel_index(np.argmax(np.abs(loaded.coef_)), loaded.coef_.shape)
    loaded.coef_[k, j] *= 1.0 + 1e-4
    loaded.save(model, force=True)
    assert disagreeing(verify(model, data))


@pytest.mark.parametrize(
    "fields, tighter", [("low=-9", "low=-1e-3"), ("high=9", "high=1e-3"), ("radius=9", "radius=1e-3")]
)
def test_weights_outside_of_the_domain_have_no_objective(trained, fields, tighter):
    model, data = trained(X, y, penalty=f"l2:{fields}", bias="free")
    assert disagreeing(verify(model, data)) == []
    loaded = sm.load_model(model)
    loaded.header["penalty"] = f"l2:{tighter}"
    loaded.save(model, force=True)
    assert disagreeing(verify(model, data)) == ["primal"]


def test_several_values_of_C_and_held_out_rows(trained, tmp_path):
    valid = write_h5(tmp_path / "valid.h5", X[::2], y[::2])
    for options in ({"C": [0.01, 1.0, 100.0]}, {"C": "path:4,high=1", "solver": "pdprox", "penalty": "l1"}):
        model, data = trained(X, y, valid=valid, **options)
        checks = verify(model, data, valid)
        assert disagreeing(checks) == [] and checks[-1].name == "valid error"
        assert disagreeing(verify(model, data, write_h5(tmp_path / "other.h5", X[::2], -y[::2]))) == ["valid error"]
    model, data = trained(X, y)
    with pytest.raises(sm.UsageError, match="without held-out rows"):
        verify(model, data, valid)


def test_sparse_rows_are_not_held_out_from_dense_ones_that_are_centred():
    """They were scaled and not centred: an error of 51% where the same rows as a dense array had 10%."""
    held_out = (sp.csr_matrix(X), y)
    with pytest.raises(sm.UsageError, match="cannot be centred"):
        sm.train((X + 10.0, y), scale="std", valid=held_out)
    sm.train((X, y), scale="maxabs", valid=held_out)
    sm.train(held_out, scale="std", valid=(X, y))


def test_another_value_label_weight_or_row_is_found(trained, tmp_path):
    model, data = trained(X, y, {"sample_weight": np.ones(60)})
    support = int(np.argmin(y * sm.load_model(model).decision_function(X)))
    for name, place, value in (("X", (support, 0), 5.0), ("y", support, -y[support]), ("sample_weight", support, 1.1)):
        with h5py.File(data, "r+") as file:
            before = file[name][place]
            file[name][place] = value
        assert "primal" in disagreeing(verify(model, data)), name
        with h5py.File(data, "r+") as file:
            file[name][place] = before
    assert disagreeing(verify(model, data)) == []
    fewer = write_h5(tmp_path / "fewer.h5", X[1:], y[1:], sample_weight=np.ones(59))
    assert "rows" in disagreeing(verify(model, fewer))


def test_shards_and_names_of_its_columns(trained, tmp_path):
    parts = []
    for number, part in enumerate((slice(0, 25), slice(25, 60))):
        parts.append(str(tmp_path / f"part{number}.h5"))
        with h5py.File(parts[-1], "w") as file:
            file["rows"], file["labels"], file["importance"] = X[part], y[part], np.arange(60)[part]
    model = str(tmp_path / "model.npz")
    sm.train(parts, x="rows", y="labels", sample_weight="importance").model.save(model)
    assert disagreeing(verify(model, parts)) == []
    assert "primal" in disagreeing(verify(model, parts, sample_weight="labels"))


def test_labels_in_another_file(trained, tmp_path):
    rows, labels, array = (str(tmp_path / name) for name in ("rows.h5", "labels.h5", "labels.npy"))
    write_h5(rows, X)
    np.save(array, y)
    with h5py.File(labels, "w") as file:
        file["told"] = y
    for name in (f"{labels}:told", array):
        model = str(tmp_path / "model.npz")
        sm.train(rows, y=name).model.save(model, force=True)
        assert disagreeing(verify(model, rows)) == []


def test_rows_on_the_edge_are_counted_apart(tmp_path):
    """A score that rounding alone makes positive is neither right nor wrong."""
    rows = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    data, model = write_h5(tmp_path / "data.h5", rows, [1, 0, 1]), str(tmp_path / "model.npz")
    sm.train(data, bias=0.0, solver="sdca", tol=0.0, passes=3).model.save(model)
    loaded = sm.load_model(model)
    loaded.coef_[:] = [[1.0, 1.0]]
    loaded.intercept_[:] = -1.0
    loaded.header["problem"]["constant"] = {"kind": "free", "value": 1.0}
    for known, agrees in ((0, True), (1, True), (2, True), (3, False)):
        loaded.header["certificate"]["mistakes"] = known
        loaded.save(model, force=True)
        checks = {check.name: check for check in verify(model, data)}
        assert checks["mistakes"].agrees is agrees
        assert checks["  undecided by rounding"].found == 2


def test_a_column_that_scaling_leaves_out_has_no_weight(trained):
    model, data = trained(np.column_stack([X, np.full(60, 7.0)]), y, scale="std")
    loaded = sm.load_model(model)
    assert loaded.coef_[0, -1] == 0.0
    loaded.problem["factor"][-1] = 0.0
    loaded.save(model, force=True)
    assert disagreeing(verify(model, data)) == []


def test_a_model_that_is_loaded_and_saved_again_can_be_verified(trained):
    model, data = trained(X, CLASSES, {}, penalty=sm.penalties.Group(GROUPS), scale="std")
    sm.load_model(model).save(model, force=True)
    assert disagreeing(verify(model, data)) == []


@pytest.mark.parametrize("change, error, message", [
    ({"problem": "gone"}, sm.DataError, "train it again"),
    ({"problem": None}, sm.UsageError, "of a stream"),
    ({"certificate": Certificate().to_dict()}, sm.UsageError, "stopped early"),
    ({"loss": "my_loss:2"}, sm.UsageError, "users' own"),
])  # fmt: skip
def test_models_that_cannot_be_verified_still_load(trained, change, error, message):
    model, data = trained(X, y)
    loaded = sm.load_model(model)
    loaded.header.update(change)
    if change == {"problem": "gone"}:
        del loaded.header["problem"]
    loaded.save(model, force=True)
    assert np.array_equal(sm.load_model(model).coef_, loaded.coef_)
    with pytest.raises(error, match=message):
        verify(model, data)


def test_a_stream_and_a_loss_of_the_users_own(tmp_path):
    model, data = str(tmp_path / "model.npz"), write_h5(tmp_path / "data.h5", X, y)
    sm.train(iter([(X, y)]), solver="perceptron").model.save(model)
    with pytest.raises(sm.UsageError, match="of a stream"):
        verify(model, data)
    sm.train((X, y), loss=WideHinge()).model.save(model, force=True)
    with pytest.raises(sm.UsageError, match="users' own"):
        verify(model, data)


def test_files_that_it_does_not_read_name_the_command(trained, tmp_path):
    model, data = trained(X, y)
    with h5py.File(tmp_path / "csc.h5", "w") as file:
        file.create_group("X").attrs.update({"encoding-type": "csc_matrix", "shape": X.shape})
    with h5py.File(tmp_path / "categories.h5", "w") as file:
        file["X"], file["y/codes"] = X, np.zeros(60, np.int8)
    (tmp_path / "text.csv").write_text("1,2,3\n")
    write_h5(tmp_path / "unlabelled.h5", X)
    for name in ("csc.h5", "categories.h5", "text.csv", "unlabelled.h5"):
        with pytest.raises(sm.DataError, match="streammargin-data convert"):
            verify(model, tmp_path / name)
    with h5py.File(tmp_path / "categories.h5", "a") as file:
        file["obs/kind/codes"] = np.zeros(60, np.int8)
    with pytest.raises(sm.DataError, match=r"streammargin-data convert IN OUT\.h5 with y=.?obs/kind"):
        verify(model, tmp_path / "categories.h5", y="obs/kind")
    for broken in (data, str(tmp_path / "text.csv")):
        with pytest.raises(sm.DataError, match="is not a model"):
            verify(broken, data)
    with pytest.raises(sm.DataError, match="12"):
        verify(model, write_h5(tmp_path / "narrow.h5", X[:, 1:], y))
    with pytest.raises(sm.DataError, match="row 3 is new, 7"):
        verify(model, write_h5(tmp_path / "labels.h5", X, np.where(np.arange(60) == 3, 7, y)))
    with pytest.raises(sm.InputMissingError):
        verify(model, tmp_path / "nowhere.h5")
    for wrong in ("lots", 1j):  # numpy has an error of another type for each
        with pytest.raises(sm.DataError, match=rf"^f\.h5: the label of row 7 is '{wrong}', and not a number"):
            numbers_of(np.array([1.5, "2", wrong], object), "f.h5", np.arange(5, 8))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_memory_bounds_what_it_takes(tmp_path, form):
    rows = np.random.default_rng(0).standard_normal((30000, 40)).astype(np.float32)
    labels = np.where(rows[:, 0] > 0.0, 1, -1)
    data, model = write_h5(tmp_path / "data.h5", form(rows), labels), str(tmp_path / "model.npz")
    sm.train(data, passes=1).model.save(model)
    whole, memory = verify(model, data), 1 << 20
    with traced() as allocated:
        found = verify(model, data, memory=memory)
    assert allocated.peak < memory + (200 << 10)  # rows alone are 9 MiB in float64
    assert disagreeing(found) == []
    assert [check.found for check in found] == pytest.approx([check.found for check in whole], rel=1e-12)
    with pytest.raises(sm.UsageError, match="memory"):
        verify(model, data, memory=4000)


def test_its_formulas_are_those_of_the_product():
    assert set(FORMULAS) == set(LOSSES) and {*PENALTY_FORMULAS, *OF_LINES} == set(PENALTIES)
    numbers = {"width": 0.7, "epsilon": 0.2, "slope": 1.5, "quantile": 0.3, "delta": 0.4}
    u = np.linspace(-4.0, 4.0, 161)
    for name, formula in FORMULAS.items():
        loss = LOSSES[name](**{key: numbers[key] for key in LOSSES[name]().get_params() if key in numbers})
        word, number, named = spelled(str(loss))
        assert (word, named.get("top")) == (name, None) and number in (None, *numbers.values())
        loss = loss.of_one()
        expected = [loss.primal(each, 1.0) for each in u.tolist()]
        if name != "interpolate":  # which has no loss, but violations
            assert formula(u, number) == pytest.approx(expected, rel=1e-13, abs=1e-15), name
    w, of = np.random.default_rng(0).standard_normal(6), np.array([0, 0, 1, 2, 2, 2])
    groups = [np.flatnonzero(of == g) for g in range(3)]
    for name, formula in PENALTY_FORMULAS.items():
        for r in (0.25, 1.0):
            given = {"p": 1.3, "l1_ratio": r, "groups": of, "low": None, "high": None, "radius": None, "power": None}
            word = PENALTIES[name](**{line.name: given[line.name] for line in PENALTIES[name].entries()})
            penalty, p = of_columns(word, 6), 1.3 if name == "lp" else 2.0
            if "l1_ratio" in word.get_params():
                assert spelled(str(word))[:2] == (name, r)
            assert formula(w, r, p, groups) == pytest.approx(penalty.value(w), rel=1e-14), name
    W = np.random.default_rng(0).standard_normal((3, 6))
    for name in ("l21", "l1inf", "trace"):
        for r in (0.25, 1.0):
            penalty = PENALTIES[name](r).of_columns(PenalisedColumns(6, groups, False, 3))
            assert OF_LINES[name](W, r) == pytest.approx(penalty.value(W), rel=1e-14), name
    fields = {line.name for cls in LOSSES.values() for line in cls.entries()}
    assert fields == {*numbers, "top"}  # a new number of a loss is a new line above


@pytest.mark.parametrize("labels, loss", [(y, "hinge"), (CLASSES, "hinge"), (TARGETS[:, 0], "absolute_error")])
def test_one_column_of_labels_is_read_as_it_is_trained_on(trained, labels, loss):
    model, data = trained(X, labels[:, None], loss=loss)
    assert not disagreeing(verify(model, data))


def test_labels_are_one_however_they_are_written(trained):
    saved = Saved(trained(X, CLASSES)[0])
    for labels in ([2, 0, 1], [2.0, 0.0, 1.0], ["2", "0", "1"]):
        assert saved.codes(np.array(labels)).tolist() == [2, 0, 1]
    assert saved.codes(np.array(["a", "1.5", "1_0"])).tolist() == [-1, -1, -1]


def test_the_command(trained, tmp_path, capsys):
    model, data = trained(X, y, {"sample_weight": np.ones(60)})
    assert main(["verify", model, data]) == 0
    shown = capsys.readouterr().out
    assert "primal" in shown and "agrees" in shown and "DIFFERS" not in shown and shown.endswith("all agree\n")
    assert main(["verify", model, data, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agrees"] is True
    with h5py.File(data, "r+") as file:
        file["y"][0] = -file["y"][0]
    assert main(["verify", model, data]) == 65
    assert "DIFFERS" in capsys.readouterr().out
    assert main(["verify", model, data, "--json", "--memory", "64K"]) == 65
    assert json.loads(capsys.readouterr().out)["agrees"] is False
    assert main(["verify", model, str(tmp_path / "nothing.h5")]) == 66


def test_it_needs_no_compiler(trained):
    model, data = trained(X, y)
    code = f"import sys; from streammargin.cli.main import main; main(['verify', {model!r}, {data!r}]); " + (
        "print([name for name in ('numba', 'streammargin.compiled', 'streammargin.sources') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-2:] == ["all agree", "[]"], done.stderr


def altered(model, change):
    """The model with other arrays, and another header: change(arrays, header)."""
    with np.load(model) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"]))
    change(arrays, header)
    np.savez(model, **{**arrays, "header": np.array(json.dumps(header))})
    return model


def set_certificate(name, value):
    return lambda arrays, header: header["certificate"].update({name: value})


@pytest.mark.parametrize("name, change", [
    ("hard", lambda arrays, header: arrays["coef"].fill(0.0)),  # no length, and a margin of -inf
    ("hard", set_certificate("margin_lower", "inf")),
    ("hinge", set_certificate("primal", "inf")),
    ("budget", set_certificate("primal", "inf")),
    ("hard", lambda arrays, header: (header["problem"].update(shift=1e20), header["certificate"].update(mistakes=9))),
])  # fmt: skip
def test_nothing_agrees_with_infinity(trained, name, change):
    rows, labels, columns, options = MODELS[name]
    model, data = trained(rows, labels, columns, **options)
    assert disagreeing(verify(altered(model, change), data))


@pytest.mark.parametrize("change", [
    lambda arrays, header: arrays["intercept"].fill(math.inf),
    lambda arrays, header: arrays.pop("classes"),
    lambda arrays, header: header["problem"].pop("constant"),
    lambda arrays, header: header.update(certificate=3),
    lambda arrays, header: header["certificate"].update(mistakes="few"),
    lambda arrays, header: header.update(p=None),
    lambda arrays, header: arrays.update(center=np.zeros(3)),
    lambda arrays, header: arrays.update(intercept=np.zeros(2)),
    lambda arrays, header: arrays.update(caps=np.ones(1)),
    lambda arrays, header: arrays.update(coef=np.array([["a"] * 12])),
])  # fmt: skip
def test_a_model_that_no_training_wrote_is_told(trained, change):
    model, data = trained(X, y)
    with pytest.raises(sm.DataError, match=r"model\.npz is not a model, or damaged .*; train it again"):
        verify(altered(model, change), data)


@pytest.mark.parametrize("change, why", [
    ({"kernel": "rbf"}, "its kernel rbf has scale in place of the number"),
    ({"kernel": "rbf:0.3,weight=1+sigmoid:weight=1"}, "has scale in place of the number"),
    ({"kernel": "precomputed"}, "its array support has the number .*, which is out of range"),
    ({"factors": np.ones(2)}, "its array factors has the shape"),
])  # fmt: skip
def test_a_damaged_kernel_machine_is_blamed_itself(trained, change, why):
    model, data = trained(X, y, kernel="rbf:0.3", scale="std")
    forged(model, **{name: np.array(value) for name, value in change.items()})
    with pytest.raises(sm.DataError, match=rf"model\.npz is a damaged model: .*{why}"):
        sm.load_model(model)
    with pytest.raises(sm.DataError, match=r"model\.npz is not a model, or damaged .*; train it again"):
        verify(model, data)


def test_a_model_that_is_larger_than_the_memory_is_not_read(trained, capsys):
    model, data = trained(X, y)
    altered(model, lambda arrays, header: arrays.update(other=np.zeros(1 << 21)))
    with pytest.raises(sm.UsageError, match=r"holds 17M; raise .*memory"):
        verify(model, data, memory=10 << 20)
    assert main(["verify", model, data, "--memory", "10M"]) == 2 and "raise --memory" in capsys.readouterr().err
    assert main(["verify", model, data]) == 0 and "is large" not in capsys.readouterr().err
    altered(model, lambda arrays, header: arrays.update(other=np.zeros(1 << 22)))
    assert main(["verify", model, data]) == 0  # what it takes, if no memory is given
    assert "model.npz is large: verify takes up to 416M of memory; --memory bounds it" in capsys.readouterr().err


def set_entry(name, place, value):
    def change(file):
        file[name][place] = value

    return change


def other_values(name, values, **options):
    def change(file):
        del file[name]
        file.create_dataset(name, data=values, **options)

    return change


@pytest.mark.parametrize("change", [
    set_entry("X/indices", 3, 10**6),  # which SciPy looks up beyond all arrays
    set_entry("X/indices", 3, -(10**6)),
    set_entry("X/indptr", 5, 700),
    set_entry("X/indptr", -1, 2**62),
    set_entry("X/data", 3, math.inf),
    set_entry("X/data", 3, math.nan),
    lambda file: file.__delitem__("X/indices"),
    other_values("X/data", np.zeros(720, complex)),
    other_values("X/data", ["a"] * 720),
    other_values("y", [b"\xff"] * 60, dtype=h5py.string_dtype()),
    other_values("y", np.zeros(60, [("a", int)])),
    lambda file: (file.__delitem__("X"), file.__setitem__("X", h5py.SoftLink("/X"))),
])  # fmt: skip
def test_rows_that_are_none_are_told(trained, change):
    model, data = trained(sp.csr_matrix(X), y)
    with h5py.File(data, "r+") as file:
        change(file)
    with pytest.raises(
        sm.DataError, match=r"data\.h5 is not a layout of rows that verify reads .*streammargin-data convert"
    ):
        verify(model, data)


@pytest.mark.parametrize("loss", ["quantile", "squared_error"])
def test_a_fit_that_is_nearly_exact_agrees_within_the_rounding_of_its_scores(tmp_path, loss):
    X = np.random.default_rng(0).standard_normal((30, 4))
    path = write_h5(tmp_path / "far.h5", X, 1e8 + 1000.0 * X[:, 0])
    result = sm.train(path, loss=loss, C=1000.0, penalty="l1", tol=1e-9, valid=path)
    result.model.save(tmp_path / "far.npz")
    checks = {check.name: check for check in verify(tmp_path / "far.npz", path, path)}
    assert all(check.agrees is not False for check in checks.values())
    altered = sm.load_model(tmp_path / "far.npz")
    altered.coef_[0, 0] *= 1.0 + 1e-6
    altered.save(tmp_path / "altered.npz")
    assert any(check.agrees is False for check in verify(tmp_path / "altered.npz", path, path))


@pytest.mark.parametrize("name", ["g,low=0", "g,l1_ratio=1", "1e5", "e", "-1,high=2"])
def test_a_file_of_groups_may_be_named_like_fields(trained, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    np.savetxt(name, GROUPS, "%d")
    for penalty in (sm.penalties.Exclusive(name), sm.penalties.SparseGroup(name, 0.4)):
        assert disagreeing(verify(*trained(X, y, penalty=penalty, solver="pdprox", passes=5))) == []


@pytest.mark.parametrize("top", ["1e-5", "1e-12", "1.5e-300"])
@pytest.mark.parametrize("loss, labels", [
    ("hinge:", y), ("squared_hinge:", y), ("logistic:", y),
    ("huber:1e-320,", NUMBERS), ("huber:1e-5,", NUMBERS), ("epsilon_insensitive:0.5,", NUMBERS),
])  # fmt: skip
def test_a_few_losses_that_count_for_next_to_nothing(trained, loss, labels, top):
    model, data = trained(X, labels, loss=f"{loss}top={top}", solver="pdprox", penalty="l1", passes=3)
    assert disagreeing(verify(model, data)) == []


def test_losses_with_bounded_duals_are_those_of_the_best_duals():
    """Against the dual, maximised by a general solver: sum_i a_i u_i - conjugates, with sum_i a_i / slope_i <= most."""
    u, caps, most = np.array([[0.3], [-1.2], [0.9], [-0.4]]), np.array([[1.0], [0.5], [2.0], [1.5]]), 1.3
    for loss, curved in (("hinge", 0.0), ("squared_hinge", 0.25)):
        result = scipy.optimize.minimize(
            lambda a, curved=curved: -np.sum(a * (1.0 - u[:, 0]) - curved * a**2 / caps[:, 0]), np.full(4, 0.1),
            bounds=[(0.0, cap if not curved else None) for cap in caps[:, 0]], method="SLSQP", tol=1e-13,
            constraints={"type": "ineq", "fun": lambda a: most - a.sum()},
        )  # fmt: skip
        assert bounded(loss, None, u, caps, most) == pytest.approx([-result.fun], rel=1e-8)
    # a row of the largest error takes all of a small budget
    assert bounded("hinge", None, u, caps, 1e-300) == pytest.approx([2.2e-300], rel=1e-14)
    assert bounded("huber", 1e-5, u, caps, 1e-300) == pytest.approx([1.2e-305], rel=1e-14)


def forged(model, **arrays):
    """The model with other arrays."""
    with np.load(model) as file:
        content = dict(file)
    np.savez_compressed(model, **{**content, **arrays})


@pytest.mark.parametrize("groups", [[2**24, 0, 1], [2**24, *range(11)], [2**62, *range(11)]])
def test_forged_groups_size_no_array(groups, trained):
    model, data = trained(X, y, penalty=sm.penalties.Group(GROUPS, 0.4))
    forged(model, groups=np.array(groups))
    with traced() as allocated:
        if len(groups) == 12:  # as good as any other numbers
            assert "primal" in disagreeing(verify(model, data))
        else:
            with pytest.raises(sm.DataError, match="is not a model, or damaged"):
                verify(model, data)
    assert allocated.peak < 8 << 20


@pytest.mark.parametrize("name", ["coef", "classes"])
def test_weights_of_one_byte_count_as_what_they_become(name, trained):
    """They are 8 bytes in a file of a few KB, and several times 64 here."""
    model, data = trained(X, y)
    forged(model, **{name: np.zeros((1, 4 << 20) if name == "coef" else 4 << 20, np.int8)})
    with traced() as allocated, pytest.raises(sm.UsageError, match=r"raise .*memory"):
        verify(model, data, memory=64 << 20)
    assert allocated.peak < 8 << 20


def test_a_shape_that_is_not_stored_is_not_allocated(trained):
    model, data = trained(X, y)
    with zipfile.ZipFile(model) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    shape = b"'shape': (1, 12), }" + b" " * 8
    assert shape in parts["coef.npy"]
    parts["coef.npy"] = parts["coef.npy"].replace(shape, b"'shape': (1, 1234567890), }")
    with zipfile.ZipFile(model, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(sm.DataError, match="is not a model, or damaged"):
        verify(model, data)


@pytest.mark.parametrize("part", ["chunk", "text", "indptr"])
def test_numbers_of_a_data_file_size_no_array(part, trained):
    model, data = trained(sp.csr_matrix(X), y)
    with h5py.File(data, "r+") as file:
        if part == "indptr":
            file["X/indptr"][1:] = 2**58
        elif part == "chunk":
            del file["X/data"]
            file["X"].create_dataset("data", (file["X/indices"].size,), "f4", chunks=(1 << 26,), maxshape=(None,))
        else:
            del file["y"]
            file.create_dataset("y", (len(y),), "S10000000", chunks=(1,), compression="gzip")
    with traced() as allocated, pytest.raises((sm.DataError, sm.UsageError)):
        verify(model, data, memory=32 << 20)
    assert allocated.peak < 32 << 20


@pytest.mark.parametrize("loss", ["hinge", "squared_error"])
def test_blocks_of_rows_that_are_all_left_out(loss, tmp_path):
    """A weight of 0 leaves a row out; verify reads 64 rows at a time here, and the first 300 have weight 0."""
    rows = np.random.default_rng(0).standard_normal((400, 3))
    y = rows[:, 0] + 0.5 * rows[:, 1]
    path = str(tmp_path / "rows.h5")
    sm.write_hdf5(
        [(rows, np.where(y > 0, 1, -1) if loss == "hinge" else y, (np.arange(400) >= 300).astype(float))], path
    )
    sm.train(path, loss=loss).model.save(tmp_path / "m.npz")
    assert all(check.agrees is not False for check in verify(tmp_path / "m.npz", path, memory=1 << 15))
