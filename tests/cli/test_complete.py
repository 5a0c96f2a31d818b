"""`streammargin complete`, and the other commands on what it writes."""

import json
import os
import re

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp
from reference import matrices

import streammargin as sm
from streammargin.cli.main import main
from streammargin.errors import UsageError
from streammargin.losses.ratings import RATINGS
from streammargin.solvers.completion import matrix
from streammargin.tables.ratings import sorted as spool
from streammargin.verification import ratings as verification
from streammargin.verification.ratings import verify_ratings

I, J, VALUES = matrices.ratings(count=400)
USERS, FILMS = np.array([f"u{i:02d}" for i in I]), np.array([f"film, {j}" for j in J])


def write_csv(path, users=USERS, films=FILMS, values=VALUES):
    lines = [f'{u},"{f}",{v:g},77' for u, f, v in zip(users, films, values, strict=True)]
    path.write_text("\n".join(["user,film,stars,when", *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("ratings") / "ratings.csv")


@pytest.fixture(scope="module")
def model(ratings):
    path = str(ratings.parent / "factors.npz")
    sm.complete(str(ratings), C=0.5, tol=1e-4).model.save(path)
    return path


def test_ratings_in_any_file_give_the_same(tmp_path, ratings):
    paths = {name: str(tmp_path / name) for name in ("r.parquet", "r.mtx", "r.npz")}
    pq.write_table(pa.table({"value": VALUES, "row": USERS, "column": FILMS}), paths["r.parquet"])
    matrix = sp.coo_array((VALUES, (I, J)))
    scipy.io.mmwrite(paths["r.mtx"], matrix)
    sp.save_npz(paths["r.npz"], matrix.tocsr())
    ways = [
        (str(ratings), {}), (paths["r.parquet"], {"columns": ("row", "column"), "y": "value"}), (paths["r.mtx"], {}),
        (paths["r.npz"], {}), (matrix, {}),
        ((I, J, VALUES), {}), ((USERS, FILMS, VALUES), {}), (pa.table({"a": USERS, "b": FILMS, "c": VALUES}), {}),
    ]  # fmt: skip
    first = None
    for data, options in ways:
        result = sm.complete(data, C=0.5, tol=1e-5, passes=3000, **options)
        named = "u" in result.model.row_names_[0]
        found = result.model.predict((USERS, FILMS) if named else (I, J))
        first = found if first is None else first
        assert result.converged and np.allclose(found, first, atol=0.05), str(data)[:80]
        again = result.model.predict(data if not isinstance(data, tuple) else data[:2], **(
            {"columns": options["columns"]} if options else {}))  # fmt: skip
        order = np.lexsort((J, I)) if again.size and not np.allclose(again, found, atol=1e-9) else np.arange(I.size)
        assert np.allclose(again, found[order], atol=1e-9)


def test_the_commands_on_factors(tmp_path, here, ratings):
    run = ["complete", ratings, "-o", "f.npz", "-c", "0.5", "--loss", matrices.HINGE, "-q", "--log-json", "log"]
    assert here(*run, cwd=tmp_path).returncode == 0
    known = sm.load_model(tmp_path / "f.npz")
    assert known.header["loss"] == "hinge:1,2,3,4,at=0,3,6,9" and known.levels.tolist() == [1, 2, 3, 4, 5]
    done = here("predict", "f.npz", ratings, cwd=tmp_path)
    assert [float(line) for line in done.stdout.split()] == known.predict(str(ratings)).tolist()
    done = here("predict", "f.npz", ratings, "--decision", "-o", "scores.npy", cwd=tmp_path)
    assert done.returncode == 0
    assert np.array_equal(np.load(tmp_path / "scores.npy"), known.decision_function(str(ratings)))
    figures = json.loads(here("evaluate", "f.npz", ratings, "--json", cwd=tmp_path).stdout)
    assert figures == known.evaluate(str(ratings)) and figures["accuracy"] > 0.5
    assert "rmse" in here("evaluate", "f.npz", ratings, cwd=tmp_path).stdout
    facts = json.loads(here("info", "f.npz", "--json", cwd=tmp_path).stdout)
    assert facts["sides"] == [25, 35] and facts["rank"] == known.rank
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    start = next(event for event in events if event["event"] == "run_start")  # after a warning of a column left out
    assert start["data"]["sides"] == [25, 35] and events[-1]["model"] == "f.npz"
    assert start["params"]["columns"] == known.header["columns"] == list(known.header["names"][:2])
    assert here(*run, cwd=tmp_path).returncode == 73


def test_verify_recomputes_the_figures(tmp_path, here, ratings, model):
    done = here("verify", model, ratings)
    assert done.returncode == 0 and "all agree" in done.stdout and "primal" in done.stdout
    other = write_csv(tmp_path / "other.csv", values=np.where(np.arange(VALUES.size) == 7, 6.0 - VALUES, VALUES))
    assert here("verify", model, other).returncode == (0 if VALUES[7] == 3.0 else 65)
    arrays = dict(np.load(model))
    arrays["left"] = arrays["left"] * 1.001
    np.savez(tmp_path / "changed.npz", **arrays)
    done = here("verify", tmp_path / "changed.npz", ratings)
    assert done.returncode == 65 and "DIFFERS" in done.stdout


@pytest.mark.parametrize(
    "occur, levels, at",
    [
        ((2, 3, 4, 5), (1, 2, 3, 4), None),  # none has the lowest
        ((1, 2, 4, 5), (1, 2, 3, 4), (-2, 1, 3, 9)),  # none has one between
        ((1, 2, 3), (1, 2, 3, 4), None),  # none has the highest, and none is above it
        ((0.5, 2.25, 4.5), (-0.5, 0.5, 1.5, 2.25, 3.75), None),  # all of it, and numbers that are not whole
        ((2, 5), (1, 2, 3, 4), None),
    ],
)
def test_levels_that_no_rating_has_are_levels(tmp_path, here, occur, levels, at):
    values = np.array(occur)[(I + J) % len(occur)].astype(float)
    held = (np.arange(I.size) % 5 == 0) & (values != occur[-1])  # one only in the training, or only held out
    held |= (values == occur[0]) & (np.arange(I.size) % 2 == 0)
    held &= np.isin(I, I[~held]) & np.isin(J, J[~held])
    odd = np.where(np.arange(held.sum()) % 3 == 0, levels[0], values[held])  # the lowest level, held out alone
    train = write_csv(tmp_path / "train.csv", USERS[~held], FILMS[~held], values[~held])
    valid = write_csv(tmp_path / "valid.csv", USERS[held], FILMS[held], odd)
    word = "hinge:levels=" + ",".join(map(str, levels)) + (",at=" + ",".join(map(str, at)) if at else "")
    done = here("complete", train, "-o", tmp_path / "f.npz", "--loss", word, "--valid", valid, "-q")
    assert done.returncode == 0, done.stderr
    done = here("verify", tmp_path / "f.npz", train, "--valid", valid)
    assert done.returncode == 0 and "all agree" in done.stdout, done.stdout + done.stderr
    model = sm.load_model(tmp_path / "f.npz")
    places, stands = at or [3 * k for k in range(len(levels))], [*levels, max(*levels, *occur)]
    for path, known in ((train, values[~held]), (valid, odd)):
        scores = model.decision_function(str(path))
        want = np.array([stands[sum(score > place for place in places)] for score in scores])
        figures = model.evaluate(str(path))
        assert np.array_equal(model.predict(str(path)), want) and figures["accuracy"] == np.mean(want == known)
        assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((want - known) ** 2)), abs=1e-12)
    certified = model.header["certificate"]["valid_error"]
    assert certified == pytest.approx(figures["rmse"], abs=1e-12)


def test_a_model_finds_its_columns_by_name(tmp_path, here, ratings):
    lines = [
        line.split(",")
        for line in ("when,stars,film,user", *(f"9,{v:g},{j},{i}" for i, j, v in zip(I, J, VALUES, strict=True)))
    ]
    for name, order in (("train.csv", (0, 3, 2, 1)), ("new.csv", (2, 3, 0, 1))):
        (tmp_path / name).write_text("".join(",".join(line[k] for k in order) + "\n" for line in lines))
    (tmp_path / "pairs.csv").write_text("film,user\n3,1\n")
    (tmp_path / "others.csv").write_text("a,b\n1,3\n")
    (tmp_path / "lacking.csv").write_text("film,day,user id\n3,1,1\n")
    run = ("complete", "train.csv", "--columns", "user,film", "--y", "stars", "-c", "0.5", "--valid", "new.csv")
    done = here(*run, "-o", "f.npz", cwd=tmp_path)
    assert done.returncode == 0 and "400 ratings of 25 rows and 35 columns" in done.stderr
    model = sm.load_model(tmp_path / "f.npz")
    there = model.predict((I, J))
    for name in ("train.csv", "new.csv"):
        assert np.array_equal(model.predict(str(tmp_path / name)), there)
        assert model.evaluate(str(tmp_path / name))["rmse"] == pytest.approx(np.sqrt(np.mean((there - VALUES) ** 2)))
        assert here("verify", "f.npz", name, "--valid", "train.csv", cwd=tmp_path).returncode == 0
    for name in ("pairs.csv", "others.csv"):  # a table of two columns with other names has them in order
        assert model.predict(str(tmp_path / name)) == model.predict(([1], [3]))
    done = here("predict", "f.npz", "lacking.csv", cwd=tmp_path)
    assert done.returncode == 65 and "has no column user; it has film, day, user id" in done.stderr


def test_options_of_rows_are_refused_for_ratings(here, ratings, model):
    for verb, option in (("predict", "--x=a"), ("predict", "--unknown=zero"), ("predict", "--missing-columns=zero"),
                         ("predict", "--probability"), ("evaluate", "--x=a"), ("verify", "--tasks=a"),
                         ("verify", "--sample-weight=a")):  # fmt: skip
        done = here(verb, model, ratings, option)
        assert done.returncode == 2 and f"{option.partition('=')[0]} is not for ratings" in done.stderr, option


def test_ratings_that_are_all_0_are_verified(tmp_path, here):
    (tmp_path / "zero.csv").write_text("row,column,value\na,1,0\nb,1,0\n")
    assert here("complete", "zero.csv", "-o", "f.npz", cwd=tmp_path).returncode == 0
    assert here("verify", "f.npz", "zero.csv", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("loss", ["absolute_error", "squared_error", matrices.HINGE])
@pytest.mark.parametrize("solver", ["factors", "splitting"])
def test_verify_recomputes_the_bound(tmp_path, loss, solver):
    path, ratings = str(tmp_path / "f.npz"), (I, J, VALUES)
    for options in ({"tol": 1e-6, "passes": 4000}, {"tol": 1e-9, "passes": 23}, {"C": 1e-4}):
        result = sm.complete(ratings, loss=loss, solver=solver, **({"C": 0.5} | options))
        result.model.save(path, force=True)
        checks = {check.name: check for check in verify_ratings(path, ratings)}
        assert all(check.agrees is not False for check in checks.values())
        for name in ("dual", "gap"):
            assert checks[name].found == pytest.approx(result.certificate[name], rel=1e-6, abs=1e-8)


def test_verify_reads_ratings_that_do_not_fit_into_memory(tmp_path, monkeypatch):
    path = str(tmp_path / "f.npz")
    sm.complete((I, J, VALUES), C=0.5).model.save(path)
    checks = verify_ratings(path, (I, J, VALUES))
    monkeypatch.setattr(spool, "ENTRIES_BUDGET_SHARE", 1e-9)
    for piece in (verification.ENTRIES_AT_ONCE, 7):
        monkeypatch.setattr(verification, "ENTRIES_AT_ONCE", piece)
        again = verify_ratings(path, (I, J, VALUES))
        assert [check.name for check in again] == [check.name for check in checks]
        assert all(one.found == pytest.approx(two.found, rel=1e-9) for one, two in zip(checks, again, strict=True))
    with pytest.raises(UsageError, match="raise memory to ten times that"):
        verify_ratings(path, (I, J, VALUES), memory=1 << 14)


def tampered(path, change):
    """Which figures differ, once `change` has made other arrays of the model."""
    arrays = dict(np.load(path))
    header = json.loads(str(arrays["header"]))
    change(arrays, header)
    arrays["header"] = np.array(json.dumps(header))
    np.savez(path, **arrays)
    return [check.name for check in verify_ratings(path, (I, J, VALUES)) if check.agrees is False]


def claim(name, factor):
    def change(arrays, header):
        header["certificate"][name] *= factor

    return change


def scale(name, factor, where=slice(None)):
    def change(arrays, header):
        arrays[name] = arrays[name].copy()
        arrays[name][where] *= factor

    return change


@pytest.mark.parametrize(
    "change, wrong",
    [
        (claim("gap", 0.5), ["gap"]),
        (claim("dual", 1.00001), ["dual"]),
        (scale("proof.duals", 0.99), ["dual", "gap"]),
        (scale("proof.duals", 1.5, [7]), ["dual", "gap"]),
        (scale("proof.places", 0), ["dual", "gap"]),
        (scale("left", 1.0001), ["primal", "gap"]),
    ],
)
def test_verify_finds_bounds_that_do_not_hold(tmp_path, change, wrong):
    path = str(tmp_path / "f.npz")
    sm.complete((I, J, VALUES), C=0.5, tol=1e-6, passes=4000).model.save(path)
    assert tampered(path, lambda arrays, header: None) == []
    assert tampered(path, change) == wrong


def test_verify_needs_the_duals_at_kinks(tmp_path, monkeypatch, caplog, here, ratings):
    path = str(tmp_path / "f.npz")
    with monkeypatch.context() as patched:
        patched.setattr(matrix, "KINK", 1 << 40)
        result = sm.complete(str(ratings), C=0.5)
    assert result.converged and "do not fit into the memory" in caplog.text
    result.model.save(path)
    done = here("verify", path, ratings)
    assert done.returncode == 2 and "has no duals" in done.stderr
    loaded = sm.load_model(path)
    loaded.save(tmp_path / "again.npz")
    assert loaded.answer.proof is None


def test_a_checkpoint_and_a_second_file_keep_the_duals(tmp_path):
    held = np.arange(I.size) % 6 == 0
    held &= np.isin(I, I[~held]) & np.isin(J, J[~held])
    train, valid = (I[~held], J[~held], VALUES[~held]), (I[held], J[held], VALUES[held])
    options = {"C": "path:4", "valid": valid, "checkpoint": str(tmp_path / "dir")}
    result = sm.complete(train, **options)
    again = sm.complete(train, **options)
    assert again.model.header["C"] == result.model.header["C"]
    again.model.save(tmp_path / "f.npz")
    sm.load_model(tmp_path / "f.npz").save(tmp_path / "g.npz")
    assert all(check.agrees is not False for check in verify_ratings(str(tmp_path / "g.npz"), train, valid))


def test_names_and_rows_of_factors_have_one_order():
    matrix = sp.coo_array((VALUES, (I, J)), shape=(25, 35))
    model = sm.complete(matrix, C=0.5).model
    assert model.row_names_ == [str(i) for i in range(25)] and model.column_names_ == [str(j) for j in range(35)]
    assert np.allclose((model.left_ @ model.right_.T)[I, J], model.predict((I, J)), atol=1e-12)
    named = sm.complete((USERS, FILMS, VALUES), C=0.5).model
    assert named.row_names_ == sorted(set(USERS.tolist())) and named.column_names_ == sorted(set(FILMS.tolist()))
    order = np.random.default_rng(3).permutation(USERS.size)
    mixed = sm.complete((USERS[order], FILMS[order], VALUES[order]), C=0.5).model
    rows = [named.row_names_.index(user) for user in USERS[order]]
    columns = [named.column_names_.index(film) for film in FILMS[order]]
    want = (named.left_ @ named.right_.T)[rows, columns]
    for model in (named, mixed):
        assert np.allclose(model.decision_function((USERS[order], FILMS[order])), want, atol=1e-12)


def test_held_out_ratings_choose_on_a_path(tmp_path, here):
    held = np.arange(I.size) % 6 == 0
    held &= np.isin(I, I[~held]) & np.isin(J, J[~held])
    train = write_csv(tmp_path / "train.csv", USERS[~held], FILMS[~held], VALUES[~held])
    valid = write_csv(tmp_path / "valid.csv", USERS[held], FILMS[held], VALUES[held])
    done = here(
        "complete", train, "-o", tmp_path / "f.npz", "-C", "path:5", "--valid", valid, "--loss", "squared_error"
    )
    assert done.returncode == 0, done.stderr
    certified = sm.load_model(tmp_path / "f.npz").header["certificate"]
    assert "held-out RMSE" in done.stderr and f"valid RMSE {certified['valid_error']:.4f}" in done.stderr
    done = here("verify", tmp_path / "f.npz", train, "--valid", valid)
    assert done.returncode == 0 and f"{certified['valid_error']:.17g}" in done.stdout


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda u, f, v: (np.append(u, u[3]), np.append(f, f[3]), np.append(v, 2.0)), "is there twice"),
        (lambda u, f, v: (u, f, np.where(np.arange(v.size) == 5, np.nan, v)), "line 7: the rating is"),
    ],
)
def test_bad_ratings_are_named(tmp_path, here, change, told):
    path = write_csv(tmp_path / "bad.csv", *change(USERS, FILMS, VALUES))
    done = here("complete", path, "-o", tmp_path / "f.npz")
    warning, error = done.stderr.splitlines()
    assert done.returncode == 65 and told in error and "left out: when" in warning
    assert not (tmp_path / "f.npz").exists() and sorted(p.name for p in tmp_path.iterdir()) == ["bad.csv"]


def test_a_rating_far_down_is_named_by_its_line(tmp_path):
    path, last = tmp_path / "long.csv", 150_000  # more than one batch of the table
    rows = [f"u{k % 9},f{k % 7},{'' if k == last else 1}\n" for k in range(last + 1)]
    path.write_text("user,film,stars\n" + "".join(rows))
    with pytest.raises(sm.DataError, match=f"line {last + 2}: the rating is missing"):
        sm.complete(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "1::1193::5::978300760\n" * 3,
            "neither a table of ratings, .*; separate fields by a comma, tab, semicolon or bar",
        ),
        ("u,f,v\n1,2,3/5\n", "line 2: the rating is '3/5', not a number; write one, as 3.5"),
    ],
)
def test_ratings_in_other_writing_are_told(tmp_path, text, told):
    """Those of MovieLens have :: between fields, and are no svmlight."""
    (tmp_path / "ratings.dat").write_text(text)
    with pytest.raises(sm.DataError, match=told):
        sm.complete(tmp_path / "ratings.dat")


def test_bad_input_is_one_sentence(tmp_path, here, model, ratings):
    empty = sp.csr_array(([3.0, 2.0, 1.0], ([0, 2, 2], [0, 0, 1])), shape=(3, 2))
    with pytest.raises(sm.DataError, match="row 1 has no rating"):
        sm.complete(empty)
    with pytest.raises(sm.DataError, match="column 2 has no rating"):
        sm.complete(sp.csr_array(([3.0, 2.0], ([0, 1], [0, 1])), shape=(2, 3)))
    pairs = tmp_path / "pairs.csv"
    pairs.write_text('user,film\nu01,"film, 1"\nu99,"film, 2"\n')
    done = here("predict", model, pairs)
    assert done.returncode == 65 and "the row 'u99' had no rating in the training" in done.stderr
    done = here("complete", ratings, "-o", tmp_path / "f.npz", "--loss", "hinge:levels=1,2,4")
    assert done.returncode == 65 and "the rating 3 is not a level" in done.stderr
    done = here("complete", ratings, "-o", tmp_path / "f.npz", "--loss", "hinge")
    assert done.returncode == 2 and "there are 5: name their levels" in done.stderr
    done = here("complete", ratings, "-o", tmp_path / "f.npz", "--memory", "1K")
    assert done.returncode == 2 and "memory" in done.stderr
    assert here("complete", tmp_path / "none.csv", "-o", tmp_path / "f.npz").returncode == 66
    done = here("complete", ratings, "-o", tmp_path / "f.npz", "--columns", "user,movie")
    assert done.returncode == 2 and "has no column movie; it has user, film, stars, when" in done.stderr
    with pytest.raises(sm.DataError, match="must be as many"):
        sm.complete((I, J[:-1], VALUES))
    with pytest.raises(sm.UsageError, match="a path, a table"):
        sm.complete(3)


@pytest.mark.parametrize("more", [["-C", "0.1,1"], ["-C", "path:5"], ["-C", "0.1,1", "--valid", "new.csv"]])
def test_several_costs_name_a_path_and_held_out_ratings(ratings, more, capsys):
    assert main(["complete", str(ratings), *more]) == 2
    told = capsys.readouterr().err
    assert "give --C path:10,low=0.1,high=10 and --valid DATA" in told and "--cv" not in told


def test_folds_of_ratings_are_refused_by_name(ratings, capsys):
    assert main(["complete", str(ratings), "--cv", "5"]) == 2
    told = capsys.readouterr().err
    assert "there is no --cv here: " in told and "; ratings take --C path:10 and --valid DATA" in told
    with pytest.raises(sm.UsageError, match=r'there is no cv here: .*ratings take C="path:10" and valid="DATA"'):
        sm.complete(ratings, cv=5)
    with pytest.raises(sm.UsageError, match="held-out ratings choose among the values of C"):
        sm.complete(ratings, C=[0.1, 1.0])
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        sm.complete(ratings, nothing=5)
    with pytest.raises(sm.UsageError, match="estimators that end in CV"):
        sm.MarginClassifier(cv=5)


def test_models_are_checked_when_they_are_loaded(tmp_path, model):
    arrays = dict(np.load(model))
    for change in (
        {"left": arrays["left"][:, :-1]}, {"right": np.full_like(arrays["right"], np.nan)},
        {"row_names": arrays["row_names"][:-4]},
    ):  # fmt: skip
        np.savez(tmp_path / "damaged.npz", **(arrays | change))
        with pytest.raises(sm.DataError, match="damaged"):
            sm.load_model(tmp_path / "damaged.npz")
    loaded = sm.load_model(model)
    loaded.save(tmp_path / "again.npz")
    assert np.array_equal(sm.load_model(tmp_path / "again.npz").right_, loaded.right_)


def test_a_checkpoint_of_a_command_goes_on(tmp_path, here, ratings):
    run = ["complete", ratings, "-o", "f.npz", "-c", "0.5", "--checkpoint", "dir", "-q"]
    assert here(*run, "--passes", "20", cwd=tmp_path).returncode == 0
    first = sm.load_model(tmp_path / "f.npz").header["passes_done"]
    done = here(*run, "-e", "1e-5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sm.load_model(tmp_path / "f.npz").header["passes_done"] > first == 20
    assert (
        here("complete", ratings, "-o", "g.npz", "-c", "0.7", "--checkpoint", "dir", "-q", cwd=tmp_path).returncode == 0
    )


NAMED = (["a", "b", "a", "c"], ["x", "x", "y", "y"], [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    "place, given, told",
    [
        (0, ["a", None, "a", "c"], "entry 1: the name of the row or column is missing"),
        (0, ["a", "", "a", "c"], "entry 1: the name of the row or column is missing"),
        (0, np.array(["a", 1, "a", "c"], object), "all of one kind"),
        (0, np.array([b"\xff", b"b", b"\xff", b"c"]), "in UTF-8"),
        (0, ["\ud800", "b", "\ud800", "c"], "in UTF-8"),
        (1, [1.0, np.inf, 1.0, 2.0], r"2\^63"),
        (1, [1.0, 1e300, 1.0, 2.0], r"2\^63"),
        (0, [["a"], "b"], "must be as many, in one dimension"),
        (2, [1j, 2.0, 3.0, 4.0], "write them as real numbers"),
        (2, np.array(["2020-01-01"] * 4, "M8[D]"), "write them as real numbers"),
    ],
)
def test_arrays_that_are_no_ratings_are_told(place, given, told):
    arrays = list(NAMED)
    arrays[place] = given
    with pytest.raises(sm.DataError, match=told):
        sm.complete(tuple(arrays))
    if place < 2:  # pairs and held-out ratings are read in the same way
        with pytest.raises(sm.DataError, match=told):
            sm.complete(NAMED, valid=tuple(arrays))


def test_names_with_a_nul_cannot_be_saved():
    with pytest.raises(sm.DataError, match="has a NUL character"):
        sm.complete((np.array(["a\0b", "c", "a\0b", "d"], object), *NAMED[1:]))


def test_names_in_bytes_are_text():
    model = sm.complete((np.array(NAMED[0], "S"), *NAMED[1:])).model
    assert model.row_names_ == ["a", "b", "c"]


def test_files_that_hold_no_ratings_are_told(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = np.ones((3, 2))
    for paths in (str(tmp_path / "x.h5"), [str(tmp_path / "x.h5")] * 2):
        with pytest.raises(sm.DataError, match=r"x\.h5 is neither a table of ratings, nor Matrix Market, nor a matrix"):
            sm.complete(paths)


def test_files_of_two_kinds_and_a_pipe_are_a_sentence(tmp_path):
    (tmp_path / "a.csv").write_text("user,item,rating\n1,2,3\n2,1,4\n")
    (tmp_path / "b.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 3\n")
    with pytest.raises(sm.DataError, match=r"b\.mtx: some are tables and some are matrices"):
        sm.complete([str(tmp_path / "a.csv"), str(tmp_path / "b.mtx")])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(sm.InputMissingError, match="a pipe"):
        sm.complete(str(tmp_path / "pipe"))


def test_options_of_ratings_that_cannot_work(tmp_path, here, ratings, model):
    run = ("complete", ratings, "-o", tmp_path / "f.npz")
    for more in (("--columns", "user,user"), ("--columns", "user,film", "--y", "film")):
        done = here(*run, *more)
        assert done.returncode == 2 and "three different columns" in done.stderr
    done = here(*run, "--spool", ratings)
    assert done.returncode == 73 and "cannot make the folder" in done.stderr
    (tmp_path / "head.csv").write_text("user,film\n")
    done = here("predict", model, tmp_path / "head.csv")
    assert done.returncode == 65 and "has no rows" in done.stderr


def test_the_help_of_complete_speaks_of_ratings(capsys):
    assert main(["complete", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "root mean squared error" in told and "of the ratings (default: the next column" in told
    assert not [word for word in ("interpolate", "C = inf", "labels", "s_i") if word in told]


def test_the_example_in_a_message_on_levels_works(here, ratings, capsys):
    assert main(["complete", "ratings.csv", "--loss", "hinge:foo=1"]) == 2
    word = re.search(r"as in .*(hinge:[\d,]+)", capsys.readouterr().err)[1]
    assert RATINGS.of(word) == RATINGS.of("hinge:levels=1,2,3,4,at=0,3,6,9")
