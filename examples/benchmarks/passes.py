"""What does a streamed pass cost? Elapsed against max(raw read of the same bytes, kernel time in memory).

    python -m examples.benchmarks.passes [--dir DIR] [--size 4G] [--pairs 5] [--kinds dense,csr]

Measures a dense and a CSR file, cold (dropped from the page cache first) and from the page cache. The
measured times are:

pass      the first pass of sdca out of core, with a budget of 256M;
read      a preadv loop over the same bytes in the same order;
kernel    the kernel over the same blocks in memory.

The speed of a shared machine changes within minutes. So each repetition runs kernel, read and pass (read and pass
alternate in order), then the kernel again. It takes the mean of the two kernel times.

The raw read is given as the speed of its slowest and its fastest 256 MB. A shared disk's speed may vary several
times over within a second, as the host caches parts of a file. A pass reads only a few buffers ahead. At every moment
it is as slow as the slower of disk and kernel, and so slower overall than either. To measure the pass alone, limit the
disk to a speed that it always reaches; on Linux by a cgroup's read limit.

Cold, a fourth figure shows what this machine allows. The kernel on data in memory and a process that only reads the
file start together and do not wait for each other; the figure is the time of the later one. They share memory, caches
and cores, as the two halves of a pass do.
"""

import argparse
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time

import h5py
import numpy as np

import streammargin as sm
from examples.benchmarks.disk import drop
from streammargin.data_tools.generate import generate
from streammargin.sources.base import Buffer, Source

KINDS = {
    "dense": {"features": 256, "noise": 0.05},
    "csr": {"features": 262144, "sparse": True, "nonzeros": 64, "noise": 0.05},
}
OPTIONS = {"solver": "sdca", "C": 0.1, "bias": 0, "passes": 1, "tol": 1e-9}
MEMORY = "256M"
STRETCH = 256 << 20


class Recorded(Source):
    """Another source, and the rows that were asked of it, in order."""

    def __init__(self, inner):
        self.inner, self.spans = inner, []
        for name in ("name", "rows", "features", "nnz", "dtype", "sparse"):
            setattr(self, name, getattr(inner, name))

    def bounds(self, max_bytes):
        return self.inner.bounds(max_bytes)

    def buffer_bytes(self, bounds):
        return self.inner.buffer_bytes(bounds)

    def allocate(self, bounds):
        return self.inner.allocate(bounds)

    def read(self, start, stop, buffer):
        self.spans.append((start, stop))
        return self.inner.read(start, stop, buffer)

    def has_labels(self):
        return self.inner.has_labels()

    def labels(self, chunk=1 << 16):
        return self.inner.labels(chunk)

    def sample_weight(self):
        return self.inner.sample_weight()

    def fingerprint(self):
        return self.inner.fingerprint()


class Loaded(Recorded):
    """A source whose blocks lie in memory already: a pass over it costs the kernel only."""

    def __init__(self, inner, spans):
        super().__init__(inner)
        self.blocks = {start: inner.read(start, stop, inner.allocate(np.array([start, stop]))) for start, stop in spans}
        self.before = self.begun = None  # what to call before the first block, once, and when it was asked for

    def allocate(self, bounds):
        return Buffer(np.empty(0))

    def read(self, start, stop, buffer):
        if self.before is not None:
            self.before()
            self.before, self.begun = None, time.perf_counter()
        return self.blocks[start]


def pieces(path, x="X"):
    """For each array of the rows: (first entry, entries, file offset, bytes) of its contiguous pieces."""
    with h5py.File(path) as file:
        node = file[x]
        arrays = [node] if isinstance(node, h5py.Dataset) else [node["data"], node["indices"]]
        tables = []
        for array in arrays:
            item = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=int))
            table = []
            array.id.chunk_iter(lambda info, table=table, array=array, item=item: table.append(
                (info.chunk_offset[0], array.chunks[0], info.byte_offset, item)))  # fmt: skip
            tables.append(sorted(table))
        indptr = None if isinstance(node, h5py.Dataset) else node["indptr"][:]
    return tables, indptr


def raw_read(path, tables, indptr, spans):
    """Seconds to read the bytes of these rows in this order, with nothing done to them; and bytes a second of the
    slowest and of the fastest STRETCH.
    """
    if indptr is not None:
        spans = [(int(indptr[start]), int(indptr[stop])) for start, stop in spans]
    largest = max((stop - start) * table[0][3] for start, stop in spans for table in tables)
    buffer = memoryview(np.zeros(largest, np.uint8))
    handle = os.open(path, os.O_RDONLY)
    started = begun = time.perf_counter()
    read, speeds = 0, []
    for low, high in spans:
        for table in tables:
            size, item = table[0][1], table[0][3]
            for chunk in range(low // size, -(-high // size)):
                first, _, offset, _ = table[chunk]
                here, stop = max(low, first), min(high, first + size)
                want = (stop - here) * item
                place = offset + (here - first) * item
                while want:
                    got = os.preadv(handle, [buffer[:want]], place)
                    want, place, read = want - got, place + got, read + got
        if read >= STRETCH:
            now = time.perf_counter()
            speeds.append(read / (now - begun))
            read, begun = 0, now
    seconds = time.perf_counter() - started
    os.close(handle)
    return seconds, min(speeds, default=0.0), max(speeds, default=0.0)


def first_pass(data):
    """The event of the first pass of a training run."""
    found = []

    def listen(event):
        if event["event"] == "pass_end":
            found.append(event)

    # stopped before the certificate: only the pass is measured
    sm.train(data, memory=MEMORY, listeners=[listen], should_stop=lambda: "stop" if found else None, **OPTIONS)
    return found[0]


def both_at_once(path, loaded, raw):
    """Seconds until both a kernel on data in memory and a process that reads the file cold end, started together."""
    context = multiprocessing.get_context("fork")
    begin, (ours, theirs) = context.Event(), context.Pipe(duplex=False)

    def work():
        begin.wait()
        raw()
        theirs.send(time.perf_counter())  # all processes share this clock

    process = context.Process(target=work, daemon=True)
    process.start()
    theirs.close()  # so that recv() ends if the process fails
    loaded.before = lambda: (drop(path), begin.set())  # once all is set up
    try:
        first_pass(loaded)
        done = time.perf_counter()
        return max(done, ours.recv()) - loaded.begun
    finally:
        begin.set()
        process.join()


def paired(path, loaded, raw, cold, pairs):
    """(kernel, raw read, pass, both at once or 0) seconds of each pair, and all speeds of the raw reads.

    The kernel's seconds are the mean of two. Read and pass alternate in order, as a disk may be slower after 4 GB.
    """
    runs = {"raw": raw, "pass": lambda: (first_pass(path)["seconds"],)}
    found, speeds = [], []
    for pair in range(pairs):
        before = first_pass(loaded)["compute_seconds"]
        seconds = {}
        for name in sorted(runs, reverse=pair % 2 == 0):
            if cold:
                drop(path)
            seconds[name], *seen = runs[name]()
            speeds += seen
        kernel = (before + first_pass(loaded)["compute_seconds"]) / 2
        both = both_at_once(path, loaded, raw) if cold else 0.0
        found.append((kernel, seconds["raw"], seconds["pass"], both))
    return found, speeds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir")
    parser.add_argument("--size", default="4G")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--kinds", default="dense,csr")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(dir=options.dir)
    limits = {"cold": 1.15, "page cache": 1.2}
    try:
        for kind in options.kinds.split(","):
            path = os.path.join(folder, f"{kind}.h5")
            rows = generate(path, size=options.size, **KINDS[kind])
            tables, indptr = pieces(path)
            with sm.open_source(path) as source:
                recorded = Recorded(source)
                first_pass(recorded)
                spans = list(dict.fromkeys(recorded.spans))
                loaded = Loaded(source, spans)
                print(f"{kind}: {rows} rows, {os.path.getsize(path) / 2**30:.2f} GiB, {len(spans)} blocks", flush=True)

                def raw(path=path, tables=tables, indptr=indptr, spans=spans):
                    return raw_read(path, tables, indptr, spans)

                for condition, limit in limits.items():
                    found, speeds = paired(path, loaded, raw, condition == "cold", options.pairs)
                    ratios = [whole / max(kernel, read) for kernel, read, whole, _ in found]
                    uncoupled = [both / max(kernel, read) for kernel, read, _, both in found]
                    kernel, read, whole, both = map(statistics.median, zip(*found, strict=True))
                    ratio = statistics.median(ratios)
                    print(f"  {condition:<10} kernel {kernel:.2f} s, raw read {read:.2f} s "
                          f"({min(speeds) / 1e9:.1f} to {max(speeds) / 1e9:.1f} GB/s), pass {whole:.2f} s, ratio "
                          f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}, median of {options.pairs}; "
                          f"{'within' if ratio <= limit else 'ABOVE'} {limit})", flush=True)  # fmt: skip
                    if both:
                        print(f"             kernel and raw read at once {both:.2f} s, ratio "
                              f"{statistics.median(uncoupled):.2f} ({min(uncoupled):.2f} to {max(uncoupled):.2f})",
                              flush=True)  # fmt: skip
                del loaded
            os.unlink(path)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
