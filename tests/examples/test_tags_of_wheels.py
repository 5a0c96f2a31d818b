"""The tag of a wheel with kernels is one that pip takes on the system where it is made."""

import sys
import sysconfig

import pytest

from examples import ship_kernels


@pytest.mark.parametrize("system, tag", [
    ("linux-x86_64", "manylinux_2_17_x86_64"),
    ("linux-aarch64", "manylinux_2_17_aarch64"),
    ("macosx-10.9-universal2", "macosx_10_9_universal2"),
    ("macosx-11-arm64", "macosx_11_0_arm64"),
    ("macosx-11.0-arm64", "macosx_11_0_arm64"),
    ("macosx-14.2-arm64", "macosx_14_0_arm64"),
    ("macosx-14.2-x86_64", "macosx_14_0_x86_64"),
])  # fmt: skip
def test_the_tag_is_one_that_pip_takes(monkeypatch, system, tag):
    monkeypatch.setattr(sysconfig, "get_platform", lambda: system)
    assert ship_kernels.tag_here() == f"cp3{sys.version_info.minor}-none-{tag}"
