"""Commands that write, in places that fail; `python tests/places.py` tries more of them."""

import subprocess

import pytest
from places import NAMES, PLACES, prepared

CAN_MOUNT = not subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    prepared(folder)
    return folder


@pytest.mark.parametrize("name", ["convert", "train a table", "predict to obs"])
def test_a_file_that_may_not_grow_costs_a_sentence(tmp_path, source, name):
    """HDF5 printed a traceback for each object that was open, or ended the process."""
    found = []
    for step in range(6):
        folder = tmp_path / str(step)
        folder.mkdir()
        found.append(PLACES["short"](source, folder, name, step))
    assert set(found) <= {"read", "refused"} and "refused" in found


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_no_command_leaves_damage(tmp_path, source, place, name):
    if place in ("full", "read-only") and not CAN_MOUNT:
        pytest.skip("needs the right to mount")
    for step in (0, 2, 5):
        folder = tmp_path / str(step)
        folder.mkdir()
        assert PLACES[place](source, folder, name, step) in ("read", "refused")
