"""Text as counts of its words, hashed: scikit-learn's HashingVectorizer, log counts, rows of length 1."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa

from streammargin.errors import UsageError
from streammargin.sources.schema import TEXT_COLUMNS
from streammargin.tables.tally import codes_of


@functools.cache
def _vectorizer(ngrams: int) -> Any:
    try:
        from sklearn.feature_extraction.text import HashingVectorizer
    except ImportError:
        raise UsageError(
            "columns of text are counted by scikit-learn, which is not installed; "
            "install it with: pip install 'streammargin[sklearn]'"
        ) from None
    return HashingVectorizer(n_features=TEXT_COLUMNS, ngram_range=(1, ngrams), alternate_sign=False, norm=None)


def counts_of(texts: pa.Array, ngrams: int) -> Any:
    """Rows (m, TEXT_COLUMNS), CSR: 1 + log(count) of each word, or sequence of up to `ngrams`; of length 1.

    Words are sequences of two or more letters or digits, in lower case; a gap has none.
    """
    words = texts.dictionary.to_pylist() if pa.types.is_dictionary(texts.type) else []  # else gaps alone
    X = _vectorizer(ngrams).transform([*words, ""])
    X.data = 1.0 + np.log(X.data)
    lengths = np.sqrt(np.add.reduceat(np.append(X.data**2, 0.0), X.indptr[:-1]) * (np.diff(X.indptr) > 0))
    X.data /= np.repeat(np.where(lengths > 0.0, lengths, 1.0), np.diff(X.indptr))
    X.sort_indices()
    return X[codes_of(texts.indices) if words else np.full(len(texts), -1)]  # the last row is of a gap
