"""Does training keep within --memory? Peak memory of whole training processes, as the operating system reports it.

    python -m examples.benchmarks.memory [--dir DIR] [--sizes 1G,4G] [--memory 256M] [--solver auto] [--passes 2]

Dense rows, CSR rows and ten classes are measured. It prints the peak of `streammargin train` on files of each size. The
peak of the same command on 100 rows of the same width is subtracted (kernels cached). The difference must not exceed
the budget. The last part limits what the process may allocate (prlimit --data). The smallest limit that suffices for
100 rows, plus the budget, must suffice for the largest file. Rows that a solver caches count towards the budget; with
more --passes it caches more of them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

KINDS = {
    "dense": ["--features", "256"],
    "sparse": ["--sparse", "--features", "262144", "--nonzeros", "64"],
    "ten classes": ["--features", "256", "--classes", "10"],
}
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text):
    return int(float(text[:-1]) * UNITS[text[-1]])


def peak_of(command):
    """(exit code, peak resident bytes) of a command; this parent stays small, so its peak is not inherited."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_maxrss * 1024


def run(module, *arguments, limit=None, seconds=30):
    """(exit code, peak resident bytes) of a command of ours, under a limit of what it may allocate."""
    command = [sys.executable, "-m", module, *arguments]
    if limit is not None:
        # OpenBLAS spins for ever when it gets no memory; the stack of a thread counts whole, touched or not
        prlimit = ["prlimit", f"--data={limit}", f"--stack={1 << 20}"]
        command = ["timeout", "-s", "KILL", str(seconds), *prlimit, *command]
    return peak_of(command)


def train(data, options, **limits):
    """(exit code, peak resident bytes) of a training."""
    return run("streammargin", "train", data, "-o", data + ".npz", "--force", "--memory", options.memory,
               "--solver", options.solver, "--passes", options.passes, "--bias", "0", **limits)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir")
    parser.add_argument("--sizes", default="1G,4G")
    parser.add_argument("--memory", default="256M")
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--passes", default="2")
    parser.add_argument("--no-limit", action="store_true", help="leave the last part out")
    options = parser.parse_args()
    budget = size_of(options.memory)
    folder = tempfile.mkdtemp(dir=options.dir)
    failed = False
    print(f"budget {options.memory}; all figures in MiB")
    print(f"{'rows':<12} {'file':>6} {'peak':>8} {'100 rows':>9} {'difference':>11} {'kept':>5}")
    try:
        for kind in options.only.split(","):
            shape = KINDS[kind]
            small, large = os.path.join(folder, "small.h5"), os.path.join(folder, "large.h5")
            run("streammargin.data_tools", "generate", small, "--rows", "100", "--force", *shape)
            train(small, options)  # compiles and caches
            idle = max(train(small, options)[1] for _ in range(3))
            for number, size in enumerate(options.sizes.split(",")):
                run("streammargin.data_tools", "generate", large, "--size", size, "--force", *shape)
                if number == 0:
                    train(large, options)  # out of core there are kernels more: compiling them takes memory of its own
                code, peak = train(large, options)
                kept = code == 0 and peak - idle <= budget
                failed |= not kept
                print(f"{kind:<12} {size:>6} {peak / 2**20:8.0f} {idle / 2**20:9.0f} {(peak - idle) / 2**20:11.0f} "
                      f"{'yes' if kept else 'NO':>5}", flush=True)  # fmt: skip
            if options.no_limit:
                continue
            low, high = 64 << 20, 4 << 30  # the least limit under which 100 rows are trained on
            while high - low > 4 << 20:
                middle = (low + high) // 2
                low, high = (low, middle) if train(small, options, limit=middle)[0] == 0 else (middle, high)
            code, _ = train(large, options, limit=high + budget, seconds=1800)
            failed |= code != 0
            print(f"{kind:<12} {size:>6} under prlimit --data={(high + budget) >> 20}M "
                  f"(100 rows need {high >> 20}M): exit code {code}", flush=True)  # fmt: skip
    finally:
        shutil.rmtree(folder)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
