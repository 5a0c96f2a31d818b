"""The command `streammargin`: one small file per verb."""
