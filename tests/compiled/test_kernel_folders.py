"""Where compiled kernels are read and written."""

import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from numba.core import config

from streammargin.compiled import folders, jit

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


def doubled(x):
    return 2.0 * x


@pytest.fixture(autouse=True)
def anew():
    """No folder is known from before."""
    folders.folders.cache_clear()
    yield
    folders.folders.cache_clear()


@pytest.fixture
def sources(tmp_path):
    made = tmp_path / "sources"
    made.mkdir()
    return str(made)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """NUMBA_CACHE_DIR."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    return str(tmp_path / "cache")


OWN = os.stat(folders.HOME)


@pytest.mark.parametrize(
    "mode, uid, gid, expected",
    [
        (0o755, OWN.st_uid, OWN.st_gid, True),
        (0o755, 0, 0, True),
        (0o755, 4321, OWN.st_gid, False),  # another user's
        (0o757, OWN.st_uid, OWN.st_gid, False),
        (0o1777, OWN.st_uid, OWN.st_gid, False),
        (0o775, OWN.st_uid, OWN.st_gid + 1, False),  # a group that may not write the package
    ],
)
def test_who_may_write(mode, uid, gid, expected):
    assert folders.safe(SimpleNamespace(st_mode=mode, st_uid=uid, st_gid=gid)) == expected


def test_a_group_that_may_write_the_package_may_write_its_kernels(monkeypatch):
    package = SimpleNamespace(st_mode=0o40775, st_uid=7, st_gid=8)
    monkeypatch.setattr(folders.os, "stat", lambda path: package)
    assert folders.safe(SimpleNamespace(st_mode=0o775, st_uid=7, st_gid=8))
    assert not folders.safe(SimpleNamespace(st_mode=0o775, st_uid=7, st_gid=9))
    assert not folders.safe(SimpleNamespace(st_mode=0o777, st_uid=7, st_gid=8))


def test_the_named_cache_comes_first_and_is_not_writable_for_others(cache, sources):
    before = os.umask(0)
    try:
        found = folders.folders(sources)
    finally:
        os.umask(before)
    assert found == ((folders.inside(cache, sources),), folders.inside(cache, sources), "")
    assert os.stat(found.written).st_mode & 0o777 == 0o755


def test_files_are_not_writable_for_others_whatever_the_umask(cache):
    before = os.umask(0)
    try:
        jit.kernel(doubled)(1.0)
    finally:
        os.umask(before)
    files = [entry for root, _, names in os.walk(cache) for entry in (os.path.join(root, name) for name in names)]
    assert {os.path.splitext(path)[1] for path in files} >= {".nbi", ".nbc"}
    assert not any(os.stat(path).st_mode & 0o022 for path in files if path.endswith((".nbi", ".nbc")))
    kernel = jit.kernel(doubled)
    assert kernel(1.0) == 2.0 and sum(kernel.stats.cache_hits.values()) == 1


def test_a_cache_that_others_may_write_is_left_alone(cache, sources, caplog):
    caplog.set_level(logging.INFO, "streammargin")
    place = folders.inside(cache, sources)
    os.makedirs(place)
    os.chmod(place, 0o777)
    found = folders.folders(sources)
    assert found.read == (os.path.join(sources, "__pycache__"),)
    assert caplog.text.count(f"neither read from {place} nor written there") == 1


def test_a_file_that_others_may_write_is_not_read(cache):
    jit.kernel(doubled)(1.0)
    for ending in (".nbc", ".nbi"):
        for root, _, names in os.walk(cache):
            for name in (name for name in names if name.endswith(ending)):
                os.chmod(os.path.join(root, name), 0o666)
        kernel = jit.kernel(doubled)
        assert kernel(1.0) == 2.0 and not kernel.stats.cache_hits


def test_a_cache_that_cannot_be_written_is_read_all_the_same(cache, sources, monkeypatch):
    place = folders.inside(cache, sources)
    os.makedirs(place)
    usual = folders.tempfile.TemporaryFile

    def read_only(dir):
        if dir == place:
            raise PermissionError(13, "Permission denied")
        return usual(dir=dir)

    monkeypatch.setattr(folders.tempfile, "TemporaryFile", read_only)
    beside = os.path.join(sources, "__pycache__")
    assert folders.folders(sources) == ((place, beside), beside, "")


def test_where_nothing_can_be_written_that_is_said(sources, monkeypatch, tmp_path):
    (tmp_path / "home").touch()  # nobody can make a folder in a file
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "home"))
    monkeypatch.setattr(folders, "AppDirs", lambda **_: SimpleNamespace(user_cache_dir=str(tmp_path / "home")))
    (tmp_path / "sources" / "__pycache__").touch()
    found = folders.folders(sources)
    assert found.read == () and found.written is None and str(tmp_path / "home") in found.why


def test_warmup_writes_into_the_folder_that_is_named(tmp_path):
    code = """
import sys
from streammargin.compiled.warmup import _cache_in, _warm
_cache_in(sys.argv[1])
_warm("row_norms", 0)
"""
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
    assert list(tmp_path.glob("compiled_*/row_norms.*.nbc"))


def test_warmup_refuses_a_folder_that_cannot_be_made_or_that_others_may_write(tmp_path, here):
    (tmp_path / "file").touch()
    done = here("warmup", "--to", tmp_path / "file")
    assert done.returncode == 73 and "no kernels can be written to" in done.stderr and "--to" in done.stderr
    place = folders.inside(str(tmp_path / "open"), str(folders.HOME))
    os.makedirs(place)
    os.chmod(place, 0o777)
    done = here("warmup", "--to", tmp_path / "open")
    assert done.returncode == 73 and "may write" in done.stderr
