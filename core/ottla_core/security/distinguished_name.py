"""Spells the distinguished name of a certificate's subject as Kafka's brokers spell it.

Kafka takes Java's X500Principal.getName(), and ACLs and mapping rules are written for it. It is RFC 2253: the last part
comes first, and parts that RFC 2253 has no keyword for are a number and their bytes, as in `1.2.840.113549.1.9.1=#16…`
for an e-mail address.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cryptography import x509

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""Java takes these types of ASN.1 for text: UTF8String, PrintableString, T61String, IA5String, GeneralString and
BMPString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_SPACES: Final = " \r"


def distinguished_name(certificate: x509.Certificate) -> str:
    """Return the name of the certificate's subject. Raises ValueError if the name can't be read."""
    return ",".join(_part(part) for part in reversed(certificate.subject.rdns))


def _part(attributes: Iterable[x509.NameAttribute[str | bytes]]) -> str:
    return "+".join(_attribute(attribute) for attribute in attributes)


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    encoded = _value(attribute)
    keyword = _KEYWORDS.get(attribute.oid.dotted_string)
    if keyword is None or encoded[0] not in _TEXTS:
        return f"{keyword or attribute.oid.dotted_string}=#{encoded.hex()}"
    return f"{keyword}={_escaped(_content(encoded).decode(errors='replace'))}"


def _escaped(text: str) -> str:
    lead = len(text) - len(text.lstrip(_SPACES))
    trail = len(text.rstrip(_SPACES))
    escaped = ""
    for at, character in enumerate(text):
        if character == "\0":
            escaped += "\\00"
        elif character in _ESCAPED or not lead <= at < trail:
            escaped += f"\\{character}"
        else:
            escaped += character
    return escaped


def _value(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """Return the value in DER: what follows the attribute's number in a name that has nothing else."""
    name = x509.Name([x509.RelativeDistinguishedName([attribute])]).public_bytes()
    numbered = _content(_content(_content(name)))
    return numbered[2 + numbered[1] :]


def _content(element: bytes) -> bytes:
    """Return an element of DER without its type and length."""
    length = element[1]
    return element[2 + (length & 0x7F if length & 0x80 else 0) :]
