"""Kernels that come with the package are taken if they fit, and compiled otherwise; the log says why."""

import hashlib
import json
import logging
import re

import numba
import numpy as np
import pytest
from numba.core import config, event
from numba.core.errors import TypingError
from numba.core.serialize import dumps

from streammargin.compiled import cache, jit, shipped
from streammargin.compiled.folders import Folders

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


def doubled(x):
    return 2.0 * x


def tripled(x):
    return 3.0 * x


class Compiled(event.Listener):
    def __init__(self):
        self.names = []

    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event):
        pass


@pytest.fixture
def compiled():
    """The names of the functions that are compiled."""
    listener = Compiled()
    with event.install_listener("numba:compile", listener):
        yield listener.names


def fresh(function):
    """A kernel with the package for a cache, and no other."""
    kernel = jit.kernel(function)
    kernel._cache._folders = Folders((), None, "a test")
    return kernel


class Package:
    """A folder of shipped kernels with `doubled` and `tripled` in it."""

    def __init__(self, home):
        self.folder = home / shipped.place()
        self.folder.mkdir(parents=True)
        self.paths = {}
        for function in (doubled, tripled):
            kernel = jit.kernel(function)
            kernel._cache = numba.core.caching.NullCache()
            kernel(1.0)
            (signature, result), codegen = *kernel.overloads.items(), kernel.targetctx.codegen()
            key = cache.Cache(function)._index_key(signature, codegen)
            path = self.folder / shipped.name_of(function, key[0], key[2])
            path.write_bytes(dumps(result._reduce()))
            self.paths[function.__name__] = path
        self.manifest = {
            "numba": numba.__version__, "processor": "a test", "features": [], "sources": cache.SOURCES, "linkable": [],
            "objects": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.paths.values()},
        }  # fmt: skip
        self.write()

    def write(self, **changes):
        text = json.dumps({**self.manifest, **changes})
        (self.folder / shipped.MANIFEST).write_text(text)


@pytest.fixture
def package(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(shipped, "OBJECTS", tmp_path / "objects")
    monkeypatch.delenv(shipped.SWITCH, raising=False)
    shipped.shipped.cache_clear()
    caplog.set_level(logging.INFO, "streammargin")
    yield Package(tmp_path / "objects")
    shipped.shipped.cache_clear()


def test_what_fits_is_loaded_and_nothing_is_compiled(package, compiled, caplog):
    kernel = fresh(doubled)
    assert kernel(1.5) == 3.0 and not compiled and not caplog.messages
    assert sum(kernel.stats.cache_hits.values()) == 1
    assert kernel(np.float32(1.5)) == 3.0 and compiled == ["doubled"]  # the package has none for this type


def test_small_calls_take_it_at_once(package, compiled, monkeypatch):
    monkeypatch.setattr(jit, "PLAIN_SECONDS", 2.0)
    kernel = fresh(doubled)
    with jit.small_calls(0.1):
        assert kernel(1.5) == 3.0
    assert kernel.signatures and not compiled


def test_the_package_comes_before_the_cache(package, compiled, monkeypatch):
    kernel = jit.kernel(doubled)
    monkeypatch.setattr(cache._Files, "load", lambda self, key: pytest.fail("the cache was asked"))
    assert kernel(1.5) == 3.0 and not compiled


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"numba": "0.1"}, "for Numba 0.1"),
        ({"sources": "others"}, "sources of the package were changed"),
        ({"features": ["fma", "no-such-feature"]}, "lacks .*no-such-feature"),
        ({"objects": []}, "is damaged"),
        ({"more": 1}, "is damaged"),
    ],
)
def test_what_does_not_fit_is_compiled_with_one_line_that_says_why(package, compiled, caplog, changes, why):
    package.write(**changes)
    assert fresh(doubled)(1.5) == 3.0 and fresh(tripled)(1.0) == 3.0
    assert compiled == ["doubled", "tripled"]
    (line,) = (text for text in caplog.messages if "those of the package are not taken" in text)
    assert re.search(why, line)


def test_the_switch_and_settings_of_numba_turn_it_off(package, compiled, caplog, monkeypatch):
    for change, why in (
        (lambda patch: patch.setenv(shipped.SWITCH, "0"), "STREAMMARGIN_SHIPPED is 0"),
        (lambda patch: patch.setattr(config, "BOUNDSCHECK", 1), "NUMBA_BOUNDSCHECK is set"),
        (lambda patch: patch.setattr(config, "CPU_NAME", "x86-64"), "NUMBA_CPU_NAME is set"),
    ):
        caplog.clear()
        with monkeypatch.context() as patch:
            change(patch)
            shipped.shipped.cache_clear()
            assert shipped.shipped(cache.SOURCES) is None
        assert why in caplog.text


@pytest.mark.parametrize("damage", [lambda data: data[:40], lambda data: data[:-1] + b"x", lambda data: b""])
def test_a_damaged_kernel_is_never_run(package, compiled, caplog, damage):
    path = package.paths["doubled"]
    path.write_bytes(damage(path.read_bytes()))
    assert fresh(doubled)(1.5) == 3.0 and fresh(tripled)(1.0) == 3.0
    assert compiled == ["doubled"] and path.name in caplog.text


def test_a_damaged_manifest_is_not_used(package, compiled, caplog):
    path = package.folder / shipped.MANIFEST
    path.write_bytes(path.read_bytes()[:50])
    assert fresh(doubled)(1.5) == 3.0 and compiled == ["doubled"]
    assert "not taken" in caplog.text


def test_nothing_is_run_from_a_place_that_others_may_write(package, compiled, caplog):
    package.paths["doubled"].chmod(0o666)
    assert fresh(doubled)(1.5) == 3.0 and fresh(tripled)(1.0) == 3.0 and compiled == ["doubled"]
    for path in (package.folder / shipped.MANIFEST, package.folder):
        compiled.clear()
        shipped.shipped.cache_clear()
        path.chmod(0o777)
        assert fresh(tripled)(1.0) == 3.0 and compiled == ["tripled"]
        path.chmod(0o755)
    assert caplog.text.count("others than the owner of the package may write") == 3


def test_a_kernel_without_code_to_link_is_not_called_by_another(package):
    inner = fresh(doubled)

    def calls(x):
        return inner(x) + 1.0

    with pytest.raises(TypingError, match=r"doubled comes compiled.*STREAMMARGIN_SHIPPED=0"):
        fresh(calls)(1.0)
    package.write(linkable=[package.paths["doubled"].name])
    shipped.shipped.cache_clear()
    inner = fresh(doubled)
    assert fresh(calls)(1.0) == 3.0


def test_info_says_what_is_shipped_cached_and_missing(package, here):
    other = package.folder.with_name("cpython-399-linux-x86_64")
    other.mkdir()
    (other / shipped.MANIFEST).write_text(json.dumps({**package.manifest, "processor": "generic"}))
    lines = here("info", "--kernels").stdout.splitlines()
    assert f"shipped      {other.name}: 2 by Numba {numba.__version__} for generic, not taken: this is" in lines[1]
    assert lines[0] == f"shipped      {shipped.place()}: 2 by Numba {numba.__version__} for a test, taken"
    found = json.loads(here("info", "--kernels", "--json").stdout)
    assert [one["unused"] for one in found["shipped"]] == [None, f"this is {shipped.place()}"]
    assert found["written"] in [one["folder"] for one in found["cached"]]
    package.write(numba="0.1")
    shipped.shipped.cache_clear()
    found = json.loads(here("info", "--kernels", "--json").stdout)
    assert "they are for Numba 0.1" in found["shipped"][0]["unused"]


@pytest.mark.parametrize("arguments", [["info"], ["info", "data.h5", "--kernels"]])
def test_info_wants_a_file_or_kernels(here, arguments, tmp_path):
    (tmp_path / "data.h5").touch()
    done = here(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and "give info a data file or a model, or --kernels" in done.stderr
