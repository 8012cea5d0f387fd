"""Rules without IO: offsets, ranges, admission."""
