"""Tells operators why the TLS of a connection has failed, and what to check."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

HANDSHAKE_RECORD: Final = 0x16
"""The first byte that a client with TLS sends."""
_NO_TLS: Final = "the client does not speak TLS; check that its security.protocol is that of this listener"
_REASONS: Final[Mapping[str, str]] = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate, and ssl_client_auth requires one; "
    "check the client's ssl.keystore settings",
    "UNSUPPORTED_PROTOCOL": "the client has none of the TLS versions in ssl_enabled_protocols",
    "VERSION_TOO_LOW": "the client has none of the TLS versions in ssl_enabled_protocols",
    "NO_SHARED_CIPHER": "the client has none of the broker's ciphers; check ssl_cipher_suites on both sides",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": "the client does not take the kind of key that the broker's certificate has",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the authority of the broker's certificate; "
    "check the client's truststore",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client has rejected the broker's certificate; check the client's "
    "truststore, the host names in the certificate and both clocks",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client has rejected the broker's certificate; check the client's truststore, "
    "the host names in the certificate and both clocks",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the broker's certificate has expired by the client's clock",
}
"""Sentences by OpenSSL's names of the reasons."""
_UNTRUSTED: Final[Mapping[int, str]] = {
    9: "is not valid yet; check the clocks of both machines",
    10: "has expired; check its date and the clocks of both machines",
    18: "is signed by itself, and not in ssl_truststore_location",
    19: "is signed by an authority that is not in ssl_truststore_location",
    20: "is signed by an authority that is not in ssl_truststore_location",
    21: "is signed by an authority that is not in ssl_truststore_location",
}
"""What is wrong with a client's certificate, by OpenSSL's codes, X509_V_ERR_…"""


def handshake_failure(error: ssl.SSLError, first_byte: int) -> str:
    """Say why a handshake has failed. `first_byte` is the first one that the client has sent."""
    if first_byte != HANDSHAKE_RECORD:
        return _NO_TLS
    if isinstance(error, ssl.SSLCertVerificationError):
        cause = _UNTRUSTED.get(error.verify_code, f"is not trusted ({error.verify_message})")
        return f"the client's certificate {cause}"
    return _REASONS.get(error.reason or "", f"the TLS handshake failed ({_said(error)})")


def record_failure(error: ssl.SSLError) -> str:
    """Say why the TLS of an open connection has failed."""
    return f"what the client has sent is damaged (TLS: {_said(error)})"


def _said(error: ssl.SSLError) -> str:
    return (error.reason or "unknown").replace("_", " ").lower()
