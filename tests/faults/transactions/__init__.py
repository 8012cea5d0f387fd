"""Transactions while what takes part in them is killed, stopped, cut off, or repeats itself (rows F11, F12, F13)."""
