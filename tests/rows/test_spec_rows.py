"""What a row counts for, against the definitions, and the numbers of rows."""

import math

import numpy as np
import pytest

from streammargin.rows.labels import Labels, Parts, RowLabels, RowNumbers, numbered_from
from streammargin.solvers.problem import Outputs
from streammargin.solvers.state import labels_for, rows_of_lines


def test_numbers_are_consecutive_or_listed():
    assert [numbered_from(7).row(i) for i in range(3)] == [7, 8, 9]
    assert [RowNumbers(7, np.array([4, 0, 9])).row(i) for i in range(3)] == [4, 0, 9]


@pytest.mark.parametrize("C", [0.5, math.inf])
@pytest.mark.parametrize("weighted", [True, False])
def test_classes(C, weighted):
    codes = np.array([0, 2, -1, 1, 2], np.int16)
    factors = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]])  # the first class is absent in the second problem
    with np.errstate(invalid="ignore"):
        caps = np.where(factors > 0.0, C * factors, 0.0)
    weights = np.array([2.0, 0.0, 1.0, 1.0, 0.5]) if weighted else np.empty(0)
    labels = Labels(codes, np.array([2, 1]), caps, weights, np.empty(0))
    for row, code in enumerate(codes):
        mass = 0.0 if code < 0 else (weights[row] if weighted else 1.0)
        assert labels.weight(row) == mass
        for k, positive in enumerate([2, 1]):
            there = mass > 0.0 and factors[k, code] > 0.0
            assert labels.cap(k, row) == (C * factors[k, code] * mass if there else 0.0)
            if code >= 0:
                assert labels.own(k, row) == (code == positive)
                assert labels.sign(k, row) == (1.0 if code == positive else -1.0)
                assert labels.margin(k, row, 1.7) == labels.sign(k, row) * 1.7


def test_targets():
    y = np.array([0.5, -2.0, 0.0])
    labels = Labels(np.zeros(3, np.int16), np.zeros(1, np.int64), np.full((1, 1), math.inf), np.empty(0), y)
    for row, target in enumerate(y):
        assert labels.target(0, row) == target and labels.margin(0, row, 1.25) == 1.25 - target


def labels_of(rows):
    return Labels(rows.codes, np.array([1, 2]), np.arange(6.0).reshape(2, 3), *[rows.weights, rows.targets],
                  rows.epsilons, rows.first)  # fmt: skip


@pytest.mark.parametrize("weighted", [True, False])
def test_a_window_says_of_its_rows_what_the_labels_of_all_say(weighted):
    random, none = np.random.default_rng(0), np.empty(0)
    codes, numbers = random.integers(-1, 3, 50).astype(np.int16), random.random((3, 50))
    whole = RowLabels(codes, *(numbers * (numbers > 0.3) if weighted else (none, none, none)))
    window = whole.window(20, 35)
    assert window.first == 20 and window.codes.size == 15 and window.window(25, 30).first == 25
    some = np.array([21, 34, 20])
    for rows in (slice(22, 30), some):
        assert np.array_equal(window.present(rows), whole.present(rows))
        assert window.of(rows).codes.tolist() == codes[rows].tolist() and window.of(rows).first == 0
    assert window.of(some).joined(window.cut(22, 24)).codes.tolist() == [*codes[some], *codes[22:24]]
    one, all_rows = labels_of(window), labels_of(whole)
    for row in range(20, 35):
        for name in ("code", "weight", "epsilon"):
            assert getattr(one, name)(row) == getattr(all_rows, name)(row)
        for k in (0, 1):
            assert (one.cap(k, row), one.sign(k, row)) == (all_rows.cap(k, row), all_rows.sign(k, row))
            assert one.target(k, row) == all_rows.target(k, row)
            assert one.margin(k, row, 1.5) == all_rows.margin(k, row, 1.5)


@pytest.mark.parametrize("weighted", [True, False])
def test_a_row_in_a_fold_that_a_line_is_trained_without_is_as_one_of_weight_0(weighted):
    random, none, n = np.random.default_rng(1), np.empty(0), 60
    classes, folds = random.integers(-1, 3, n), random.integers(0, 4, n)
    parts = Parts(3, 2, np.array([[0, 1], [2, 4], [-1, -1]]))  # without the first fold, without the last two, all rows
    codes = np.where(classes < 0, -1, classes | folds << 2).astype(np.int16)
    outputs = Outputs(np.array([1, 2, 0]), random.random((3, 3)) * [1.0, 1.0, 0.0], parts=parts)
    weights = np.where(random.random(n) < 0.3, 0.0, random.random(n)) if weighted else none
    labels = labels_for(RowLabels(codes, weights, none), outputs)
    np.testing.assert_array_equal(parts.class_of(codes), classes)
    np.testing.assert_array_equal(parts.fold_of(codes)[classes >= 0], folds[classes >= 0])
    out = np.stack([folds == 0, folds >= 2, np.zeros(n, bool)])
    for k in range(3):
        zeros = np.where(out[k], 0.0, weights if weighted else 1.0)
        plain = labels_for(RowLabels(classes.astype(np.int16), zeros, none), outputs._replace(parts=Parts()))
        for row in range(n):
            for name in ("cap", "sign", "own", "present"):
                assert getattr(labels, name)(k, row) == getattr(plain, name)(k, row), (name, k, row)
            assert labels.code(row) == classes[row]
        for name in ("caps_of", "signs_of", "own_of", "present_of", "classes_of"):
            np.testing.assert_array_equal(getattr(labels, name)(k), getattr(plain, name)(k))
        np.testing.assert_array_equal(labels.caps_of(k), [labels.cap(k, row) for row in range(n)])
    np.testing.assert_array_equal(labels.own_of_lines(), classes[:, None] == outputs.positive)
    scores, there = random.random((3, n)), labels.present_of(0)
    wrong = outputs.positive[scores.argmax(axis=0)] != classes
    assert labels.confused_of(0, scores) == np.count_nonzero(wrong & there) < np.count_nonzero(wrong)
    counted = [np.count_nonzero(labels.caps_of(k)) for k in range(3)]
    np.testing.assert_array_equal(rows_of_lines(RowLabels(codes, weights, none), outputs), counted)
