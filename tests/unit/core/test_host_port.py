"""A host and a port as one text, with brackets around IPv6 addresses."""

from __future__ import annotations

import pytest

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.host_port import HostPort


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("kafka.example.org:9092", "kafka.example.org", 9092),
        ("broker_0:1", "broker_0", 1),
        ("127.0.0.1:65535", "127.0.0.1", 65535),
        ("[::1]:9092", "::1", 9092),
        ("[2001:db8::7]:9092", "2001:db8::7", 9092),
        ("[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
        ("[::ffff:127.0.0.1]:9092", "::ffff:127.0.0.1", 9092),
    ],
)
def test_an_address_is_read_and_printed_alike(text: str, host: str, port: int) -> None:
    address = HostPort.parse(text)
    assert address == (host, port)
    assert str(address) == f"{address}" == text


@pytest.mark.story("ipv6-addresses-without-brackets")
def test_an_ipv6_address_without_brackets_ends_at_the_last_colon_and_is_printed_with_them() -> None:
    assert str(HostPort.parse("::1:9092")) == "[::1]:9092"


def test_a_host_has_no_brackets() -> None:
    assert HostPort("[::1]", 9092) == HostPort("::1", 9092)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no port"),
        ("nowhere", "it has no port"),
        ("h:", "it has no port"),
        ("[::1]", "it has no port"),
        ("h:kafka", "it has no port but 'kafka'"),
        ("h:-1", "it has no port but '-1'"),
        ("h:65536", "it has no port but '65536'"),
        ("h:٣", "it has no port but '٣'"),
        (f"h:{'9' * 5000}", "it has no port but"),
        ("h:0", "nothing can connect to port 0"),
        (":9092", "it has no host"),
        ("http://h:9092", "'http://h' is neither a name nor an IP address"),
        ("two hosts:9092", "'two hosts' is neither"),
        ("2001:db8::1", "'2001:db8:' is neither"),
        ("[h]:9092", r"'\[h\]' is neither"),
        ("[::1:9092", r"'\[::1' is neither"),
        ("[]:9092", r"'\[\]' is neither"),
    ],
)
def test_an_invalid_address_is_refused_in_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(OttlaError, match=f"is not an address: {reason}") as refused:
        HostPort.parse(text)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.hint == "write host:port, such as localhost:9092 or [::1]:9092"


def test_a_listener_needs_no_host_and_no_port_of_its_own() -> None:
    assert HostPort.parse(":0", listens=True) == ("", 0)
    assert HostPort.parse("[::]:0", listens=True).is_every_interface
    assert HostPort("", 1).is_every_interface
    assert HostPort("0.0.0.0", 1).is_every_interface
    assert not HostPort("::1", 1).is_every_interface
