"""The pictures of the site, from runs that are made here and from the tables of docs/benchmarks.md and its lab book.

    python -m examples.site_pictures [--only NAME,...] [--out FOLDER]

bounds   both bounds of the objective, pass by pass, of a small training;
margin   a hard margin in two dimensions, with the interval that is proven for it;
C        errors over a path of C;
reads    reads to a certified gap of 1e-3, by how much of the file fits into the budget;
gaps     certified gaps against reads of the file, of three solvers;
memory   peak memory against the budget, from the table "Memory";
times    seconds beside LIBLINEAR's, from the two tables "in memory";
sparse   the fastest peer's seconds over ours, of sparse weights;
classes  scikit-learn's seconds over ours, of the softmax;
kernels  the faster peer's seconds over ours, of kernel machines.

Needs the extra `examples`. The pictures go to docs/pictures, or to FOLDER; the build of the site draws none.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from sklearn.datasets import load_breast_cancer

import streammargin as sm
from examples.benchmarks.disk import bytes_read, row_bytes
from streammargin.data_tools.generate import generate

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # after its backend

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
STYLE = {
    "figure.figsize": (6.4, 3.4), "figure.constrained_layout.use": True, "font.size": 9, "axes.grid": True,
    "grid.alpha": 0.3, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "streammargin",
    "savefig.facecolor": "white", "legend.frameon": False, "svg.fonttype": "path",
}  # fmt: skip
BLUE, ORANGE, GREEN, GREY = "#1f5fa8", "#d9701f", "#2a8a5a", "#888888"


def save(name: str) -> None:
    """Write the figure as an SVG without a date, so that the same run makes the same file."""
    plt.savefig(f"{name}.svg", metadata={"Date": None})
    plt.close()


def tumours() -> tuple[np.ndarray, np.ndarray]:
    """569 rows of 30 columns that come with scikit-learn; each column with mean 0 and deviation 1."""
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def bounds() -> None:
    """The weights' objective and the proven bound below every other, after 1, 2, 3, ... passes."""
    X, y = tumours()
    passes = np.arange(1, 41)
    ends = [sm.train((X, y), solver="sdca", passes=int(k), tol=1e-9).certificate for k in passes]
    primal, dual = (np.array([getattr(end, name) for end in ends]) for name in ("primal", "dual"))
    plt.fill_between(passes, dual, primal, color=BLUE, alpha=0.15, label="the optimum lies here")
    plt.plot(passes, primal, "o-", ms=3, color=BLUE, label="primal: the objective of these weights")
    plt.plot(passes, dual, "s-", ms=3, color=ORANGE, label="dual: no weights have a smaller objective")
    plt.xlabel("passes")
    plt.ylabel("objective")
    plt.yscale("log")
    plt.minorticks_off()
    plt.yticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
    plt.legend(loc="upper right")
    save("bounds")


def margin() -> None:
    """The separator with the largest margin; the strip about it has no row."""
    random = np.random.default_rng(4)
    y = np.repeat([-1, 1], 25)
    X = random.standard_normal((50, 2)) * 0.6 + np.outer(y, [1.8, 1.2])
    result = sm.train((X, y), C=math.inf, solver="sdca", tol=1e-2)
    w = result.model.coef_[0] / np.linalg.norm(result.model.coef_[0])
    low, high = result.certificate.margin_lower, result.certificate.margin_upper
    along = np.array([-w[1], w[0]])
    _, ax = plt.subplots(figsize=(4.4, 3.8))
    for offset, style in ((0.0, "-"), (low, "--"), (-low, "--")):
        line = np.array([offset * w + t * along for t in (-5.0, 5.0)])
        ax.plot(*line.T, style, color=GREY, lw=1.2)
    for label, color, mark in ((-1, ORANGE, "s"), (1, BLUE, "o")):
        ax.plot(*X[y == label].T, mark, ms=4, color=color, label=f"label {label:+d}")
    ax.annotate("", low * w - 2.2 * along, -2.2 * along, arrowprops={"arrowstyle": "<->", "color": "black"})
    ax.annotate("margin", 0.5 * low * w - 2.35 * along, ha="left", va="top")
    ax.set(xlim=(-4, 4), ylim=(-3.6, 3.6), aspect="equal")
    ax.set_title(f"proven: the largest margin is between\n{low:.4f} and {high:.4f}", fontsize=9)
    ax.legend(loc="upper left")
    save("margin")


def C() -> None:
    """Training and held-out error, and the number of weights that are not 0, over C."""
    X, y = tumours()
    order = np.random.default_rng(0).permutation(len(y))
    held, rest = order[:150], order[150:]
    values = np.logspace(-2.5, 2.5, 16)
    given = {"loss": "logistic", "penalty": "l1", "passes": 2000, "valid": (X[held], y[held])}
    ends = [sm.train((X[rest], y[rest]), C=float(c), **given) for c in values]
    _, ax = plt.subplots()
    for name, label, form, color in (("train", "training", "o-", GREY), ("valid", "held-out", "s-", BLUE)):
        errors = [100 * getattr(end.certificate, f"{name}_error") for end in ends]
        ax.semilogx(values, errors, form, ms=3, color=color, label=f"{label} error")
    ax.set(xlabel="C", ylabel="wrong rows, %")
    other = ax.twinx()
    nonzero = [np.count_nonzero(end.model.coef_) for end in ends]
    other.semilogx(values, nonzero, ":", color=ORANGE, label="weights that are not 0 (right)")
    other.set(ylim=(0, 31), ylabel="weights")
    other.grid(False)
    ax.legend(handles=[*ax.lines, *other.lines], loc="upper center")
    save("C")


def least(path: str, **options: Any) -> int:
    """MiB of the least budget that `train` names."""
    try:
        sm.train(path, memory="1M", passes=1, **options)
    except sm.UsageError as error:
        found = re.search(r"(\d+)M\b", str(error).replace("1M ", ""))
        assert found is not None, error
        return int(found[1])
    return 1


def run(path: str, memory: int, **options: Any) -> tuple[float, float]:
    """(reads, certified gap) of one training; what was read that are no rows is read once more and taken off."""
    with sm.open_source(path) as source:
        size, labels = row_bytes(source), 8 * source.rows
    before = bytes_read()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sm.train(path, memory=memory << 20, **options)
    return (bytes_read() - before - labels) / size, result.certificate.gap


def files(folder: str) -> dict[str, tuple[str, float]]:
    """Two generated files, dense and text, and their size in MiB."""
    dense, text = f"{folder}/dense.h5", f"{folder}/text.h5"
    generate(dense, rows=150_000, features=100, seed=1)
    generate(text, rows=100_000, features=30_000, sparse=True, nonzeros=64, seed=1)
    return {name: (path, Path(path).stat().st_size / 2**20) for name, path in (("dense", dense), ("text", text))}


def reads() -> None:
    """Reads to 1e-3 over the share of the file that the budget holds beside the least one."""
    shares = (0.05, 0.1, 0.2, 0.4, 0.7, 1.2)
    with tempfile.TemporaryDirectory() as folder:
        for (name, (path, size)), color, mark in zip(files(folder).items(), (BLUE, ORANGE), "os", strict=True):
            floor = least(path)
            found = [run(path, floor + math.ceil(share * size))[0] for share in shares]
            print(name, floor, size, found)
            plt.plot([100 * share for share in shares], found, f"{mark}-", color=color, label=f"{name}, {size:.0f} MiB")
    plt.xlabel("share of the file that the budget holds beside the least budget, %")
    plt.ylabel("reads to a certified gap of 1e-3")
    plt.ylim(bottom=0)
    plt.legend()
    save("reads")


def gaps() -> None:
    """The certified gap that a run ends with, by what it has read, in a budget of a tenth of the file."""
    colors = {"dense": (BLUE, GREEN, GREY), "text": (BLUE, GREY)}
    solvers = {"dense": ("newton", "sdca", "pegasos"), "text": ("ascent", "pegasos")}
    _, axes = plt.subplots(1, 2, figsize=(7.4, 3.4), sharey=True)
    with tempfile.TemporaryDirectory() as folder:
        for ax, (name, (path, size)) in zip(axes, files(folder).items(), strict=True):
            memory = least(path) + math.ceil(0.1 * size)
            for solver, color, mark in zip(solvers[name], colors[name], "o^x", strict=False):
                points = []
                for passes in (1, 2, 3, 4, 6, 8, 12, 16):
                    points.append(run(path, memory, solver=solver, passes=passes, tol=1e-5))
                    if points[-1][1] <= 1e-5:
                        break
                print(name, solver, memory, points)
                ax.semilogy(*np.array(points).T, f"{mark}-", ms=4, color=color, label=solver)
            ax.set(xlabel="reads of the file", title=f"{name}, {size:.0f} MiB, budget {memory} MiB", xlim=(0, 18))
            ax.legend()
    axes[0].set_ylabel("certified gap")
    save("gaps")


def rows_of(page: str, heading: str, number: int = 0) -> list[list[str]]:
    """The cells of a table after a heading of a page: by default of the first."""
    text = re.split(rf"^#+ {re.escape(heading)}\n", (DOCS / page).read_text(), maxsplit=1, flags=re.M)[1]
    lines = re.findall(r"(?:^\|.*\n)+", text, re.M)[number].splitlines()
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines[2:]]


def memory() -> None:
    """Peaks beyond those of 100 rows, for files of 1 and 4 GB and a budget of 256 MiB."""
    table = rows_of("benchmarks.md", "Memory")
    _, ax = plt.subplots(figsize=(6.4, 2.4))
    for place, row in enumerate(table):
        for shift, value, color in ((0.18, row[1], ORANGE), (-0.18, row[2], BLUE)):
            ax.barh(place - shift, float(value), 0.32, color=color)
    ax.axvline(256, color="black", ls="--", lw=1)
    ax.annotate("--memory 256M", (252, len(table) - 0.45), ha="right", va="bottom", annotation_clip=False)
    ax.set(yticks=range(len(table)), yticklabels=[row[0] for row in table], ylim=(-0.5, len(table) - 0.1))
    ax.set_xlabel("peak memory beyond that of 100 rows, MiB")
    ax.legend(["budget", "1 GB file", "4 GB file"], loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.grid(axis="y", visible=False)
    save("memory")


def times() -> None:
    """Our seconds against LIBLINEAR's, of each set, loss and C of the table if both are numbers."""
    headings = ("Text, in memory", "Numbers, categories and images, in memory")
    table = [row for heading in headings for row in rows_of("benchmarks/in_memory.md", heading)]
    _, ax = plt.subplots(figsize=(5.2, 4.2))
    for loss, color, mark in (("hinge", BLUE, "o"), ("squared_hinge", GREEN, "^"), ("logistic", ORANGE, "s")):
        rows = [row for row in table if row[1] == loss]
        found = [(float(row[3]), float(row[4])) for row in rows if re.fullmatch(r"[\d.]+", row[4])]
        gap = "1e-3" if loss == "hinge" else "1e-6"
        ax.loglog(*zip(*found, strict=True), mark, ms=5, color=color, label=f"{loss}, to {gap}")
    without = [float(row[3]) for row in table if not re.fullmatch(r"[\d.]+", row[4])]
    ax.loglog(without, [60.0] * len(without), "v", ms=5, color=GREY, label="LIBLINEAR did not get there")
    span = [1.5e-3, 80.0]
    ax.loglog(span, span, "-", color="black", lw=0.8)
    ax.loglog(span, [10 * value for value in span], ":", color=GREY, lw=0.8)
    ax.text(4.2, 3.3, "as fast", rotation=45, ha="center", va="center", fontsize=8)
    ax.text(1.1, 15.5, "10 times as fast", rotation=45, ha="center", va="center", fontsize=8, color=GREY)
    ax.set(xlim=(1.5e-3, 10), ylim=(1.5e-3, 100), xlabel="streammargin, seconds to a proven gap",
           ylabel="LIBLINEAR, seconds to the same objective", aspect="equal")  # fmt: skip
    ax.legend(loc="lower right", fontsize=8)
    save("times")


def beside(name: str, who: str, found: dict[str, dict[str, float]]) -> None:
    """A peer's seconds over ours, in a row for each set, with a mark for each setting."""
    _, ax = plt.subplots(figsize=(5.2, 1.2 + 0.27 * len(found)))
    settings = list(dict.fromkeys(setting for row in found.values() for setting in row))
    for setting, color, mark in zip(settings, (BLUE, ORANGE, GREEN, GREY), "os^D", strict=False):
        points = [(row[setting], place) for place, row in enumerate(found.values()) if setting in row]
        ax.semilogx(*zip(*points, strict=True), mark, ms=6, color=color, label=setting)
    ax.axvline(1.0, color="black", lw=1)
    ax.set(yticks=range(len(found)), yticklabels=list(found), ylim=(len(found) - 0.5, -0.5))
    ax.set_xlabel(f"seconds of {who} over ours\n(right of the line ours are faster)")
    ticks = [value for value in (0.5, 1, 2, 5, 10, 20) if ax.get_xlim()[0] <= value <= ax.get_xlim()[1]]
    ax.set_xticks(ticks, [f"{value:g}" for value in ticks])
    ax.minorticks_off()
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(settings))
    save(name)


def seconds(cell: str) -> float:
    """The number that a cell begins with, or infinity."""
    number = re.match(r"[\d.]+", cell)
    return float(number[0]) if number else math.inf


def sparse() -> None:
    """The fastest peer in each row of both tables, or at least 20 times ours if all were cut off."""
    found: dict[str, dict[str, float]] = {}
    page, heading = "benchmarks/sparse_weights.md", "Sparse weights"
    hinges = [(row[0], f"hinge, {row[2]}", row[1], row[3:]) for row in rows_of(page, heading)]
    for name, kind, rate, cells in hinges + [(row[0], *row[1:3], row[3:]) for row in rows_of(page, heading, 1)]:
        ratio = min(map(seconds, cells[1:])) / seconds(cells[0])
        found.setdefault(f"{name}: {kind}", {})[f"lambda = {rate}"] = min(ratio, 20.0)
    beside("sparse", "the fastest peer", found)


def classes() -> None:
    """The fastest peer of the softmax, to 1e-3 above the optimum."""
    found: dict[str, dict[str, float]] = {}
    for name, cost, *_, ratio in rows_of("benchmarks/several_outputs.md", "The softmax in memory"):
        found.setdefault(name.split(" (")[0], {})[f"C = {cost}"] = seconds(ratio)
    beside("classes", "scikit-learn", found)


def kernels() -> None:
    """The faster of SVC and scikit-learn-intelex."""
    found: dict[str, dict[str, float]] = {}
    for name, cost, *_, ratio in rows_of("benchmarks/kernel_machines.md", "Trainings in memory"):
        found.setdefault(name.split(", 2")[0], {})[f"C = {cost}"] = seconds(ratio)
    beside("kernels", "the faster peer", found)


PICTURE: dict[str, Callable[[], None]] = {
    "bounds": bounds, "margin": margin, "C": C, "reads": reads, "gaps": gaps, "memory": memory, "times": times,
    "sparse": sparse, "classes": classes, "kernels": kernels,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME,...", help="some of the pictures: " + ", ".join(PICTURE))
    parser.add_argument("--out", metavar="FOLDER", default=ROOT / "docs" / "pictures", help="(%(default)s)")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    os.chdir(options.out)
    plt.rcParams.update(STYLE)
    for name in options.only.split(",") if options.only else PICTURE:
        PICTURE[name]()
        print(f"{name}.svg", flush=True)


if __name__ == "__main__":
    main()
