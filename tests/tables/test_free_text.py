"""A column of free text beside others: the names that are known, and one column alone."""

import json
from pathlib import Path

import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

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


@pytest.mark.parametrize("options, times", [
    ({"text": "review", "scale": "std:clip=5"}, 1), ({"text": "review", "scale": "maxabs"}, 0), ({"scale": "std"}, 0),
])  # fmt: skip
def test_a_scale_that_does_not_suit_text_is_told_once(options, times, tmp_path, capsys, caplog):
    table = pd.DataFrame({"age": [1.0, 2.0] * 9, "review": ["good", "so bad"] * 9, "y": [0, 1] * 9})
    table.to_csv(tmp_path / "t.csv", index=False)
    sm.train(table, y="y", tol=0.5, cv=2, **options)
    assert caplog.text.count('gives rare words of text large values; use scale="maxabs", or leave scale out') == times
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    assert main(["train", str(tmp_path / "t.csv"), "-o", str(tmp_path / "m.npz"), "--tol", "0.5", "-q", *flags]) == 0
    told = "gives rare words of --text large values; use --scale maxabs, or leave --scale out"
    assert capsys.readouterr().err.count(told) == times


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


def test_info_names_the_words_of_hashed_columns(tmp_path, capsys):
    """The words are those that scikit-learn hashes to the column; the table that is read may be another one."""
    texts = ["a good film", "so bad", "Good, not bad", None, "so so"] * 8
    table = pd.DataFrame({"stars": range(40), "review": texts, "y": [1, 0, 1, 0, 0] * 8})
    model = sm.train(table, y="y", text="review,ngrams=2", C=10.0, tol=0.5).model
    model.save(tmp_path / "m.npz")
    table[["review"]].to_csv(tmp_path / "words.csv", index=False)
    command = ["info", str(tmp_path / "m.npz"), "--top", "9", "--words", str(tmp_path / "words.csv")]
    assert main([*command, "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["top_features"]
    hashing = HashingVectorizer(n_features=1 << 18, ngram_range=(1, 2), alternate_sign=False)
    counts = CountVectorizer(ngram_range=(1, 2))
    known = dict(zip(counts.fit(filter(None, texts)).get_feature_names_out(),
                     counts.transform(filter(None, texts)).sum(axis=0).A1.tolist(), strict=True))  # fmt: skip
    fall = {1 + hashing.transform([word]).indices[-1]: [word, known[word]] for word in ["good", "bad", "film", "so"]}
    told = {one["column"]: one.get("words") for one in found["features"]}
    assert {place: told[place] for place in fall} == {place: [pair] for place, pair in fall.items()}
    assert 0 not in told or told[0] is None  # the stars
    assert main(command) == 0
    out = capsys.readouterr().out
    assert f"column {1 + hashing.transform(['bad']).indices[0]}: bad (16)\n" in out and "--words TABLE" not in out


def test_info_and_report_say_how_words_are_named(tmp_path, capsys):
    table = pd.DataFrame({"review": ["good", "so bad"] * 5, "y": [0, 1] * 5})
    for text, times in (("review", 1), (None, 0)):
        sm.train(table, y="y", text=text, tol=0.5).model.save(tmp_path / "m.npz", force=True)
        assert main(["info", str(tmp_path / "m.npz"), "--top", "2"]) == 0
        assert capsys.readouterr().out.count("--words TABLE names the words") == times
        assert main(["report", str(tmp_path / "m.npz"), "-o", str(tmp_path / "r.html"), "--force"]) == 0
        assert (tmp_path / "r.html").read_text().count("--words TABLE names the words") == times


def test_a_report_names_the_words_of_the_rows_that_it_judges(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"review": ["good", "so bad"] * 5, "y": [0, 1] * 5}).to_csv("t.csv", index=False)
    made = ["train", "t.csv", "--text", "review", "-o", "m.npz", "--tol", "0.5", "--report", "own.html"]
    assert main(made) == main(["report", "m.npz", "--test", "t.csv", "-o", "r.html"]) == 0
    for page in ("own.html", "r.html"):
        told = Path(page).read_text()
        assert "<title>bad</title>" in told and "<title>column " not in told
        assert "the words of t.csv" in told and "--words TABLE" not in told


@pytest.mark.parametrize(
    "text, more, message",
    [("review", ["--words", "t.csv"], "give --top, too"),
     ("review", ["--words", "y.csv", "--top", "1"], "y.csv has no column review, which the model hashes; it has y"),
     (None, ["--words", "t.csv", "--top", "1"], "--words is for a model that was trained with --text")],
)  # fmt: skip
def test_words_are_refused_without_columns_to_name(tmp_path, monkeypatch, capsys, text, more, message):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"review": ["good", "so bad"] * 5, "y": [0, 1] * 5})
    table.to_csv("t.csv", index=False)
    table[["y"]].to_csv("y.csv", index=False)
    sm.train("t.csv", y="y", text=text, tol=0.5).model.save("m.npz")
    assert main(["info", "m.npz", *more]) != 0
    assert message in capsys.readouterr().err
