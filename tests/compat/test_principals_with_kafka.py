"""Our principals of clients with certificates beside Kafka's: the spelling of names, and ssl.principal.mapping.rules.

Where both refuse a rule, ours does when the broker starts. Kafka often does only when a name reaches the rule.
"""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type as Asn1Type
from cryptography.x509.oid import NameOID
from peers.kafka import principal_judge
from tests.compat.cells import DIFFERS

from ottla_core.errors import OttlaError
from ottla_core.security.distinguished_name import distinguished_name
from ottla_core.security.principal_mapping import PrincipalMapping

CERTIFICATES = 1_000
RULES = 6_000
KEY = generate_private_key(SECP256R1())
VALID = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
OIDS = [
    *(NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.LOCALITY_NAME),
    *(NameOID.STATE_OR_PROVINCE_NAME, NameOID.STREET_ADDRESS, NameOID.DOMAIN_COMPONENT, NameOID.USER_ID),
    *(NameOID.EMAIL_ADDRESS, NameOID.SERIAL_NUMBER, NameOID.TITLE, x509.ObjectIdentifier("1.2.3.4")),
]
TYPES = [
    *(Asn1Type.UTF8String, Asn1Type.UTF8String, Asn1Type.PrintableString, Asn1Type.IA5String, Asn1Type.T61String),
    *(Asn1Type.BMPString, Asn1Type.UniversalString),
]
CHARACTERS = "abcXYZ 019-./:()?'" * 3 + ',=+<>#;"\\\r\t\n@_*&é日  '
NAMES = [
    "CN=duke,OU=ServiceUsers,O=Org,C=US",
    "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
    "cn=duke,ou=sme,dc=mycp,dc=com",
    "OU=x,CN=bob\\,jr,O=a/b",
    "CN=a,CN=b",
    "",
]
PATTERNS = ["CN=", "(.*?)", r"(\w+)", ".*", ",OU=", "^", "$", "(x)?", "[^,]*"]
REPLACEMENTS = ["$1", "$2", "$13", r"\/", r"\$", "x", "$0", r"\\", "$"]
PIECES = ["RULE:", "RULE:CN=(.*?)", "/", "/", "/", "L", "U", "DEFAULT", ", ", ",", "$1", ".*"]


def certificate(chance: random.Random) -> bytes:
    parts: list[x509.RelativeDistinguishedName] = []
    while not parts:
        for _ in range(chance.randint(1, 4)):
            attributes = {}
            for oid in chance.sample(OIDS, chance.choice((1, 1, 1, 2))):
                text = "".join(chance.choices(CHARACTERS, k=chance.randint(1, 12)))
                kind = chance.choice(TYPES)
                if kind not in (Asn1Type.UTF8String, Asn1Type.BMPString, Asn1Type.UniversalString):
                    text = "".join(character for character in text if character.isalnum() and character.isascii())
                with suppress(ValueError):  # some attributes are never empty
                    attributes[oid] = x509.NameAttribute(oid, text, kind)
            if attributes:
                parts.append(x509.RelativeDistinguishedName(attributes.values()))
    subject = x509.Name(parts)
    built = x509.CertificateBuilder(subject, subject, KEY.public_key(), 1, *VALID)
    return built.sign(KEY, SHA256()).public_bytes(Encoding.DER)


@DIFFERS.cell
def test_names_in_certificates_are_spelled_as_by_java() -> None:
    chance = random.Random(172)
    certificates = [certificate(chance) for _ in range(CERTIFICATES)]
    assert [
        f"={distinguished_name(x509.load_der_x509_certificate(one))}" for one in certificates
    ] == principal_judge.names(certificates)


def rules(chance: random.Random) -> str:
    if chance.random() < 0.3:
        return "".join(chance.choices(PIECES, k=chance.randint(1, 8)))
    pattern = "".join(chance.choices(PATTERNS, k=chance.randint(1, 5)))
    replacement = "".join(chance.choices(REPLACEMENTS, k=chance.randint(0, 3)))
    return f"RULE:{pattern}/{replacement}/{chance.choice(('', 'L', 'U'))}{chance.choice(('', ',DEFAULT'))}"


def ours(rules: str, name: str) -> str:
    try:
        mapped = PrincipalMapping(rules).name(name)
    except OttlaError as error:
        return f"!{error.message}"
    return "!NoMatchingRule" if mapped is None else f"={mapped}"


@DIFFERS.cell
def test_rules_map_names_as_in_kafka() -> None:
    chance = random.Random(173)
    questions = [(rules(chance), chance.choice(NAMES)) for _ in range(RULES)]
    answers = principal_judge.mapped(questions)
    mapped = 0
    for question, theirs in zip(questions, answers, strict=True):
        found = ours(*question)
        if found.startswith("="):
            # Kafka fails if a replacement names two groups that the pattern does not have.
            assert theirs in (found, "!IndexOutOfBoundsException"), question
            mapped += found == theirs
        elif found == "!NoMatchingRule":
            assert theirs == found, question
        else:
            assert theirs.startswith("!") or "in its replacement" in found or "has no group" in found, question
    assert mapped > RULES / 10
