"""What a training finds: something that gives scores to rows. Linear today; another kind is another file here."""
