"""A few mutated files for every reader; `python tests/fuzz.py` runs many."""

import random

import pytest
from fuzz import KINDS, mutated, one, valid_files


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files_are_read_or_refused(tmp_path, kind):
    whole = valid_files(tmp_path, [kind])[kind]
    found = [one(tmp_path, kind, mutated(whole, random.Random(f"{kind} {case}"))) for case in range(25)]
    assert set(found) <= {"read", "refused"} and "refused" in found
