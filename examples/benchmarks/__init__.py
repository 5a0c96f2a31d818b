"""Benchmarks, as commands of the checkout's root; each prints its own help.

python -m examples.benchmarks.in_memory DATA_DIR    ours beside the peers, arrays in memory
python -m examples.benchmarks.report ROWS.jsonl     the rows of that as tables and a picture
"""
