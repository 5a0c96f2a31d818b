"""Outputs: there is the old file or the whole new one, whatever happens."""

import contextlib
import itertools
import os
import sys

import pytest

from streammargin import files


@contextlib.contextmanager
def interrupted_at(step):
    """Raise KeyboardInterrupt at one line of the module, as a signal would; yields whether it has struck."""
    struck, seen = [], itertools.count()

    def trace(frame, event, argument):
        if frame.f_code.co_filename not in (files.__file__, contextlib.__file__):
            return None
        if event == "line" and not struck and next(seen) == step:
            struck.append(frame.f_lineno)
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield struck
    finally:
        sys.settrace(None)


# an interrupt may strike between an open() and its `with`: the file is then closed when it is collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("existing", [False, True])
def test_an_interrupt_at_any_line_leaves_the_old_file_or_the_new(tmp_path, existing):
    target = tmp_path / "out"
    old = "old" if existing else None
    results = set()
    for step in itertools.count():
        if existing:
            target.write_text("old")
        with (
            contextlib.suppress(KeyboardInterrupt),
            interrupted_at(step) as struck,
            files.replacing(str(target), force=True) as name,
            open(name, "w") as file,
        ):
            file.write("new")
        names = os.listdir(tmp_path)
        assert set(names) <= {"out"}, (step, struck, names)
        found = target.read_text() if names else None
        assert found in (old, "new"), (step, struck)
        results.add(found)
        target.unlink(missing_ok=True)
        if not struck:
            break
    assert results == {old, "new"} and step > 20


def test_an_interrupt_at_any_line_leaves_no_folder(tmp_path):
    for step in itertools.count():
        with (
            contextlib.suppress(KeyboardInterrupt),
            interrupted_at(step) as struck,
            files.temporary_folder(str(tmp_path / "out")) as name,
            open(os.path.join(name, "0.X"), "w") as file,
        ):
            file.write("rows")
        assert not os.listdir(tmp_path), (step, struck)
        if not struck:
            break
    assert step > 10


def test_outputs_have_the_rights_of_any_new_file(tmp_path):
    with files.replacing(str(tmp_path / "out")):
        pass
    (tmp_path / "other").touch()
    assert os.stat(tmp_path / "out").st_mode == os.stat(tmp_path / "other").st_mode
