"""The tangent kernel of a network with one hidden layer: a kernel of a user's own, in one class.

    python -m examples.tangent_kernel

The network is f_c(x) = sum_j b_cj relu(v_j.x) at its random start. Its gradient has two parts: by b, relu(Vx), and by
V, b_cj [v_j.x > 0] x. So K(x, z) = relu(Vx).relu(Vz) + x.z sum_j b_j^2 [v_j.x > 0][v_j.z > 0]. Over the outputs b_j^2
is the mean. As numbers of the network decide it, each is drawn by the seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import streammargin as sm
from streammargin.kinds import Whole, YesNo
from streammargin.words import entry


class Tangent(sm.kernels.Kernel):
    """Likeness of two rows to a network with `width` hidden units that has not been trained."""

    definite = True
    width: int = entry(128, Whole(1), "hidden units")
    outputs: int = entry(1, Whole(1), "of the network")
    seed: int = entry(0, Whole(0), "of its numbers")
    unit: bool = entry(False, YesNo(), "divide each row by its length first")

    def network(self, features: int) -> tuple[np.ndarray, np.ndarray]:
        """V (width, features) and b (outputs, width), as drawn."""
        random = np.random.default_rng(self.seed)
        V = random.standard_normal((self.width, features)) / np.sqrt(features)
        return V, random.standard_normal((self.outputs, self.width)) / np.sqrt(self.width)

    def gram(self, X: Any, Z: Any) -> np.ndarray:
        X, Z = (np.asarray(one.toarray() if hasattr(one, "toarray") else one, np.float64) for one in (X, Z))
        if self.unit:
            X, Z = (one / np.maximum(np.linalg.norm(one, axis=1, keepdims=True), 1e-300) for one in (X, Z))
        V, b = self.network(X.shape[1])
        left, right = X @ V.T, Z @ V.T
        by_b = np.maximum(left, 0.0) @ np.maximum(right, 0.0).T
        both = ((left > 0.0) * (b**2).mean(axis=0)) @ (right > 0.0).T.astype(np.float64)
        found: np.ndarray = by_b + (X @ Z.T) * both
        return found


def main() -> None:
    """Train on points by the sign of a product of two columns, and say how many it errs on."""
    random = np.random.default_rng(0)
    X = random.standard_normal((600, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, "alike", "unlike")
    for kernel in (Tangent(256), Tangent(256, outputs=10, unit=True), sm.kernels.Linear()):
        result = sm.train((X[:400], y[:400]), kernel=kernel, C=10.0, tol=1e-4)
        error = 1.0 - result.model.evaluate((X[400:], y[400:]))["accuracy"]
        print(f"{kernel}: a certified gap of {result.certificate.gap:.1e}, {error:.1%} of the held-out rows wrong")


if __name__ == "__main__":
    main()
