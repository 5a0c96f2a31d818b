"""Is one checkout slower than another? CPU seconds of the same trainings by both, in turns.

    python -m examples.benchmarks.beside OLD NEW FOLDER [--rounds 5] [--only "D hinge"]

OLD and NEW are checkouts, FOLDER holds the sets as distributed. The trainings are those of `in_memory --quick`, of
`nonsmooth` and of `steps`, and passes over files that are larger than the budget. Each line has new over old, the
median of the rounds; the CPU seconds of old; passes and multiplications of both if they differ. Every side compiles its
kernels first. Trainings of milliseconds are repeated until old took 0.15 s. The last lines have the geometric mean of
the ratios, and the rows above 1.15.
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time

LEAST = 0.15  # CPU seconds of a turn
SLOWER = 1.15  # rows above it are listed
WHOLE = ("dual-momentum", "normalized-gd", "gd", "batch-perceptron", "diagonal", "inertial-diagonal", "homotopic")
OUT_OF_CORE = {"dense": (200_000, {"features": 200}), "csr": (150_000, {"features": 47_000, "sparse": True})}


def cases(folder):
    """(Title, what to train on, options) of everything."""
    for name in ("a9a", "covtype20k", "htru2", "mushrooms", "rcv1sub", "mnist01", "A", "D", "C", "E"):
        for loss in ("hinge", "squared_hinge", "logistic"):
            for C in (0.01, 1.0, 100.0) if loss == "hinge" and name != "C" else (1.0,):
                for tol in (1e-3,) if loss == "hinge" else (1e-3, 1e-6):
                    if loss == "hinge" or name != "C":
                        yield f"{name} {loss} C={C:g} {tol:g}", name, {"loss": loss, "C": C, "tol": tol, "bias": 0}
    for name, rows in (("a9a", 32_561), ("rcv1sub", 16_193)):
        for strength in (1e-3, 1e-5):
            for loss in ("hinge", "logistic", "squared_hinge", "squared_error"):
                for penalty in ("l1", "group") if loss == "hinge" else ("l1", "elasticnet"):
                    if strength == 1e-3 or penalty != "elasticnet":
                        given = {"loss": loss, "penalty": penalty, "C": 1.0 / (strength * rows), "tol": 1e-3, "bias": 0}
                        yield f"{name} {loss} {penalty} {strength:g}", name, given
    for name in ("D", "A"):
        for solver in (*WHOLE, "sdca", "asdca"):
            passes = 30 if solver in WHOLE else 5
            yield f"{name} {solver}", name, {"solver": solver, "C": "inf", "tol": 0.0, "passes": passes}
        for penalty in ("l2", "elasticnet"):
            given = {"solver": "sdca", "loss": "logistic", "penalty": penalty, "tol": 0.0, "bias": 0, "passes": 9}
            yield f"{name} sdca logistic {penalty}", name, {**given, "C": 1.0}
    for form in OUT_OF_CORE:
        for loss, C in (("hinge", 0.01), ("hinge", 1.0), ("hinge", 100.0), ("logistic", 1.0)):
            given = {
                "loss": loss,
                "C": C,
                "tol": 1e-3,
                "bias": 0,
                "passes": 4,
                "memory": "40M" if form == "dense" else "32M",
            }
            yield f"{form} out of core {loss} C={C:g}", os.path.join(folder, f"{form}.h5"), given


def answer(data, rows):
    """Train as each line of the input says, in a checkout; a line of figures for each."""
    import streammargin as sm
    from examples.benchmarks.judge import Penalised
    from examples.benchmarks.nonsmooth import groups_of
    from examples.benchmarks.sets import WORK, load, make
    from streammargin.compiled.jit import compile_seconds
    from streammargin.data_tools.generate import generate

    logging.disable()  # trainings that stop before their tolerance say so
    held = {}
    for line in sys.stdin:
        name, options, seeds = json.loads(line)
        form = os.path.basename(name).removesuffix(".h5")
        if form in OUT_OF_CORE and not os.path.exists(name):
            generate(name, noise=0.1, rows=rows or OUT_OF_CORE[form][0], **OUT_OF_CORE[form][1])
        if options.get("penalty") == "group":
            columns = {"a9a": 123, "rcv1sub": 47_236}[name]
            options |= Penalised("hinge", "group", groups_of(name, columns)).options
        if name not in held:
            X, y, *_ = (name, None) if form in OUT_OF_CORE else load(name, make(name, data, WORK), rows)
            held = {name: X if y is None else (X, y)}
        compiled, spent = compile_seconds(), time.process_time()
        for seed in seeds:
            result = sm.train(held[name], **{**options, "C": float(options["C"]), "seed": seed})
        found = {"cpu": (time.process_time() - spent) / len(seeds), "compiled": compile_seconds() > compiled}
        work = [event["multiplications"] for event in result.history if "multiplications" in event][-1]
        print(json.dumps({**found, "work": [result.passes, work]}), flush=True)


def started(tree, data, rows):
    """The process that trains with this checkout."""
    given = {"PYTHONPATH": tree, "OPENBLAS_NUM_THREADS": "1", "STREAMMARGIN_PATIENCE": "0"}
    return subprocess.Popen(
        [sys.executable, __file__, data, str(rows or "")], cwd=tree, text=True, env={**os.environ, **given},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def ask(side, *question):
    side.stdin.write(json.dumps(question) + "\n")
    side.stdin.flush()
    return json.loads(side.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs=2, metavar="CHECKOUT")
    parser.add_argument("data", metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="titles with these words")
    parser.add_argument("--rows", type=int, help="at most so many rows of a set, for a trial")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sides = [started(os.path.abspath(tree), options.data, options.rows) for tree in options.trees]
        ratios = {}
        for title, name, given in cases(folder):
            if options.only in title:
                for side in sides:
                    while (first := ask(side, name, given, [0]))["compiled"]:
                        pass
                seeds = list(range(max(1, int(LEAST / max(1e-4, first["cpu"])))))
                rounds = []
                for turn in range(options.rounds):
                    order = (0, 1) if turn % 2 == 0 else (1, 0)
                    found = {at: ask(sides[at], name, given, seeds) for at in order}
                    rounds.append((found[0], found[1]))
                ratios[title] = statistics.median(new["cpu"] / old["cpu"] for old, new in rounds)
                old, new = rounds[-1]
                apart = "" if old["work"] == new["work"] else f" {old['work']} {new['work']}"
                print(f"{title}: {ratios[title]:.2f} of {old['cpu']:.4f} s{apart}", flush=True)
        print_summary(ratios)
        for side in sides:
            side.communicate()


def print_summary(ratios):
    """The spread of the ratios, and the rows that are slower."""
    values, slower = ratios.values(), [title for title, ratio in ratios.items() if ratio > SLOWER]
    middles = f"median {statistics.median(values):.2f}, geometric mean {statistics.geometric_mean(values):.2f}"
    print(f"{len(ratios)} rows, {min(values):.2f} to {max(values):.2f}, {middles}")
    print(f"{len(slower)} above {SLOWER}:", *(f"{title} {ratios[title]:.2f};" for title in slower))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        answer(sys.argv[1], int(sys.argv[2]) if sys.argv[2] else None)
    else:
        main()
