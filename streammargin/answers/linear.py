"""The linear answer: x . w + b."""

from __future__ import annotations

import numpy as np

from streammargin.specs.blocks import Block
from streammargin.specs.norms import lp_norm


class LinearAnswer:
    """Weights w (K, d+1) float64; the last one belongs to a constant column of value `bias`, 0 for none."""

    def __init__(self, w: np.ndarray, bias: float) -> None:
        self.w, self.bias = w, bias

    @property
    def outputs(self) -> int:
        return len(self.w)

    @property
    def features(self) -> int:
        return self.w.shape[1] - 1

    def score(self, block: Block, first: int, scores: np.ndarray) -> None:
        from streammargin.kernels.predict import decide_block

        decide_block(block._replace(bias=self.bias), self.w, first, scores)

    def length(self, p: float) -> float:
        """||w||_p of output 0 without the weight of the constant."""
        return lp_norm(self.w[0, :-1], p)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"coef": np.ascontiguousarray(self.w[:, :-1]), "intercept": self.w[:, -1] * self.bias}
