"""Messages spell options as flags in the shell and as keywords in Python."""

import ast
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

import streammargin as sm
from streammargin.cli.main import main
from streammargin.options.table import TABLE
from streammargin.wording import in_python, in_shell, shown

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
    ("`classes=[...]`", "--classes [...]", "classes=[...]"),
    ("use `separator=;`", "use --separator ';'", 'use separator=";"'),
    ("a `b c` and 5 `", "a `b c` and 5 `", "a `b c` and 5 `"),
])  # fmt: skip
def test_both_doors(text, shell, python):
    assert in_shell(text) == shell and in_python(text) == python


@pytest.mark.parametrize("value, text", [
    (np.float64(0.0), "0.0"), ([np.float32(0.5), "a", None], "[0.5, 'a', None]"), ((np.int8(3),), "(3,)"),
    (np.array(2.5), "2.5"), (np.str_("up"), "'up'"), (np.array([1.0, 2.0]), "array([1., 2.])"),
])  # fmt: skip
def test_numbers_of_numpy_are_shown_as_numbers(value, text):
    assert shown(value) == text


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


COMMANDS = ("cli", "data_tools")  # these write flags; installed, both lie in the package
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
