"""The hosts of ACLs: `*`, an address, or a range of addresses in CIDR notation (KIP-1276).

Addresses are compared as addresses, so `2001:db8::1` and `2001:DB8:0:0:0:0:0:1` are one host, and an IPv4-mapped IPv6
address is its IPv4 address. Any other text, such as a name, is only ever equal to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError

ANY_HOST: Final = "*"


def check_host(pattern: str) -> None:
    """Raise INVALID_REQUEST if Kafka's CreateAcls would not take the host: it is empty, or a range that is not one."""
    if not pattern:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            "the ACL's host is empty",
            hint="give an address, a range such as 10.0.0.0/8, or * for every host",
        )
    if "/" in pattern and _range(pattern) is None:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            f"the ACL's host {pattern!r} is not a range of addresses",
            hint="give an address and a number of bits, such as 10.0.0.0/8 or 2001:db8::/32",
        )


def canonical_host(host: str) -> str:
    """Return the one spelling of a host or of an ACL's host. Patterns that match the same hosts have the same."""
    if "/" in host:
        found = _range(host)
        return host if found is None else str(found)
    address = address_of(host)
    return host if address is None else str(address)


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that the text spells, or None. An IPv4-mapped IPv6 address is returned as its IPv4 address."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return address if address.version == 4 else address.ipv4_mapped or address


class HostRanges:
    """Canonical ranges, by their lengths: those that contain an address cost one look-up for each length."""

    def __init__(self, ranges: Iterable[str]) -> None:
        self._by_length: dict[tuple[int, int], dict[int, str]] = {}
        for spelled in ranges:
            if (found := _range(spelled)) is not None:
                host_bits = found.max_prefixlen - found.prefixlen
                same_length = self._by_length.setdefault((found.version, host_bits), {})
                same_length[int(found.network_address) >> host_bits] = spelled

    def containing(self, address: IPv4Address | IPv6Address) -> Iterator[str]:
        number = int(address)
        for (version, host_bits), ranges in self._by_length.items():
            if version == address.version and (spelled := ranges.get(number >> host_bits)) is not None:
                yield spelled


def _range(pattern: str) -> IPv4Network | IPv6Network | None:
    """Return the range, whose host bits may be set, as in Kafka.

    A range of IPv4-mapped addresses is none: Kafka refuses it too, because clients at such addresses are IPv4 clients.
    """
    base, _, length = pattern.partition("/")
    address = address_of(base)
    if address is None or (address.version == 4 and ":" in base):
        return None
    if "%" in base or not (length.isascii() and length.isdigit()):
        return None
    try:
        return ip_network(pattern, strict=False)
    except ValueError:
        return None
