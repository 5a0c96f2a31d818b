"""Labelled texts as binary word 1-3-grams hashed to 2^22 columns, rows of norm 1, written as they are read.

    python examples/make_ngrams.py reviews.tsv.bz2 ngrams.h5

Every line is tab-separated; the label is field 2 and the text the last one (the layout of the 50,000 film
reviews of Maas et al. 2011 as one table). Such files are often sorted by label: shuffle them.
    streammargin-data shuffle ngrams.h5 shuffled.h5
"""

import argparse
import bz2
import itertools

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.write import writing

TEXTS = 1000


def make_ngrams(texts, output, features=1 << 22, force=False):
    """Convert a thousand texts at a time."""
    vectorizer = HashingVectorizer(
        n_features=features, ngram_range=(1, 3), binary=True, norm="l2", alternate_sign=False, dtype=np.float32
    )
    opener = bz2.open if texts.endswith(".bz2") else open
    with (
        opener(texts, "rt", encoding="utf-8") as lines,
        writing(output, force, np.float32, sparse=True, features=features) as writer,
    ):
        fields = (line.rstrip("\n").split("\t") for line in lines)
        while part := list(itertools.islice(fields, TEXTS)):
            X = vectorizer.transform(row[-1] for row in part)
            X.sort_indices()
            y = np.array([int(row[1]) for row in part])
            writer.append(Batch(None, X.data, X.indices, X.indptr.astype(np.int64), y, None))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts")
    parser.add_argument("output")
    parser.add_argument("--features", type=int, default=1 << 22)
    parser.add_argument("--force", action="store_true")
    make_ngrams(**vars(parser.parse_args()))
