"""From options to a result: the job of rows that can be read again, and the job of a stream."""
