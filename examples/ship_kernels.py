"""Put compiled kernels into a wheel: python examples/ship_kernels.py WHEEL [--out DIR] [--quick] [--kinds ...].

Child processes run examples/kernel_trainings.py with the sources of the wheel and an empty cache. Their environment
names a processor: x86-64-v3, or generic arm64. What they compiled goes into a copy of the wheel, with a manifest and
checksums (streammargin/compiled/shipped.py says when it is taken). The copy is tagged for this version of Python and
this system. It prints the number of kernels, their size, and the CPU seconds of these processes. Do this last: a
change in one source makes all kernels useless.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TRAININGS = Path(__file__).with_name("kernel_trainings.py")
KINDS = ["dense:float32", "dense:float64", "sparse:float32", "sparse:float64"]
V3 = "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave"
LEVELS = {"x86_64": ("x86-64-v3", V3), "aarch64": ("generic", ""), "arm64": ("generic", "")}
FOLDER = "streammargin/compiled/objects"


def compiled(sources: Path, scratch: Path, kind: str, processor: str, quick: bool) -> tuple[dict[str, Any], Path]:
    """What a child says of the kernels for rows of one kind, and the folder where they are."""
    objects = scratch / kind.replace(":", "-")
    objects.mkdir()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "STREAMMARGIN_"))
    }
    environment |= {"PYTHONPATH": str(sources), "NUMBA_CACHE_DIR": str(scratch / "cache"), "STREAMMARGIN_SHIPPED": "0"}
    environment |= {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(TRAININGS), kind, "--export", str(objects), *["--quick"][: int(quick)]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=scratch)
    if done.returncode:
        raise SystemExit(f"the trainings on {kind} rows failed: {done.stderr.strip()[-2000:]}")
    *told, last = done.stdout.splitlines()
    print(f"{kind}: {' '.join(told)}", file=sys.stderr)
    return json.loads(last), objects


def objects_of(wheel: Path, kinds: list[str], quick: bool) -> dict[str, bytes]:
    """The files to put into the wheel, by their paths in it."""
    processor, features = LEVELS[os.uname().machine]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        sources = scratch / "sources"
        with zipfile.ZipFile(wheel) as file:
            file.extractall(sources)
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(lambda kind: compiled(sources, scratch, kind, processor, quick), kinds))
        told = done[0][0]
        linkable = sorted({name for one, _ in done for name in one.pop("linkable")})
        assert all(one == told for one, _ in done), "the children differ"
        files = {path.name: path.read_bytes() for _, folder in done for path in sorted(folder.iterdir())}
    manifest = {
        "numba": told["numba"], "processor": processor, "features": features.split(), "sources": told["sources"],
        "objects": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
        "linkable": linkable,
    }  # fmt: skip
    files["kernels.json"] = json.dumps(manifest, indent=1).encode()
    return {f"{FOLDER}/{told['place']}/{name}": data for name, data in files.items()}


def written(wheel: Path, files: dict[str, bytes], out: Path, tag: str) -> Path:
    """A copy of the wheel with these files, and this tag."""
    with zipfile.ZipFile(wheel) as file:
        entries = {one.filename: file.read(one) for one in file.infolist()}
    entries = {name: data for name, data in entries.items() if not name.startswith(f"{FOLDER}/")} | files
    record = next(name for name in entries if name.endswith(".dist-info/RECORD"))
    about = record.replace("RECORD", "WHEEL")
    lines = [line for line in entries[about].decode().splitlines() if line and not line.startswith("Tag: ")]
    lines = ["Root-Is-Purelib: false" if line.startswith("Root-Is-Purelib") else line for line in lines]
    entries[about] = "\n".join([*lines, f"Tag: {tag}", ""]).encode()
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    for name, data in entries.items():
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.writerow([name, f"sha256={digest}", len(data)])
    rows.writerow([record, "", ""])
    entries[record] = table.getvalue().encode()
    path = out / f"{'-'.join(wheel.name.split('-')[:2])}-{tag}.whl"
    part = path.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, data in sorted(entries.items(), key=lambda entry: ".dist-info/" in entry[0]):
            entry = zipfile.ZipInfo(name)  # of 1980: the same kernels make the same wheel
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            file.writestr(entry, data)
    part.replace(path)
    return path


def tag_here() -> str:
    """What pip calls this Python and system: manylinux for the C library of 2014, as of Numba's own wheels."""
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    system = re.sub("^linux_", "manylinux_2_17_", system)
    system = re.sub(r"^macosx_(1[1-9]|[2-9]\d)(_\d+)?_(?=[a-z])", r"macosx_\1_0_", system)  # pip takes no 11 or 14_2
    return f"cp{sys.version_info.major}{sys.version_info.minor}-none-{system}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--kinds", nargs="+", default=KINDS, metavar="FORM:DTYPE")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: beside the wheel)")
    parser.add_argument("--tag", default=tag_here(), help=f"of the copy (default {tag_here()})")
    parser.add_argument("--quick", action="store_true", help="ten classes with the hinge and the logistic loss only")
    options = parser.parse_args()
    if os.uname().machine not in LEVELS:
        raise SystemExit(f"no kind of processor is named for {os.uname().machine}")
    files = objects_of(options.wheel, options.kinds, options.quick)
    path = written(options.wheel, files, options.out or options.wheel.parent, options.tag)
    seconds = sum(os.times()[2:4])  # of the children
    print(f"{path}: {len(files) - 1} kernels, {path.stat().st_size / 2**20:.1f} MiB, made in {seconds:.0f} CPU s")


if __name__ == "__main__":
    main()
