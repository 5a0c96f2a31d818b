"""Coordinate ascent that switches to momentum: when it does, and that its bounds hold before and after."""

import numpy as np
import pytest
from conftest import slow
from reference.datasets import noisy
from reference.optimum import solve
from reference.stopped import stop_after
from reference.training import binary, check_certificate

import streammargin as sm
from streammargin.solvers.coordinate.ascent import FIRST_LOOK_PASSES, passes_left

SLOW = {"C": 100.0, "bias": 0, "tol": 1e-6, "passes": 5000}


def train(solver="ascent", data=None, **options):
    return sm.train(noisy(60, 40) if data is None else data, solver=solver, **{**SLOW, **options})


def estimates(result):
    return [event["estimate"] for event in result.history if event["event"] == "pass_end"]


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("norm", [2, 1.5])
def test_the_optimum_is_found_with_momentum(loss, norm):
    X, y = noisy()
    problem = binary(X, y, loss=loss, norm=norm, C=SLOW["C"])
    result = train(data=(X, y), loss=loss, penalty=f"lp:{norm}")
    assert result.passes > FIRST_LOOK_PASSES and estimates(result) != estimates(
        train("sdca", (X, y), loss=loss, penalty=f"lp:{norm}")
    )
    check_certificate(result, problem, solve(problem, loss), result.model.coef_[0], SLOW["tol"])


def test_it_is_sdca_until_that_would_take_long():
    plain, ours = estimates(train("sdca")), estimates(train())
    assert ours[:FIRST_LOOK_PASSES] == plain[:FIRST_LOOK_PASSES] and ours[FIRST_LOOK_PASSES] != plain[FIRST_LOOK_PASSES]
    assert len(ours) < 0.7 * len(plain)


def test_it_stays_sdca_where_that_is_nearly_there():
    quick = {"C": 0.1, "tol": 1e-4}
    plain, ours = train("sdca", **quick), train(**quick)
    assert ours.converged and plain.model.coef_.tobytes() == ours.model.coef_.tobytes()


def test_a_training_that_was_stopped_goes_on_over_the_change(tmp_path):
    options = {"checkpoint": str(tmp_path), "passes": FIRST_LOOK_PASSES + 12}
    stopped = train(**options, should_stop=stop_after(FIRST_LOOK_PASSES + 5))
    assert stopped.resumable and stopped.passes > FIRST_LOOK_PASSES
    whole, resumed = train(passes=FIRST_LOOK_PASSES + 12), train(**options)
    assert resumed.model.coef_.tobytes() == whole.model.coef_.tobytes()
    assert estimates(resumed) == estimates(whole)


def test_a_hard_margin_is_for_others():
    with pytest.raises(sm.UsageError, match="ascent needs a finite C"):
        train(C=np.inf)


def test_passes_left():
    assert passes_left(1e-1, 1e-2, 8, 1e-3) == pytest.approx(8)
    assert passes_left(1e-2, 1e-3, 8, 1e-3) == 0.0
    assert passes_left(0.5, 0.6, 8, 1e-3) == passes_left(0.6, 0.5, 8, 0.0) == np.inf


class Plain(sm.penalties.Penalty):
    """The elastic net of l1_ratio 0.3 by its conjugate and bound, without a gauge."""

    net = sm.penalties.ElasticNet(0.3)
    norm = net.norm

    def value(self, w):
        return self.net.value(w)

    def conjugate(self, theta):
        return self.net.conjugate(theta)

    def bound(self, gain, theta, blur, rounding):
        return self.net.bound(gain, theta, blur, rounding)

    def mirror(self, theta):
        return self.net.mirror(theta)

    def powers(self, theta):
        return np.zeros(theta.size)

    def prox(self, v, steps):
        return self.net.prox(v, steps)


@pytest.mark.parametrize(
    "penalty", ["elasticnet:0.3", slow(sm.penalties.Group(np.arange(12) // 3, 0.5)), Plain()], ids=str
)
def test_it_serves_a_strongly_convex_penalty_and_stays_without_momentum(penalty):
    """Momentum is for l2 and lp alone: many passes change over to it there, and to nothing here."""
    X, y = noisy(90, 12)
    options = {"penalty": penalty, "C": 30.0, "bias": 1.0, "tol": 1e-6, "passes": 20000}
    ascent, sdca, other = (sm.train((X, y), solver=name, **options) for name in ("ascent", "sdca", "pdprox"))
    assert ascent.converged and ascent.passes > 64
    assert np.array_equal(ascent.model.coef_, sdca.model.coef_)
    assert ascent.certificate["primal"] == pytest.approx(other.certificate["primal"], rel=2e-6)
    with pytest.raises(sm.UsageError, match=r"asdca .*=\"(elasticnet|group|plain).* \(momentum is for l2 and lp alone"):
        sm.train((X, y), solver="asdca", **options)
