"""Requests and responses as bytes: frames, the codec, and the messages that are written by hand."""
