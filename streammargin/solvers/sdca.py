"""Dual coordinate ascent (lp-norm perceptron paper, Lemma 1, Algorithm 1, appendices B.1 and C)."""

from __future__ import annotations

import math

import numpy as np

from streammargin.errors import UsageError
from streammargin.kernels import sdca as kernel
from streammargin.kernels.order import permutation
from streammargin.solvers.base import PassReport, Problem, State
from streammargin.solvers.swept import Swept
from streammargin.specs.blocks import Block, DenseBlock
from streammargin.specs.norms import dual_norm, mirror

# float32 weights move half the bytes; their rounding bounds the gap they can reach
FLOAT32_TOL = 1e-5
# a random run of neighbours costs one cache miss; runs of many rows would slow convergence
GROUP_BYTES = 16384
GROUP_ROWS = 16


class Method(Swept):
    """State: duals alpha (K, n), theta = A^T alpha (K, d+1), curvatures (n,), sleep counters (K, n)."""

    name = "sdca"
    summary = "dual coordinate ascent"

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if not hasattr(problem.loss, "step"):
            raise UsageError("sdca needs a loss with a dual; use --loss hinge, squared_hinge or logistic")
        if problem.hard and not problem.loss.has_hard_margin():
            raise UsageError("C = inf is the hard margin, which the logistic loss has not; use --loss hinge")

    def _loop_dtype(self, problem: Problem) -> np.dtype:
        single = problem.dtype == np.float32 and problem.tol >= FLOAT32_TOL and problem.p == 2.0
        return np.dtype(np.float32 if single else np.float64)

    def memory(self, problem: Problem) -> int:
        item = self._loop_dtype(problem).itemsize
        width = problem.features + 1
        vectors = item + (8 if problem.p != 2.0 else 0)
        own = problem.count * (width * vectors + problem.rows * (item + 1)) + problem.rows * 8
        return own + self.certificate_memory(problem, item)

    def start(self, problem: Problem) -> State:
        K, n, width = problem.count, problem.rows, problem.features + 1
        dtype = self._loop_dtype(problem)
        theta = np.zeros((K, width), dtype)
        state = State()
        state.arrays.update(
            alpha=np.zeros((K, n), dtype),
            sleep=np.zeros((K, n), np.uint8),
            curvature=np.zeros(n),
            theta=theta,
            powers=theta if problem.p == 2.0 else np.zeros((K, width)),
            power_sum=np.zeros(K),
            figures=np.zeros((K, kernel.FIGURES)),
        )
        self.start_certificates(problem, state, dtype)
        return state

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        figures = state.arrays["figures"]
        figures[:] = 0.0
        figures[:, kernel.MIN_MARGIN] = math.inf

    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> None:
        a = state.arrays
        rows = block.rows()
        bytes_a_row = (block.X if isinstance(block, DenseBlock) else block.data).nbytes / rows
        group = int(min(GROUP_ROWS, max(1, GROUP_BYTES // (bytes_a_row + 1)), max(1, rows // 256)))
        order = permutation(-(-rows // group), problem.seed, state.numbers["pass"], first)
        kernel.sdca_block(
            block, problem.loss, problem.norm, first, order, group, active, problem.codes, problem.positive,
            problem.caps, problem.weights, a["alpha"], a["sleep"], a["curvature"], a["theta"], a["powers"],
            a["power_sum"], a["figures"],
        )  # fmt: skip

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport:
        a = state.arrays
        if problem.p != 2.0:  # the running sums drift
            for k in active:
                a["power_sum"][k] = float(np.sum(np.abs(a["theta"][k]) ** problem.q))
        figures = a["figures"]
        estimate = np.zeros(problem.count)
        for k in active:
            size = dual_norm(a["theta"][k], problem.q)
            if problem.hard:
                total = float(a["alpha"][k].sum(dtype=np.float64))
                lower = figures[k, kernel.MIN_MARGIN] / size if size > 0.0 else -math.inf
                estimate[k] = 1.0 - lower * total / size if size > 0.0 else math.inf
            else:
                dual = self._dual_estimate(problem, state, k, size)
                gap = figures[k, kernel.GAP]
                estimate[k] = gap / max(abs(dual + gap), abs(dual), 1e-300)
        return PassReport(estimate, int(figures[:, kernel.MISTAKES].sum()))

    def _dual_estimate(self, problem: Problem, state: State, k: int, size: float) -> float:
        # the size of the objective is needed only roughly: sum(alpha) - 1/2 ||theta||^2 is D for the hinge
        return float(state.arrays["alpha"][k].sum(dtype=np.float64)) - 0.5 * size * size

    def smallest_margin(self, problem: Problem, state: State) -> float:
        curvature = state.arrays["curvature"]
        pieces = (curvature[start : start + 65536] for start in range(0, problem.rows, 65536))  # no copy of length n
        total = sum(float(np.sqrt(piece).sum()) for piece in pieces) / math.sqrt(problem.q - 1.0)
        return problem.tol * total / max(1, problem.present)

    def weights(self, problem: Problem, state: State) -> np.ndarray:
        return np.stack([mirror(theta.astype(np.float64), problem.q) for theta in state.arrays["theta"]])

    def frozen(self, problem: Problem, state: State, k: int) -> np.ndarray:
        # float32 weights are certified as they are, by sums in float64
        theta = state.arrays["theta"][k]
        return theta if problem.p == 2.0 else mirror(theta, problem.q)

    def duals(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        return state.arrays["alpha"], state.arrays["sleep"]

    def rebuilt(self, problem: Problem, state: State, k: int, theta: np.ndarray) -> None:
        # the loop goes on from the exact A^T alpha: rounding never accumulates over certificates
        a = state.arrays
        a["theta"][k] = theta
        if problem.p != 2.0:
            a["powers"][k] = np.sign(theta) * np.abs(theta) ** (problem.q - 1.0)
            a["power_sum"][k] = float(np.sum(np.abs(theta) ** problem.q))

    def has_empty_row(self, problem: Problem, state: State) -> bool:
        empty = state.arrays["curvature"] == 0.0
        empty &= problem.codes >= 0
        if problem.weights.size:
            empty &= problem.weights > 0.0
        return bool(empty.any())
