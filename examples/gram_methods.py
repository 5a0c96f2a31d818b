"""The papers' whole-pass methods on a Gram matrix, in NumPy: one product with it an iteration.

A method is a generator. It yields the coefficients u (n, m) of its iterates, w_t = sum_i u_i y_i phi(x_i). It is sent
the margins S u (n, m). S_ij is y_i y_j K(x_i, x_j), and K(x, x) <= 1. Each of the m columns is a run of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

Method = Generator[np.ndarray, np.ndarray, None]
SAFE = 1.0 + 1e-6  # of a norm that was found to a smaller error

# 1 / lambda_t times lambda_0, as lambda_t may be 0 or infinite
DECAYS: dict[str, Callable[[int], float]] = {
    "log t": lambda t: math.log(t),
    "sqrt t": lambda t: math.sqrt(t),
    "t": float,
    "t^2": lambda t: float(t) ** 2,
    "2^t": lambda t: math.ldexp(1.0, min(t, 1000)),
}


def norm_of(S: Any) -> float:
    """The spectral norm of a symmetric matrix, at most a millionth too large."""
    operator = LinearOperator(S.shape, matvec=lambda v: S @ v, dtype=np.float64)
    start = np.ones(S.shape[0])  # else a random one
    return SAFE * float(abs(eigsh(operator, 1, v0=start, tol=1e-8, return_eigenvectors=False)[0]))


def diagonal(n: int, gamma: float, falls: list[tuple[float, str]], alpha: float | None = None) -> Method:
    """Algorithm 1 of the diagonal descent paper, or with alpha its Algorithm 2, on (4.17).

    gamma: at most 1 / ||S||; falls: a column for each (lambda_0, key of DECAYS).
    """
    u, product = np.zeros((n, len(falls))), np.zeros((n, len(falls)))
    before = u, product
    t = 0
    while True:
        t += 1
        caps = np.array([DECAYS[decay](t) / start for start, decay in falls])
        momentum = 0.0 if alpha is None else t / (t + alpha)
        z = u + momentum * (u - before[0])
        pull = product + momentum * (product - before[1])  # S z
        before = u, product
        u = np.clip(z + gamma * (1.0 - pull), 0.0, caps)
        product = yield u


def softmax(margins: np.ndarray) -> np.ndarray:
    """q (n, m), proportional to exp(-margin)."""
    found = np.exp(margins.min(axis=0) - margins)
    return np.asarray(found / found.sum(axis=0))


def normalised_gd(n: int) -> Method:
    """Normalised gradient descent on the exponential loss with steps 1 / sqrt(t)."""
    u, margins, t = np.zeros((n, 1)), np.zeros((n, 1)), 0
    while True:
        t += 1
        u = u + softmax(margins) / math.sqrt(t)
        margins = yield u


def dual_momentum(n: int) -> Method:
    """Algorithm 1 of the dual acceleration paper."""
    u, g, margins, t = np.zeros((n, 1)), np.zeros((n, 1)), np.zeros((n, 1)), 0
    while True:
        q = softmax(margins)
        g = t / (t + 1.0) * (g + q)
        u = u + g + q
        margins = yield u
        t += 1


def iterates(S: Any, methods: Mapping[str, Method], passes: int) -> Iterator[dict[str, tuple[np.ndarray, np.ndarray]]]:
    """(u, S u) of all methods after every iteration: one product with S (n, n) serves all."""
    asked = {name: next(method) for name, method in methods.items()}
    ends = np.cumsum([one.shape[1] for one in asked.values()])[:-1]
    for _ in range(passes):
        columns = np.hstack(list(asked.values()))
        products = dict(zip(asked, np.split(S @ columns, ends, axis=1), strict=True))
        yield {name: (u, products[name]) for name, u in asked.items()}
        asked = {name: method.send(products[name]) for name, method in methods.items()}


def margins_of(u: np.ndarray, product: np.ndarray) -> np.ndarray:
    """min_i y_i f(x_i) / ||w|| (m,) of coefficients and their products; -inf for w = 0."""
    square = np.einsum("ij,ij->j", u, product)
    least = product.min(axis=0)
    return np.where(square > 0.0, least / np.sqrt(np.maximum(square, 1e-300)), -math.inf)


def upper_of(u: np.ndarray, product: np.ndarray) -> np.ndarray:
    """||w|| / sum_i u_i (m,): no margin is above it, as u / sum u weighs the rows."""
    square, mass = np.einsum("ij,ij->j", u, product), u.sum(axis=0)
    return np.where(mass > 0.0, np.sqrt(np.maximum(square, 0.0)) / np.maximum(mass, 1e-300), math.inf)
