"""The answer does not depend on how the rows are stored, cut into blocks or read; and no block is read without need."""

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from reference.datasets import as_form, noisy
from reference.norms import length
from reference.sources import CountingSource
from reference.training import binary

import streammargin as sm
from streammargin.data_tools.generate import generate
from streammargin.rows.blocks import PREFETCH_BYTES


def train(*data, **options):
    return sm.train(*data, **{"solver": "sdca", **options})


def assert_same_answer(problem, one, other, results):
    """Both lie within sqrt(2 gap / (p - 1)) of the optimum, P being (p - 1)-strongly convex in ||.||_p."""
    radius = sum(np.sqrt(2 * (r.certificate["primal"] - r.certificate["dual"]) / (problem.p - 1)) for r in results)
    assert length(one - other, problem.p) <= radius + 1e-12
    for w, r in zip((one, other), results, strict=True):
        assert problem.primal(w) == pytest.approx(r.certificate["primal"], rel=1e-10)


@pytest.mark.parametrize("solver", ["sdca", "asdca"])
def test_far_columns_take_the_same_steps(solver):
    X, y = noisy(300, 12)
    X[::7] = 0.0
    X[X < 0.3] = 0.0
    near = sp.csr_matrix(X.astype(np.float32))
    columns = np.linspace(0, PREFETCH_BYTES // 4, 12).astype(np.int32)  # 4 bytes each
    far = sp.csr_matrix((near.data, columns[near.indices], near.indptr), (300, columns[-1] + 1))
    some, others = (train((rows, y), solver=solver, passes=5, tol=1e-5) for rows in (near, far))
    assert np.count_nonzero(some.model.coef_) == 12
    assert others.model.coef_[0, columns].tobytes() == some.model.coef_[0].tobytes()
    assert others.certificate["primal"] == pytest.approx(some.certificate["primal"], rel=1e-12)


@pytest.mark.parametrize("solver", ["sdca", "asdca"])
def test_blocks_on_text_take_as_few_passes_as_memory(solver, tmp_path):
    """One block after the other sdca takes 48 passes here, and asdca 40."""
    path = str(tmp_path / "text.h5")
    generate(path, rows=4000, features=2000, sparse=True, nonzeros=30, noise=0.1, seed=1)
    with h5py.File(path) as file:
        stored = file["X"]
        rows = [stored[name][:] for name in ("data", "indices", "indptr")]
        X, y = sp.csr_matrix(tuple(rows), tuple(stored.attrs["shape"])), file["y"][:]
    whole = train(X, y, solver=solver, bias=0)
    cut = train(CountingSource(X, y, np.linspace(0, 4000, 7).astype(int)), solver=solver, bias=0)
    assert whole.converged and cut.converged and cut.passes <= 1.5 * whole.passes


def bytes_of(source, start, stop):
    block = source.read(start, stop, source.allocate(np.array([start, stop])))
    arrays = [block.X] if hasattr(block, "X") else [block.data, block.indices, block.indptr]
    return sum(a.nbytes for a in arrays)


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_every_pass_shuffles_the_blocks_and_certificates_do_not(form):
    X, y = noisy()
    source = CountingSource(as_form(X, form), y, range(0, 61, 5))
    result = train(source, tol=1e-6, bias=0)
    sweeps = iter(np.reshape(source.order, (-1, 12)).tolist())
    in_order = list(range(0, 60, 5))
    events = [e["event"] for e in result.history]
    passes = []
    for event in events:
        if event == "pass_end":
            passes.append(tuple(next(sweeps)))
            assert sorted(passes[-1]) == in_order
        elif event == "certificate":
            assert next(sweeps) == in_order
    assert len(set(passes)) == result.passes > 3 and source.label_reads == 1
    read = [event["bytes_read"] for event in result.history if event["event"] == "pass_end"]
    assert read == [sum(bytes_of(source, start, start + 5) for start in in_order)] * result.passes


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_a_file_larger_than_the_memory_budget(tmp_path, form):
    rng = np.random.default_rng(0)
    X, y = noisy(20_000, 60)
    y = np.where(rng.random(20_000) < 0.5, y, np.where(X[:, 0] > 0, 1, -1))
    path = tmp_path / "rows.h5"
    rows = as_form(X, form)
    with h5py.File(path, "w") as file:
        file["y"] = y
        if form == "dense":
            file["X"] = rows
        else:
            group = file.create_group("X")
            group.attrs["encoding-type"] = "csr_matrix"
            group.attrs["shape"] = X.shape
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(rows, name)
    results = {memory: train(str(path), memory=memory, C=0.01, tol=1e-4, bias=0) for memory in ("1G", "16M")}
    plans = {memory: r.history[0]["plan"]["blocks"] for memory, r in results.items()}
    assert plans["1G"] == 1 and plans["16M"] > 1
    problem = binary(X, y, C=0.01)
    assert_same_answer(problem, *(r.model.coef_[0] for r in results.values()), list(results.values()))


@pytest.mark.parametrize("norm", [2, 1.5])
def test_a_seed_is_an_answer_to_the_bit(norm):
    X, y = noisy()
    runs = {
        name: train(CountingSource(X, y, (0, 25, 60)), penalty=f"lp:{norm}", tol=1e-5, seed=seed, bias=0)
        for name, seed in (("first", 3), ("again", 3), ("other", 4))
    }
    coef = {name: r.model.coef_[0] for name, r in runs.items()}
    assert coef["first"].tobytes() == coef["again"].tobytes()
    assert runs["first"].certificate == runs["again"].certificate
    assert coef["first"].tobytes() != coef["other"].tobytes()
    problem = binary(X, y, norm=norm)
    assert_same_answer(problem, coef["first"], coef["other"], [runs["first"], runs["other"]])
