"""Recognizes servers that do not speak Kafka's protocol by the first bytes that they send."""

from __future__ import annotations

from typing import Final

_HTTP: Final = b"HTTP/"
_TLS_ALERT: Final = b"\x15\x03"
_HTTP2_SETTINGS: Final = b"\x04"
_HTTP2_CONNECTION: Final = bytes(3)
"""The number of the stream, as far as the first eight bytes show it."""
FIRST_BYTES: Final = 16
"""This many bytes are enough to recognize each of them."""


def stranger(first: bytes) -> str:
    """Return a clause that says what sends such bytes, or "" if that is unknown."""
    if first.startswith(_HTTP):
        return "it is an HTTP server"
    if first.startswith(_TLS_ALERT):
        return "it expects TLS, which this client does not use"
    if first[3:4] == _HTTP2_SETTINGS and first[5:8] == _HTTP2_CONNECTION:
        return "it speaks HTTP/2, as a gRPC port does"
    return ""
