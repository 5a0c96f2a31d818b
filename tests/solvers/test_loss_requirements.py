"""What a solver requires of a loss: no more is needed, and what is lacking is named."""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from reference import bare
from reference.datasets import noisy, separable
from reference.wide import WideHinge

import streammargin as sm
from streammargin.cli.main import main
from streammargin.solvers.registry import make_solver, names


@pytest.fixture(scope="module")
def trainings():
    """Without the JIT, so that a call of a method that is not there is an error of that line."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-m", "reference.bare"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("solver", bare.SOLVERS_OF_LOSSES)
def test_what_it_requires_is_enough(trainings, solver):
    errors = {case: error for case, error in trainings.items() if case.startswith(f"{solver}: ")}
    assert {case: error for case, error in errors.items() if error is not None} == {}
    assert {case.split(", ")[1] for case in errors} == {"in memory", "blocks"}


@pytest.mark.parametrize("solver", bare.SOLVERS_OF_LOSSES)
def test_what_a_loss_lacks_is_named(solver):
    _, known = next(bare.models(solver))
    hard = make_solver(solver).default_C == np.inf
    called = make_solver(solver).called
    for lacking in make_solver(solver).required():
        loss = bare.own(bare.stub(known, [name for name in bare.least(solver, known) if name != lacking]))
        with pytest.raises(sm.UsageError, match=f"{called} needs the method {lacking} of a loss, which Stub lacks"):
            sm.train(separable() if hard else noisy(), solver=solver, loss=loss)


@pytest.mark.parametrize("options", [{"penalty": "l1"}, {"penalty": "linf"}, {"solver": "pdprox", "penalty": "l1"}])
def test_a_loss_without_second_derivatives_has_every_penalty(options):
    """With w = 2 v a norm and the loss of width 2 are twice those of the hinge."""
    own, hinge = (sm.train(noisy(), loss=loss, C=0.3, tol=1e-6, **options) for loss in (WideHinge(2.0), "hinge"))
    assert own.converged and own.model.header["solver"] == "pdprox"
    assert own.certificate["primal"] == pytest.approx(2.0 * hinge.certificate["primal"], rel=3e-6)


@pytest.mark.parametrize("loss", ["logistic", "generalized_hinge", "exponential"])
@pytest.mark.parametrize("solver", ["auto", "smo", "pdprox"])
def test_a_kernel_and_a_loss_that_do_not_fit_are_told_with_losses_that_do(loss, solver):
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2
    with pytest.raises(sm.UsageError) as error:
        sm.train((X, y), kernel="rbf", loss=loss, solver=solver, C=1.0)
    said = str(error.value)
    listed = re.search("with a kernel takes the losses (.*), not " + loss, said)
    assert listed is not None and "dual_form" not in said, said
    for one in listed[1].split(", "):
        assert sm.train((X, y), kernel="rbf", loss=one, solver=solver, C=1.0, tol=0.1).certificate.gap is not None


def test_the_solvers_of_a_loss_are_those_that_train_with_it(capsys):
    X = np.random.default_rng(0).normal(size=(30, 2))
    for loss in ("l2_error", "huber"):
        assert main(["losses", loss]) == 0
        told = " ".join(capsys.readouterr().out.split()).partition("solvers that take it: ")[2].split(", ")
        able = []
        for solver in names()[1:]:
            with suppress(sm.UsageError):
                kernel = "linear" if solver == "smo" else None
                sm.train((X, X @ np.ones((2, 2))), loss=loss, solver=solver, kernel=kernel, passes=1)
                able.append(solver)
        assert told == able and len(told) > 3
