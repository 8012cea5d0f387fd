"""Who comes by a published host is told it for every service; everybody else is told what is registered."""

from __future__ import annotations

import pytest

from ottla_broker.peers.advertised_addresses import Addresses
from ottla_core.rpc.context import RequestContext, client_metadata, context_of


def dialled(address: str) -> RequestContext:
    return context_of(client_metadata(address, "app"), "ipv4:10.0.0.9:50312")


@pytest.mark.parametrize(
    ("dialled_address", "told"),
    [
        ("localhost:9650", "localhost:9651"),
        ("127.0.0.1:9650", "127.0.0.1:9651"),
        ("[::1]:9652", "[::1]:9651"),
        ("broker-0:9650", "broker-1:9651"),
        ("bröker:9650", "broker-1:9651"),
    ],
)
def test_the_host_that_was_dialled_decides(dialled_address: str, told: str) -> None:
    addresses = Addresses(["localhost", "127.0.0.1", "[::1]"])
    context = dialled(dialled_address)
    assert addresses.advertised("broker-1:9651", context) == told
    assert context.client_id == "app"


def test_without_published_hosts_and_without_the_header_the_registered_address_is_told() -> None:
    assert Addresses(()).advertised("broker-1:9651", dialled("localhost:9650")) == "broker-1:9651"
    assert Addresses(()).advertised("broker-1:9651", RequestContext()) == "broker-1:9651"
    assert Addresses(["localhost"]).advertised("broker-1:9651", RequestContext()) == "broker-1:9651"
