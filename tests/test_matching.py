"""When two labels are equal: numbers by value, text to the byte, and both kinds one to one or not at all."""

import fractions

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammargin.errors import DataError, UsageError
from streammargin.matching import Codes, Matcher, number_in, of_one_kind, spelt, unpointed

ALIKE = [("007", "7"), ("1.0", "1"), ("1E2", "100"), ("+5", "5"), (" 5", "5"), ("-0", "0"), ("3.10", "3.1")]
PAIRS = [*ALIKE, ("inf", "Infinity"), ("nan", "NaN"), ("true", "True"), ("1_0", "10")]


@pytest.mark.parametrize("one, other", PAIRS)
def test_text_is_itself(one, other):
    matcher = Matcher([one, other, "x"], "a.h5")
    assert [matcher.find(label) for label in (one, other, "x", np.str_(one), other.encode())] == [0, 1, 2, 0, 1]
    assert Matcher([one, "x"], "a.h5").find(other) is None


@pytest.mark.parametrize("number", [1, 1.0, True, np.int8(1), np.float32(1), np.bool_(True), fractions.Fraction(1)])
def test_numbers_are_their_values(number):
    assert Matcher([0, 1], "a.h5").find(number) == 1 and Matcher(np.array([0.0, 1.0]), "a.h5").find(number) == 1
    assert Matcher(["0", "1"], "a.h5").find(number) == 1  # as one to one


def test_large_whole_numbers_are_exact():
    matcher = Matcher([2**53, 2**53 + 1, 2**64 - 1], "a.h5")
    assert [matcher.find(label) for label in (2.0**53, "9007199254740993", np.uint64(2**64 - 1))] == [0, 1, 2]
    assert matcher.find("18446744073709551616") is None


@pytest.mark.parametrize("one, other", ALIKE)
def test_another_kind_matches_one_to_one_only(one, other):
    number = number_in(one)
    assert number == number_in(other)
    assert Matcher([one, "x"], "a.h5").find(number) == Matcher([number, 99], "a.h5").find(other) == 0
    with pytest.raises(DataError) as error:  # one number, two classes
        Matcher([one, other], "a.h5").find(number)
    assert "a.h5" in str(error.value) and repr(one) in str(error.value) and repr(other) in str(error.value)
    matcher = Matcher([number, 99], "a.h5")  # two texts, one class
    assert matcher.find(one) == matcher.find(one) == 0
    if unpointed(one) == unpointed(other):  # as pandas writes a whole number
        assert matcher.find(other) == 0
        return
    with pytest.raises(DataError) as error:
        matcher.find(other)
    assert "a.h5" in str(error.value) and repr(one) in str(error.value) and repr(other) in str(error.value)


@pytest.mark.parametrize("spelling", ["True", "true", "TRUE"])
def test_truth_as_text_spells_one(spelling):
    for one in (True, np.bool_(True), 1, 1.0):
        assert Matcher([spelling, "x"], "a.csv").find(one) == 0 == Matcher([one, 99], "a.csv").find(spelling)
    matcher = Matcher([False, True], "a.csv")
    assert [matcher.find(text) for text in (spelling, "False", "false", "1", "0")] == [1, 0, 0, 1, 0]
    with pytest.raises(DataError, match=f"the number True may be the class '{spelling}' or 'tRUE'"):
        Matcher([spelling, "tRUE"], "a.csv").find(True)
    assert of_one_kind([True, spelling, "x"], "a.csv") == ([spelling, "x"], [0, 0, 1])


def test_what_options_name():
    matcher = Matcher([7, 8], "a.h5", UsageError)
    assert matcher.find_all(["8", "7"]) == [1, 0] and matcher.find_all([7, 7.0]) == [0, 0]
    with pytest.raises(UsageError, match=r"there is no label '9' in a.h5; its labels are 7, 8"):
        matcher.find_all(["9"])
    with pytest.raises(UsageError, match=r"7 and '7' both name the class 7 of a.h5"):
        matcher.find_all([7, "7"])
    with pytest.raises(UsageError, match=r"'7' and '07' .* spell the class 7"):
        matcher.find_all(["7", "07"])


def test_codes():
    assert Codes(["a", "b"], None, "a.h5").of(["b", "a", "c"]) == [1, 0, -1]
    assert Codes(["not 7", "7"], 7, "a.h5").of([7.0, 8, "7", "x"]) == [1, 0, 1, 0]
    assert Codes(["not 007", "007"], "007", "a.h5").of(["007", "7", "not 007"]) == [1, 0, 0]


NUMBERS = st.one_of(
    st.booleans(), st.integers(-20, 20), st.integers(2**53 - 2, 2**53 + 2), st.sampled_from([0.5, 1e300])
)
TEXTS = st.sampled_from(["7", "007", "+7", "7.0", "7e0", "0", "-0", "0.5", ".5", "x", " 7", "９", "1e300"])


@given(st.lists(st.one_of(NUMBERS, TEXTS), min_size=1, max_size=12))
def test_a_mixture_becomes_text_whatever_its_order(labels):
    different = list(dict.fromkeys(labels))

    def merged(given):
        try:
            found, places = of_one_kind(given, "a.h5")
        except DataError:
            return None
        assert len(set(found)) == len(found) and len({type(v) is str for v in found}) == 1
        for label, place in zip(given, places, strict=True):  # no text is changed, and no number
            assert found[place] == label or number_in(found[place]) == label
        return {label: found[place] for label, place in zip(given, places, strict=True)}

    assert merged(different) == merged(different[::-1])


@given(st.one_of(NUMBERS, st.floats(allow_nan=False, allow_infinity=False)))
def test_the_shortest_spelling_is_one_and_exact(number):
    assert number_in(spelt(number)) == number and spelt(number) == spelt(number * 1)
    if isinstance(number, float) and number.is_integer() and abs(number) < 2**53:
        assert spelt(number) == spelt(int(number))


@pytest.mark.parametrize(
    "text", ["1_0", "\uff11", "1\v", "\u00a01", "1\x1f", "\u0661", "nan", "inf", "", "0x1", "9" * 400, "9" * 5000]
)
def test_what_only_python_reads_is_no_number(text):
    assert number_in(text) is None
