"""The linear equations of a step of interior points for tasks: a matrix for each task, and one that joins them."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

DIAGONAL_SHIFTS = (1e-15, 1e-13, 1e-11, 1e-9)  # added to a diagonal of 1, until the matrix has a factor
REFINED = 2  # corrections of a solution by what it misses
FACTORED_NUMBERS = 1 << 13  # of the matrices that are factored together


class System:
    """The equations of a step, once the variables of the rows and those of the weights are eliminated:

    (H_k + diag(D_k + ridge)) dw_k - E_k dt = b_k for each task;
    sum_k D_k dt - sum_k E_k dw_k = c.

    H (tasks, d+1, d+1), upper triangles, is completed in place. Tasks are taken some at a time, which saves memory.
    """

    def __init__(self, H: np.ndarray, D: np.ndarray, E: np.ndarray, ridge: np.ndarray) -> None:
        on = np.arange(H.shape[1])
        self.H, self.D, self.E, self.L = H, D, E, np.empty_like(H)
        self.scale, S = np.empty_like(D), np.diag(D.sum(axis=0))
        self.some = [slice(k, k + at_once(on.size)) for k in range(0, len(H), at_once(on.size))]
        for some in self.some:
            H[some] += np.triu(H[some], 1).swapaxes(1, 2)
            H[some, on, on] += D[some] + ridge
            H[some, on, on] += H[some, on, on] == 0.0  # a column without values
            scale = self.scale[some] = 1.0 / np.sqrt(H[some, on, on])
            self.L[some] = factored(scale[:, :, None] * H[some] * scale[:, None, :])
            V = np.linalg.solve(self.L[some], (scale * E[some])[:, :, None] * np.eye(on.size))
            S -= np.einsum("kij,kil->jl", V, V)
        S[on, on] += S[on, on] <= 0.0  # a constant that is not penalised has no t
        self.root = 1.0 / np.sqrt(np.diagonal(S))
        self.S = self.root[:, None] * S * self.root

    def solved(self, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(dw, dt), improved by what they miss."""
        dw, dt = self._once(b, c)
        for _ in range(REFINED):
            left = b - (np.einsum("kij,kj->ki", self.H, dw) - self.E * dt)
            more = self._once(left, c - (self.D.sum(axis=0) * dt - (self.E * dw).sum(axis=0)))
            dw, dt = dw + more[0], dt + more[1]
        return dw, dt

    def _once(self, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dt = self.root * np.linalg.solve(self.S, self.root * (c + (self.E * self._of_tasks(b)).sum(axis=0)))
        return self._of_tasks(b + self.E * dt), dt

    def _of_tasks(self, b: np.ndarray) -> np.ndarray:
        """The weights that solve the equations of each task alone."""
        found = np.empty_like(b)
        for some in self.some:
            scale, L = self.scale[some], self.L[some]
            found[some] = (
                scale * np.linalg.solve(L.swapaxes(1, 2), np.linalg.solve(L, (scale * b[some])[:, :, None]))[:, :, 0]
            )
        return found


def at_once(width: int) -> int:
    """How many tasks are taken at a time."""
    return max(1, FACTORED_NUMBERS // width**2)


def factored(scaled: np.ndarray) -> np.ndarray:
    """Cholesky factors of matrices (tasks, d+1, d+1) with a diagonal of 1, to which as little as possible is added."""
    on = np.arange(scaled.shape[1])
    for least in DIAGONAL_SHIFTS:
        with suppress(np.linalg.LinAlgError):
            scaled[:, on, on] += least
            return np.linalg.cholesky(scaled)
    return np.full(scaled.shape, math.nan)
