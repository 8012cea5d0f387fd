"""Tells an operator why etcd and a service don't accept each other, from the texts of etcd and gRPC.

Each row has a pattern of the text, and the sentence for it. These problems don't go away by themselves. A call that
failed with such a text did nothing: gRPC had no connection, or etcd has refused the caller first.
"""

from __future__ import annotations

import re
from typing import Final

from ottla_core.cluster.etcd_security import EtcdSecurity
from ottla_core.files.secret_file import NO_FILE

STALE: Final = (
    "etcdserver: invalid auth token",
    "etcdserver: user name is empty",
    "etcdserver: user name not found",
    "etcdserver: revision of auth store is old",
    "etcdserver: permission denied",
)
"""These texts may mean that etcd has refused a token, or missed one. So the service logs in again and repeats the call.
etcd says "permission denied" to a watch with an invalid token before 3.5.3, and to a call without a token if the
certificate names a user."""

NO_CONNECTION: Final = "failed to connect to all addresses"
"""gRPC puts these words before the reason if it has sent nothing. The reason alone may be that of a connection which
broke later."""

_REJECTED_CERTIFICATE: Final = (
    "it does not accept this service's certificate ({certificate}), which has expired or comes from a CA that etcd "
    "does not trust; etcd's log says which"
)
_NO_CERTIFICATE: Final = "it wants a certificate of this service; set etcd_tls_certificate and etcd_tls_key"
_REFUSALS: Final = (
    ("is not in peer certificate", "its certificate is for another host; issue it for the address in the setting etcd"),
    ("Hostname Verification", "its certificate is for another host; issue it for the address in the setting etcd"),
    ("certificate has expired", "its certificate has expired; renew it, and check this host's clock"),
    ("certificate is not yet valid", "its certificate is not valid yet; check this host's clock"),
    ("CERTIFICATE_VERIFY_FAILED", "its certificate does not come from a CA in {ca}; set etcd_tls_ca to its CA"),
    ("ALERT_CERTIFICATE_REQUIRED", _NO_CERTIFICATE),
    ("ALERT_BAD_CERTIFICATE", _REJECTED_CERTIFICATE),
    ("ALERT_CERTIFICATE", _REJECTED_CERTIFICATE),
    ("ALERT_UNKNOWN_CA", _REJECTED_CERTIFICATE),
    ("ALERT_UNKNOWN_CERTIFICATE", _REJECTED_CERTIFICATE),
    ("ALERT_UNSUPPORTED_CERTIFICATE", _REJECTED_CERTIFICATE),
    ("WRONG_VERSION_NUMBER", "it speaks no TLS; write http:// before its address, or set etcd up with TLS"),
    (
        f"{NO_CONNECTION}.*Handshake read failed",
        "it ends connections with TLS; if that lasts, write http:// before its address",
    ),
    (
        f"{NO_CONNECTION}.*Socket closed",
        "it ends connections at once; if that lasts, write https:// before its address",
    ),
    ("etcdserver: authentication failed", "the user {user} or the password in {password_file} is wrong"),
    (
        "etcdserver: permission denied",
        "{who} may not use this cluster's keys; give its role readwrite for the prefix /ottla/<cluster_id>/",
    ),
    (
        "etcdserver: user name is empty",
        "it wants to know who this service is; set etcd_user and etcd_password_file, or etcd_tls_certificate",
    ),
    ("etcdserver: user name not found", "it does not know {who}; add the user to etcd"),
    ("etcdserver: invalid auth token", "it accepts a token of {who} only for a moment; check its --auth-token"),
)


def refusal(details: str, security: EtcdSecurity) -> str | None:
    """Return the sentence for a text, or None if it is another problem, such as an etcd that is away."""
    for pattern, sentence in _REFUSALS:
        if re.search(pattern, details, re.DOTALL):
            if sentence is _REJECTED_CERTIFICATE and security.certificate == NO_FILE:
                return _NO_CERTIFICATE
            return sentence.format(
                who=f"the user {security.user}" if security.user else "the user that the certificate names",
                user=security.user,
                ca=security.ca,
                certificate=security.certificate,
                password_file=security.password_file,
            )
    return None
