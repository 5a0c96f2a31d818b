"""Benchmarks, as commands run in the checkout's root (pip install '.[benchmarks]'); each prints its own help.

`python -m examples.benchmarks.in_memory DATA_DIR`    streammargin and its peers, arrays in memory, every loss.
`python -m examples.benchmarks.report ROWS.jsonl`     Tables and a figure from the rows of `in_memory`.
`python -m examples.benchmarks.out_of_core DATA_DIR`  Reads and seconds to each gap, from a file larger than memory.
`python -m examples.benchmarks.held_out DATA_DIR`     Compared with SGDClassifier.partial_fit and Vowpal Wabbit.
`python -m examples.benchmarks.no_options DATA_DIR`   Every data set with the default options.
`python -m examples.benchmarks.outputs PART`          Several classes and targets at once, compared with scikit-learn.
`python -m examples.benchmarks.many_rows`             Nine million rows, on which LinearSVC runs out of memory.
`python -m examples.benchmarks.margin DATA_DIR`       The hard margin, every solver.
`python -m examples.benchmarks.steps`                 An iteration, compared with plain matrix products.
`python -m examples.benchmarks.passes`                A streamed pass, compared with a plain read and the kernel.
`python -m examples.benchmarks.checkpoints`           The cost of a checkpoint, for 1e6 and 1e8 duals.
`python -m examples.benchmarks.memory`                Peak memory, compared with the budget.
"""
