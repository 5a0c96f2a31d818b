"""The example of a user's kernel is the tangent kernel: the product of two gradients of a network."""

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5

import streammargin as sm
from examples.tangent_kernel import Tangent
from streammargin.verification.verify import verify

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((60, 3))


def gradients(kernel, rows, c):
    """(m, width + width d) of output c, by definition."""
    random = np.random.default_rng(kernel.seed)
    V = random.standard_normal((kernel.width, 3)) / np.sqrt(3.0)
    b = random.standard_normal((kernel.outputs, kernel.width)) / np.sqrt(kernel.width)
    if kernel.unit:
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    by_b = np.maximum(rows @ V.T, 0.0)
    by_v = (b[c] * (rows @ V.T > 0.0))[:, :, None] * rows[:, None, :]
    return np.hstack([by_b, by_v.reshape(len(rows), -1)])


@pytest.mark.parametrize("kernel", [Tangent(16), Tangent(16, outputs=3, seed=4), Tangent(8, unit=True)], ids=str)
def test_its_values_are_products_of_gradients(kernel):
    each = [gradients(kernel, X, c) @ gradients(kernel, X[:20], c).T for c in range(kernel.outputs)]
    np.testing.assert_allclose(kernel.gram(X, X[:20]), np.mean(each, axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.gram(sp.csr_array(X), X[:20]), kernel.gram(X, X[:20]), rtol=1e-12)


def test_it_trains_is_stored_and_verified(tmp_path):
    y = np.where(np.linalg.norm(X, axis=1) > 1.6, 1, -1)
    data, model = write_h5(tmp_path / "a.h5", X, y), str(tmp_path / "m.npz")
    result = sm.train(data, kernel=Tangent(32, unit=False), C=10.0, tol=1e-5)
    assert result.converged and result.model.header["kernel"] == "tangent:32,outputs=1,seed=0,unit=no,weight=1"
    result.model.save(model)
    assert np.array_equal(sm.load_model(model).decision_function(X), result.model.decision_function(X))
    assert not [check for check in verify(model, data) if check.agrees is False]
    hard = sm.train(data, kernel=Tangent(64), C=np.inf, bias="free")
    assert hard.converged and hard.certificate.mistakes == 0
