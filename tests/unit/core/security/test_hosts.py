"""The hosts of ACLs: every host, addresses, and ranges."""

from __future__ import annotations

import pytest

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.hosts import HostRanges, address_of, canonical_host, check_host


@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("*", "*"),
        ("10.0.0.1", "10.0.0.1"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.1.2.3/08", "10.0.0.0/8"),
        ("2001:DB8::5/32", "2001:db8::/32"),
        ("somewhere", "somewhere"),
        ("010.0.0.1", "010.0.0.1"),
        ("10.0.0.0/33", "10.0.0.0/33"),
        ("", ""),
    ],
)
def test_a_host_has_one_spelling(host: str, canonical: str) -> None:
    assert canonical_host(host) == canonical


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/ 8", "10.0.0.0/8 "),
        *("10.0.0/8", "10.0.0.256/8", "10.0.0.0/255.0.0.0", "10.0.0.0/8/8", "somewhere/8", "*/8", "10.0.0.0/８"),
        *("2001:db8::/129", "2001:db8/32", "fe80::1%eth0/64", "::ffff:10.0.0.0/104"),
    ],
)
def test_what_is_no_host_for_an_acl(pattern: str) -> None:
    with pytest.raises(OttlaError) as rejected:
        check_host(pattern)
    assert rejected.value.code == ErrorCode.INVALID_REQUEST
    assert rejected.value.hint


@pytest.mark.parametrize("pattern", ["*", "10.0.0.1", "::1", "somewhere", "0.0.0.0/0", "::/0", "10.1.2.3/8"])
def test_what_is_a_host_for_an_acl(pattern: str) -> None:
    check_host(pattern)


@pytest.mark.parametrize(
    ("host", "within"),
    [
        ("10.0.0.1", {"0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/31"}),
        ("10.0.0.2", {"0.0.0.0/0", "10.0.0.0/8"}),
        ("::ffff:10.0.0.2", {"0.0.0.0/0", "10.0.0.0/8"}),
        ("11.0.0.1", {"0.0.0.0/0"}),
        ("11.0.0.2", {"0.0.0.0/0", "11.0.0.2/32"}),
        ("2001:db8::1", {"::/0", "2001:db8::/32"}),
        ("2001:db9::1", {"::/0"}),
        ("fe80::1%eth0", {"::/0", "fe80::/10"}),
        ("::a00:1", {"::/0"}),
    ],
)
def test_the_ranges_that_contain_an_address(host: str, within: set[str]) -> None:
    ranges = HostRanges(
        [
            *("0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/31", "11.0.0.2/32", "12.0.0.0/8"),
            *("::/0", "2001:db8::/32", "fe80::/10", "no/range"),
        ]
    )
    address = address_of(host)
    assert address is not None
    assert set(ranges.containing(address)) == within
