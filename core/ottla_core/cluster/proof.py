"""A caller that names itself a broker must prove it: ids and epochs are published, so they prove nothing.

Each process of a broker draws a secret and puts it into its registration in etcd, where only services read. It sends
the secret with its requests to other services as that broker. No response to a client carries it, and no log shows it.
"""

from __future__ import annotations

import hmac
import secrets

from ottla_core.cluster.image import Broker
from ottla_core.errors import ErrorCode, OttlaError

_SIZE_BYTES = 32


def new_secret() -> bytes:
    return secrets.token_bytes(_SIZE_BYTES)


def check_proof(registered: Broker, secret: bytes) -> None:
    """Raise CLUSTER_AUTHORIZATION_FAILED for a caller that is not the process that has registered.

    A registration without a secret is of an older release. There the epoch has to suffice, or brokers could not be
    replaced one after the other.
    """
    if registered.secret and not hmac.compare_digest(registered.secret, secret):
        raise OttlaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"the caller claims to be broker {registered.id}, but does not have the secret from that "
            "broker's registration",
            hint="only the broker's own process may send this request; clients must fetch as consumers",
        )
