"""Penalties and pdprox against an interior-point method, HiGHS and scikit-learn, and against the paper."""

import math
import warnings
from itertools import cycle, product

import numpy as np
import pytest
from conftest import slow
from reference import words
from reference.datasets import as_form, noisy
from reference.words import of_columns

import streammargin as sm
from streammargin.errors import DataError, UsageError
from streammargin.losses import terms
from streammargin.solvers.columns import working_set as column_steps

conic = pytest.importorskip("reference.conic", reason="the interior-point method is clarabel's", exc_type=ImportError)

GROUPS = np.array([0, 0, 1, 2, 1, 2, 2, 0])
PENALTIES = {
    "l2": {}, "l1": {}, "l2norm": {}, "linf": {}, "elasticnet": {"l1_ratio": 0.8}, "exclusive": {"groups": GROUPS},
    "group": {"groups": GROUPS}, "group and square": {"groups": GROUPS, "l1_ratio": 0.6},
    "sparse_group": {"groups": GROUPS, "l1_ratio": 0.4},
}  # fmt: skip
LOSSES = ("hinge", "squared_hinge", "smooth_hinge", "logistic", "generalized_hinge")
CONSTANTS = {"free": {"bias": "free"}, "penalised": {"bias": 2.0}, "none": {"bias": 0.0}}
WEIGHTS = np.random.default_rng(3).choice([0.0, 0.5, 1.0, 3.0], 50)
CLASS_WEIGHT = {1: 2.0, -1: 0.5}
_ways = cycle([(c, w, f) for w in (False, True) for c in CONSTANTS for f in ("dense", "csr")][:11])  # 11: every pairing
PAIRS = [(p, loss, *next(_ways)) for p in PENALTIES for loss in LOSSES]
AS_CSR = ("hinge", "logistic")  # a form for each loss, as both take kernels of their own; the slow tests take the rest
USUAL = [(*pair[:4], "csr" if pair[1] in AS_CSR else "dense") for pair in PAIRS]
SOLVED = [
    way
    for solver in ("pdprox", "prox-newton")
    for pair, usual in zip(PAIRS, USUAL, strict=True)
    for way in [slow(solver, *usual) if usual[1] == LOSSES[-1] else (solver, *usual)]
    + [slow(solver, *pair)] * (pair != usual)
]


def rows():
    """Rows of eight columns, one of them 0 throughout, labels -1 and 1 of which the second is the rarer."""
    X, y = noisy(50, 8, seed=2)
    X[:, 5] = 0.0
    return X, np.where(X @ np.arange(8.0) > 3.0, 1, y)


def caps_of(y, C, weighted):
    return C * (WEIGHTS * np.where(y > 0, CLASS_WEIGHT[1], CLASS_WEIGHT[-1]) if weighted else np.ones(len(y)))


def objective(model, X, y, caps, penalty, constant, loss="hinge"):
    """The objective of a model by NumPy and the loss's own definition."""
    w, b = model.coef_[0], model.intercept_[0]
    given = dict(PENALTIES.get(penalty, {}))
    parts = w
    if constant == "penalised":
        parts = np.append(w, b / 2.0)
        if "groups" in given:
            given["groups"] = np.append(GROUPS, 3)
    u = y * (X @ w + b)
    phi = sum(terms(loss).primal(one, cap) for one, cap in zip(u.tolist(), caps.tolist(), strict=True) if cap > 0)
    return of_columns(words.penalty(penalty, **given), len(parts)).value(parts) + phi


@pytest.mark.parametrize("solver, penalty, loss, constant, weighted, form", SOLVED)
def test_every_pair_is_solved_to_what_the_interior_point_method_finds(solver, penalty, loss, constant, weighted, form):
    X, y = rows()
    name, given, C = penalty.split()[0], PENALTIES[penalty], 0.4
    weights = {"sample_weight": WEIGHTS, "class_weight": CLASS_WEIGHT} if weighted else {}
    caps = caps_of(y, C, weighted)
    there = caps > 0
    best, _, _ = conic.solve(
        X[there], y[there], caps[there], name, loss, r=given.get("l1_ratio"), groups=given.get("groups"),
        constant=2.0 if constant == "penalised" else float(constant == "free"), free=constant != "penalised",
        width=2.0 if loss == "generalized_hinge" else 1.0,
    )  # fmt: skip
    result = sm.train(
        (as_form(X, form), y), solver=solver, penalty=words.penalty(name, **given), loss=loss, C=C, tol=1e-5,
        passes=20000,
        **weights, **CONSTANTS[constant],
    )  # fmt: skip
    figures = result.certificate
    assert result.converged and figures["gap"] <= 1e-5
    assert figures["dual"] <= best * (1 + 1e-6) and figures["primal"] == pytest.approx(best, rel=1e-5)
    assert objective(result.model, X, y, caps, penalty, constant, loss) == pytest.approx(figures["primal"], rel=1e-12)


def test_the_pairs_go_with_every_kind_of_constant_weights_and_rows():
    for pairs in (PAIRS, USUAL):
        assert {pair[2:4] for pair in pairs} == set(product(CONSTANTS, (False, True)))
        assert {pair[0::4] for pair in pairs} == set(product(PENALTIES, ("dense", "csr")))


@pytest.mark.parametrize("slope", [1.2, 6.0])
@pytest.mark.parametrize(
    "solver, form", [("sdca", "dense"), slow("sdca", "csr"), ("asdca", "dense"), ("newton", "dense")]
)
def test_the_generalized_hinge_is_solved_by_the_others_too(solver, form, slope):
    X, y = rows()
    caps = 0.4 * WEIGHTS
    there = caps > 0
    best, w, b = conic.solve(X[there], y[there], caps[there], "l2", "generalized_hinge", free=False, width=slope)
    result = sm.train(
        (as_form(X, form), y), solver=solver, loss=f"generalized_hinge:{slope}", C=0.4, tol=1e-6, passes=5000,
        sample_weight=WEIGHTS,
    )  # fmt: skip
    assert result.converged and result.certificate["dual"] <= best * (1 + 1e-6)
    assert result.certificate["primal"] == pytest.approx(best, rel=2e-6)
    np.testing.assert_allclose([*result.model.coef_[0], result.model.intercept_[0]], [*w, b], atol=2e-3)
    u = y * (X @ result.model.coef_[0] + result.model.intercept_[0])
    loss = np.maximum(np.maximum(1 - u, 1 - slope * u), 0)
    assert result.model.evaluate((X, y))["loss"] == pytest.approx(loss.mean(), rel=1e-12)


def test_hinge_and_l1_is_the_linear_program_of_highs():
    from scipy.optimize import linprog

    X, y = rows()
    A, n, d = y[:, None] * X, *X.shape
    cost = np.concatenate([np.ones(2 * d), np.zeros(2), np.full(n, 0.7)])
    found = linprog(
        cost, -np.hstack([A, -A, y[:, None], -y[:, None], np.eye(n)]), -np.ones(n), bounds=(0, None), method="highs"
    )
    for solver in ("pdprox", "prox-newton"):
        result = sm.train((X, y), solver=solver, penalty="l1", C=0.7, tol=1e-6, passes=20000)
        assert result.converged
        assert result.certificate["primal"] == pytest.approx(found.fun, rel=1e-6)
        np.testing.assert_allclose(result.model.coef_[0], found.x[:d] - found.x[d : 2 * d], atol=1e-3)


@pytest.mark.parametrize("penalty", ["l1", "group"])
def test_a_large_C_and_columns_that_depend_on_each_other(penalty):
    rng = np.random.default_rng(0)
    letters = np.eye(4)[rng.integers(4, size=(400, 6))]
    pairs = [np.einsum("na,nb->nab", letters[:, i], letters[:, j]).reshape(400, -1) for j in range(6) for i in range(j)]
    X = np.hstack([letters.reshape(400, -1), *pairs])
    y = np.where(X @ rng.normal(size=X.shape[1]) + rng.normal(scale=2.0, size=400) > 0.0, 1, -1)
    groups = np.repeat(np.arange(6 + 15), [4] * 6 + [16] * 15)
    given = {"groups": groups} if penalty == "group" else {}
    best, _, _ = conic.solve(X, y, np.full(400, 100.0), penalty, "hinge", groups=groups)
    result = sm.train(
        (as_form(X, "csr"), y), solver="pdprox", penalty=words.penalty(penalty, **given), C=100, tol=1e-4, passes=60
    )
    assert result.converged and result.certificate["dual"] <= best * (1 + 1e-6)
    assert result.certificate["primal"] == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "absolute_error"])
@pytest.mark.parametrize("penalty, passes", [("linf", 380), ("exclusive", 200)])
def test_each_column_takes_a_step_of_its_own(penalty, passes, loss):
    X, y = noisy(50, 8, seed=4)
    X *= np.geomspace(0.1, 10.0, 8)
    y = X[:, 0] + y if loss == "absolute_error" else y
    best, _, _ = conic.solve(X, y, np.ones(50), penalty, loss, groups=PENALTIES[penalty].get("groups"))
    result = sm.train(
        (X, y),
        solver="pdprox",
        penalty=words.penalty(penalty, **PENALTIES[penalty]),
        loss=loss,
        tol=1e-3,
        passes=passes,
    )
    assert result.converged and result.certificate["dual"] <= best * (1 + 1e-6)
    assert result.certificate["primal"] == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("algorithm", ["primal", "dual"])
def test_a_path_over_C_by_the_steps_of_the_paper(algorithm):
    X, y = rows()
    ways = {"solver": f"pdprox:{algorithm}", "penalty": "l1", "tol": 1e-2, "passes": 20000}
    result = sm.train((X, y), C="path:3,high=0.4", valid=(X, y), **ways)
    best, _, _ = conic.solve(X, y, np.full(50, result.model.header["C"]), "l1", "hinge")
    assert result.converged and result.certificate["dual"] <= best * (1 + 1e-6)
    assert result.certificate["primal"] == pytest.approx(best, rel=1e-2)


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_logistic_is_what_scikit_learn_finds(penalty):
    linear = pytest.importorskip("sklearn.linear_model")
    X, y = rows()
    ratio = {"l1": 1.0, "elasticnet": 0.5}[penalty]
    theirs = linear.LogisticRegression(
        penalty="elasticnet", C=1.5, l1_ratio=ratio, solver="saga", tol=1e-9, max_iter=100000
    )
    with warnings.catch_warnings():  # releases differ in how the penalty is to be named
        warnings.simplefilter("ignore")
        theirs.fit(X, y)
    ours = sm.train((X, y), penalty=penalty, loss="logistic", C=1.5, tol=1e-9, passes=20000)
    np.testing.assert_allclose(ours.model.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.model.intercept_, theirs.intercept_, atol=1e-4)


@pytest.mark.parametrize("constant", ["free", "none"])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared_error"])
def test_duals_that_are_pulled_in_prove_weights_before_their_own_do(loss, constant, monkeypatch):
    X, y = noisy(150, 300, seed=4)
    X *= np.random.default_rng(1).random(X.shape) < 0.1
    data = as_form(X, "csr", np.float64), X[:, 0] + y if loss == "squared_error" else y
    ways = {"loss": loss, "penalty": "l1", "solver": "pdprox", "C": 1.0, **CONSTANTS[constant]}
    found, proof = [], column_steps.Inner.proof

    def watched(inner):
        found.append(proof(inner))
        return found[-1]

    monkeypatch.setattr(column_steps.Inner, "proof", watched)
    result = sm.train(data, tol=1e-4, **ways).certificate
    assert found and found[-1] is not None and result.gap <= 1e-4
    monkeypatch.setattr(column_steps.Inner, "proof", lambda inner: None)
    sure = sm.train(data, tol=1e-9, **ways).certificate
    assert result.dual <= sure.primal * (1.0 + 1e-9) and result.primal >= sure.dual * (1.0 - 1e-9)


@pytest.mark.parametrize("form", ["dense", slow("csr")])
@pytest.mark.parametrize("loss", ["hinge", slow("logistic")])
@pytest.mark.parametrize(
    "penalty", [sm.penalties.ElasticNet(0.8), sm.penalties.Group(GROUPS, 0.8)], ids=["net", "group"]
)
def test_coordinate_ascent_serves_the_elastic_net_and_groups(penalty, form, loss):
    X, y = rows()
    options = {"penalty": penalty, "loss": loss, "C": 0.4}
    for constant in ("penalised", "none"):
        result = sm.train(
            (as_form(X, form), y), solver="sdca", tol=1e-7, passes=5000, sample_weight=WEIGHTS, **options,
            **CONSTANTS[constant],
        )  # fmt: skip
        assert result.converged
        caps = 0.4 * WEIGHTS
        there = caps > 0
        best, w, b = conic.solve(
            X[there], y[there], caps[there], penalty.name, loss, r=0.8, groups=penalty.get_params().get("groups"),
            free=constant == "none", constant=2.0 * (constant == "penalised"),
        )  # fmt: skip
        assert result.certificate["primal"] == pytest.approx(best, rel=1e-6)
        np.testing.assert_allclose(result.model.coef_[0], w, atol=1e-3)
        assert result.model.intercept_[0] == pytest.approx(b, abs=1e-3)
        assert np.array_equal(result.model.coef_[0] == 0.0, np.abs(w) < 1e-5)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("penalty, constant", [("l1", "free"), ("elasticnet", "penalised"), ("l2", "none")])
def test_a_budget_of_the_duals_sums_the_largest_losses(penalty, constant, loss):
    X, y = rows()
    C, M, given = 2.0, 12.5, PENALTIES[penalty]
    options = {"penalty": words.penalty(penalty, **given), "C": C, "tol": 1e-5, "passes": 20000, **CONSTANTS[constant]}
    for weighted in (False, True):
        caps = caps_of(y, C, weighted)
        there = caps > 0
        weights = {"sample_weight": WEIGHTS, "class_weight": CLASS_WEIGHT} if weighted else {}
        result = sm.train((X, y), solver="pdprox", loss=f"{loss}:top={M}", **options, **weights)
        best, _, _ = conic.solve(
            X[there], y[there], caps[there], penalty, loss, r=given.get("l1_ratio"), budget=C * M,
            constant=2.0 if constant == "penalised" else float(constant == "free"), free=constant != "penalised",
        )  # fmt: skip
        assert result.converged and result.certificate["dual"] <= best * (1 + 1e-6)
        assert result.certificate["primal"] == pytest.approx(best, rel=1.2e-5)
        if loss == "hinge" and not weighted:
            losses = np.sort(np.maximum(1 - y * (X @ result.model.coef_[0] + result.model.intercept_[0]), 0))[::-1]
            summed = C * (losses[:12].sum() + 0.5 * losses[12])
            least = objective(result.model, X, y, 0 * caps, penalty, constant) + summed
            assert best * (1 - 1e-6) <= least <= result.certificate["primal"] * (1 + 1e-12)
    free = sm.train((X, y), solver="pdprox", loss=f"{loss}:top=50", **options).certificate["primal"]
    assert free == pytest.approx(
        sm.train((X, y), solver="pdprox", loss=loss, **options).certificate["primal"], rel=2e-5
    )


def test_several_classes_and_costs_are_each_their_own_problem():
    X, _ = rows()
    y = np.argmax(X[:, :3] + 0.3, axis=1)
    options = {"loss": "hinge", "penalty": "l1", "tol": 1e-5, "passes": 20000}
    together = sm.train((X, y), C=[0.2, 1.0], valid=(X, y), **options)
    assert together.converged and together.model.coef_.shape == (3, 8)
    alone = sm.train((X, y), C=together.model.header["C"], **options)
    assert together.certificate["primal"] == pytest.approx(alone.certificate["primal"], rel=2e-5)
    for k, figures in enumerate(alone.certificate["per_class"]):
        best = conic.solve(X, np.where(y == k, 1, -1), np.full(50, alone.model.header["C"]), "l1")[0]
        assert figures["dual"] <= best * (1 + 1e-6) and figures["primal"] == pytest.approx(best, rel=1e-5)
    predicted = np.argmax(X @ alone.model.coef_.T + alone.model.intercept_, axis=1)
    assert alone.certificate["mistakes"] == np.sum(predicted != y)


def test_a_C_too_small_for_any_weight_is_proven_by_the_first_read():
    X, y = rows()
    y = np.where(np.arange(50) % 2, 1, -1)  # as many of either class
    result = sm.train((X, y), penalty="l1", C=0.01)
    assert result.converged and result.passes == 1 and not result.model.coef_.any()
    assert result.certificate["primal"] == pytest.approx(0.5) and result.certificate["dual"] == pytest.approx(0.5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rarer", [0.1, slow(0.4)])
def test_so_it_is_where_one_class_is_rarer_and_the_constant_is_not_penalised(loss, rarer):
    X, _ = rows()
    y, options = np.where(np.arange(50) < 50 * rarer, "rare", "more"), {"penalty": "l1", "loss": loss, "tol": 1e-6}
    result = sm.train((X, y), C=0.001, sample_weight=WEIGHTS, bias="free", **options)
    assert result.converged and result.passes == 1 and not result.model.coef_.any()
    signs = np.where(y == result.model.classes_[1], 1.0, -1.0)

    def losses(b):
        return sum(terms(loss).primal(s * b, 0.001 * w) for s, w in zip(signs, WEIGHTS, strict=True) if w > 0)

    low, high = -4.0, 4.0
    for _ in range(80):  # of a convex sum: a third of the stretch is without the least
        third = (high - low) / 3.0
        low, high = (low, high - third) if losses(low + third) <= losses(high - third) else (low + third, high)
    least = losses(low)
    assert result.certificate["primal"] == pytest.approx(least, rel=1e-6)
    assert losses(result.model.intercept_[0]) == pytest.approx(least, rel=1e-6)
    three = sm.train((X, np.digitize(np.arange(50), [4, 20])), C=0.001, **options)
    # a factor of the duals bounds what they give by less if that is no line: the reject-option hinge at its bend
    assert three.converged and (three.passes == 1 or loss == "generalized_hinge") and not three.model.coef_.any()


@pytest.mark.parametrize("algorithm", ["primal", "dual"])
def test_the_algorithms_of_the_paper(algorithm):
    """Step by step as they stand there, with the mean loss in place of the sum."""
    X, y = rows()
    n, C, passes = 50, 0.3, 12
    A = np.column_stack([X, np.ones(n)]) * y[:, None]
    lam = 1 / (n * C)
    gamma = math.sqrt(n / (2 * (A**2).sum(axis=1).max()))

    def prox(v):
        return np.append(np.sign(v[:-1]) * np.maximum(np.abs(v[:-1]) - gamma * lam, 0), v[-1])

    def up(alpha, w):
        return np.clip(alpha + gamma * (1 - A @ w) / n, 0, 1)

    seen, w, u, alpha, beta = [np.zeros(9)], np.zeros(9), np.zeros(9), np.zeros(n), np.zeros(n)
    if algorithm == "primal":
        alpha = up(alpha, w)
        u = w + gamma * A.T @ alpha / n
        for _ in range(passes):
            before, w = alpha, prox(u + gamma * A.T @ alpha / n)
            alpha = up(alpha, w)
            u = w + gamma * A.T @ (alpha - before) / n
            seen.append(w)
    else:
        for _ in range(passes):
            alpha = up(beta, w)
            w = prox(w + gamma * A.T @ alpha / n)
            beta = up(beta, w)
            seen.append(w)
    result = sm.train((X, y), penalty="l1", C=C, solver=f"pdprox:{algorithm}", passes=passes, tol=0.0)

    def value(w):
        return np.abs(w[:-1]).sum() + C * np.maximum(1 - A @ w, 0).sum()

    first = int(algorithm == "dual")  # its mean leaves out w_0
    last, means = seen[:passes], [seen[0], *(np.mean(seen[first : t + 1], axis=0) for t in range(1, passes))]
    assert result.certificate["primal"] == pytest.approx(min(map(value, [*last, *means])), rel=1e-12)
    for average, answer in ((True, means[-1]), (False, last[-1])):  # not the best of them
        word = str(sm.solvers.Pdprox(algorithm, average=average))
        result = sm.train((X, y), penalty="l1", C=C, solver=word, passes=passes, tol=0.0)
        assert result.certificate["primal"] == pytest.approx(value(answer), rel=1e-12)
        w = [*result.model.coef_[0], result.model.intercept_[0]]
        np.testing.assert_allclose(w, answer, rtol=1e-12, atol=1e-15)


def test_theorem_6_bounds_the_gap_of_the_means():
    """With w~ and alpha~ of the means: those of an elastic net exist."""
    X, y = rows()
    n, C, T = 50, 0.3, 200
    A, r = y[:, None] * X, 0.5
    gamma, lam = math.sqrt(n / (2 * (A**2).sum(axis=1).max())), 1 / (n * C)
    w, beta, ws, alphas = np.zeros(8), np.zeros(n), [], []
    for _ in range(T):
        alpha = np.clip(beta + gamma * (1 - A @ w) / n, 0, 1)
        v = w + gamma * A.T @ alpha / n
        w = np.sign(v) * np.maximum(np.abs(v) - gamma * lam * r, 0) / (1 + gamma * lam * (1 - r))
        beta = np.clip(beta + gamma * (1 - A @ w) / n, 0, 1)
        ws.append(w), alphas.append(alpha)
    w, alpha = np.mean(ws, axis=0), np.mean(alphas, axis=0)
    theta = A.T @ alpha * C
    best_w = np.sign(theta) * np.maximum(np.abs(theta) - r, 0) / (1 - r)
    best_alpha = (A @ w < 1).astype(float)
    primal = r * np.abs(w).sum() + (1 - r) / 2 * w @ w + C * np.maximum(1 - A @ w, 0).sum()
    dual = C * alpha.sum() - (1 - r) / 2 * best_w @ best_w
    bound = (best_w @ best_w + best_alpha @ best_alpha) / (2 * gamma * T)
    assert 0 <= (primal - dual) / (n * C) <= bound
    result = sm.train(
        (X, y), penalty="elasticnet", C=C, solver="pdprox:dual", passes=T, tol=0.0, bias=0
    )  # whose better pair is at least as good
    assert (result.certificate["primal"] - result.certificate["dual"]) / (n * C) <= bound


def test_out_of_core_in_the_memory_that_was_given(tmp_path):
    import h5py

    rng = np.random.default_rng(0)
    X = rng.standard_normal((40000, 60))
    y = np.sign(X[:, 0] - X[:, 1] + rng.standard_normal(40000))
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"], file["groups"] = X, y, np.arange(60) // 6
    np.savetxt(tmp_path / "groups.txt", np.arange(60) // 6, fmt="%d")
    np.save(tmp_path / "groups.npy", np.arange(60) // 6)
    ways = ["groups", f"{tmp_path}/rows.h5:groups", str(tmp_path / "groups.txt"), str(tmp_path / "groups.npy")]
    results = [
        sm.train(str(tmp_path / "rows.h5"), penalty=sm.penalties.Group(groups), memory="18M", C=1e-4, tol=1e-2)
        for groups in ways
    ]
    assert all(result.converged for result in results)
    inside = sm.train((X, y), penalty=sm.penalties.Group(np.arange(60) // 6), C=1e-4, tol=1e-2)
    for result in results:
        assert result.history[0]["plan"]["blocks"] > 1
        np.testing.assert_array_equal(result.model.coef_, results[0].model.coef_)
        assert not result.model.coef_[0, 6:].any() and result.model.coef_[0, :6].all()
    # in memory w moves otherwise, towards the same optimum
    assert inside.converged
    assert not inside.model.coef_[0, 6:].any() and inside.model.coef_[0, :6].all()
    assert max(results[0].certificate["dual"], inside.certificate["dual"]) <= min(
        results[0].certificate["primal"], inside.certificate["primal"]
    )


X, Y = rows()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"penalty": "l3"}, "unknown penalty 'l3'; .*known: l2, elasticnet"),
        ({"penalty": "elasticnet:1.5"}, "l1_ratio of elasticnet must be a number from 0 to 1, not 1.5"),
        ({"penalty": "l1", "norm": 1.5}, 'there is no norm here; give penalty="lp:1.5"'),
        ({"penalty": "l1:1.5"}, "l1 has no parameter '1.5'; l1 has low"),
        ({"l1_ratio": 0.5}, 'there is no l1_ratio here; give penalty="elasticnet:0.5"'),
        ({"penalty": "group"}, 'group needs groups; group has groups .*, as in penalty="group:FILE"'),
        ({"penalty": sm.penalties.Group([0, 1])},
            r"groups has the shape \(2,\), but X has 8 columns"),
        ({"penalty": sm.penalties.Group([0, 1, 2, -1, 0, 0, 0, 0])}, "column 3 has -1"),
        ({"penalty": sm.penalties.Group([0, 1, 2, math.nan, 0, 0, 0, 0])}, "column 3 has nan"),
        ({"penalty": sm.penalties.Group([0, 1, 2, 0.5, 0, 0, 0, 0])}, "column 3 has 0.5"),
        ({"penalty": sm.penalties.Group(list("abcdefgh"))}, "must be integers"),
        ({"penalty": sm.penalties.Group("none.txt")}, "the file none.txt of groups does not exist"),
        ({"penalty": "exclusive:none.txt"}, "none.txt of groups does not exist; name one with an integer per line"),
        ({"penalty": "l1", "C": math.inf}, "the hard margin, C = inf, is for the penalties l2 and lp"),
        (
            {"penalty": "l1", "solver": "active-set"},
            'not for penalty="l1"; give a finite C with solver="newton", or use penalty=',
        ),
        ({"C": math.inf, "bias": "free"}, 'with a penalised constant; use bias=1, or give a finite C$'),
        ({"penalty": "l1", "solver": "sdca"}, 'sdca does not take penalty="l1" .*; use solver="newton"$'),
        ({"penalty": "lp:1.5", "solver": "newton"}, '^newton supports .* with p = 2 only, not 1.5'),
        ({"penalty": "elasticnet", "solver": "sdca", "bias": "free"}, 'to be penalised; use solver="newton", or bias='),
        ({"penalty": "l2", "bias": "free", "solver": "sdca"}, "constant column to be penalised"),
        ({"solver": "pdprox", "C": math.inf}, "pdprox needs a finite C"),
        ({"solver": "pdprox", "penalty": "lp:1.5"}, "p = 2 only, not 1.5; use solver=\"ascent\""),
        ({"penalty": "lp:1.5", "bias": "free"}, "pdprox supports penalties with p = 2 only, not 1.5; use bias=1, or"),
        ({"penalty": "l1", "solver": "pdprox:1/t"}, "the parameter algorithm of pdprox must be primal or dual"),
        ({"loss": "hinge:top=0.0"}, "the parameter top of hinge must be a positive finite number, not 0.0; hinge"),
        ({"loss": "hinge:top=3.0", "solver": "sdca"}, "sdca does not support the parameter top of a loss"),
        ({"bias": "perhaps"}, "bias must be 0 for none, a positive number or free or midway"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_sentence(options, message):
    with pytest.raises((UsageError, DataError, sm.errors.StreamMarginError), match=message):
        sm.train((X, Y), **options)


def test_the_classifier_selects_columns():
    estimators = pytest.importorskip("sklearn.feature_selection")
    base = pytest.importorskip("sklearn.base")
    sparse = sm.MarginClassifier(penalty="l1", C=1.0, tol=1e-4, passes=5000)
    chosen = estimators.SelectFromModel(sparse, threshold=1e-8).fit(X, Y)
    assert np.array_equal(chosen.get_support(), chosen.estimator_.coef_[0] != 0.0)
    assert chosen.get_support().sum() == 5
    groups = base.clone(sm.MarginClassifier(penalty=sm.penalties.Group(GROUPS), C=0.6, tol=1e-4, passes=5000)).fit(X, Y)
    assert groups.certificate_.converged
    for g in range(3):  # column 5 is empty
        kept = groups.coef_[0, (g == GROUPS) & (np.arange(8) != 5)] != 0.0
        assert kept.all() or not kept.any()


def test_a_group_of_empty_columns_has_weights_of_0():
    groups = np.array([0, 0, 0, 0, 0, 1, 0, 0])
    result = sm.train((X, Y), penalty=sm.penalties.Group(groups), tol=1e-4, C=0.3, passes=5000)
    assert result.converged and result.model.coef_[0, 5] == 0.0


def test_rows_of_any_size_are_learned_and_those_beyond_numbers_refused():
    small = sm.train((1e-60 * X, Y), penalty="l1", C=0.5e60, passes=3000, bias=0)
    assert small.converged
    with pytest.raises(DataError, match="too far from 1 to compute with"):
        sm.train((1e200 * X, Y), penalty="l1")


@pytest.mark.parametrize("penalty", ["l1", "l2norm", "linf", "group"])
def test_large_rows_and_steps_that_rounding_loses(penalty):
    X, given = np.diag([1e9] * 8), PENALTIES[penalty]
    result = sm.train(
        (np.vstack([X, -X]), [1] * 8 + [-1] * 8),
        penalty=words.penalty(penalty, **given),
        solver="pdprox",
        bias=0.0,
        C=1e8,
        passes=500,
    )
    figures, best = (
        result.certificate,
        of_columns(words.penalty(penalty, **given), 8).value(np.full(8, 1e-9)),
    )  # no loss is left
    assert 0.0 < figures["dual"] <= best * (1 + 1e-12) and best <= figures["primal"] * (1 + 1e-12)
    assert figures["gap"] < 1.0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [0.97, 3.0])
def test_a_constant_that_is_not_penalised_holds_nothing_back(seed, share):
    """Near the C at which weights leave 0 all that is not 0 is the constant, and that of centred numbers nearly is."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((random.integers(20, 200), 5))
    y = random.standard_normal(len(X))
    zero_factor = 1.0 / np.abs(X.T @ np.where(y > np.quantile(y, 0.9), 0.9, -0.1)).max()
    options = {"solver": "pdprox", "penalty": "l1", "loss": "quantile:0.9"}
    result = sm.train((X, y), C=share * zero_factor, tol=1e-6, passes=60, **options)
    assert result.converged


def test_tiny_weights_and_flat_rows_leave_the_steps_of_groups_finite(monkeypatch):
    seen, begin = [], column_steps.Inner.__init__

    def watched(inner, problem, penalty, run, task, w):
        if task.alpha.any() and math.isfinite(task.sigma) and not seen:
            begin(inner, problem, penalty, run, task, np.full(w.size, 1e-160))
            seen.append((inner.terms.ridge, inner.attain()))
            inner.terms = inner.terms._replace(ridge=0.0, roots=np.full_like(inner.terms.roots, 0.3))
            inner.answers.slopes[:] = 0.0
            for size in (0.1, 0.3, 0.7, 1.1):
                inner.w[:] = 0.0
                inner.w[inner.terms.first[:-1]] = size
                seen.append((float(inner._model()[3].min()), float(inner._model()[3].max())))
        begin(inner, problem, penalty, run, task, w)

    monkeypatch.setattr(column_steps.Inner, "__init__", watched)
    X, y = noisy(60, 6, seed=4)
    groups = sm.penalties.Group([0, 0, 0, 1, 1, 1])
    sm.train((as_form(X, "dense", np.float64), y), loss="hinge", penalty=groups, solver="pdprox", bias=0.0)
    assert len(seen) == 5 and np.isfinite(seen).all() and min(map(min, seen)) > 0.0
