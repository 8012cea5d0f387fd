"""The address that a client gets for a service: the registered one, or the published one by which the client came.

Services register the address under which they reach each other. In containers this is a name that only their own
network knows. A client from outside dials a published port, and can reach the other services only under the host that
it dialled. So a client that comes by one of the published hosts gets that host for every service, with the service's
own port: ports are published under the numbers that they have inside.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla_core.rpc.context import RequestContext


class Addresses:
    def __init__(self, published_hosts: Iterable[str]) -> None:
        self._published = frozenset(published_hosts)

    def advertised(self, address: str, context: RequestContext) -> str:
        """Return the address that the caller should dial for the service registered at `address` (host:port)."""
        if context.dialled_host not in self._published:
            return address
        return f"{context.dialled_host}:{address.rpartition(':')[2]}"
