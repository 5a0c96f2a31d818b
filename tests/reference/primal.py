"""Perceptron, mirror descent and Pegasos as a book states them: one row at a time, every iterate kept."""

import numpy as np
from reference.norms import conjugate, length, mirror


def perceptron(A, order, p):
    """Iterates (t+1, d) before each step and after the last, and the multiple of each row (n,) in theta."""
    return _descend(A, order, p, lambda u: 1.0 if u <= 0 else 0.0)


def mirror_descent(A, order, p, largest=None):
    """The same; largest is max ||a_i||_q, if not that of A."""
    largest = max(length(a, conjugate(p)) for a in A) if largest is None else largest
    return _descend(A, order, p, lambda u: (p - 1) / largest**2 * max(1 - u, 0.0))


def _descend(A, order, p, step):
    multiples, iterates = np.zeros(len(A)), [np.zeros(A.shape[1])]
    for i in order:
        multiples[i] += step(A[i] @ iterates[-1])
        iterates.append(mirror(A.T @ multiples, conjugate(p)))
    return np.array(iterates), multiples


def pegasos(A, caps, order, horizon):
    """Steps 1/(lambda t) on lambda/2 ||w||^2 + s_i (1 - a_i.w)_+ with caps = s_i / (lambda n), n = horizon."""
    counts, iterates = np.zeros(len(A), int), [np.zeros(A.shape[1])]
    for t, i in enumerate(order, 1):
        hit = A[i] @ iterates[-1] < 1
        counts[i] += hit
        iterates.append((1 - 1 / t) * iterates[-1] + hit * (horizon / t) * caps[i] * A[i])
    return np.array(iterates), counts * caps
