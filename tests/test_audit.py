"""A hundred random trainings, each recomputed by NumPy alone; `python tests/audit.py SEED N` runs many."""

import collections

import audit
import pytest


@pytest.mark.slow
def test_a_hundred_random_models_are_what_was_certified(capsys):
    numbers = range(100)
    found = audit.run(0, numbers)
    assert audit.report(0, numbers, found) == 0, capsys.readouterr().out
    outcomes = collections.Counter(one.outcome for one in found)
    assert outcomes["converged"] >= 20 and outcomes["refused"] <= 40  # there was something to look at
    assert len({one.solver for one in found if one.outcome != "refused"}) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("cached", [0.1, 0.6])
def test_newton_out_of_core_with_a_cache_for_a_share_of_the_rows(cached, capsys):
    numbers = range(25)
    found = audit.run(42, numbers, only="newton", cached=cached)
    assert audit.report(42, numbers, found) == 0, capsys.readouterr().out
    assert sum(one.outcome == "converged" for one in found) >= 10


@pytest.mark.slow
def test_an_audit_finds_what_is_wrong(monkeypatch):
    """Were the saved weights others than those that were certified, each problem would be named."""
    monkeypatch.setattr(audit, "train", wrong_train(audit.train))
    found = audit.run(0, range(30))
    trained = [one for one in found if one.outcome != "refused"]
    assert trained and all(one.faults for one in trained)


def wrong_train(train):
    def other(*given):
        result = train(*given)
        result.model.coef_ *= 1.001  # a free constant alone may change no sum: as many rows pull it up as down
        result.model.intercept_[:] += 1e-3
        return result

    return other


def test_a_problem_is_drawn_from_its_seed_and_number():
    assert str(audit.draw(3, 7)) == str(audit.draw(3, 7)) != str(audit.draw(3, 8))
    assert (audit.draw(3, 7).y == audit.draw(3, 7).y).all()
