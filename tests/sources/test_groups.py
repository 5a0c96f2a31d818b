"""Groups of columns from files: what is no list of them is said in a sentence, before anything long is read."""

import warnings

import h5py
import numpy as np
import pytest
from conftest import traced, write_h5

from streammargin.errors import DataError, UsageError
from streammargin.sources.groups import column_groups
from streammargin.sources.open import open_source


@pytest.mark.parametrize(
    "text, message",
    [
        ("", r"groups has the shape \(0,\), but .* has 10 columns"),
        ("# none\n\n", r"groups has the shape \(0,\)"),
        ("1\n2\n", r"groups has the shape \(2,\)"),
        ("1\n" * 11, "has more lines than the 10 columns"),
        ("a\n" * 10, "is not a text file of groups"),
    ],
)
def test_texts_that_are_no_groups(text, message, blobs_file, tmp_path):
    (tmp_path / "g.txt").write_text(text)
    with (
        warnings.catch_warnings(),
        open_source(blobs_file) as source,
        pytest.raises((UsageError, DataError), match=message),
    ):
        warnings.simplefilter("error")
        column_groups(str(tmp_path / "g.txt"), source)


def test_an_empty_text_is_one_line_in_the_shell(blobs_file, tmp_path, here):
    (tmp_path / "g.txt").touch()
    done = here("train", blobs_file, "--penalty", f"group:{tmp_path / 'g.txt'}", "-o", tmp_path / "m.npz")
    assert done.returncode == 2 and done.stderr.splitlines() == [done.stderr.strip()], done.stderr


@pytest.mark.parametrize("place", ["dataset", "npy", "text"])
def test_one_that_is_far_too_long_is_not_read(place, blobs, tmp_path):
    data = write_h5(tmp_path / "a.h5", *blobs)
    if place == "dataset":  # of zeros, packed
        with h5py.File(data, "a") as file:
            file.create_dataset("g", data=np.zeros(5_000_000, np.int64), compression="gzip", chunks=(1 << 16,))
    elif place == "npy":
        np.save(tmp_path / "g.npy", np.zeros(5_000_000, np.int64))
    else:
        (tmp_path / "g.txt").write_bytes(b"1\n" * 5_000_000)
    with open_source(data) as source:
        words = r"has the shape \(5000000,\), but|has more lines than"
        with traced() as allocated, pytest.raises(UsageError, match=words):
            column_groups("g" if place == "dataset" else f"{tmp_path}/g.{place.replace('text', 'txt')}", source)
        assert allocated.peak < 4 << 20


def test_names_of_classes_that_are_far_too_many_are_not_read(blobs, tmp_path):
    X, y = blobs
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"], file["y/codes"] = X, (y > 0).astype(np.int8)
        file.create_dataset("y/categories", data=np.arange(5_000_000) // 100_000, compression="gzip", chunks=(1 << 16,))
    with open_source(str(tmp_path / "a.h5")) as source:
        with traced() as allocated, pytest.raises(DataError, match="y has 5000000 categories, too many for labels"):
            list(source.labels())
        assert allocated.peak < 4 << 20
