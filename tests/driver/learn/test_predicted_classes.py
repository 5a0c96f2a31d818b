"""Which classes are known to be predicted without another read."""

from types import SimpleNamespace

import numpy as np

from streammargin.driver.learn.validate import Predictions
from streammargin.driver.status.outcome import Outcome
from streammargin.solvers.proof.figures import Figures


def known(mistakes, wrong, out=0):
    """What is known of three classes of 5, 9 and 9 rows; mistakes: of each line; wrong: those of the last read.

    out: rows that are held out.
    """
    problem = SimpleNamespace(
        numeric=False, trials=1, tried=None, groups=3, per_trial=3, groups_of=lambda trial: slice(0, 3), compared=True,
        resident=True, present=23, outputs=SimpleNamespace(several=False, caps=np.ones((3, 3))),
        mean_gap=lambda k, figures: 0.0, rows_of=lambda trial: 23 - out,
    )  # fmt: skip
    figures = [Figures(1.0, 1.0, 0.0, None, None, None, each) for each in mistakes]
    outcome = Outcome("tolerance", np.ones(3, bool), 4, SimpleNamespace(), figures, np.array([wrong]), None)
    return Predictions(problem, np.array([5, 9, 9]), SimpleNamespace(), None).known(outcome, None)


def test_fewer_mistakes_than_rows_of_each_class_are_those_of_the_certified_weights():
    assert known([2, 2, 1], wrong=1) is None  # of the last read, whose weights may be others
    assert known([2, 1, 1], wrong=7).all()
    assert known([2, 1, 1], wrong=7, out=1) is None
