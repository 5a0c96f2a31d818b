"""Labels that look alike stay apart, in all that looks labels up; those of another kind match one to one."""

import h5py
import numpy as np
import pytest
from conftest import write_h5

import streammargin as sm
from streammargin.verification.verify import verify

PAIRS = [("007", "7"), ("1.0", "1"), ("1E2", "100"), ("+5", "5"), (" 5", "5"), ("-0", "0"), ("inf", "Infinity")]
SIDE = np.arange(30) % 2
X = np.column_stack([2.0 * SIDE - 1.0, np.random.default_rng(0).standard_normal(30)])
SHORT = {"passes": 20, "memory": "1G"}


def texts(pair, side=SIDE):
    return np.array(pair)[side]


def agreed(model, path, tmp_path, **options):
    model.save(tmp_path / "m.npz", force=True)
    return all(check.agrees is not False for check in verify(tmp_path / "m.npz", path, **options))


@pytest.mark.parametrize("pair", PAIRS)
def test_text_that_spells_one_number(tmp_path, pair):
    y = texts(pair)
    path = write_h5(tmp_path / "d.h5", X, y.astype(h5py.string_dtype()))
    for data, valid in (((X, y), (X, y)), (path, path), (path, (X, y.astype(object)))):
        result = sm.train(data, valid=valid, **SHORT)
        assert sorted(result.model.classes_.tolist()) == sorted(pair)
        assert (result.model.predict(X) == y).all() and result.certificate.valid_error == 0.0
        assert result.model.evaluate((X, y))["accuracy"] == result.model.evaluate(path)["accuracy"] == 1.0
        assert agreed(result.model, path, tmp_path, valid=path)
    loaded = sm.load_model(tmp_path / "m.npz")
    assert loaded.evaluate(path)["accuracy"] == 1.0


@pytest.mark.parametrize("pair", PAIRS)
def test_options_name_the_text_itself(tmp_path, pair):
    y = texts([*pair, "x"], np.arange(30) % 3)
    rows = X + np.eye(3)[np.arange(30) % 3][:, :2]
    kept = sm.train((rows, y), classes=list(pair), **SHORT)
    assert sorted(kept.model.classes_.tolist()) == sorted(pair)
    path = write_h5(tmp_path / "d.h5", rows, y.astype(h5py.string_dtype()))
    for label in pair:
        alone = sm.train((rows, y), positive=label, **SHORT)
        assert alone.model.classes_.tolist() == [f"not {label}", label]
        alone.model.save(tmp_path / "alone.npz", force=True)
        figures = sm.load_model(tmp_path / "alone.npz").evaluate((rows, y))
        assert figures["per_class"][1]["rows"] == 10 and agreed(alone.model, path, tmp_path)
        held_out = sm.train((rows, y), positive=label, valid=(rows, y), **SHORT).certificate
        assert held_out.valid_error == held_out.train_error
        weighed = sm.train((rows, y), class_weight={label: 5.0}, **SHORT).model
        place = weighed.classes_.tolist().index(label)
        assert weighed.problem["caps"].tolist() == [5.0 if k == place else 1.0 for k in range(3)]


def test_labels_of_another_kind_match_one_to_one():
    numbers, spellings = np.array([7, 8])[SIDE], texts(("07", "8"))
    for y, other in ((numbers, spellings), (spellings, numbers)):
        result = sm.train((X, y), valid=(X, other), classes=np.unique(other), class_weight={other[0]: 2.0}, **SHORT)
        assert result.certificate.valid_error == 0.0 and result.model.problem["caps"].tolist() == [2.0, 1.0]
        assert result.model.evaluate((X, other))["accuracy"] == 1.0
        begun = sm.train((X, other), init=result.model, passes=1, penalty="l1", solver="pdprox")
        assert (begun.model.predict(X) == other).all()


def test_what_is_not_one_to_one_is_refused_and_named(tmp_path):
    numbers, alike = np.array([7, 8])[SIDE], texts(("007", "7"))
    both = texts(("07", "8", "7"), np.arange(30) % 3)
    said = r"'007' or '7'|'7' and '07'|'07' and '7'"
    with pytest.raises(sm.DataError, match=said):
        sm.train((X, alike), valid=(X, numbers), **SHORT)
    with pytest.raises(sm.DataError, match=said):
        sm.train((X, numbers), valid=(X, both), **SHORT)
    for options in ({"class_weight": {7: 2.0}}, {"positive": 7}, {"classes": [7, 8]}):
        with pytest.raises(sm.UsageError, match=said):
            sm.train((X, alike), **options, **SHORT)
    with pytest.raises(sm.UsageError, match=said):
        sm.train((X, numbers), class_weight={"7": 2.0, "07": 3.0}, **SHORT)
    with pytest.raises(sm.UsageError, match="7 and '7' both name the class 7"):
        sm.train((X, numbers), class_weight={7: 2.0, "7": 3.0}, **SHORT)
    for y, other in ((alike, numbers), (numbers, both)):
        model = sm.train((X, y), **SHORT).model
        with pytest.raises(sm.DataError, match=said):
            model.evaluate((X, other))
        model.save(tmp_path / "m.npz", force=True)
        path = write_h5(tmp_path / "d.h5", X, other.astype(h5py.string_dtype()) if other.dtype.kind == "U" else other)
        with pytest.raises(sm.DataError, match=said):
            verify(tmp_path / "m.npz", path)
        with pytest.raises(sm.DataError, match=said):
            sm.train((X, other), init=model, passes=1, penalty="l1", solver="pdprox")


def test_text_is_no_other_text():
    model = sm.train((X, texts(("7", "8"))), **SHORT).model
    with pytest.raises(sm.DataError, match="row 0 has the label 07, unknown to the model; its labels are 7, 8"):
        model.evaluate((X, texts(("07", "8"))))
    with pytest.raises(sm.UsageError, match="there is no label '07'"):
        sm.train((X, texts(("7", "8"))), positive="07", **SHORT)


def test_shards_of_numbers_and_of_text(tmp_path):
    numbers = write_h5(tmp_path / "a.h5", X, np.array([7, 8])[SIDE])
    spellings = write_h5(tmp_path / "b.h5", X, texts(("07", "x")).astype(h5py.string_dtype()))
    alike = write_h5(tmp_path / "c.h5", X, texts(("07", "7")).astype(h5py.string_dtype()))
    result = sm.train([numbers, spellings], **SHORT)
    assert result.model.classes_.tolist() == ["07", "8", "x"]
    assert result.model.evaluate([numbers, spellings])["rows"] == 60
    assert agreed(result.model, [numbers, spellings], tmp_path)
    with pytest.raises(sm.DataError, match="number 7 may be the class '07' or '7'"):
        sm.train([numbers, alike], **SHORT)


def test_streams_keep_labels_apart():
    batches = [(X, texts(("007", "7"))), (X, texts(("007", "7")))]
    result = sm.train(iter(batches), solver="perceptron", C=np.inf)
    assert (result.model.predict(X) == batches[0][1]).all()
    one = sm.train(iter(batches), solver="perceptron", C=np.inf, positive="7").model
    assert (one.predict(X) == np.where(batches[0][1] == "7", "7", "not 7")).all()
    with pytest.raises(sm.DataError, match="number 7 may be the class '007' or '7'"):
        sm.train(iter([*batches, (X, np.array([7, 8])[SIDE])]), solver="perceptron", C=np.inf)
    with pytest.raises(sm.UsageError, match=r"one kind.*number 7 may be"):
        sm.train(iter(batches), solver="perceptron", C=np.inf, classes=["007", "7", 7])


def test_estimators_weigh_the_label_itself():
    y = texts(("0117", "117"))
    model = sm.MarginClassifier(class_weight={"117": 5.0}, tol=1e-6).fit(X, y)
    rows = sm.MarginClassifier(tol=1e-6).fit(X, y, sample_weight=np.where(y == "117", 5.0, 1.0))
    np.testing.assert_allclose(model.coef_, rows.coef_, rtol=1e-2, atol=1e-4)


def test_numbers_are_read_from_text():
    y = X[:, 1] * 3.0
    wanted = sm.train((X, y), loss="squared_error", tol=1e-6)
    for given in (np.array([repr(v) for v in y.tolist()]), np.array([repr(v) for v in y.tolist()], object)):
        result = sm.train((X, given), loss="squared_error", tol=1e-6, valid=(X, given))
        assert np.array_equal(result.model.coef_, wanted.model.coef_)
        assert result.model.evaluate((X, given)) == result.model.evaluate((X, y))
    given[3] = "n/a"
    with pytest.raises(sm.DataError, match=r"needs numbers as labels.*the label of row 3 is 'n/a'"):
        sm.train((X, given), loss="squared_error")


@pytest.mark.parametrize("gap", [None, "NA"])
def test_numbers_of_text_are_verified(tmp_path, gap):
    """Rows of weight 0 may have any text."""
    y, weights = np.array([f"{v:+.3f}" for v in X[:, 1]], object), {}
    path = write_h5(tmp_path / "d.h5", X, y.astype(h5py.string_dtype()))
    if gap:
        weights = {"sample_weight": np.where(np.arange(len(X)) == 3, 0.0, 1.0)}
        path = write_h5(tmp_path / "w.h5", X, y.astype(h5py.string_dtype()), **weights)
    model = sm.train(path, loss="squared_error", **dict.fromkeys(weights, "sample_weight")).model
    if gap:
        with h5py.File(path, "a") as file:
            file["y"][3] = gap
    assert agreed(model, path, tmp_path)
    with h5py.File(path, "a") as file:
        file["y"][5] = "NA"
    with pytest.raises(sm.DataError, match="the label of row 5 is 'NA', and not a number"):
        agreed(model, path, tmp_path)


def test_two_numbers_that_may_be_classes_are_told_once(caplog):
    for y, times in ((SIDE, 1), (2 * SIDE - 1, 1), (SIDE + 0.5, 0), (np.arange(30) % 3, 0)):
        caplog.clear()
        sm.train((X, y), loss="squared_error", C=[0.1, 1.0], valid=(X, y))
        said = [str(record.msg) for record in caplog.records if "takes them for numbers" in str(record.msg)]
        assert len(said) == times
    assert sm.train((X, SIDE), loss="hinge").converged


def test_text_that_spells_amounts_is_told(caplog):
    amounts = np.random.default_rng(0).permutation(150) + 0.5
    rows = np.random.default_rng(0).standard_normal((150, 2))
    for y, times in ((amounts.astype(str), 1), (np.array([f"{v} EUR" for v in amounts]), 0)):
        caplog.clear()
        sm.train((rows, y), passes=1)
        assert sum("spells real numbers like amounts" in str(record.msg) for record in caplog.records) == times


def test_a_class_without_weight_is_not_balanced(tmp_path):
    y = np.arange(30) % 4
    rows = np.column_stack([X, np.eye(4)[y]])
    weights = np.where(y == 3, 0.0, 1.0)
    whole = sm.train((rows, y), loss="hinge", sample_weight=weights, class_weight="balanced", tol=1e-6).model
    there = y < 3
    part = sm.train((rows[there], y[there]), loss="hinge", class_weight="balanced", tol=1e-6).model
    assert whole.problem["caps"][:3] == pytest.approx(part.problem["caps"])
    np.testing.assert_allclose(whole.coef_[:3], part.coef_, rtol=1e-2, atol=1e-3)


def test_liblinear_takes_labels_that_are_different_integers(tmp_path):
    from streammargin.model.exports.files import export

    export(sm.train((X, texts(("+5", "8"))), **SHORT).model, "liblinear", str(tmp_path / "a"))
    assert "label 8 5\n" in (tmp_path / "a").read_text() or "label 5 8\n" in (tmp_path / "a").read_text()
    with pytest.raises(sm.UsageError, match="'007' and '7' are one of them"):
        export(sm.train((X, texts(("007", "7"))), **SHORT).model, "liblinear", str(tmp_path / "b"))


def test_a_column_of_obs_is_named():
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    kinds = texts(("B", "NK"))
    obs = pandas.DataFrame(
        {"cell_type": pandas.Categorical(kinds), "w": 1.0 + SIDE}, index=[f"c{i}" for i in range(30)]
    )
    cells = anndata.AnnData(X, obs=obs)
    named = sm.train(cells, y="cell_type", sample_weight="w", valid=cells, **SHORT)
    plain = sm.train((X, kinds), sample_weight=1.0 + SIDE, **SHORT)
    assert named.model.classes_.tolist() == ["B", "NK"] and np.array_equal(named.model.coef_, plain.model.coef_)
    assert named.certificate.valid_error == 0.0
    assert sm.train(cells, y="obs/cell_type", **SHORT).model.evaluate(cells, y="cell_type")["accuracy"] == 1.0
    with pytest.raises(sm.DataError, match="no column 'kind' for y; it has cell_type, w"):
        sm.train(cells, y="kind")


@pytest.mark.parametrize("labels, told", [(["Yes", "no", "yes", " no"], True), (["yes", "no", "maybe", "so"], False)])
def test_labels_that_differ_by_case_or_blanks_alone_are_named(labels, told, caplog):
    X = np.random.default_rng(0).standard_normal((40, 2))
    model = sm.train((X, np.array(labels * 10)), tol=0.5).model
    assert len(model.classes_) == 4
    assert ("differ by case or blanks alone: ' no' and 'no', 'Yes' and 'yes'; spell" in caplog.text) == told
    assert ("case or blanks" in caplog.text) == told
