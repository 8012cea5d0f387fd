"""Makes keys and certificates. Nothing here touches a file."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ottla_stack.ca.subject import Subject

_SKEW: Final = timedelta(hours=1)
"""How far back a certificate begins, for machines whose clocks are slow."""


class Issued(NamedTuple):
    """A new certificate and its key, both in PEM format."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that signs others, with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, name: str, lifetime: timedelta, now: datetime) -> Authority:
        """Make an authority. Two of them never have one name, so that a certificate shows which one has signed it."""
        key = ec.generate_private_key(ec.SECP256R1())
        its_name = _name(f"{name} {secrets.token_hex(4)}")
        unsigned = (
            _builder(its_name, its_name, key, now, now + lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
        )
        return cls(unsigned.sign(key, hashes.SHA256()), key)

    def issue(self, subject: Subject, lifetime: timedelta, now: datetime) -> Issued:
        """Issue a certificate, which ends with the authority's own at the latest."""
        key = ec.generate_private_key(ec.SECP256R1())
        end = min(now + lifetime, self.certificate.not_valid_after_utc)
        usages = [
            *([ExtendedKeyUsageOID.SERVER_AUTH] if subject.serves else []),
            *([ExtendedKeyUsageOID.CLIENT_AUTH] if subject.connects else []),
        ]
        unsigned = (
            _builder(_name(subject.common_name), self.certificate.subject, key, now, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if subject.alternative_names:
            names = x509.SubjectAlternativeName(subject.alternative_names)
            unsigned = unsigned.add_extension(names, critical=False)
        return Issued(pem_of(unsigned.sign(self.key, hashes.SHA256())), pem_of_key(key))

    def has_signed(self, certificate: x509.Certificate) -> bool:
        return is_signed_by(certificate, self.certificate)


def is_signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def pem_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
