"""F19: a cleaning is ended at each of its phases, again and again, and a compacted topic stays the table that it is."""
