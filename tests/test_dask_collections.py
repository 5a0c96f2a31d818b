"""Trainings on collections of dask: each worker writes the rows of its partitions once; and lazy predictions."""

import os
import sys
import time
from itertools import pairwise

import h5py
import numpy as np
import pytest
from conftest import slow, write_h5

import streammargin as sm
from streammargin.model.io import load_model

pytest.importorskip("distributed")
pytest.importorskip("dask.dataframe")

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import pandas as pd
import scipy.sparse as sp
from clusters import NEEDED, bits, killing, on_one_worker
from distributed import Client, LocalCluster
from sklearn.model_selection import StratifiedKFold

from streammargin.dask import cluster as on_cluster
from streammargin.dask import partitions, pieces, spool

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.usefixtures("small_blocks"),
]
ENDS = [0, 700, 1400, 2100, 2800, 3000]


@pytest.fixture(scope="module")
def rows():
    """X (3000, 10), labels of two classes, sorted so that the first partitions have one alone."""
    random = np.random.default_rng(7)
    y = np.sort(random.integers(0, 3, 3000)) > 0
    X = random.standard_normal((3000, 10)) + 0.8 * np.eye(2, 10)[y.astype(int)]
    return X.astype(np.float32), np.where(y, "yes", "no")


PAIR = da.ones((9, 10), chunks=3), da.arange(9, chunks=3)


@pytest.fixture(scope="module")
def frame(rows):
    X, y = rows
    return pd.DataFrame(X, columns=list("abcdefghij")).assign(label=y)


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    """The same rows in files, of as many rows as a chunk each."""
    folder = tmp_path_factory.mktemp("rows")
    return [
        write_h5(folder / f"{first}.h5", *(part[first:stop] for part in (rows[0], rows[1].astype("S"))))
        for first, stop in pairwise(ENDS)
    ]


def arrays(rows):
    return da.from_array(rows[0], chunks=(700, 4)), da.from_array(rows[1], chunks=900)


def in_batches(rows):
    """Delayed batches, one of them empty."""
    ends = [*ENDS[:3], ENDS[2], *ENDS[3:]]
    make = dask.delayed(lambda first, stop: (rows[0][first:stop], rows[1][first:stop]))
    return [make(first, stop) for first, stop in pairwise(ends)]


def some_frames(frame):
    """Delayed frames, one of them empty."""
    ends = [*ENDS[:3], ENDS[2], *ENDS[3:]]
    make = dask.delayed(lambda first, stop: frame.iloc[first:stop])
    return [make(first, stop) for first, stop in pairwise(ends)]


def in_frames(frame):
    """A DataFrame of unknown divisions, with an empty partition."""
    return dd.from_delayed(some_frames(frame), meta=frame.iloc[:0], verify_meta=False)


KINDS = {
    "Arrays": lambda rows, frame: arrays(rows),
    "sparse": lambda rows, frame: (arrays(rows)[0].rechunk((700, 10)).map_blocks(sp.csr_matrix), arrays(rows)[1]),
    "batches": lambda rows, frame: in_batches(rows),
    "Bag of batches": lambda rows, frame: db.from_delayed([dask.delayed(lambda b: [b])(b) for b in in_batches(rows)]),
    "DataFrame": lambda rows, frame: in_frames(frame),
    "DataFrame and Series": lambda rows, frame: (in_frames(frame).drop(columns="label"), in_frames(frame)["label"]),
    "Bag of frames": lambda rows, frame: db.from_delayed([dask.delayed(lambda f: [f])(f) for f in some_frames(frame)]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_collection_gives_the_bits_of_files_of_its_partitions(client, rows, frame, files, kind, monkeypatch):
    found = sm.dask.train(client, KINDS[kind](rows, frame), **NEEDED)
    if kind == "sparse":
        with on_one_worker(monkeypatch):
            again = sm.dask.train(client, KINDS[kind](rows, frame), **NEEDED)
        assert bits(again) == bits(found)
        assert found.certificate.primal == pytest.approx(sm.train(rows, **NEEDED).certificate.primal, rel=2e-4)
    else:
        assert bits(found) == bits(sm.dask.train(client, files, **NEEDED))


def test_a_worker_is_asked_for_partitions_that_follow_each_other(client, monkeypatch):
    """Else its shards alternate with those of others: it sends a sum for each, and partitions are computed twice."""
    asked, compute = [], client.compute

    def computed(tasks, **given):
        asked.append((len(tasks), given["workers"]))
        return compute(tasks, **given)

    monkeypatch.setattr(client, "compute", computed)
    numbers, mine = partitions.Partitions("the batches", [dask.delayed(k) for k in range(9)]), spool.Spool(client, None)
    assert mine._each(lambda data, part: data, numbers, mine._named(numbers)) == list(range(9))
    assert [count for count, _ in asked] == [5, 4]
    assert {address for _, [address] in asked} == set(client.scheduler_info()["workers"])


def test_pieces_are_removed_at_the_end(client, rows, tmp_path):
    def left():
        folders = client.run(lambda dask_worker: dask_worker.local_directory).values()
        return [file for folder in {*folders, str(tmp_path)} for _, _, names in os.walk(folder) for file in names
                if file.endswith(".h5")]  # fmt: skip

    seen = []
    sm.dask.train(client, arrays(rows), listeners=[lambda event: seen.append(len(left()))], **NEEDED)
    assert min(seen) == 5
    sm.dask.train(client, arrays(rows), spool=str(tmp_path / "new"),
                  listeners=[lambda event: seen.append(len(left()))], **NEEDED)  # fmt: skip
    assert min(seen) == 5 and not left() and (tmp_path / "new").is_dir()
    (tmp_path / "new").rmdir()
    bad = [*in_batches(rows), dask.delayed((np.full((3, 4), np.nan), np.arange(3) % 2))]
    for folder in (None, str(tmp_path)):
        with pytest.raises(sm.DataError, match="is nan"):
            sm.dask.train(client, bad, spool=folder, **NEEDED)
        for _ in range(100):  # no one waits for workers to remove theirs
            if not left() and not os.listdir(tmp_path):
                break
            time.sleep(0.1)
        assert not left() and not os.listdir(tmp_path)


@pytest.mark.parametrize("shared", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["of workers", "shared"])
def test_pieces_of_a_worker_that_is_killed_are_written_again(
    client, mortals, frame, files, shared, monkeypatch, tmp_path
):  # fmt: skip
    spool = {"spool": str(tmp_path)} if shared else {}
    killed = killing(monkeypatch, mortals, 3)
    found = sm.dask.train(mortals, in_frames(frame), **NEEDED, **spool)
    assert killed and bits(found) == bits(sm.dask.train(client, files, **NEEDED))


def test_a_scheduler_that_ends_is_a_sentence(rows):
    passes = []
    with (
        LocalCluster(n_workers=1, processes=False, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as other,
    ):

        def end(event):
            passes.extend([1] * (event["event"] == "pass_end"))
            if len(passes) == 2:
                cluster.close()

        with pytest.raises(sm.ReadWriteError, match="the scheduler of the dask cluster ended"):
            sm.dask.train(other, arrays(rows), listeners=[end], **NEEDED)


def test_a_piece_that_is_gone_is_written_again(client, rows):
    removed = []

    def remove(event):
        if event["event"] == "pass_end" and not removed:
            for folder in client.run(lambda dask_worker: dask_worker.local_directory).values():
                removed.extend(os.path.join(place, file) for place, _, names in os.walk(folder) for file in names
                               if file == "2.h5")  # fmt: skip
            os.unlink(removed[0])

    found = sm.dask.train(client, arrays(rows), listeners=[remove], **NEEDED)
    assert len(removed) == 1 and bits(found) == bits(sm.dask.train(client, arrays(rows), **NEEDED))


def test_a_partition_with_other_rows_the_second_time_is_an_error(mortals, monkeypatch):
    def batch():
        X = np.random.default_rng(int.from_bytes(os.urandom(4))).standard_normal((3000, 5))
        return X, X[:, 0] > 0.1 * X[:, 1]

    killing(monkeypatch, mortals, 2)
    with pytest.raises(sm.DataError, match=r"partition \d of the batches has other rows than when it was first"):
        sm.dask.train(mortals, [dask.delayed(batch, pure=False)() for _ in range(4)], C=100, memory="64M", tol=1e-9)


def test_a_map_is_learned_from_present_rows_and_its_blocks_may_span_pieces(client, rows, monkeypatch):
    made, init = [], on_cluster.Cluster.__init__

    def kept(self, client, spool, reader):
        init(self, client, spool, reader)
        made.append((self, [spool.files_of(name, name) for name in (reader.source.place(k)[0] for k in range(3000))]))

    monkeypatch.setattr(on_cluster.Cluster, "__init__", kept)
    weight = np.where(np.arange(3000) % 7 < 2, 0.0, 1.0)
    given = {"map": "nystroem:40", "sample_weight": weight, **NEEDED}
    found, alone = sm.dask.train(client, arrays(rows), **given), sm.train(rows, **given)
    assert found.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-4)
    ours, theirs = (each.model.answer.fitted.learned for each in (found, alone))
    np.testing.assert_array_equal(ours["landmarks"], theirs["landmarks"])
    several = 0
    for cluster, files in made:
        for shard, (first, stop) in enumerate(pairwise(cluster.blocks[cluster.ends].tolist())):
            assert cluster._needed([shard]) == set().union(*files[first:stop])
            several += len(cluster._needed([shard])) > 1
    assert several


def test_frames_with_other_columns_are_refused(client, frame):
    with pytest.raises(sm.UsageError, match="with frames of dask, held-out rows must be a collection or Parquet"):
        sm.dask.train(client, in_frames(frame), valid=frame, **NEEDED)
    other = dask.delayed(frame.rename(columns={"a": "A"}))
    with pytest.raises(sm.DataError, match="partition 1 of the batches differs from others by the column A; give all"):
        sm.dask.train(client, [dask.delayed(frame), other], y="label", **NEEDED)


def test_words_and_gaps_make_the_schema_of_one_machine(client, frame, monkeypatch):
    words = frame.assign(word=np.where(frame.a > 0, "long", "short"), gap=frame.b.where(frame.c > -1), code=1)
    words.loc[2500:, "word"] = None
    words.loc[1500:1600, "code"] = 2
    data = dd.from_pandas(words, npartitions=5)
    given = {"y": "label", "missing": "indicator", **NEEDED}
    two = sm.dask.train(client, data, valid=data, **given)
    with on_one_worker(monkeypatch):
        one = sm.dask.train(client, data, valid=data, **given)
    alone = sm.train(words, valid=words, **given)
    assert bits(one) == bits(two)
    assert two.model.schema == alone.model.schema
    assert two.model.feature_names_in_.tolist() == alone.model.feature_names_in_.tolist()
    assert two.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-4)
    assert two.certificate.valid_error == pytest.approx(alone.certificate.valid_error, abs=0.01)
    lazy = sm.dask.predict(two.model, data)
    assert (lazy.compute() == two.model.predict(words)).all()


def test_spelt_numbers_and_dates_make_the_schema_of_one_machine(client, frame):
    days = pd.Timestamp("2024-01-05") + pd.to_timedelta(np.arange(3000) % 300, "D")
    spelt = frame.assign(price=[f"€ {k % 1700:,}.50" for k in range(3000)], native=days, when=days.strftime("%d.%m.%Y"))
    spelt = spelt.sample(frac=1.0, random_state=0).reset_index(drop=True)
    data = dd.from_pandas(spelt, npartitions=5)
    with pytest.raises(sm.DataError, match=r"2 columns hold dates.*: native, when; expand them with dates=True"):
        sm.dask.train(client, data, **NEEDED)
    found = sm.dask.train(client, data, **NEEDED, table={"dates": True}, passes=3)
    here = sm.train(spelt, y="label", dates=True, passes=3)
    assert found.model.schema.columns == here.model.schema.columns
    assert {"native: days since 2024-01-05", "when: month=3"} <= set(found.model.feature_names_in_)
    assert sm.dask.predict(found.model, data).compute().tolist() == found.model.predict(spelt).tolist()


@pytest.mark.parametrize(
    "column, values, message",
    [
        ("gap", [1.0, None], r"the DataFrame, partition 1, row 0, column gap: the value is missing"),
        ("mixed", ["1", "x"], r"partition 1, row 0, column mixed: 'x' is not a finite number"),
        ("endless", [1.0, np.inf], r"partition 1, row 0, column endless: the value is infinite"),
    ],
)
def test_a_value_that_is_no_number_is_named_by_partition_and_row(client, frame, column, values, message):
    bad = frame.assign(**{column: [values[0]] * 1500 + [values[1]] + [values[0]] * 1499})
    with pytest.raises(sm.DataError, match=message):
        sm.dask.train(client, dd.from_pandas(bad, npartitions=2), **NEEDED)


@pytest.mark.parametrize("kind", ["file", "files", "folder"])
def test_parquet_is_read_by_the_workers(client, frame, kind, tmp_path, monkeypatch, here):
    """Row groups become pieces, or each file of a folder; the answer is that of the frame in these partitions."""
    monkeypatch.setattr(partitions, "ROW_GROUP_BYTES", 20_000)
    path, ends = tmp_path / "rows.parquet", ENDS
    if kind == "file":
        frame.to_parquet(path, row_group_size=250)
        ends, data = [*range(0, 3000, 500), 3000], str(path)
    elif kind == "files":
        data = [str(tmp_path / f"{k}.parquet") for k in range(5)]
        for name, (first, stop) in zip(data, pairwise(ENDS), strict=True):
            frame.iloc[first:stop].to_parquet(name)
    else:
        path.mkdir()
        for k, (first, stop) in enumerate(pairwise(ENDS)):
            frame.iloc[first:stop].to_parquet(path / f"part-{k}.parquet")
        data = str(path)
    made = dd.from_delayed([dask.delayed(frame.iloc[first:stop]) for first, stop in pairwise(ends)])
    found = sm.dask.train(client, data, valid=data, **NEEDED)
    assert bits(found)[0] == bits(sm.dask.train(client, made, **NEEDED))[0]
    assert found.certificate.valid_error == pytest.approx(found.certificate.train_error)
    if kind == "file":
        ran = here("train", data, "--dask", client.scheduler.address, "-o", tmp_path / "m.npz", "--tol", "1e-4",
                   "--memory", "64M", "-q")  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        assert {path.name for path in tmp_path.iterdir()} == {"m.npz", "rows.parquet"}
    frame.assign(a=frame.a.where(frame.index != 2999)).to_parquet(tmp_path / "gap.parquet", row_group_size=250)
    with pytest.raises(sm.DataError, match=r"the file, .*row 2999, column a: the value is missing"):
        sm.dask.train(client, tmp_path / "gap.parquet", **NEEDED)


def test_files_of_a_folder_with_keys_in_a_list_are_refused(client, frame, tmp_path):
    frame.assign(year=2020).to_parquet(tmp_path / "all", partition_cols=["year"])
    with pytest.raises(sm.UsageError, match=r"columns of all files below .*all; give this folder alone"):
        sm.dask.train(client, [*map(str, (tmp_path / "all").rglob("*.parquet"))] * 2, **NEEDED)


def test_weights_of_rows_and_several_columns_of_labels(client, rows):
    X, y = rows
    weight = np.linspace(0.0, 2.0, len(y))
    found = sm.dask.train(client, arrays(rows), sample_weight=da.from_array(weight, chunks=500), **NEEDED)
    alone = sm.train((X, y), sample_weight=weight, **NEEDED)
    assert found.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-4)
    several = np.stack([y == "yes", X[:, 0] > 0], axis=1).astype(int)
    found = sm.dask.train(client, (arrays(rows)[0], several), **NEEDED)
    alone = sm.train((X, several), **NEEDED)
    assert found.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-4)


@pytest.mark.parametrize("kind", ["files", "Arrays", "Parquet", "batches", slow("DataFrame"), slow("Series")])
def test_folds_are_those_of_one_machine(client, rows, files, frame, kind, tmp_path, monkeypatch):
    """Rows are dealt by their number in all files, or by what a column holds, whoever reads them."""
    X, y = rows
    user = np.array([f"user {k % 7 * k % 50}" for k in range(3000)])
    given = {"C": [1e-4, 0.01], **NEEDED, "tol": 1e-9}
    data, held, fold = files, (X, y), {"cv": "4,rule=1se", "seed": 3}
    if kind == "Arrays":
        data, fold = arrays(rows), {"cv": np.arange(3000) // 11 % 3}
    elif kind == "batches":
        data, fold = in_batches(rows), {"cv": StratifiedKFold(3, shuffle=True, random_state=1)}
    elif kind != "files":
        held = frame.assign(user=user)
        fold = {"cv": "4,by=user", "y": "label"}
        data = in_frames(held)
    if kind == "Parquet":
        data = str(tmp_path / "rows.parquet")
        held.to_parquet(data, row_group_size=250)
    alone = sm.train(held, **given, **fold)
    if kind == "Series":
        fold, data = fold | {"y": data["label"]}, data.drop(columns="label")
    elif kind == "Arrays":
        fold = {"cv": da.from_array(fold["cv"], chunks=500)}
    found = sm.dask.train(client, data, **given, **fold)
    assert found.history[0]["data"]["groups"] == alone.history[0]["data"]["groups"]
    ours, theirs = found.cross_validation, alone.cross_validation
    assert ours.errors.tolist() == theirs.errors.tolist() and np.ptp(ours.errors) > 0.0
    assert (ours.best, ours.se.tolist()) == (theirs.best, theirs.se.tolist()) and ours.gaps.max() <= 1e-9
    assert found.converged and found.model.header["C"] == alone.model.header["C"]
    np.testing.assert_allclose(found.model.coef_, alone.model.coef_, atol=1e-4)
    if kind == "Parquet":
        with on_one_worker(monkeypatch):
            assert bits(sm.dask.train(client, data, **given, **fold)) == bits(found)


def test_a_share_is_that_of_one_machine_and_its_scores_are_calibrated(client, rows, files):
    given = {"valid": 0.2, "C": [1e-4, 0.01], "calibrate": "sigmoid", **NEEDED, "tol": 1e-9}
    found, alone = sm.dask.train(client, files, **given), sm.train(rows, **given)
    assert found.certificate.valid_error == alone.certificate.valid_error > 0.0
    pair = [each.model.predict_proba(rows[0]) for each in (found, alone)]
    np.testing.assert_allclose(*pair, atol=1e-4)


def test_a_grid_is_made_of_the_first_rows_of_each_partition(client, rows):
    """No other rows are in this process; their steps are made first."""
    X, y = rows
    X = np.abs(X) * (np.arange(3000) // 700 + 1.0)[:, None].astype(np.float32)
    make = dask.delayed(lambda first, stop: (X[first:stop], y[first:stop]))
    parts, given = [make(first, stop) for first, stop in pairwise(ENDS)], {"cv": 2, **NEEDED, "tol": 0.5}
    found = sm.dask.train(client, parts, **given).cross_validation.Cs
    first = np.concatenate([X[low : low + pieces.FIRST_ROWS_BYTES // 40] for low in ENDS[:-1]])
    np.testing.assert_allclose(found * (np.square(first).sum(axis=1).mean() + 1.0), np.logspace(-4, 2, 13), rtol=0.05)
    stepped = sm.dask.train(client, parts, transform="unit", **given).cross_validation.Cs
    np.testing.assert_allclose(stepped * 2.0, np.logspace(-4, 2, 13), rtol=0.01)


def test_first_rows_are_sent_and_counted_if_a_grid_follows_from_them(client, rows, monkeypatch):
    sent, held = [], []

    class Told(spool.AllPieces):
        def __init__(self, pieces):
            super().__init__(pieces)
            sent.append([piece.first.rows() for piece in pieces])
            held.append(self.held_bytes())

    monkeypatch.setattr(spool, "AllPieces", Told)
    for options in ({"cv": 2}, {"cv": 2, "C": [0.1, 1.0]}, {"cv": 2, "scale": "std"}, {}, {"cv": 2, "scale": "auto"}):
        sm.dask.train(client, arrays(rows), **{**NEEDED, "tol": 0.5, **options})
    assert all(sent[0]) and all(sent[4]) and not np.any(sent[1:4])
    assert [each - held[1] for each in held[:4]] == [40 * sum(sent[0]), 0, 0, 0]


@pytest.mark.parametrize("kind", ["Parquet", slow("DataFrame"), slow("Series"), "Arrays"])
def test_tasks_of_collections_are_columns_or_lie_beside_the_rows(client, rows, frame, kind, tmp_path, monkeypatch):
    of_each = np.array(["north", "south", "west"])[np.arange(3000) // 7 % 3]
    whole, given = frame.assign(task=of_each), {"tasks": "task", "penalty": "l21", "C": 0.1, **NEEDED}
    alone = sm.train(whole, valid=whole, y="label", **given)
    data = valid = in_frames(whole)
    if kind == "Parquet":
        data = valid = str(tmp_path / "rows.parquet")
        whole.to_parquet(data, row_group_size=250)
    elif kind == "Series":
        data = data.drop(columns=["task", "label"]), data["label"]
        given |= {"tasks": valid["task"]}
    elif kind == "Arrays":
        data, beside = arrays(rows), da.from_array(of_each, chunks=500)
        given |= {"tasks": beside}
        valid = *data, beside
    found = sm.dask.train(client, data, valid=valid, **given)
    assert found.converged and found.model.tasks == ["north", "south", "west"]
    pair = [each.certificate for each in (found, alone)]
    assert max(each.dual for each in pair) <= min(each.primal for each in pair) * (1 + 1e-9)
    assert found.certificate.valid_error == pytest.approx(alone.certificate.valid_error, abs=0.01)
    assert found.certificate.valid_error == pytest.approx(found.certificate.train_error)
    with on_one_worker(monkeypatch):
        assert bits(sm.dask.train(client, data, valid=valid, **given)) == bits(found)


def test_a_checkpoint_of_a_collection_goes_on_in_another_training(client, rows, tmp_path):
    passes, saved = [], str(tmp_path / "saved")
    first = sm.dask.train(
        client, arrays(rows), checkpoint=saved, should_stop=lambda: "signal" if len(passes) == 3 else None,
        listeners=[lambda event: passes.extend([1] * (event["event"] == "pass_end"))], **NEEDED,
    )  # fmt: skip
    assert first.reason == "signal" and first.resumable
    rest = sm.dask.train(client, arrays(rows), checkpoint=saved, **NEEDED)
    assert bits(rest) == bits(sm.dask.train(client, arrays(rows), **NEEDED))


@pytest.mark.parametrize(
    "data, options, message",
    [
        (lambda X, y: X, {}, r"the Array has no labels; give the pair \(X, y\)"),
        (lambda X, y: (X, y[:50]), {}, "y has 50 entries for 3000 rows"),
        (lambda X, y: (X, y), {"sample_weight": 2.0}, r"sample_weight has shape \(\) but X has 3000 rows; give"),
        (lambda X, y: (X[X[:, 0] > 0], y), {}, "their sizes are not known; give both the same partitions"),
        (lambda X, y: (X, y), {"y": "label"}, "y is for frames, whose columns have names; the Array has none"),
        (lambda X, y: (X, y), {"drop": ["a"]}, "drop is for frames"),
        (lambda X, y: [X, y], {}, r"a list holds Delayed frames or batches; Arrays and frames go with y in a tuple"),
        (lambda X, y: (X, y), {"tasks": "task"}, "tasks is for frames, whose columns have names; the Array has none"),
        (lambda X, y: (X, y), {"tasks": np.arange(50)}, r"tasks has shape \(50,\) but X has 3000 rows"),
        (lambda X, y: (X, y), {"tasks": np.arange(3000), "valid": PAIR}, r"unknown; give valid as \(X, y, tasks\)"),
        (lambda X, y: (X, y), {"cv": "3,by=user"}, 'cv="K,by=user" is for frames, .* the Array has none'),
        (lambda X, y: [dask.delayed(lambda: 1)()], {"tasks": np.arange(9)}, "tasks are a column of frames"),
        (
            lambda X, y: [dask.delayed(lambda: 1)()],
            {},
            "partition 0 of the batches has a int; each is a frame, a batch",
        ),
        (lambda X, y: db.from_sequence([1, 2, 3]), {}, "partition 0 of the Bag has a int; each is a frame, a batch"),
    ],
)
def test_rows_that_do_not_fit_are_refused(client, rows, data, options, message):
    with pytest.raises(sm.UsageError, match=message):
        sm.dask.train(client, data(*arrays(rows)), **NEEDED | options)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"solver": "sdca"}, sm.UsageError, "sdca changes its weights with each row, so"),
        ({"kernel": "rbf"}, sm.UsageError, "smo needs all rows in one place; train on one machine"),
        ({"early_stop": 3}, sm.UsageError, "early_stop scores every pass on held-out data; give valid="),
        ({"x": "X"}, sm.UsageError, "x names a dataset of HDF5, and these rows have none; leave it out"),
        ({"valid": "nothing.h5"}, sm.InputMissingError, r"there is no held-out file nothing\.h5; check valid"),
    ],
)
def test_what_no_cluster_can_do_is_refused_before_a_partition_is_computed(client, options, error, message, tmp_path):
    def made():
        (tmp_path / "computed").touch()
        return np.ones((9, 2)), np.arange(9) % 2

    with pytest.raises(error, match=message):
        sm.dask.train(client, [dask.delayed(made)()], **NEEDED | options)
    assert not (tmp_path / "computed").exists()


@pytest.mark.parametrize("kind", ["width", "kind"])
def test_batches_that_differ_are_an_error_with_a_remedy_for_batches(client, kind):
    others = np.ones((3, 4), np.float32) if kind == "width" else np.ones((3, 3))
    parts = [dask.delayed((X, np.arange(3) % 2)) for X in (np.ones((3, 3), np.float32), others)]
    message = {"width": "has 4 columns but .* 3; give all the same columns", "kind": "dense float64 but .*to one kind"}
    with pytest.raises(sm.DataError, match=message[kind]):
        sm.dask.train(client, parts, **NEEDED)


def test_batches_of_frames_are_matched_by_name(client, frame):
    X, y = frame.drop(columns="label"), frame.label
    parts = [(X[:1500], y[:1500]), (X[X.columns[::-1]][1500:], y[1500:])]
    expected = sm.dask.train(client, [dask.delayed((X[k : k + 1500], y[k : k + 1500])) for k in (0, 1500)], **NEEDED)
    assert bits(sm.dask.train(client, list(map(dask.delayed, parts)), **NEEDED)) == bits(expected)


def test_an_error_of_the_collection_passes_unchanged(client, rows):
    with pytest.raises(ZeroDivisionError):
        sm.dask.train(client, [*in_batches(rows), dask.delayed(lambda: 1 / 0)()], **NEEDED)


def test_a_spool_folder_that_workers_lack_is_an_error(client, rows, tmp_path, monkeypatch):
    ours = sys.modules["streammargin.dask.train"]
    monkeypatch.setattr(ours, "make_folder", lambda path: None)  # as on a disk of this process alone
    with pytest.raises(sm.OutputError, match=r"a worker has no folder .*lacking to write rows to; make it, or name"):
        sm.dask.train(client, arrays(rows), spool=str(tmp_path / "lacking"), **NEEDED)
    assert not (tmp_path / "lacking").exists()


def test_what_only_a_worker_lacks_is_said_to_be_lacking_there(client, frame, tmp_path, monkeypatch):
    def lacking():
        import no_such_package

        return no_such_package

    with pytest.raises(sm.UsageError, match="a worker says: No module named 'no_such_package'; install the same"):
        sm.dask.train(client, [dask.delayed(lacking)()], **NEEDED)
    path, each = tmp_path / "rows.parquet", spool.Spool._each
    frame.to_parquet(path)
    monkeypatch.setattr(spool.Spool, "_each", lambda *given: (path.unlink(missing_ok=True), each(*given))[1])
    with pytest.raises(sm.InputMissingError, match=r"a worker says: .*rows\.parquet.* so all must see them there"):
        sm.dask.train(client, str(path), **NEEDED)


def test_no_rows_at_all_are_an_error(client, rows):
    with pytest.raises(sm.DataError, match="the batches has no rows"):
        sm.dask.train(client, dask.delayed((rows[0][:0], rows[1][:0])), **NEEDED)


@pytest.fixture(scope="module")
def models(rows, tmp_path_factory):
    """Two classes, three classes with probabilities, numbers."""
    X, y = rows
    three = np.where(X[:, 0] > 1, "more", y)
    fitted = [sm.train((X, y), C=0.1), sm.train((X, three), loss="logistic", C=0.1),
              sm.train((X, X[:, 0] + X[:, 1]), loss="squared_error")]  # fmt: skip
    folder = tmp_path_factory.mktemp("models")
    for k, each in enumerate(fitted):
        each.model.save(folder / f"{k}.npz")
    return [load_model(folder / f"{k}.npz") for k in range(3)]


@pytest.mark.parametrize("what", ["predict", "decision_function", "predict_proba"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_predictions_are_lazy_and_those_of_the_model(rows, frame, models, which, what):
    model = models[which]
    if what == "predict_proba" and which != 1:
        with pytest.raises(sm.UsageError, match="no probabilities"):
            sm.dask.predict_proba(model, arrays(rows)[0])
        return
    want = getattr(model, what)(rows[0])
    of = getattr(sm.dask, what)
    lazy = of(model, arrays(rows)[0])
    assert (lazy.shape, lazy.dtype, lazy.chunks[0]) == (want.shape, want.dtype, (700, 700, 700, 700, 200))
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), want)
    lazy = of(model, in_frames(frame).drop(columns="label"))
    found = lazy.compute(scheduler="synchronous")
    np.testing.assert_array_equal(found.to_numpy(), want)
    assert found.index.tolist() == frame.index.tolist()
    if want.ndim > 1:
        assert list(lazy.columns) == list(found.columns) == model.classes_.tolist()
    else:
        assert lazy.dtype == found.dtype


def test_predictions_of_files_of_unknown_chunks_and_of_nothing_else(rows, files, models, tmp_path):
    model = models[0]
    lazy = sm.dask.predict(model, files)
    assert lazy.chunks == ((700, 700, 700, 700, 200),)
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), model.predict(files))
    X = arrays(rows)[0]
    some = sm.dask.predict(model, X[X[:, 0] > 0]).compute(scheduler="synchronous")
    np.testing.assert_array_equal(some, model.predict(rows[0][rows[0][:, 0] > 0]))
    np.savetxt(tmp_path / "rows.csv", rows[0][:50], delimiter=",", fmt="%.9g")
    lazy = sm.dask.predict(model, str(tmp_path / "rows.csv"))
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), model.predict(rows[0][:50]))
    with pytest.raises(ValueError, match="chunk sizes are unknown"):
        lazy[:5]
    for data in (rows[0], [1], None, dask.delayed(rows[0]), X[:, 0], dd.from_dask_array(X[:, 0])):
        with pytest.raises(sm.UsageError, match="give an Array of rows, a DataFrame, or paths"):
            sm.dask.predict(model, data)
    for predict in (sm.dask.predict, sm.dask.predict_proba):
        with pytest.raises(sm.UsageError, match="the model must be one of streammargin, not int"):
            predict(3, X)
    with pytest.raises(sm.DataError, match="X has 7 features but the model was trained on 10"):  # at once
        sm.dask.predict(model, X[:, :7])
    patterns = [os.path.join(os.path.dirname(files[0]), name) for name in ("[0-2]*.h5", "7*.h5", "[0-7]*.h5")]
    for data in (patterns[:2], patterns[2]):
        lazy = sm.dask.predict(model, data)
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), model.predict(sorted(files)))
    ratings = sm.complete((np.array([0, 1, 1]), np.array([0, 0, 1]), np.ones(3)), C=1.0).model
    with pytest.raises(
        sm.UsageError, match="this model completes a matrix, and predicts pairs; use its method predict"
    ):
        sm.dask.predict(ratings, X)


def test_frames_without_columns_of_the_model_are_refused_at_once(frame):
    models = (
        sm.train(frame, y="label", C=0.1).model,
        sm.train((frame.drop(columns="label"), frame["label"]), C=0.1).model,
    )
    assert models[0].schema is not None and models[1].schema is None
    lacking = in_frames(frame).drop(columns=["label", "c"])
    for model, told in zip(models, ("that were asked for: c", r"of the model \(c\)"), strict=True):
        with pytest.raises(sm.DataError, match=f"lacks 1 column .*{told}"):
            sm.dask.predict(model, lacking)
    lazy = sm.dask.predict(models[1], lacking, missing_columns="zero")
    want = models[1].predict(frame.drop(columns=["label", "c"]), missing_columns="zero")
    assert lazy.compute(scheduler="synchronous").tolist() == want.tolist()


@pytest.mark.parametrize("kind", ["Arrays", "DataFrame", "paths"])
def test_lazy_predictions_of_tasks(rows, frame, kind, tmp_path):
    of_each = np.array(["north", "south", "west"])[np.arange(3000) // 7 % 3]
    whole = frame.assign(task=of_each)
    if kind == "Arrays":
        model, beside = sm.train(rows, tasks=of_each, C=0.1, passes=2).model, da.from_array(of_each, chunks=500)
        data, wrong = arrays(rows)[0], "task"
    else:
        model, data, beside, wrong = sm.train(whole, y="label", tasks="task", C=0.1).model, in_frames(whole), None, "no"
        if kind == "paths":
            data = str(tmp_path / "rows.parquet")
            whole.to_parquet(data)
    want = model.decision_function(rows[0], tasks=of_each)
    lazy = sm.dask.decision_function(model, data, tasks=beside)
    found = lazy.compute(scheduler="synchronous")
    assert lazy.ndim == found.ndim == 1
    np.testing.assert_array_equal(np.asarray(found), want)
    labels = sm.dask.predict(model, data, tasks=beside)
    np.testing.assert_array_equal(
        np.asarray(labels.compute(scheduler="synchronous")), model.predict(rows[0], tasks=of_each)
    )
    with pytest.raises((sm.UsageError, sm.DataError), match=r"tasks of an Array is another|no.*; it has"):
        sm.dask.predict(model, data, tasks=wrong).compute(scheduler="synchronous")
    with pytest.raises(sm.UsageError, match="all rows have the same weights in this model"):
        sm.dask.predict(sm.train(rows, C=0.1, passes=1).model, data, tasks=beside if kind == "Arrays" else "task")


def test_pieces_that_are_not_used_for_long_are_closed(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "OPEN", 2)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for k in range(20):
        path = write_h5(tmp_path / f"{k}.h5", rows[0], np.arange(3000))
        piece = pieces.Piece("part", f"{k}.h5", path, (3000, 10, 30000, np.dtype(np.float32), False), "")
        assert piece.labels_as(np.asarray)[3:5].tolist() == [3, 4]
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 8


def test_the_digest_of_a_piece_is_that_of_its_values(tmp_path, rows, monkeypatch):
    """The bytes of a file have times if h5py is older than 3.15."""
    monkeypatch.setattr(pieces, "DIGESTED_BYTES", 1000)
    path = write_h5(tmp_path / "a.h5", rows[0], np.arange(3000))
    with h5py.File(path) as whole, h5py.File(tmp_path / "b.h5", "w", libver="latest") as copy:
        for name in reversed(whole):
            whole.copy(name, copy)
    digests = [pieces.digest_of(path), pieces.digest_of(str(tmp_path / "b.h5"))]
    assert digests[0] == digests[1]

    def label(file):
        file["y"][2999] = 7

    def value(file):
        file["X"][2999, 9] += 1.0

    for change in (label, value, lambda file: file.attrs.update(made=1)):
        with h5py.File(path, "r+") as file:
            change(file)
        digests.append(pieces.digest_of(path))
    assert len(set(digests)) == 4


@pytest.mark.parametrize("kind", ["parquet", "folder", "list", "feather", "packed", "npy", "npz"])
def test_chunks_of_predictions_come_from_footers_and_headers(frame, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = [name for name in frame.columns if name != "label"]
    part = frame[::33][:90].reset_index(drop=True)
    values = np.ascontiguousarray(part[columns])
    part.to_parquet("part.parquet", row_group_size=20)
    part[:0].to_parquet("none.parquet")
    part.to_feather("part.feather")
    part.to_feather("packed.feather", compression="zstd")
    np.save("part.npy", values)
    np.savez_compressed("part.npz", X=values, y=np.arange(90))
    (tmp_path / "folder").mkdir()
    part[:40].to_parquet("folder/a.parquet")
    part[40:].to_parquet("folder/b.parquet")
    data = {"folder": "folder", "list": ["part.parquet", "none.parquet", "part.parquet"], "packed": "packed.feather"}
    numbers = kind in ("npy", "npz")
    model = sm.train((values, part["label"])).model if numbers else sm.train(part, y="label").model
    want = model.decision_function(values if numbers else part)
    lazy = sm.dask.decision_function(model, data.get(kind, f"part.{kind}"))
    assert lazy.chunks[0] == ((90, 90) if kind == "list" else (90,))
    np.testing.assert_array_equal(lazy[:5].compute(scheduler="synchronous"), want[:5])
    np.testing.assert_array_equal(lazy[85:].compute(scheduler="synchronous")[:5], want[85:])


def test_a_damaged_footer_is_told_when_predictions_are_asked_for(models, tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1" + bytes(50))
    with pytest.raises(sm.DataError, match=r"bad\.parquet is damaged"):
        sm.dask.predict(models[0], str(tmp_path / "bad.parquet"))
