"""HDF5 files: dense and sparse rows, anndata, 10x, compressed chunks."""
