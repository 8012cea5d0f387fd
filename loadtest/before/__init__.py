"""This commit beside another one: a short list of figures, each measured of both in turn."""
