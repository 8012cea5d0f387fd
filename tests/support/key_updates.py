"""Makes changes of the keys of TLS 1.3 (KeyUpdate), which Python's `ssl` can receive but not send."""

from __future__ import annotations

import _ssl
import ctypes
import ssl
from typing import Any, Final

_REQUESTED: Final = 1
_SSL_AT: Final = object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p)
"""CPython's object refers to OpenSSL's at this offset, after its head and a reference to the socket."""


def key_updates(tls: ssl.SSLObject, outgoing: ssl.MemoryBIO, size_bytes: int) -> bytes:
    """Return about this many bytes of changes, each of which asks the other side for one."""
    openssl = ctypes.CDLL(_ssl.__file__)
    inner: Any = tls._sslobj  # type: ignore[attr-defined]  # CPython's own
    pointer = ctypes.c_void_p.from_address(id(inner) + _SSL_AT)
    sent = b""
    while len(sent) < size_bytes:
        assert openssl.SSL_key_update(pointer, _REQUESTED) == 1
        openssl.SSL_do_handshake(pointer)
        sent += outgoing.read()
    return sent
