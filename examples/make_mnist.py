"""MNIST's idx files as one HDF5 file: rows of 784 pixels between 0 and 1, labels 0 to 9.

    python examples/make_mnist.py train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz mnist.h5

Then, for instance, the hard margin between 0 and 1:
    streammargin train mnist.h5 --classes 0,1 -c inf -o zero-one.npz
"""

import argparse
import gzip

import numpy as np

from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.write import writing

ROWS = 4096


def header(stream, kind):
    """Sizes in the header of an idx file of unsigned bytes with `kind` dimensions."""
    start = stream.read(4)
    if start != bytes([0, 0, 8, kind]):
        raise SystemExit(f"not an idx file of bytes with {kind} dimensions: it starts with {start!r}")
    return np.frombuffer(stream.read(4 * kind), ">i4").astype(int)


def make_mnist(images, labels, output, force=False):
    """Convert without ever holding more than a few thousand pictures."""
    opener = gzip.open if images.endswith(".gz") else open
    with opener(images, "rb") as pixels, opener(labels, "rb") as digits:
        count, height, width = header(pixels, 3)
        if header(digits, 1)[0] != count:
            raise SystemExit(f"{images} and {labels} differ in their number of entries")
        with writing(output, force, np.float32, sparse=False, features=height * width) as writer:
            for start in range(0, count, ROWS):
                size = min(ROWS, count - start)
                X = np.frombuffer(pixels.read(size * height * width), np.uint8).reshape(size, -1)
                y = np.frombuffer(digits.read(size), np.uint8)
                writer.append(Batch(X / np.float32(255), None, None, None, y, None))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images")
    parser.add_argument("labels")
    parser.add_argument("output")
    parser.add_argument("--force", action="store_true")
    make_mnist(**vars(parser.parse_args()))
