"""Losses of classes with penalties over all lines of weights, against an interior-point method."""

from itertools import cycle

import numpy as np
import pytest
from conftest import slow

import streammargin as sm
from streammargin.errors import UsageError
from streammargin.verification.verify import verify

conic = pytest.importorskip(
    "reference.conic_outputs", reason="the interior-point method is clarabel's", exc_type=ImportError
)

N, D, C = 36, 4, 0.6
JOINED = ["l21", "l1inf", "trace", "l21:0.5", "l1inf:0.4", "trace:0.6", "exclusive"]
BY_LINE = ["l2", "l1", "elasticnet:0.5"]
LOSSES = {"logistic": "joint", "hinge": "joint", "hinge of each": "ovr", "logistic of each": "ovr"}
WAYS = cycle([(3, True, True), (4, False, False), (5, True, False), (3, False, True), (2, True, True)])
PAIRS = [
    (loss, penalty, *next(WAYS)) for loss in LOSSES for penalty in JOINED + (BY_LINE if LOSSES[loss] == "joint" else [])
]
SMOOTH = ("logistic", "logistic of each")
SOLVED = [
    (solver, *pair) if usual else slow(solver, *pair)
    for pair in PAIRS
    for solver, usual in (("newton", pair[0] != "logistic of each"), ("pdprox", pair[0].startswith("hinge")))
]


def rows(K, seed=0):
    """X (n, d) with a column of 0, codes of which the first K are all there, weights of rows with some 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D))
    X[:, 3] = 0.0
    codes = np.argmax(X[:, :1] * np.arange(K) + rng.gumbel(size=(N, K)), axis=1)
    codes[:K] = np.arange(K)
    weights = rng.choice([0.5, 1.0, 2.0, 0.0], N)
    weights[:K] = 1.0
    return X, codes, weights


def optimum(loss, penalty, X, codes, caps, K, free):
    """The optimum of the definition; two classes have one line of weights, for the second."""
    there = caps > 0.0
    X, codes, caps = X[there], codes[there], caps[there]
    name, _, ratio = penalty.partition(":")
    r = {"l2": 0.0, "elasticnet": 0.5}.get(name, float(ratio or 1.0))
    lines = 1 if K == 2 else K
    program = conic.Outputs(X, lines, 1.0, free)
    own = (codes == 1)[:, None] if K == 2 else codes[:, None] == np.arange(K)
    if LOSSES[loss] == "joint" and K > 2:
        {"logistic": program.softmax, "hinge": program.crammer_singer}[loss](codes, caps)
    else:
        of = program.logistic if loss.startswith("logistic") else program.hinge
        of(np.where(own, 1.0, -1.0), np.repeat(caps[:, None], lines, axis=1))
    program.penalise({"elasticnet": "l1"}.get(name, name), r)
    return program.solve()


@pytest.mark.parametrize("solver, loss, penalty, K, free, weighted", SOLVED)
def test_every_pair_is_solved_to_what_the_interior_point_method_finds(solver, loss, penalty, K, free, weighted):
    X, codes, weights = rows(K)
    weights = weights if weighted else np.ones(N)
    if K == 2 and penalty == "exclusive":
        penalty = "trace:0.3"
    best, _, _ = optimum(loss, penalty, X, codes, C * weights, K, free)
    result = sm.train(
        (X, codes), solver=solver, loss=loss.split()[0], multiclass=LOSSES[loss], penalty=penalty, C=C, tol=1e-6,
        bias="free" if free else 1, sample_weight=weights, passes=5000,
    )  # fmt: skip
    figures = result.certificate
    assert result.converged and figures.dual <= best * (1 + 1e-6)
    assert figures.primal == pytest.approx(best, rel=2e-6)
    assert result.passes <= {"newton": 10 if loss in SMOOTH else 200}.get(solver, 2000)


@pytest.mark.parametrize("penalty", ["l21", "l1inf:0.5", "trace", "exclusive"])
@pytest.mark.parametrize("multiclass", ["joint", "ovr"])
@pytest.mark.parametrize("solver", ["newton", "pdprox", "pdprox:dual"])
def test_the_model_is_verified_by_numpy_alone(penalty, multiclass, solver, tmp_path):
    X, codes, _ = rows(4)
    sm.write_hdf5([(X, codes)], tmp_path / "rows.h5")
    options = {"multiclass": multiclass, "penalty": penalty, "loss": "hinge", "C": C, "passes": 20_000}
    result = sm.train(
        str(tmp_path / "rows.h5"), solver=solver, tol=1e-1 if solver == "pdprox:dual" else 1e-3, **options
    )
    result.model.save(tmp_path / "model.npz")
    checks = verify(str(tmp_path / "model.npz"), str(tmp_path / "rows.h5"))
    assert all(check.agrees is not False for check in checks) and any(check.name == "primal" for check in checks)
    assert result.model.coef_.shape == (4, D) and result.certificate.converged


@pytest.mark.parametrize("width", [0.5, 1.0])
def test_a_loss_that_is_straight_at_weights_of_0_is_trained(width, tmp_path):
    """No row bends there: the first Hessian counts all rows as curved."""
    X, codes, _ = rows(3)
    result = sm.train((X, codes), loss=f"smooth_hinge:{width}", penalty="l21", C=C, bias=1, tol=1e-6)
    sm.write_hdf5([(X, codes)], tmp_path / "rows.h5")
    result.model.save(tmp_path / "model.npz")
    assert result.converged
    assert all(check.agrees is not False for check in verify(tmp_path / "model.npz", tmp_path / "rows.h5"))


def test_one_group_of_lines_is_one_figure():
    X, codes, _ = rows(4)
    joined = sm.train((X, codes), multiclass="ovr", penalty="l21", C=C, tol=1e-4).certificate
    alone = sm.train((X, codes), multiclass="ovr", penalty="l1", C=C, tol=1e-4).certificate
    assert len(joined.per_class) == 1 and len(alone.per_class) == 4
    assert joined.gap <= 1e-4


def test_few_columns_are_left_for_all_classes_at_once():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 12))
    codes = np.argmax(X[:, :3] + rng.gumbel(size=(400, 3)), axis=1)
    w = sm.train((X, codes), loss="logistic", penalty="l21", C=0.05, tol=1e-4).model.coef_
    zero = w == 0.0
    assert np.array_equal(zero.all(axis=0), zero.any(axis=0)) and zero.all(axis=0).sum() >= 5
    assert not zero[:, :3].any()


def test_few_directions_are_left_for_all_classes_at_once():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 6))
    codes = np.argmax(X[:, :1] * [-4.0, -1.0, 1.0, 4.0] + rng.gumbel(size=(400, 4)), axis=1)
    ranks = [
        np.linalg.matrix_rank(sm.train((X, codes), loss="logistic", penalty=penalty, C=0.05).model.coef_, tol=1e-9)
        for penalty in ("trace", "l2")
    ]
    assert ranks == [1, 3]


def test_solvers_that_train_each_line_by_itself_refuse_what_joins_them():
    X, codes, _ = rows(3)
    with pytest.raises(UsageError, match=r'^sdca .*solver="newton"'):
        sm.train((X, codes), solver="sdca", penalty="l21", loss="hinge", multiclass="ovr", C=C)
    with pytest.raises(UsageError, match="counts the largest losses of one output, and here several are joined"):
        sm.train((X, codes), solver="pdprox", penalty="l21", loss="hinge:top=5", multiclass="ovr", C=C)
    with pytest.raises(UsageError, match="exclusive without groups is about the outputs of each column"):
        sm.train((X, np.sign(X[:, 0])), penalty="exclusive", C=C)


@pytest.mark.parametrize("options", [
    {"multiclass": "joint", "penalty": "l1", "solver": "newton"}, {"multiclass": "ovr", "penalty": "l21"},
])  # fmt: skip
def test_mistakes_are_those_of_the_certified_weights(options):
    """The last pass may improve the bound alone: then the weights are those of an earlier one."""
    for seed in range(1, 9):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((150, 4))
        codes = np.argmax(X[:, :1] * np.arange(3) + rng.gumbel(size=(150, 3)), axis=1)
        codes[:3] = np.arange(3)
        result = sm.train((X, codes), C=0.5, tol=1e-2, **options)
        assert result.certificate.mistakes == np.sum(result.model.predict(X) != codes)


@pytest.mark.parametrize("kind", ["classes", "labels", "numbers"])
def test_early_stop_certifies_losses_of_each_line(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    Y = X @ rng.standard_normal((4, 3)) + rng.standard_normal((200, 3))
    codes, signs = np.argmax(Y, axis=1), np.where(Y > 0.0, 1.0, -1.0)
    labels = {"classes": codes, "labels": (Y > 0.0).astype(int), "numbers": Y}[kind]
    options = {"loss": "absolute_error"} if kind == "numbers" else {"loss": "hinge"}
    if kind == "classes":
        options, signs = {**options, "multiclass": "ovr"}, np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    result = sm.train((X, labels), penalty="l21", C=0.5, bias=0, valid=(X, labels), early_stop=3, **options)
    scores, figures = X @ result.model.coef_.T, result.certificate
    losses = np.abs(Y - scores) if kind == "numbers" else np.maximum(0.0, 1.0 - signs * scores)
    value = np.linalg.norm(result.model.coef_, axis=0).sum() + 0.5 * losses.sum()
    assert figures.primal == pytest.approx(value, rel=1e-9) and figures.dual < figures.primal
    wrong = {"classes": np.sum(np.argmax(scores, axis=1) != codes), "labels": np.sum(signs * scores < 0.0)}
    assert figures.mistakes == wrong.get(kind)
