"""The sums, the matrix and the step of Newton's method against the slow twins."""

import numpy as np
import pytest
from conftest import slow
from reference import newton, words
from reference.datasets import as_form, noisy
from reference.training import binary
from reference.words import sized

from streammargin.compiled import look as kernel
from streammargin.compiled import newton as steps
from streammargin.compiled.jit import kernel as compiled
from streammargin.losses.base import middle_share
from streammargin.rows.labels import Labels, numbered_from
from streammargin.solvers.columns.gradients import direction
from streammargin.sources.arrays import ArraySource

BIAS = 0.5
FORMS = [slow("dense", np.float32), ("dense", np.float64), slow("csr", np.float32), ("csr", np.float64)]


@compiled
def gram(block, rows, factors, H):
    block.add_gram(rows, factors, np.zeros((32, H.shape[0])), H)


class Setting:
    """Forty rows, two of them absent; softness 0 for a loss that is smooth."""

    def __init__(self, loss, form="csr", dtype=np.float64, softness=0.7, seed=3):
        X, y = noisy(40, 6, seed=2)
        X = X.astype(dtype).astype(float)
        rng = np.random.default_rng(seed)
        codes = ((y + 1) // 2).astype(np.int16)
        codes[[4, 17]] = -1
        weights = rng.choice([0.0, 0.01, 1.0, 3.0], 40)
        mass = weights * (codes >= 0)
        self.there = np.flatnonzero(mass > 0)
        self.problem = binary(X, y, loss=loss, width=0.5, C=0.7, bias=BIAS, sample_weight=mass)
        self.block = ArraySource(as_form(X, form, dtype)).whole()._replace(bias=BIAS)
        self.labels = Labels(codes, np.array([1]), np.full((1, 2), 0.7), weights, np.empty(0))
        self.loss, self.softness = sized(loss, 0.5), softness
        self.w, self.crisp = 0.6 * rng.standard_normal((1, 7)), np.empty(0)
        top = min(self.problem.loss.feasible(np.inf, 1.0), 2.0)
        self.alpha = np.zeros((1, 40))
        self.alpha[0, self.there] = self.problem.caps * top * rng.random(len(self.there))

    def look(self, **wanted):
        """The sums, and what is wanted besides; without `wanted` all of it."""
        self.margins, self.drift, self.active = np.zeros((1, 40)), np.zeros((1, 7)), np.zeros(1)
        self.keys, self.H, none = np.full(40, -1.0, np.float32), np.zeros((1, 7, 7)), np.zeros((1, 0))
        H = kernel.Curvature(self.H, drift=self.drift, active=self.active)
        wanted = wanted or {"H": H, "margins": self.margins[None], "keys": self.keys}
        H = wanted.pop("H", None)
        found = kernel.Looked(
            np.zeros((1, 1, kernel.LOSS_SUMS)), np.zeros((1, 1, kernel.DUAL_SUMS)), np.zeros((1, 1, 7)),
            np.zeros((1, 1), np.int64), **wanted,
        )  # fmt: skip
        rule = kernel.Prox(
            self.alpha, none, np.zeros(1), np.array([self.softness]), midway=middle_share(self.loss), crisp=self.crisp,
            gaps=True,
        )  # fmt: skip
        point = kernel.Frozen(self.w[None], np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(40))
        kernel.look(self.block, numbered_from(0), self.labels, self.loss, np.array([0]), point, rule, found, H)
        losses, duals, self.image = found.losses[0, 0], found.duals[0, 0], found.pull[0]
        return {
            "PRIMAL": losses[kernel.SUM_OF_LOSSES], "DUAL": duals[kernel.DUAL], "ACTIVE": self.active[0],
            "ATTAINED_GAPS": losses[kernel.SUM_OF_GAPS], "MISTAKES": losses[kernel.SUM_OF_MISTAKES],
        }  # fmt: skip


def soft(loss):
    return 0.0 if loss in ("squared_hinge", "logistic") else 0.7


@pytest.mark.parametrize("form, dtype", FORMS)
@pytest.mark.parametrize("loss", words.LOSSES)
def test_one_visit_gives_the_gradient_the_matrix_and_the_certificate(loss, form, dtype):
    s = Setting(loss, form, dtype, soft(loss))
    total = s.look()
    problem, w = s.problem, s.w[0]
    _, a = newton.merit(problem, w, s.alpha[0, s.there], s.softness)
    assert s.margins[0, s.there] == pytest.approx(problem.A @ w, rel=1e-12)
    assert s.image[0] == pytest.approx(problem.A.T @ a, rel=1e-5, abs=1e-7)
    H = np.triu(newton.hessian(problem, w, s.alpha[0, s.there], s.softness))
    assert np.triu(s.H[0]) + np.eye(7) == pytest.approx(H, rel=1e-3, abs=1e-4)
    primal, dual = total["PRIMAL"] + w @ w / 2, total["DUAL"] - s.image[0] @ s.image[0] / 2
    assert primal == pytest.approx(problem.primal(w), rel=1e-12)
    assert dual == pytest.approx(problem.dual(np.minimum(a, problem.top)), rel=1e-6, abs=1e-6)
    # the gap is that of the losses, and the distance of w from A^T a
    apart = w - s.image[0]
    assert primal - dual == pytest.approx(total["ATTAINED_GAPS"] + apart @ apart / 2, rel=1e-10)
    assert total["MISTAKES"] == problem.mistakes(w)
    caps, found, slopes, sums = np.empty(40), np.empty(40), np.empty(40), np.ones(steps.SUMS)
    steps.row_caps(s.labels, s.margins[0], caps)
    steps.attain(steps.proximal_steps.of(s.loss), s.softness, caps, s.alpha[0], s.margins[0], found, slopes, sums)
    assert found[s.there] == pytest.approx(a, rel=1e-6, abs=1e-8)
    assert not np.delete(found, s.there).any()
    for name in ("PRIMAL", "DUAL", "ATTAINED_GAPS", "ACTIVE"):
        assert sums[getattr(steps, name)] == pytest.approx(total[name], rel=1e-12)
    image, matrix = s.image, s.H[0]
    alone = s.look(keys=np.zeros(0, np.float32))  # nothing else is wanted, and the sums are the same
    assert {**alone, "ACTIVE": total["ACTIVE"]} == total and np.array_equal(s.image, image)
    s.H[0] = matrix
    again, matrix = np.zeros(7), np.zeros((7, 7))
    steps.add_image(s.block, numbered_from(0), s.labels, 0, found, again)
    steps.add_matrix(s.block, numbered_from(0), slopes, matrix)
    assert again == pytest.approx(s.image[0], rel=1e-12) and matrix == pytest.approx(s.H[0], rel=1e-12)


@pytest.mark.parametrize("loss", [name for name in words.LOSSES if soft(name)])
def test_the_drift_is_how_the_gradient_changes_with_the_softness(loss):
    seen, width = [], 1e-6
    for share in (-width, 0.0, width):
        seen.append(Setting(loss, softness=0.7 * np.exp(share)))
        seen[-1].look()
    expected = (seen[0].image - seen[2].image) / (2 * width)
    assert np.abs(expected).max() > 0.01 and seen[1].drift == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("loss", words.LOSSES)
def test_duals_and_slopes_are_the_derivatives_of_the_merit(loss):
    s = Setting(loss, softness=soft(loss))
    s.look()
    p = np.random.default_rng(5).standard_normal(7)
    products = np.zeros(40)
    steps.signed_products(s.block, numbered_from(0), s.labels, 0, p, products)
    assert products[s.there] == pytest.approx(s.problem.A @ p, rel=1e-12)
    centres, caps = s.alpha[0, s.there], np.empty(40)
    steps.row_caps(s.labels, s.margins[0], caps)
    a, bends = np.empty(40), np.empty(40)
    for t in (0.0, 0.3, 1.0):
        w = s.w[0] + t * p
        steps.attain(
            steps.proximal_steps.of(s.loss),
            s.softness,
            caps,
            s.alpha[0],
            s.margins[0] + t * products,
            a,
            bends,
            np.zeros(steps.SUMS),
        )
        gradient = newton.gradient(s.problem, w, centres, s.softness)
        assert w @ p - a @ products == pytest.approx(gradient @ p, rel=1e-4, abs=1e-5)
        second = bends @ np.square(products) + p @ p
        assert second == pytest.approx(p @ newton.hessian(s.problem, w, centres, s.softness) @ p, rel=1e-3)


def test_without_numbers_of_rows_the_centres_are_midpoints_and_duals_are_feasible():
    s = Setting("hinge")
    s.alpha[0, s.there] = 0.5 * s.problem.caps
    expected, given = s.look(), s.image.copy()
    s.alpha = np.zeros((1, 0))
    assert s.look() == expected and np.array_equal(s.image, given)
    # nan: a step from the midpoint with a softness of its own, then one from there
    s.alpha, s.crisp = np.full((1, 40), np.nan), np.full(1, 0.1)
    total, u = s.look(), s.problem.A @ s.w[0]
    start = np.clip(s.problem.caps * (0.5 + (1.0 - u) / 0.1), 0.0, s.problem.caps)
    a = np.clip(start + s.problem.caps * (1.0 - u) / s.softness, 0.0, s.problem.caps)
    assert s.image[0] == pytest.approx(s.problem.A.T @ a, rel=1e-12)
    assert total["DUAL"] == pytest.approx(a.sum(), rel=1e-12)
    away = np.abs(1.0 - u)
    assert s.keys[s.there] == pytest.approx(away / (1.0 + away), rel=1e-6)


def test_the_midpoint_of_an_interval_without_an_end_is_the_feasible_number_nearest_to_0():
    for loss, middle in (("hinge", 0.5), ("squared_hinge", 0.0)):
        assert middle_share(sized(loss, 0.5)) == middle


@pytest.mark.parametrize("size", [1, 7, 33, 300])
def test_the_direction_solves_the_system(size):
    rng = np.random.default_rng(size)
    A, g = rng.standard_normal((size + 5, size)), rng.standard_normal(size)
    H = np.triu(A.T @ A)
    p = direction(H.copy(), g)
    assert p == pytest.approx(-np.linalg.solve(np.eye(size) + A.T @ A, g), rel=1e-8, abs=1e-10)


def test_a_matrix_that_rounding_has_spoilt_still_gives_a_way_down():
    g = np.array([1.0, -2.0, 3.0])
    H = np.outer([1e9, 1e9, 1.0], [1e9, 1e9, 1.0])
    H[1, 1] -= 1e4  # no sum of squares any more
    p, mended = steps.newton_direction(H.copy(), g, 1e-13)
    assert mended > 0 and p @ g < 0
    assert direction(np.full((3, 3), np.nan), g) @ g < 0


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_the_gram_matrix_of_many_rows_and_columns(form):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((70, 300)) * (rng.random((70, 300)) < 0.3)
    rows, factors, H = np.arange(0, 70, 2), rng.random(35), np.zeros((301, 301))
    block = ArraySource(as_form(X, form)).whole()._replace(bias=2.0)
    gram(block, rows, factors, H)
    Z = np.column_stack([X, np.full(70, 2.0)])[rows]
    expected = np.triu(Z.T @ (factors[:, None] * Z))
    assert pytest.approx(expected, rel=1e-12, abs=1e-12) == H


@pytest.mark.parametrize("loss", words.LOSSES)
def test_the_search_finds_the_lowest_point_of_a_way(loss):
    s = Setting(loss, softness=soft(loss))
    s.look()
    centres = s.alpha[0, s.there]
    downhill = -newton.gradient(s.problem, s.w[0], centres, s.softness)
    caps = np.empty(40)
    steps.row_caps(s.labels, s.margins[0], caps)
    for length in (1e-4, 1.0, 300.0):  # of a way; Newton's method alone would run away from some
        p = downhill * length / np.linalg.norm(downhill)
        products = np.zeros(40)
        steps.signed_products(s.block, numbered_from(0), s.labels, 0, p, products)

        way = s.alpha[0], s.margins[0], products, s.w[0] @ p, p @ p, -downhill @ p
        t = steps.lowest(steps.slope_along.of(s.loss), s.softness, caps, *way)
        end = newton.gradient(s.problem, s.w[0] + t * p, centres, s.softness) @ p
        assert end == pytest.approx(0.0, abs=1.01 * steps.FLAT_SLOPE_SHARE * (downhill @ p))
