"""Names of columns go with the rows: from a table's first line, or a file that has them, into every output."""

import os
import re

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import traced, write_h5
from hypothesis import given, settings
from hypothesis import strategies as st
from test_convert import random_matrix, stored
from test_convert_bad_input import csc_file

import streammargin as sm
from streammargin.data_tools.convert import convert
from streammargin.data_tools.shuffle import shuffle
from streammargin.data_tools.split import split
from streammargin.errors import DataError, UsageError
from streammargin.model.linear import LinearModel
from streammargin.sources.hdf5.columns import write_names


def names_in(path):
    """The names in a file, by h5py alone, or None; what is said of them is anndata's."""
    with h5py.File(path) as file:
        if "var" not in file:
            return None
        var = file["var"]
        assert var.attrs["encoding-type"] == "dataframe" and var.attrs["encoding-version"] == "0.2.0"
        assert var.attrs["_index"] == "_index" and len(var.attrs["column-order"]) == 0
        assert dict(var["_index"].attrs) == {"encoding-type": "string-array", "encoding-version": "0.2.0"}
        assert h5py.check_string_dtype(var["_index"].dtype) == ("utf-8", None)
        return var["_index"].asstr()[:].tolist()


def table(folder, text, **options):
    """The names in the file that is made of a table."""
    (folder / "in.csv").write_text(text, newline="")
    convert(str(folder / "in.csv"), str(folder / "out.h5"), force=True, **options)
    return names_in(folder / "out.h5")


def test_a_table_keeps_its_names(tmp_path):
    assert table(tmp_path, '"a, b", c ,label,d,"say ""x""",é\n1,2,0,3,4,5\n') == ["a, b", "c", "d", 'say "x"', "é"]
    assert table(tmp_path, "label,a,\n0,1,2\n") == ["a", "Unnamed: 2"]  # as pandas calls it
    assert table(tmp_path, "a\tb\r\n1\t2\r\n", separator="tab", label=False) == ["a", "b"]
    assert table(tmp_path, "1,2\n3,4\n", label=False) is None


def model(folder, names):
    """The path of a model that was trained on these columns."""
    path = str(folder / "model.npz")
    kept = np.array(names, object)
    LinearModel(np.ones((1, len(names))), np.zeros(1), np.array([0, 1]), {"loss": "hinge"}, kept).save(path, force=True)
    return path


def test_names_take_the_order_of_a_model(tmp_path):
    path = model(tmp_path, ["a", "b", "c"])
    assert table(tmp_path, "c,id,label,a,b\n3,x,0,1,2\n", like=path) == ["a", "b", "c"]
    assert stored(tmp_path / "out.h5")[0].tolist() == [[1, 2, 3]]
    assert table(tmp_path, "3,1,2\n", like=path) is None  # by position: nobody has said that they are these


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=20)


@settings(max_examples=60)
@given(names=st.lists(texts, min_size=1, max_size=8), quoted=st.booleans())
def test_any_names_of_a_table_round_trip(tmp_path_factory, names, quoted):
    names = list(dict.fromkeys(f"n{name}".strip(" \t") for name in names))
    fields = ['"' + name.replace('"', '""') + '"' for name in names]
    text = ",".join(fields) + "\n" + ",".join("1" for _ in names) + "\n"
    assert table(tmp_path_factory.mktemp("names"), text, label=False) == names


NAMES = ["MT-CO1", "é", "", "long " * 40]


def named(path, X, names=NAMES, **columns):
    write_h5(path, X, np.arange(X.shape[0]) % 2, **columns)
    with h5py.File(path, "r+") as file:
        write_names(file, np.array(names, object))
    return str(path)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_every_verb_carries_names_along(tmp_path, form):
    path = named(tmp_path / "in.h5", form(np.arange(80.0).reshape(20, 4) + 1))
    out, test = str(tmp_path / "out.h5"), str(tmp_path / "test.h5")
    for verb in (lambda: convert(path, out, force=True), lambda: shuffle(path, out, force=True),
                 lambda: split(path, out, test, force=True), lambda: shuffle([path, path], out, force=True),
                 lambda: convert(path, out, dtype="float32", force=True)):  # fmt: skip
        verb()
        assert names_in(out) == NAMES
    assert names_in(test) == NAMES
    convert(write_h5(tmp_path / "plain.h5", np.eye(4)), out, force=True)
    assert names_in(out) is None


def test_a_matrix_by_columns_carries_names_along(tmp_path):
    X = random_matrix(3)
    path = csc_file(tmp_path / "in.h5", X.tocsc())
    names = [f"gene {k}" for k in range(40)]
    with h5py.File(path, "r+") as file:
        write_names(file, np.array(names, object))
    convert(path, str(tmp_path / "out.h5"))
    assert names_in(tmp_path / "out.h5") == names
    with h5py.File(path, "r+") as file:
        del file["var"]
        write_names(file, np.array(names[1:], object))
    with pytest.raises(DataError, match="39 names but there are 40 columns"):
        convert(path, str(tmp_path / "out.h5"), force=True)


def test_shards_in_another_order_are_matched_by_name(tmp_path):
    """As a training does since files with genes in another order train together."""
    X = np.arange(16.0).reshape(4, 4)
    one, two = named(tmp_path / "0.h5", np.eye(4), NAMES), named(tmp_path / "1.h5", X, NAMES[::-1])
    shuffle([one, two], str(tmp_path / "out.h5"))
    split([one, two], str(tmp_path / "most.h5"), str(tmp_path / "test.h5"))
    for paths in (["out.h5"], ["most.h5", "test.h5"]):
        rows = []
        for path in paths:
            assert names_in(tmp_path / path) == names_in(one)
            with h5py.File(tmp_path / path) as file:
                rows.append(file["X"][:])
        assert sorted(np.concatenate(rows).tolist()) == sorted([*np.eye(4).tolist(), *X[:, ::-1].tolist()])


def test_named_columns_are_not_widened_or_called_otherwise(tmp_path):
    path = named(tmp_path / "in.h5", sp.csr_matrix(np.eye(4)))
    with pytest.raises(UsageError, match="has 4 names of columns, too few for 6 columns; ask for 4"):
        convert(path, str(tmp_path / "out.h5"), features=6)
    lacks = (
        r"lacks 1 column of the model \(É\); if é is É, rename it; add the missing ones, or convert without like and"
    )
    with pytest.raises(DataError, match=lacks + ' predict with missing_columns="zero"'):
        convert(path, str(tmp_path / "out.h5"), like=model(tmp_path, ["É", *NAMES[2:]]))
    with pytest.raises(DataError, match=r"lacks 2 columns of the model \(a, b\); add the missing ones$"):
        convert(path, str(tmp_path / "out.h5"), like=model(tmp_path, ["a", "b"]))
    assert sorted(os.listdir(tmp_path)) == ["in.h5", "model.npz"]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_named_columns_take_the_order_of_a_model(tmp_path, form, caplog):
    dense = np.asarray if form is np.asarray else sp.csr_matrix.toarray
    X, out = np.arange(1.0, 9).reshape(2, 4), str(tmp_path / "out.h5")
    path = named(tmp_path / "in.h5", form(X))
    convert(path, out, like=model(tmp_path, NAMES[::-1]))
    assert names_in(out) == NAMES[::-1] and not caplog.records
    assert dense(stored(out)[0]).tolist() == X[:, ::-1].tolist()
    convert(path, out, like=model(tmp_path, [NAMES[3], NAMES[0]]), force=True)
    assert dense(stored(out)[0]).tolist() == X[:, [3, 0]].tolist()
    assert "left out, as the model knows no such column: é, ''" in caplog.text


def test_cells_that_lack_columns_are_converted_with_their_layer(tmp_path):
    one = str(tmp_path / "model.npz")
    for names in ([*NAMES, "more"], NAMES):
        path = named(tmp_path / f"{len(names)}.h5", np.eye(len(names)), names)
        with h5py.File(path, "r+") as file:
            file.move("X", "layers/counts")
        if len(names) > len(NAMES):
            sm.train(path, x="layers/counts", tol=0.5).model.save(one)
    with pytest.raises(DataError, match='convert with x="layers/counts" instead of like and predict with missing'):
        convert(path, str(tmp_path / "out.h5"), like=one)
    convert(path, str(tmp_path / "out.h5"), x="layers/counts")
    model = sm.load_model(one)
    assert (
        model.predict(str(tmp_path / "out.h5"), missing_columns="zero").tolist() == model.predict(np.eye(4, 5)).tolist()
    )


@pytest.mark.slow
def test_many_names_are_held_once(tmp_path):
    """The memory for a wide table does not grow with its rows: no copy of the names for each piece."""
    width, peaks = 10_000, []
    for rows in (80, 400, 1200):  # pieces of 80 rows; the first one imports what is needed
        with open(tmp_path / "in.csv", "w") as file:
            file.write(",".join(f"feature number {k}" for k in range(width)) + "\n")
            for _ in range(rows):
                file.write(",".join(["0.25"] * width) + "\n")
        with traced() as allocated:
            convert(str(tmp_path / "in.csv"), str(tmp_path / "out.h5"), label=False, force=True)
        peaks.append(allocated.peak)
        assert names_in(tmp_path / "out.h5")[-1] == f"feature number {width - 1}"
        assert stored(tmp_path / "out.h5")[0].shape == (rows, width)
    assert peaks[2] < peaks[1] + width * 50  # a name takes more


@pytest.mark.parametrize("run, write", [(shuffle, write_h5), (convert, write_h5), (convert, csc_file)])
def test_a_budget_counts_names(tmp_path, run, write):
    width = 100_000
    X = sp.csr_matrix((np.ones(9), (np.arange(9), np.arange(9))), shape=(9, width))
    path, out = write(tmp_path / "in.h5", X.tocsc() if write is csc_file else X), str(tmp_path / "s.h5")

    def least(memory):
        with pytest.raises(UsageError, match="memory=") as caught:
            run(path, out, memory=memory, force=True)
        return int(re.search(r'memory="(\d+)M" or more', str(caught.value))[1])

    bare = least(1 << 19)
    run(path, out, memory=f"{bare}M")
    with h5py.File(path, "r+") as file:
        write_names(file, np.array([f"feature number {k}" for k in range(width)], object))
    named = least(f"{bare}M")
    assert named >= bare + (96 * width >> 20)
    run(path, out, memory=f"{named}M", force=True)
    assert len(names_in(out)) == width


def test_a_table_to_train_on_and_one_to_predict(tmp_path):
    """The columns of the second are in another order, with one more, without the label, and mean the same."""
    random = np.random.default_rng(3)
    X = random.standard_normal((60, 3)).round(3)
    rich = np.where(X @ [3.0, 1.0, -2.0] > 0, ">50K", "<=50K")
    lines = ["age,hours,debts,income", *(",".join([*map(str, row), label]) for row, label in zip(X, rich, strict=True))]
    (tmp_path / "train.csv").write_text("\n".join(lines))
    lines = ["debts,id,age,hours", *(f"{c},x{k},{a},{b}" for k, (a, b, c) in enumerate(X))]
    (tmp_path / "new.csv").write_text("\n".join(lines))
    convert(str(tmp_path / "train.csv"), str(tmp_path / "train.h5"), y="income")
    trained = sm.train(str(tmp_path / "train.h5"), C=100.0).model
    assert trained.feature_names_in_.tolist() == ["age", "hours", "debts"]
    trained.save(tmp_path / "income.npz")
    convert(str(tmp_path / "new.csv"), str(tmp_path / "new.h5"), like=str(tmp_path / "income.npz"))
    scores = X.astype(np.float32) @ trained.coef_[0] + trained.intercept_[0]
    assert trained.predict(str(tmp_path / "new.h5")).tolist() == trained.classes_[(scores > 0) * 1].tolist()
    assert np.mean(trained.predict(str(tmp_path / "new.h5")) == rich) > 0.9
