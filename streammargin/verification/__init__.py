"""Verify: recompute the figures of a saved model from its file and the stored rows, by other code than trains."""
