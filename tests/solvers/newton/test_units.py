"""Steps by products visit the rows by parts: a stop is heard between any two, and what goes on has the same bits."""

from functools import partial

import numpy as np
import pytest
from reference.sources import CountingSource
from reference.stopped import until_done

import streammargin as sm
from streammargin.compiled import products
from streammargin.solvers.newton import conjugate, held, sampled, truncated

VISITS = ("add_scores", "add_gradient", "add_curved")
WAYS = {
    "one line": {"C": 10.0, "bias": "free"},
    "one against the rest": {"multiclass": "ovr", "C": 0.1},
    "all lines": {"C": 1.0, "bias": "free"},
    "a sample": {"C": 1.0, "bias": "free"},
}


def rows_of(way):
    random = np.random.default_rng(0)
    rows = 3600 if way == "a sample" else 1200
    X = random.standard_normal((rows, 12)) * random.uniform(0.2, 2.0, 12) + 0.5
    y = np.argmax(X[:, :3] * 2 + [1.0, 0.0, -1.0] + random.gumbel(size=(rows, 3)), axis=1)
    y = (y > 0).astype(int) if way == "one line" else y
    return CountingSource(X, y, np.linspace(0, rows, 6).astype(int)) if way == "a sample" else (X, y)


def train(way, **options):
    return sm.train(rows_of(way), loss="logistic", solver="newton", **{"tol": 1e-6, **WAYS[way], **options})


@pytest.fixture
def by_products(monkeypatch):
    """Few columns are enough, and the sample has a third of the rows."""
    monkeypatch.setattr(conjugate, "ASSUMED_PRODUCTS", 0)
    for name in ("WIDE_HESSIAN_COLUMNS", "LEAST_DRAWN_ROWS"):
        monkeypatch.setattr(sampled, name, 0)
    monkeypatch.setattr(sampled, "sample_bytes", lambda problem: int(problem.rows * sampled.row_bytes(problem)) // 3)


@pytest.fixture
def small_units(monkeypatch, by_products):
    """A unit is one chunk of rows."""
    for module in (held, truncated):
        monkeypatch.setattr(module, "UNIT", 1.0)
    monkeypatch.setattr(held, "STRIDE", 1)


@pytest.mark.parametrize("way", WAYS)
def test_a_unit_visits_one_part_of_the_rows(way, monkeypatch, small_units):
    calls, units = [], []
    for name in VISITS:
        visit = getattr(products, name)
        monkeypatch.setattr(
            products, name, lambda block, *given, visit=visit: calls.append(block.rows()) or visit(block, *given)
        )

    def between():
        units.append(calls.copy())
        calls.clear()

    assert train(way, should_stop=between).converged
    assert max(map(len, units)) == 1 and sum(map(len, units)) > 30
    assert max(map(max, filter(None, units))) <= 512


@pytest.mark.parametrize("way", WAYS)
def test_it_goes_on_with_the_same_bits_after_any_unit(way, tmp_path, small_units):
    whole = train(way, checkpoint=str(tmp_path / "whole"))  # with the kernels that a training with a checkpoint takes
    for units in (23, 37):
        found, starts = until_done(partial(train, way, checkpoint=str(tmp_path / str(units))), units)
        assert starts > 1 and found.certificate == whole.certificate
        assert found.model.coef_.tobytes() == whole.model.coef_.tobytes()
        counts = [[e["multiplications"] for e in one.history if e["event"] == "certificate"] for one in (found, whole)]
        assert counts[0] == counts[1]


@pytest.mark.parametrize("way", ["one line", "one against the rest"])
def test_parts_have_the_bits_of_the_whole(way, by_products):
    whole = train(way).model.coef_
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held, "UNIT", 1.0)
        assert train(way).model.coef_.tobytes() == whole.tobytes()
