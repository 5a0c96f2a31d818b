"""Tables: readers of CSV, Parquet, Arrow, frames and texts, and the schema that makes rows of numbers of them."""
