"""Minimise a quadratic function plus a penalty that is known by its prox alone, in memory.

Douglas-Rachford splitting (ADMM; Eckstein and Bertsekas 1992), with Anderson's extrapolation of its iterates (Fu, Zhang
and Boyd 2020, SIAM J. Sci. Comput. 42).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.solvers.proof.objectives.base import Objective

LEAST_EIGENVALUE = 1e-12  # and least diagonal, relative to the largest
WEIGHT = 0.3  # rho, relative to the geometric mean of the largest eigenvalue and the middle one
LEAST_MIDDLE_EIGENVALUE = 1e-6  # that counts there, relative to the largest
MEMORY = 10  # points that an extrapolation is made of, at most
SINGULAR = 1e-10  # added to the scaled diagonal of its least squares
DECOMPOSED = 9.0  # multiplications of an eigendecomposition, relative to the cubed size
CHECK = 5  # iterations between two looks at the accuracy
ROUNDING = 1e-15  # of R, relative


class BlockSpectrum(NamedTuple):
    """Eigenvectors (B, b, b) and eigenvalues (B, b) of the blocks on the diagonal of a symmetric matrix (B b, B b)."""

    vectors: np.ndarray
    values: np.ndarray

    def into(self, x: np.ndarray) -> np.ndarray:
        """The coordinates (B, b) of x (B b,) in the eigenvectors."""
        return (self.vectors.transpose(0, 2, 1) @ x.reshape(*self.values.shape, 1))[..., 0]

    def out_of(self, inner: np.ndarray) -> np.ndarray:
        """The vector (B b,) with these coordinates (B, b)."""
        return (self.vectors @ inner[..., None]).ravel()

    def work(self, iterations: int) -> float:
        """Multiplications of the decomposition, and of two products in each iteration."""
        count, size = self.values.shape
        return count * (DECOMPOSED * size**3 + 4.0 * iterations * size**2)


def spectrum(H: np.ndarray) -> BlockSpectrum:
    """The largest eigenvalue of the blocks H (B, b, b) on the diagonal of a matrix."""
    values, vectors = np.linalg.eigh(H)
    return BlockSpectrum(vectors, np.maximum(values, LEAST_EIGENVALUE * values.max()))


class Extrapolation:
    """Anderson's extrapolation of a fixed-point iteration t <- t + r(t), from the last few t and r (m,)."""

    def __init__(self) -> None:
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []

    def forget(self) -> None:
        """Begin anew."""
        self.points.clear()
        self.residuals.clear()

    def following(self, t: np.ndarray, r: np.ndarray) -> np.ndarray:
        """The next point: t + r where the residual would be least if it were linear in t."""
        self.points.append(t)
        self.residuals.append(r)
        if len(self.points) == 1:
            return t + r
        del self.points[: -MEMORY - 1], self.residuals[: -MEMORY - 1]
        moved, changed = np.diff(self.points, axis=0), np.diff(self.residuals, axis=0)
        G = changed @ changed.T
        G[np.diag_indices_from(G)] += SINGULAR * float(np.trace(G)) + 1e-300
        return t + r - np.linalg.solve(G, changed @ r) @ (moved + changed)


class ProximalModel:
    """The function 1/2 z^T H z - aim.z + R(z), in coordinates z (m,) in which H has a diagonal of at most 1.

    steps: the largest step of `prox` for each entry up to 1 / the diagonal of H; v = roots * z. rho: of the splitting.
    start, down: z at first, and minus the slope there; first: R there.
    """

    def __init__(self, H: np.ndarray, slope: np.ndarray, objective: Objective, v: np.ndarray) -> None:
        diagonal = np.diagonal(H, axis1=1, axis2=2).reshape(v.shape)
        self.objective, self.shape = objective, v.shape
        self.steps = objective.even(1.0 / np.maximum(diagonal, LEAST_EIGENVALUE * float(diagonal.max())))
        self.roots = np.sqrt(self.steps).ravel()
        roots = self.roots.reshape(H.shape[:2])
        self.spectrum = spectrum(roots[:, :, None] * H * roots[:, None, :])
        values, most = self.spectrum.values, float(self.spectrum.values.max())
        self.rho = WEIGHT * math.sqrt(most * max(float(np.median(values)), LEAST_MIDDLE_EIGENVALUE * most))
        self.start, self.down = v.ravel() / self.roots, -slope * self.roots
        self.aim = self.bent(self.start) + self.down
        self.first = objective.regulariser(v)

    def bent(self, z: np.ndarray) -> np.ndarray:
        """H z."""
        return self.spectrum.out_of(self.spectrum.values * self.spectrum.into(z))

    def prox(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """argmin over z of R + rho/2 ||z - t||^2: as weights, of which R is finite, and z."""
        v = self.objective.prox((self.roots * t).reshape(self.shape), self.steps / self.rho)
        return v, v.ravel() / self.roots

    def reflected(self, t: np.ndarray, z: np.ndarray) -> np.ndarray:
        """argmin over y of 1/2 y^T H y - aim.y + rho/2 ||y - (2 z - t)||^2."""
        inner = self.spectrum.into(self.rho * (2.0 * z - t) + self.aim)
        return self.spectrum.out_of(inner / (self.spectrum.values + self.rho))

    def judged(self, t: np.ndarray, v: np.ndarray, z: np.ndarray) -> tuple[float, float]:
        """(the value at z above that of the start, how far it is above the least value at most); v, z: the prox of t.

        rho (t - z) is a subgradient of R at z, and so `off` is one of the model, which bends by H at least.
        """
        moved = z - self.start
        bent = self.bent(moved)
        off = bent - self.down + self.rho * (t - z)
        above = 0.5 * float(np.sum(self.spectrum.into(off) ** 2 / self.spectrum.values))
        grown = self.objective.regulariser(v) - self.first
        return grown + float(np.sum(moved * (0.5 * bent - self.down))), above


def minimise_by_prox(
    H: np.ndarray, slope: np.ndarray, objective: Objective, start: np.ndarray, part: float, rounds: int
) -> tuple[np.ndarray, float]:
    """(argmin over v of slope.(v - start) + 1/2 (v - start)^T H (v - start) + R(v), multiplications that it took).

    `H`       (B, b, b) symmetric, positive semidefinite: the blocks on the diagonal of a matrix. It is over the entries
              of the weights `start`, (d+1,) or (lines, d+1).
    `slope`   (m,) gradient at the start.
    `part`    stop if it is proven that this part of the fall, at most, is missing.
    `rounds`  stop after so many iterations, each of two products with H and a prox of R.

    The start is returned if nothing lower was found.
    """
    model = ProximalModel(H, slope, objective, start)
    least, best, history = 0.0, start, Extrapolation()
    number, smallest = 0, math.inf
    plain = t = model.start + model.down / model.rho
    for number in range(rounds):
        v, z = model.prox(t)
        if number % CHECK == 0:
            value, above = model.judged(t, v, z)
            done = above <= ROUNDING * model.first - part * value
            if value < least or done:
                best, least = v, value
            if done:
                break
        r = model.reflected(t, z) - z
        size = float(np.linalg.norm(r))
        if size > smallest:  # the extrapolation led away
            history.forget()
            t, smallest = plain, math.inf
            continue
        smallest = size
        plain = t + r
        t = history.following(t, r)
    return best, model.spectrum.work(number + 1)
