"""`python -m ottla_core.process.health PORT` exits with 0 if the service with that admin port says that it is ready, or
else with 1.

It runs every few seconds beside each service, as the health check of its container, so it imports nothing but sockets:
urllib alone would cost more than all the rest. The service's text goes to standard output, where `docker inspect` shows
it.
"""

from __future__ import annotations

import socket
import sys

_LIMIT_S = 2.0
_MOST_BYTES = 4096


def probe(port: int) -> tuple[bool, str]:
    """Return whether the service is ready, and its own words, or why there are none. It takes a few seconds at most."""
    try:
        with _connected(port) as connection:
            connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            response = b""
            while len(response) < _MOST_BYTES and (data := connection.recv(_MOST_BYTES)):
                response += data
    except OSError as error:
        return False, f"no answer on port {port}: {error}"
    head, _, body = response.partition(b"\r\n\r\n")
    message = body.decode(errors="replace").strip()
    return head.split(b"\r\n")[0].split(b" ")[1:2] == [b"200"], message or f"port {port} does not speak HTTP"


def _connected(port: int) -> socket.socket:
    """Connect to the port on IPv4's loopback, or else on IPv6's. Raises OSError."""
    try:
        return socket.create_connection(("127.0.0.1", port), _LIMIT_S)
    except ConnectionRefusedError:
        return socket.create_connection(("::1", port), _LIMIT_S)


def main() -> int:
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal():
        print("usage: python -m ottla_core.process.health PORT", file=sys.stderr)
        return 2
    ready, message = probe(int(sys.argv[1]))
    print(message)
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main())
