"""Which columns of a table become the label and the values: by header, options and a model, never by a guess."""

import csv
import io
import logging
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_convert import stored

from streammargin.data_tools.convert import convert
from streammargin.data_tools.main import main
from streammargin.errors import DataError, UsageError
from streammargin.model.linear import LinearModel
from streammargin.tables.textfile import Text

ADULT = "age,hours,income\n30,40,>50K\n20,10,<=50K\n"


def converted(folder, text, **options):
    """(X, y) of a table of this text, as lists."""
    (folder / "in.csv").write_text(text, newline="")
    convert(str(folder / "in.csv"), str(folder / "out.h5"), dtype="float64", force=True, **options)
    X, y = stored(folder / "out.h5")
    return X.tolist(), None if y is None else y.tolist()


@pytest.fixture
def said(caplog):
    """What is said at a level, one text a message."""
    caplog.set_level(logging.INFO, "streammargin")
    return lambda level: [str(record.msg) for record in caplog.records if record.levelname == level]


def test_a_label_of_another_name_is_asked_for_and_named(tmp_path, said):
    with pytest.raises(UsageError, match=r"name it with y=.NAME., or use label=False.* age, hours, income$"):
        converted(tmp_path, ADULT)
    assert os.listdir(tmp_path) == ["in.csv"]
    assert converted(tmp_path, ADULT, y="income") == ([[30, 40], [20, 10]], [">50K", "<=50K"])
    assert "the label is" not in " ".join(said("INFO"))
    assert converted(tmp_path, ADULT, y=2) == ([[30, 40], [20, 10]], [">50K", "<=50K"])
    assert converted(tmp_path, ADULT.replace("income", "Target")) == ([[30, 40], [20, 10]], [">50K", "<=50K"])
    assert [text.rpartition(": ")[2] for text in said("INFO")] == ["the label is income", "the label is Target"]


def test_the_shell_names_its_options_and_the_label(tmp_path, here):
    (tmp_path / "in.csv").write_text(ADULT)
    done = here("convert", "in.csv", "o.h5", main=main, cwd=tmp_path)
    assert done.returncode == 2 and "--y" in done.stderr and "--no-label" in done.stderr
    assert "age, hours, income" in done.stderr and done.stderr.count("\n") == 1
    done = here("convert", "in.csv", "o.h5", "--y", "income", main=main, cwd=tmp_path)
    assert done.returncode == 0 and "the label is" not in done.stderr
    done = here("convert", "in.csv", "p.h5", "--y", "2", "--no-label", main=main, cwd=tmp_path)
    assert done.returncode == 2 and not (tmp_path / "p.h5").exists()


def test_without_a_line_of_names_the_last_column_is_no_guess_either(tmp_path):
    with pytest.raises(UsageError, match=r"there is no header line; name it with y=.*; it has 3 columns$"):
        converted(tmp_path, "1,2,0\n3,4,1\n")
    assert converted(tmp_path, "1,2,0\n3,4,1\n", y=-1) == ([[1, 2], [3, 4]], [0, 1])


def test_a_number_is_a_place_and_a_text_a_name_first(tmp_path):
    text = "1,0,label\n5,6,7\n"
    assert converted(tmp_path, text, y=1) == ([[5, 7]], [6])
    assert converted(tmp_path, text, y="1") == ([[6, 7]], [5])
    assert converted(tmp_path, text, y="2") == ([[5, 6]], [7])


def test_many_columns_are_not_all_listed(tmp_path):
    names = [f"c{k}" for k in range(500)] + ["income"]
    with pytest.raises(UsageError, match=r"c0, c1, .*, \.\.\. and income \(501 in all\)$") as caught:
        converted(tmp_path, ",".join(names) + "\n" + ",".join(["1"] * 501) + "\n")
    assert len(str(caught.value)) < 500


def test_a_second_candidate_is_asked_about(tmp_path, said):
    text = "a,label,target\n1,0,0\n2,1,1\n"
    with pytest.raises(UsageError, match=r"columns may be the label; name it .*; the columns are label, target$"):
        converted(tmp_path, text)
    assert converted(tmp_path, text, y="label") == ([[1, 0], [2, 1]], [0, 1])
    assert said("WARNING") == []


def test_quiet_shows_warnings_only(tmp_path, here):
    (tmp_path / "in.csv").write_text(",label\n0,1\n1,0\n")
    done = here("convert", "in.csv", "o.h5", "-q", main=main, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("streammargin-data: warning: in.csv: the first column has no name")


@pytest.mark.parametrize("head", ["", "a,b,c\n"])
def test_rows_to_be_predicted_keep_their_last_value(tmp_path, head):
    assert converted(tmp_path, f"{head}1,2,3\n4,5,6\n", label=False) == ([[1, 2, 3], [4, 5, 6]], None)


def test_no_label_beside_a_column_of_that_name_is_said(tmp_path, said):
    assert converted(tmp_path, "a,label\n1,2\n", label=False) == ([[1, 2]], None)
    assert "used as values, since label=False: label" in said("WARNING")[0]


@pytest.mark.parametrize("text", ["\n1,2\n", " \t\n1,2\n", "\n"])
def test_a_table_does_not_begin_with_a_blank_line(tmp_path, text):
    with pytest.raises(DataError, match="line 1 is blank"):
        converted(tmp_path, text, label=False)


def test_one_column_is_a_table_where_there_is_no_label(tmp_path):
    assert converted(tmp_path, "a\n1\n2\n", label=False) == ([[1], [2]], None)
    with pytest.raises(DataError, match="line 2: 2 columns, but the first line has 1"):
        converted(tmp_path, "1\n2,3\n", label=False)
    assert converted(tmp_path, "1;2\n", label=False) == ([[1, 2]], None)
    with pytest.raises(DataError, match=r"line 1: one column only, .*another separator"):
        converted(tmp_path, "a\n1\n2\n")


@pytest.mark.parametrize("word", ["tab", "\\t", "\t", ";", "|", " ", ":", "#", "'"])
def test_separators(tmp_path, word):
    separator = {"tab": "\t", "\\t": "\t"}.get(word, word)
    lines = [["a", "b", "label"], ["1.5", "-2", "0"], ["3e1", "4", "1"]]
    text = "\n".join(separator.join(line) for line in lines)
    assert converted(tmp_path, text, separator=word) == ([[1.5, -2], [30, 4]], [0, 1])
    lines[1][2] = f'"x{separator}y"'
    text = "\n".join(separator.join(line) for line in lines)
    assert converted(tmp_path, text, separator=word) == ([[1.5, -2], [30, 4]], [f"x{separator}y", "1"])


@pytest.mark.parametrize("word", ["", ",,", "a", "1", ".", "-", "+", '"', "\n", "\r", "é", "\x00"])
def test_what_cannot_separate_is_refused(tmp_path, word):
    with pytest.raises(UsageError, match="separator must be tab, or a character"):
        converted(tmp_path, "1,2\n", separator=word, label=False)


def test_a_separator_makes_a_table_of_any_text(tmp_path):
    (tmp_path / "in").write_text("1|2|0\n3|4|1\n")
    convert(str(tmp_path / "in"), str(tmp_path / "o.h5"), separator="|", y="2")
    assert stored(tmp_path / "o.h5")[0].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "text, options, message",
    [
        ("1\t2\t0\n\t\t\n", {"separator": "tab"}, "line 2: the label is missing"),  # no blank line
        ("1\t2\t0\n3\t\t1\n", {"separator": "tab"}, "line 2, column 1: the value is missing"),
        ("1\t2\t0\n3\t \t1\n", {"separator": "tab"}, "line 2, column 1: the value is missing"),
        ("1;2;0\n3;;1\n", {"separator": ";"}, "line 2, column 1: the value is missing"),
        (
            "1.5;2;0\n3,5;4;1\n",
            {"separator": ";"},
            "line 2, column 0: '3,5' is not written like '1.5', .*; write all numbers alike, or leave it out",
        ),
        (
            "1,2,0\n3,Oslo,1\n",
            {},
            "line 2, column 1: 'Oslo' is not a finite number, .*, or make categories of all with .*, or leave it",
        ),
        ("1 2 0\n3  1\n", {"separator": " "}, "line 2, column 1: the value is missing"),
        ('1,2,0\n3,4,"x\n', {}, "line 1 or later: unexpected end of data; is a quote missing"),  # the rest of a label
    ],
)
def test_no_field_is_made_up_or_lost(tmp_path, text, options, message):
    with pytest.raises(DataError, match=message):
        converted(tmp_path, text, y="2", **options)


@pytest.mark.parametrize(
    "option, text",
    [({"y": "0"}, "1 1:2\n"), ({"label": False}, "1 1:2\n"), ({"x": "X"}, "1 1:2\n"), ({"y": "y"}, "1 2\n"),
     ({"zero_based": True}, "1,2\n")],
)  # fmt: skip
def test_an_option_without_a_use_is_refused(tmp_path, option, text):
    (tmp_path / "in").write_text(text)
    (name,) = option
    with pytest.raises(UsageError, match=f"which does not use {name}.*; omit it$"):
        convert(str(tmp_path / "in"), str(tmp_path / "o.h5"), **option)


def test_the_label_of_another_format_names_that_of_this_one(tmp_path):
    (tmp_path / "in").write_text("1 1:2\n")
    with pytest.raises(UsageError, match=r"does not use y; its labels are in each line; omit it$"):
        convert(str(tmp_path / "in"), str(tmp_path / "o.h5"), y="y")


def test_names_are_what_they_are(tmp_path, said):
    text = '"a, b", c ,e, "d",label\n1,2,3,4,0\n'
    assert converted(tmp_path, text) == ([[1, 2, 3, 4]], [0])
    assert converted(tmp_path, text, y="a, b") == ([[2, 3, 4, 0]], [1])
    assert converted(tmp_path, text, y="d") == ([[1, 2, 3, 0]], [4])
    with pytest.raises(DataError, match=r"has several columns called c; give each a name of its own"):
        converted(tmp_path, text.replace("e", "c"))


def test_numbers_of_rows_without_a_name_are_warned_of(tmp_path, said):
    assert converted(tmp_path, ",a,label\n0,5,0\n0,6,1\n") == ([[0, 5], [0, 6]], [0, 1])
    assert "the first column has no name" in said("WARNING")[0]
    assert converted(tmp_path, ",a,label\n0,5,0\n1,6,1\n") == ([[5], [6]], [0, 1])
    assert "left out, as an index without a name: Unnamed: 0" in said("WARNING")[1]
    converted(tmp_path, "0,1,2\n5,6,0\n", y="2")
    assert "the first line numbers the columns" in said("WARNING")[2]


def test_a_row_that_may_have_been_taken_for_names_is_told(tmp_path, said):
    assert converted(tmp_path, "5.1,x,0\n4,3,1\n", y="-1") == ([[4, 3]], [1])
    assert "read as a header though it has numbers: 5.1, 0" in said("WARNING")[0]
    for text, label in (("2019,2020,label\n1,2,0\n", None), ("2019,2020,income\n1,2,0\n", "income")):
        converted(tmp_path, text, y=label)
    assert len(said("WARNING")) == 1


fields = st.one_of(st.integers(-(10**6), 10**6).map(str), st.floats(-1e30, 1e30).map(repr))
names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), max_size=12)


@settings(max_examples=60)
@given(data=st.data())
def test_any_table_round_trips(tmp_path_factory, data):
    """Written by Python's own writer, in any separator, with or without names, quotes, blanks and empty lines."""
    folder = tmp_path_factory.mktemp("table")
    width = data.draw(st.integers(2, 6))
    rows = data.draw(st.lists(st.lists(fields, min_size=width, max_size=width), min_size=1, max_size=12))
    label = data.draw(st.none() | st.integers(0, width - 1))
    labels = data.draw(st.sampled_from([["0", "1.0", "-2e5"], ["cat", "a dog, big", 'says "no"', "x;y|z", "1"]]))
    if label is not None:
        for row in rows:
            row[label] = data.draw(st.sampled_from(labels))
    separator = data.draw(st.sampled_from([",", ";", "|", "\t"]))
    quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    named = st.lists(names.map(lambda name: f"n {name}".strip()), min_size=width, max_size=width, unique=True)
    header = data.draw(st.none() | named)
    out = io.StringIO()
    writer = csv.writer(
        out, delimiter=separator, quoting=quoting, lineterminator=data.draw(st.sampled_from(["\n", "\r\n"]))
    )
    if header is not None:
        writer.writerow(header)
    spelt = []  # the labels; blanks around them count if they are in quotes
    for row in rows:
        blank = data.draw(st.booleans())
        writer.writerow([f" {field}" for field in row] if blank else row)
        if label is not None:
            quoted = quoting == csv.QUOTE_ALL or any(mark in row[label] for mark in (separator, '"'))
            spelt.append(f" {row[label]}" if blank and quoted else row[label])
        if data.draw(st.booleans()):
            out.write("\n")
    whole = Text.pieces
    size = data.draw(st.integers(3, 200))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "pieces", lambda text: whole(text, size))
        option = {"label": False} if label is None else {"y": label}
        X, y = converted(folder, out.getvalue(), separator=separator, **option)
    kept = [column for column in range(width) if column != label]
    assert [[float(row[column]) for column in kept] for row in rows] == X
    if label is None:
        assert y is None
    else:
        whole = labels[0] == "0" or {text.strip() for text in spelt} == {"1"}  # of these texts, numbers
        numbers = whole and len({float(text) for text in spelt}) == len(set(spelt))
        assert y == ([float(text) for text in spelt] if numbers else spelt)


def test_a_line_of_names_may_be_longer_than_a_piece(tmp_path, monkeypatch):
    whole = Text.pieces
    monkeypatch.setattr(Text, "pieces", lambda text: whole(text, 64))
    names = ["2020", *(f"column {k}" for k in range(50)), "label"]  # a number among them: the second line decides
    text = ",".join(names) + "\n" + ",".join(map(str, range(52))) + "\n"
    assert converted(tmp_path, text) == ([list(range(51))], [51])


@pytest.fixture
def like(tmp_path):
    """The path of a model that was trained on columns of these names, or on this many columns without names."""
    path = str(tmp_path / "model.npz")

    def make(columns):
        width, names = (columns, None) if isinstance(columns, int) else (len(columns), np.array(list(columns), object))
        model = LinearModel(np.ones((1, width)), np.zeros(1), np.array([0, 1]), {"loss": "hinge"}, names)
        model.save(path, force=True)
        return path

    return make


TABLE = "c,label,a,b\n3,1,1,2\n6,0,4,5\n"


def test_columns_take_the_order_of_a_model(tmp_path, like):
    path = like("abc")
    assert converted(tmp_path, TABLE, like=path) == ([[1, 2, 3], [4, 5, 6]], [1, 0])
    assert converted(tmp_path, "c,a,b\n3,1,2\n", like=path) == ([[1, 2, 3]], None)  # the label may be absent
    assert converted(tmp_path, "b,c,a\n2,3,1\n", like=path, label=False) == ([[1, 2, 3]], None)
    text = "b,income,c,a\n2,>50K,3,1\n5,<=50K,6,4\n"
    assert converted(tmp_path, text, like=path, y="income") == ([[1, 2, 3], [4, 5, 6]], [">50K", "<=50K"])


def test_other_columns_are_left_out_with_a_word(tmp_path, like, said):
    text = "b,id,c,label,a,income\n2,x1,3,0,1,>50K\n"  # what is left out need not be numbers
    assert converted(tmp_path, text, like=like("abc")) == ([[1, 2, 3]], [0])
    assert said("WARNING")[0].endswith("the model knows no such column: id, income")
    text = "b,c,buys,a\n2,3,yes,1\n"
    assert converted(tmp_path, text, like=like("abc")) == ([[1, 2, 3]], None)
    assert said("WARNING")[-1].endswith("the model knows no such column: buys; if one is the label, name it with y")
    assert converted(tmp_path, text, like=like("abc"), label=False) == ([[1, 2, 3]], None)
    assert said("WARNING")[-1].endswith("the model knows no such column: buys")


def test_missing_columns_are_all_named(tmp_path, like):
    with pytest.raises(
        DataError, match=r"lacks 2 columns that the model was trained on, .*: d, e; it has c, label, a, b$"
    ):
        converted(tmp_path, TABLE, like=like("abcde"))
    assert not (tmp_path / "out.h5").exists()


def test_a_label_that_the_model_needs_is_refused(tmp_path, like):
    with pytest.raises(UsageError, match=r"the column c is one that .* was trained on"):
        converted(tmp_path, TABLE, like=like("abc"), y="c")
    # a model may well have been trained on a column of such a name
    assert converted(tmp_path, "y,x,label\n1,2,0\n", like=like("xy")) == ([[2, 1]], [0])
    assert converted(tmp_path, "y,x\n1,2\n", like=like("xy")) == ([[2, 1]], None)


def test_names_that_columns_share_are_refused(tmp_path, like):
    path = like("aba")
    for text in ("a,b,a\n1,2,3\n", "label,a,b,a\n0,1,2,3\n"):
        with pytest.raises(DataError, match=r"in.csv has several columns called a"):
            converted(tmp_path, text, like=path)
    with pytest.raises(DataError, match="the model has several columns called a"):
        converted(tmp_path, "a,b,c\n1,2,3\n", like=path)
    assert converted(tmp_path, "1,2,3\n", like=path) == ([[1, 2, 3]], None)


def test_a_model_without_names_gives_the_width(tmp_path, like):
    assert converted(tmp_path, "c,a\n3,1\n", like=like(2)) == ([[3, 1]], None)
    assert converted(tmp_path, "c,y,a\n3,0,1\n", like=like(2)) == ([[3, 1]], [0])
    assert converted(tmp_path, "3,1\n", like=like(2)) == ([[3, 1]], None)
    assert converted(tmp_path, "3,1,0\n", like=like(2), y=2) == ([[3, 1]], [0])
    with pytest.raises(UsageError, match="name the label with y"):  # the last, by a guess
        converted(tmp_path, "3,1,0\n", like=like(2))
    with pytest.raises(DataError, match=r"has 3 columns, but .* was trained on 2, and the model has no column names"):
        converted(tmp_path, "a,b,c\n3,1,0\n", like=like(2), label=False)
    with pytest.raises(DataError, match=r"has 1 column beside the label, label, but .* was trained on 2"):
        converted(tmp_path, "a,label\n3,1\n", like=like(2), y="label")


def test_a_table_without_names_goes_by_position(tmp_path, like):
    assert converted(tmp_path, "1,2,3\n", like=like("abc")) == ([[1, 2, 3]], None)
    with pytest.raises(DataError, match=r"has 2 columns, but .* was trained on 3, and the table has no column names"):
        converted(tmp_path, "1,2\n", like=like("abc"), label=False)


def test_names_that_look_like_numbers_are_known_from_the_model(tmp_path, like):
    assert converted(tmp_path, "2,0,1\n7,8,9\n", like=like("012")) == ([[8, 9, 7]], None)


def test_other_formats_take_the_width_of_a_model(tmp_path, like):
    (tmp_path / "a.txt").write_text("1 1:5\n0 2:3\n")
    assert convert(str(tmp_path / "a.txt"), str(tmp_path / "a.h5"), like=like(7)) == (2, 7, 2)
    with pytest.raises(UsageError, match="like sets the number of columns"):
        convert(str(tmp_path / "a.txt"), str(tmp_path / "a.h5"), like=like(7), features=7)


def test_the_model_is_no_place_to_write_to(tmp_path, like):
    (tmp_path / "in.csv").write_text(TABLE)
    path = like("abc")
    before = (tmp_path / "model.npz").read_bytes()
    with pytest.raises(UsageError, match="is an input as well"):
        convert(str(tmp_path / "in.csv"), path, like=path, force=True)
    assert (tmp_path / "model.npz").read_bytes() == before


@pytest.mark.parametrize("yes, no", [("True", "False"), ("TRUE", "FALSE"), ("true", "false"), ('"True"', " False ")])
@pytest.mark.parametrize("head", ["member,age,label\n", ""])
def test_true_and_false_are_1_and_0(tmp_path, yes, no, head):
    text = f"{head}{yes},31,a\n{no},4.5,b\n1,2,a\n"
    assert converted(tmp_path, text, y=-1) == ([[1, 31], [0, 4.5], [1, 2]], ["a", "b", "a"])


def test_a_first_row_of_true_and_false_is_no_line_of_names(tmp_path):
    assert converted(tmp_path, "True,False\nFalse,False\n", label=False) == ([[1, 0], [0, 0]], None)
    assert converted(tmp_path, "married,owner\nFalse,True\n", label=False) == ([[0, 1]], None)


def test_labels_of_true_and_false_keep_their_values(tmp_path):
    assert converted(tmp_path, "x,label\n1,True\n2,False\n")[1] == ["True", "False"]


def test_all_columns_that_are_refused_are_named_at_once(tmp_path):
    text = "city,age,sex,member,plan,label\n7,31,1,True,,1\nOslo,x,m,False,2,0\n8,30,2,True,3,1\n"
    with pytest.raises(DataError) as error:
        converted(tmp_path, text)
    said = str(error.value)
    assert all(word in said for word in ("city", "age", "sex", "plan", "'Oslo' in line 3", "3 columns")), said
    assert "line 2, column plan: the value is missing" in said and 'categorical="city,age,sex", missing="mean"' in said
    assert "member" not in said and "label" not in said.split("csv", 1)[1]


def test_of_a_wide_table_all_are_named_too(tmp_path):
    names = [f"name{place}" for place in range(40)]
    with pytest.raises(DataError) as error:
        converted(tmp_path, ",".join([*names, "label"]) + "\n" + ("1," * 40 + "1\n") * 2 + "a," * 40 + "1\n")
    assert all(name in str(error.value) for name in names)


def test_columns_by_number_are_named_where_there_are_no_names(tmp_path):
    with pytest.raises(DataError, match=r"2 columns .*'a' in line 2: 0, 2;"):
        converted(tmp_path, "5,1,6,2\na,3,b,4\n", y=-1)


def test_a_line_that_is_cut_short_is_said_first(tmp_path):
    for text in ("a,b,label\nx,1,0\n1,2\n3,4,1\n", "a,b,label\n1,1,1\n1,2\nx,1,0\n"):
        with pytest.raises(DataError, match="line 3: 2 columns"):
            converted(tmp_path, text)
