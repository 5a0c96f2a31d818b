"""Methods of the papers for the maximum margin, one read per iteration."""
