"""The header and the fields of a model file, which are checked before anything uses them; without the engine."""
