"""Reads Kafka's max.connections.per.ip.overrides: `10.0.0.1:200,[::1]:50`.

Kafka also takes host names there, and looks them up once. ottla takes only addresses, because nothing is looked up when
a config is checked.
"""

from __future__ import annotations

from ipaddress import ip_address


def limits_by_address(text: str) -> dict[str, int]:
    """Return the limit of each address. Raises ValueError, which says what is legal."""
    limits: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, _, count = item.rpartition(":")
        try:
            limits[str(ip_address(address.removeprefix("[").removesuffix("]")))] = int(count)
        except ValueError:
            legal = "give an IP address, a colon and a number for each, as in 10.0.0.1:200,[::1]:50"
            raise ValueError(f"{item[:60]!r} is not a limit of an address; {legal}") from None
        if int(count) < 0:
            raise ValueError(f"{item[:60]!r} is below 0; give a number not below 0")
    return limits
