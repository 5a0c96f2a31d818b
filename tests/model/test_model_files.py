"""The model file and what a model answers."""

import json
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import call, traced, write_h5

import streammargin as sm
from streammargin.errors import DataError, OutputError, UsageError
from streammargin.model.base import Model
from streammargin.model.exports.files import export
from streammargin.model.io import load_model
from streammargin.model.linear import LinearModel
from streammargin.points.table import KINDS
from streammargin.saved import fields
from streammargin.sources.open import open_source


@pytest.fixture
def model():
    random = np.random.default_rng(0)
    return LinearModel(random.standard_normal((3, 6)), random.standard_normal(3), np.array(["a", "b", "c"]), {"C": 2.0})


def test_floats_come_back_exactly_and_no_pickle_is_involved(model, tmp_path):
    model.save(tmp_path / "m.npz")
    again = sm.load_model(tmp_path / "m.npz")
    assert np.array_equal(again.coef_, model.coef_) and np.array_equal(again.intercept_, model.intercept_)
    assert again.classes_.tolist() == ["a", "b", "c"] and again.header == {"C": 2.0}
    with np.load(tmp_path / "m.npz", allow_pickle=False) as arrays:
        assert json.loads(str(arrays["header"]))["format"] == "streammargin-model"


def test_infinity_in_the_header_comes_back(model, tmp_path):
    model.header["C"] = float("inf")
    model.save(tmp_path / "m.npz")
    assert sm.load_model(tmp_path / "m.npz").header["C"] == float("inf")


def test_an_existing_file_is_replaced_only_with_force(model, tmp_path):
    model.save(tmp_path / "m.npz")
    with pytest.raises(OutputError, match="exists"):
        model.save(tmp_path / "m.npz")
    model.save(tmp_path / "m.npz", force=True)


@pytest.mark.parametrize("damage", ["cut", "other", "newer", "text"])
def test_files_that_are_no_models(model, tmp_path, damage):
    path = tmp_path / "m.npz"
    model.save(path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:300])
    elif damage == "text":
        path.write_text("w 1 2 3")
    else:
        header = {"format": "streammargin-model" if damage == "newer" else "cake", "schema": 99}
        np.savez(path, coef=model.coef_, intercept=model.intercept_, classes=model.classes_, header=json.dumps(header))
    with pytest.raises(DataError, match="newer streammargin" if damage == "newer" else "is not a model"):
        load_model(path)


@pytest.mark.parametrize("kind", ["dense", "sparse", "file"])
def test_scores_are_x_w_plus_b(model, tmp_path, kind):
    X = np.random.default_rng(1).standard_normal((500, 6)) * (np.random.default_rng(2).random((500, 6)) < 0.5)
    given = {"dense": X, "sparse": sp.csr_matrix(X), "file": write_h5(tmp_path / "x.h5", sp.csr_matrix(X))}[kind]
    expected = X @ model.coef_.T + model.intercept_
    assert np.allclose(model.decision_function(given), expected, rtol=0, atol=1e-12)
    assert np.array_equal(model.predict(given), model.classes_[expected.argmax(axis=1)])


def test_another_width_is_refused(model):
    with pytest.raises(DataError, match="7 features but the model was trained on 6"):
        model.predict(np.ones((2, 7)))


def liblinear_scores(path, X):
    """liblinear's own rule on its text file: w.x + w_bias bias, the first label if that is positive."""
    lines = path.read_text().splitlines()
    head = dict(line.split(" ", 1) for line in lines[: lines.index("w")])
    w = np.array([[float(v) for v in line.split()] for line in lines[lines.index("w") + 1 :]])
    labels, bias = [int(v) for v in head["label"].split()], float(head["bias"])
    if bias >= 0:
        X = np.hstack([X, np.full((len(X), 1), bias)])
    scores = X @ w
    pick = np.where(scores[:, 0] > 0, 0, 1) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return np.array(labels)[pick]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("bias", [None, 1.0])
def test_liblinear_export_predicts_the_same(tmp_path, classes, bias):
    random = np.random.default_rng(3)
    X = random.standard_normal((300, 5))
    y = np.digitize(X[:, 0] + 0.3, [0.0, 0.7][: classes - 1]) + 4
    trained = sm.train((X, y), bias=bias).model
    export(trained, "liblinear", str(tmp_path / "m.txt"))
    assert np.array_equal(liblinear_scores(tmp_path / "m.txt", X), trained.predict(X))


def test_liblinear_export_refuses_what_liblinear_has_not(model, tmp_path):
    with pytest.raises(UsageError, match="labels are integers"):
        export(model, "liblinear", str(tmp_path / "m.txt"))
    model.header["loss"] = "smooth_hinge"
    with pytest.raises(UsageError, match="liblinear has no loss smooth_hinge"):
        export(model, "liblinear", str(tmp_path / "m.txt"))
    assert list(tmp_path.iterdir()) == []


def test_the_archive_is_an_ordinary_zip(model, tmp_path):
    model.save(tmp_path / "m.npz")
    assert set(zipfile.ZipFile(tmp_path / "m.npz").namelist()) == {
        "coef.npy", "intercept.npy", "classes.npy", "header.npy",
    }  # fmt: skip


def write_parts(path, model, **changes):
    """The model's archive with some arrays, or keys of its header, changed."""
    arrays = {"coef": model.coef_, "intercept": model.intercept_, "classes": model.classes_}
    header = {"format": "streammargin-model", "schema": 1, "loss": "hinge", "p": 2.0}
    for key, value in changes.items():
        (arrays if key in arrays else header)[key] = value
    np.savez(path, **arrays, header=json.dumps(header))


@pytest.mark.parametrize(
    "changes",
    [
        {"coef": np.ones(6)},
        {"coef": np.ones((3, 6, 1))},
        {"coef": np.ones((3, 0))},
        {"coef": np.ones((1, 6)), "intercept": np.ones(1)},
        {"coef": np.ones((3, 6)) * 1j},
        {"coef": np.full((3, 6), np.nan)},
        {"coef": np.full((3, 6), "a")},
        {"coef": np.full((3, 6), np.longdouble("1e4000"))},
        {"intercept": np.ones(2)},
        {"intercept": np.full(3, np.inf)},
        {"classes": np.array(["a", "b"])},
        {"classes": np.array(["a", "b", "b"])},
        {"classes": np.array([1.0, 2.0, np.nan])},
        {"classes": np.array([["a", "b", "c"]])},
        {"classes": np.array([1j, 2, 3])},
        {"classes": np.frombuffer(b"\xff\xff\xff\x7fa\0\0\0b\0\0\0", "<U1")},
        {"p": None},
        {"p": 1.0},
        {"p": [2]},
        {"loss": "smooth_hinge:foo"},
        {"loss": "smooth_hinge:-1"},
        {"loss": "quantile:2"},
        {"loss": "hinge:cake"},
        {"loss": {}},
        {"positive": []},
        {"certificate": 5},
        {"schema": "1"},
        {"schema": None},
        {"format": None},
    ],
)
def test_models_that_are_not_consistent_are_refused(model, tmp_path, changes):
    write_parts(tmp_path / "m.npz", model, **changes)
    with pytest.raises(DataError, match=r"is a damaged model|is not a model"):
        load_model(tmp_path / "m.npz")


def test_the_model_that_they_were_made_of_is_fine(model, tmp_path):
    write_parts(tmp_path / "m.npz", model)
    assert np.array_equal(load_model(tmp_path / "m.npz").coef_, model.coef_)


@pytest.mark.parametrize("member", ["coef", "intercept", "classes", "header"])
def test_members_that_are_no_arrays(model, tmp_path, member):
    model.save(tmp_path / "m.npz")
    with zipfile.ZipFile(tmp_path / "m.npz") as whole, zipfile.ZipFile(tmp_path / "n.npz", "w") as archive:
        for name in whole.namelist():
            archive.writestr(name, b"rubbish" if name == f"{member}.npy" else whole.read(name))
    with pytest.raises(DataError, match="is not a model"):
        load_model(tmp_path / "n.npz")


@pytest.mark.parametrize("header", ["[]", "5", "null", "[" * 100_000, "{", '"' + "a" * 10 + '"'])
def test_headers_that_are_none(model, tmp_path, header):
    np.savez(
        tmp_path / "m.npz", coef=model.coef_, intercept=model.intercept_, classes=model.classes_, header=header
    )  # fmt: skip
    with pytest.raises(DataError, match="is not a model"):
        load_model(tmp_path / "m.npz")


@pytest.mark.parametrize("field, value", [("method", 77), ("encrypted", 1)])
def test_archives_that_cannot_be_unpacked(model, tmp_path, field, value):
    path = tmp_path / "m.npz"
    model.save(path)
    raw = bytearray(path.read_bytes())
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # of a file and of the directory: flags, method
        start = raw.find(signature)
        while start >= 0:
            raw[start + place + (2 if field == "method" else 0)] = value
            start = raw.find(signature, start + 1)
    path.write_bytes(raw)
    with pytest.raises(DataError, match="is not a model"):
        load_model(path)


def test_pickles_are_never_opened(model, tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    for number, name in enumerate(("coef", "classes")):
        path = tmp_path / f"{number}.npz"
        write_parts(path, model, **{name: np.array([Trap()], object)})
        with pytest.raises(DataError, match="is not a model"):
            load_model(path)
    assert not (tmp_path / "sprung").exists()


class Nearest:
    """Minus the distances to centres (k, d): an answer that is not linear."""

    def __init__(self, centres):
        self.centres, (self.outputs, self.features) = centres, centres.shape

    @classmethod
    def restored(cls, arrays):
        return cls(arrays["centres"])

    def score(self, block, first, scores):
        rows = block.X[first : first + len(scores)]
        scores[:] = -np.linalg.norm(rows[:, None] - self.centres, axis=2)

    def length(self, p):
        return 1.0

    def arrays(self):
        return {"centres": self.centres}


def test_another_kind_of_answer_is_a_class_and_lines_of_the_tables(tmp_path, monkeypatch):
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    monkeypatch.setitem(KINDS, "nearest", Nearest)
    monkeypatch.setitem(fields.KINDS, "nearest", {"nearest"})
    own = fields.SavedArray("centres", "nearest", fields.FLOAT, "K d")
    monkeypatch.setattr(fields, "ARRAYS", (*fields.ARRAYS, own))
    Model(Nearest(centres), np.array([7, 8, 9]), {}).save(tmp_path / "m.npz")
    model = sm.load_model(tmp_path / "m.npz")
    assert np.array_equal(model.answer.centres, centres)
    X = centres[[2, 0, 1, 1]] + 0.3
    assert model.predict(X).tolist() == [9, 7, 8, 8]
    assert model.evaluate((X, np.array([9, 7, 8, 7])))["mistakes"] == 1
    assert sm.load_model(tmp_path / "m.npz").header == {}
    with pytest.raises(UsageError, match="that is not linear cannot be exported as LIBLINEAR"):
        export(model, "liblinear", str(tmp_path / "m.txt"))
    Model(Nearest(np.full((3, 2), np.inf)), np.array([7, 8, 9]), {}).save(tmp_path / "n.npz")
    with pytest.raises(DataError, match="damaged model: its array centres has a number that is not finite"):
        sm.load_model(tmp_path / "n.npz")
    monkeypatch.delitem(fields.KINDS, "nearest")
    with pytest.raises(DataError, match="unknown kind 'nearest'"):
        sm.load_model(tmp_path / "m.npz")


def test_a_file_without_a_kind_is_linear(model, tmp_path):
    write_parts(tmp_path / "m.npz", model)
    assert np.array_equal(sm.load_model(tmp_path / "m.npz").coef_, model.coef_)


def forge(path, rows, columns, dtype="<f8", header=None):
    """A model of zeros, packed: a small file that says, and holds, how large it would be."""
    LinearModel(np.ones((1, 2)), np.zeros(1), np.array([0, 1]), {}).save(path.with_suffix(".small"))
    with (
        zipfile.ZipFile(path.with_suffix(".small")) as small,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as large,
    ):
        for name in ("intercept.npy", "classes.npy", "header.npy"):
            large.writestr(name, small.read(name))
        with large.open("coef.npy", "w", force_zip64=True) as file:
            if header is None:
                shape = {"descr": dtype, "fortran_order": False, "shape": (rows, columns)}
                np.lib.format.write_array_header_1_0(file, shape)
            else:
                file.write(b"\x93NUMPY\x02\x00" + header.to_bytes(4, "little"))
            left = rows * columns * np.dtype(dtype).itemsize
            for size in [1 << 22] * (left >> 22) + [left % (1 << 22)]:
                file.write(bytes(size))
    return path


def peak_of(job):
    """The peak of bytes that Python and NumPy held, beyond those held before."""
    with traced() as allocated:
        job()
    return allocated.peak


@pytest.mark.parametrize("dtype", ["<f8", "|i1"])
def test_a_model_larger_than_memory_is_refused_before_it_is_read(tmp_path, dtype):
    path = forge(tmp_path / "m.npz", 1, 50_000_000, dtype)
    assert path.stat().st_size < 1 << 20

    def refused():
        with pytest.raises(UsageError, match=r"m\.npz: reading it needs 811M; use memory=.?811M.? or more"):
            load_model(path, "64M")

    assert peak_of(refused) < 1 << 20
    done = call("predict", path, path, "--memory", "64M")
    assert done.returncode == 2 and "use --memory 811M or more" in done.stderr, done.stderr


@pytest.mark.parametrize("shape", [(1, 400_000), (40, 10_000)])
def test_the_memory_that_is_named_is_enough_to_read_a_model(tmp_path, shape):
    path = tmp_path / "m.npz"
    LinearModel(np.ones(shape), np.zeros(shape[0]), np.arange(max(2, shape[0])), {}).save(path)
    with pytest.raises(UsageError, match="or more") as told:
        load_model(path, "1M")
    least = int(str(told.value).split("memory=")[1].strip("'\"").split("M")[0])
    assert load_model(path, f"{least}M").coef_.shape == shape
    assert peak_of(lambda: load_model(path, f"{least}M")) <= least << 20


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_the_weights_are_of_the_budget_of_predictions(tmp_path, verb, blobs):
    wide = 1_000_000
    X = sp.csr_matrix((np.ones(200, np.float32), np.arange(200, dtype=np.int32), np.arange(201)), shape=(200, wide))
    data = write_h5(tmp_path / "x.h5", X, blobs[1])
    LinearModel(np.ones((1, wide)), np.zeros(1), np.array([-1, 1]), {}).save(tmp_path / "m.npz")
    held, memory = 2 * 8 * wide, 20 << 20  # read they take 17M, and with the least of blocks more than 20M
    model = load_model(tmp_path / "m.npz", memory)
    done = call(verb, tmp_path / "m.npz", data, "--memory", "20M")
    assert done.returncode == 2 and "the smallest plan needs" in done.stderr, done.stderr
    least = int(done.stderr.split("--memory ")[1].split("M")[0])
    assert (
        least << 20 > held + (12 << 20)
        and call(verb, tmp_path / "m.npz", data, "--memory", f"{least}M").returncode == 0
    )
    assert len(model.predict(data)) == 200  # from Python they are there already


@pytest.mark.slow
def test_scores_of_many_classes_and_long_names_take_little_at_a_time():
    """Of rows in memory, which are one block: 800 bytes of scores a row, 400 kB of a label."""
    rows = sp.csr_matrix((20_000, 4))
    model = LinearModel(np.ones((100, 4)), np.zeros(100), np.arange(100), {"loss": "hinge"})
    labels = np.zeros(20_000, int)
    model.evaluate((rows, labels))  # compiles
    assert peak_of(lambda: model.evaluate((rows, labels))) < 10 << 20
    names = LinearModel(np.ones((1, 4)), np.zeros(1), np.array(["a", "b" * 100_000]), {})
    with open_source(rows) as source:
        assert peak_of(lambda: [names.labels_of(part.scores).size for part in names.score_blocks(source)]) < 10 << 20


def test_a_header_of_an_array_that_takes_all_memory_is_not_read(tmp_path):
    path = forge(tmp_path / "m.npz", 1, 25_000_000, header=200_000_000)

    def refused():
        with pytest.raises(DataError, match="is not a model"):
            load_model(path)

    assert peak_of(refused) < 1 << 20


def test_an_array_that_says_more_than_the_archive_has_is_refused(tmp_path, model):
    model.save(tmp_path / "m.npz")
    with zipfile.ZipFile(tmp_path / "m.npz") as whole, zipfile.ZipFile(tmp_path / "n.npz", "w") as archive:
        for name in whole.namelist():
            raw = whole.read(name)
            archive.writestr(name, raw.replace(b"(3, 6)", b"(3, 9)") if name == "coef.npy" else raw)
    with pytest.raises(DataError, match="is not a model"):
        load_model(tmp_path / "n.npz")
