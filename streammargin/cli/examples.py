"""Three commands for each verb, which end its help."""

from __future__ import annotations

_COMMANDS = """
streammargin train people.csv --y income --missing mean
streammargin train cells.h5ad --y obs/cell_type --scale std -o cells.npz
streammargin train train.h5 --valid test.h5 -C path:10 --memory 4G --checkpoint state

streammargin complete ratings.csv -o films.npz
streammargin complete ratings.csv --columns user,film --y stars --valid held_out.csv -C path:10
streammargin complete ratings.h5 --loss squared_error --memory 4G --checkpoint state

streammargin predict people.model.npz new.csv
streammargin predict people.model.npz new.csv --id customer --decision -o scores.parquet
streammargin predict cells.npz new.h5ad --obs cell_type -o labelled.h5ad

streammargin evaluate people.model.npz test.csv
streammargin evaluate cells.npz new.h5ad --y obs/cell_type --json
streammargin evaluate films.npz held_out.csv --columns user,film --y stars

streammargin verify people.model.npz people.csv
streammargin verify clicks.npz train.h5 --valid test.h5
streammargin verify clicks.npz part1.h5 part2.h5 --json

streammargin info people.csv
streammargin info people.model.npz --top 20
streammargin info --kernels

streammargin export people.model.npz --to json -o people.json
streammargin export clicks.npz --to onnx -o clicks.onnx --force
streammargin export clicks.npz --to csv -o weights.csv

streammargin report people.model.npz -o people.html
streammargin report people.model.npz people.log --test test.csv -o people.html
streammargin report cells.npz --test new.h5ad --y obs/cell_type -o cells.html

streammargin solvers
streammargin solvers auto
streammargin solvers newton

streammargin losses
streammargin losses logistic
streammargin losses quantile

streammargin penalties
streammargin penalties l1
streammargin penalties elasticnet

streammargin demo
streammargin demo --size 300M --memory 64M
streammargin demo --dir . --keep

streammargin warmup
streammargin warmup --quiet
streammargin warmup --to kernels

streammargin-data convert people.csv people.h5 --y income --missing mean
streammargin-data convert new.csv new.h5 --like people.model.npz
streammargin-data convert clicks.svm.gz clicks.h5 --zero-based

streammargin-data generate random.h5
streammargin-data generate large.h5 --size 2G --sparse --features 100000
streammargin-data generate ten.h5 --rows 50000 --classes 10 --seed 1

streammargin-data shuffle clicks.h5 shuffled.h5
streammargin-data shuffle clicks.h5 shuffled.h5 --seed 1 --memory 2G
streammargin-data shuffle part1.h5 part2.h5 whole.h5

streammargin-data split clicks.h5 train.h5 test.h5
streammargin-data split clicks.h5 train.h5 test.h5 --test-size 0.1 --seed 1
streammargin-data split part1.h5 part2.h5 train.h5 test.h5
"""


def examples(program: str, verb: str) -> list[str]:
    """The commands of this verb."""
    return [line for line in _COMMANDS.splitlines() if line.split()[:2] == [program, verb]]
