"""What the console shows: time left, lines that fit, few of them without a terminal, and a table of several C."""

import io
import itertools
import math
import os
import pty
import re
import time

import pytest

from streammargin.sinks import console as console_module
from streammargin.sinks.console import Console, GapBar, Pace


def shown(columns, max_seconds, monkeypatch):
    """The progress line on a terminal of this width (0: unknown), with this time left."""
    monkeypatch.setattr(os, "get_terminal_size", lambda number: os.terminal_size((columns, 24)))
    monkeypatch.setenv("TERM", "xterm")
    leader, follower = pty.openpty()
    with open(follower, "w", encoding="utf-8") as stream:
        console = Console(stream=stream, max_seconds=max_seconds)
        event = {"event": "progress", "phase": "pass", "pass": 3, "blocks": 2, "bytes_read": 0, "wait_seconds": 0.0,
                 "estimate": 0.25, "elapsed": 1.0}  # fmt: skip
        # what the first step took says nothing of the others
        console({**event, "block": 0.4, "rows": 20, "seconds": 10.0})
        console._last = -1e9
        console({**event, "block": 1, "rows": 520, "seconds": 10.5})
        text = os.read(leader, 4096).decode()
    os.close(leader)
    assert text.startswith("\r\x1b[K")
    return text.removeprefix("\r\x1b[K")


@pytest.mark.parametrize("columns", [0, 100])
def test_a_line_is_whole_where_it_fits(columns, monkeypatch):
    assert shown(columns, 3.0, monkeypatch) == "pass 3  50%  1,000 rows/s  estimated gap ~2.5e-01  at most 2.0s left"


def test_a_narrow_terminal_gets_whole_parts(monkeypatch):
    assert shown(55, 3.0, monkeypatch) == "pass 3  50%  estimated gap ~2.5e-01  at most 2.0s left"
    assert shown(54, 3.0, monkeypatch) == "pass 3  50%  estimated gap ~2.5e-01"
    assert shown(30, 3.0, monkeypatch) == "pass 3  50%"
    assert shown(5, 3.0, monkeypatch) == "pass"


def test_a_narrow_terminal_keeps_the_bar_whole(monkeypatch):
    monkeypatch.setattr(Console, "_columns", lambda self: 80)
    stream = io.StringIO()
    console = Console(stream=stream)
    console.bar = True
    console._on_run_start(start())
    console._pace.params = {"tol": 1e-3}
    console._last = -1e9
    console({"event": "progress", "phase": "certificate", "pass": 3, "block": 1, "blocks": 5, "rows": 1000,
             "seconds": 0.25, "bytes_read": 10**7, "wait_seconds": 0.1, "estimate": 0.021, "elapsed": 1.})  # fmt: skip
    line = stream.getvalue().rpartition("\x1b[K")[2]
    assert line == "certificate  20%  [                    ] gap ~2.1e-02 -> 1.0e-03"


def test_a_time_beyond_reason_is_left_out(monkeypatch):
    assert shown(100, 99.0 * 3600, monkeypatch).endswith("98h59m left")
    assert shown(100, 1538.0 * 3600, monkeypatch).endswith("estimated gap ~2.5e-01")
    assert shown(100, None, monkeypatch).endswith("estimated gap ~2.5e-01")


def test_the_time_left_is_not_guessed_while_the_lower_bound_tells_nothing():
    for gaps, told in (([1.0, 0.99, 0.97], False), ([0.97, 0.8, 0.6], True)):
        pace = Pace({"tol": 1e-3}, None)
        pace.passes = [(time.monotonic() + k - 3.0, gap) for k, gap in enumerate(gaps)]
        assert ("left" in pace.left({"block": 0, "pass": 3})) == told


def test_a_terminal_shows_how_many_kernels_are_compiled():
    stream = io.StringIO()
    console = Console(stream=stream)
    console.bar = True
    for kernels, seconds in ((1, 0.2), (2, 7.5)):
        console._last = -1e9
        console({"event": "compiling", "kernels": kernels, "seconds": seconds, "busy": False})
    assert stream.getvalue() == "\r\x1b[Kcompiling, 8 s, 2 kernels done"
    console._last = -1e9
    measured = {"of": 12, "seconds_left": 21.7}
    console({"event": "compiling", "kernels": 3, "seconds": 9.0, "busy": False, **measured})
    assert stream.getvalue().endswith("\r\x1b[Kcompiling, 9 s, 3 of about 12 kernels, about 22 s left")
    log = io.StringIO()
    Console(stream=log)({"event": "compiling", "kernels": 2, "seconds": 70.0, "busy": True})
    assert not log.getvalue()


@pytest.mark.parametrize("parts, said", [([], ""), ([1], ", 1 part of the next"), ([1, 2], ", 2 parts of the next")])
def test_a_terminal_counts_the_seconds_and_the_parts_of_a_kernel(monkeypatch, parts, said):
    monkeypatch.setattr(console_module, "_TICK", 0.01)
    looks = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: next(looks) / 100)  # a busy machine takes no longer
    stream = io.StringIO()
    console = Console(stream=stream)
    console.bar = True
    console({"event": "compiling", "kernels": 2, "seconds": 0.2, "busy": True})
    for part in parts:
        console({"event": "compiling", "parts": part})
    line = f"compiling, 0 s, 2 kernels done{said}"
    for _ in range(3000):  # half a minute
        if stream.getvalue().count(line) >= 2:
            break
        time.sleep(0.01)
    assert stream.getvalue().count(line) >= 2
    console({"event": "compiling", "kernels": 3, "seconds": 0.3, "busy": False})
    assert not console._ticker.is_alive()


def test_time_left_has_no_compiling_and_no_guess_that_has_run_out(monkeypatch):
    clock = Clock(monkeypatch)
    console = Console(stream=io.StringIO())
    console(start())
    for clock.now, gap in ((1.0, 0.1), (2.0, 0.05), (3.0, 0.02)):
        console({"event": "pass_end", "pass": 1, "rows": 10, "seconds": 1.0, "estimate": gap})
    event = {"block": 0, "pass": 4}
    before = console._pace.left(event)
    clock.now += 50.0
    assert before.startswith("~3.") and console._pace.left(event) == ""
    console({"event": "compiling", "kernels": 1, "seconds": 50.0, "busy": False})
    assert console._pace.left(event) == before


@pytest.mark.parametrize("most, threads, said", [
    (3, 8, ", with room for sums of 3 of 8 threads"), (1, 2, ", with room for sums of 1 of 2 threads"),
    (3, 3, ""), (16, 8, ""), (None, 8, ""), (1, 1, ""),
])  # fmt: skip
def test_the_plan_says_if_sums_have_room_for_fewer_threads(most, threads, said):
    event, stream = start(), io.StringIO()
    event["plan"]["most_threads"] = most
    Console(stream=stream, threads=threads)(event)
    assert (
        stream.getvalue()
        == f"a.h5: 1000 rows, 8 features, 8000 values; 4 blocks of up to 250 rows, 1 MiB planned{said}\n"
    )


class Clock:
    """Stands for the clock of the console."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def start(**params):
    data = {"path": "a.h5", "rows": 1000, "features": 8, "nnz": 8000}
    plan = {"blocks": 4, "block_rows": 250, "memory_bytes": 1 << 20}
    return {"event": "run_start", "params": {"tol": 1e-3, "passes": 1000, **params}, "data": data, "plan": plan}


def told(passes, monkeypatch, params=(), seconds=1.0, estimates=lambda number: 0.5, verbosity=0):
    """The lines, without a terminal, of a run of this many passes, each of this many seconds."""
    clock, stream = Clock(monkeypatch), io.StringIO()
    console = Console(verbosity, stream, max_seconds=dict(params).get("max_seconds"))
    console(start(**dict(params)))
    for number in range(1, passes + 1):
        for block in range(1, 5):
            clock.now += seconds / 4
            console(
                {"event": "progress", "phase": "pass", "pass": number, "block": block, "blocks": 4, "rows": 250 * block,
                 "seconds": seconds * block / 4, "bytes_read": 0, "wait_seconds": 0.0,
                 "estimate": None if number == 1 else estimates(number - 1), "elapsed": clock.now}
            )  # fmt: skip
        console({"event": "pass_end", "pass": number, "rows": 1000, "seconds": seconds, "estimate": estimates(number)})
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("passes, seconds", [(3, 20.0), (1000, 1.0), (1000, 3600.0), (100_000, 0.01)])
def test_without_a_terminal_there_are_few_lines_however_long_it_takes(passes, seconds, monkeypatch):
    lines = told(passes, monkeypatch, seconds=seconds)
    assert 2 < len(lines) <= 14  # and room for warnings and the end


def test_without_a_terminal_a_certificate_is_a_line_but_not_within_ten_seconds(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    console = Console(stream=stream)
    console(start(C=[0.1, 1.0]))
    figures = {"margin_gap": None, "mistakes": 7, "residual": None, "valid_error": None, "trainings": 3}
    for clock.now in (9.0, 10.0, 19.0, 1000.0, 1010.0):
        for cost, gap in ((0.1, 1e-3), (1.0, 0.5), (10.0, 0.2)):
            console({"event": "certificate", "pass": int(clock.now), "C": cost, "gap": gap, **figures})
    assert stream.getvalue().splitlines()[1:] == [
        f"pass {number}  1 of 3 proven  the worst, C 1:  certified gap 5.0e-01  7 mistakes"
        for number in (10, 1000, 1010)
    ]


def test_a_terminal_shows_how_many_of_several_trainings_are_proven_and_guesses_no_time(monkeypatch):
    """The gap is that of the worst of them: it may fall at the very end, after hours by its slope."""
    clock, stream = Clock(monkeypatch), io.StringIO()
    console = Console(stream=stream)
    console.bar = True
    console(start(C=[0.1, 1.0, 10.0, 100.0]))
    figures = {"margin_gap": None, "mistakes": 7, "residual": None, "valid_error": None, "trainings": 4}
    for number, gaps in enumerate([(0.9, 0.9, 0.9, 0.9), (1e-3, 0.5, 0.6, 0.7), (1e-3, 1e-4, 1e-3, 0.6)], 1):
        console({"event": "pass_end", "pass": number, "rows": 9, "seconds": 1.0, "estimate": max(gaps)})
        for cost, gap in enumerate(gaps):
            console({"event": "certificate", "pass": number, "C": cost, "gap": gap, **figures})
        clock.now += 20.0
        console(
            {"event": "progress", "phase": "pass", "pass": number + 1, "block": 1, "blocks": 2, "rows": 9,
             "seconds": 1.0, "bytes_read": 0, "wait_seconds": 0.0, "estimate": max(gaps), "elapsed": 1.0}
        )  # fmt: skip
    lines = stream.getvalue().split("\r\x1b[K")[-3:]
    for line, filled, proven in zip(lines, (0, 5, 15), (0, 1, 3), strict=True):
        assert f"[{'=' * filled:<20}] {proven} of 4 proven  estimated gap" in line
    assert not any("left" in line or "->" in line for line in lines)


@pytest.mark.parametrize("first, passes, seconds", [(0.0, 1, 0.2), (0.0, 9, 1.0), (3600.0, 2, 4.0)])
def test_a_short_read_is_no_line_without_a_terminal(first, passes, seconds, monkeypatch):
    """first: seconds before the first pass, as of compiling."""
    clock, stream = Clock(monkeypatch), io.StringIO()
    console = Console(stream=stream)
    clock.now = first
    console(start())
    for number in range(1, passes + 1):
        event = {"event": "progress", "phase": "pass", "pass": number, "blocks": 2, "rows": 500, "bytes_read": 0,
                 "wait_seconds": 0.0, "estimate": None, "elapsed": clock.now}  # fmt: skip
        for block in (0.01, 1, 2):
            console({**event, "block": block, "seconds": seconds * block / 2})
        clock.now += seconds
        console({"event": "pass_end", "pass": number, "rows": 1000, "seconds": seconds, "estimate": 0.5})
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("name, said", [("xterm", "reading a.h5, b.csv\n"), ("dumb", "")])
def test_a_terminal_says_what_is_read_before_anything_slow(name, said, monkeypatch):
    monkeypatch.setenv("TERM", name)
    leader, follower = pty.openpty()
    with open(follower, "w", encoding="utf-8") as stream:
        Console(-1, stream).reading(["a.h5", "b.csv"])
        Console(stream=stream).reading(["a.h5", "b.csv"])
        stream.write("end")
        stream.flush()
        shown = ""
        while not shown.endswith("end"):  # a terminal may pass on one write after the other
            shown += os.read(leader, 4096).decode()
    os.close(leader)
    assert shown.replace("\r\n", "\n") == said + "end"


def test_time_left_counts_passes_and_seconds(monkeypatch):
    slow = lambda number: 0.5 - 1e-4 * number  # noqa: E731  # by its slope it would take hours
    last = lambda limit: [line for line in told(8, monkeypatch, limit, 4.0, slow, 1) if line.endswith("left")][-1]  # noqa: E731
    assert re.search(r"~\d+[hm]", last({"passes": 100_000}))
    for limit, end in (({"passes": 10}, 40.0), ({"max_seconds": 36.0}, 36.0)):
        line = last(limit)
        number, share = re.match(r"pass (\d+) +(\d+)%", line).groups()
        passed = 4.0 * (int(number) - 1 + int(share) / 100)
        assert line.endswith(f"at most {end - passed:.1f}s left") and passed > 12.0


def test_what_is_believed_and_what_is_proven_are_told_apart_by_words(monkeypatch):
    Clock(monkeypatch)
    console = Console(stream=io.StringIO())
    console({"event": "certificate", "pass": 1, "gap": 0.4, "margin_gap": None, "residual": None, "valid_error": None})
    assert console._gaps(0.02) == ["estimated gap ~2.0e-02", "certified gap 4.0e-01"]


def test_a_gap_that_nothing_is_known_of_is_not_certified(monkeypatch):
    Clock(monkeypatch)
    stream = io.StringIO()
    console = Console(1, stream)
    event = {"event": "certificate", "pass": 1, "gap": None, "mistakes": 7, "residual": None, "valid_error": None}
    console({**event, "margin_gap": float("inf")})
    console({**event, "margin_gap": 0.5, "pass": 2})
    lines = ["pass 1  certified no gap yet  7 mistakes", "pass 2  certified margin gap 5.0e-01  7 mistakes"]
    assert stream.getvalue().splitlines() == lines


@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("many, best", [(8, 0), (9, 4), (30, 0), (30, 14), (30, 29)])
def test_many_C_stay_within_the_lines_of_a_run(many, best, logged, monkeypatch):
    costs = [2.0**k for k in range(many)]
    lines = told(100, monkeypatch, {"C": costs}, seconds=3600.0)
    Clock(monkeypatch)
    figures = {"gap": 5e-4, "margin_gap": None, "train_error": 0.25, "valid_error": 0.3}
    end = {"event": "run_end", "status": "ok", "converged": True, "reason": "tolerance", "passes": 1, "seconds": 2.0}
    end |= {"C": costs[best], "trials": [{"C": C, **figures} for C in costs], **figures, "residual": None}
    short, whole = io.StringIO(), io.StringIO()
    Console(stream=short, logged=logged)(end)
    Console(1, whole)(end)
    assert len(whole.getvalue().splitlines()) == many + 2
    table = short.getvalue().splitlines()
    # three warnings may come between: the scale, the classes that are never predicted, the best C at the edge
    assert len(lines) + 3 + len(table) <= 20
    assert sum(line.endswith("chosen") and line.split()[0] == f"{costs[best]:g}" for line in table) == 1
    where = "are in the log" if logged else "are shown by -v, in Python by result.run_end"
    assert [line for line in table if "more values" in line] == [f"{many - 7} more values of C {where}"] * (many > 8)


def test_a_path_shows_how_many_weights_are_not_0():
    stream = io.StringIO()
    one = {"C": 0.25, "nonzeros": 12, "gap": 5e-4, "margin_gap": None, "train_error": 0.25, "valid_error": 0.3}
    end = {"event": "run_end", "status": "ok", "converged": True, "reason": "tolerance", "passes": 7, "seconds": 2.0}
    Console(stream=stream)({**end, "C": 0.25, "trials": [one], **one, "residual": None})
    assert stream.getvalue().splitlines()[:2] == [
        "         C  nonzeros  certified gap  training error  held-out error",
        "      0.25        12  5.0e-04        0.2500          0.3000          chosen",
    ]


@pytest.mark.parametrize(
    "valid, title, shown", [(0.3, "  held-out error", "  0.3000          chosen"), (None, "", "  chosen")]
)
def test_numbers_have_no_column_of_training_errors(valid, title, shown):
    stream = io.StringIO()
    one = {"C": 0.25, "rank": 3, "gap": 5e-4, "margin_gap": None, "train_error": None, "valid_error": valid}
    end = {"event": "run_end", "status": "ok", "converged": True, "reason": "tolerance", "passes": 7, "seconds": 2.0}
    Console(stream=stream)({**end, "trials": [one], **one, "residual": None})
    assert stream.getvalue().splitlines()[:2] == [
        f"         C  certified gap{title}",
        f"      0.25  5.0e-04      {shown}",
    ]


ONE_SE = "chosen: the smallest C whose error is at most one standard error above the least"


@pytest.mark.parametrize("cv, foot", [(None, []), ("5", []), ("5,rule=1se", [ONE_SE])])
def test_several_C_end_with_a_table(monkeypatch, cv, foot):
    Clock(monkeypatch)
    stream = io.StringIO()
    trials = [
        {"C": 0.1, "gap": 5e-4, "margin_gap": None, "train_error": 0.25, "valid_error": 0.3},
        {"C": 10.0, "gap": 0.5, "margin_gap": None, "train_error": 0.125, "valid_error": 0.2},
    ]
    end = {"event": "run_end", "status": "ok", "converged": False, "reason": "passes", "passes": 1, "seconds": 2.0}
    console = Console(stream=stream)
    console._pace.params = {"cv": cv}
    console({**end, "C": 10.0, "trials": trials, **trials[1], "residual": None})
    assert stream.getvalue().splitlines() == [
        "         C  certified gap  training error  held-out error",
        "       0.1  5.0e-04        0.2500          0.3000",
        "        10  5.0e-01        0.1250          0.2000          chosen",
        *foot,
        "not converged (passes) after 1 pass in 2.0s, best C 10, certified gap 5.0e-01, valid error 0.2000",
    ]


@pytest.mark.parametrize("compiling, text", [(9.04, ", 9.0s of them compiling"), (0.01, ""), (0.0, "")])
def test_the_last_line_says_how_long_compiling_took(compiling, text):
    stream = io.StringIO()
    end = {"event": "run_end", "status": "ok", "converged": True, "reason": "tolerance", "passes": 2, "seconds": 12.0}
    figures = {"C": 1.0, "trials": None, "gap": 5e-4, "margin_gap": None, "residual": None, "valid_error": None}
    Console(stream=stream)({**end, **figures, "compile_seconds": compiling})
    assert stream.getvalue() == f"converged (tolerance) after 2 passes in 12.0s{text}, certified gap 5.0e-04\n"


def test_a_stream_has_no_rows_to_count():
    stream = io.StringIO()
    event = start()
    event["data"].update(path="stream", rows=None, nnz=None)
    Console(stream=stream)(event)
    assert stream.getvalue() == "stream: batches of 8 features, each row once\n"


def test_the_bar_is_the_way_of_the_gap_to_the_tolerance_on_a_logarithmic_scale():
    bar = GapBar()
    assert [bar.text(gap, 1e-3) for gap in (1.0, 0.1, 1e-2, 2e-3, 1e-3, 0.0, 10.0)] == [
        "[" + "=" * done + " " * (20 - done) + "]" for done in (0, 6, 13, 17, 20, 20, 0)
    ]
    assert GapBar().text(0.0, 1e-3) == GapBar().text(5e-4, 1e-3) == "[" + "=" * 20 + "]"


@pytest.mark.parametrize("tol, estimate, gap, said", [
    (1e-3, 0.25, None, "[                    ] gap ~2.5e-01 -> 1.0e-03"),
    (1e-3, None, 0.5, "[                    ] gap 5.0e-01 -> 1.0e-03"),
    (1e-3, None, None, ""), (0.0, 0.25, None, "estimated gap ~2.5e-01"),
    ("mean:1e-3", 0.25, None, "estimated gap ~2.5e-01"),
    (1e-3, math.inf, None, ""), (1e-3, 1.7, None, ""), ("mean:1e-3", 1.7, None, "estimated gap ~1.7e+00"),
])  # fmt: skip
def test_a_terminal_shows_the_gap_on_its_way(tol, estimate, gap, said):
    console = Console(stream=io.StringIO())
    console.bar, console._pace.params, console._certified = True, {"tol": tol}, gap
    assert "  ".join(console._gaps(estimate)) == said


def test_a_log_has_lines_while_one_kernel_is_compiled_for_long(monkeypatch):
    for name in ("_TICK", "_APART"):
        monkeypatch.setattr(console_module, name, 0.01)
    stream, event = io.StringIO(), {"event": "compiling", "kernels": 3, "seconds": 5.0}
    console = Console(stream=stream)
    console({**event, "busy": True})
    for _ in range(3_000):
        if stream.getvalue().count("compiling, 5 s, 3 kernels done") > 1:
            break
        time.sleep(0.01)
    else:
        pytest.fail(stream.getvalue())
    console({**event, "busy": False})
    assert not console._ticker.is_alive()
