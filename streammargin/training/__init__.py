"""From options to a result: training on rows that can be read again, and on a stream."""
