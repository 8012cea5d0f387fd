"""The clusters that a mirror stands between: what it needs of one, and the two kinds that there are."""
