"""A column of free text beside others: the names that are known, and one column alone."""

import pandas as pd
import pytest

import streammargin as sm
from streammargin.cli.info import table_lines
from streammargin.cli.main import main
from streammargin.errors import UsageError
from streammargin.sources.schema import Column, Schema


def test_columns_beside_a_text_have_their_names():
    columns = (Column("stars", "number"), Column("review", "text"), Column("kind", "category", ("a", "b")))
    schema, words = Schema(columns, (), "float32", True), 1 << 18
    assert [schema.name_at(place) for place in (0, 1, words)] == ["stars", None, None]
    assert [schema.name_at(words + 1), schema.name_at(words + 2)] == ["kind=a", "kind=b"]


def test_one_column_of_text_alone_is_taken():
    table = pd.DataFrame({"review": ["a", "b"], "title": ["c", "d"], "y": [0, 1]})
    with pytest.raises(UsageError, match="one column of text, not 'review,title'; join the columns first"):
        sm.train(table, y="y", text="review,title")


def test_info_says_why_columns_have_no_names(tmp_path, capsys):
    table = pd.DataFrame({"age": [1.0, 2.0] * 5, "review": ["good", "so bad"] * 5, "y": [0, 1] * 5})
    sm.train(table, y="y", text="review", tol=0.5).model.save(tmp_path / "m.npz")
    assert main(["info", str(tmp_path / "m.npz")]) == 0
    assert "feature names none: hashed words have none; the columns of the table are below" in capsys.readouterr().out


def test_info_tells_names_with_commas_apart_and_what_a_spelling_means():
    columns = (Column("plan", "category", ("Family, yearly", "pro")), Column("spent", "number", spelling="point €"),
               Column("paid", "number", spelling="yes/no"), Column("rate", "number", spelling="comma"))  # fmt: skip
    assert [line.strip() for line in table_lines(Schema(columns, (), "float32", True))][1:] == [
        'plan: 2 categories ("Family, yearly", pro)', "spent: numbers (decimal point, in €)", "paid: numbers (yes/no)",
        "rate: numbers (decimal comma)",
    ]  # fmt: skip
