"""F31: kill -9 and power cuts where the log, its cleaner, elections and transactions meet."""
