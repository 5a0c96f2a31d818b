"""The answer does not depend on how the rows are stored, cut into blocks or read; and no block is read without need."""

from itertools import pairwise

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from reference.datasets import as_form, noisy, separable
from reference.norms import length
from reference.sources import CountingSource
from reference.training import binary

import streammargin as sm
from streammargin.data_tools.generate import generate
from streammargin.rows.blocks import PREFETCH_BYTES


def train(*data, **options):
    return sm.train(*data, **{"solver": "sdca", **options})


PLANS = {"rows": range(61), "two": (0, 30, 60), "uneven": (0, 1, 8, 9, 40, 59, 60)}


def count(result, event):
    return sum(e["event"] == event for e in result.history)


def assert_same_answer(problem, one, other, results):
    """Both lie within sqrt(2 gap / (p - 1)) of the optimum, P being (p - 1)-strongly convex in ||.||_p."""
    radius = sum(np.sqrt(2 * (r.certificate["primal"] - r.certificate["dual"]) / (problem.p - 1)) for r in results)
    assert length(one - other, problem.p) <= radius + 1e-12
    for w, r in zip((one, other), results, strict=True):
        assert problem.primal(w) == pytest.approx(r.certificate["primal"], rel=1e-10)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("norm", [2, 1.5])
def test_dense_and_sparse_rows_agree(loss, norm):
    X, y = noisy()
    results = [
        train((as_form(X, form), y), loss=loss, penalty=f"lp:{norm}", tol=1e-8, bias=0) for form in ("dense", "csr")
    ]
    assert_same_answer(binary(X, y, loss=loss, norm=norm), *(r.model.coef_[0] for r in results), results)


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


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("norm", [2, 1.5])
def test_block_plans_agree_and_read_each_block_once_a_sweep(form, plan, norm):
    X, y = noisy()
    source = CountingSource(as_form(X, form), y, PLANS[plan])
    cut = train(source, penalty=f"lp:{norm}", tol=1e-6, bias=0)
    whole = train((X, y), penalty=f"lp:{norm}", tol=1e-6, bias=0)
    assert cut.converged
    assert_same_answer(binary(X, y, norm=norm), cut.model.coef_[0], whole.model.coef_[0], (cut, whole))
    sweeps = cut.passes + count(cut, "certificate")
    assert count(cut, "pass_end") == cut.passes
    assert source.reads == dict.fromkeys(pairwise(PLANS[plan]), sweeps)
    assert source.label_reads == 1
    assert sum(e["bytes_read"] for e in cut.history if e["event"] == "pass_end") == cut.passes * sum(
        bytes_of(source, *block) for block in pairwise(PLANS[plan])
    )


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


def test_every_pass_shuffles_the_blocks_and_certificates_do_not():
    X, y = noisy()
    source = CountingSource(X, y, range(0, 61, 5))
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
    assert len(set(passes)) == result.passes > 3


@pytest.mark.parametrize("scale", ["maxabs", "std"])
def test_scaling_costs_one_more_read(scale):
    X, y = noisy()
    source = CountingSource(X, y, (0, 25, 60))
    result = train(source, scale=scale, bias=0)
    sweeps = result.passes + count(result, "certificate") + 1
    assert source.reads == {(0, 25): sweeps, (25, 60): sweeps}
    assert source.label_reads == 1


def test_several_values_of_C_and_several_classes_share_every_read():
    X, _ = noisy()
    y = np.arange(60) % 3
    source = CountingSource(X, y, (0, 25, 60))
    held_out = CountingSource(X, y, (0, 10, 60))
    values = [0.01, 0.1, 1.0]
    result = train(source, C=values, valid=held_out, tol=1e-2, bias=0)
    certificates = count(result, "certificate") // len(values)
    assert set(source.reads.values()) == {result.passes + certificates}
    assert set(held_out.reads.values()) == {certificates}
    assert source.label_reads == held_out.label_reads == 1


def test_the_hard_margin_in_blocks():
    X, y = separable()
    source = CountingSource(as_form(X, "csr"), y, (0, 7, 31, 60))
    cut = train(source, C=np.inf, tol=1e-3, passes=20_000)
    problem = binary(X, y, C=np.inf)
    assert cut.converged
    assert cut.certificate["margin_lower"] == pytest.approx(problem.margin(cut.model.coef_[0]), rel=1e-10)
    assert set(source.reads.values()) == {cut.passes + count(cut, "certificate")}


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
