"""A training with a checkpoint never resumes on other rows than those it began with."""

import math
import os
import shutil

import h5py
import numpy as np
import pytest
from conftest import write_h5
from reference.datasets import as_form

import streammargin as sm
from streammargin.reading import plan

FORMS = ("dense", "csr")
WAYS = {
    "sdca": {"solver": "sdca", "passes": 5, "tol": 0},
    "scaled": {"solver": "sdca", "scale": "std", "passes": 5, "tol": 0},
    "newton": {"solver": "newton", "passes": 5, "tol": 0},  # may keep rows of the first read for good
    "adaptive": {"solver": "adaptive", "C": math.inf, "passes": 12, "tol": 0},  # chooses its blocks
}
OTHER = "changed since this training read them"


@pytest.fixture(autouse=True)
def many_blocks(monkeypatch):
    monkeypatch.setattr(plan, "LEAST_BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(plan, "BLOCK_BYTES", 1 << 16)


def rows(n=6000, d=40):
    """Rows that are separated: n d values are some 2 MiB, of which 16 samples of 4 KiB are few."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] > 0, 1, -1)
    X[:, 1] += 2.0 * y
    return X, y


def out_of_core(path, form="dense"):
    return write_h5(path, as_form(rows()[0], form), rows()[1])


def train(path, folder=None, stop=None, memory="13500K", **options):
    return sm.train(path, checkpoint=folder, should_stop=stop, memory=memory, **options)


def alter(path, share=0.37, value=1e3):
    """One value, with the time of the file put back; the value that stood there."""
    with h5py.File(path, "r") as file:
        values = file["X/data"] if isinstance(file["X"], h5py.Group) else file["X"]
        place = values.id.get_offset() + 8 * int(share * values.size)
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(place)
        stood = float(np.frombuffer(file.read(8))[0])
        file.seek(place)
        file.write(np.float64(value).tobytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return stood


class Looks:
    """A `should_stop` that counts, acts once and stops once."""

    def __init__(self, stop=math.inf, moment=math.inf, act=None):
        self.count, self.stop, self.moment, self.act = 0, stop, moment, act

    def __call__(self):
        self.count += 1
        if self.count == self.moment:
            self.act()
        return "signal" if self.count > self.stop else None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
def test_altered_after_the_end_or_in_the_middle(way, form, tmp_path):
    path, folder = out_of_core(tmp_path / "data.h5", form), str(tmp_path / "it")
    looks = Looks()
    straight = train(path, folder, stop=looks, **WAYS[way])
    assert straight.history[0]["plan"]["blocks"] > 10
    stood = alter(path)
    other = train(path, folder, **WAYS[way])  # takes the place of the one that is done
    assert other.replaced and other.model.coef_.tobytes() == train(path, **WAYS[way]).model.coef_.tobytes()
    alter(path, value=stood)  # as it was
    again = train(path, folder, **WAYS[way])
    assert again.replaced and again.model.coef_.tobytes() == straight.model.coef_.tobytes()
    middle = str(tmp_path / "middle")
    assert train(path, middle, stop=Looks(looks.count // 2), **WAYS[way]).resumable
    alter(path)
    with pytest.raises(sm.DataError, match=f"{path}: some of the rows .* {OTHER}"):
        train(path, middle, **WAYS[way])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share, noticed", [(0.05, True), (0.999, False)])
def test_stopped_in_the_first_read(share, noticed, form, tmp_path):
    """Rows that it had come to must be the same; of others it has seen nothing yet."""
    path, folder = out_of_core(tmp_path / "data.h5", form), str(tmp_path / "it")
    train(path, folder, stop=Looks(3), **WAYS["scaled"])  # which begins with the rows in their order
    alter(path, share, value=0.5)
    if noticed:
        with pytest.raises(sm.DataError, match=f"{path}: some of the rows .* {OTHER}"):
            train(path, folder, **WAYS["scaled"])
    else:
        result = train(path, folder, **WAYS["scaled"])
        assert result.model.coef_.tobytes() == train(path, **WAYS["scaled"]).model.coef_.tobytes()


@pytest.mark.parametrize("form", FORMS)
def test_altered_while_it_is_trained(form, tmp_path):
    path, folder = out_of_core(tmp_path / "data.h5", form), str(tmp_path / "it")
    looks = Looks()
    train(path, folder, stop=looks, **WAYS["scaled"])
    looks = Looks(moment=looks.count // 2, act=lambda: alter(path))
    with pytest.raises(sm.DataError, match=f"{path}: some of the rows .* {OTHER}"):
        train(path, str(tmp_path / "other"), stop=looks, **WAYS["scaled"])


@pytest.mark.parametrize("memory", ["26M", "1G"])
def test_held_out_rows_that_were_altered(memory, tmp_path):
    path, valid = out_of_core(tmp_path / "data.h5"), out_of_core(tmp_path / "valid.h5")
    options = {**WAYS["sdca"], "valid": valid, "memory": memory, "C": [0.01, 1.0]}
    train(path, str(tmp_path / "it"), stop=(looks := Looks()), **options)
    shutil.rmtree(tmp_path / "it")
    stop = None if memory == "1G" else Looks(looks.count - 1)
    assert train(path, str(tmp_path / "it"), stop=stop, **options).resumable == (stop is not None)
    alter(valid)
    if stop is None:  # it was done
        assert train(path, str(tmp_path / "it"), **options).replaced
        return
    with pytest.raises(sm.DataError, match=f"{valid}: some of the rows .* {OTHER}"):
        train(path, str(tmp_path / "it"), **options)
    with h5py.File(valid, "r+") as file:
        file["y"][17] = -file["y"][17]
    with pytest.raises(sm.DataError, match="the data have other held-out labels than those"):
        train(path, str(tmp_path / "it"), **options)


@pytest.mark.parametrize("scale", ["none", "maxabs"])
@pytest.mark.parametrize("form", ["dense", "csr", "thinned"])
def test_arrays_that_were_altered(form, scale, tmp_path):
    X, y = rows()
    if form == "thinned":
        X[:, 2:] *= np.random.default_rng(0).random((len(X), X.shape[1] - 2)) < 0.1
    X = as_form(X, "csr" if form == "csr" else "dense")
    options = {"solver": "sdca", "passes": 3, "tol": 0, "scale": scale, "checkpoint": str(tmp_path)}
    before = sm.train((X, y), **options)
    assert sm.train((X.copy(), y), **options).model.coef_.tobytes() == before.model.coef_.tobytes()
    options["checkpoint"] = str(tmp_path / "unfinished")
    assert sm.train((X, y), should_stop=lambda: "signal", **options).resumable
    if form == "csr":
        X.data[12_345] += 1e-9
    else:
        X[1234, 5] += 1e-9
    with pytest.raises(sm.DataError, match=f"X: some of the rows .* {OTHER}"):
        sm.train((X, y), **options)


def test_files_whose_times_are_the_same_are_not_read_for_it(tmp_path):
    path, folder = out_of_core(tmp_path / "data.h5"), str(tmp_path / "it")
    straight = train(path, folder, **WAYS["sdca"])
    looks, phases = Looks(), []

    def note(event):
        phases.append(event.get("phase"))

    again = train(path, folder, stop=looks, **WAYS["sdca"])
    assert looks.count == 0 and again.certificate == straight.certificate
    os.utime(path)
    options = {**WAYS["sdca"], "memory": "13500K"}
    again = sm.train(path, checkpoint=folder, should_stop=looks, listeners=[note], **options)
    assert looks.count == straight.history[0]["plan"]["blocks"] == phases.count("identity")
    passes = [[e["reads"] for e in result.history if e["event"] == "pass_end"] for result in (again, straight)]
    assert again.certificate == straight.certificate and passes[0] == passes[1]


def test_stopped_in_the_read_before_it_goes_on(tmp_path):
    path, folder = out_of_core(tmp_path / "data.h5"), str(tmp_path / "it")
    straight = train(path, **WAYS["sdca"])
    train(path, folder, stop=Looks(40), **WAYS["sdca"])
    os.utime(path)
    for count in (0, 5):
        stopped = train(path, folder, stop=Looks(count), **WAYS["sdca"])
        assert stopped.reason == "signal" and stopped.resumable and stopped.certificate.primal is None
    resumed = train(path, folder, **WAYS["sdca"])
    assert resumed.model.coef_.tobytes() == straight.model.coef_.tobytes()
    assert resumed.certificate == straight.certificate
    stopped = train(path, folder, stop=Looks(0), **WAYS["sdca"])  # at its end
    os.utime(path)
    stopped = train(path, folder, stop=Looks(0), **WAYS["sdca"])
    assert stopped.reason == "signal" and stopped.certificate.primal is None and not stopped.converged


def test_a_path_stopped_in_that_read_has_no_figures(tmp_path):
    """Those of the rows that it began with are not those of the rows that are there now."""
    path, folder = out_of_core(tmp_path / "data.h5"), str(tmp_path / "it")
    options = {"penalty": "l1", "C": "path:3,low=0.001,high=1", "valid": path, "memory": "1G"}
    assert train(path, folder, **options).certificate.valid_error is not None
    alter(path)
    stopped = train(path, folder, stop=Looks(0), **options)
    known = stopped.certificate.to_dict()
    assert stopped.reason == "signal" and not stopped.converged
    assert known["primal"] is None and known["mistakes"] is None and known["valid_error"] is None
    assert not stopped.model.header["certificate"]["per_class"] and stopped.history[-1]["trials"] is None


def test_nothing_is_compared_without_a_checkpoint(tmp_path, monkeypatch):
    from streammargin.sources.views import WatchedSource

    monkeypatch.setattr(WatchedSource, "__init__", None)  # a call would fail
    train(out_of_core(tmp_path / "data.h5"), **WAYS["sdca"])
