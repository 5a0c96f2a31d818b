"""Files that a field of a word names are inputs like all others: never written, part of the job, missed by name."""

import os
import shutil
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import write_h5
from reference.stopped import stop_after

import streammargin as sm
from streammargin.errors import UsageError
from streammargin.kinds import Kind
from streammargin.penalties.base import Square
from streammargin.words import needed

GROUPS = "0\n0\n1\n1\n2\n2\n3\n3\n4\n4\n"


@pytest.fixture
def folder(tmp_path, blobs, monkeypatch):
    """Rows and groups as text, as .npy, in another HDF5 file, beside the rows, and behind links."""
    monkeypatch.chdir(tmp_path)
    write_h5("a.h5", *blobs)
    numbers = np.array(GROUPS.split(), np.int64)
    (tmp_path / "g.txt").write_text(GROUPS)
    np.save("g.npy", numbers)
    with h5py.File("other.h5", "w") as file, h5py.File("a.h5", "a") as rows:
        file["g"] = rows["g"] = numbers
    os.symlink("g.txt", "link.txt")
    os.link("g.txt", "hard.txt")
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


WORDS = {
    "group:g.txt": "g.txt", "group:link.txt": "g.txt", "group:hard.txt": "g.txt", "exclusive:./g.txt": "g.txt",
    "group:l1_ratio=0.5,groups=g.txt": "g.txt", "group:g.npy,l1_ratio=0.5": "g.npy", "group:other.h5:g": "other.h5",
    "group:g": "a.h5",
}  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("option", ["-o", "--log-json"])
def test_no_output_may_be_one(word, option, folder, here):
    before = contents(folder)
    outputs = ["-o", WORDS[word]] if option == "-o" else ["-o", "m.npz", option, WORDS[word]]
    done = here("train", "a.h5", "--penalty", word, *outputs, "--force", "--passes", "3")
    assert done.returncode == 2 and "is an input as well" in done.stderr, done.stderr
    assert contents(folder) == before


def test_no_file_of_a_checkpoint_may_be_one(folder):
    for name in ("a", "b"):
        os.makedirs(name)
    sm.train("a.h5", penalty="l1", passes=2, checkpoint="a")
    for name in os.listdir("a"):
        shutil.copy("g.txt", os.path.join("b", name))
        before = contents(folder)
        for run in (
            lambda word: sm.train("a.h5", penalty=word, passes=2, checkpoint="b"),
            lambda word: sm.train("a.h5", penalty=sm.penalties.FAMILY.of(word), passes=2, checkpoint="b"),
        ):
            with pytest.raises(UsageError, match="is an input as well"):
                run(f"group:b/{name}")
        assert contents(folder) == before
        os.remove(os.path.join("b", name))


@pytest.mark.parametrize("word", ["group:none.txt", "group:none.npy", "group:none.h5:g", "exclusive:none/g.txt"])
def test_one_that_is_missing_is_named_and_nothing_is_written(word, folder, here):
    before = contents(folder)
    done = here("train", "a.h5", "--penalty", word, "-o", "m.npz")
    named = word.partition(":")[2].removesuffix(":g")
    assert done.returncode == 66 and named in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert contents(folder) == before


def test_a_dataset_that_is_missing_is_told_in_the_words_that_name_one(folder, here):
    done = here("train", "a.h5", "--penalty", "group:kinds", "-o", "m.npz")
    assert done.returncode == 2 and "a.h5 has no groups of columns under the name kinds; it has X, g, y" in done.stderr
    assert "--penalty group:NAME or --penalty group:FILE:NAME" in done.stderr


def stopped(**options):
    return sm.train("a.h5", checkpoint="held", checkpoint_seconds=1e-9, should_stop=stop_after(4), tol=1e-9, **options)


def test_what_it_holds_is_part_of_the_job(folder):
    """Another file with the same groups is the same job; the same file with other groups is another one."""
    assert stopped(penalty="group:g.txt").resumable
    for word in ("group:hard.txt", "group:g.npy", "group:other.h5:g"):
        assert stopped(penalty=word).resumable, word
    (folder / "g.txt").write_text(GROUPS.replace("4", "0"))
    with pytest.raises(UsageError, match="penalty"):
        sm.train("a.h5", penalty="group:g.txt", checkpoint="held")


def test_an_array_in_a_field_is_part_of_the_job(folder):
    given = np.array(GROUPS.split(), int)
    assert stopped(penalty=sm.penalties.Exclusive(given)).resumable
    given[3] = 0
    with pytest.raises(UsageError, match="penalty"):
        sm.train("a.h5", penalty=sm.penalties.Exclusive(given), checkpoint="held")


class Weighted(Square):
    """1/2 sum f_j w_j^2, of the user's; no word shows the factors."""

    factors: Any = needed(Kind(), "of the columns")

    def value(self, w):
        return 0.5 * float(self.factors @ w**2)

    def gauge(self, theta):
        return float(np.sqrt((theta**2 / self.factors).sum()))

    def stretch(self, size):
        return float(1.0 / np.sqrt(self.factors.min()))

    def even(self, steps):
        return steps

    def prox(self, v, steps):
        return v / (1.0 + steps * self.factors)


def test_an_array_in_a_penalty_of_the_users_own_is_part_of_the_job(folder):
    given = np.arange(1.0, 11.0)
    assert stopped(penalty=Weighted(given)).resumable
    assert stopped(penalty=Weighted(given.copy())).resumable  # the same job, by other objects
    with pytest.raises(UsageError, match="penalty"):
        sm.train("a.h5", penalty=Weighted(given[::-1].copy()), checkpoint="held")
