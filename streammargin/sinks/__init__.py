"""Listeners of events: the console and the log."""
