"""Steps along single rows, for batches that pass by once too."""
