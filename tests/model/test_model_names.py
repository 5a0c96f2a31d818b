"""A model knows its columns by name: other orders are put right, and what is missing or unknown is named."""

import logging

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import traced, write_h5

import streammargin as sm
from streammargin.model.columns import match
from streammargin.model.exports.files import export
from streammargin.model.file import write_model
from streammargin.model.linear import LinearModel
from streammargin.sources.hdf5.columns import write_names
from streammargin.sources.open import open_source
from streammargin.verification.verify import verify

NAMES = ["MT-CO1", "GAPDH", "B2M", "ACTB", "a\nb", "é"]
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((60, 6)) * (RANDOM.random((60, 6)) < 0.7)
ORDER = [3, 0, 5, 1, 4, 2]
CLASSES = np.array(["a", "b", "c"])
Y = RANDOM.choice(CLASSES, 60)


def named(path, X, names, y=None):
    write_h5(path, X, None if y is None else y.astype("S"))
    if names is not None:
        with h5py.File(path, "a") as file:
            write_names(file, np.array(names, object))
    return str(path)


def pick(names, order):
    return [names[k] for k in order]


@pytest.fixture
def model():
    """Of three classes, with names."""
    random = np.random.default_rng(1)
    weights, constant = random.standard_normal((3, 6)), random.standard_normal(3)
    return LinearModel(weights, constant, CLASSES, {"C": 2.0}, np.array(NAMES, object))


def expected(model, X):
    return X @ model.coef_.T + model.intercept_


def texts(caplog):
    return [record.getMessage() for record in caplog.records]


def test_names_come_back_from_the_file(model, tmp_path):
    model.save(tmp_path / "m.npz")
    again = sm.load_model(tmp_path / "m.npz")
    assert again.feature_names_in_.tolist() == NAMES and again.feature_names_in_.dtype == object
    with np.load(tmp_path / "m.npz", allow_pickle=False) as arrays:
        assert bytes(arrays["feature_names"]).decode().split("\0") == NAMES  # as docs/model_file.md says


def test_a_model_without_names_has_none(model, tmp_path):
    model.feature_names_in_ = None
    model.save(tmp_path / "m.npz")
    assert sm.load_model(tmp_path / "m.npz").feature_names_in_ is None
    with np.load(tmp_path / "m.npz") as arrays:
        assert "feature_names" not in arrays


@pytest.mark.parametrize(
    "array, words",
    [
        (np.array(NAMES), "its array feature_names is of the type <U6, and not bytes"),
        (np.frombuffer(b"a\0b", np.uint8), "feature_names has 2 names, and not 6"),
        (np.frombuffer(b"\xff\0b\0c\0d\0e\0f", np.uint8), "can't decode"),
        (np.zeros(1 << 20, np.uint8), "feature_names has 1048577 names, and not 6"),
        (np.zeros((2, 2), np.uint8), "shape"),
    ],
)
def test_damaged_names_are_a_damaged_model(model, tmp_path, array, words):
    arrays = {**model.answer.arrays(), "classes": model.classes_, "feature_names": array}
    write_model(str(tmp_path / "m.npz"), "linear", arrays, {})
    with pytest.raises(sm.DataError, match=f"is a damaged model: .*{words}"):
        sm.load_model(tmp_path / "m.npz")


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_another_order_permutes_the_weights_and_says_so_once(model, tmp_path, caplog, kind):
    rows = X[:, ORDER] if kind == "dense" else sp.csr_matrix(X[:, ORDER])
    path = named(tmp_path / "x.h5", rows, pick(NAMES, ORDER), Y)
    np.testing.assert_allclose(model.decision_function(path), expected(model, X), rtol=0, atol=1e-12)
    assert model.predict(path).tolist() == CLASSES[expected(model, X).argmax(axis=1)].tolist()
    figures, straight = model.evaluate(path), model.evaluate((X, Y))
    assert figures["mistakes"] == straight["mistakes"] and figures["loss"] == pytest.approx(straight["loss"])
    assert texts(caplog)[0] == f"the columns of {path} are in another order than the model's: matched by name"
    assert len(caplog.records) == 2 and "has no column names" in texts(caplog)[1]  # of (X, Y)


def test_the_same_order_is_nothing_to_say(model, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    path = named(tmp_path / "x.h5", X, NAMES)
    np.testing.assert_array_equal(model.decision_function(path), expected_in_order(model, path))
    assert not caplog.records


def expected_in_order(model, path):
    return LinearModel(model.coef_, model.intercept_, model.classes_, {}).decision_function(path)


def test_rows_without_names_go_by_position_which_is_said_once(model, tmp_path, caplog):
    path = named(tmp_path / "x.h5", X, None)
    for _ in range(2):
        np.testing.assert_allclose(model.decision_function(path), expected(model, X), rtol=0, atol=1e-12)
    assert texts(caplog) == [f"{path} has no column names, though the model has: columns are matched by position"]
    with pytest.raises(sm.DataError, match="5 features but the model was trained on 6"):
        model.predict(X[:, :5])


def test_names_that_the_model_lacks_say_nothing(model, tmp_path, caplog):
    model.feature_names_in_ = None
    path = named(tmp_path / "x.h5", X[:, ORDER], pick(NAMES, ORDER))
    np.testing.assert_allclose(model.decision_function(path), expected(model, X[:, ORDER]), rtol=0, atol=1e-12)
    assert not caplog.records


def test_missing_and_unknown_columns_are_listed(model, tmp_path):
    path = named(tmp_path / "less.h5", X[:, [5, 0, 3]], pick(NAMES, [5, 0, 3]))
    words = r"less\.h5 lacks 3 columns of the model \(GAPDH, B2M, a\\nb\); add the missing ones, or let"
    with pytest.raises(sm.DataError, match=words) as error:
        model.predict(path)
    assert "--missing-columns zero" in error.value.in_shell and 'missing_columns="zero"' in str(error.value)
    many = named(tmp_path / "more.h5", np.ones((2, 13)), [*NAMES[1:], *"stuvwxyz"])
    known = r"more\.h5 lacks 1 column of the model \(MT-CO1\) and has 8 columns that the model does not know"
    with pytest.raises(sm.DataError, match=known + r" \(s, t, u, v, w and 3 more\)"):
        model.evaluate(many)
    with pytest.raises(sm.DataError, match=r"has 8 columns that the model does not know .*drop the unknown"):
        model.evaluate(many, missing_columns="zero")  # what the model does not know is never dropped


def test_missing_columns_can_be_taken_as_zero(model, tmp_path, caplog):
    kept = [5, 0, 3]
    path = named(tmp_path / "less.h5", sp.csr_matrix(X[:, kept]), pick(NAMES, kept), Y)
    filled = np.zeros_like(X)
    filled[:, kept] = X[:, kept]
    scores = model.decision_function(path, missing_columns="zero")
    np.testing.assert_allclose(scores, expected(model, filled), rtol=0, atol=1e-12)
    assert model.predict(path, missing_columns="zero").tolist() == CLASSES[scores.argmax(axis=1)].tolist()
    wrong = int((CLASSES[scores.argmax(axis=1)] != Y).sum())
    assert model.evaluate(path, missing_columns="zero")["mistakes"] == wrong
    (said,) = texts(caplog)
    assert said.startswith(f"{path} lacks 3 columns of the model's 6 (GAPDH, B2M, a\\nb): they count as 0")
    for word in ("Zero", None, 0):
        with pytest.raises(sm.UsageError, match="missing_columns must be error or zero"):
            model.predict(path, missing_columns=word)


def test_a_name_of_two_columns_goes_by_position_only(model, tmp_path):
    twice = ["A", "B", "A", "C", "D", "E"]
    model.feature_names_in_ = np.array(twice, object)
    same = named(tmp_path / "same.h5", X, twice)
    np.testing.assert_allclose(model.decision_function(same), expected(model, X), rtol=0, atol=1e-12)
    other = named(tmp_path / "other.h5", X, twice[::-1])
    for mode in ("error", "zero"):
        with pytest.raises(sm.DataError, match=r"other\.h5 has 2 columns named A, so those of"):
            model.predict(other, missing_columns=mode)
    with pytest.raises(sm.DataError, match="the model has 2 columns named A"):
        model.predict(named(tmp_path / "unique.h5", X, NAMES))


def test_looking_names_up_takes_no_more_than_is_counted(model):
    count = 30_000
    known = np.array([f"gene {k}" for k in range(count)], object)
    source = open_source(np.zeros((1, count)))
    for given in (known[::-1], known[::-1][1:]):
        with traced() as allocated:
            match(known, given, source, 1 << 30, "zero")
        with pytest.raises(sm.UsageError, match="matching its column names"):
            # the order itself is no larger than the weights
            match(known, given, source, allocated.peak - 16 * count, "zero")


def test_trained_on_a_file_and_asked_with_frames(tmp_path):
    pd = pytest.importorskip("pandas")
    model = sm.train(named(tmp_path / "x.h5", X, NAMES, Y)).model
    assert model.feature_names_in_.tolist() == NAMES
    frame = pd.DataFrame(X, columns=NAMES)
    assert model.predict(frame[pick(NAMES, ORDER)]).tolist() == model.predict(frame).tolist()
    again = sm.train((frame, Y)).model
    assert again.feature_names_in_.tolist() == NAMES and np.array_equal(again.coef_, model.coef_)
    assert sm.train((X, Y)).model.feature_names_in_ is None


@pytest.mark.parametrize("scale", ["none", "std"])
@pytest.mark.parametrize("shards", [1, 2])
def test_names_go_with_every_way_to_train(tmp_path, scale, shards):
    paths = [named(tmp_path / f"{k}.h5", X, NAMES, Y) for k in range(shards)]
    assert sm.train(paths, scale=scale, passes=3, tol=0.5).model.feature_names_in_.tolist() == NAMES


def test_evaluation_knows_the_name_of_the_labels(tmp_path):
    path = named(tmp_path / "a.h5", X, NAMES, Y)
    with h5py.File(path, "a") as file:
        file["sign"] = file["y"][:] == file["y"][0]
        del file["y"]
    model = sm.train(path, y="sign", tol=0.5).model
    assert model.evaluate(path) == model.evaluate(path, y="sign") == model.evaluate([path])
    np.save(tmp_path / "y.npy", Y)
    other = sm.train(path, y=str(tmp_path / "y.npy"), tol=0.5).model
    with pytest.raises(sm.DataError, match="has no labels under the name y"):  # those in y.npy are of other rows
        other.evaluate(path)


WAYS = {
    "path": {"C": "path:3,low=0.01,high=10"}, "early stop": {"early_stop": 2}, "scaled": {"scale": "std"},
    "kernel": {"kernel": "rbf"}, "map": {"map": "rff:16"}, "rows": {"solver": "ascent"},
    "tasks": {"tasks": "half", "solver": "newton"}, "kept": {"checkpoint": "kept"},
}  # fmt: skip


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("way", WAYS)
def test_held_out_rows_are_matched_by_name(tmp_path, monkeypatch, caplog, way, kind):
    monkeypatch.chdir(tmp_path)
    rows, y, half = X, (X[:, 0] > 0.0).astype(int), np.arange(60) // 30
    if way == "scaled":
        rows = rows * np.array([1.0, 9.0, 100.0, 1e-3, 5.0, 1.0])
    how = {"C": 1.0, "tol": 0.1, **WAYS[way]}
    if kind == "sparse":
        rows, how = sp.csr_matrix(rows), {**how, "scale": "maxabs"} if "scale" in how else how
    for name, order in (("train", range(6)), ("same", range(6)), ("valid", ORDER)):
        part = slice(0, 60, 3 if name != "train" else 1)
        write_h5(f"{name}.h5", rows[part][:, list(order)], y[part], half=half[part])
        with h5py.File(f"{name}.h5", "a") as file:
            write_names(file, np.array(pick(NAMES, order), object))
    first = sm.train("train.h5", valid="same.h5", **how)
    if "checkpoint" in how:
        how["checkpoint"] = "other"
    assert not [text for text in texts(caplog) if "matched" in text]
    second = sm.train("train.h5", valid="valid.h5", **how)
    said = "the columns of valid.h5 are in another order than the model's: matched by name"
    assert texts(caplog).count(said) == 1
    errors = [[event.get("valid_error") for event in found.history] for found in (first, second)]
    assert errors[0] == errors[1] and first.certificate.valid_error is not None
    assert first.model.header["C"] == second.model.header["C"]
    second.model.save("m.npz")
    for held in ("same.h5", "valid.h5"):
        assert all(check.agrees is not False for check in verify("m.npz", "train.h5", held))


def test_held_out_objects_are_matched_by_name(tmp_path):
    pd = pytest.importorskip("pandas")
    y = (X[:, 0] > 0.0).astype(int)
    frame = pd.DataFrame(X, columns=NAMES)
    other = named(tmp_path / "other.h5", frame[pick(NAMES, ORDER)].to_numpy(), pick(NAMES, ORDER))
    for path in (train := named(tmp_path / "train.h5", X, NAMES), other):
        with h5py.File(path, "a") as file:
            file["sign"] = y
    want = sm.train(train, y="sign", valid=(frame, y), tol=0.1).certificate.valid_error
    assert want < 0.2
    with open_source(other, y="sign") as source:
        for valid in ((frame[pick(NAMES, ORDER)], y), source, other, [other, other]):  # the label is known by name
            assert sm.train(train, y="sign", valid=valid, tol=0.1).certificate.valid_error == want
    before = frame.copy()
    sm.train((frame[pick(NAMES, ORDER)], y), valid=(frame, y), checkpoint=tmp_path / "kept", passes=2, tol=1e-9)
    again = sm.train((frame[pick(NAMES, ORDER)], y), valid=(frame, y), checkpoint=tmp_path / "kept", tol=0.1)
    assert again.certificate.valid_error == want and frame.equals(before)


def test_single_cells_in_memory_know_their_columns():
    anndata = pytest.importorskip("anndata")
    pd = pytest.importorskip("pandas")
    kinds = pd.DataFrame({"kind": np.where(X[:, 0] > 0.0, "a", "b")}, index=[f"cell {k}" for k in range(60)])
    cells = anndata.AnnData(X, obs=kinds, var=pd.DataFrame(index=NAMES))
    found = sm.train(cells, y="kind", valid=cells[:, ORDER].copy(), tol=0.1)
    assert found.model.feature_names_in_.tolist() == NAMES and found.certificate.valid_error < 0.2
    assert found.model.predict(cells[:, ORDER].copy()).tolist() == found.model.predict(cells).tolist()


def test_held_out_rows_have_the_columns_of_the_training(tmp_path, caplog):
    train = named(tmp_path / "train.h5", X, NAMES, Y)
    for order, names, words in (
        ([0, 1, 2, 3, 4], NAMES[:5], r"valid\.h5 lacks 1 column of the model \(é\); add the missing ones$"),
        ([*range(6), 0], [*NAMES, "z"], r"has 1 column that the model does not know \(z\); drop the unknown ones$"),
        (range(6), [*NAMES[:5], "z"], r"lacks 1 column of the model \(é\) and has 1 column that the model does not"),
        (range(6), [*NAMES[:5], "B2M"], r"valid\.h5 has 2 columns named B2M, so those of .* cannot be matched"),
    ):
        valid = named(tmp_path / "valid.h5", X[:, list(order)], names, Y)
        with pytest.raises(sm.DataError, match=words):
            sm.train(train, valid=valid, passes=2)
    sm.train(train, valid=named(tmp_path / "plain.h5", X, None, Y), passes=2, tol=0.5)
    assert len([text for text in texts(caplog) if "plain.h5 has no column names" in text]) == 1
    with pytest.raises(sm.DataError, match=r"few\.h5 has 5 columns but .*train\.h5 has 6; convert both"):
        sm.train(train, valid=named(tmp_path / "few.h5", X[:, :5], None, Y), passes=2)


def test_liblinears_file_is_the_same_with_names(model, tmp_path):
    model = LinearModel(model.coef_, model.intercept_, np.arange(3), {"loss": "hinge"}, model.feature_names_in_)
    export(model, "liblinear", str(tmp_path / "with.txt"))
    model.feature_names_in_ = None
    export(model, "liblinear", str(tmp_path / "without.txt"))
    assert (tmp_path / "with.txt").read_bytes() == (tmp_path / "without.txt").read_bytes()


def test_the_largest_weights_by_name(model):
    model.moments = (np.zeros(6), np.array([1.0, 1e-3, 2.0, 0.0, 1.0, 5.0]))
    found = model.top_features(2)
    assert [part["label"] for part in found] == list("abc")
    for part, weights in zip(found, model.coef_, strict=True):
        scaled = weights * model.moments[1]
        columns = sorted(range(6), key=lambda k: -abs(scaled[k]))[:2]
        assert part["features"] == [
            {"column": k, "name": NAMES[k], "weight": weights[k], "scaled_weight": scaled[k]} for k in columns
        ]
    effects = np.linalg.norm(model.coef_ * model.moments[1], axis=0)
    overall = model.top_columns(3)
    assert [part["name"] for part in overall] == [NAMES[k] for k in np.argsort(-effects)[:3]]
    assert [part["effect"] for part in overall] == pytest.approx(np.sort(effects)[::-1][:3])
    assert len(model.top_features()[0]["features"]) == 6 and len(overall) == 3
    model.feature_names_in_ = None
    assert model.top_features(1)[0]["features"][0]["name"] is None
    for n in (0, -1, 1.5, "2"):
        with pytest.raises(sm.UsageError, match="at least 1"):
            model.top_features(n)


def test_the_largest_weights_of_two_classes_and_of_numbers():
    weights, constant = np.array([[0.0, -3.0, 2.0]]), np.zeros(1)
    (found,) = LinearModel(weights, constant, np.array(["no", "yes"]), {}).top_features(3)
    assert found["label"] == "yes" and [part["weight"] for part in found["features"]] == [-3.0, 2.0]  # none of 0
    (found,) = LinearModel(weights, constant, np.empty(0), {}).top_features(1)
    assert found["label"] is None and found["features"][0]["column"] == 1
    assert found["features"][0]["scaled_weight"] is None  # no rows were read


def test_names_may_be_given_for_a_model_of_a_matrix():
    model = LinearModel(np.array([[0.0, -3.0, 2.0]]), np.zeros(1), np.array(["no", "yes"]), {})
    names = np.array(["a", "b", "c"], object)  # as a vectorizer returns them
    assert [one["name"] for one in model.top_features(3, names)[0]["features"]] == ["b", "c"]
    assert [one["name"] for one in model.top_columns(1, feature_names=names.tolist())] == ["b"]
    with pytest.raises(sm.UsageError, match="the model has 3 columns; feature_names has 2 names"):
        model.top_features(3, names[:2])


def test_weights_are_those_of_the_data_as_stored_and_rank_by_what_they_do():
    """A column in smaller units has a larger weight, as scaling is folded in; its effect is the same."""
    y = np.where(X[:, 0] + 2.0 * X[:, 1] > 0.0, 1, 0)
    units = np.array([1e-3, 1, 1, 1, 1, 1])
    (part,) = sm.train((X * units, y), scale="std").model.top_features(2)
    first, second = part["features"]
    assert (first["column"], second["column"]) == (1, 0)
    assert second["weight"] > 100.0 * first["weight"] > 0.0 and second["scaled_weight"] < first["scaled_weight"]


def test_files_without_any_known_name_are_told_one_of_each(model, tmp_path):
    other = named(tmp_path / "other.h5", X, [f"ENSG{k}" for k in range(6)])
    words = r"other\.h5 has none of the model's 6 columns: its first is ENSG0, and that of the model is MT-CO1; "
    for missing in ("error", "zero"):
        with pytest.raises(sm.DataError, match=words + "use the same names$"):
            model.predict(other, missing_columns=missing)
