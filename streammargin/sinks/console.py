"""Shows events on stderr: a status line on a terminal, otherwise a plain line for a certificate or a long read."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from streammargin.wording import counted, printable, shortened

_SLOPE = 3  # passes over which the slope of the estimates is measured
_TELLING = 0.9  # gaps above this say nothing of the time left, as the lower bound is near 0
_FORESEEABLE = 100 * 3600.0  # seconds; a longer estimate of the time left is not shown


def duration(seconds: float) -> str:
    """Seconds as text: 8.2s, 3m05s, 2h10m."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


@dataclass
class Pace:
    """The time of a training, by its events.

    `params`    its options.
    `passes`    when the last ones ended, without compiling, and their estimated gaps.
    `read`      phase and pass of the last read, and its totals after its first event.
    `compiled`  seconds of compiling so far.
    """

    params: dict[str, Any]
    max_seconds: float | None
    passes: list[tuple[float, float]] = field(default_factory=list)
    read: tuple[str, int, list[float]] = ("", 0, [])
    compiled: float = 0.0

    @property
    def absolute(self) -> bool:
        """Whether the tolerance is one of the mean gap, and so a word."""
        return isinstance(self.params.get("tol"), str)

    @property
    def several(self) -> bool:
        """Whether these are trainings of several values of C or folds, of which gaps are those of the worst."""
        C = self.params.get("C")
        return self.params.get("cv") is not None or (isinstance(C, list) and len(C) > 1)

    def pass_end(self, estimate: float) -> None:
        """A pass has ended, with this estimated gap."""
        self.passes = [*self.passes[-4:], (self._now(), estimate)]

    def _now(self) -> float:
        return time.monotonic() - self.compiled

    def speed(self, event: dict[str, Any]) -> str:
        """The speed of a read, without its first step, which waits for the first block and so is untypical."""
        names = ("rows", "seconds", "bytes_read", "wait_seconds")
        read, now = (event["phase"], event["pass"]), [event[name] for name in names]
        if self.read[:2] != read or now[0] < self.read[2][0]:
            self.read = (*read, now)
        rows, seconds, size, waited = now
        if event["block"] > 1 or event["block"] < event["blocks"]:
            rows, seconds, size, waited = (value - first for value, first in zip(now, self.read[2], strict=True))
        if not rows or seconds <= 0.0:
            return ""
        speed = f"{rows / seconds:,.0f} rows/s"
        return f"{speed} {size / seconds / 1e6:.0f} MB/s, waiting {waited / seconds:.0%}" if size else speed

    def left(self, event: dict[str, Any]) -> str:
        """Estimated time left, by the slope of the last estimated gaps, or until the nearest limit if that is less.

        The gap of the worst of several trainings tells nothing of the others.

        Nothing of a guess that has run out, nor until the last pass before half of them are done: tol comes first.
        """
        guess = limit = math.inf
        if len(self.passes) >= _SLOPE and not self.several:
            (t0, g0), (t1, g1) = self.passes[-_SLOPE], self.passes[-1]
            if 0.0 < g1 < min(g0, _TELLING) and t1 > t0 and not self.absolute:
                tol = max(self.params.get("tol", 1e-3), 1e-300)
                ahead = (t1 - t0) * max(0.0, math.log(g1 / tol) / math.log(g0 / g1))
                guess = t1 + ahead - self._now()
                guess = guess if guess > 0.0 else math.inf
        most = self.params.get("passes", math.inf)
        if event["block"] and 2 * event["pass"] > most:
            now = event["seconds"] * event["blocks"] / event["block"]
            times = [when for when, _ in self.passes]
            each = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else now
            limit = now - event["seconds"] + each * (most - event["pass"])
        if self.max_seconds is not None:
            limit = min(limit, self.max_seconds - event["elapsed"])
        if min(guess, limit) >= _FORESEEABLE:
            return ""
        return f"{'~' if guess < limit else 'at most '}{duration(max(0.0, min(guess, limit)))} left"


_APART = 10.0  # least seconds between two lines without a terminal
_GROWTH = 3.0  # of the time until then a run without a certificate waits before it says how far it is
_TRIALS = 7  # most values of C in the table without a terminal
_SHOWN = 0.05  # seconds of compiling; fewer are not shown
_SHOWN_WHILE = 0.5  # the same, while it goes on
_TICK = 1.0  # seconds between two lines while one kernel is compiled
WIDTH = 20  # characters between the brackets


def relative(value: float | None) -> str:
    """A gap as text."""
    return "-" if value is None else "inf" if math.isinf(value) else f"{value:.1e}"


def share(value: float | None) -> str:
    """A share of the rows as text."""
    return "-" if value is None else f"{value:.4f}"


def _table(trials: list[dict[str, Any]], best: float | None, judged: str, counted: str) -> Iterator[str]:
    """The lines of a table with gap and errors for each value of C, the chosen one marked.

    judged: "error", "loss" or "RMSE", the unit of held-out errors; counted: "nonzeros" or "rank", the size of a point.
    """
    path = any("nonzeros" in one for one in trials)
    errors = {"train_error": "training error", "valid_error": f"held-out {judged}"}
    errors = {key: title for key, title in errors.items() if any(one[key] is not None for one in trials)}
    if any("folds" in one for one in trials):
        yield from _table_of_folds(trials, best, judged)
        return
    if trials:
        begin = f"{'C':>10}  {f'{counted:>8}  ' if path else ''}"
        yield "  ".join([f"{begin}{'certified gap':<13}", *(f"{title:<14}" for title in errors.values())]).rstrip()
    for one in trials:
        gap = relative(one["margin_gap"] if one["gap"] is None else one["gap"])
        mark = "  chosen" if one["C"] == best else ""
        nonzeros = f"{one['nonzeros']:>8}  " if path else ""
        found = [f"{one['C']:>10g}  {nonzeros}{gap:<13}", *(f"{share(one[key]):<14}" for key in errors)]
        yield ("  ".join(found) + mark).rstrip()


def _table_of_folds(trials: list[dict[str, Any]], best: float | None, judged: str) -> Iterator[str]:
    """The lines of a table with the errors of folds, their standard errors, and the worst gap of each value of C."""
    title = f"{judged} over {len(trials[0]['folds'])} folds"
    yield f"{'C':>10}  {title:<22}{'worst gap':<11}nonzeros"
    for one in trials:
        error = f"{share(one['valid_error'])} +- {share(one['valid_error_se'])}"
        size, mark = "-" if one["nonzeros"] is None else one["nonzeros"], "  chosen" if one["C"] == best else ""
        yield f"{one['C']:>10g}  {error:<22}{relative(one['gap']):<11}{size:>8}{mark}"


def watched(verbose: bool, max_seconds: float | None, threads: int = 1) -> list[Console]:
    """The listener that shows a training on stderr, if verbose."""
    return [Console(max_seconds=max_seconds, threads=threads)] if verbose else []


class Console:
    """Shows pass, rows/s, MB/s, share of time waiting on the disk, estimated (~) and certified gap, and time left.

    `verbosity`  -1 warnings only, 0 progress and summary, 1 also every pass and certificate.
    `logged`     whether the run writes a log, to which messages may refer.
    `threads`    how many the run was given.
    """

    def __init__(
        self, verbosity: int = 0, stream: TextIO | None = None, max_seconds: float | None = None, logged: bool = False,
        threads: int = 1,
    ) -> None:  # fmt: skip
        self.stream: TextIO = stream or sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # pythonw has none
        self.verbosity = verbosity
        self.bar: bool = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self.color: bool = self.bar and "NO_COLOR" not in os.environ
        self.logged: bool = logged
        self.threads: int = threads
        self._last = self._started = time.monotonic()
        self._open = False
        self._gap = ""
        self._proven = self._bar = ""  # how many of several trainings, and a bar of them
        self._certified: float | None = None  # the gap of the last certificate
        self._beside: list[dict[str, Any]] = []  # certificates of a pass, before the last one of it
        self._way = GapBar()
        self._valid = ""
        self._judged, self._error = "error", "loss"  # the latter of a regression
        self._pace = Pace({}, max_seconds)
        self._writing = threading.Lock()
        self._parts = 0  # of the kernel that is being compiled
        self._ticking = threading.Event()  # is set once a kernel is compiled
        self._ticker: threading.Thread | None = None

    def _line(self, text: str, passing: bool = False, mark: str = "") -> None:
        text = mark + printable(text)  # of what is shown, the mark alone may hold escape sequences
        with self._writing:
            if self.bar and passing:
                self.stream.write("\r\x1b[K" + text[: self._columns() - 1])
                self._open = True
            else:
                self.stream.write(("\r\x1b[K" if self._open else "") + text + "\n")
                self._open = False
            self.stream.flush()
            self._last = time.monotonic()

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or 100  # 0: unknown
        except (OSError, ValueError):
            return 100

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.color else text

    def reading(self, paths: Sequence[str]) -> None:
        """Say on a terminal what is read, before the slow imports."""
        if self.bar and self.verbosity >= 0:
            self._line(f"reading {shortened(paths)}")

    def __call__(self, event: dict[str, Any]) -> None:
        handler = getattr(self, "_on_" + event["event"], None)
        if handler is not None and (self.verbosity >= 0 or event["event"] == "warning"):
            handler(event)

    def _on_run_start(self, event: dict[str, Any]) -> None:
        data, plan = event["data"], event["plan"]
        self._pace.params = event["params"]
        if data["rows"] is None or data["nnz"] is None:
            self._line(f"{data['path']}: batches of {data['features']} features, each row once")
            return
        blocks = "in memory" if plan["blocks"] == 1 else f"{plan['blocks']} blocks of up to {plan['block_rows']} rows"
        rows, held_out = data["rows"], data.get("held_out")
        counts = f"{rows} rows" if held_out is None else f"{rows - held_out} of {rows} rows, {held_out} held out"
        size = f"{counts}, {data['features']} features, {data['nnz']} values"
        if "sides" in data:
            size, self._error = "{} ratings of {} rows and {} columns".format(data["rows"], *data["sides"]), "RMSE"
        most = plan.get("most_threads") or self.threads
        few = f", with room for sums of {most} of {self.threads} threads" if most < self.threads else ""
        self._line(f"{data['path']}: {size}; {blocks}, {plan['memory_bytes'] / 2**20:.0f} MiB planned{few}")
        if event.get("solver"):
            self._line(f"auto chose {event['solver']}")

    def _on_resumed(self, event: dict[str, Any]) -> None:
        self._on_run_start(event["run_start"])
        where = "at its end" if event["phase"] == "done" else f"in pass {event['pass']}, after {event['block']} blocks"
        self._line(f"resumed from {event['path']}, {where}")

    def _on_compiling(self, event: dict[str, Any]) -> None:
        self._parts = event.get("parts", 0)
        if self._parts:
            return
        if "kernels" in event:
            self._pace.compiled = event["seconds"]
            self._ticking.set()
            if self._ticker is not None:
                self._ticker.join()
            if event["seconds"] >= _SHOWN_WHILE and self._due():
                self._compiling(event, event["seconds"])
            if event["busy"]:
                self._ticking = threading.Event()
                self._ticker = threading.Thread(target=self._tick, args=(event, self._ticking), daemon=True)
                self._ticker.start()
            return
        self._line(
            "compiling for this machine, once for each kind of problem; it takes up to 240 MiB beside the memory "
            "budget; the last line says how long it took, and `streammargin warmup` does it in advance"
        )

    def _compiling(self, event: dict[str, Any], seconds: float) -> None:
        done, of = event["kernels"], event.get("of")
        kernels = f"{done} of about {counted(of, 'kernel')}" if of else f"{counted(done, 'kernel')} done"
        left = max(0.0, event["seconds_left"] + event["seconds"] - seconds) if of else 0.0
        about = f", about {left:.0f} s left" if left >= 1.0 else ""
        parts = f", {counted(self._parts, 'part')} of the next" if self._parts else ""
        self._line(f"compiling, {seconds:.0f} s, {kernels}{about}{parts}", passing=True)

    def _tick(self, event: dict[str, Any], over: threading.Event) -> None:
        """Show that a kernel is still being compiled, from a thread of its own: each second, in a log each ten."""
        began = time.monotonic()
        while not over.wait(_TICK):
            if self._due(growth=0.0):
                self._compiling(event, event["seconds"] + time.monotonic() - began)

    def _due(self, growth: float = _GROWTH) -> bool:
        """Whether the next line is due. growth: of the time until the last one, which a log waits for the next."""
        least = 0.1 if self.bar else 1.0 if self.verbosity > 0 else max(_APART, growth * (self._last - self._started))
        return time.monotonic() - self._last >= least

    def _on_progress(self, event: dict[str, Any]) -> None:
        reading = event.get("reading", True)
        speed = self._pace.speed(event) if reading else ""
        begun = self.bar or self.verbosity > 0 or event["seconds"] >= _APART  # a log does not say 0%
        if not (begun and self._due()):
            return
        done = event["block"] / event["blocks"]
        what = f"pass {event['pass']}" if event["phase"] == "pass" else event["phase"]
        parts = [f"{what} {done:4.0%}" if reading else f"{what}, steps {done:4.0%}"]
        proven = (self._bar if self.bar else "") + self._proven
        parts += [speed, proven, *self._gaps(event["estimate"]), self._valid, self._pace.left(event)]
        self._line(self._fitting([part for part in parts if part], speed), passing=True)

    def _fitting(self, parts: list[str], least: str) -> str:
        """The parts that fit on a line of the terminal, none cut in half: the least one goes first, then the last."""
        while self.bar and len(parts) > 1 and len("  ".join(parts)) >= self._columns():
            parts = [part for part in parts if part != least] if least in parts else parts[:-1]
        return "  ".join(parts)

    def _gaps(self, estimate: float | None) -> list[str]:
        """The estimated gap, and the last certified one; on a terminal the later one on its way to the tolerance."""
        if not self._pace.absolute and estimate is not None and estimate >= 1.0:  # it says nothing
            estimate = None
        tol, gap = self._pace.params.get("tol"), self._certified if estimate is None else estimate
        if not self._pace.absolute and gap is not None and gap >= 1.0:
            return []
        alone = self.bar and not self._pace.several
        if alone and isinstance(tol, float) and tol > 0.0 and gap is not None and gap >= 0.0:
            mark = "" if estimate is None else "~"
            return [f"{self._way.text(gap, tol)} gap {mark}{relative(gap)} -> {relative(tol)}"]
        parts = [] if estimate is None else [f"estimated gap ~{relative(estimate)}"]
        return parts + ([f"certified {self._gap}"] if self._gap else [])

    def _on_pass_end(self, event: dict[str, Any]) -> None:
        self._pace.pass_end(event["estimate"])
        if event.get("valid_error") is not None:  # with early stopping, if certificates have none
            self._judge(event)
            self._valid = f"valid {self._judged} {event['valid_error']:.4f}"
        if self.verbosity < 1 and (self.bar or not self._due()):
            return
        speed = f"{event['rows'] / max(event['seconds'], 1e-9):,.0f} rows/s"
        parts = [f"pass {event['pass']}", speed, *self._gaps(event["estimate"]), self._valid]
        self._line("  ".join(part for part in parts if part))

    def _kind(self, event: dict[str, Any]) -> str:
        return "mean gap" if self._pace.absolute else "margin gap" if event["gap"] is None else "gap"

    def _shown_gap(self, event: dict[str, Any]) -> float:
        """The gap that is shown of a certificate; infinite without one."""
        gap = event[self._kind(event).replace(" ", "_")]
        return math.inf if gap is None else float(gap)

    def _figures(self, event: dict[str, Any]) -> None:
        kind = self._kind(event)
        value = event[kind.replace(" ", "_")]
        self._gap = "" if value is None or math.isinf(value) else f"{kind} {relative(value)}"
        self._certified = value
        if event["residual"] is not None:
            self._gap = f"residual {relative(event['residual'])}"
        if event["valid_error"] is not None or self._pace.params.get("early_stop") is None:
            self._valid = "" if event["valid_error"] is None else f"valid {self._judged} {event['valid_error']:.4f}"

    def _judge(self, event: dict[str, Any]) -> None:
        self._judged = self._error if event.get("mistakes", 0) is None else "error"  # a regression has no mistakes

    def _on_certificate(self, event: dict[str, Any]) -> None:
        self._judge(event)
        several, cost = event.get("trainings", 1), ""
        if several > 1:  # the one with the largest gap is shown, after the last one of this pass
            self._beside.append(event)
            if len(self._beside) < several:
                return
            tol = self._pace.params.get("tol")
            if isinstance(tol, float):
                proven = sum(self._shown_gap(one) <= tol for one in self._beside)
                self._proven = f"{proven} of {several} proven"
                self._bar = f"{bar_of(proven / several)} "
            event, self._beside = max(self._beside, key=self._shown_gap), []
            cost = "  ".join([self._proven, f"the worst, C {event['C']:g}:"]).strip()
        self._figures(event)
        if self.verbosity >= 1 or (not self.bar and self._due(growth=0.0)):
            mistakes = "" if event["mistakes"] is None else f"{event['mistakes']} mistakes"
            parts = [f"pass {event['pass']}", cost, f"certified {self._gap or 'no gap yet'}", mistakes, self._valid]
            self._line("  ".join(part for part in parts if part))

    def _on_writing(self, event: dict[str, Any]) -> None:
        if self.bar and self._due():
            self._line(event["message"], passing=True)

    def _on_note(self, event: dict[str, Any]) -> None:
        self._line(event["message"])

    def _on_warning(self, event: dict[str, Any]) -> None:
        self._line(event["message"], mark=self._paint("warning: ", "33"))

    def _on_run_end(self, event: dict[str, Any]) -> None:
        if event["status"] != "ok":
            if self._open:  # the error message begins on a new line
                self._line("")
            return
        chosen = event.get("chosen", True)
        trials = (event.get("trials") or []) if chosen else []
        if self.bar or self.verbosity > 0 or len(trials) <= _TRIALS + 1:
            shown = trials
        else:  # the values around the best
            first = next((k for k, one in enumerate(trials) if one["C"] == event.get("C")), 0) - _TRIALS // 2
            first = min(max(0, first), len(trials) - _TRIALS)
            shown = trials[first : first + _TRIALS]
        for line in _table(shown, event.get("C"), self._judged, "rank" if "rank" in event else "nonzeros"):
            self._line(line)
        if trials and "rule=1se" in str(self._pace.params.get("cv")):
            self._line(f"chosen: the smallest C whose {self._judged} is at most one standard error above the least")
        if len(shown) < len(trials):
            where = "are in the log" if self.logged else "are shown by -v, in Python by result.run_end"
            self._line(f"{len(trials) - len(shown)} more values of C {where}")
        if event.get("zeros"):
            self._line(f"{counted(len(event['zeros']), 'column')} proven to have weight 0 in every solution")
        verdict = self._paint("converged", "32") if event["converged"] else self._paint("not converged", "33")
        passes = counted(event["passes"], "pass")
        if not self._gap and "gap" in event:  # certified before a resume; a stream has no gap
            self._figures(event)
        compiling = event.get("compile_seconds") or 0.0
        of_these = f", {duration(compiling)} of them compiling" if compiling >= _SHOWN else ""
        parts = [f" ({event['reason']}) after {passes} in {duration(event['seconds'])}{of_these}"]
        if event.get("pass") is not None:
            parts.append(f"pass {event['pass']} kept")
        if trials:  # show the figures of the best
            self._figures(event)
            parts.append(f"best C {event['C']:g}")
        elif not chosen:
            parts.append(f"no C chosen, C {event['C']:g} kept")
        elif event.get("valid_error") is not None:  # with a midway bias, found after the last certificate
            self._valid = f"valid {self._judged} {event['valid_error']:.4f}"
        # after a signal, the weights may be later than the certified ones
        certified = "last certified" if event["reason"] == "signal" else "certified"
        parts += [text for text in (self._gap and f"{certified} {self._gap}", self._valid) if text]
        self._line(", ".join(parts), mark=verdict)


def bar_of(share: float) -> str:
    """A bar of which this share is full."""
    return f"[{'=' * int(WIDTH * share):<{WIDTH}}]"


@dataclass
class GapBar:
    """How far the gap has come to the tolerance, on a logarithmic scale. largest: the first gap, or a larger one."""

    largest: float = 0.0

    def text(self, gap: float, tol: float) -> str:
        """The bar for this gap."""
        self.largest = max(self.largest, gap)
        way = math.log(self.largest / tol) if self.largest > tol else 0.0
        share = math.log(self.largest / max(gap, tol)) / way if way > 0.0 else 1.0
        return bar_of(share)
