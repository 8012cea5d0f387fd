"""Says in plain words why a connection between services failed. gRPC says it in the words of its TLS library.

A server that rejects its caller's certificate closes the connection without a reason, as TLS 1.3 prescribes. So the
caller can only name a possible reason.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class HandshakeFailure(NamedTuple):
    """It says why there is no connection, and what to do."""

    reason: str
    hint: str


_OF_CONNECTING: Final = "failed to connect to all addresses"
_CLOSED: Final = ("Socket closed", "Connection reset")
_REJECTED: Final = HandshakeFailure(
    "the other side closed the new connection",
    "if it is up and this lasts, it may not accept this side's certificate: both need one that has not expired, of an "
    "authority in the other's internal_tls_ca, or none",
)
_KNOWN: Final = {
    "certificate has expired": HandshakeFailure(
        "the certificate at the other side has expired",
        "issue another one with `ottla ca rotate --dir DIR`, where DIR has its authority",
    ),
    "certificate is not yet valid": HandshakeFailure(
        "the certificate at the other side is not valid yet", "correct the clocks of both machines"
    ),
    "Hostname Verification Check failed": HandshakeFailure(
        "the certificate at the other side is not for this host", "issue one with --host for its advertised address"
    ),
    "WRONG_VERSION_NUMBER": HandshakeFailure(
        "the other side does not speak TLS", "set internal_tls_certificate, _key and _ca of all services, or of none"
    ),
    "CERTIFICATE_VERIFY_FAILED": HandshakeFailure(
        "no authority in internal_tls_ca has signed the certificate at the other side",
        "give all services of the cluster one file ca.pem, and certificates of an authority in it",
    ),
}
"""These failures are found by words in gRPC's details. The first that fits counts."""


def failure_of(details: str) -> HandshakeFailure | None:
    """Return the failure that gRPC's details speak of, or None if they speak of something else."""
    if _OF_CONNECTING not in details:
        return None
    for words, failure in _KNOWN.items():
        if words in details:
            return failure
    return _REJECTED if any(words in details for words in _CLOSED) else None
