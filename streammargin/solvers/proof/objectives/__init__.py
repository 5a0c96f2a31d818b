"""Objectives with their bounds, one file each."""
