"""What has rules in it and touches nothing: offsets, ranges, admission."""
