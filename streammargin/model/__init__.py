"""Trained models: prediction by block, and their file."""
