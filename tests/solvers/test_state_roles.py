"""docs/states.md lists who reads arrays of rows, and which methods suit rows in several places; a change fails here.

`python tests/solvers/test_state_roles.py` prints the readers.
"""

import ast
import importlib
import inspect
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reference.drive import problem_of, terms

import streammargin.solvers
from streammargin.errors import UsageError
from streammargin.kernels import make_kernel
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import KERNELS, Method
from streammargin.solvers.expansion.primal_dual import PrimalDual
from streammargin.solvers.papers.of_kernel import Gram
from streammargin.solvers.registry import make_solver, names
from streammargin.solvers.roles import Axis, Role, entries

ROOT = Path(streammargin.solvers.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "states.md"
# with fields that ask for another state
FIELDS = ("batch-perceptron:average=no",)


def parts_of(cls):
    return [entry.type for entry in entries(cls) if entry.kind == "part"]


def states():
    """The classes of states, with the solvers that have them, and those of their parts."""
    solvers = [stage.solver for word in [*names()[1:], *FIELDS] for stage in make_solver(word).stages().values()]
    found = {}
    for solver in [*solvers, PrimalDual()]:
        found.setdefault(solver.state_class, []).append(solver.name)
    parts = [Gram, *(part for cls in found for part in parts_of(cls))]  # of methods in the space of a kernel
    for part in parts:
        parts += [more for more in parts_of(part) if more not in parts]
    return found, sorted(set(parts), key=lambda cls: (cls.__name__, file_of(cls)))


def file_of(cls):
    return Path(inspect.getfile(cls)).relative_to(ROOT).as_posix()


def rows_of(classes):
    """Names of the fields of these classes whose arrays have a number for each row, and of the labels."""
    fields = [entry for cls in classes for entry in entries(cls)]
    arrays = {entry.name for entry in fields if any(isinstance(axis, Axis) and axis.rows for axis in entry.of.axes)}
    return arrays | {entry.name for entry in fields if entry.type is RowLabels}


def known_arguments(function, classes, names, owner):
    """Argument -> the names of arrays of rows that it has, of those that are states or parts; solvers keep none."""
    found = {"self": set()} if isinstance(owner, type) and issubclass(owner, Method) else {}
    for argument in function.args.args:
        words = re.findall(r"\w+", ast.unparse(argument.annotation)) if argument.annotation else []
        told = [getattr(names.get(word), "__bound__", names.get(word)) for word in words]
        of_each = [{one for one in classes if cls in one.__mro__} for cls in told]
        if told and all(of_each):
            found[argument.arg] = rows_of(set().union(*of_each))
    return found


def readers():
    """(file, function) of all that reads such a field, by its name if it is not known of what; not its size or type.

    Another thing of that name is found as well; a method is none.
    """
    found, parts = states()
    classes = [*found, *parts]
    everything = rows_of(classes)
    for path in sorted(ROOT.rglob("*.py")):
        dotted = path.relative_to(ROOT).with_suffix("").parts
        names = vars(importlib.import_module(".".join((streammargin.solvers.__name__, *dotted))))
        tree = ast.parse(path.read_text())
        owners = {part: names.get(cls.name) for cls in tree.body if isinstance(cls, ast.ClassDef) for part in cls.body}
        imported = {
            alias.asname or alias.name for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names
        }  # fmt: skip
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            nodes = list(ast.walk(function))
            known = known_arguments(function, classes, names, owners.get(function))
            others = imported - {argument.arg for argument in function.args.args}
            attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
            left_out = {node.value for node in attributes if node.attr in ("size", "shape", "dtype")}
            left_out |= {node.func for node in nodes if isinstance(node, ast.Call)}
            for node in attributes:
                of = node.value.id if isinstance(node.value, ast.Name) else ""
                if node not in left_out and of not in others and node.attr in known.get(of, everything):
                    yield path.relative_to(ROOT).as_posix(), function.name


def section(heading):
    """What the page says under a heading."""
    [found] = re.findall(rf"^## {heading}\n\n(.*?)\n(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return found


def test_sums_that_a_pass_does_not_add_to_are_known():
    """`adds` names the sums of a pass. Threads share any other one, so one that a pass adds to would be wrong."""
    known = {"row_norms", "values", "squares", "product", "margins", "kept"}
    solvers = [stage.solver for word in names()[1:] for stage in make_solver(word).stages().values()]
    for solver in [solver for solver in solvers if solver.adds]:
        sums = {entry.name for entry in entries(solver.state_class) if sums_of(entry)}
        assert sums - set(solver.adds) <= known, solver.name


def sums_of(entry):
    """Whether a field is an array of sums, or a part that has one."""
    if entry.kind == "part":
        return any(sums_of(one) for one in entries(entry.type))
    return entry.kind == "array" and entry.role is Role.SUM


def several_places(name):
    """(whether rows may be in several places, the fields with which they may not, whether a kernel forbids it)."""
    method = make_solver(name)
    if method.whole:
        return False, set(), False
    entries = [(line.name, line.metadata["kind"]) for line in method.entries()]
    fields = {f"{field}={value}" for field, kind in entries for value in getattr(kind, "choices", None) or ()}
    with_kernel = method.of(replace(problem_of(np.zeros((9, 2))), kernel=make_kernel("rbf")))
    refused = {field for field in fields if make_solver(f"{name}:{field}").whole}
    return True, refused, KERNELS in with_kernel.takes and with_kernel.whole != ""


def test_methods_that_rows_in_several_places_suit_are_told():
    lines = re.findall(r"^\| ([\w, -]+) \| ((any number|one).*) \|$", section("Rows in several places"), re.MULTILINE)
    told = {
        name: (places == "any number", set(re.findall(r"`(\w+=\w+)`", text)), text.endswith("of a kernel machine one"))
        for named, text, places in lines for name in named.split(", ")
    }  # fmt: skip
    assert told == {name: several_places(name) for name in {*names()[1:], *told}}
    assert {"sdca", "asdca", "prox-newton"} <= set(told)  # words for some of these


RIDGE = problem_of(np.zeros((9, 2)))
NOWHERE = {
    "lp": problem_of(np.zeros((9, 2)), p=1.5),
    "lp of a hard margin": problem_of(np.zeros((9, 2)), p=1.5, C=np.inf),
    "interpolate": replace(problem_of(np.zeros((9, 2)), C=np.inf), loss=terms("interpolate"), numeric=True),
    "a kernel": replace(RIDGE, kernel=make_kernel("rbf")),
}


@pytest.mark.parametrize("what", ["ridge", *NOWHERE])
def test_some_problems_have_a_method_for_rows_in_one_place_alone(what):
    one = NOWHERE.get(what, RIDGE)
    assert methods_of(one)
    assert bool(methods_of(replace(one, holders=2))) == (what == "ridge")


def methods_of(problem):
    """The names of the methods that support it."""
    found = []
    for name in names()[1:]:
        with suppress(UsageError):
            make_solver(name).of(problem).check(problem)
            found.append(name)
    return found


def test_who_reads_an_array_of_rows_is_a_visit_or_a_map():
    lines = re.findall(r"^- `(\S+)`: (.*(?:\n  .*)*)$", section("Who reads arrays of rows") + "\n", re.MULTILINE)
    told = [(file, name) for file, text in lines for name in re.findall(r"`(\w+)`", text)]
    assert sorted(told) == sorted(set(readers()))


if __name__ == "__main__":
    print(*sorted(set(readers())), sep="\n")


def test_who_keeps_nothing_of_rows_needs_the_labels_at_hand_alone():
    problem = replace(problem_of(np.zeros((9, 2))), resident=False)
    windows = {name for name in names() if name != "auto" and not make_solver(name).all_labels(problem)}
    assert windows == {
        "newton", "prox-newton", "completion", "factors", "splitting",
        "mirror", "pegasos", "perceptron", "batch-perceptron", "dual-momentum", "gd", "homotopic", "normalized-gd"
    }  # fmt: skip
