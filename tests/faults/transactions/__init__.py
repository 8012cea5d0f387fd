"""Transactions while whatever takes part in them is killed, stopped, or repeats itself (rows F11, F12, F13)."""
