"""streammargin demo: train on a file larger than the memory budget, by the commands that a user would type."""

from __future__ import annotations

import argparse
import contextlib
import functools
import glob
import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

from streammargin.cli import entry
from streammargin.errors import OutputError
from streammargin.sizes import format_size, parse_size

FEATURES = 1 << 15


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the demo."""
    parser.add_argument("--size", default="1100M", metavar="SIZE", help="size of the data file (default 1100M)")
    parser.add_argument("--memory", default="256M", metavar="SIZE", help="memory budget of the training (default 256M)")
    parser.add_argument("--dir", metavar="DIR", help="where to put the files (default: the temporary directory)")
    parser.add_argument("--keep", action="store_true", help="keep the data file and the model")


def run(options: argparse.Namespace) -> int:
    """Generate, train, and say what was proven."""
    size, budget = parse_size(options.size), parse_size(options.memory)
    parent = options.dir or tempfile.gettempdir()
    if not os.path.isdir(parent):
        raise OutputError(f"there is no directory {parent} for the demo's files; name another with --dir")
    free = shutil.disk_usage(parent).free
    if free < size * 1.1:
        raise OutputError(
            f"{parent} has {format_size(free)} free and the demo writes {format_size(size)}; "
            "name another directory with --dir or a smaller --size"
        )
    folder = os.path.join(parent, f"streammargin-demo-{secrets.token_hex(4)}")
    data, small, model, log = (os.path.join(folder, name) for name in ("demo.h5", "small.h5", "demo.npz", "log.json"))
    print(f"A file of {format_size(size)}, a memory budget of {format_size(budget)}; as you would type it:")
    undo = _remove_unfinished if options.keep else functools.partial(shutil.rmtree, ignore_errors=True)
    entry.before_leaving.append(functools.partial(undo, folder))  # after the commands are killed
    try:
        os.mkdir(folder, 0o700)
        shape = ["--sparse", "--features", str(FEATURES), "--nonzeros", "64", "--noise", "0.05"]
        train = ["-c", "0.1", "--memory", options.memory]
        started = time.monotonic()
        code, _ = _call("streammargin.data_tools", "generate", data, "--size", options.size, *shape)
        if code:
            return code
        print(f"  written in {time.monotonic() - started:.0f} s", flush=True)
        # the compiler takes memory and time of its own: it is done before either is measured
        _call("streammargin.data_tools", "generate", small, "--rows", "100", *shape, waiting="writing 100 rows more")
        on_small = ["train", small, *train, "-o", model + ".small", "--force", "-q"]
        compiling = "compiling for this machine, unless it was done before"
        _call("streammargin", *on_small, waiting=compiling, STREAMMARGIN_PATIENCE="0")
        code, peak = _call("streammargin", "train", data, "-o", model, *train, "--log-json", log)
        if code:
            return code
        with open(log, encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        # what the interpreter and the compiled kernels take: the same command on 100 rows of the same width
        _, idle = _call("streammargin", *on_small, waiting="the same command on 100 rows, to compare the memory")
        for line in _proven(events, peak, idle, budget):
            print(line)
        if options.keep:
            print(f"kept: {data}, {model}")
        else:
            print(f"{folder} is deleted, with the data and the model; --keep keeps them")
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _remove_unfinished(folder: str) -> None:
    """Remove the hidden files and folders of a command that was killed."""
    for name in glob.glob(os.path.join(glob.escape(folder), ".streammargin-*")):
        shutil.rmtree(name, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(name)


def _call(module: str, *arguments: str, waiting: str = "", **environment: str) -> tuple[int, int]:
    """Run one of our commands in a new process; returns (exit code, peak resident bytes).

    waiting: what is said in place of its output, with the seconds on a terminal. environment: variables to set for it.
    """
    if not waiting:
        name = "streammargin-data" if module == "streammargin.data_tools" else module
        print(f"$ {shlex.join([name, *arguments])}", flush=True)
    output: Any = subprocess.DEVNULL if waiting else None
    command = [sys.executable, "-m", module, *arguments]
    child = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **environment})
    entry.before_leaving.append(child.kill)
    status, usage = _ended(child, waiting)
    child.returncode = os.waitstatus_to_exitcode(status)
    peak = usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024
    return child.returncode, peak


def _ended(child: subprocess.Popen, waiting: str) -> tuple[int, Any]:
    """Status and usage of the process, once it has ended; until then says what it does, if anything is to be said."""
    if not waiting:
        return os.wait4(child.pid, 0)[1:]
    terminal, started, told = sys.stdout.isatty(), time.monotonic(), 0
    print(f"  {waiting}", end="" if terminal else "\n", flush=True)
    while not (found := os.wait4(child.pid, os.WNOHANG))[0]:
        time.sleep(0.05)
        if terminal and (passed := int(time.monotonic() - started)) > told:
            told = passed
            print(f"\r  {waiting}: {told} s", end="", flush=True)
    if terminal:
        print()
    return found[1:]


def _proven(events: list[dict[str, Any]], peak: int, idle: int, budget: int) -> list[str]:
    exact = [event for event in events if event["event"] == "certificate"][-1]
    start, end = events[0], events[-1]
    read = sum(event["bytes_read"] for event in events if event["event"] == "pass_end")
    mebibyte = 1 << 20
    return [
        f"{start['data']['rows']:,} rows of {start['data']['features']:,} columns, {end['passes']} passes, "
        f"{end['seconds']:.1f} s, {read / 1e9:.1f} GB read",
        f"proven: the objective {exact['primal']:.6g} is within a relative {exact['gap']:.1e} of the best possible",
        f"        (a dual solution of value {exact['dual']:.6g} bounds it from below; at fixed weights, from all rows)",
        f"        {exact['mistakes']:,} rows ({exact['train_error']:.2%}) on the wrong side",
        f"memory: {(peak - idle) / mebibyte:.0f} MiB more than on 100 rows of the same width "
        f"(peak {peak / mebibyte:.0f} against {idle / mebibyte:.0f} MiB); the budget is {budget / mebibyte:.0f} MiB",
    ]
