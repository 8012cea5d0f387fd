"""gRPC's words for a connection that failed, and ours. The words are those of grpcio 1.85."""

from __future__ import annotations

import pytest

from ottla_core.rpc.handshake_failures import failure_of

CONNECTING = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:9650: "
HANDSHAKE = "Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:"


@pytest.mark.parametrize(
    ("details", "said"),
    [
        (f"{HANDSHAKE}CERTIFICATE_VERIFY_FAILED: certificate has expired: OK", "has expired"),
        (f"{HANDSHAKE}CERTIFICATE_VERIFY_FAILED: certificate is not yet valid: OK", "is not valid yet"),
        (f"{HANDSHAKE}CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate: OK", "no authority in"),
        (f"{HANDSHAKE}CERTIFICATE_VERIFY_FAILED: self signed certificate in chain: OK", "no authority in"),
        (f"{HANDSHAKE}WRONG_VERSION_NUMBER: Invalid certificate verification context: OK", "does not speak TLS"),
        (
            "Custom verification check failed with error: UNAUTHENTICATED: Hostname Verification Check failed.",
            "is not for this host",
        ),
        ("Socket closed", "closed the new connection"),
        ("recvmsg:Connection reset by peer", "closed the new connection"),
    ],
)
def test_a_failure_of_a_handshake_has_a_reason_and_a_hint(details: str, said: str) -> None:
    failure = failure_of(CONNECTING + details)
    assert failure is not None
    assert said in failure.reason
    assert failure.hint


@pytest.mark.parametrize(
    "details",
    [
        f"{CONNECTING}Failed to connect to remote host: Connection refused",
        f"{CONNECTING}FD shutdown",
        "Socket closed",
        "Deadline Exceeded",
        "",
    ],
)
def test_other_failures_keep_grpcs_words(details: str) -> None:
    assert failure_of(details) is None
