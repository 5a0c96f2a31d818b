"""The page on a model: each figure beside one that is computed anew, and what a hostile name does to it."""

import html.parser
import itertools
import json
import re
import shlex
import time
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import h5py
import numpy as np
import pandas as pd
import pytest
from conftest import write_h5
from sklearn import metrics

import streammargin as sm
from streammargin.cli.main import main
from streammargin.report import charts
from streammargin.report import page as report
from streammargin.report.html import rows_told
from streammargin.report.page import Facts, tiles, verdict
from streammargin.saved.words import left_out

pytestmark = pytest.mark.usefixtures("patient")
VOID = {"meta", "br"}
HOSTILE = ["<script>alert(1)</script>", "\"'><img src=x>", "a&amp;b\u202e"]


class Page(html.parser.HTMLParser):
    """A page, whose tags must match: the text of each card, its tables, and its drawings."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.cards, self.attributes = [], set(), {}, []
        self.title, self.card, self.tables, self.cell, self.told = "", None, {}, None, []
        self.feed(text.rstrip())
        self.close()
        assert not self.open
        self.drawings = [ET.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.setdefault(self.card, []).append([])
        elif tag == "tr":
            self.tables[self.card][-1].append([])
        elif tag in ("td", "th"):
            self.tables[self.card][-1][-1].append("")
        elif tag == "section":
            self.card = None

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += [(tag, *pair) for pair in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["h2"]:
            self.card = data
        elif self.card is not None:
            self.cards.setdefault(self.card, []).append((self.open[-1], data))
            if "td" in self.open or "th" in self.open:
                self.tables[self.card][-1][-1][-1] += data

    def pairs(self, card):
        """The names and values of its lists."""
        parts = self.cards[card]
        return {a[1]: b[1] for a, b in itertools.pairwise(parts) if (a[0], b[0]) == ("dt", "dd")}

    def drawn(self, name):
        """The drawing with this name."""
        return next(one for one in self.drawings if one.get("aria-label") == name)


def plain(text):
    """A number of the page."""
    share = text.endswith("%")
    number = float(text.rstrip(" %").replace(",", "").replace("−", "-").replace("∞", "inf"))
    return number / 100.0 if share else number


def close(told, value):
    """Whether a number of the page is this one, to the digits that it shows."""
    return plain(told) == pytest.approx(float(value), rel=6e-3, abs=1e-12)


def repeated(here, folder, command):
    """The model that the command of a page makes beside the first one, which it removes."""
    made(here, folder, *command[1:], "-q")
    path = folder / command[-1]
    assert path.name.endswith(".again.npz")
    model = sm.load_model(path)
    path.unlink()
    return model


def rows(n=240, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    X = rng.normal(size=(n, 5)) * [1.0, 10.0, 0.1, 1.0, 3.0]
    X[:, 1] += 12.0 * (y == 1)
    X[:, 3] += 1.5 * (y == 2)
    return X, y


def write(path, X, y, labels=("low", "mid", "high"), columns=("a", "b", "c", "d", "e")):
    """A CSV file with quotes around each field."""
    lines = [[*columns, "label"], *([*map(repr, x.tolist()), labels[k]] for x, k in zip(X, y, strict=True))]
    quoted = (",".join('"' + one.replace('"', '""') + '"' for one in line) for line in lines)
    path.write_text("\n".join(quoted) + "\n")


@pytest.fixture
def files(tmp_path):
    """A folder with rows of three classes, train.csv and test.csv, with names of columns."""
    write(tmp_path / "train.csv", *rows())
    write(tmp_path / "test.csv", *rows(200, seed=1))
    return tmp_path


def made(here, folder, *arguments):
    done = here(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done


def test_each_figure_is_one_that_is_computed_anew(files, here):
    costs = [0.001, 0.01, 0.1, 1.0]
    made(here, files, "train", "train.csv", "-o", "m.npz", "--valid", "test.csv", "-C", "0.001,0.01,0.1,1",
         "--log-json", "log", "--loss", "logistic", "--multiclass", "ovr", "--scale", "std", "-q")  # fmt: skip
    made(here, files, "report", "m.npz", "log", "--test", "test.csv", "-o", "r.html")
    page = Page((files / "r.html").read_text())
    model = sm.load_model(files / "m.npz")
    (X, y), (Z, z) = rows(), rows(200, seed=1)
    labels = np.array(["low", "mid", "high"])
    order = model.classes_.tolist()
    truth, scores = labels[z], Z.astype(np.float32) @ model.coef_.T + model.intercept_
    guess = model.classes_[scores.argmax(axis=1)]

    # is it proven: the objective of one class against the rest, of the scaled rows
    center, factor = model.problem["center"], model.problem["factor"]
    w, stored = model.coef_ / factor, X.astype(np.float32)
    constants = model.intercept_ + model.coef_ @ center
    signs = np.where(labels[y][:, None] == model.classes_, 1.0, -1.0)
    margins = signs * (((stored - center) * factor) @ w.T + constants)
    primal = 0.5 * (w**2).sum() + 0.5 * (constants**2).sum() + model.header["C"] * np.logaddexp(0.0, -margins).sum()
    proven = page.pairs("How was it trained?")
    assert close(proven["objective of these weights"], primal)
    assert plain(proven["no objective is below"]) <= primal * 1.001

    # how good
    good = page.pairs("How good is it?")
    assert close(good["accuracy"], metrics.accuracy_score(truth, guess))
    assert close(good["balanced accuracy"], metrics.balanced_accuracy_score(truth, guess))
    one_hot = truth[:, None] == model.classes_
    assert close(good["ROC AUC"], metrics.roc_auc_score(one_hot, scores, average="macro"))
    each = metrics.precision_recall_fscore_support(truth, guess, labels=order)
    for k, (label, count, *shares) in enumerate(page.tables["How good is it?"][0][1:]):
        assert label == order[k] and int(count) == (truth == label).sum()
        assert all(close(share, each[place][k]) for place, share in enumerate(shares))

    # which C: the errors of trainings of one C each
    for cost, (told, held, training, _) in zip(costs, page.tables["Which C?"][0][1:], strict=True):
        alone = sm.train((X, labels[y]), C=cost, loss="logistic", multiclass="ovr", scale="std", tol=1e-6).model
        assert float(told) == cost
        assert plain(held) == pytest.approx(np.mean(alone.predict(Z) != truth), abs=0.011)
        assert plain(training) == pytest.approx(np.mean(alone.predict(X) != labels[y]), abs=0.011)
    bold = [text for tag, text in page.cards["Which C?"] if tag == "b"]
    assert float(bold[0]) == model.header["C"] and close(bold[1], np.mean(guess != truth))

    # which rows: the matrix, the histogram and the worst ones
    matrix = metrics.confusion_matrix(truth, guess, labels=order)
    cells = [one.text for one in page.drawn("Confusion matrix").iter("title")]
    cells = [re.fullmatch(r"(\w+) taken for (\w+): (\d+) of (\d+) rows .*", text) for text in cells]
    found = {found.groups()[:2]: int(found[3]) for found in cells if found}
    assert found == {(a, b): matrix[i, j] for i, a in enumerate(order) for j, b in enumerate(order)}
    own = scores[one_hot]
    others = np.where(one_hot, -np.inf, scores).max(axis=1)
    bars = page.drawn("How far rows are from a change of the prediction").iter("rect")
    counts = dict.fromkeys(("fa", "fb"), 0)
    for bar in bars:
        counts[bar.get("class")] += int(bar.find("title").text.split(": ")[1].split()[0])
    assert counts == {"fa": (guess == truth).sum(), "fb": (guess != truth).sum()}
    worst = np.argsort(own - others)[:10]
    assert [int(line[0]) for line in page.tables["Which rows are the worst?"][0][1:]] == worst.tolist()
    for place, (_, label, taken, apart) in zip(worst, page.tables["Which rows are the worst?"][0][1:], strict=True):
        assert (label, taken) == (truth[place], guess[place]) and close(apart, (own - others)[place])

    # which columns: weights times standard deviations, of each class and of all
    deviations = stored.astype(float).std(axis=0)
    drawings = [one for one in page.drawings if "matter" in one.get("aria-label")]
    effects = np.linalg.norm(model.coef_ * deviations, axis=0)
    for drawing, scaled, raw in zip(
        drawings, [effects, *(model.coef_ * deviations)], [None, *model.coef_], strict=True
    ):
        texts = [one.text for one in drawing.iter("text")]
        names = [text for text in texts if text in set("abcde")]
        assert names == ["abcde"[k] for k in np.argsort(-np.abs(scaled))]
        numbers = [text for text in texts if re.match(r"[−\d]", text)]
        values = [scaled] if raw is None else [scaled, raw]
        expected = [one[k] for k in np.argsort(-np.abs(scaled)) for one in values]
        assert all(close(told, value) for told, value in zip(numbers, expected, strict=True))

    # the data
    data = page.pairs("What are the data?")
    assert (data["rows"], data["columns"], data["training rows"]) == ("240", "5", "train.csv")


def test_the_page_stands_alone(files, here):
    made(here, files, "train", "train.csv", "-o", "m.npz", "--report", "r.html", "-q")
    text = (files / "r.html").read_text()
    page = Page(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object", "form", "base"}
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name in ("src", "href", "srcset")]
    assert not re.search(r"https?:|@import|url\(", text)
    day = time.strftime("%Y-%m-%d", time.localtime((files / "m.npz").stat().st_mtime))
    assert "<h1>Report on train.csv</h1>" in text and f'<p class="sub">m.npz of {day} · ' in text
    assert "prefers-color-scheme:dark" in text and 'name="viewport"' in text
    assert any("These are the training rows" in part for _, part in page.cards["How good is it on training rows?"])
    assert {"Which training rows go wrong?", "Which training rows are the worst?"} <= page.cards.keys()
    assert "<span>ROC AUC of training rows</span>" in text


def test_the_command_of_the_page_trains_the_same_model(files, here):
    first = ["train", "train.csv", "--y", "label", "--valid", "test.csv", "-C", "0.01,0.1,1", "--class-weight", "low=2",
             "--scale", "std", "--tol", "1e-4", "-q"]  # fmt: skip
    made(here, files, *first, "-o", "m.npz", "--report", "r.html", "--log-json", "log")
    made(here, files, "report", "m.npz", "log", "-o", "from log.html")
    model = sm.load_model(files / "m.npz")
    for name in ("r.html", "from log.html"):
        page = Page((files / name).read_text())
        commands = [shlex.split(text) for tag, text in page.cards["How is it repeated?"] if tag == "pre"]
        assert [words[:2] for words in commands] == [["streammargin", "train"], ["streammargin", "verify"]]
        again = repeated(here, files, commands[0])
        if name == "r.html":  # with the same values of C, in the same reads
            assert again.coef_.tobytes() == model.coef_.tobytes()
        else:
            np.testing.assert_allclose(again.coef_, model.coef_, rtol=0.02, atol=1e-3)
        made(here, files, *commands[1][1:])


@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}, {"class_weight": {"yes": 2, "<no>": 1}}])
def test_a_model_no_better_than_the_simplest_guess_says_so(options, here, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 3)) * (not options), np.where(np.arange(400) % 20, "<no>", "yes")
    told = "<b>No better than always guessing &lt;no&gt;</b>"
    for more, useless in ((np.zeros(400), True), (9.0 * (y == "yes"), False)):
        model = sm.train((np.c_[X, more], y), **options).model
        page = report.page(Facts(model, judged=model.evaluate((np.c_[X, more], y))))
        assert (told in page) == useless == ("or C is too small" in page)


@pytest.mark.parametrize("rule, why", [("", "the least"), (",rule=1se", "at most one standard error above the least")])
def test_folds_and_a_share_of_the_rows_choose_c_on_the_page_too(files, here, rule, why):
    made(here, files, "train", "train.csv", "-o", "m.npz", "--cv", f"3{rule}", "-C", "0.01,0.1", "--report", "r.html",
         "-q", "--log-json", "log")  # fmt: skip
    page = Page((files / "r.html").read_text())
    assert f"is kept, the smallest whose share of wrong held-out rows is {why}. " in str(page.cards["Which C?"])
    *_, end = (json.loads(line) for line in (files / "log").read_text().splitlines())
    for (_, held, _, worst), trial in zip(page.tables["Which C?"][0][1:], end["trials"], strict=True):
        mean, spread = held.split(" ± ")
        assert close(mean, np.mean(trial["folds"])) and close(spread, np.std(trial["folds"], ddof=1) / np.sqrt(3))
        assert plain(worst) == pytest.approx(trial["gap"], rel=0.06)
    model = sm.load_model(files / "m.npz")
    labels = [("low", "mid", "high")[k] for k in rows()[1]]
    counts = {label: labels.count(label) for label in labels}
    most = max(counts, key=counts.get)
    chosen = next(trial for trial in end["trials"] if trial["C"] == model.header["C"])
    found = re.findall('<div class="tile"><b>(.*?)</b><span>(.*?)</span>', (files / "r.html").read_text())
    assert [name for _, name in found[:3]] == [
        "wrong held-out rows over 3 folds", f"wrong if the guess is always {most}", "wrong training rows"
    ]  # fmt: skip
    assert close(found[1][0], 1.0 - counts[most] / sum(counts.values()))
    text = (files / "r.html").read_text()
    assert 0 < text.index('class="tiles"') < text.index('class="verdict"')  # the error leads
    mean, spread = re.fullmatch("(.*) <small>± (.*)</small>", found[0][0]).groups()
    assert close(mean, chosen["valid_error"]) and close(spread, chosen[charts.SPREAD])
    assert next(iter(page.pairs("How good is it on training rows?"))) == found[0][1]
    command = next(shlex.split(text) for tag, text in page.cards["How is it repeated?"] if tag == "pre")
    assert repeated(here, files, command).coef_.tobytes() == model.coef_.tobytes()
    made(
        here, files, "train", "train.csv", "-o", "s.npz", "--valid", "20%", "-C", "0.01,0.1", "--report", "s.html", "-q"
    )
    share, model = Page((files / "s.html").read_text()), sm.load_model(files / "s.npz")
    good, certificate = share.pairs("How good is it?"), model.header["certificate"]
    assert len(share.tables["Which C?"][0]) == 3
    assert close(good["accuracy"], 1.0 - certificate["valid_error"])
    assert any(
        "Figures of 48 rows of the held-out 20% of train.csv" in text for _, text in share.cards["How good is it?"]
    )
    assert "192 of 240 rows × 5 columns" in (files / "s.html").read_text()
    assert share.pairs("What are the data?")["rows"] == "192 of 240, 48 held out"
    held_out = np.flatnonzero(left_out(0, 240, 5, 0))
    X, y = rows()
    truth, scores = np.array(["low", "mid", "high"])[y], model.decision_function(X)
    assert sum(int(line[1]) for line in share.tables["How good is it?"][0][1:]) == len(held_out) == 48
    own = np.take_along_axis(scores, (truth[:, None] == model.classes_).argmax(axis=1)[:, None], axis=1)[:, 0]
    apart = own - np.where(truth[:, None] == model.classes_, -np.inf, scores).max(axis=1)
    wrong = [k for k in held_out[np.argsort(apart[held_out])].tolist() if apart[k] < 0][:10]
    assert [int(line[0]) for line in share.tables["Which rows are the worst?"][0][1:]] == wrong


def test_folds_by_a_column_say_so(files, here):
    X, y = rows()
    write(files / "g.csv", np.column_stack([X, np.arange(240) % 40]), y, columns=[*"abcde", "patient"])
    made(here, files, "train", "g.csv", "--y", "label", "-o", "m.npz", "--cv", "3,by=patient", "-C", "0.01,0.1", "-q",
         "--log-json", "log", "--report", "r.html")  # fmt: skip
    made(here, files, "report", "m.npz", "log", "--test", "g.csv", "--id", "patient", "-o", "from log.html")
    for name in ("r.html", "from log.html"):
        text = (files / name).read_text()
        assert "<span>wrong held-out rows over 3 folds by patient</span>" in text
        assert "No patient is on both sides." in text
        head, *worst = Page(text).tables["Which training rows are the worst?"][0]
        assert head == ["row", "patient", "class", "predicted", "score"] and worst
        assert all(float(line[1]) == int(line[0]) % 40 for line in worst)


def test_a_calibration_is_told_and_its_command_is_whole_from_the_log_too(files, here):
    for held_out, folds in (["--cv", "3"], True), (["--valid", "test.csv"], False):
        made(here, files, "train", "train.csv", "-o", "m.npz", *held_out, "--calibrate", "sigmoid", "-q", "--force",
             "--log-json", "log", "--report", "r.html")  # fmt: skip
        made(here, files, "report", "m.npz", "log", "-o", "from log.html", "--force")
        model = sm.load_model(files / "m.npz")
        for name in ("r.html", "from log.html"):
            page = Page((files / name).read_text())
            seen = "that the folds left out" if folds else "that the training did not see"
            told = page.pairs("How was it trained?")["probabilities"]
            assert told == f"calibrated by sigmoid, from scores of rows {seen}"
            parts = page.cards["How is it repeated?"]
            whole = folds or name == "r.html"  # a log has no name of held-out data
            assert any("but not the calibration" in text for _, text in parts) != whole
            command = next(shlex.split(text) for tag, text in parts if tag == "pre")
            again = repeated(here, files, command)
            assert again.coef_.tobytes() == model.coef_.tobytes()
            assert {key: value.tobytes() for key, value in again.calibration.items()} == (
                {key: value.tobytes() for key, value in model.calibration.items()} if whole else {}
            )


def test_without_a_log_the_page_says_no_more_of_folds_than_the_model_knows(files, here):
    made(here, files, "train", "train.csv", "-o", "m.npz", "--cv", "3", "-C", "0.01,0.1,1", "-q")
    made(here, files, "report", "m.npz", "-o", "r.html")
    header = sm.load_model(files / "m.npz").header
    page = Page((files / "r.html").read_text())
    (_, told), *more = [part for part in page.cards["Which C?"] if part[0] != "h2"]
    assert told.startswith(f"The model has C = {header['C']:g}. The end of the log") and not more
    assert close(page.pairs("How good is it?")["mean error over the folds"], header["certificate"]["valid_error"])
    assert "<span>wrong held-out rows over the folds</span>" in (files / "r.html").read_text()
    made(here, files, "train", "train.csv", "-o", "s.npz", "-C", "0.01,0.1,1", "--valid", "20%", "-q")
    made(here, files, "report", "s.npz", "-o", "s.html")
    text = (files / "s.html").read_text()
    assert "<span>wrong held-out rows</span>" in text and "folds" not in text and "was tried" not in text
    made(here, files, "train", "train.csv", "-o", "one.npz", "-C", "0.1", "-q", "--report", "one.html")
    assert "One value was tried: C = 0.1." in (files / "one.html").read_text()
    made(
        here, files, "train", "train.csv", "-o", "two.npz", "-C", "0.1", "--valid", "0.2", "-q", "--report", "two.html"
    )
    made(here, files, "train", "train.csv", "-o", "cv.npz", "-C", "0.1", "--cv", "3", "-q", "--report", "cv.html")
    told = "One value was tried: C = 0.1. Several are compared on the held-out rows by <code>-C 0.01,0.1,1,10</code>."
    assert told in (files / "two.html").read_text() and told in (files / "cv.html").read_text()


@pytest.mark.parametrize("label", [[], ["--y", "e", "--drop", "label", "--loss", "squared_error"]])
def test_a_page_says_that_rows_are_those_of_the_training_only_if_their_loss_proves_it(files, here, label):
    X, y = rows()
    write(files / "near.csv", X * (1.0 + 1e-6), y)  # as many mistakes
    made(here, files, "train", "train.csv", *label, "-o", "m.npz", "-q")
    for data in ("train.csv", "near.csv"):
        made(here, files, "report", "m.npz", "--test", data, "-o", "r.html", "--force")
        assert ("These are the training rows: new" in (files / "r.html").read_text()) == (data == "train.csv")


@pytest.mark.parametrize("log", [["log"], []])
def test_a_page_on_all_rows_says_how_many_were_held_out(files, here, log):
    options = ["--valid", "20%", "-q", "--log-json", "log", "--force"]
    made(here, files, "train", "train.csv", "-o", "s.npz", *options)
    made(here, files, "report", "s.npz", *log, "--test", "train.csv", "-o", "s.html")
    certificate, text = sm.load_model(files / "s.npz").header["certificate"], (files / "s.html").read_text()
    # the log names the rows; without it nothing proves that these are they, as no loss of all of them is known
    assert ("<b>These may be the training rows</b>" in text) != bool(log)
    assert ("These are the training rows, and 48 that were held out: new" in text) == bool(log)
    head = text[: text.index('<div class="cards">')]
    assert ("<b>192 of 240 judged rows were trained on</b>" in head) == bool(log)
    for name, value in (("held-out", certificate["valid_error"]), ("training", certificate["train_error"])):
        assert f"<b>{report.percent(value)}</b><span>wrong {name} rows</span>" in head
    assert ("<span>wrong training and held-out rows</span>" in head) == bool(log)
    result = sm.train(str(files / "train.csv"), valid=0.2)
    result.report(files / "p.html", str(files / "train.csv"))
    assert "<b>192 of 240 judged rows were trained on</b>" in (files / "p.html").read_text()
    made(here, files, "report", "s.npz", *log, "--test", "test.csv", "-o", "t.html")
    assert "trained on" not in (files / "t.html").read_text()
    X = rows()[0]
    write_h5(files / "o.h5", X, X[:, :1])
    made(here, files, "train", "o.h5", "--loss", "squared_error", "-o", "o.npz", *options, "--report", "o.html")
    assert "No rows were judged for this page" in (files / "o.html").read_text()


@pytest.mark.parametrize("missing", ["mean", "zero", "indicator"])
def test_the_command_from_a_log_reads_the_table_as_the_training_did(files, here, missing):
    ages, days = [*range(40)] * 5, [f"{1 + k % 28:02}/{1 + k % 12:02}/2024" for k in range(200)]
    table = pd.DataFrame({"label": np.where(np.arange(200) % 40 > 15, "no", "yes"), "age": ages, "day": days})
    table["zip"], table["words"] = np.arange(200) % 3, ["red wine", "blue sky"] * 100
    table.loc[::7, "age"] = np.nan
    table.to_csv(files / "people.csv")
    first = ["people.csv", "--y", "label", "--missing", missing, "--dates", "day-first", "--drop", "words"]
    made(here, files, "train", *first, "--categorical", "zip", "-o", "p.npz", "--log-json", "p.log", "-q")
    made(here, files, "report", "p.npz", "p.log", "-o", "p.html")
    model = sm.load_model(files / "p.npz")
    [params] = [
        event["params"]
        for event in map(json.loads, (files / "p.log").read_text().splitlines())
        if event["event"] == "run_start"
    ]
    told = {"missing": missing, "dates": "day-first", "drop": ["words"], "categorical": ["zip"], "columns": None}
    assert {name: params[name] for name in told} == told
    command = [text for tag, text in Page((files / "p.html").read_text()).cards["How is it repeated?"] if tag == "pre"]
    again = repeated(here, files, shlex.split(command[0]))
    assert again.schema == model.schema and again.coef_.tobytes() == model.coef_.tobytes()


def test_the_command_from_a_log_has_labels_weights_and_columns_that_options_name(files, here):
    X, y = rows()
    names, labels = np.array([*"abcde"], "S"), np.array(["low", "mid", "high"])[y]
    np.save(files / "labels.npy", labels)
    np.save(files / "weights.npy", 1.0 + np.arange(240) % 3)
    with h5py.File(files / "named.h5", "w") as file:
        file["X"], file["y"], file["var/_index"] = X, labels.astype("S"), names
        file["var"].attrs["_index"] = "_index"
    beside = ["train.csv", "--drop", "label", "--y", "labels.npy", "--sample-weight", "weights.npy"]
    for first in (beside, ["named.h5", "--columns", "b,d"]):
        made(here, files, "train", *first, "-o", "m.npz", "--log-json", "log", "-q", "--force")
        made(here, files, "report", "m.npz", "log", "-o", "r.html", "--force")
        parts = Page((files / "r.html").read_text()).cards["How is it repeated?"]
        command = next(shlex.split(text) for tag, text in parts if tag == "pre")
        assert set(first) <= set(command)
        model = sm.load_model(files / "m.npz")
        assert repeated(here, files, command).coef_.tobytes() == model.coef_.tobytes()


@pytest.mark.parametrize(
    ("options", "levels", "warned"),
    [
        ([], 60, True),
        (["--bias", "free"], 60, False),
        (["--scale", "maxabs"], 60, False),
        ([], 5, False),
        (["--solver", "sdca", "--passes", "2"], 60, False),
    ],
)
def test_levels_that_carry_a_part_of_the_constant_are_told_where_they_rank(files, here, options, levels, warned):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=600), "far": rng.normal(50.0, 5.0, 600), "zip": np.arange(600) % levels})
    table["label"] = np.where(rng.random(600) < 1.0 / (1.0 + np.exp(2.0 - table["x"])), "yes", "no")
    table.to_csv(files / "zips.csv", index=False)
    run = made(
        here,
        files,
        "train",
        "zips.csv",
        "--y",
        "label",
        "--categorical",
        "zip",
        "--scale",
        "std",
        "--loss",
        "logistic",
        *options,
        "-o",
        "z.npz",
        "--report",
        "z.html",
    )
    said = "--bias free ends this"
    top = here("info", "z.npz", "--top", "3", cwd=files).stdout
    page = (files / "z.html").read_text()
    assert [run.stderr.count(said), top.count(said), page.count(said)] == [warned] * 3


def test_names_of_the_data_are_text_and_nothing_else(files, here):
    write(files / "bad.csv", *rows(), labels=HOSTILE, columns=[*HOSTILE, "d", "</title>"])
    made(here, files, "train", "bad.csv", "--y", "label", "-o", "<b>m.npz", "--report", "r.html", "-q")
    text = (files / "r.html").read_text()
    page = Page(text)
    assert not page.tags & {"script", "img", "b>m.npz"} and "alert(1)" in text and "\u202e" not in text
    assert text.count("<title>Report") == 1
    names = {one.text for drawing in page.drawings for one in drawing.iter("title")}
    assert HOSTILE[0] in names and HOSTILE[1] in names
    short = sm.load_model(files / "<b>m.npz")._repr_html_()
    assert "<script" not in short and "<img" not in short


def test_numbers_outputs_kernels_margins_and_streams_have_a_page(files, here):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 4))
    write_h5(files / "n.h5", X, X @ [1.0, -2.0, 0.0, 0.5] + 0.1 * rng.normal(size=80))
    made(here, files, "train", "n.h5", "--loss", "squared_error", "-o", "n.npz", "--report", "n.html", "-q")
    page, model = Page((files / "n.html").read_text()), sm.load_model(files / "n.npz")
    with h5py.File(files / "n.h5") as file:
        errors = model.predict(X) - file["y"][:]
    assert close(page.pairs("How good is it on training rows?")["mean squared error"], np.mean(errors**2))
    assert [int(line[0]) for line in page.tables["Which training rows are the worst?"][0][1:]] == np.argsort(
        -np.abs(errors)
    )[:10].tolist()
    y = np.where(X[:, 0] > 0.0, 1, -1)
    X[:, 0] += 0.5 * y
    write_h5(files / "h.h5", X, y)
    for name, more in (("k", ["--kernel", "rbf"]), ("h", ["-c", "inf"]), ("p", ["--solver", "perceptron"])):
        made(here, files, "train", "h.h5", *more, "-o", f"{name}.npz", "--report", f"{name}.html", "-q")
    kernel = Page((files / "k.html").read_text())
    assert "no weight for a column" in kernel.cards["Which columns matter?"][0][1]
    hard, text = Page((files / "h.html").read_text()), (files / "h.html").read_text()
    margin = sm.load_model(files / "h.npz")
    smallest = (y * margin.decision_function(X)).min() / np.linalg.norm(margin.coef_)
    assert close(hard.pairs("How was it trained?")["margin"], smallest) and "of the largest margin" in text
    assert "Not proven" in (files / "p.html").read_text()
    write_h5(files / "o.h5", X, np.column_stack([X[:, 0], X[:, 1]]))
    made(here, files, "train", "o.h5", "--loss", "squared_error", "-o", "o.npz", "--report", "o.html", "-q")
    assert len(Page((files / "o.html").read_text()).tables["How good is it on training rows?"][0]) == 3


def test_what_cannot_be_written_or_read_is_refused_and_nothing_is_lost(files, here):
    made(here, files, "train", "train.csv", "-o", "m.npz", "--log-json", "log", "-q")
    made(here, files, "train", "train.csv", "-o", "other.npz", "-c", "0.1", "--log-json", "other.log", "-q")
    (files / "old.html").write_text("mine")
    (files / "broken.log").write_text((files / "log").read_text().replace('"estimate"', '"estimated"'))
    (files / "text.log").write_text("<html>\n")
    (files / "link").symlink_to("test.csv")
    before = {path: path.read_bytes() for path in files.iterdir() if path.is_file()}
    test = ["--test", "test.csv"]
    for arguments, code, said in (
        (["m.npz", "-o", "m.npz"], 2, "is an input as well"),
        (["m.npz", "log", "-o", "log"], 2, "is an input as well"),
        (["m.npz", *test, "-o", "test.csv", "--force"], 2, "is an input as well"),
        (["m.npz", *test, "-o", "link", "--force"], 2, "is an input as well"),
        (["m.npz", "-o", "old.html"], 73, "--force"),
        (["m.npz", "-o", "no/r.html"], 73, "no directory"),
        (["m.npz", "-o", "."], 73, "directory"),
        (["no.npz", "-o", "r.html"], 66, "no such model file"),
        (["m.npz", "no.log", "-o", "r.html"], 66, "no such log"),
        (["m.npz", "text.log", "-o", "r.html"], 65, "text.log: line 1 is not an event"),
        (["m.npz", "other.log", "-o", "r.html"], 65, "the log of another training"),
        (["m.npz", "broken.log", "-o", "r.html"], 65, "docs/events.md"),
        (["m.npz", "--test", "log", "-o", "r.html"], 65, "log"),
    ):
        done = here("report", *arguments, cwd=files)
        assert done.returncode == code and said in done.stderr, (arguments, done.stderr)
        assert before == {path: path.read_bytes() for path in files.iterdir() if path.is_file()}
    for name in ("train.csv", "test.csv", "new.npz", "old.html"):
        done = here("train", "train.csv", "--valid", "test.csv", "-o", "new.npz", "--report", name, cwd=files)
        assert done.returncode == (73 if name == "old.html" else 2), done.stderr
        assert before == {path: path.read_bytes() for path in files.iterdir() if path.is_file()}
    assert main(["report", str(files / "m.npz"), "-o", str(files / "old.html"), "--force"]) == 0
    assert Page((files / "old.html").read_text()).cards


def test_a_log_that_was_cut_while_it_was_written_is_read_up_to_there(files, here):
    made(here, files, "train", "train.csv", "-o", "m.npz", "--log-json", "log", "-q")
    whole = (files / "log").read_text()
    (files / "cut.log").write_text(whole[: whole.index("\n", len(whole) // 2) - 9])
    assert main(["report", str(files / "m.npz"), str(files / "cut.log"), "-o", str(files / "cut.html")]) == 0
    assert Page((files / "cut.html").read_text()).cards


def test_rows_that_cannot_be_judged_cost_no_page(files, here):
    """Classes that the training leaves out are unknown to the model."""
    done = here("train", "train.csv", "--classes", "low,mid", "-o", "m.npz", "--report", "r.html", "-q", cwd=files)
    assert done.returncode == 0 and "the report has no figures of train.csv" in done.stderr
    page = Page((files / "r.html").read_text())
    assert any("No rows were judged" in text for _, text in page.cards["How good is it?"])


def test_a_training_that_ended_early_says_so(files, here):
    made(here, files, "train", "train.csv", "-o", "m.npz", "--passes", "1", "--tol", "1e-12", "--solver", "sdca", "-q",
         "--report", "r.html")  # fmt: skip
    text = (files / "r.html").read_text()
    gap = sm.load_model(files / "m.npz").header["certificate"]["gap"]
    assert "Not proven to the tolerance" in text and "it ran out of passes" in text
    assert close(re.search(r"The certified gap is ([\d.]+ %)", text)[1], gap)


def test_the_chart_of_the_gap_has_the_events(files, here):
    options = ["--solver", "sdca", "--loss", "logistic", "--multiclass", "ovr", "--passes", "40", "--tol", "1e-5"]
    made(here, files, "train", "train.csv", "-o", "m.npz", *options, "--log-json", "log", "-q")
    made(here, files, "report", "m.npz", "log", "-o", "r.html")
    events = [json.loads(line) for line in (files / "log").read_text().splitlines()]
    certified = {one["pass"]: one["gap"] for one in events if one["event"] == "certificate" and one["gap"]}
    told = [one.text for one in Page((files / "r.html").read_text()).drawn("The gap after each pass").iter("title")]
    told = dict(re.fullmatch(r"pass (\d+): (.*) certified", text).groups() for text in told)
    assert len(certified) > 1 and set(map(int, told)) == set(certified)
    assert all(close(value, certified[int(number)]) for number, value in told.items())


def test_sentences_hold_for_one_row_and_for_the_smallest_gap():
    proven, head, why = verdict({"converged": True, "certificate": {"gap": 1e-9}})
    assert proven and head == "Proven: within 0.0001 % of the smallest objective"
    assert "No model with these options" in why and " more than 0.0001 % below" in why and "nothing of new rows" in why
    assert rows_told(1) == "1 row" and rows_told(2000) == "2,000 rows"


def test_standard_errors_of_folds_are_drawn_where_trials_have_them():
    trials = [{"C": cost, "gap": 1e-4, "margin_gap": None, "train_error": None, "valid_error": error}
              for cost, error in ((0.1, 0.2), (1.0, 0.1), (10.0, 0.15))]  # fmt: skip
    events = [{"event": "run_end", "trials": trials}]
    without = charts.tried_in(events, {"C": 1.0})
    assert charts.band(without) == ([], []) and "±" not in charts.costs_table(without)
    for trial, spread in zip(trials, (0.02, 0.01, 0.03), strict=True):
        trial[charts.SPREAD] = spread
    tried = charts.tried_in(events, {"C": 1.0})
    low, high = charts.band(tried)
    assert low == pytest.approx([0.18, 0.09, 0.12]) and high == pytest.approx([0.22, 0.11, 0.18])
    assert charts.costs_chart(tried).count("<path") == charts.costs_chart(without).count("<path") + 1
    assert "0.1 ± 0.01" in charts.costs_table(tried)


@pytest.mark.parametrize(
    ("compiling", "told"), [(260.0, "16 s</b><span>of training, and 4 min 20 s of compiling<"), (0.2, "4 min 36 s<")]
)
def test_the_time_of_training_is_without_that_of_compiling(compiling, told):
    events = [{"event": "run_end", "compile_seconds": compiling}]
    shown = tiles(Facts(SimpleNamespace(header={"seconds": 276.2}), events=events), None)
    assert f"<b>{told}" in shown and ("compiling" in shown) == (compiling > 1.0)


def test_certificates_of_folds_are_not_those_of_the_model():
    header = {"C": 1.0, "tol": 1e-3, "certificate": {"gap": 1e-4}}
    told = [(1, None, 0.5), (1, 0, 0.9), (2, None, 1e-4), (2, 0, 0.3)]
    events = [{"event": "certificate", "C": 1.0, "pass": n, "fold": fold, "gap": value} for n, fold, value in told]
    assert charts.course_of(events, header).gaps == [0.5, 1e-4]
