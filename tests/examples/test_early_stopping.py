"""What the example of stopping under noise compares."""

import numpy as np
import pytest

from examples import early_stopping


def test_a_fifth_of_the_labels_is_flipped():
    y = np.where(np.arange(20000) % 3, 1, -1)
    assert np.mean(early_stopping.flipped(y, np.random.default_rng(0)) != y) == pytest.approx(0.2, abs=0.01)


def test_the_pass_kept_and_the_last_one_are_of_one_training(monkeypatch):
    monkeypatch.setattr(early_stopping, "PASSES", 12)
    monkeypatch.setattr(early_stopping, "COSTS", [0.01, 1.0])
    random = np.random.default_rng(1)
    X = random.standard_normal((600, 20))
    y = np.where(X @ random.standard_normal(20) > 0.0, 1, -1)
    *errors, first, second = early_stopping.compare(X[:300], y[:300], (X[300:], y[300:]), 0)
    assert len(errors) == 5 and all(0.0 < error < 0.5 for error in errors)
    assert 1 <= first <= 12 and 1 <= second <= 12
    again = early_stopping.compare(X[:300], y[:300], (X[300:], y[300:]), 0)
    assert again == [*errors, first, second]
