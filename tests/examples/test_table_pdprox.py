"""Table 1 of the Pdprox paper: its method, and its verdicts."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from reference.datasets import noisy

import streammargin as sm

pytest.importorskip("matplotlib", reason="the verdicts stand beside the figures, which need matplotlib")
pytest.importorskip("liblinear", reason="LIBLINEAR is an extra (benchmarks)")

from examples import table_pdprox


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_the_averages_come_to_the_optimum_that_training_finds(form):
    X, y = noisy(60, 5, seed=1)
    n, budget = 60, 20
    w, iterations, gap = table_pdprox.pdprox(form(X), y, budget, gap=3e-3, most=3000)
    assert gap <= 3e-3 and iterations > 10
    losses = np.sort(np.maximum(1.0 - y * (X @ w), 0.0))[n - budget :]
    best = sm.train(
        (X, y), C=1.0, bias=0, loss=f"hinge:top={budget}", solver="pdprox", tol=1e-6, passes=20000
    ).certificate
    assert best.dual * (1 - 1e-9) <= losses.sum() + 0.5 * w @ w <= best.primal + 3e-3 * n


def test_verdicts_follow_the_numbers(capsys):
    for gain, holds in ((0.04, True), (-0.04, False), (0.004, False)):
        theirs = np.full(5, 0.8)
        table_pdprox.judge("a9a", np.column_stack([theirs + gain + [0.0, 0.01, -0.01, 0.01, -0.01], theirs]))
        assert capsys.readouterr().out.startswith("confirmed" if holds else "NOT confirmed")
    table_pdprox.judge("a9a", np.array([[0.9, 0.8]]))  # one seed proves nothing
    assert capsys.readouterr().out.startswith("NOT confirmed")


def test_the_budget_of_covtype_goes_with_its_rows():
    assert table_pdprox.budget_of("a9a", 100) == 200
    assert table_pdprox.budget_of("covtype20k", 16000) == 112 == round(4000 * 16000 / 571012)
    assert math.isclose(table_pdprox.accuracy(np.eye(2), np.array([1, -1]), np.array([1.0, 1.0])), 0.5)
