"""Benchmarks, as commands run in the checkout's root (pip install '.[benchmarks]'); each prints its own help.

python -m examples.benchmarks.in_memory DATA_DIR     ours beside the peers, arrays in memory, every loss
python -m examples.benchmarks.report ROWS.jsonl      the rows of that as tables and a picture
python -m examples.benchmarks.out_of_core DATA_DIR   reads and seconds to each gap, from a file larger than memory
python -m examples.benchmarks.held_out DATA_DIR      beside SGDClassifier.partial_fit and Vowpal Wabbit
python -m examples.benchmarks.no_options DATA_DIR    every set as it is for a user who names no option
python -m examples.benchmarks.many_rows              nine million rows that LinearSVC was killed by
python -m examples.benchmarks.margin DATA_DIR        the hard margin, every solver
python -m examples.benchmarks.steps                  an iteration, against bare products
python -m examples.benchmarks.passes                 a streamed pass, against a bare read and a bare kernel
python -m examples.benchmarks.checkpoints            what a checkpoint costs, for 1e6 and 1e8 duals
python -m examples.benchmarks.memory                 peak memory, against the budget
"""
