"""An epsilon of its own for each row: against a quadratic program, the naive twin, and from files."""

import json

import h5py
import numpy as np
import pytest
from conftest import slow, write_h5
from reference.conic import Program
from reference.coordinate import ThreeSequences, drawn_rows
from reference.datasets import as_form
from reference.norms import curvature, mirror
from reference.sources import CountingSource
from reference.stopped import stop_after
from sklearn.model_selection import KFold, cross_validate

import streammargin as sm
from streammargin.losses import Interpolate, make_loss
from streammargin.verification.verify import verify

ROWS = 12
SOLVERS = ["sdca", "asdca", "ascent:order=uniform"]
PLANS = {"memory": (0, ROWS), "blocks": (0, 1, 5, 6, ROWS)}


def numbers(seed=0):
    """Rows, numbers, and epsilons, some of them 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, 20)) * (rng.random((ROWS, 20)) < 0.7)
    return X, rng.standard_normal(ROWS), np.where(np.arange(ROWS) % 3 == 0, 0.0, rng.uniform(0.0, 0.6, ROWS))


def train(X, y, epsilon, **options):
    return sm.train((X, y), **{"loss": Interpolate(epsilon), "tol": 1e-8, "passes": 50_000, **options})


def least(A, y, epsilon):
    """min 1/2 ||w||^2 with |A w - y| <= epsilon, by an interior-point method."""
    program = Program()
    w = program.variables(A.shape[1], square=1.0)
    program.inside("nonnegative", y + epsilon, [(w, -A)])
    program.inside("nonnegative", epsilon - y, [(w, A)])
    return program.solve()


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("bias", [None, 0.7])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_optimum_is_that_of_the_quadratic_program(solver, bias, form, plan):
    X, y, epsilon = numbers()
    A = X if bias is None else np.column_stack([X, np.full(ROWS, bias)])
    value, exact = least(A, y, epsilon)
    options = {"loss": Interpolate(epsilon), "solver": solver, "bias": bias, "tol": 1e-8, "passes": 50_000}
    rows = as_form(X, form)
    result = sm.train((rows, y) if plan == "memory" else CountingSource(rows, y, PLANS[plan]), **options)
    w = result.model.coef_[0] if bias is None else np.append(result.model.coef_[0], result.model.intercept_[0] / bias)
    residual = max(0.0, np.max(np.abs(A @ w - y) - epsilon))
    assert result.converged and residual <= 1e-8 * np.abs(y).max()
    assert result.certificate["residual"] == pytest.approx(residual, rel=1e-6, abs=1e-14)
    assert result.certificate["primal"] == pytest.approx(value, rel=1e-6)
    assert result.certificate["dual"] <= value * (1 + 1e-6)
    np.testing.assert_allclose(w, exact, atol=1e-4)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("form, norm", [("dense", 2), ("csr", 1.5), slow("dense", 1.5), slow("csr", 2)])
@pytest.mark.parametrize("word", ["ascent:order=uniform", "ascent:momentum=yes,order=uniform"])
def test_the_steps_are_those_of_the_twin(word, norm, form, plan):
    """alpha_i moves to alpha_i + (y_i - x_i.w) / L_i, drawn towards 0 by epsilon_i / L_i."""
    X, y, epsilon = numbers()
    weights = np.where(np.arange(ROWS) == 4, 0.0, 1.0)
    source = CountingSource(as_form(X, form), y, PLANS[plan], weights)
    data = (as_form(X, form), y) if plan == "memory" else source
    given = {"sample_weight": weights} if plan == "memory" else {}
    result = sm.train(
        data, loss=Interpolate(epsilon), solver=word, penalty=f"lp:{norm}", tol=0.0, passes=3, seed=2, **given
    )
    q, L = norm / (norm - 1), np.array([curvature(x, norm / (norm - 1)) for x in X])

    def step(i, alpha, u, L):
        moved = alpha + (y[i] - u) / L
        return np.sign(moved) * max(abs(moved) - epsilon[i] / L, 0.0)

    order = [i for number in (1, 2, 3) for i in drawn_rows(L, weights > 0, PLANS[plan], 2, number, False)]
    twin, alpha = ThreeSequences(X, q, step, ROWS - 1), np.zeros(ROWS)
    for i in order:
        twin.visit(i)
        alpha[i] = step(i, alpha[i], X[i] @ mirror(X.T @ alpha, q), L[i])
    expected = mirror(X.T @ (twin.v if "momentum" in word else alpha), q)
    np.testing.assert_allclose(result.model.coef_[0], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_epsilon_for_all_is_the_number(solver):
    X, y, _ = numbers()
    for epsilon in (0.0, 0.3):
        one, each = train(X, y, epsilon, solver=solver), train(X, y, [epsilon] * ROWS, solver=solver)
        assert one.model.coef_.tobytes() == each.model.coef_.tobytes()


def test_an_absent_row_has_no_epsilon():
    X, y, epsilon = numbers()
    weights = np.where(np.arange(ROWS) == 4, 0.0, 1.0)
    left = weights > 0
    wide = np.where(left, epsilon, 100.0)
    weighted, without = train(X, y, wide, sample_weight=weights), train(X[left], y[left], epsilon[left])
    np.testing.assert_allclose(weighted.model.coef_, without.model.coef_, atol=1e-6)


@pytest.mark.parametrize(
    "epsilon, message",
    [
        (np.full(ROWS - 1, 0.1), r"epsilon has shape \(11,\) but X has 12 rows"),
        (np.full((ROWS, 1), 0.1), "one for each row"),
        (np.where(np.arange(ROWS) == 7, -0.1, 0.1), "epsilon of row 7 is -0.1"),
        (np.where(np.arange(ROWS) == 7, np.nan, 0.1), "epsilon of row 7 is nan"),
        (np.where(np.arange(ROWS) == 7, np.inf, 0.1), "epsilon of row 7 is inf"),
        (["much"] * ROWS, "epsilons of X are not numbers"),
        ("eps", "no column eps of epsilons"),
    ],
    ids=str,
)
def test_epsilons_that_are_none(epsilon, message):
    X, y, _ = numbers()
    with pytest.raises(sm.StreamMarginError, match=message):
        train(X, y, epsilon)


def test_words():
    for word in ("interpolate:eps", "interpolate:eps.h5:a,b=c/d", "interpolate:0.25"):
        assert str(make_loss(word)) == word
    assert make_loss("interpolate:1e-2").epsilon == 0.01 and make_loss("interpolate").epsilons is None
    for wrong in ("interpolate:-0.1", "interpolate:inf", "interpolate:nan", "interpolate:a=b", Interpolate("a=b")):
        with pytest.raises(sm.UsageError, match="epsilon"):
            make_loss(wrong)


@pytest.fixture
def file(tmp_path):
    X, y, epsilon = numbers()
    path = write_h5(tmp_path / "a.h5", X, y)
    with h5py.File(path, "r+") as stored:
        stored["eps"] = epsilon
    with h5py.File(tmp_path / "b.h5", "w") as other:
        other["far/eps"] = epsilon
    np.save(tmp_path / "c.npy", epsilon)
    return path


@pytest.mark.parametrize("name", ["eps", "b.h5:far/eps", "c.npy"])
def test_from_the_shell(name, file, tmp_path, here):
    X, y, epsilon = numbers()
    expected = train(X, y, epsilon, tol=1e-6)
    command = ["train", file, "--loss", f"interpolate:{name}", "--tol", "1e-6", "-o"]
    done = here(*command, "m.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    model = sm.load_model(tmp_path / "m.npz")
    assert model.header["loss"] == f"interpolate:{name}"
    np.testing.assert_allclose(model.coef_, expected.model.coef_, atol=1e-5)
    figures = json.loads(here("evaluate", "m.npz", file, "--json", cwd=tmp_path).stdout)
    assert figures["loss"] is None and figures["largest_error"] <= epsilon.max() + 1e-5
    checked = here("verify", "m.npz", file, cwd=tmp_path)
    assert checked.returncode == 0 and "DIFFERS" not in checked.stdout, checked.stdout + checked.stderr
    if ":" in name or name.endswith(".npy"):  # an input is never written
        place = name.partition(":")[0]
        before = (tmp_path / place).read_bytes()
        refused = here(*command, place, "--force", cwd=tmp_path)
        assert refused.returncode == 2 and (tmp_path / place).read_bytes() == before
        (tmp_path / place).unlink()
        missing = here(*command, "n.npz", cwd=tmp_path)
        assert missing.returncode == 66 and place in missing.stderr
    else:
        with h5py.File(file, "r+") as stored:
            stored["eps"][...] = epsilon / 2
        checked = here("verify", "m.npz", file, cwd=tmp_path)
        assert checked.returncode == 65 and "DIFFERS" in checked.stdout
        wrong = here("train", file, "--loss", "interpolate:epps", "-o", "n.npz", cwd=tmp_path)
        assert wrong.returncode == 2 and "loss interpolate:NAME" in wrong.stderr.replace("'", "")
        with h5py.File(file, "r+") as stored:
            stored["eps"][3] = -1.0
        wrong = here("train", file, "--loss", "interpolate:eps", "-o", "n.npz", cwd=tmp_path)
        assert wrong.returncode == 65 and "epsilon of row 3 is -1" in wrong.stderr


def test_shards(tmp_path):
    X, y, epsilon = numbers()
    paths = []
    for number, rows in enumerate((slice(0, 5), slice(5, ROWS))):
        paths.append(write_h5(tmp_path / f"{number}.h5", X[rows], y[rows]))
        with h5py.File(paths[-1], "r+") as stored:
            stored["eps"] = epsilon[rows]
    options = {"loss": "interpolate:eps", "tol": 1e-7, "passes": 50_000}
    result = sm.train(paths, **options)
    np.testing.assert_allclose(result.model.coef_, train(X, y, epsilon).model.coef_, atol=1e-5)
    result.model.save(tmp_path / "m.npz")
    assert all(check.agrees is not False for check in verify(tmp_path / "m.npz", paths))
    with h5py.File(paths[1], "r+") as stored:
        stored["eps"][2] = np.nan
    with pytest.raises(sm.DataError, match=r"1\.h5: the epsilon of row 2 is nan"):
        sm.train(paths, **options)
    del stored
    with h5py.File(paths[1], "r+") as stored:
        del stored["eps"]
        stored["eps"] = np.zeros(4)
    with pytest.raises(sm.DataError, match="4 entries"):
        sm.train(paths, **options)


def test_a_model_of_an_array_cannot_be_verified(file, tmp_path):
    _, _, epsilon = numbers()
    sm.train(file, loss=Interpolate(epsilon)).model.save(tmp_path / "m.npz")
    with pytest.raises(sm.UsageError, match="interpolate:NAME"):
        verify(tmp_path / "m.npz", file)


def test_a_training_that_was_stopped_goes_on_with_the_same_epsilons_only(tmp_path):
    X, y, epsilon = numbers()

    def run(epsilon=epsilon, **more):
        return sm.train(CountingSource(X, y, PLANS["blocks"]), loss=Interpolate(epsilon), tol=0.0, passes=9, **more)

    stopped = run(checkpoint=str(tmp_path), should_stop=stop_after(8))
    assert stopped.resumable
    with pytest.raises(sm.DataError, match="other epsilons"):
        run(epsilon + 0.1, checkpoint=str(tmp_path))
    assert run(checkpoint=str(tmp_path)).model.coef_.tobytes() == run().model.coef_.tobytes()


def test_estimators_take_epsilons_with_the_rows(file):
    X, y, epsilon = numbers()
    model = sm.InterpolatingRegressor(fit_intercept=False, tol=1e-6)
    expected = train(X, y, epsilon, tol=1e-6).model.coef_[0]
    np.testing.assert_array_equal(model.fit(X, y, epsilon=epsilon).coef_, expected)
    np.testing.assert_array_equal(model.fit(X, y).coef_, train(X, y, 0.0, tol=1e-6).model.coef_[0])
    named = sm.InterpolatingRegressor(fit_intercept=False, tol=1e-6, epsilon="eps").fit(file)
    np.testing.assert_allclose(named.coef_, expected, atol=1e-5)
    with pytest.raises(sm.UsageError, match="give it to fit"):
        sm.InterpolatingRegressor(epsilon=epsilon).fit(X, y)
    folds = KFold(3, shuffle=True, random_state=0)
    done = cross_validate(model, X, y, cv=folds, params={"epsilon": epsilon}, return_estimator=True)
    for (rows, _), fitted in zip(folds.split(X), done["estimator"], strict=True):
        np.testing.assert_array_equal(fitted.coef_, train(X[rows], y[rows], epsilon[rows], tol=1e-6).model.coef_[0])
