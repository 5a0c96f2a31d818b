"""Algorithms 1 and 2 of the Pdprox paper, with a bound on the duals' sum (eq. (19)): every iterate against NumPy."""

import math

import numpy as np
import pytest
from conftest import slow, write_h5
from reference import words
from reference.datasets import as_form, noisy
from reference.stopped import stop_after

import streammargin as sm
from examples import first_order as methods
from streammargin.penalties.lp import L2
from streammargin.reading import plan
from streammargin.verification.verify import verify

C, M = 0.7, 7
X, Y = noisy(60, 6, seed=3)
NUMBERS = 3.0 * X[:, 0] - X[:, 1] + np.random.default_rng(0).standard_t(2, 60)
WEIGHTS = np.random.default_rng(3).choice([0.0, 0.5, 1.0, 3.0], 60)
CLASS_WEIGHT = {1: 2.0, -1: 0.5}
ALGORITHMS = {"dual": methods.algorithm_1, "primal": lambda p, gamma: methods.primal_double_primal(p, gamma, gamma)}


def projected(v, low, high, budget):
    """The nearest alpha (n,) with low <= alpha <= high and sum |alpha| <= budget, by bisection (Lemma 13)."""

    def moved(e):
        return np.clip(np.sign(v) * np.maximum(np.abs(v) - e, 0.0), low, high)

    if np.abs(moved(0.0)).sum() <= budget:
        return moved(0.0)
    least, most = 0.0, float(np.abs(v).max())
    for _ in range(200):
        middle = 0.5 * (least + most)
        least, most = (middle, most) if np.abs(moved(middle)).sum() > budget else (least, middle)
    return moved(most)


def iterates(
    algorithm, A, targets, caps, passes, low=0.0, prox=lambda v, tau: v / (1.0 + tau), cost=C, budget=M, scale=None
):
    """w_1, ..., w_passes (passes, d) for the sum of the losses: the paper's Algorithms 1 and 2 for max alpha (t - a.w).

    low: the smallest alpha as a part of the cap; scale: C times the largest class weight, by which duals are measured.
    """
    scale = scale or cost
    step = 1.0 / math.sqrt(2.0 * np.sum(caps > 0)) / np.linalg.norm(A[caps > 0], axis=1).max()
    sigma, tau = step * scale, step / scale

    def up(alpha, w):
        return projected(alpha + sigma * (targets - A @ w), low * caps, caps, cost * budget)

    w, alpha, found = np.zeros(A.shape[1]), np.zeros(len(A)), []
    if algorithm == "dual":
        beta = alpha
        for _ in range(passes):
            alpha = up(beta, w)
            w = prox(w + tau * A.T @ alpha, tau)
            beta = up(beta, w)
            found.append(w)
        return np.array(found)
    u = w
    for _ in range(passes):
        w = prox(u + tau * A.T @ alpha, tau)
        before, alpha = alpha, up(alpha, w)
        u = w + tau * A.T @ (alpha - before)
        found.append(w)
    return np.array(found)


def reads(algorithm, T, top=True):
    """The reads after which w_T is certified."""
    return (2 if top else 1) * (T - (algorithm == "primal")) + 1


def after(word, T, data=(X, Y), **options):
    """The training that ends with the T-th iterate."""
    options = {"loss": f"hinge:top={M}", "C": C, "bias": 0, "tol": 0.0, **options}
    algorithm = word.partition(":")[2].partition(",")[0]
    passes = reads(algorithm, T, "top" in str(options["loss"]))
    return sm.train(data, solver=word, passes=passes, **options)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_every_iterate_is_that_of_the_paper(algorithm, form):
    p = methods.Problem(Y[:, None] * X, 1 / (60 * C), L2(), budget=M)
    pairs = ALGORITHMS[algorithm](p, p.gamma)
    expected = np.array([next(pairs)[0] for _ in range(25)])
    np.testing.assert_allclose(iterates(algorithm, Y[:, None] * X, 1.0, np.full(60, C), 25), expected, atol=1e-13)
    data = as_form(X, form), Y
    for T in (1, 2, 3, 8, 25):
        last = after(f"pdprox:{algorithm},average=no", T, data)
        np.testing.assert_allclose(last.model.coef_[0], expected[T - 1], rtol=1e-12, atol=1e-14)
        mean = after(f"pdprox:{algorithm},average", T, data)
        np.testing.assert_allclose(mean.model.coef_[0], expected[:T].mean(axis=0), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_mean_without_a_bound_is_that_of_the_paper_too(algorithm):
    """Whether or not an earlier mean, or the last iterate, has a smaller objective."""
    expected = iterates(algorithm, Y[:, None] * X, 1.0, np.full(60, C), 30, budget=math.inf)
    for T in (1, 2, 7, 30):
        mean = after(f"pdprox:{algorithm},average", T, loss="hinge").model.coef_[0]
        np.testing.assert_allclose(mean, expected[:T].mean(axis=0), rtol=1e-12, atol=1e-14)
        last = after(f"pdprox:{algorithm},average=no", T, loss="hinge").model.coef_[0]
        np.testing.assert_allclose(last, expected[T - 1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("loss", ["hinge", "absolute_error"])
@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_weights_of_rows_and_classes_losses_of_numbers_and_l1(algorithm, loss, penalty):
    numeric = loss != "hinge"
    caps = C * WEIGHTS * (1.0 if numeric else np.where(Y > 0, CLASS_WEIGHT[1], CLASS_WEIGHT[-1]))
    A, targets = (X, NUMBERS) if numeric else (Y[:, None] * X, np.ones(60))

    def prox(v, tau):
        return v / (1.0 + tau) if penalty == "l2" else np.sign(v) * np.maximum(np.abs(v) - tau, 0.0)

    expected = iterates(algorithm, A, targets, caps, 12, -1.0 * numeric, prox, scale=C if numeric else 2.0 * C)
    options = {} if numeric else {"class_weight": CLASS_WEIGHT}
    word = f"pdprox:{algorithm},average"
    result = after(
        word, 12, (X, NUMBERS if numeric else Y), loss=f"{loss}:top={M}", sample_weight=WEIGHTS, penalty=penalty,
        **options,
    )  # fmt: skip
    np.testing.assert_allclose(result.model.coef_[0], expected.mean(axis=0), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_class_and_each_C_has_a_bound_of_its_own(algorithm):
    classes = np.digitize(X[:, 0], [-0.6, 0.6])
    result = after(f"pdprox:{algorithm},average", 9, (X, classes), C=[0.1, 2.0], valid=(X, classes))
    cost = result.model.header["C"]
    for k in range(3):
        y = np.where(classes == k, 1.0, -1.0)
        expected = iterates(algorithm, y[:, None] * X, 1.0, np.full(60, cost), 9, cost=cost)
        np.testing.assert_allclose(result.model.coef_[k], expected.mean(axis=0), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_out_of_core_and_after_a_stop_it_is_the_same(algorithm, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "LEAST_BLOCK_BYTES", 1 << 18)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40000, 60))
    y = np.where(X[:, 0] + rng.standard_normal(40000) > 0.0, 1, -1)
    path = write_h5(tmp_path / "rows.h5", X, y)
    word, options = f"pdprox:{algorithm},average", {"loss": "hinge:top=50", "memory": "18M"}
    expected = iterates(algorithm, y[:, None] * X, 1.0, np.full(40000, C), 4, budget=50).mean(axis=0)
    whole = after(word, 4, path, **options)
    assert next(iter(whole.history))["plan"]["blocks"] > 1
    np.testing.assert_allclose(whole.model.coef_[0], expected, rtol=1e-10, atol=1e-14)
    for blocks in (2, 9, 13, 22, 31):
        folder = str(tmp_path / str(blocks))
        stopped = after(word, 4, path, checkpoint=folder, **options, should_stop=stop_after(blocks + 1))
        resumed = after(word, 4, path, checkpoint=folder, **options)
        assert stopped.reason == "signal" and resumed.certificate == whole.certificate
        np.testing.assert_array_equal(resumed.model.coef_, whole.model.coef_)


FORMS = ("pdprox", "pdprox:average", "pdprox:primal", "pdprox:dual", "pdprox:dual,average", "pdprox:primal,average=no")
COUNTED = {
    "hinge": {}, "squared_hinge": {}, "logistic": {}, "generalized_hinge": {"slope": 3.0}, "absolute_error": {},
    "quantile": {"quantile": 0.8}, "huber": {"delta": 0.7},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", COUNTED)
@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_the_objective_is_that_of_the_saved_weights(form, loss, penalty, tmp_path):
    """By NumPy, from the saved weights and the rows, after too few passes to converge; verify agrees."""
    numeric = loss in ("absolute_error", "quantile", "huber")
    word = sm.losses.FAMILY.find(loss)(**COUNTED[loss], top=M)
    path = write_h5(tmp_path / "rows.h5", X, NUMBERS if numeric else Y, sample_weight=WEIGHTS)
    for passes in (2, 5, 11):
        result = sm.train(path, solver=form, loss=word, penalty=penalty, C=C, bias=0, tol=0.0, passes=passes)
        w, figures = result.model.coef_[0], result.certificate
        u = X @ w - NUMBERS if numeric else Y * (X @ w)
        value = words.of_columns(penalty, 6).value(w) + least(loss, word, u)
        assert figures.primal == pytest.approx(value, rel=1e-9)
        assert figures.dual <= value and figures.mean_gap >= 0.0
        model = tmp_path / f"{passes}.npz"
        result.model.save(str(model))
        assert all(check.agrees is not False for check in verify(str(model), path))


def least(loss, word, u):
    """The least of C M e + what the losses leave above e, over e >= 0, on a grid that becomes finer."""
    made = word.terms()

    def total(e):
        if loss in ("absolute_error", "quantile", "huber"):
            above, shift = made.lifted(e), 0.0
        else:
            above, shift = made, e
        parts = [above.primal(one + shift, C * s) for one, s in zip(u.tolist(), WEIGHTS.tolist(), strict=True) if s]
        return C * M * e + math.fsum(parts)

    low, high = 0.0, 30.0
    for _ in range(90):  # by convexity a third of the stretch is without the least
        third = (high - low) / 3.0
        low, high = (low, high - third) if total(low + third) <= total(high - third) else (low + third, high)
    return min(total(low), total(0.0))


# one W for several outputs, and losses with two duals a row

OUTPUTS = NUMBERS[:, None] * [1.0, -0.5, 0.2] + np.random.default_rng(1).standard_normal((60, 3))
EPSILON, QUANTILE, SLOPE = 0.3, 0.8, 3.0
TWO = {  # (f, c) of the lines c - f u, u the residual or the margin (eq. (4) and appendix A)
    f"epsilon_insensitive:{EPSILON}": ((1.0, -EPSILON), (-1.0, -EPSILON)),
    f"quantile:{QUANTILE}": ((QUANTILE, 0.0), (QUANTILE - 1.0, 0.0)),
    f"generalized_hinge:{SLOPE}": ((SLOPE, 1.0), (1.0, 1.0)),
}


def on_triangle(v):
    """The nearest to v (..., 2) with entries >= 0 and a sum of at most 1, by bisection (Lemma 13)."""
    least, most = np.zeros(v.shape[:-1]), np.abs(v).max(axis=-1) + 1.0
    inside = np.maximum(v, 0.0).sum(axis=-1) <= 1.0
    for _ in range(100):
        middle = 0.5 * (least + most)
        above = np.clip(v - middle[..., None], 0.0, 1.0).sum(axis=-1) > 1.0
        least, most = np.where(above, middle, least), np.where(above, most, middle)
    return np.clip(v - np.where(inside, 0.0, most)[..., None], 0.0, 1.0)


def on_simplex(v):
    """The nearest to each row of v with entries >= 0 and a sum of 1 (Duchi et al. 2008)."""
    u = -np.sort(-v, axis=1)
    heights = (np.cumsum(u, axis=1) - 1.0) / np.arange(1, v.shape[1] + 1)
    level = heights[np.arange(len(v)), (u > heights).sum(axis=1) - 1]
    return np.maximum(v - level[:, None], 0.0)


def of_outputs(loss, Y):
    """(first duals, gradient of them at scores Z (n, K), projection, what they pull each line by, c n / R^2 by eq.)."""
    if loss in TWO:
        f, c = np.array(TWO[loss]).T
        signs = Y if loss.startswith("generalized") else np.ones(Y.shape)
        residual = (lambda Z: signs * Z) if loss.startswith("generalized") else (lambda Z: Z - Y)
        return (
            np.zeros((*Y.shape, 2)), lambda Z: c - f * residual(Z)[..., None], on_triangle,
            lambda a: signs * (a @ f), {"dual": np.sum(f**2), "primal": 2.0 * np.max(f**2)},
        )  # fmt: skip
    if loss == "l2_error":
        ball = lambda v: v / np.maximum(1.0, np.linalg.norm(v, axis=1))[:, None]  # noqa: E731
        return np.zeros(Y.shape), lambda Z: Y - Z, ball, lambda a: a, {"dual": 1.0, "primal": 1.0}
    own = Y > 0.0  # the hinge of all classes
    return own.astype(float), lambda Z: Z + ~own, on_simplex, lambda p: own - p, {"dual": 1.0, "primal": 1.0}


def short_columns(V, by):
    """The prox of l21, of V (d, K)."""
    return V * np.maximum(0.0, 1.0 - by / np.maximum(np.linalg.norm(V, axis=1), 1e-300))[:, None]


def lines_of_the_paper(algorithm, loss, Y, passes, scale=1.0, prox=short_columns):
    """W_1, ..., W_passes (passes, K, d) of the mean loss and R(W) / (n C), as the algorithms are printed."""
    start, gradient, project, pulls, c = of_outputs(loss, Y)
    n, longest = len(X), np.linalg.norm(X, axis=1).max()
    gamma = scale * math.sqrt(n / (2.0 * c[algorithm])) / longest
    W, alpha, found = np.zeros((X.shape[1], Y.shape[1])), start, []
    lam = 1.0 / (n * C)

    def up(a, W):
        return project(a + gamma / n * gradient(X @ W))

    if algorithm == "dual":
        beta = alpha
        for _ in range(passes):
            alpha = up(beta, W)
            W = prox(W + gamma / n * X.T @ pulls(alpha), gamma * lam)
            beta = up(beta, W)
            found.append(W.T)
        return np.array(found)
    U = W
    for _ in range(passes):
        before, W = alpha, prox(U + gamma / n * X.T @ pulls(alpha), gamma * lam)
        alpha = up(alpha, W)
        U = W + gamma / n * X.T @ (pulls(alpha) - pulls(before))
        found.append(W.T)
    return np.array(found)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("loss", [*TWO, "l2_error", "hinge"])
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_every_iterate_of_one_W_is_that_of_the_paper(algorithm, loss, form):
    """Losses of each output and of all; two duals a row if the paper has two, with the c of its appendix A."""
    codes = np.argmax(OUTPUTS, axis=1)
    own, options = np.where(codes[:, None] == np.arange(3), 1.0, -1.0), {}
    classes = loss == "hinge" or loss.startswith("generalized")
    if classes:
        options = {"multiclass": "joint" if loss == "hinge" else "ovr"}
    expected = lines_of_the_paper(algorithm, loss, own if classes else OUTPUTS, 12, 3.0)
    for T in (1, 2, 5, 12):
        data = as_form(X, form), codes if classes else OUTPUTS
        last = after(f"pdprox:{algorithm},average=no,scale=3", T, data, loss=loss, penalty="l21", **options)
        np.testing.assert_allclose(last.model.coef_, expected[T - 1], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("loss", [word for word in TWO if not word.startswith("generalized")])
def test_two_duals_a_row_of_one_output(algorithm, loss):
    def prox(V, by):
        return V / (1.0 + by)

    expected = lines_of_the_paper(algorithm, loss, NUMBERS[:, None], 9, prox=prox)[:, 0]
    result = after(f"pdprox:{algorithm},average", 9, (X, NUMBERS), loss=loss)
    np.testing.assert_allclose(result.model.coef_[0], expected.mean(axis=0), rtol=1e-11, atol=1e-13)
    assert result.certificate.dual <= result.certificate.primal


def test_the_scale_is_that_of_the_papers_steps():
    with pytest.raises(sm.errors.UsageError, match="give algorithm=primal or dual"):
        sm.train((X, Y), solver="pdprox:scale=2", C=C)
    assert str(sm.solvers.Pdprox("dual", scale=2.0)) == "pdprox:dual,scale=2"
