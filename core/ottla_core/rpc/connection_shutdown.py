"""Cutting a client off, where gRPC can't.

gRPC's asyncio server has no way to cancel a call: the status that ends it waits behind the previous response, and that
response waits until the client reads. So the connection is shut down by its socket. gRPC sees it closed, ends its calls
and frees what they hold.
"""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

from ottla_core.rpc.context import address_of_peer

Address = tuple[IPv4Address | IPv6Address, int]


def shut_down_connection(peer: str) -> bool:
    """Shut down this process's connection with a gRPC peer ("ipv4:127.0.0.1:50312"). Return whether there was one.

    It has to be called in a thread, because it looks at every open file, and a broker has many.
    """
    address = _address(*address_of_peer(peer))
    return any(_shut_down(int(number), address) for number in os.listdir("/dev/fd"))


def _shut_down(number: int, address: Address) -> bool:
    """Shut the file down if it is the connection, and return whether it is. It works on a duplicate, because gRPC may
    close its own at any time."""
    try:
        number = os.dup(number)
    except OSError:
        return False
    try:
        connection = socket.socket(fileno=number)
    except OSError:  # a file of another kind
        os.close(number)
        return False
    with connection:
        try:
            by_ip = connection.family in (socket.AF_INET, socket.AF_INET6)
            if not by_ip or _address(*connection.getpeername()[:2]) != address:
                return False
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:  # it listens, or the other end has gone
            return False
    return True


def _address(host: str, port: int) -> Address:
    ip = ip_address(host.partition("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return mapped or ip, port
