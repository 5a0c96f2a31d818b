"""Rows of several tasks: a line of weights for each task, which penalties of several outputs join."""

import h5py
import numpy as np
import pytest
from conftest import slow, write_h5
from reference.conic_outputs import Outputs
from reference.datasets import as_form
from reference.stopped import stop_after

import streammargin as sm
from streammargin.cli.main import main
from streammargin.errors import DataError, UsageError
from streammargin.points.tasks import by_task
from streammargin.rows.blocks import DenseBlock, taken
from streammargin.solvers.newton import newton, task_interior, task_system
from streammargin.verification.verify import verify

ROWS, COLUMNS, NAMES = 150, 5, np.array(["north", "south", "west"])
RANDOM = np.random.default_rng(3)
TASKS = RANDOM.integers(0, 3, ROWS)
X = RANDOM.standard_normal((ROWS, COLUMNS)) * (RANDOM.random((ROWS, COLUMNS)) < 0.7)
W = RANDOM.standard_normal((3, COLUMNS)) * [1.0, 1.0, 1.0, 0.0, 0.2]
Y = (X * W[TASKS]).sum(axis=1) + np.array([0.0, 20.0, -5.0])[TASKS]
Y = Y + 0.3 * RANDOM.standard_normal(ROWS)
B = np.where(np.array([np.median(Y[k == TASKS]) for k in range(3)])[TASKS] < Y, "high", "low")
WORDS = ("absolute_error", "hinge", "epsilon_insensitive:0.5", "squared_error", "huber:1", "logistic")
TIGHT = {"tol": 1e-6, "passes": 2000}


def optimum(loss, penalty, r, C, y):
    """The optimum by an interior-point method, if the constants are free."""
    program = Outputs(X, 3, 1.0, True)
    caps = C * (TASKS[:, None] == np.arange(3))
    if loss == "hinge":
        program.hinge(np.where(y == "low", 1.0, -1.0)[:, None].repeat(3, axis=1), caps)
    elif loss == "squared_error":
        program.squared(y[:, None].repeat(3, axis=1), caps)
    else:
        program.absolute(y[:, None].repeat(3, axis=1), caps, 0.1 if loss == "epsilon_insensitive:0.1" else 0.0)
    program.penalise(penalty, r)
    return program.solve()[0]


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize(
    "loss, penalty, r",
    [
        ("squared_error", "l21", 1.0),
        ("squared_error", "trace", 1.0),
        slow("squared_error", "exclusive", 1.0),
        ("absolute_error", "l1inf", 1.0),
        slow("epsilon_insensitive:0.1", "l21", 0.5),
        ("hinge", "l21", 1.0),
        slow("hinge", "l1", 1.0),
    ],
)
def test_the_optimum_is_that_of_an_interior_point_method(loss, penalty, r, form):
    y = B if loss == "hinge" else Y
    word = penalty if penalty == "exclusive" else f"{penalty}:{r:g}" if r < 1.0 else penalty
    best = optimum(loss, penalty, r, 0.3, y)
    found = sm.train((as_form(X, form), y), tasks=NAMES[TASKS], loss=loss, penalty=word, bias="free", C=0.3, **TIGHT)
    assert found.converged and found.certificate.dual <= best * (1 + 1e-7)
    assert found.certificate.primal == pytest.approx(best, rel=3e-6)


@pytest.mark.parametrize("y, loss", [(Y, "squared_error"), (B, "logistic")])
def test_line_by_line_each_task_is_its_own_training(y, loss):
    options = {"loss": loss, "penalty": "l1", "C": 0.4, "solver": "newton", **TIGHT}
    weights = RANDOM.random(ROWS)
    found = sm.train((X, y), tasks=TASKS, sample_weight=weights, **options)
    for task in range(3):
        here = task == TASKS
        alone = sm.train((X[here], y[here]), sample_weight=weights[here], **options)
        part = found.certificate.per_class[task]
        assert part["primal"] == pytest.approx(alone.certificate.primal, rel=2e-6)
        np.testing.assert_allclose(found.model.coef_[task], alone.model.coef_[0], atol=2e-3)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize(
    "loss, r, bias",
    [
        ("absolute_error", 1.0, "free"),
        ("epsilon_insensitive:0.1", 0.6, "free"),
        ("quantile:0.8", 1.0, 0),
        slow("hinge", 1.0, "free"),
        slow("hinge", 0.5, 1.0),
    ],
)
def test_interior_points_of_losses_with_corners(loss, r, bias, form):
    """Each pass is an iteration; the steps that smooth the loss take more passes to the same optimum."""
    y, word = B if loss == "hinge" else Y, f"l1inf:{r:g}"
    options = {"loss": loss, "penalty": word, "bias": bias, "C": 0.3, "tasks": TASKS}
    options["sample_weight"] = np.arange(ROWS) % 5 / 2.0
    found = sm.train((as_form(X, form), y), passes=60, tol=1e-8, **options)
    assert found.converged and "interior points" in found.history[0]["solver"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_interior, "supports", lambda problem: False)
        other = sm.train((as_form(X, form), y), **{**TIGHT, "tol": 1e-5}, **options)
    assert other.converged and other.certificate.dual <= found.certificate.primal * (1 + 1e-9)
    assert found.certificate.dual <= other.certificate.primal * (1 + 1e-9)
    assert found.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-5)


def test_the_pieces_of_a_loss_and_what_interior_points_serve():
    pieces = {word: task_interior.pieces_of(sm.losses.FAMILY.of(word).terms()) for word in WORDS}
    assert pieces["absolute_error"] == [(-1.0, 1.0, 0.0)] and pieces["hinge"] == [(0.0, 1.0, 1.0)]
    assert pieces["epsilon_insensitive:0.5"] == [(-1.0, 0.0, 0.5), (0.0, 1.0, -0.5)]
    assert pieces["squared_error"] is pieces["huber:1"] is pieces["logistic"] is None


def test_steps_that_lead_nowhere_are_followed_by_those_that_smooth_the_loss(monkeypatch, caplog):
    options = {"loss": "absolute_error", "penalty": "l1inf", "C": 0.3, "tasks": TASKS, **TIGHT}
    best = sm.train((X, Y), **options)
    monkeypatch.setattr(task_system, "factored", lambda scaled: np.full(scaled.shape, np.nan))
    found = sm.train((X, Y), **options)
    assert found.converged and found.passes > best.passes
    assert found.certificate.primal == pytest.approx(best.certificate.primal, rel=3e-6)
    monkeypatch.setattr(newton, "goes_on", lambda problem: False)  # no room for them
    stopped = sm.train((X, Y), **options)
    assert stopped.reason == "passes" and stopped.passes < 5
    assert "no step helps any more" in caplog.text


def stored(path, order=slice(None), form="dense"):
    """A file of these rows, with labels and tasks of each kind."""
    write_h5(path, X=as_form(X[order], form), y=Y[order])
    with h5py.File(path, "r+") as file:
        file["school"] = NAMES[TASKS[order]].astype(object)
        file["some"] = np.arange(ROWS) % 4 / 2.0
        file["number"], file["third"] = TASKS[order], np.arange(ROWS) % 3
        file["grade"] = B[order].astype(object)
    return path


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_files_are_arrays_in_any_order(tmp_path, form):
    """Where rows of a task follow each other they are views, else copies."""
    told = sm.train((as_form(X, form), Y), tasks=NAMES[TASKS], loss="huber", penalty="trace", C=0.3, **TIGHT)
    for number, order in enumerate((slice(None), np.argsort(TASKS, kind="stable"))):
        path = stored(tmp_path / f"{number}.h5", order, form)
        found = sm.train(path, tasks="school", loss="huber", penalty="trace", C=0.3, memory="13M", **TIGHT)
        assert found.certificate.primal == pytest.approx(told.certificate.primal, rel=1e-6)
        assert found.model.tasks == NAMES.tolist() and found.model.header["problem"]["names"]["tasks"] == "school"
        predicted = found.model.predict(path)
        np.testing.assert_array_equal(predicted, found.model.predict(path, tasks="school"))
        np.testing.assert_allclose(
            predicted, (X * found.model.coef_[TASKS]).sum(axis=1)[order] + found.model.intercept_[TASKS][order]
        )
        figures = found.model.evaluate(path)
        assert figures["mean_squared_error"] == pytest.approx(np.mean((predicted - Y[order]) ** 2))


@pytest.mark.parametrize("loss, y", [("squared_error", "y"), ("logistic", "grade")])
def test_the_shell_trains_predicts_evaluates_and_verifies(tmp_path, capsys, loss, y):
    data, model = str(stored(tmp_path / "a.h5")), str(tmp_path / "m.npz")
    given = ["--tasks", "school", "--loss", loss, "--y", y, "--penalty", "l21", "--valid", data, "-C", "path:3"]
    assert main(["train", data, "-o", model, *given]) == 0
    assert all(check.agrees is not False for check in verify(model, data, data))
    assert main(["verify", model, data, "--valid", data, "--tasks", "school"]) == 0
    other = str(tmp_path / "o.npz")
    assert main(["train", data, "-o", other, *given[:-4], "--sample-weight", "some", "--penalty", "l1"]) == 0
    assert all(check.agrees is not False for check in verify(other, data))
    assert {"primal of task south"} <= {check.name for check in verify(other, data)}
    assert main(["evaluate", model, data, "--y", y, "--tasks", "school"]) == 0
    assert main(["info", model, "--top", "2"]) == 0
    capsys.readouterr()
    assert main(["predict", model, data]) == 0
    lines = capsys.readouterr().out.split()
    assert lines == [str(one) for one in sm.load_model(model).predict(data).tolist()]
    assert main(["predict", model, data, "--tasks", "number"]) == 65
    assert "the tasks 0, 1, 2 have no weights in the model, which was trained on north, south, west" in (
        capsys.readouterr().err
    )


def test_a_column_of_a_table_has_the_tasks(tmp_path, capsys):
    path, model = tmp_path / "a.csv", str(tmp_path / "m.npz")
    with open(path, "w") as file:
        file.write(",".join([*(f"x{j}" for j in range(COLUMNS)), "school", "mark"]) + "\n")
        for row, task, mark in zip(X.tolist(), NAMES[TASKS].tolist(), Y.tolist(), strict=True):
            file.write(",".join([*map(repr, row), task, repr(mark)]) + "\n")
    columns = ["--y", "mark", "--tasks", "school"]
    given = ["--loss", "squared_error", "--penalty", "l21", "-c", "0.3", "-e", "1e-6"]
    assert main(["train", str(path), "-o", model, "--valid", str(path), *columns, *given]) == 0
    assert main(["verify", model, f"{path}.rows.h5"]) == 0
    told = sm.train((X, Y), tasks=NAMES[TASKS], loss="squared_error", penalty="l21", C=0.3, tol=1e-6)
    found = sm.load_model(model)
    np.testing.assert_allclose(found.coef_, told.model.coef_, atol=1e-5)
    predicted = found.predict(str(path))
    np.testing.assert_allclose(predicted, told.model.predict(X, tasks=NAMES[TASKS]), atol=1e-4)
    assert found.evaluate(str(path))["r2"] > 0.9
    assert found.evaluate(f"{path}.rows.h5")["rows"] == ROWS  # its own spool, as `verify` takes it
    capsys.readouterr()
    assert main(["predict", model, str(path), "--tasks", "school"]) == 0
    assert len(capsys.readouterr().out.split()) == ROWS


@pytest.mark.parametrize("penalty", ["l1inf", "l21"])
def test_a_stopped_training_goes_on_to_the_same_bits(tmp_path, penalty):
    data = str(stored(tmp_path / "a.h5"))
    options = {"tasks": "school", "loss": "absolute_error", "penalty": penalty, "C": 0.3, "memory": "13M", **TIGHT}
    whole = sm.train(data, **options)
    folder = str(tmp_path / "c")
    first = sm.train(data, checkpoint=folder, should_stop=stop_after(8), **options)
    assert first.reason == "signal"
    with pytest.raises(DataError, match="other labels"):
        sm.train(data, checkpoint=folder, **{**options, "tasks": "third"})
    second = sm.train(data, checkpoint=folder, **options)
    assert second.converged and np.array_equal(second.model.coef_, whole.model.coef_)


def test_rows_of_a_block_by_task():
    block = DenseBlock(X, 0.0)
    found = list(by_task(block, np.where(np.arange(ROWS) % 7, TASKS, -1)))
    assert [one.task for one in found] == [0, 1, 2]
    for task, part, rows in found:
        assert np.array_equal(part.X, X[rows]) and set(TASKS[rows]) == {task} and not np.any(rows % 7 == 0)
    order = np.argsort(TASKS, kind="stable")
    for _, part, rows in by_task(DenseBlock(X[order], 0.0), TASKS[order]):
        assert isinstance(rows, slice) and np.array_equal(part.X, X[order][rows]) and not part.X.flags.owndata
    sparse = taken(sm.sources.arrays.ArraySource(as_form(X, "csr")).whole(), order)
    dense = np.zeros_like(X)
    dense[np.repeat(np.arange(ROWS), np.diff(sparse.indptr)), sparse.indices] = sparse.data
    assert np.array_equal(dense, X[order])


FLOATS = np.where(np.arange(ROWS) == 4, np.nan, TASKS)
EMPTY = np.where(np.arange(ROWS) == 4, "", NAMES[TASKS])


@pytest.mark.parametrize(
    "tasks, options, error, told",
    [
        (TASKS[:-1], {}, DataError, r"tasks has shape \(149,\) but X has 150 rows; give one task for each row"),
        (FLOATS, {}, DataError, "the task of row 4 is NaN"),
        ([None, *NAMES[TASKS][1:]], {}, DataError, "row 0 has no task"),
        (EMPTY, {}, DataError, "there are rows whose task has an empty name"),
        (TASKS, {"sample_weight": TASKS != 1}, DataError, "the task 1 has no row of positive weight"),
        (TASKS, {"kernel": "rbf"}, UsageError, "kernel is for one set of weights"),
        (TASKS, {"loss": "l2_error"}, UsageError, "the loss joins several"),
        (TASKS, {"solver": "pegasos"}, UsageError, "use solver=.newton"),
        (TASKS, {"loss": "hinge", "C": np.inf}, UsageError, "trained at a finite C"),
        (TASKS, {"loss": "hinge", "solver": "perceptron"}, UsageError, "trained at a finite C"),
        (TASKS, {"solver": "pdprox", "penalty": "l21"}, UsageError, "pdprox has one set of weights"),
        (TASKS, {"loss": "interpolate"}, UsageError, "tasks does not apply to the regression loss interpolate"),
        ("school", {}, UsageError, "has no column 'school' of tasks; give tasks as an array"),
        (TASKS, {"valid": (X, Y), "C": [1, 2]}, UsageError, r"given as \(X, y, tasks\)"),
    ],
)
def test_bad_tasks_are_refused_in_a_sentence(tasks, options, error, told):
    given = {"loss": "squared_error", **options}
    with pytest.raises(error, match=told):
        sm.train((X, Y), tasks=tasks, **given)


def test_tasks_of_one_class_of_one_row_and_unknown_ones(caplog):
    with pytest.raises(DataError, match="all rows of the task 1 have the label high"):
        sm.train((X, np.where(TASKS == 1, "high", B)), tasks=TASKS, loss="logistic")
    with pytest.raises(UsageError, match="tasks have two classes, and the labels of X are 3"):
        sm.train((X, TASKS), tasks=TASKS)
    single = np.where(np.arange(ROWS) == 9, 7, TASKS)
    found = sm.train((X, Y), tasks=single, loss="squared_error", penalty="l21")
    assert found.converged and "the task 7 has one row only" in caplog.text
    assert found.model.predict(X[9:10], tasks=[7]) == pytest.approx([Y[9]])
    with pytest.raises(DataError, match="the task 8 has no weights in the model, which was trained on 0, 1, 2, 7"):
        found.model.predict(X[:2], tasks=[0, 8])
    with pytest.raises(UsageError, match="weights for each of 4 tasks; give those of the rows with tasks"):
        found.model.predict(X)
    with pytest.raises(UsageError, match="all rows have the same weights in this model"):
        sm.train((X, Y), loss="squared_error").model.predict(X, tasks=TASKS)


@pytest.mark.parametrize("penalty", ["l1inf", "l21"])
def test_tasks_without_a_column_in_common_are_told(penalty, caplog):
    apart = np.where((TASKS[:, None] == 0) == (np.arange(X.shape[1]) < 2), X, 0.0)
    options = {"loss": "absolute_error", "penalty": penalty, "bias": 0}
    sm.train((X, Y), tasks=TASKS == 0, C=1.0, **options)
    assert "joins none" not in caplog.text
    sm.train((apart, Y), tasks=TASKS == 0, C=1.0, **options)
    assert f'no column has a weight in two tasks, so penalty="{penalty}" joins none' in caplog.text


def test_held_out_rows_choose_among_values_of_c():
    held = np.arange(ROWS) % 3 == 0
    valid = (X[held], Y[held], NAMES[TASKS[held]])
    found = sm.train(
        (X[~held], Y[~held]),
        tasks=NAMES[TASKS[~held]],
        loss="squared_error",
        penalty="l1inf",
        C=[1e-3, 0.3],
        valid=valid,
    )
    loss = found.model.evaluate(valid[:2], tasks=valid[2])["loss"]
    assert found.certificate.valid_error == pytest.approx(loss) and found.model.header["C"] == 0.3


def test_rows_that_do_not_fit_for_interior_points_ask_for_memory(tmp_path, caplog):
    path, wide = str(tmp_path / "rows.h5"), RANDOM.standard_normal((9000, 40))
    write_h5(path, wide, (wide[:, 0] + wide[:, 1] > 0.3).astype(int))
    with h5py.File(path, "a") as file:
        file["place"] = np.arange(9000) % 3
    options = {"tasks": "place", "penalty": "l1inf", "tol": 1e-6}
    result = sm.train(path, memory="16M", passes=2, **options)
    assert result.cramped and not result.converged
    assert 'use memory="33M" or more, raise passes or tol' in caplog.text
    found = [sm.train(path, memory=memory, passes=60, **options) for memory in ("18M", "34M", "1G")]
    assert all(one.converged and not one.cramped for one in found)
    assert found[0].history[0]["plan"]["blocks"] > 1 and len({one.passes for one in found}) == 1
    for one in found[:2]:
        assert one.certificate.primal == pytest.approx(found[2].certificate.primal, rel=1e-9)
