"""Runs of the methods of `first_order.py`, each with the best factor of its step: what figures show and judge."""

import functools
import time
from typing import NamedTuple

import numpy as np

from examples import first_order as methods
from examples.figure_tools import ahead, factor, value_at, verdict

PDPROX, GAP_METHOD = "Pdprox", "pdexg"
EACH = {"agd": 3, GAP_METHOD: 3}  # products of an iteration; two of the others
SHORTEST = 1e-4  # seconds
TRIED = 3  # factors of a step that are tried to the end before the walk


def runs(p, size):
    """{method: its iterates for a factor of its step}; size: the length of the optimum, which theory asks for."""
    eta = size / np.sqrt(p.c * p.n)
    found = {PDPROX: lambda s: (w for w, _ in methods.algorithm_1(p, s * p.gamma))}
    for method in (methods.gd, methods.fobos, methods.rda, methods.agd):
        found[method.__name__] = lambda s, method=method: method(p, s * eta)
    found[GAP_METHOD] = lambda s: methods.pdexg(p, s * p.n / size**2)
    return found


def curve(p, iterates, most):
    """(products, least objective so far, CPU seconds without the objectives) at about 50 counts of products to `most`.

    An array (3, counts).
    """
    marks = np.unique(np.geomspace(2, most, 50).astype(int)).tolist()
    found, least, seconds, p.products = [], np.inf, 0.0, 0
    while marks:
        started = time.process_time()
        w = next(iterates)
        seconds += time.process_time() - started
        if p.products >= marks[0]:
            marks = [mark for mark in marks if mark > p.products]
            value = p.objective(w)
            least = min(least, value) if value < np.inf else least
            found.append((p.products, least, seconds))
    return np.array(found).T


def compare(p, size, most, reach=10):
    """{method: (factor, curve)} with the best factor of each among 2^-reach, ..., 2^reach.

    most: products of most / 2 iterations; methods with three of them an iteration have more.
    """
    found = {}
    for name, run in runs(p, size).items():
        count = most * EACH.get(name, 2) // 2
        known = {}

        def end(k, count, run=run, known=known):
            known[k] = curve(p, run(2.0**k), count)
            return known[k][1][-1]

        with np.errstate(over="ignore", invalid="ignore"):  # of steps too long
            k = tuned(lambda k, end=end, count=count: end(k, max(2, count // 10)),
                      lambda k, end=end, count=count: end(k, count), reach)  # fmt: skip
        found[name] = 2.0**k, known[k]
    return found


def tuned(early, late, reach):
    """The k from -reach to reach with the least late(k): every other one is tried early, the best of these late.

    A walk downhill begins at the best of these. So a valley that is the best one early on is no trap.
    """
    tried = sorted(range(-reach, reach + 1, 2), key=early)[:TRIED]
    late = functools.cache(late)
    return methods.best_exponent(late, reach, min(tried, key=late))


def emptiness(p, iterates, most, empty):
    """empty(w), a share, as a mean over the iterates that take up to `most` products."""
    found, p.products = [], 0
    while p.products < most:
        found.append(np.mean(empty(next(iterates))))
    return float(np.mean(found))


def certified(result, lam):
    """(products, objective, seconds) of each certificate of a training with C = 1 / (rows lam), two products a pass."""
    found, seconds = [], 0.0
    for event in result.history:
        if event["event"] == "pass_end":
            seconds += event["compute_seconds"]
        elif event["event"] == "certificate":
            found.append((2 * event["pass"], lam * event["primal"], max(seconds, SHORTEST)))
    return np.array(found).T


class Panel(NamedTuple):
    """What the methods came to on one problem: {method: (factor, curve)}.

    least: the optimum, or a bound just below it; most: the products of methods with two an iteration.
    """

    title: str
    found: dict
    least: float
    most: int

    def show(self, more=""):
        """Print what each method came to."""
        print(f"\n{self.title}: the optimum is {self.least:.6f}{more}")
        marks = (20, 60, 200)
        heads = *(f"{m:>9}" for m in marks), f"{'the last':>9} {'seconds':>8}"
        print(f"{'objective after products':24} {'factor':>9}", *heads)
        for name, (step, (products, values, seconds)) in self.found.items():
            at = [value_at(products, values, m) for m in marks]
            print(f"{name:24} {step:>9g}", *(f"{v:>9.5f}" for v in at), f"{values[-1]:>9.5f} {seconds[-1]:>8.2f}")

    def draw(self, axis, at=0):
        """The curves of all methods above the optimum, over products, or over seconds with at=2."""
        for name, (step, run) in self.found.items():
            axis.loglog(run[at], run[1] - self.least, label=f"{name}, {step:g}")
        label = "CPU seconds" if at else "products with A or its transpose"
        axis.set(title=self.title, xlabel=label, ylabel="above the optimum")

    def ends(self, count=None):
        """{method: how far it is above the optimum after so many products}, all by default; and the baselines alone."""
        reach = (self.most if count is None else count) + max(EACH.values())  # the last iteration may end beyond
        last = {name: value_at(run[0], run[1], reach) - self.least for name, (_, run) in self.found.items()}
        return last, {name: value for name, value in last.items() if name not in (PDPROX, GAP_METHOD)}

    def after(self, share=1.0):
        """{method: the same after as many iterations of each}; share: of all."""
        return {
            name: value_at(run[0], run[1], share * self.most * EACH.get(name, 2) / 2 + EACH.get(name, 2)) - self.least
            for name, (_, run) in self.found.items()
        }

    def lead(self):
        """(counts of products at which Pdprox is below all baselines, all counts)."""
        counts, own, _ = self.found[PDPROX][1]
        others = [run[:2] for name, (_, run) in self.found.items() if name not in (PDPROX, GAP_METHOD)]
        below = [min(value_at(*run, count) for run in others) > value for count, value in zip(counts, own, strict=True)]
        return sum(below), len(below)


def listed(values, form="{:.2e}"):
    """The numbers of methods, in words."""
    return ", ".join(f"{name} {form.format(value)}" for name, value in values.items())


def judge_baselines(where, panel):
    """The verdict on Pdprox beside the baselines; where: the figure and the problem."""
    last, others = panel.ends()
    led, marks = panel.lead()
    holds, by = ahead(last[PDPROX], min(others.values()))
    verdict(
        holds, f"{where}: Pdprox is below all baselines",
        f"in the end it is {last[PDPROX]:.2e} above the optimum, {listed(others)}; it is below them at {led} of "
        f"{marks} counts of products", by,
    )  # fmt: skip


def judge_gap_method(where, panel, better, worse):
    """The verdict on Pdprox and the excessive gap technique after as many iterations: that one is below the other."""
    last, same = panel.after(), panel.ends()[0]
    holds, by = ahead(last[better], last[worse])
    verdict(
        holds, f"{where}: {better} is below {worse}",
        f"after as many iterations {last[better]:.2e} against {last[worse]:.2e}, after as many products "
        f"{same[better]:.2e} against {same[worse]:.2e}", by,
    )  # fmt: skip


def judge_lambdas(where, large, small):
    """The verdict on what the larger lambda does to the lead of Pdprox over the excessive gap technique."""
    lasts = [panel.after() for panel in (large, small)]
    ratios = [factor(last[PDPROX], last[GAP_METHOD]) for last in lasts]
    holds, by = ahead(ratios[1], ratios[0])
    verdict(
        holds, f"{where}: the lead of Pdprox over {GAP_METHOD} is larger with the larger lambda",
        f"{GAP_METHOD} is {ratios[0]:.3g} times as far from the optimum with the larger one, {ratios[1]:.3g} times "
        "with the smaller one", by,
    )  # fmt: skip
