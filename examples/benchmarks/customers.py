"""A CSV file of orders: which customers leave? Dates, codes, shops, 21 numbers with gaps; 200 bytes a row.

    python -m examples.benchmarks.customers customers.csv [--rows 5300000] [--seed 0]

5,300,000 rows take 1.08 GB. An order is of one of 400,000 customers, who have a code of their town and a tendency to
leave. Numbers have unlike sizes, and 3% are missing.
"""

from __future__ import annotations

import argparse

import numpy as np

CUSTOMERS, TOWNS, SHOPS, NUMBERS, DAYS = 400_000, 120, 40, 21, 900
CHUNK, GAPS = 50_000, 0.03  # rows that are made at a time, and the share of numbers that is missing


def main() -> None:
    """Write the file, some rows at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--rows", type=int, default=5_300_000, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    given = parser.parse_args()
    random = np.random.default_rng(given.seed)
    town, tendency = random.integers(0, TOWNS, CUSTOMERS), random.normal(0, 1, CUSTOMERS)
    weights, sizes = random.normal(0, 0.25, NUMBERS), np.arange(1, NUMBERS + 1)
    with open(given.file, "w") as file:
        names = ",".join(f"n{k}" for k in range(NUMBERS))
        file.write(f"order,customer,zip,shop,date,{names},basket,churned\n")
        for first in range(0, given.rows, CHUNK):
            rows = min(CHUNK, given.rows - first)
            customer, shop = random.integers(0, CUSTOMERS, rows), random.integers(0, SHOPS, rows)
            date = np.datetime64("2023-01-01") + random.integers(0, DAYS, rows)
            X = random.normal(0, 1, (rows, NUMBERS)) * sizes + tendency[customer][:, None]
            missing, basket = random.random((rows, NUMBERS)) < GAPS, random.gamma(2, 20, rows)
            scores = X / sizes @ weights + 0.6 * tendency[customer] + 0.3 * (shop % 7 == 0) - 2.2
            left = scores + random.logistic(0, 0.5, rows) > 0
            text = np.char.mod("%.4f", X)
            text[missing] = ""
            file.writelines(
                f"{first + i},{customer[i]},{10000 + town[customer[i]] * 7},s{shop[i]},{date[i]},{','.join(text[i])},"
                f"{basket[i]:.2f},{'yes' if left[i] else 'no'}\n"
                for i in range(rows)
            )  # fmt: skip


if __name__ == "__main__":
    main()
