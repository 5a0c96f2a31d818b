"""Columns that are read in another order: the same rows, whatever their kind, and errors name what is stored."""

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5

import streammargin as sm
from streammargin.reading.prefetch import read_blocks
from streammargin.rows.blocks import DenseBlock
from streammargin.sources import columns
from streammargin.sources.open import open_source
from streammargin.workers import ALONE

RANDOM = np.random.default_rng(4)
X = (RANDOM.standard_normal((50, 7)) * (RANDOM.random((50, 7)) < 0.6)).astype(np.float32)
ORDER = np.array([4, 0, 6, 2, 1, 5, 3])


def dense(block):
    return block.X if isinstance(block, DenseBlock) else sp.csr_array(block[:3], (block.rows(), 7)).toarray()


def rows_of(source, budget):
    return np.concatenate([dense(block).copy() for _, _, block in read_blocks(source, budget, 0, ALONE, True)])


@pytest.mark.parametrize("piece", [1, 100, 1 << 20])
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sp.csr_matrix])
@pytest.mark.parametrize("place", ["memory", "file", "shards"])
def test_rows_in_another_order(tmp_path, monkeypatch, piece, form, place):
    monkeypatch.setattr(columns, "IN_ORDER", max(piece, 4))
    data = (form(X), np.zeros(50)) if place == "memory" else write_h5(tmp_path / "a.h5", form(X), np.zeros(50))
    kept = X.copy()
    with open_source([data, data] if place == "shards" else data) as source:
        view = columns.reordered(source, ORDER, None)
        found = rows_of(view, 64 << 20)
        np.testing.assert_array_equal(found[:50], X[:, ORDER])
        assert len(found) == source.rows and view.held_bytes() > source.held_bytes()
        np.testing.assert_array_equal(rows_of(source, 64 << 20)[:50], kept)  # nothing was written


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_a_bad_value_is_named_by_its_own_column(form):
    bad = X.copy()
    bad[31, 2] = np.nan
    with pytest.raises(sm.DataError, match="row 31, column 2 is NaN"):
        rows_of(columns.reordered(open_source((form(bad), np.zeros(50))), ORDER, None), 64 << 20)
