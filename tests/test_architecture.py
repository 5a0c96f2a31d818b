"""The rules of the house: which part may import which, and who knows what a pass is."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import streammargin
from streammargin.solvers import registry

ROOT = Path(streammargin.__file__).parent
TESTS = Path(__file__).parent
OF_TABLES = {"arrow", "ordered", "sources", "tables"}  # of those that verify ratings and tables, not of verify.py
BASE = {"arrow", "errors", "files", "json_values", "kinds", "matching", "saved", "sizes"}  # leaves
BASE |= {"version", "wording", "words", "workers"}
NAMED = {"kernels", "losses", "maps", "penalties", "rows", "transforms"}  # named tuples, and classes of penalties
ALLOWED = {  # by folder, and by single file
    "__main__": {"cli"},
    "api": {"options", "ordered", "solvers", "sources", "driver", "training", "result", "sinks", "errors", "wording"}
    | {"kernels", "losses", "maps", "penalties", "transforms"},
    "dask": {"dask", "api", "options", "ordered", "solvers", "sources", "tables", "reading", "driver"}
    | {"training", "model", "result", "sinks"}
    | {"arrays", "arrow", "compiled", "errors", "files", "rows", "version", "workers"},
    "arrow": {"errors"},
    "errors": {"wording"},
    "files": {"errors", "wording"},
    "json_values": set(),
    "kinds": {"errors", "files", "sizes", "wording", "workers"},
    "matching": {"errors", "wording"},
    "result": {"files", "model", "ordered", "report", "sources", "wording"},
    "report": {"report", "errors", "files", "options", "sources", "wording"},
    "sizes": {"errors", "wording"},
    "formulas": set(),
    "saved": {"errors", "files", "matching", "saved", "wording"},
    "machines": set(),
    "calibrated": set(),
    "numpy_model": set(),
    "verification": {"errors", "files", "formulas", "kernels", "machines", "maps", "matching", "numpy_model"}
    | {"calibrated", "packages", "saved", "stored", "verification"}
    | OF_TABLES,
    "wording": set(),
    "workers": set(),
    "version": set(),
    "packages": {"errors", "wording"},
    "words": {"errors", "kinds", "packages", "wording"},
    "kernels": {"kernels", "errors", "kinds", "wording", "words"},
    "maps": {"maps", "kernels", "rows", "errors", "kinds", "wording", "words"},
    "transforms": {"transforms", "rows", "errors", "kinds", "wording", "words"},
    "losses": {"losses", "errors", "kinds", "wording", "words"},
    "penalties": {"penalties", "rows", "errors", "kinds", "wording", "words"},
    "rows": {"rows"},
    "compiled": {"compiled"} | NAMED,
    "arrays": {"arrays", "compiled"} | NAMED,
    "solvers": {"solvers", "points", "arrays", "compiled", "errors", "kinds", "wording", "words", "workers"} | NAMED,
    "sources": {"sources", "compiled", "errors", "files", "matching", "packages", "stored", "wording", "workers"}
    | NAMED,
    "stored": {"errors", "files"},
    "points": {"points", "compiled", "workers"} | NAMED,
    "tables": {"tables", "arrow", "matching", "sources", "errors", "files", "sizes", "version", "wording"} | NAMED,
    "options": {"options", "solvers", "errors", "files", "kinds", "sizes", "wording", "words"} | NAMED,
    "reading": {"reading", "compiled", "sources", "errors", "matching", "sizes", "wording", "workers"} | NAMED,
    "driver": {"driver", "reading", "options", "points", "sources", "solvers", "arrays", "compiled"} | BASE | NAMED,
    "model": {"model", "ordered", "tables", "points", "saved", "sources", "reading", "compiled"}
    | {"machines", "numpy_model", "report"}
    | BASE
    | NAMED,
    "sinks": {"sinks"} | BASE,
    "ordered": {"files", "sources"},
    "training": {"training", "compiled", "ordered", "tables", "options", "reading", "driver", "points"}
    | {"sources", "solvers", "model", "result", "saved"}
    | BASE
    | NAMED,
    "estimators": {"estimators", "options", "driver", "sources", "training", "model", "result", "sinks", "solvers"}
    | {"points"}
    | BASE
    | NAMED,
    "cli": {"cli", "api", "options", "ordered", "result", "sources", "reading", "driver", "compiled", "model"}
    | {"sinks", "solvers", "report", "training", "verification"}
    | {"losses", "penalties"}
    | BASE,
}

# inside of solvers/, by folder; "" is what stands beside them, but for TOP, which may use all and is used by none
BELOW = {"", "proof", "cache"}
SOLVERS = {
    "": {"", "proof"},
    "proof": {"", "proof"},
    "cache": {"", "cache"},
    "coordinate": {"coordinate"} | BELOW,
    "newton": {"newton", "coordinate", "columns"} | BELOW,
    "columns": {"columns", "expansion"} | BELOW,
    "margin": {"margin", "coordinate"} | BELOW,
    "expansion": {"expansion"} | BELOW,
    "completion": {"completion"} | BELOW,
    "streams": {"streams", "margin"} | BELOW,
    "papers": {"papers", "streams", "margin", "expansion"} | BELOW,
}
TOP = {"auto.py", "registry.py", "__init__.py"}
# inside of driver/, where nothing stands beside the folders
DRIVER = {"": set(), "status": {"status"}, "learn": {"learn", "status"}, "loop": {"loop", "learn", "status"}}
DRIVER |= {"save": {"save", "loop", "learn", "status"}}
INSIDE = {"solvers": SOLVERS, "driver": DRIVER}


@cache
def imports(path):
    """Absolute names of the modules that a file imports, anywhere in it."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_arrows_point_one_way(part):
    for path in (ROOT / part).rglob("*.py") if (ROOT / part).is_dir() else ROOT.glob(f"{part}.py"):
        for name in imports(path):
            if name.split(".")[0] == "streammargin":
                folder = (name.split(".") + [""])[1]
                folder = folder if (ROOT / folder).is_dir() or (ROOT / f"{folder}.py").exists() else ""
                assert folder in ALLOWED[part], f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize(("part", "folder"), [(part, folder) for part in INSIDE for folder in sorted(INSIDE[part])])
def test_arrows_inside_of_a_part_point_one_way(part, folder):
    room = ROOT / part
    files = (room / folder).rglob("*.py") if folder else (path for path in room.glob("*.py") if path.name not in TOP)
    for path in files:
        for name in imports(path):
            if name.startswith(f"streammargin.{part}."):
                used = name.split(".")[2]
                assert f"{used}.py" not in TOP, f"{path.relative_to(ROOT)} imports {name}"
                used = used if (room / used).is_dir() else ""
                assert used in INSIDE[part][folder], f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("part", INSIDE)
def test_every_folder_inside_of_a_part_has_a_rule(part):
    folders = {path.name for path in (ROOT / part).iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders | {""} == set(INSIDE[part])


def test_no_rule_inside_of_a_part_lets_arrows_run_back():
    assert not circular(DRIVER) and [path.name for path in (ROOT / "driver").glob("*.py")] == ["__init__.py"]
    # proof says what a problem asks for, and needs to know what a solver is: their files have no circle
    assert not circular({folder: needed - BELOW for folder, needed in SOLVERS.items()})
    assert not any(needed - BELOW for folder, needed in SOLVERS.items() if folder in BELOW)


def test_every_part_has_a_rule():
    parts = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in ("__pycache__", "data_tools")}
    files = {path.stem for path in ROOT.glob("*.py")} - {"__init__"}  # which only names what is loaded on first use
    assert parts | files | {"dask"} == set(ALLOWED)  # which all else does without


def circular(graph):
    """Take away, again and again, what needs nothing that is left; what stays at the end has a circle."""
    graph = dict(graph)
    while low := {name for name, needed in graph.items() if not (needed - {name}) & set(graph)}:
        for name in low:
            del graph[name]
    return set(graph)


def test_no_rule_lets_arrows_run_back():
    assert not circular(ALLOWED)
    assert circular({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == {"a", "b", "c"}


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_modules_import_each_other_in_a_circle():
    """Anywhere in a file counts. The package itself only names what is loaded from it on first use."""
    files = {module_of(path): path for path in ROOT.rglob("*.py")}
    graph = {}
    for module, path in files.items():
        named = {name if name in files else name.rpartition(".")[0] for name in imports(path)}
        graph[module] = (named & set(files)) - {"streammargin", module}
    graph["streammargin"] = set()
    assert not circular(graph)


def test_the_package_never_imports_the_tools():
    for path in ROOT.rglob("*.py"):
        if ROOT / "data_tools" not in path.parents:
            assert not any(name.startswith("streammargin.data_tools") for name in imports(path)), path


def test_one_folder_knows_of_dask_and_no_other_part_needs_it():
    """Another engine is another folder: they hand the driver holders of rows (`driver/loop/holders.py`)."""
    engine = ROOT / "dask"
    for path in (path for path in ROOT.rglob("*.py") if engine not in path.parents):
        names = {name.split(".")[0] for name in imports(path)} & {"dask", "distributed", "cloudpickle"}
        assert not names, path
        assert not any(name.startswith("streammargin.dask") for name in imports(path)), path
    lines = {path.name: len(path.read_text().splitlines()) for path in engine.glob("*.py")}
    assert max(lines.values(), default=0) <= 220
    assert sum(lines.get(name, 0) for name in ("cluster.py", "rounds.py", "worker.py")) <= 440  # of a round


def test_few_files_know_of_tables():
    """All else asks `streammargin/ordered.py`, and does without that folder (`tests/test_fences.py`)."""
    known = {"training/tables.py", "model/tables.py", "training/ratings.py", "model/ratings.py"}
    known |= {"verification/tables.py", "verification/ratings.py", "model/exports/spelt.py"}
    for path in ROOT.rglob("*.py"):
        inside = path.relative_to(ROOT)
        if inside.parts[0] not in ("tables", "dask", "data_tools") and str(inside) not in known:
            assert not any(name.startswith("streammargin.tables") for name in imports(path)), path


def test_what_verifies_can_be_read_and_compiles_nothing():
    ours, words = ("verification/verify.py", "formulas.py"), "saved/words.py"
    paths = [ROOT / name for name in (*ours, words, "numpy_model.py", "machines.py", "calibrated.py")]
    assert not OF_TABLES & {name.split(".")[1] for name in imports(paths[0]) if name.startswith("streammargin.")}
    assert len(paths[0].read_text().splitlines()) <= 370
    assert len(paths[1].read_text().splitlines()) <= 100
    assert len(paths[3].read_text().splitlines()) <= 250  # people copy it
    assert {name.split(".")[0] for path in paths for name in imports(path)} <= {
        "__future__", "collections", "contextlib", "h5py", "json", "math", "numpy", "os", "re", "scipy",
        "streammargin", "typing",
    }  # fmt: skip
    ours = {name for path in paths[1:] for name in imports(path) if name.startswith("streammargin")}
    assert all(name.startswith("streammargin.numpy_model") for name in ours)


def test_losses_penalties_and_rows_are_plain_python():
    for path in (path for name in NAMED for path in (ROOT / name).rglob("*.py")):
        assert not any(name.split(".")[0] in ("numba", "h5py") for name in imports(path)), path


def test_solvers_and_kernels_open_no_files():
    for part in ("solvers", "compiled"):
        for path in (ROOT / part).rglob("*.py"):
            called = {node.func.id for node in ast.walk(ast.parse(path.read_text()))
                      if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}  # fmt: skip
            assert "open" not in called and "h5py" not in set(imports(path)), path


def test_only_the_loop_runs_passes():
    for path in ROOT.rglob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {call.attr for call in calls if isinstance(call, ast.Attribute)}
        if ROOT / "solvers" in path.parents:  # which call each other's
            continue
        if path != ROOT / "driver" / "loop" / "phases.py":
            assert not names & {"begin_pass", "run_block", "end_pass", "begin_certificate", "end_certificate"}, path
        if path != ROOT / "training" / "stream.py":  # rows that pass by once have a loop of their own
            assert "stream_block" not in names, path


def test_no_switch_over_names_of_losses():
    names = {"hinge", "squared_hinge", "smooth_hinge", "logistic"}
    for part in ("compiled", "solvers", "reading", "driver"):
        for path in (ROOT / part).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Compare):
                    constants = {getattr(c, "value", None) for c in ast.walk(node) if isinstance(c, ast.Constant)}
                    assert not constants & names, f"{path}:{node.lineno}"


def test_folders_of_tests_are_those_of_the_package():
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    of_others = {Path(), Path("data_tools"), Path("examples"), Path("theorems")}
    assert not {folder for folder in folders - of_others if not (ROOT / folder).is_dir()}


@pytest.mark.parametrize("name", registry.names()[1:])
def test_tests_of_a_method_are_found_by_its_name(name):
    assert list((TESTS / "solvers").glob(f"*/test_*{name.replace('-', '_')}*.py"))


def test_no_test_needs_what_stands_in_another_folder_of_tests():
    """Else it runs only if that folder was collected before; what several share is in reference/."""
    for path in TESTS.rglob("test_*.py"):
        for module in (name.split(".")[0] for name in imports(path)):
            assert not module.startswith("test_") or (path.parent / f"{module}.py").is_file(), f"{path}: {module}"


def public_functions(body, within=False):
    """Functions that a type checker of a user's sees, with the parameters that need a type; kernels are objects."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body, within=True)
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            if not any(name.startswith("kernel") for name in decorators):
                named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                gathered = [part for part in (node.args.vararg, node.args.kwarg) if part is not None]
                yield node, [*named[within and "staticmethod" not in decorators :], *gathered]


SHARED = {  # class names with two meanings: words of users, and what stands behind them
    "Ascent", "Factors", "Hinge", "L2", "Lp", "Momentum", "Newton", "Steps", "Whole"
}  # fmt: skip


def test_a_name_of_a_class_has_one_meaning():
    files: dict[str, list[str]] = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    several = {name: found for name, found in files.items() if len(found) > 1}
    assert {name: found for name, found in several.items() if name not in SHARED or len(found) > 2} == {}


def test_public_functions_have_types():
    """`.ci/types` counts the names without a known type, and needs Node; this finds most of them."""
    seen = 0
    for path in sorted(ROOT.rglob("*.py")):
        for node, arguments in public_functions(ast.parse(path.read_text()).body):
            where = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
            assert node.returns is not None, f"{where} does not say what it returns"
            assert not [a.arg for a in arguments if a.annotation is None], f"{where} has parameters without a type"
            seen += 1
    assert seen > 1000


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by their names alone; of two it refuses the second, if both can be imported."""
    names = [path.name for path in TESTS.rglob("test_*.py")]
    assert len(set(names)) == len(names)


def test_only_the_label_object_compares_codes_with_classes():
    folders = [ROOT / name for name in ("solvers", "compiled", "points", "losses", "penalties")]
    written = re.compile(r"codes(\[.*\])? *[!=]= |[!=]= *[\w.]*\bcodes\b|caps\[[^\]]*codes|tasks_of\([\w.]*codes")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in folders
        for path in folder.rglob("*.py")
        for line in path.read_text().splitlines()
        if written.search(line)
    ]
    assert not found, "a code may carry a fold: ask `Labels` of streammargin/rows/labels.py"
