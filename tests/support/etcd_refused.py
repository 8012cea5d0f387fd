"""Tries the keys of an etcd, to see which it refuses."""

from __future__ import annotations

from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.etcd_security import EtcdSecurity
from ottla_core.cluster.store import Put, StoreRefusedError

_LIMIT_S = 10.0


async def refused(address: str, security: EtcdSecurity, prefix: str) -> list[str]:
    """Return which of a read and a write of a key with this prefix etcd refuses."""
    store = EtcdStore([address], security)
    try:
        found = []
        try:
            await store.snapshot(prefix, timeout=_LIMIT_S)
        except StoreRefusedError:
            found.append("read")
        try:
            await store.txn([], [Put(f"{prefix}key", b"value")], timeout=_LIMIT_S)
        except StoreRefusedError:
            found.append("write")
        return found
    finally:
        await store.close()
