"""Maps in front of linear solvers: what is certified, the same bits everywhere, resume, memory, bad input."""

import os
import pickle
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from reference.sources import CountingSource
from reference.stopped import stop_after

import streammargin as sm
from streammargin.maps.base import MAPPED_ROWS, is_steady, product
from streammargin.maps.fitted import Fitted
from streammargin.sources.views import MappedSource
from streammargin.verification.verify import verify

RANDOM = np.random.default_rng(3)
X = np.round(RANDOM.standard_normal((500, 6)), 3)
X[RANDOM.random(X.shape) < 0.4] = 0.0
Y = np.where((X**2).sum(axis=1) + 0.3 * RANDOM.standard_normal(500) > 3.5, 1, -1)
WORDS = ("nystroem:40,kernel=rbf:0.2", "nystroem:30,kernel=poly:2,coef0=1+linear", "rff:41", "rff:40,gamma=0.3")
FORMS = {"dense": np.asarray, "csr": sp.csr_array, "float32": lambda Z: Z.astype(np.float32)}


class Squares(sm.maps.Map):
    """The columns and their squares."""

    @property
    def width(self):
        return 12

    def learn(self, seen):
        return {"ones": np.ones(seen.features)}

    def rows(self, X, learned):
        X = X.toarray() if hasattr(X, "toarray") else X
        return np.hstack([X, X**2 * learned["ones"]])


def mapped(model, rows):
    """The rows that the linear model of a trained map sees."""
    before, fitted = model.answer.before, model.answer.fitted
    scaled = (rows - before.center) * before.factor if before.factor.size else rows
    return fitted.rows(scaled)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("word", [*WORDS, Squares()], ids=str)
def test_the_certificate_is_that_of_the_linear_problem_on_mapped_rows(word, form):
    rows = FORMS[form](X)
    ours = sm.train((rows, Y), map=word, C=2.0, tol=1e-6)
    Z = mapped(ours.model, rows)
    alone = sm.train((Z, Y), C=2.0, tol=1e-6)
    assert ours.converged and Z.shape[1] == (12 if isinstance(word, Squares) else int(str(word)[4:].strip("roem:")[:2]))
    assert ours.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-6)
    assert ours.certificate.dual <= alone.certificate.primal and alone.certificate.dual <= ours.certificate.primal
    assert ours.model.evaluate((rows, Y))["mistakes"] == ours.certificate.mistakes
    assert ours.model.header["features"] == 6 and ours.model.answer.features == 6


def test_of_the_rows_that_were_drawn_a_nystroem_map_knows_the_kernel():
    result = sm.train((X, Y), map="nystroem:60,kernel=rbf:0.2,weight=2", tol=0.1)
    Z = result.model.answer.fitted.learned["landmarks"]
    assert len({row.tobytes() for row in Z}) == 60 and all((row == X).all(axis=1).any() for row in Z)
    z = result.model.answer.fitted.rows(Z)
    K = 2.0 * np.exp(-0.2 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(z @ z.T, K, atol=1e-7)
    few = sm.train((X, Y), map="nystroem:60,kernel=rbf:0.2,weight=2", tol=0.1, seed=1).model.answer.fitted
    assert not np.array_equal(few.learned["landmarks"], Z)


def test_random_fourier_features_come_near_the_kernel():
    K = np.exp(-0.05 * ((X[:100, None] - X[None, :100]) ** 2).sum(axis=2))
    far = []
    for columns in (100, 2500):
        fitted = sm.train((X, Y), map=f"rff:{columns},gamma=0.05", tol=0.5).model.answer.fitted
        z = fitted.rows(X[:100])
        np.testing.assert_allclose((z**2).sum(axis=1), 1.0, rtol=1e-12)
        far.append(np.abs(z @ z.T - K).max())
    assert far[1] < 0.06 < far[0] < 0.4


def test_gamma_is_that_of_scikit_learn_on_the_rows_as_they_come():
    for scale in ("none", "std"):
        found = sm.train((X, Y), map="rff:10", scale=scale, tol=0.5).model
        Z = X if scale == "none" else (X - X.mean(axis=0)) / X.std(axis=0)
        assert found.answer.fitted.map.gamma == pytest.approx(1.0 / (6 * Z.var()), rel=1e-12)
        assert found.header["map"] == str(found.answer.fitted.map) and "scale" not in found.header["map"]
    sparse = sm.train((sp.csr_array(X), Y), map="nystroem:10", tol=0.5).model.answer.fitted.map
    assert float(sparse.of.gamma) == pytest.approx(1.0 / (6 * X.var()), rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", ["none", "maxabs"])
@pytest.mark.parametrize("word", WORDS)
def test_a_row_is_mapped_to_the_same_bits_by_whomever(word, scale, form, tmp_path):
    """In training by blocks of any size, in prediction alone or with others, from a file, in verification."""
    rows = FORMS[form](X)
    data, model = write_h5(tmp_path / "a.h5", rows, Y), str(tmp_path / "m.npz")
    sm.train(data, map=word, scale=scale, tol=1e-3).model.save(model)
    loaded = sm.load_model(model)
    scores = loaded.decision_function(data)
    assert np.array_equal(loaded.decision_function(rows), scores)
    assert np.array_equal(loaded.decision_function(rows, threads=3), scores)
    assert np.array_equal(loaded.decision_function(rows[131:397]), scores[131:397])
    assert np.array_equal(np.concatenate([loaded.decision_function(rows[k : k + 1]) for k in range(0, 500, 49)]),
                          scores[::49])  # fmt: skip
    assert np.array_equal(loaded.decision_function(rows.astype(np.float64)), scores)
    [primal] = [check for check in verify(model, data) if check.name == "primal"]
    assert primal.found == pytest.approx(primal.certified, rel=1e-14)


@pytest.mark.parametrize("form", FORMS)
def test_blocks_of_a_source_change_no_bit(form, monkeypatch):
    source = sm.open_source((FORMS[form](X), Y))
    fitted = sm.train(source, map="nystroem:40", tol=0.5).model.answer.fitted
    whole = fitted.rows(FORMS[form](X))
    for piece, most in ((1 << 20, 1 << 20), (900, 1 << 20), (900, 5000), (1 << 20, 5000)):
        monkeypatch.setattr("streammargin.sources.views.MAPPED", piece)
        ours = MappedSource(source, fitted)
        bounds = ours.bounds(most)
        buffer = ours.allocate(bounds)
        assert buffer.nbytes == ours.buffer_bytes(bounds) and bounds[0] == 0 and bounds[-1] == 500
        found = [ours.read(start, stop, buffer).X.copy() for start, stop in pairwise(bounds)]
        assert np.array_equal(np.concatenate(found), whole) and found[0].dtype == source.dtype
        assert np.diff(bounds).max() * ours.features * ours.dtype.itemsize <= most


def test_products_have_the_same_bits_at_each_place_of_a_tile():
    for d, m in ((6, 40), (784, 500), (33, 77)):
        A, B = RANDOM.standard_normal((MAPPED_ROWS, d)), RANDOM.standard_normal((d, m))
        order = RANDOM.permutation(MAPPED_ROWS)
        assert np.array_equal(product(A, B)[order], product(A[order], B))
        np.testing.assert_allclose(product(A, B), A @ B, atol=1e-10)


def test_a_blas_that_is_not_steady_is_not_taken(monkeypatch):
    monkeypatch.setattr("streammargin.maps.base.is_steady", lambda d, m: False)
    A, B = RANDOM.standard_normal((MAPPED_ROWS, 9)), RANDOM.standard_normal((9, 5))
    found = product(A, B)
    assert np.array_equal(found, np.einsum("ij,jk->ik", A, B))
    assert is_steady(9, 5) in (True, False)


@pytest.mark.parametrize("solver", ["ascent", "newton", "pdprox", "asdca"])
def test_in_front_of_any_solver(solver):
    found = [
        sm.train((X, Y), map="rff:30,gamma=0.3", solver=solver, C=3.0, tol=1e-5, passes=20000, penalty=penalty, bias=1)
        for penalty in (("l2", "l1") if solver in ("newton", "pdprox") else ("l2",))
    ]
    assert all(one.converged for one in found)
    assert found[0].certificate.primal == pytest.approx(
        sm.train((X, Y), map="rff:30,gamma=0.3", C=3.0, tol=1e-5, bias=1).certificate.primal, rel=2e-5
    )


def test_of_numbers_classes_weights_held_out_rows_and_a_path(tmp_path):
    y = (X**2).sum(axis=1)
    numbers = sm.train((X, y), map="nystroem:100,kernel=rbf:0.2", loss="squared_error", C=100.0)
    assert numbers.converged and numbers.model.evaluate((X, y))["r2"] > 0.95
    linear = sm.train((X, y), loss="squared_error", C=100.0)
    assert linear.model.evaluate((X, y))["r2"] < 0.3
    classes = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    weights = np.where(np.arange(500) % 5 == 0, 0.0, 1.0)
    path = sm.train((X, classes), map="nystroem:100,kernel=rbf:0.2", C=[1.0, 30.0], valid=(X[::5], classes[::5]),
                    sample_weight=weights, scale="std")  # fmt: skip
    assert path.certificate.valid_error < 0.3
    landmarks = path.model.answer.fitted.learned["landmarks"]
    scaled = (X - path.model.answer.before.center) * path.model.answer.before.factor
    present = {row.tobytes() for row in scaled[weights > 0.0]}
    assert all(row.tobytes() in present for row in landmarks)  # an absent row is never drawn
    early = sm.train((X, Y), map="rff:60", early_stop=2, valid=(X[:90], Y[:90]), tol=1e-9, solver="pdprox")
    assert early.reason == "early_stop"
    values = sm.train((X, Y), map="rff:60", C="path:3,high=10", valid=(X[:90], Y[:90]), penalty="l1")
    assert values.converged


@pytest.mark.parametrize("options", [{"map": WORDS[0], "scale": "std"}, {"map": "rff:40"}, {"map": WORDS[1]}], ids=str)
def test_a_training_stopped_anywhere_goes_on_to_the_same_bits(options, tmp_path):
    source = CountingSource(X, Y, [0, 200, 350, 500])
    options |= {"solver": "newton", "tol": 1e-6, "memory": "40M"}
    whole = sm.train(source, checkpoint=str(tmp_path / "whole"), **options)
    phases, number = set(), 0
    while True:
        folder = str(tmp_path / str(number))
        first = sm.train(source, checkpoint=folder, should_stop=stop_after(number), **options)
        if first.reason != "signal":
            break
        heard = []
        second = sm.train(source, checkpoint=folder, listeners=[heard.append], **options)
        phases |= {event.get("phase") for event in heard}
        assert second.converged
        for name, array in whole.model.answer.arrays().items():
            assert np.array_equal(second.model.answer.arrays()[name], array), (number, name)
        number += 1
    assert number > 6 and {"mapping", "pass"} <= phases


def test_what_ends_before_the_map_is_learned_has_no_weights():
    result = sm.train((X, Y), map="nystroem:40", max_seconds=1e-9)
    assert (result.reason, result.passes, result.converged) == ("seconds", 0, False)
    assert not result.model.coef_.any() and result.model.coef_.shape == (1, 6)


def test_the_rows_are_read_once_for_the_map_and_never_written(tmp_path):
    source = CountingSource(X, Y, [0, 200, 350, 500])
    result = sm.train(source, map="nystroem:40", solver="newton", memory="40M")
    reads = set(source.reads.values())
    assert max(reads) <= result.passes + 3 and len(source.reads) == 3


BAD = [
    ({"map": "nystroem"}, "nystroem needs columns; nystroem has columns .must be given., kernel"),
    ({"map": "nystroem:600"}, 'with 600 of them, and X has 500 to train on; use map="nystroem:500,kernel=rbf:scale'),
    ({"map": "rff:1"}, "must be a whole number and at least 2"),
    ({"map": "rff:20,gamma=0"}, "gamma of rff must be a positive number"),
    ({"map": "nystroem:20,kernel=precomputed"}, "a map takes rows"),
    ({"map": "nystrom:20"}, 'did you mean map="nystroem"'),
    ({"map": "rff:20", "kernel": "rbf"}, "give one of them"),
    ({"map": "rff:20", "kernel": "rbf", "solver": "newton"}, "give one of them"),
    ({"map": "nystroem:20,kernel=poly:40,gamma=1e9"}, "has a value that is not finite"),
    ({"map": "nystroem:9999999,kernel=poly:2"}, 'X has 500 to train on; use map="nystroem:500,kernel=poly:2,gamma'),
    ({"map": 3}, "map must be a name"),
    ({"map": "rff:2000", "memory": "20M"}, "a memory budget of 20M is too small"),
]


@pytest.mark.parametrize("word, square", [
    ("rff:500", 1.0), ("nystroem:500", 1.0), ("nystroem:500,kernel=rbf:0.1,weight=2+rbf", 3.0),
    ("nystroem:500,kernel=rbf+linear", np.inf),
])  # fmt: skip
def test_a_map_that_knows_how_long_its_rows_are_says_so(word, square):
    found = sm.maps.make_map(word)
    assert found.largest_square == square
    z = mapped(sm.train((X, Y), map=word.replace("500", "40"), tol=0.5).model, X)
    assert (z**2).sum(axis=1).max() <= square * (1.0 + 1e-9)


def test_out_of_core_the_rows_that_move_stay_in_memory():
    rows = np.tile(X, (40, 1)).astype(np.float32)
    result = sm.train((rows, np.tile(Y, 40)), map="rff:500", C=10.0, memory="28M", tol=0.3)
    told = result.history[0]["solver"]
    assert told.startswith("ascent") and told.endswith("rows whose duals move fit into memory, and those near the "
                                                       "margin do not")  # fmt: skip
    assert result.converged and result.passes <= 3


def test_out_of_core_a_read_is_worth_many_visits_of_its_rows(tmp_path, monkeypatch):
    near = np.tile(X, (40, 1)) + 0.3 * np.random.default_rng(3).standard_normal((20_000, 6))
    rows = near.astype(np.float32), np.tile(Y, 40)
    options = {"map": "rff:100,gamma=0.2", "solver": "ascent", "C": 100.0, "memory": "17M", "tol": 1e-2, "passes": 8}
    result = sm.train(rows, **options)
    assert result.converged and result.history[0]["plan"]["blocks"] > 1

    folder = str(tmp_path / "checkpoint")
    assert sm.train(rows, should_stop=stop_after(24), checkpoint=folder, **options).reason == "signal"
    again = sm.train(rows, checkpoint=folder, **options)
    assert again.passes == result.passes and np.array_equal(again.model.answer.arrays()["coef"],
                                                           result.model.answer.arrays()["coef"])  # fmt: skip
    monkeypatch.setattr("streammargin.solvers.coordinate.plain.Plain.behind_map", 1)
    assert not sm.train(rows, **options).converged


@pytest.mark.parametrize("options, told", BAD, ids=[str(number) for number in range(len(BAD))])
def test_what_cannot_be_is_said_in_a_sentence(options, told):
    with pytest.raises(sm.UsageError, match=told):
        sm.train((X, Y), **options)


def test_bad_rows_are_named_as_they_are_stored():
    wrong = X.copy()
    wrong[77, 3] = np.nan
    for scale in ("none", "std"):
        with pytest.raises(sm.DataError, match="row 77, column 3 is NaN"):
            sm.train((wrong, Y), map="rff:20,gamma=0.1", scale=scale)
    model = sm.train((X, Y), map="rff:20").model
    with pytest.raises(sm.DataError, match="row 77, column 3 is NaN"):
        model.predict(wrong)
    with pytest.raises(sm.DataError, match="5 features but the model was trained on 6"):
        model.predict(X[:, :5])
    with pytest.raises(sm.UsageError, match="begins from weights of columns"):
        sm.train((X, Y), map="rff:20", init=sm.train((X, Y)).model)
    with pytest.raises(sm.UsageError, match="map cannot be used with a stream"):
        sm.train(iter([(X, Y)]), map="rff:20,gamma=1", solver="perceptron")


@pytest.mark.filterwarnings("error")
def test_a_row_whose_mapped_values_overflow_is_named():
    far = X.astype(np.float32)
    far[77, 3] = 1e10
    with pytest.raises(sm.DataError, match="X: row 77 has a value that is not finite behind the map nystroem:20,"):
        sm.train((far, Y), map="nystroem:20,kernel=poly:7,gamma=1")
    model = sm.train((X.astype(np.float32), Y), map="nystroem:20,kernel=poly:7,gamma=1", tol=0.9).model
    with pytest.raises(sm.DataError, match="the score of row 77 overflows"):
        model.predict(far)
    assert sm.train((X, Y), map="rff:20,gamma=1e308", tol=0.5).converged


def test_columns_are_matched_by_name(tmp_path):
    import pandas as pd

    names = list("abcdef")
    model = sm.train((pd.DataFrame(X, columns=names), Y), map="nystroem:40", scale="std").model
    scores = model.decision_function(X)
    other = pd.DataFrame(X, columns=names)[list("fbdace")]
    assert np.array_equal(model.decision_function(other), scores)


def test_a_damaged_model_is_named(tmp_path):
    path = str(tmp_path / "m.npz")
    sm.train((X, Y), map="nystroem:40").model.save(path)
    arrays = dict(np.load(path))
    for name, changed in (
        ("map.landmarks", arrays["map.landmarks"][:, :4]),
        ("dtype", np.array("int8")),
        ("coef", arrays["coef"][:, :9]),
        ("map.projection", arrays["map.projection"] * np.inf),
    ):
        np.savez(path, **{**arrays, name: changed})
        with pytest.raises(sm.DataError, match="is a damaged model"):
            sm.load_model(path)
    np.savez(path, **{**arrays, "map": np.array("cake:3")})
    with pytest.raises(sm.UsageError, match="unknown map 'cake'"):
        sm.load_model(path)


def test_the_shell_trains_predicts_and_verifies(tmp_path):
    data, model = write_h5(tmp_path / "a.h5", X, Y), str(tmp_path / "m.npz")

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "streammargin", *words], capture_output=True, text=True, check=True
        )

    run("train", data, "--map", "nystroem:40,kernel=rbf:0.2", "-C", "10", "-o", model)
    assert run("predict", model, data).stdout.split() == [str(label) for label in sm.load_model(model).predict(X)]
    assert "primal" in run("verify", model, data).stdout
    assert "nystroem:40,kernel=rbf:0.2,weight=1" in run("info", model).stdout
    assert os.path.getsize(model) < 100_000


def test_estimators_take_a_map():
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV

    estimator = sm.MarginClassifier(map="rff:60", C=10)
    assert estimator.get_params()["map__columns"] == 60
    found = GridSearchCV(estimator, {"map__gamma": [1e-4, 0.3]}, cv=3).fit(X, Y)
    assert found.best_params_ == {"map__gamma": 0.3} and found.best_score_ > 0.85
    fitted = found.best_estimator_
    assert fitted.coef_.shape == (1, 60) and fitted.n_features_in_ == 6
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.decision_function(X), fitted.decision_function(X))
    assert clone(fitted).fit(X, Y).score(X, Y) == fitted.score(X, Y)
    numbers = (X**2).sum(axis=1)
    assert sm.MarginRegressor(map="nystroem:80,kernel=rbf:0.1", C=100).fit(X, numbers).score(X, numbers) > 0.9
    with pytest.raises(sm.UsageError, match="give one of them"):
        sm.KernelMarginClassifier(map="rff:20").fit(X, Y)


def test_a_map_of_a_users_own_is_one_class(tmp_path):
    result = sm.train((X, Y), map=Squares(), C=10)
    assert result.model.header["map"] == "squares" and result.model.evaluate((X, Y))["accuracy"] > 0.95
    path = str(tmp_path / "m.npz")
    result.model.save(path)
    assert np.array_equal(sm.load_model(path).decision_function(X), result.model.decision_function(X))
    data = write_h5(tmp_path / "a.h5", X, Y)
    assert not [check for check in verify(path, data) if check.agrees is False]


def test_rows_of_one_tile_are_filled_up():
    fitted = Fitted(Squares(), np.float64, {"ones": np.ones(6)})
    for count in (1, MAPPED_ROWS - 1, MAPPED_ROWS, MAPPED_ROWS + 1):
        np.testing.assert_array_equal(fitted.rows(X[:count]), np.hstack([X[:count], X[:count] ** 2]))
        np.testing.assert_array_equal(fitted.rows(sp.csr_array(X[:count])), np.hstack([X[:count], X[:count] ** 2]))
