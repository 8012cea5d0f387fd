"""Names of certificates, as Java's X500Principal.getName() spells them. `tests/compat/test_principals_with_kafka.py`
asks Java itself."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from ottla_core.security.distinguished_name import distinguished_name

KEY = generate_private_key(SECP256R1())
VALID = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)


def certificate(*parts: list[x509.NameAttribute[str]]) -> x509.Certificate:
    subject = x509.Name([x509.RelativeDistinguishedName(part) for part in parts])
    built = x509.CertificateBuilder(subject, subject, KEY.public_key(), 1, *VALID)
    return built.sign(KEY, SHA256())


def attribute(oid: x509.ObjectIdentifier, text: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(oid, text)


COUNTRY = [attribute(NameOID.COUNTRY_NAME, "US")]


def cn(text: str) -> list[x509.NameAttribute[str]]:
    return [attribute(NameOID.COMMON_NAME, text)]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([COUNTRY, [attribute(NameOID.ORGANIZATION_NAME, "Org")], cn("duke")], "CN=duke,O=Org,C=US"),
        ([cn('a,b+c"d\\e<f>g;h=i#j')], r"CN=a\,b\+c\"d\\e\<f\>g\;h\=i\#j"),
        ([cn(" two  spaces ")], "CN=\\ two  spaces\\ "),
        ([cn("a\0b")], "CN=a\\00b"),
        ([cn("Jürgen 日")], "CN=Jürgen 日"),
        ([[*cn("a"), attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "b")]], "CN=a+OU=b"),
        (
            [[attribute(NameOID.EMAIL_ADDRESS, "a@b")], cn("c")],
            "CN=c,1.2.840.113549.1.9.1=#1603614062",
        ),
        ([[attribute(NameOID.DOMAIN_COMPONENT, "com")], [attribute(NameOID.USER_ID, "u")]], "UID=u,DC=com"),
        ([[attribute(NameOID.TITLE, "x" * 200)]], "2.5.4.12=#0c81c8" + "78" * 200),
        ([], ""),
    ],
)
def test_a_name_is_spelled_as_by_java(parts: list[list[x509.NameAttribute[str]]], expected: str) -> None:
    assert distinguished_name(certificate(*parts)) == expected
