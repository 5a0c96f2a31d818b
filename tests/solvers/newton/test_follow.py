"""Folds begin their Newton steps at the weights of all rows, once."""

from types import SimpleNamespace

import numpy as np

from streammargin.solvers.newton import steps


def test_folds_follow_all_rows_once_and_the_share_never_falls(monkeypatch):
    active, made = np.arange(4), []
    state = SimpleNamespace(
        step=np.array([steps.TAKE_STEP, *[steps.FOLLOW] * 3]), w=np.zeros((4, 2)), softness=np.zeros(4), sample=None
    )
    problem = SimpleNamespace(of_all_rows=lambda lines: np.zeros_like(lines), loss=None, values=9, features=1, rows=3)

    def one(self, problem, state, left, block, most):
        """A unit: all rows find weights of 3 in one, each fold needs two to find 0."""
        k = int(left[0])
        made.append((k, state.w[k].tolist()))
        state.w[k] = 3.0 if k == 0 else 0.0
        state.step[k] = steps.CERTIFY if k == 0 or sum(done == k for done, _ in made) == 2 else steps.TAKE_STEP

    monkeypatch.setattr(steps, "smooth", lambda loss: True)
    shares = []
    while (share := steps.Steps.move(SimpleNamespace(_at_once=lambda *given: one(None, *given)), problem, state, active,
                                     None)) is not None:  # fmt: skip
        shares.append(share)
    assert made == [(0, [0.0, 0.0])] + [(k, w) for k in (1, 2, 3) for w in ([3.0, 3.0], [0.0, 0.0])]
    assert shares == sorted(shares) and max(shares) < 1.0
