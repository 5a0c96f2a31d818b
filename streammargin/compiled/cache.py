"""Compiled kernels on disk, cached by Numba's means with a digest of all sources.

Numba checks a cached kernel against its own source file only, so it would miss a change in a loss or a row operation.
Here the stamp is a digest of all of losses/, penalties/, rows/ and compiled/; for a user's own loss, also of the file
that defines it.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import inspect
import logging
import os
import pickle
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, ClassVar

from numba.core import caching, types
from numba.core.runtime import rtsys

from streammargin.compiled import shipped
from streammargin.compiled.folders import Locator, check, folders, prepare

LOG = logging.getLogger("streammargin")
_warned = False


def source_digest(package: Path) -> str:
    """A digest of all sources that kernels are compiled from."""
    digest = hashlib.sha256()
    for folder in ("compiled", "losses", "penalties", "rows"):
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(str(path.relative_to(package)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


SOURCES = source_digest(Path(__file__).parent.parent)


def warn_once(why: object) -> None:
    """Warn, once in a process, that kernels cannot be written."""
    global _warned
    if not _warned:
        _warned = True
        LOG.warning("compiled kernels cannot be cached (%s); set NUMBA_CACHE_DIR to a writable folder", why)


class _Locator(Locator):
    stamp = SOURCES


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes: ClassVar[list] = [_Locator]


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold a lock, if the file system has locks and `path` is no link; else the index written last is kept."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class _Files(caching.IndexDataCacheFile):
    """Cache files named by a digest of signature and sources.

    Numba numbers them, so two processes that compile at the same time would give one name to two kernels.
    """

    def _load_index(self) -> dict:
        try:
            check(self._index_path)
            return super()._load_index()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except Exception as error:  # cut short by a crash or a full disk
            LOG.info("the cache index %s cannot be read (%s)", self._index_path, error)
            return {}

    def _load_data(self, name: str) -> Any:
        check(self._data_path(name))
        return super()._load_data(name)

    def save(self, key: Any, data: Any) -> None:
        with _locked(os.path.join(self._cache_path, ".lock")):
            self._save(key, data)

    def _save(self, key: Any, data: Any) -> None:
        overloads = self._load_index()
        base = self._index_name.removesuffix(".nbi")
        if not overloads:  # the sources have changed: the old files are useless
            for old in Path(self._cache_path).glob(f"{glob.escape(base)}.*.nbc"):
                old.unlink(missing_ok=True)
        digest = hashlib.sha256(repr((self._source_stamp, self._version, key)).encode()).hexdigest()
        overloads[key] = f"{base}.{digest[:16]}.nbc"
        self._save_data(overloads[key], data)
        self._save_index(overloads)

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[IO[bytes]]:
        with super()._open_for_write(filepath) as file:
            os.fchmod(file.fileno(), 0o644)  # whatever the umask: a file that others may write is not read
            yield file


def _classes(arguments: Iterable[Any]) -> Iterator[type]:
    """The classes that these types name: of named tuples, nested ones included, and of losses called by address."""
    for one in arguments:
        if hasattr(one, "instance_class"):
            yield one.instance_class
        if isinstance(one, types.BaseTuple):  # type: ignore[attr-defined]
            yield from _classes(one)


def _foreign(arguments: Iterable[Any]) -> set[type]:
    """The classes among these types that do not come with this package."""
    return {cls for cls in _classes(arguments) if cls.__module__.partition(".")[0] != __name__.partition(".")[0]}


class Cache(caching.FunctionCache):
    """The kernels of a function: those of the package, then those in the folders that are read.

    Which one is taken depends on the install alone, never on what a cache holds by chance: so bits are repeated.
    Kernels with classes from outside this package have a separate index, as it can only be read if these can be
    imported.
    """

    _impl_class = _Implementation

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._folders = folders(os.path.dirname(os.path.abspath(inspect.getfile(function))))

    def _index(self, sig: Any) -> tuple[str, str] | None:
        """Name and stamp of the index for this signature; None for classes that another process could not import."""
        name, stamp = self._impl.filename_base, SOURCES
        for cls in sorted(_foreign(sig), key=lambda cls: (cls.__module__, cls.__qualname__)):
            module = sys.modules.get(cls.__module__)
            path = getattr(module, "__file__", None)
            if cls.__module__ == "__main__" or path is None or getattr(module, cls.__qualname__, None) is not cls:
                return None
            name += f"+{cls.__module__}.{cls.__qualname__}"
            stamp += hashlib.sha256(Path(path).read_bytes()).hexdigest()
        return name, stamp

    def _files(self, sig: Any) -> list[_Files]:
        """The cache files for this signature in each folder that is read; the last one is written."""
        index = self._index(sig)
        return [] if index is None else [_Files(folder, *index) for folder in self._folders.read]

    def _shipped(self, key: Any) -> str:
        """The name of this kernel if it comes with the package, else nothing."""
        name = shipped.name_of(self._py_func, key[0], key[2])
        manifest = shipped.shipped(SOURCES)
        return name if manifest is not None and name in manifest.objects and not _foreign(key[0]) else ""

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        key = self._index_key(sig, target_context.codegen())
        data = pickle.loads(packed) if (packed := shipped.load(self._shipped(key), SOURCES)) is not None else None
        for files in self._files(sig):
            data = files.load(key) if data is None else data
        return None if data is None else self._impl.rebuild(target_context, data)

    def _save_overload(self, sig: Any, data: Any) -> None:
        if self._index(sig) is not None and self._impl.check_cachable(data):
            if self._folders.written is None:
                raise OSError(self._folders.why)
            prepare(self._folders.written)
            self._files(sig)[-1].save(self._index_key(sig, data.codegen), self._impl.reduce(data))

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Whether the kernel compiled for this signature is on disk."""
        key = self._index_key(sig, target_context.codegen())
        return bool(self._shipped(key)) or any(key in files._load_index() for files in self._files(sig))

    def keys(self) -> dict[str, list[Any]]:
        """Folder -> keys of the kernels of this function that are cached there, whatever processor they are for."""
        return {files._cache_path: list(files._load_index()) for files in self._files(())}

    def linkable(self, sig: Any, target_context: Any) -> bool:
        """Whether other kernels may call this one: most of the package have no code to link."""
        name, manifest = self._shipped(self._index_key(sig, target_context.codegen())), shipped.shipped(SOURCES)
        return not name or manifest is None or name in manifest.linkable

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            # initialise the runtime only: Numba would also import the compiler, which takes longer than a short
            # training
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)
        except Exception as error:  # a damaged file: the kernel is compiled and written again
            LOG.info("a cached kernel of %s cannot be read (%s)", self._name, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            warn_once(error)
