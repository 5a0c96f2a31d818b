"""The front door of the package."""

import subprocess
import sys

import pytest

import streammargin


def test_importing_costs_nothing():
    code = "import sys, streammargin; print(sorted({'numba', 'scipy', 'h5py', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'tarin'"):
        streammargin.tarin  # noqa: B018
    assert "train" in dir(streammargin)
