"""One W for all classes: the softmax and the hinge of Crammer and Singer, against SciPy and by what they promise."""

import numpy as np
import pytest
from reference.sources import CountingSource
from scipy.optimize import minimize

import streammargin as sm
from streammargin.errors import UsageError
from streammargin.verification.verify import verify

CLASSES = 4


def drawn(rows=240, columns=3, seed=0):
    """Rows of overlapping classes of different sizes, their labels, and weights of rows."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, columns))
    scores = X @ random.normal(size=(columns, CLASSES)) + [1.0, 0.0, 0.0, -1.0] + random.gumbel(size=(rows, CLASSES))
    return X, np.argmax(scores, axis=1), random.integers(1, 4, size=rows).astype(float)


X, Y, WEIGHTS = drawn()


def softmax_optimum(C, free):
    """min 1/2 ||W||^2 + C sum_i s_i (log sum_k exp(z_k) - z_own), by L-BFGS."""
    rows = np.column_stack([X, np.ones(len(X))])

    def objective(flat):
        W = flat.reshape(CLASSES, -1)
        z = rows @ W.T
        level = np.logaddexp.reduce(z, axis=1)
        p = np.exp(z - level[:, None])
        p[np.arange(len(Y)), Y] -= 1.0
        penalised = W * np.append(np.ones(X.shape[1]), 0.0 if free else 1.0)
        value = 0.5 * np.sum(W * penalised) + C * WEIGHTS @ (level - z[np.arange(len(Y)), Y])
        return value, (penalised + C * (p * WEIGHTS[:, None]).T @ rows).ravel()

    start = np.zeros(CLASSES * rows.shape[1])
    return minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "gtol": 1e-9}).fun


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_softmax_is_that_of_scipy(C, free):
    best = softmax_optimum(C, free)
    result = sm.train((X, Y), loss="logistic", C=C, sample_weight=WEIGHTS, bias="free" if free else 1, tol=1e-7)
    found = result.certificate
    assert result.converged and len(found.per_class) == 1
    assert found.dual <= best * (1.0 + 1e-9) and best * (1.0 - 1e-9) <= found.primal <= best * (1.0 + 1e-7)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("options", [{}, {"bias": "free"}, {"penalty": "l1"}, {"class_weight": "balanced"}], ids=str)
def test_out_of_core_the_certificates_meet_those_in_memory(loss, options, tmp_path):
    sm.write_hdf5([(X, Y)], tmp_path / "rows.h5")
    source = CountingSource(X, Y, (0, 50, 90, 200, 240))
    found = [
        sm.train(rows, loss=loss, multiclass="joint", tol=1e-5, passes=300, **options)
        for rows in ((X, Y), source, tmp_path / "rows.h5")
    ]
    assert all(one.converged for one in found)
    assert max(one.certificate.dual for one in found) <= min(one.certificate.primal for one in found) * (1.0 + 1e-12)
    found[-1].model.save(tmp_path / "model.npz")
    assert all(check.agrees is not False for check in verify(tmp_path / "model.npz", tmp_path / "rows.h5"))


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_two_classes_are_the_binary_model_to_the_bit(loss):
    labels = (Y > 1).astype(int)
    joint, ovr = (sm.train((X, labels), loss=loss, multiclass=word) for word in ("joint", "ovr"))
    assert joint.model.coef_.tobytes() == ovr.model.coef_.tobytes()
    assert joint.model.intercept_.tobytes() == ovr.model.intercept_.tobytes()


def test_the_softmax_is_the_default_of_the_logistic_loss_alone():
    assert sm.train((X, Y), loss="logistic").model.header["multiclass"] == "joint"
    for options in ({"loss": "hinge"}, {"loss": "squared_hinge"}, {"loss": "logistic", "multiclass": "ovr"}):
        result = sm.train((X, Y), **options)
        assert result.model.header["multiclass"] == "ovr" and len(result.certificate.per_class) == CLASSES


def test_probabilities_are_the_softmax_of_the_scores():
    model = sm.train((X, Y), loss="logistic").model
    scores = model.decision_function(X)
    expected = np.exp(scores - np.logaddexp.reduce(scores, axis=1)[:, None])
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-12)
    figures = model.evaluate((X, Y))
    assert figures["loss"] == pytest.approx(-np.log(expected[np.arange(len(Y)), Y]).mean(), rel=1e-12)
    assert figures["log_loss"] == pytest.approx(figures["loss"], rel=1e-12)


def test_a_stopped_training_goes_on_to_the_same_bits(tmp_path):
    for loss in ("logistic", "hinge"):
        rows = CountingSource(X, Y, (0, 90, 200, 240))
        options = {"loss": loss, "multiclass": "joint", "penalty": "l1", "tol": 1e-6}
        whole = sm.train(rows, **options)
        sm.train(rows, checkpoint=tmp_path / loss, **options, passes=3)
        again = sm.train(rows, checkpoint=tmp_path / loss, **options)
        assert again.passes == whole.passes > 3
        assert again.model.coef_.tobytes() == whole.model.coef_.tobytes()


def test_early_stopping_certifies_the_best_pass():
    held_out = drawn(seed=1)[:2]
    result = sm.train((X, Y), loss="logistic", C=100.0, valid=held_out, early_stop=1, tol=1e-9)
    scores = result.model.decision_function(X)
    losses = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(Y)), Y]
    W = np.column_stack([result.model.coef_, result.model.intercept_])
    assert result.certificate.primal == pytest.approx(0.5 * np.sum(W**2) + 100.0 * losses.sum(), rel=1e-12)


def test_what_has_no_joint_form_is_refused():
    for options, told in (
        ({"loss": "squared_hinge"}, 'hinge and logistic have one; use multiclass="ovr", or loss="hinge"'),
        ({"loss": "logistic", "solver": "pegasos"}, 'use solver="newton"'),
    ):
        with pytest.raises(UsageError) as caught:
            sm.train((X, Y), multiclass="joint", C=1.0, **options)
        assert told in str(caught.value)
    with pytest.raises(UsageError, match="has no probabilities"):
        sm.train((X, Y), multiclass="joint", loss="hinge").model.predict_proba(X)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("blocks", [0, 4])
def test_free_constants_have_a_mean_of_0(loss, blocks, tmp_path):
    """What they have in common changes nothing, so that rounding or a start would decide it."""
    rows = CountingSource(X, Y, np.linspace(0, len(Y), blocks + 1).astype(int)) if blocks else (X, Y)
    given = {"loss": loss, "multiclass": "joint", "bias": "free", "passes": 400}
    first = sm.train(rows, tol=1e-2, **given).model
    first.intercept_[:] += 40.0
    result = sm.train(rows, tol=1e-5, init=first, **given)
    constants = result.model.intercept_
    assert result.converged and abs(constants.mean()) < 1e-12 < np.abs(constants).max()
    result.model.save(tmp_path / "model.npz")
    sm.write_hdf5([(X, Y)], tmp_path / "rows.h5")
    assert all(check.agrees is not False for check in verify(tmp_path / "model.npz", tmp_path / "rows.h5"))
