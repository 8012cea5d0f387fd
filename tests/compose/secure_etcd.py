"""What certificates open in the secured stack's etcd: a service's opens the keys of its cluster, and no other does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.compose.visitor import visit
from tests.hosts.shell import ProofError, say

from ottla_core.cluster import keys
from ottla_stack.plan import StackPlan

_VISITOR: Final = Path(__file__).with_name("etcd_visitor.py")
_OUTSIDE: Final = ("/ottla/another/", "/ottla/", "/ottla/ottla", "/another/")
"""Prefixes that are not the cluster's. Two of them contain it."""


def try_etcd(plan: StackPlan) -> int:
    """Try etcd by three identities, and return how many tries were refused. Raises ProofError if one that should be
    refused is not, or if a service can't use the keys of its cluster."""
    own = keys.prefix(plan.cluster_id)
    refused = 0
    for who, keys_of, with_certificate, allowed in (
        ("the certificate of broker-0", "broker-0", True, {own}),
        ("the certificate of the health check", "etcd", True, set[str]()),
        ("a client without a certificate", "broker-0", False, set[str]()),
    ):
        given = json.dumps({"prefixes": [own, *_OUTSIDE], "certificate": with_certificate})
        found: dict[str, dict[str, str]] = json.loads(visit(_VISITOR, given, keys_of=keys_of))
        for prefix, tries in found.items():
            for what, told in tries.items():
                if (told == "done") != (prefix in allowed):
                    raise ProofError(f"{who} may {'' if told == 'done' else 'not '}{what} {prefix} in etcd: {told}")
                refused += told != "done"
    say(f"etcd: a service uses the keys under {own}; {refused} tries beyond that, or by other clients, are refused")
    return refused
