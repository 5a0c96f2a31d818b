"""Subscribers of events."""
