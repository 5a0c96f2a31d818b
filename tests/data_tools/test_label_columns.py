"""The label column of a table: numbers if all are and none is spelt in two ways, else text to the byte."""

import itertools

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_convert import stored
from test_csv_columns import converted, said  # noqa: F401

import streammargin as sm
from streammargin.data_tools.convert import convert
from streammargin.data_tools.shuffle import shuffle
from streammargin.data_tools.split import split
from streammargin.errors import DataError, UsageError
from streammargin.matching import unpointed
from streammargin.sources.labels import ATTRIBUTE
from streammargin.tables.textfile import Text


def table(labels, head="x,label\n"):
    return head + "".join(f"{k},{label}\n" for k, label in enumerate(labels))


@pytest.mark.parametrize(
    "labels, kept",
    [
        (["1", "2", "1"], [1, 2, 1]),
        (["01", "02", "01"], [1, 2, 1]),
        (["1.0", "2.5"], [1.0, 2.5]),
        (["345.10", "7"], [345.1, 7.0]),
        (["-0", "3"], [0, 3]),
        (["1E5", "7"], [100000, 7]),
        (["1.0", "1", "9"], [1, 1, 9]),  # as pandas writes whole numbers once there was a gap
        *[([one, other, "9"], [one, other, "9"]) for one, other in (
            ("007", "7"), ("01", "1"), ("1E5", "100000"), ("+5", "5"), ("-0", "0"), ("3.1", "3.10"))],
        (["3.1", "3.10", "dev"], ["3.1", "3.10", "dev"]),
        (["345.10", "dev", "1E5"], ["345.10", "dev", "1E5"]),
        (["True", "1"], ["True", "1"]),
        (["a ", " b", '" c "'], ["a", "b", " c "]),
        (['" 5"', "5 "], [" 5", "5"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [None, 7])
def test_what_labels_are(tmp_path, monkeypatch, labels, kept, size):
    whole = Text.pieces
    monkeypatch.setattr(Text, "pieces", lambda text: whole(text, size or 1 << 20))
    for order in itertools.permutations(range(len(labels))):
        found = converted(tmp_path, table([labels[k] for k in order]))[1]
        assert found == [kept[k] for k in order] and [type(v) for v in found] == [type(kept[k]) for k in order]


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["7", "007", "7.0", "7e0", "8", "8.5", "8.50", "x", "-7", "0", "-0"]), min_size=1))
def test_labels_come_back_as_they_were_spelt(tmp_path_factory, labels):
    found = converted(tmp_path_factory.mktemp("t"), table(labels), y="label")[1]
    values = [None if label == "x" else float(label) for label in set(map(unpointed, labels))]
    if None in values or len(set(values)) < len(values):
        assert found == labels
    else:
        assert found == [float(label) for label in labels]


@pytest.mark.parametrize("place", [0, 1, 3])
def test_the_label_stands_in_any_column(tmp_path, place):
    rows = [["1.5", "2", "3"], ["4", "5", "6.25"], ["7", "8", "9"]]
    labels = ["07", "7", "8"]
    for separator in ",;":
        lines = [separator.join([*row[:place], label, *row[place:]]) for row, label in zip(rows, labels, strict=True)]
        X, y = converted(tmp_path, "\n".join(lines), y=place, separator=separator)
        assert y == labels and [[float(v) for v in row] for row in rows] == X


def test_more_numbers_than_classes_are_numbers(tmp_path, monkeypatch):
    for module in ("streammargin.sources.hdf5.write", "streammargin.sources.labels"):
        monkeypatch.setattr(f"{module}.MAX_CLASSES", 5)
    whole = Text.pieces
    for size in (8, 1 << 20):  # in pieces, and at once
        monkeypatch.setattr(Text, "pieces", lambda text, size=size: whole(text, size))
        many = ["0.1", "0.10", "2", "3", "4", "5", "6.5", "6.50"]
        assert converted(tmp_path, table(many))[1] == [float(v) for v in many]
        assert converted(tmp_path, table(many[:5]))[1] == many[:5]
        ids = [*"abcdef", "1", "01"]
        assert converted(tmp_path, table(ids))[1] == ids
        with pytest.raises(DataError, match="row 8 has the label 'x', after more than 5 different numbers"):
            converted(tmp_path, table([*many, "x"]))


def test_numbers_spelt_in_two_ways_are_targets_too(tmp_path):
    (tmp_path / "in.csv").write_text(table(["1.5", "1.50", "2", "3.25"]))
    convert(str(tmp_path / "in.csv"), str(tmp_path / "o.h5"))
    assert stored(tmp_path / "o.h5")[1].tolist() == ["1.5", "1.50", "2", "3.25"]
    model = sm.train(str(tmp_path / "o.h5"), loss="squared_error").model
    assert model.evaluate(str(tmp_path / "o.h5"))["rows"] == 4


def test_labels_of_svmlight_are_numbers(tmp_path):
    (tmp_path / "in.txt").write_text("1 1:1\n1.0 1:2\n01 1:3\n2 1:4\n")
    convert(str(tmp_path / "in.txt"), str(tmp_path / "o.h5"))
    assert stored(tmp_path / "o.h5")[1].tolist() == [1, 1, 1, 2]


def test_a_table_is_trained_on_as_it_is(tmp_path):
    lines = [f"{1 - 2 * (k % 2)},{k % 3},{'7' if k % 2 else '007'}\n" for k in range(40)]
    (tmp_path / "in.csv").write_text("a,b,label\n" + "".join(lines))
    path, out = str(tmp_path / "in.h5"), str(tmp_path / "out.h5")
    convert(str(tmp_path / "in.csv"), path)
    result = sm.train(path, valid=path)
    assert result.model.classes_.tolist() == ["007", "7"] and result.certificate.valid_error == 0.0
    shuffle(path, out, force=True)
    assert result.model.evaluate(out)["accuracy"] == 1.0
    convert(path, out, force=True)
    assert stored(out)[1].tolist() == stored(path)[1].tolist()


def test_shards_of_both_kinds_are_shuffled_as_they_are_trained_on(tmp_path):
    shards = [str(tmp_path / name) for name in ("a.h5", "b.h5", "c.h5")]
    for path, labels in zip(shards, (["01", "02"], ["01", "x"], ["01", "1"]), strict=True):
        (tmp_path / "in.csv").write_text(table(labels))
        convert(str(tmp_path / "in.csv"), path)
    shuffle(shards[:2], str(tmp_path / "out.h5"))
    found = sorted(stored(tmp_path / "out.h5")[1].tolist())
    assert found == sorted(sm.train(shards[:2]).model.classes_.tolist() + ["01"]) == ["01", "01", "2", "x"]
    for use in (lambda: shuffle([shards[0], shards[2]], str(tmp_path / "p.h5")), lambda: sm.train(shards[::2])):
        with pytest.raises(DataError, match="number 1 may be the class '01' or '1'"):
            use()


def test_written_labels_are_of_one_kind(tmp_path):
    X = np.eye(2)
    mixed = np.array([1, "x"], object)
    for batches in ([(X, [1, 2]), (X, ["1", "x"])], [(X, ["1", "x"]), (X, [1.0, 2.0])], [(X, mixed)]):
        with pytest.raises(DataError, match="some labels are numbers and others are text; give all as text"):
            sm.write_hdf5(batches, tmp_path / "out.h5")
    for labels in ([-1, 0], [0.5, 1.0]):
        with pytest.raises(DataError, match="no type of numbers holds"):
            sm.write_hdf5([(X, np.array([2**63, 1], np.uint64)), (X, labels)], tmp_path / "out.h5", force=True)


def test_large_numbers_of_several_types_stay_numbers(tmp_path):
    kinds = [np.array([2**63 + 1, 5], np.uint64), np.array([7, 2**62 + 1], np.int64)]
    paths = [str(tmp_path / f"{k}.h5") for k in range(2)]
    for path, y in zip(paths, kinds, strict=True):
        sm.write_hdf5([(np.eye(2), y)], path)
    shuffle(paths, str(tmp_path / "out.h5"))
    assert sorted(stored(tmp_path / "out.h5")[1].tolist()) == [5, 7, 2**62 + 1, 2**63 + 1]


def trained(tmp_path, text, via=lambda path: path, **options):
    (tmp_path / "train.csv").write_text(text)
    convert(str(tmp_path / "train.csv"), str(tmp_path / "train.h5"), force=True, **options)
    sm.train(via(str(tmp_path / "train.h5"))).model.save(tmp_path / "m.npz", force=True)
    return str(tmp_path / "m.npz")


INCOME = "age,income,hours\n30,>50K,40\n20,<=50K,10\n50,>50K,45\n22,<=50K,12\n"


def test_the_label_of_a_model_is_known_again(tmp_path, said):  # noqa: F811
    def shuffled(path):
        shuffle(path, str(tmp_path / "s.h5"), force=True)
        return str(tmp_path / "s.h5")

    def parted(path):
        split(path, str(tmp_path / "p.h5"), str(tmp_path / "q.h5"), test_size=0.25, force=True)
        return [str(tmp_path / "p.h5"), str(tmp_path / "q.h5")]

    new = "income,label,hours,age\n>50K,1,41,33\n"
    for via in (lambda path: path, shuffled, parted):
        model = trained(tmp_path, INCOME, via, y="income")
        assert converted(tmp_path, new, like=model) == ([[33, 41]], [">50K"])
        assert converted(tmp_path, "hours,age\n41,33\n", like=model) == ([[33, 41]], None)
    assert sum(text.endswith("/in.csv: the label is income") for text in said("INFO")) == 3
    assert converted(tmp_path, new, like=model, y="label") == ([[33, 41]], [1])


def test_so_is_its_place_in_a_table_without_names(tmp_path):
    model = trained(tmp_path, "a,30,40\nb,20,10\na,50,45\nb,22,12\n", y=0)
    assert converted(tmp_path, "b,33,41\n", like=model) == ([[33, 41]], ["b"])
    assert converted(tmp_path, "33,41\n", like=model) == ([[33, 41]], None)
    with pytest.raises(UsageError, match="name the label with y"):  # it has names, and none of them is that of a label
        converted(tmp_path, "p,q,r\n33,41,1\n", like=model)


def test_a_series_names_its_label_too(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [1.0, 2, 3, 4], "hours": [1.0, 0, 1, 0], "income": list("abab")})
    sm.train((frame[["age", "hours"]], frame["income"])).model.save(tmp_path / "m.npz")
    found = converted(tmp_path, "income,hours,age\nb,41,33\n", like=str(tmp_path / "m.npz"))
    assert found == ([[33, 41]], ["b"])


def test_an_attribute_of_another_kind_is_no_name(tmp_path):
    (tmp_path / "train.csv").write_text(INCOME)
    convert(str(tmp_path / "train.csv"), str(tmp_path / "train.h5"), y="income")
    for value in (np.arange(3), 0.5, h5py.Empty("f")):
        with h5py.File(tmp_path / "train.h5", "r+") as file:
            file["y"].attrs[ATTRIBUTE] = value
        assert sm.train(str(tmp_path / "train.h5")).model.header[ATTRIBUTE] is None


def test_values_that_are_missing_are_counted(tmp_path):
    with pytest.raises(DataError, match=r"line 3, column a: the value is missing, as in 2 more rows"):
        converted(tmp_path, "a,b,label\n1,2,0\n,2,1\n,3,0\n,4,1\n")
    with pytest.raises(DataError, match=r"2 columns have missing values, the first in line 3: a \(2\), b \(1\);"):
        converted(tmp_path, "a,b,label\n1,2,0\n,2,1\n3,,0\n,4,1\n")
