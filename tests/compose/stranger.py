"""Goes to ports and tries to get something out of them. It runs in a container, so it needs the standard library alone.

The argument is a JSON list of visits. A visit has a host, a port, perhaps a certificate with its key, and perhaps a
token. Each speaks HTTP, HTTP/2 and Kafka's protocol, in plaintext and over TLS, which trusts everyone. The output is a
JSON list with what the port said, and the fingerprint of its certificate.
"""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_LIMIT_S = 5.0
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The preface of HTTP/2 and empty SETTINGS, which a server answers with its own."""
_METADATA = bytes([0, 0, 0, 14, 0, 3, 0, 0, 0, 0, 0, 1, 255, 255, 0, 0, 0, 0])
"""A Metadata request of version 0 for all topics."""
_API_VERSIONS = bytes([0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 255, 255])
"""An ApiVersions request of version 0, which a broker answers before a login."""


def visit(where: dict[str, Any]) -> dict[str, Any]:
    with socket.create_connection((where["host"], where["port"]), _LIMIT_S):
        pass  # silence counts at a port that can be reached
    token = where.get("token")
    authorization = b"" if token is None else b"Authorization: Bearer " + token.encode() + b"\r\n"
    paths = ("/metrics", "/version", "/v3/kv/range", "/debug/vars")
    words = {path: b"GET " + path.encode() + b" HTTP/1.0\r\n" + authorization + b"\r\n" for path in paths}
    words |= {"HTTP/2": _HTTP2, "Metadata": _METADATA, "ApiVersions": _API_VERSIONS}
    said, fingerprint = {}, None
    for name, request in words.items():
        said[name], _ = _ask(where, request, None)
        said[f"{name} over TLS"], seen = _ask(where, request, _context(where, name))
        fingerprint = seen or fingerprint
    return {**where, "token": None, "said": said, "fingerprint": fingerprint}


def _context(where: dict[str, Any], name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if name == "HTTP/2":
        context.set_alpn_protocols(["h2"])
    if where.get("certificate"):
        context.load_cert_chain(*where["certificate"])
    return context


def _ask(where: dict[str, Any], request: bytes, context: ssl.SSLContext | None) -> tuple[str, str | None]:
    """Return the first bytes of the answer as text, or "" if there is none, and the fingerprint of the certificate."""
    fingerprint = None
    try:
        with socket.create_connection((where["host"], where["port"]), _LIMIT_S) as connection:
            if context is not None:
                connection = context.wrap_socket(connection, server_hostname=where["host"])
                fingerprint = hashlib.sha256(connection.getpeercert(binary_form=True) or b"").hexdigest()
            connection.sendall(request)
            return connection.recv(512).decode("latin-1"), fingerprint
    except OSError:
        return "", fingerprint


if __name__ == "__main__":
    warnings.simplefilter("error")
    with ThreadPoolExecutor(16) as pool:
        print(json.dumps(list(pool.map(visit, json.loads(sys.argv[1])))))
