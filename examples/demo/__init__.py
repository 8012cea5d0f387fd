"""`make demo`: the flights of New York in 2013 through a real cluster and back, every record compared."""
