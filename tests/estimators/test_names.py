"""Names of columns: estimators raise on another order as scikit-learn's do, and match files by name."""

import logging

import h5py
import numpy as np
import pytest
from conftest import write_h5

import streammargin as sm
from streammargin.sources.hdf5.columns import write_names

pd = pytest.importorskip("pandas")

NAMES = [f"gene{k}" for k in range(5)]
X = np.random.default_rng(0).standard_normal((80, 5))
SCORE = X @ [2.0, -1.0, 0.5, 0.0, 0.1]
FRAME = pd.DataFrame(X, columns=NAMES)
TURNED = FRAME[NAMES[::-1]]
KINDS = {
    "classifier": (sm.MarginClassifier(), (SCORE > 0).astype(int)),
    "regressor": (sm.MarginRegressor(), SCORE),
    "interpolator": (sm.InterpolatingRegressor(epsilon=0.2), SCORE),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def stored(path, frame, y, names=True):
    write_h5(path, frame.to_numpy(), y)
    if names:
        with h5py.File(path, "a") as file:
            write_names(file, frame.columns.to_numpy())
    return str(path)


def test_another_order_and_other_names_raise_as_scikit_learns(kind):
    from sklearn.linear_model import Ridge

    model, y = kind
    model.fit(FRAME, y)
    assert model.feature_names_in_.tolist() == NAMES and model.feature_names_in_.dtype == object
    for frame in (TURNED, FRAME.rename(columns={"gene1": "other"}), FRAME[NAMES[:4]]):
        with pytest.raises(ValueError) as theirs:
            Ridge().fit(FRAME, y).predict(frame)
        with pytest.raises(ValueError) as ours:
            model.predict(frame)
        assert str(ours.value).replace(type(model).__name__, "Ridge") == str(theirs.value)
        with pytest.raises(ValueError):
            model.score(frame, y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


def test_a_saved_model_keeps_the_names_and_matches_by_them(kind, tmp_path, caplog):
    model, y = kind
    model.fit(FRAME, y).save(tmp_path / "m.npz")
    again = sm.load_model(tmp_path / "m.npz")
    assert again.feature_names_in_.tolist() == NAMES
    np.testing.assert_allclose(again.predict(TURNED), model.predict(FRAME), rtol=1e-12)
    assert [record.getMessage() for record in caplog.records if "by name" in record.getMessage()]
    model.fit(X, y).save(tmp_path / "plain.npz")
    assert not hasattr(model, "feature_names_in_")
    assert sm.load_model(tmp_path / "plain.npz").feature_names_in_ is None


def test_files_bring_names_and_are_matched_by_them(kind, tmp_path, caplog):
    model, y = kind
    model.fit(stored(tmp_path / "a.h5", FRAME, y))
    assert model.feature_names_in_.tolist() == NAMES
    expected = model.predict(FRAME)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(TURNED)
    with caplog.at_level(logging.WARNING):
        np.testing.assert_allclose(model.predict(stored(tmp_path / "b.h5", TURNED, y)), expected, rtol=1e-12)
    assert "matched by name" in caplog.text
    assert model.score(str(tmp_path / "b.h5")) == pytest.approx(model.score(FRAME, y))
    model.fit(stored(tmp_path / "c.h5", FRAME, y, names=False))
    assert not hasattr(model, "feature_names_in_")
