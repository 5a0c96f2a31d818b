"""README, docs, help and code name the same things."""

import argparse
import importlib
import json
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest

import streammargin.cli.main
import streammargin.data_tools.main
import streammargin.errors
from streammargin.cli.main import EXIT_CODES, main
from streammargin.losses import LOSSES
from streammargin.options.table import Options, Where, options_for
from streammargin.penalties import PENALTIES
from streammargin.saved.fields import ARRAYS
from streammargin.solvers.registry import SHORT_WORDS, names
from streammargin.training.ratings import options_of as options_of_ratings

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PARSERS = {"streammargin": streammargin.cli.main, "streammargin-data": streammargin.data_tools.main}


def page(name):
    return (ROOT / "docs" / name).read_text()


def table(text, heading):
    """The cells of the first table after a heading, without its head; code marks are taken off."""
    lines = text[re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE).end() :].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("`", "") for cell in re.split(r"(?<!\\)\|", line.strip("|"))])
    return rows[2:]


def names_in(cells):
    """The names in a table's first column, several of them with commas between."""
    return [name.strip() for row in cells for name in row[0].split(",")]


def code(text):
    """Every indented line, and every piece of code within a line; fenced blocks are run by test_adding."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`\n?", "`", text)
    yield from (line.strip() for line in text.splitlines() if line.startswith("    "))
    yield from (piece.replace("\n", " ") for piece in re.findall(r"`([^`]+)`", text))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        assert re.match(r"https?://", target) or (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_named_files_are_there(path):
    for piece in code(path.read_text()):
        for name in re.findall(r"(?<![\w./*])((?:streammargin|data_tools|tests|examples|docs)/[\w./*-]+)", piece):
            assert list(ROOT.glob(name.rstrip("/."))), name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_lines_are_no_longer_than_those_of_the_code(path):
    longest = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["line-length"]
    lines = enumerate(path.read_text().splitlines(), 1)
    assert not [number for number, line in lines if len(line) > longest and not line.startswith("|")]


def commands(path):
    """Our commands in a page, as lists of words."""
    for piece in code(path.read_text()):
        piece = re.sub(r"^\$ |.*/bin/(?=streammargin)", "", piece.split(" | ")[0])
        words = shlex.split(piece, comments=True)
        if words and words[0] in PARSERS and len(words) > 1:
            yield words


def test_there_are_commands_to_check():
    assert len([words for path in PAGES for words in commands(path)]) > 10


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_are_understood(path, capsys):
    for program, verb, *arguments in commands(path):
        module = PARSERS[program]
        assert verb in module.VERBS or [verb, *arguments] == ["--help"], f"{program} {verb}"
        arguments = [argument for argument in arguments if not argument.startswith("[")]
        if not arguments or arguments == ["--help"]:
            continue  # the name of a command, not a call
        module.build_parser(verb).parse_args([verb, *arguments])


VERBS = [(program, verb) for program, module in PARSERS.items() for verb in module.VERBS]


@pytest.mark.parametrize("program, verb", VERBS, ids=lambda word: word)
def test_a_help_ends_with_three_commands_that_work(program, verb, capsys):
    for more in ([], ["all"]):
        assert PARSERS[program].main([verb, "--help", *more]) == 0
        *_, head, first, second, third = capsys.readouterr().out.splitlines()
        assert head == "examples:" and len({first, second, third}) == 3
    for line in (first, second, third):
        called, *words = shlex.split(line)
        assert [called, words[0]] == [program, verb]
        found = PARSERS[program].build_parser(verb).parse_args(words)
        if verb in ("train", "complete"):
            check = {"train": Options.of, "complete": options_of_ratings}[verb]
            check({option.name: getattr(found, option.name) for option in options_for(Where.SHELL)} | {"threads": 1})


def options_of(module):
    """Every long option of every verb."""
    for verb in module.VERBS:
        parser = module.build_parser(verb)
        (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        for action in verbs.choices[verb]._actions:
            yield from (name for name in action.option_strings if name.startswith("--"))


def test_options_that_are_named_exist():
    known = {name for module in PARSERS.values() for name in options_of(module)} | {"--version"}
    for path in (*(ROOT / "examples").rglob("*.py"), ROOT / "tests" / "audit.py"):
        known |= set(re.findall(r'"(--[a-zA-Z-]+)"', path.read_text()))
    for path in PAGES:
        if path.name == "CHANGELOG.md":  # what there was once
            continue
        text = path.read_text()
        if path.name == "coming_from.md":  # the first column is ours, the others are those of other programs
            text = re.sub(r"^(\|[^|]*\|).*$", r"\1", text, flags=re.MULTILINE)
        for piece in code(text):
            if re.match(r"(python3? -m (venv|pytest)|prlimit)", piece):
                continue
            for option in re.findall(r"(?<![\w-])--[a-zA-Z][\w-]*", piece):
                assert option in known, f"{path.name}: {option}"


def test_benchmarks_that_are_named_exist():
    found = {name for path in PAGES for name in re.findall(r"examples\.benchmarks\.(\w+)", path.read_text())}
    files = {path.stem for path in (ROOT / "examples" / "benchmarks").glob("*.py") if "def main" in path.read_text()}
    assert found == files


def test_the_exit_codes_are_those_of_the_code():
    classes = [kind for kind in vars(streammargin.errors).values() if isinstance(kind, type)]
    raised = {kind.exit_code for kind in classes if issubclass(kind, streammargin.errors.StreamMarginError)}
    assert set(EXIT_CODES) == raised | {0, 3, 75, 129, 130, 143}
    helped = streammargin.cli.main.build_parser().epilog
    assert set(EXIT_CODES) == {int(number) for number in re.findall(r"^ *(\d+)(?= [a-zA-Z])", helped, re.M)}
    copied = page("production.md").split("- Exit code ")[1]  # a clone has no page with the table
    assert set(EXIT_CODES) == {int(number) for number in re.findall(r"\b\d+\b", copied)}
    told = streammargin.data_tools.main.build_parser().epilog
    assert " 73 " in told and not re.search("model|verify|converge|checkpoint", told)


@pytest.fixture(scope="module")
def from_code():
    """docs/from_code.py, which makes tables and pages of the code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        return importlib.import_module("from_code")


@pytest.mark.parametrize("name, classes", [("losses", LOSSES), ("penalties", PENALTIES)])
def test_pages_list_every_loss_and_penalty_with_its_solvers(from_code, name, classes):
    made = dict(zip(classes, table("# a\n" + from_code.SUBSTITUTIONS[name], "a"), strict=True))
    assert all(row[0].split(":")[0] == word for word, row in made.items())
    for word, (_, formula, solvers) in made.items():
        assert formula and set(solvers.split(", ")) <= set(names()) - {"auto"}, word
    if name == "losses":
        assert "newton" in made["quantile"][2] and made["interpolate"][2] == "sdca, asdca"
    else:
        assert made["l1"][2].split(", ") == ["newton", "pdprox"] and "perceptron" in made["lp"][2]


def test_pages_list_every_solver_once(from_code):
    shelves = [table("# a\n" + from_code.SUBSTITUTIONS[shelf], "a") for shelf in ("recommended", "streams", "papers")]
    found = [row[0].split(":")[0] for shelf in shelves for row in shelf]
    assert len(found) == len(set(found)) and set(found) == set(names()) - set(SHORT_WORDS)
    each = {row[0].split(":")[0]: row[2] for shelf in shelves for row in shelf}
    assert each["newton"] == "0" and each["inertial-diagonal"] == "16"


def test_the_page_of_model_files_has_every_array(from_code):
    rows = table("# a\n" + from_code.SUBSTITUTIONS["arrays"], "a")
    assert [row[0] for row in rows] == [line.name for line in ARRAYS] and "{{ arrays }}" in page("model_file.md")
    assert ["means", "linear", "floats", "(d,)", "may be missing"] in rows
    assert ["support", "expansion, precomputed", "whole numbers", "(m,)", "at least 0, below d"] in rows


@pytest.mark.parametrize("program, verb", VERBS, ids=lambda word: word)
def test_the_page_of_commands_has_every_option(from_code, program, verb):
    text = from_code.commands().split(f"## {program} {verb}\n")[1].split("\n## ")[0]
    parser = PARSERS[program].build_parser(verb)
    for action in parser.verbs[verb]._actions:
        assert action.dest == "help" or f"`{', '.join(action.option_strings)}" in text, action.dest


def test_there_is_a_page_for_every_public_name(from_code, tmp_path):
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "gone.rst").touch()
    from_code.write_pages(tmp_path)
    pages = {path.stem: path.read_text() for path in (tmp_path / "api").iterdir()}
    folders = {"losses", "penalties", "solvers", "kernels", "maps", "transforms", "dask"}
    assert {name for name in dir(streammargin) if not name.startswith("_")} - folders <= set(pages)
    for name in ("losses", "penalties", "solvers"):
        module = getattr(streammargin, name)
        assert {f"{name}.{one}" for one in dir(module) if isinstance(getattr(module, one), type)} <= set(pages)
    assert "gone" not in pages and ":members:" in pages["losses.Loss"] and ":members:" not in pages["losses.Hinge"]


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """The events of trainings of all kinds: soft and hard margin, several C, not converged, and one that failed."""
    folder = tmp_path_factory.mktemp("docs")
    random = np.random.default_rng(5)
    y = np.where(random.random(80) < 0.5, -1, 1)
    X = random.standard_normal((80, 3)) + 0.5 * y[:, None]
    from conftest import write_h5

    good, bad = write_h5(folder / "good.h5", X, y), write_h5(folder / "bad.h5", X, y[:-1])
    found = []
    for number, options in enumerate([
        [good, "--valid", good, "-c", "0.1,1"], [good, "-c", "inf", "--solver", "perceptron", "--passes", "2"], [bad],
        [good, "--checkpoint", str(folder / "checkpoints")],
    ]):  # fmt: skip
        log = folder / f"{number}.log"
        main(["train", *options, "-o", str(folder / f"{number}.npz"), "-q", "--log-json", str(log)])
        found += [json.loads(line) for line in log.read_text().splitlines()]
    return found


@pytest.mark.parametrize("kind", ["run_start", "pass_end", "certificate", "checkpoint", "warning", "run_end"])
def test_the_keys_of_events_are_those_of_a_run(events, kind, capsys):
    documented = set(names_in(table(page("events.md"), kind)))
    seen = [event for event in events if event["event"] == kind]
    assert seen and documented == set().union(*seen)
    for event in seen:
        if event.get("status", "ok") == "ok":
            assert documented - {"message"} <= set(event) | {"message"}


def test_all_events_are_documented(events):
    assert {event["event"] for event in events} == set(
        re.findall(r"^## ([a-z]+(?:_[a-z]+)?)$", page("events.md"), re.M)
    )


def test_the_reasons_are_those_of_the_results(events):
    from streammargin.result import TrainResult

    documented = {row[0] for row in table(page("events.md"), "Reasons")}
    listed = re.search(r"reason : (.*)", TrainResult.__doc__)[1].split(" | ")
    assert documented == {*listed, "error"}
    assert {event["reason"] for event in events if event["event"] == "run_end"} <= documented


def test_one_sentence_says_what_it_is():
    sentence = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"] + "."
    assert (ROOT / "README.md").read_text().splitlines()[2] == sentence
    assert streammargin.cli.main.build_parser().description == sentence


def test_home_counts_the_rows_of_the_tables_in_memory():
    headings = ("Text, in memory", "Numbers, categories and images, in memory")
    rows = [row for heading in headings for row in table(page("benchmarks/in_memory.md"), heading)]
    first = [row for row in rows if row[4].startswith(("never", "cut off")) or float(row[4]) > float(row[3])]
    for text in ((ROOT / "README.md").read_text(), page("index.md"), page("benchmarks.md")):
        assert f"{len(first)} of {len(rows)}" in text


@pytest.mark.parametrize("heading, name, least", [
    ("In memory", "in_memory", 8), ("Out of core", "from_disk", 3), ("Sparse weights", "sparse_weights", 7),
    ("Several classes", "several_outputs", 3), ("Kernel machines", "kernel_machines", 3), ("Ratings", "ratings", 3),
])  # fmt: skip
def test_short_tables_have_rows_and_heads_of_the_lab_book(heading, name, least):
    short = page("benchmarks.md").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = re.findall(r"^\|.*", short, re.M)
    whole = page(f"benchmarks/{name}.md").splitlines()
    assert len(lines) >= least + 2 and not [line for line in lines if line not in whole]


def test_the_readme_has_the_commands_of_the_house():
    text = (ROOT / "README.md").read_text()
    assert len(re.findall(r"^    python3 -m venv \.venv-test .*$", text, re.M)) == 1  # .ci/run takes it from there
    assert len(text.splitlines()) <= 110  # one page


def test_the_changelog_is_what_a_first_user_needs():
    assert len((ROOT / "CHANGELOG.md").read_text().splitlines()) <= 25  # nothing is released: no history of the history


def test_the_page_on_installing_has_all_that_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = page("install.md")
    brought = text[text.index("It brings") :].partition(".")[0].lower()
    for line in project["dependencies"]:
        assert re.match(r"[\w-]+", line)[0] in brought
    assert names_in(table(text, "Install")) == list(project["optional-dependencies"])


def test_one_version_is_named_everywhere():
    version = streammargin.__version__
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^## (\S+):", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == version


def test_the_workflow_runs_the_scripts_that_are_there():
    called = re.findall(r"bash (\.ci/\w+)", (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert set(called) == {".ci/run", ".ci/slow", ".ci/types", ".ci/lowest", ".ci/wheels"}
    assert all((ROOT / script).is_file() for script in called)


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch, capsys, blobs):
    from conftest import write_h5

    monkeypatch.chdir(tmp_path)
    X, y = blobs
    write_h5(tmp_path / "train.h5", X, y)
    write_h5(tmp_path / "test.h5", X[:50], y[:50])
    text = (ROOT / "README.md").read_text().split("## From Python")[1].split("\n## ")[0]
    snippet = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))
    assert "sm.train" in snippet
    targets = X[:5] @ np.ones(X.shape[1])
    scope = {"batches": iter([(X[:100], y[:100]), (X[100:], y[100:])]), "X": X[:5], "y": y[:5], "targets": targets}
    scope["y"] = np.array([-1, 1, -1, 1, 1])
    exec(snippet, scope)
    assert (tmp_path / "model.npz").exists() and scope["result"].converged
