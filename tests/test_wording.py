"""Messages spell options as flags in the shell and as keywords in Python."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import streammargin as sm
from streammargin.cli.main import main
from streammargin.options.table import TABLE
from streammargin.wording import LONGEST_SHOWN_TEXT, in_python, in_shell, one_line, short, shown

ROOT = Path(sm.__file__).parent
# of `save`, of predictions, of `write_hdf5` and `convert`, and of calls
KNOWN = {line.name for line in TABLE} | {"force", "missing_columns", "dtype", "verbose", "unknown", "id"}
KNOWN |= {"label", "like", "features", "separator", "zero_based", "format"}  # of `convert`, and rules of its input


@pytest.mark.parametrize("text, shell, python", [
    ("lower `tol`", "lower --tol", "lower tol"),
    ("raise `max_seconds`", "raise --max-seconds", "raise max_seconds"),
    ("use `scale=maxabs`", "use --scale maxabs", 'use scale="maxabs"'),
    ("use `C=inf`, `seed=2` or `bias=0`", "use --C inf, --seed 2 or --bias 0", "use C=math.inf, seed=2 or bias=0"),
    ("`force=True`, `average=False`", "--force, --no-average", "force=True, average=False"),
    ("use `dates=True` `drop=a b`", "use --dates --drop 'a b'", 'use dates=True, drop="a b"'),
    ("`classes=[...]`", "--classes [...]", "classes=[...]"),
    ("use `separator=;`", "use --separator ';'", 'use separator=";"'),
    ("a `b c` and 5 `", "a `b c` and 5 `", "a `b c` and 5 `"),
])  # fmt: skip
def test_both_doors(text, shell, python):
    assert in_shell(text) == shell and in_python(text) == python


@pytest.mark.parametrize("value, text", [
    (np.float64(0.0), "0.0"), ([np.float32(0.5), "a", None], "[0.5, 'a', None]"), ((np.int8(3),), "(3,)"),
    (np.array(2.5), "2.5"), (np.str_("up"), "'up'"), (np.array([1.0, 2.0]), "an array of shape (2,)"),
])  # fmt: skip
def test_numbers_of_numpy_are_shown_as_numbers(value, text):
    assert shown(value) == text


@pytest.mark.parametrize("value", [
    np.arange(3), [np.arange(3)], {"a": (1, np.arange(3))}, np.ma.array([1, 2], mask=[0, 1]), sp.csr_matrix(np.eye(2)),
    sm.penalties.Group(np.arange(3)), pd.Series([1, 2]), pd.DataFrame({"a": [1]}), SimpleNamespace(x=np.arange(2)),
    np.array({"a": np.arange(2)}, object), [pd.array([1, None])],
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_an_array_is_never_printed(value):
    found = shown(value)
    assert "array(" not in found and "0, 1" not in found and "[" not in found.strip("[]") and "\\n" not in found
    with pytest.raises(sm.UsageError) as error:
        sm.train((np.eye(2), [0, 1]), loss=value)
    assert "array(" not in str(error.value) and str(error.value).endswith(found)


@pytest.mark.parametrize("name", ["a" * 60, "a" * 61, "a" * 10000, "\n" * 100, "", 7.5, np.str_("up"), "\u2028" * 61])
def test_labels_and_words_are_cut_at_60_characters(name):
    found, whole = short(name), one_line(str(name))
    assert len(found) <= LONGEST_SHOWN_TEXT + 3 and found.isprintable() and LONGEST_SHOWN_TEXT == 60
    assert found == (whole or "''") if len(whole) <= 60 else found == whole[:60] + "..."
    assert len(shown(name)) <= LONGEST_SHOWN_TEXT + 3


LONG = "long" * 100
CUT = LONG[:59]


def labelled(labels, **others):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=len(labels)), "y": labels, **others})


def test_labels_with_commas_are_in_quotes_in_lists(tmp_path, capsys):
    model = sm.train(labelled(["Paris, France", "Rome", "Oslo"] * 9), y="y").model
    model.save(path := tmp_path / "m.npz")
    hint = "correct the label, or leave such rows out"
    with pytest.raises(sm.DataError, match=rf'its labels are Oslo, "Paris, France", Rome; {hint}$'):
        model.evaluate(labelled(["Bern"]))
    assert main(["info", str(path)]) == 0 == main(["report", str(path), "-o", str(tmp_path / "m.html")])
    assert 'Oslo, "Paris, France", Rome\n' in capsys.readouterr().out
    assert "Oslo, &quot;Paris, France&quot;, Rome<" in (tmp_path / "m.html").read_text()
    labelled(["Paris, France", "Paris,  FRANCE", "Washington, District of Columbia"] * 9).to_csv(tmp_path / "t.csv")
    assert main(["train", str(tmp_path / "t.csv"), "--drop", "Unnamed: 0", "-o", str(path), "--force", "--report",
                 str(tmp_path / "w.html"), "--spool", str(tmp_path)]) == 0  # fmt: skip
    assert "alone: 'Paris,  FRANCE' and 'Paris, France'; spell" in capsys.readouterr().err
    assert "&quot;Washington, Distric…&quot;<" in (tmp_path / "w.html").read_text()
    assert main(["info", str(tmp_path / "t.csv.rows.h5")]) == 0
    assert '"Paris, France": 9, "Washington, District of Columbia": 9\n' in capsys.readouterr().out


def test_columns_with_commas_are_in_quotes_in_lists(caplog):
    frame = labelled([0, 1] * 9, **{"at, in": ["b", "c"] * 9, "d, e": 2.0})
    model = sm.train(frame, y="y", passes=1).model
    with pytest.raises(sm.DataError, match=r'lacks 2 columns .*: "at, in", "d, e"; it has a, y;'):
        model.predict(frame[["a", "y"]])
    model.predict(frame.assign(**{"at, in": "z"}), unknown="zero")
    assert 'unknown categories count as zeros: "at, in" (18)' in caplog.text
    with pytest.raises(sm.DataError, match=r"the columns \'at, in\', \'d, e\' hold neither"):
        sm.train((frame[["at, in", "d, e"]].astype("string"), frame["y"]))
    gaps = frame.assign(**{"at, in": None, "d, e": [None, 1.0] * 9, "a": [None, 1.0] * 9})
    with pytest.raises(sm.DataError, match=r'the first in row 0: a \(9\), "d, e" \(9\)'):
        sm.train(gaps.drop(columns="at, in"), y="y")


@pytest.mark.parametrize("call, words", [
    (lambda: sm.train(labelled([LONG] * 6), y="y"), "the label"),
    (lambda: sm.train(labelled([LONG + "1", LONG] * 3), y="y", classes=["b", "c"]), "its labels are"),
    (lambda: sm.train(labelled(["b", LONG] * 3), y="y", classes=[LONG + "x", "b"]), "there is no label"),
    (lambda: sm.train(labelled(["b", LONG] * 3), y="y", classes=[LONG]), "must name at least two labels"),
    (lambda: sm.train(labelled([1.0, 2.0] * 3), y="y", loss=LONG), "unknown loss"),
    (lambda: sm.train(labelled([1, 0] * 3), y=LONG), "has no column"),
    (lambda: sm.train(labelled([1, 0] * 3, **{LONG: [np.inf] * 6}), y="y"), "the value is infinite"),
    (lambda: sm.train(labelled([1, 0] * 3, **{LONG: ["b", None] * 3}), y="y"), "the value is missing"),
    (lambda: sm.train(labelled([1, 0] * 3, w=["1", "2", "3", LONG, "4", "5"]), y="y"), "is not a finite number"),
    (lambda: sm.train(labelled([1, 0] * 3, t=["z", LONG] * 3), y="y", tasks="t"), "the task"),
    (lambda: sm.train(labelled(["b", "c"] * 3), y="y").model.predict(labelled(["b"] * 6).rename(columns={"a": LONG})),
     "lacks 1 column"),
    (lambda: sm.train(labelled(["b", "c"] * 3), y="y").model.evaluate(labelled([LONG] * 6), y="y"), "unknown to the"),
    (lambda: sm.train(labelled([1, 0] * 3, w=["b", "c"] * 3), y="y").model.predict(labelled([1] * 2, w=[LONG, "b"])),
     "unknown category"),
    (lambda: sm.complete(pd.DataFrame({"u": [LONG, LONG], "i": ["1", "1"], "r": [1, 2]})), "is there twice"),
    (lambda: sm.complete(pd.DataFrame({"u": [1, 2], "i": [1, 2], "r": [1, 2]}), columns=[LONG, "i"]), "has no column"),
])  # fmt: skip
def test_messages_cut_long_labels_and_words(call, words):
    with pytest.raises(sm.StreamMarginError) as error:
        call()
    said = re.sub(r'(?<=drop=")[^"]+', "", str(error.value))  # a command is whole, as the next test says
    assert words in said and CUT[:50] in said and LONG[:64] not in said, said


@pytest.mark.parametrize("value", [np.inf, None])
def test_the_option_that_leaves_a_column_out_is_whole(value):
    frame = labelled([1, 0] * 3, b=np.arange(6.0), **{LONG: [1.5, value] * 3})
    with pytest.raises(sm.DataError) as error:
        sm.train(frame, y="y")
    assert sm.train(
        frame, y="y", drop=re.findall(r'drop="([^"]+)"', str(error.value))[0]
    ).model.feature_names_in_.tolist() == ["a", "b"]


def test_warnings_cut_long_labels(caplog):
    y = np.array(["b"] * 40 + [LONG], object)
    sm.train((np.random.default_rng(1).normal(size=(41, 2)), y), C=1e-3)
    assert "never predicted" in caplog.text and CUT in caplog.text and LONG[:64] not in caplog.text


def test_so_they_are_in_messages():
    with pytest.raises(ValueError, match=r"one class only, 0\.0$"):
        sm.MarginClassifier().fit(np.eye(3), np.zeros(3))
    with pytest.raises(sm.UsageError, match=r"multiclass must be .* not 0\.0$"):
        sm.train(np.eye(3), [0, 1, 1], multiclass=np.float64(0.0))


def texts(path):
    """(line, text) of every string in a file that is no docstring; what is filled in later is x."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    silent = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and isinstance(node.body[0], ast.Expr)
    }
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {
        id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in inside:
            yield node.lineno, "".join(p.value if isinstance(p, ast.Constant) else "x" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (silent | inside):
            yield node.lineno, node.value


COMMANDS = ("cli", "data_tools", "report")  # these write flags to type; installed, all lie in the package
LIBRARY = [path for path in ROOT.rglob("*.py") if path.parent.name not in COMMANDS and path.name != "wording.py"]


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_library_never_writes_flags_and_marks_known_options_only(path):
    for line, text in texts(path):
        spelled = re.sub(r"streammargin-data convert[^;]*", "", text)  # a command to type, whatever one came from
        assert not re.search(r"(?<![\w-])--[a-z]", spelled), f"{path}:{line}: {text}"
        for name in re.findall(r"`([A-Za-z]\w*)(?:=[^`]*)?`", text):
            assert name in KNOWN, f"{path}:{line}: {text}"


def test_the_scan_sees_flags_and_marks(tmp_path):
    (tmp_path / "a.py").write_text('"""--doc"""\nf"use --tol {1}" + "and --x"\ng("`tol` is")\n')
    assert [text for _, text in texts(tmp_path / "a.py")] == ["use --tol x", "and --x", "`tol` is"]


def test_one_error_at_both_doors(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with h5py.File("a.h5", "w") as file:
        file["data"] = np.ones((3, 2))
    with pytest.raises(sm.DataError, match='name the rows with x="NAME"') as caught:
        sm.train("a.h5")
    assert "--" not in str(caught.value)
    assert main(["train", "a.h5"]) == 65
    assert "name the rows with --x NAME" in capsys.readouterr().err
    (tmp_path / "m.npz").touch()
    model = sm.train(np.eye(2), [1, -1]).model
    with pytest.raises(sm.OutputError, match="use force=True to replace it"):
        model.save("m.npz")
