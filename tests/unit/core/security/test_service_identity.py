"""What role a certificate names."""

from __future__ import annotations

import pytest

from ottla_core.security.service_identity import Role, ServiceIdentity, identity_of


@pytest.mark.parametrize("role", Role)
def test_an_identity_is_read_from_its_own_uri(role: Role) -> None:
    identity = ServiceIdentity(role, "b-1.eu")
    assert identity_of(["https://example.com", identity.uri]) == identity
    assert identity.principal == f"Service:{role}/b-1.eu"


@pytest.mark.parametrize(
    "uris",
    [
        (),
        ("spiffe://cluster/broker/1",),
        ("ottla://broker",),
        ("ottla://broker/",),
        ("ottla://broker/1/2",),
        ("ottla://broker/1\n",),
        ("ottla://broker/1?role=controller",),
        ("ottla://BROKER/1",),
        ("OTTLA://broker/1",),
        ("ottla://gravedigger/1",),
        (f"ottla://broker/{'x' * 65}",),
        ("ottla://broker/é",),
        ("xottla://broker/1",),
        ("ottla://broker/1", "ottla://controller/1"),
        ("ottla://broker/1", "ottla://broker/1"),
        ("ottla://broker/1", "OTTLA://controller/1"),
    ],
)
def test_anything_else_names_nobody(uris: tuple[str, ...]) -> None:
    assert identity_of(uris) is None
