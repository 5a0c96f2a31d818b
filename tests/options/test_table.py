"""One table of options: the call, the command line, the estimators and streams agree with it."""

import inspect
import math

import numpy as np
import pytest

import streammargin as sm
from streammargin.cli import train as command
from streammargin.cli.options import Parser
from streammargin.errors import UsageError
from streammargin.options.table import TABLE, Options, Where, options_for
from streammargin.wording import in_python, in_shell

HOOKS = {"data", "table", "verbose", "listeners", "should_stop"}  # of a call alone
FILES = {"help", "data", "dask", "output", "coef", "report", "log_json", "require_convergence", "force", "quiet",
         "verbose", "debug"}  # fmt: skip
ESTIMATORS = [(sm.MarginClassifier, Where.CLASSIFIER), (sm.MarginRegressor, Where.REGRESSOR),
              (sm.InterpolatingRegressor, Where.INTERPOLATOR)]  # fmt: skip


def test_the_signature_of_train_spells_the_table():
    given = {p.name: (p.annotation, p.default) for p in inspect.signature(sm.train).parameters.values()}
    assert set(given) == {line.name for line in TABLE} | HOOKS
    assert {line.name: (line.type, line.default) for line in TABLE} == {
        name: both for name, both in given.items() if name not in HOOKS
    }


def test_one_mapping_takes_the_options_about_columns():
    rows, drawn = {"a": [1.0, 2.0, None, 4.0] * 10, "id": list(range(40)), "y": ["no", "yes"] * 20}, {"y": "y"}
    frame = pytest.importorskip("pandas").DataFrame(rows)
    asked = {"missing": "mean", "drop": "id"}
    one, other = sm.train(frame, **drawn, **asked).model, sm.train(frame, **drawn, table=asked).model
    assert one.coef_.tobytes() == other.coef_.tobytes() and list(other.feature_names_in_) == ["a"]
    for given, told in [
        ({"table": {"tol": 1e-3}}, "table has no option 'tol'; its options are columns, drop, "),
        ({"table": "missing"}, "table must be"),
        ({"table": {"missing": "mean"}, "missing": "zero"}, "`?missing`? is given by itself and in table"),
        ({"table": {"missing": "median"}}, "missing"),
    ]:  # fmt: skip
        with pytest.raises(UsageError, match=told):
            sm.train(frame, **drawn, **given)


def test_the_command_line_has_every_option_that_makes_sense_there():
    parser = Parser()
    command.add_options(parser)
    actions = {action.dest: action for action in parser._actions}
    assert set(actions) == {line.name for line in options_for(Where.SHELL)} | FILES
    for line in options_for(Where.SHELL):
        action = actions[line.name]
        assert action.default == line.default
        assert f"--{line.name.replace('_', '-')}" in action.option_strings
        assert set(line.short) <= set(action.option_strings)
        assert in_shell(line.help) in action.help.replace("%%", "%")  # as argparse will
    defaults = parser.parse_args(["a.h5"])
    Options(**{line.name: getattr(defaults, line.name) for line in options_for(Where.SHELL)})


@pytest.mark.parametrize("estimator, place", ESTIMATORS, ids=lambda value: getattr(value, "__name__", ""))
def test_the_estimators_have_every_option_that_makes_sense_for_them(estimator, place):
    expected = {line.name: line.default for line in options_for(place)}
    own = {line.name: line.default for line in estimator.own}
    known = {**expected, **own, "fit_intercept": True, "random_state": 0, "n_jobs": None, "verbose": False,
             "transforms": None}  # fmt: skip
    assert estimator().get_params(deep=False) == known
    for name in known:
        assert f"\n{name} : " in estimator.__doc__
    with pytest.raises(TypeError, match="margin"):
        estimator(margin=1)


def test_the_classifier_takes_C_by_position():
    assert sm.MarginClassifier(2.0).C == 2.0
    with pytest.raises(TypeError, match="positional"):
        sm.MarginClassifier(2.0, "asdca")


def test_the_help_of_train_describes_every_option():
    for line in TABLE:
        assert f"\n{line.name} : {line.type}, default {line.default!r}\n" in sm.train.__doc__
    assert "{options}" not in sm.train.__doc__ and "`" not in in_python("".join(x.help for x in TABLE))


@pytest.mark.parametrize("line", TABLE, ids=lambda line: line.name)
def test_what_a_stream_refuses_is_what_the_table_says(line):
    wrong = {"tol": 0.5, "passes": 3, "early_stop": 2, "scale": "std", "x": "X", "y": "y", "sample_weight": "s",
             "mask": "o=1", "valid": "v.h5", "init": "m.npz", "checkpoint": "folder", "checkpoint_seconds": 5,
             "columns": "a", "drop": "a", "categorical": "a", "text": "a", "decimal": "comma", "dates": True,
             "missing": "mean", "unknown": "zero",
             "kernel": "rbf", "map": "rff:4", "transform": "unit", "tasks": "t", "cv": 5,
             "calibrate": "sigmoid"}  # fmt: skip
    rows = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1, -1])
    assert (line.name in wrong) == (Where.STREAM not in line.where)
    if line.name in wrong:
        with pytest.raises(UsageError, match=f"^{line.name} cannot be used with a stream"):
            sm.train([rows], solver="perceptron", **{line.name: wrong[line.name]})


def test_labels_by_position_and_by_name():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = np.sign(X[:, 0] + 0.1)
    pair = sm.train((X, y)).model
    for other in (sm.train(X, y), sm.train(X, y=y)):
        np.testing.assert_array_equal(other.model.coef_, pair.coef_)


def test_several_costs_as_a_list_of_floats():
    assert Options(C=np.array([1, 2]), valid="v.h5").costs == [1.0, 2.0] and Options(C=math.inf).hard
    with pytest.raises(UsageError, match=r"^C = inf cannot be mixed"):
        Options(C=[1, math.inf], valid="v.h5")


@pytest.mark.parametrize("given, costs", [
    ("inf", [math.inf]), ("Inf", [math.inf]), (np.str_("inf"), [math.inf]), (["inf"], [math.inf]), ("0.5", [0.5]),
    ("1,10", [1.0, 10.0]), (["1", 2], [1.0, 2.0]), (math.inf, [math.inf]),
])  # fmt: skip
def test_C_is_read_in_python_as_in_the_shell(given, costs):
    assert Options(C=given, valid=None if len(costs) == 1 else "valid.h5").costs == costs


@pytest.mark.parametrize("given", ["", "none", "nan", "1,", "1,b", "-inf", "0", b"inf", ["inf", 1.0], [[1.0]], "1,inf"])
def test_other_texts_of_C_are_refused(given):
    with pytest.raises(sm.UsageError) as error:
        Options(C=given, valid="valid.h5")
    assert "array" not in str(error.value)


def test_C_as_a_text_is_the_hard_margin_of_every_door():
    X, y = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.0], [-2.0, 1.0]]), [1, 1, 0, 0]
    want = sm.train((X, y), C=math.inf)
    for found in (sm.train((X, y), C="inf").model, sm.MarginClassifier(C="inf", fit_intercept=False).fit(X, y)):
        np.testing.assert_array_equal(found.coef_, want.model.coef_)
    assert sm.train((X, y), C="inf").model.header["C"] == want.model.header["C"]
    both = [sm.MarginClassifier(C=C).fit(X, y) for C in ("inf", math.inf)]
    np.testing.assert_array_equal(both[0].intercept_, both[1].intercept_)
    streams = [sm.MarginClassifier(C=C, solver="perceptron").partial_fit(X, y, [0, 1]) for C in ("inf", math.inf)]
    np.testing.assert_array_equal(streams[0].intercept_, streams[1].intercept_)
    with pytest.raises(sm.UsageError, match="an estimator takes one C; choose among several with GridSearchCV"):
        sm.MarginClassifier(C="1,inf").fit(X, y)
