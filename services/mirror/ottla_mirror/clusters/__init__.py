"""The clusters between which a mirror stands: what it needs of one, and the two kinds that there are."""
