"""Things carry their numbers: words, objects, and what is said of those that are none."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from reference.datasets import noisy

import streammargin as sm
from streammargin import losses, penalties, solvers
from streammargin.cli import train as command
from streammargin.cli.main import main
from streammargin.cli.options import Parser
from streammargin.errors import UsageError
from streammargin.kinds import Number, YesNo
from streammargin.options.costs import FAMILY as PATHS
from streammargin.options.others import INSTEAD
from streammargin.options.table import TABLE, Options
from streammargin.words import Family, Thing, entry, needed

FAMILIES = (losses.FAMILY, penalties.FAMILY, PATHS, solvers.FAMILY)
WORDS = [(family, cls) for family in FAMILIES for cls in family.classes.values()]
GIVEN = {"groups": "a,b=1.txt", "values": 5}  # of fields without a default


def example(cls):
    return cls(**{name: value for name, value in GIVEN.items() if name in {line.name for line in cls.entries()}})


@pytest.mark.parametrize("family, cls", WORDS, ids=lambda value: getattr(value, "name", ""))
def test_a_word_is_its_object_and_the_object_its_word(family, cls):
    one = example(cls)
    word = str(one)
    assert family.of(word) == one.checked() == family.of(one) and str(family.of(word)) == word
    assert not set(" ()^*|") & set(word) and bool(one)
    assert family.of(cls.name if one == cls else word) == one.checked()
    assert inspect.getdoc(cls) and cls.__name__.lower() == re.sub("[_-]", "", cls.name)
    for line in cls.entries():
        assert f"{line.name} : " in cls.__doc__
        if line.name not in GIVEN and line.default is not None:  # the canonical word names all fields
            given = line.default
            told = line.name if given is True else "no" if given is False else given
            assert (told if isinstance(told, str) else f"{told:g}") in word


def test_words_that_are_one():
    for word in ("quantile", "quantile:0.5", "quantile:quantile=0.50", "quantile:quantile=5e-1"):
        assert str(losses.FAMILY.of(word)) == "quantile:0.5"
    assert losses.FAMILY.of("hinge:top=3") == losses.Hinge(top=3) == losses.Hinge(top=np.float64(3.0))
    assert str(losses.SmoothHinge(1, top=2.5)) == "smooth_hinge:1,top=2.5"
    assert losses.Huber(1e-7).checked() == losses.FAMILY.of(str(losses.Huber(1e-7)))


def test_objects_are_equal_only_if_their_classes_are():
    assert losses.Hinge() != losses.Logistic() and losses.Huber(0.5) != losses.Quantile(0.5)
    assert losses.Huber(1) == losses.Huber(1.0) != losses.Huber(2)
    groups = np.array([0, 1])
    assert penalties.Group(groups) == penalties.Group(groups.copy()) != penalties.Group([1, 0])
    assert len({bool(cls()) for cls in losses.LOSSES.values()} | {True}) == 1


def test_a_comma_ends_a_value_only_before_a_field(monkeypatch, tmp_path):
    word = penalties.FAMILY.of("group:a,b.txt,c=1.txt,l1_ratio=.25")
    assert (word.groups, word.l1_ratio) == ("a,b.txt,c=1.txt", 0.25)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert penalties.FAMILY.of("exclusive:~/g.txt").groups == str(tmp_path / "g.txt")
    assert penalties.FAMILY.of("group:l1_ratio=0.5,groups=x").groups == "x"


@pytest.mark.parametrize("family, word, told", [
    (0, "quantile:2",
        "the parameter quantile of quantile must be a number between 0 and 1, not 2.0; quantile has quantile"),
    (0, "quantile:0.5,quantile=0.6",
        r"given twice; quantile has quantile \(default 0.5\), top \(default none\), as in loss=\"quantile:0.5\""),
    (0, "quantile:0.9,0.8", "'0.9,0.8' is not a number"), (0, "quantile:", "'' is not a number"),
    (0, "quantile:rate=3", "quantile has no parameter 'rate'; quantile has quantile"),
    (0, "hinge:3", r"hinge has no parameter '3'; hinge has top \(default none\), as in loss=\"hinge:top=ROWS\""),
    (0, "interpolate:top=3", "interpolate has no parameter 'top'; interpolate has epsilon"),
    (0, "squared_error:top=3", "squared_error has no parameter 'top'; squared_error has no parameters"),
    (0, "hindge", "unknown loss 'hindge'; did you mean loss=\"hinge\""),
    (0, "huber,0.5", "unknown loss 'huber,0.5'; did you mean loss=\"huber:0.5\""),
    (0, "log_loss", "did you mean loss=\"logistic\""), (0, "mse", "did you mean loss=\"squared_error\""),
    (1, "elastic_net", "did you mean penalty=\"elasticnet\""), (1, "ridge", "did you mean penalty=\"l2\""),
    (1, "none", "did you mean penalty=\"l2\" with a large C=1e4"), (1, None, "did you mean penalty=\"l2\" with a"),
    (1, "group",
        "group needs groups; group has groups .must be given., l1_ratio .default 1., power .default none., as in"),
    (1, "linf:0.5", "linf has no parameter '0.5'; linf has power .default none., as in penalty="),
    (2, "path", "path needs values; path has values .must be given., low .default none., high"),
    (2, "path:1", "the parameter values of path must be a whole number and at least 2, not 1"),
    (2, "path:5,step=2", "path has no parameter 'step'; path has"),
])  # fmt: skip
def test_what_is_no_word_is_told_with_fields_defaults_and_an_example(family, word, told):
    with pytest.raises(UsageError, match=told):
        FAMILIES[family].of(word)


class Switched(Thing):
    """A thing with a yes or no."""

    average: bool = entry(False, YesNo(), "of the iterates")
    rate: float = entry(1.0, Number("a positive number", lambda value: value > 0.0), "of it", kw_only=True)


def test_a_yes_or_no_is_its_name():
    family = Family("solver", "solvers", Switched, {"switched": Switched})
    assert family.of("switched:average") == family.of("switched:average=yes") == Switched(True)
    assert str(Switched(True, rate=3)) == "switched:average,rate=3" and str(Switched()) == "switched:average=no,rate=1"
    assert family.of(str(Switched(True))) == Switched(True)
    with pytest.raises(UsageError, match=r"'average,3'; switched has average .default no., rate .default 1., as in"):
        family.of("switched:average,3")


def test_a_field_without_a_default_comes_first_and_must_be_given():
    class Rated(Thing):
        rate: float = needed(Number(), "of it")

    with pytest.raises(UsageError, match="rated needs rate; rated has rate"):
        Family("solver", "solvers", Rated, {"rated": Rated}).of("rated")


def test_the_same_in_the_shell_and_in_python(tmp_path, blobs_file):
    word, told = "quantile:0.9", []
    X, _ = noisy()
    assert (
        main(["train", str(blobs_file), "--loss", "smooth_hinge:0.5", "-C", "0.3", "-o", str(tmp_path / "m.npz")]) == 0
    )
    model = sm.load_model(tmp_path / "m.npz")
    assert model.header["loss"] == "smooth_hinge:0.5" and model.header["penalty"] == "l2" and model.header["C"] == 0.3
    for loss in (word, losses.Quantile(0.9), losses.Quantile(quantile=np.float64(0.9))):
        told.append(sm.train((X, X[:, 0]), loss=loss, passes=20).model)
    assert {one.header["loss"] for one in told} == {word}
    assert len({one.coef_.tobytes() for one in told}) == 1


def test_things_are_neither_changed_nor_shared_by_a_training():
    loss = losses.Quantile(1 / 2)
    sm.train(*noisy(), loss=losses.SmoothHinge(width=1), passes=2)
    assert loss.get_params() == {"quantile": 0.5, "top": None}


@pytest.mark.parametrize("name", sorted({*INSTEAD} - {"l1", "l2", "lambda"}))
def test_options_of_before_and_of_peers_name_ours(name, capsys, tmp_path):
    known = {line.name for line in TABLE}
    assert name not in known
    if name.startswith("no_"):
        return
    flag = name
    if not name.startswith("-"):
        with pytest.raises(UsageError, match=f"there is no {name} here(; give |: )"):
            sm.train(*noisy(), **{name: 1})
        flag = f"--{name.replace('_', '-')}"
    assert main(["train", str(tmp_path / "a.h5"), flag, "1"]) == 2
    assert re.search(f"there is no {flag} here(; give |: )", capsys.readouterr().err)


@pytest.mark.parametrize("given, told", [
    (["-s", "2"], "there is no -s here; give --loss: logistic for LIBLINEAR's 0 and 7, squared_hinge for 1 and 2"),
    (["-w1", "2"], "there is no -w1 here; give --class-weight"),
    (["--n-jobs=2"], "there is no --n-jobs here; give --threads"),
    (["-w-1", "2"], "there is no -w-1 here; give --class-weight"), (["-v", "5"], "-v takes no number here; to"),
    (["-B", "-1"], "must be 0 for none"),
    (["-solver", "ascent"], "did you mean --solver?"),
])  # fmt: skip
def test_letters_of_peers_and_misspelt_flags_are_told_apart(given, told, capsys):
    assert main(["train", "a.h5", *given]) == 2
    assert told in capsys.readouterr().err


def test_the_front_door_is_small(capsys):
    parameters = inspect.signature(sm.train).parameters
    assert len(parameters) - 3 <= 43  # nine of them are about the columns of tables, and table takes them as one
    assert "locals()" not in inspect.getsource(inspect.getmodule(inspect.unwrap(sm.train)))
    assert main(["train", "--help"]) == 0
    short = capsys.readouterr().out
    assert main(["train", "--help", "all"]) == 0
    everything = capsys.readouterr().out
    assert len(short.splitlines()) <= 50 and all(len(line) <= 120 for line in short.splitlines())
    assert "--log-json" in everything and "--log-json" not in short and "--loss" in short
    assert "help all" in short and "help all" not in everything and "of DATA" in short
    for line in TABLE:
        if line.common:
            phrase = re.split("[;(]", line.help)[0].strip()
            assert phrase in short and phrase.count(" ") >= 1, f"the line of {line.name} is cut"
    assert "larger fits harder" in short


@pytest.mark.parametrize("verb, name, told", [
    ("losses", "quantile", ["quantile : default 0.5", "--loss quantile:0.5", "solvers that take it: ascent, newton"]),
    ("losses", None, ["smooth_hinge:width,top", "interpolate:epsilon"]),
    ("penalties", "group",
     ["groups : must be given", "group:FILE", "solvers that take it: ascent, newton, pdprox, sdca, prox-newton"]),
    ("penalties", None, ["elasticnet:l1_ratio", "lp:p"]), ("solvers", None, ["recommended:", "streams:"]),
    ("solvers", "pdprox", ["algorithm : default none", "--solver pdprox:primal", "takes a finite C", "top of a loss"]),
    ("penalties", "lp", ["solvers that take it: ascent, mirror, perceptron, sdca, asdca\n"]),
    ("solvers", "factors", ["for `streammargin complete`: a finite C, and the losses absolute_error, squared_error"]),
    ("solvers", "gd", ["gd takes C = inf; the losses exponential, logistic; the penalties l2; "]),
    ("solvers", "sdca", ["ascent: ", "sdca, which is ascent:momentum=no, takes any C; the losses "]),
])  # fmt: skip
def test_what_there_is_can_be_asked_for(verb, name, told, capsys):
    assert main([verb, *([name] if name else [])]) == 0
    out = capsys.readouterr().out
    assert all(text in out for text in told), out
    assert main([verb, "cake"]) == 2 and "unknown" in capsys.readouterr().err


@pytest.mark.parametrize("option, word, meant", [
    ("solver", "SDCA", 'did you mean solver="sdca"?'), ("loss", "log_los", 'did you mean loss="logistic"?'),
    ("penalty", "elasticnet:alpha=3", "elasticnet has no parameter 'alpha'; elasticnet has l1_ratio"),
])  # fmt: skip
def test_a_slip_of_the_pen_is_named(option, word, meant):
    with pytest.raises(UsageError, match=re.escape(meant)):
        sm.train(*noisy(), **{option: word})


def test_words_of_ours_ask_no_packages():
    code = (
        "import sys\nfrom importlib import metadata\n"
        "all_of = metadata.entry_points\n"
        "def asked(**g): return sys.exit('asked') if 'streammargin' in g.get('group', '') else all_of(**g)\n"
        "metadata.entry_points = asked\n"
        "import streammargin as sm\n"
        "sm.train(([[1.0], [2.0], [-1.0]], [1, 1, -1]), loss='hinge:top=2', penalty='l1', solver='pdprox', passes=1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("K, weighted", [(1, False), (3, False)])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smooth_hinge:0.5", "logistic"])
def test_evaluate_counts_the_largest_losses_alone(loss, K, weighted):
    """R(w) + C n times what evaluate calls the loss is what was certified; of the hinge the sum of the largest."""
    X, y = noisy()
    y = y if K == 1 else np.arange(len(y)) % K
    word = loss + (",top=9.5" if ":" in loss else ":top=9.5")
    result = sm.train((X, y), loss=word, solver="pdprox", bias=0, C=0.7, tol=1e-6, passes=3000)
    figures = result.model.evaluate((X, y))
    of_w = 0.5 * float((result.model.coef_**2).sum())
    assert result.certificate.dual * (1 - 1e-12) <= of_w + 0.7 * len(y) * figures["loss"]
    assert of_w + 0.7 * len(y) * figures["loss"] <= result.certificate.primal * (1 + 1e-12)
    if loss == "hinge" and K == 1:
        u = np.where(y == result.model.classes_[1], 1.0, -1.0) * result.model.decision_function(X)
        largest = np.sort(np.maximum(1.0 - u, 0.0))[::-1]
        assert figures["loss"] * len(y) == pytest.approx(largest[:9].sum() + 0.5 * largest[9], rel=1e-9)
        plain = result.model.evaluate((X, y), loss="hinge")["loss"]
        assert figures["loss"] < plain == pytest.approx(largest.mean())


def test_short_words_stand_for_a_solver_with_fields():
    family = solvers.FAMILY
    assert family.of("sdca") == family.of("ascent:momentum=no") == solvers.Ascent(momentum="no") != family.of("ascent")
    assert str(family.of("asdca")) == "ascent:momentum=yes,order=permutation"
    assert family.of("prox-newton") == solvers.Newton()
    with pytest.raises(UsageError, match=r"sdca stands for solver=\"ascent:momentum=no\"; give its parameters there"):
        family.of("sdca:momentum=yes")
    with pytest.raises(UsageError, match=r"must be auto, yes or no, not 'maybe'; ascent has momentum .default auto."):
        family.of("ascent:momentum=maybe")
    for word, ours in (("liblinear", "ascent"), ("lbfgs", "newton"), ("active_set", "active-set"), ("asdc", "asdca")):
        with pytest.raises(UsageError, match=f'did you mean solver="{ours}"'):
            family.of(word)


@pytest.mark.parametrize("file", ["diagonal", "normalized_gd"])
def test_a_solver_is_found_by_the_name_of_its_file(file):
    """No table has its word: a file is all there is to add."""
    room = Path(solvers.__file__).parent
    word = file.replace("_", "-")
    text = (room / "papers" / f"{file}.py").read_text()
    assert f'name = "{word}"' in text and word in solvers.names()
    for path in (room / "registry.py", room / "auto.py", room / "__init__.py"):
        assert f'"{word}"' not in path.read_text()


def test_solvers_as_words_and_as_objects_are_one_job(tmp_path):
    told, X, y = [], *noisy()
    for solver in ("pegasos:average", solvers.Pegasos(True), solvers.Pegasos(average=np.True_)):
        events = []
        result = sm.train((X, y), solver=solver, passes=5, checkpoint=str(tmp_path), listeners=[events.append])
        told.append((result.model.header["solver"], result.model.coef_.tobytes()))
        assert result.history[0]["params"]["solver"] == "pegasos:average"
    assert len(set(told)) == 1 and told[0][0] == "pegasos:average"


@pytest.mark.parametrize("name, value", [("average", True), ("schedule", "1/t"), ("stochastic", True)])
def test_options_that_solvers_carry_name_the_word(name, value, capsys):
    X, y = noisy()
    for call in (lambda **g: sm.train((X, y), **g), lambda **g: sm.train(iter([(X, y)]), **g)):
        with pytest.raises(UsageError, match=f'there is no {name} here; give solver="'):
            call(**{name: value})
    for flag in (f"--{name}", f"--no-{name}"):
        assert main(["train", "none.h5", flag]) == 2
        expected = "give --solver " if flag != "--no-schedule" else "unrecognized"
        assert expected in capsys.readouterr().err


def test_no_more_flags_than_fit_a_screen():
    parser = Parser()
    command.add_options(parser)
    flags = [action for action in parser._actions if action.option_strings]
    assert len(flags) <= 51  # nine of them are about the columns of tables, two write a page and a table


def test_every_solver_says_its_algorithm_and_its_source():
    for word, cls in solvers.FAMILY.classes.items():
        text = inspect.getdoc(cls).partition("\n\nParameters\n")[0]
        assert 3 <= len(text.splitlines()) <= 14 and len(text.splitlines()[0]) <= 110, word
        assert word == "auto" or "\nSource: " in text, word


def test_options_are_typed_from_the_table_to_the_reader():
    root = Path(sm.__file__).parent
    files = [root / "options" / "table.py", root / "options" / "costs.py", root / "api.py", root / "cli" / "train.py"]
    for path in [*files, *(root / "training").glob("*.py")]:
        names = [node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)]
        assert not {"Any", "locals"} & set(names), path
    with pytest.raises(TypeError, match="there is no option cake"):
        Options.of({"cake": 1})
    assert Options.of({"solver": "sdca", "tol": 0.1}) == Options(solver=solvers.Ascent(momentum="no"), tol=0.1)
