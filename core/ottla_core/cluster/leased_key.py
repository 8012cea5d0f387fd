"""Putting a registration under a lease: the key says who is there, its create_revision is the epoch of that life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla_core.cluster.store import Compare, Delete, KeyValue, MetaStore, Put

CALL_S: Final = 3.0


async def put_anew(
    store: MetaStore, key: str, value: bytes, lease: int, check_replaceable: Callable[[KeyValue], None]
) -> KeyValue:
    """The key with `value` under `lease`. A former life's is removed first: a death and a birth, with a larger epoch.

    Looks before every step, for a lost answer (rule C4). Raises what `check_replaceable(entry)` raises for a key that
    somebody else has put.
    """
    while True:
        entry = await read_key(store, key)
        if entry is None:
            await store.txn([Compare(key, create_revision=0)], [Put(key, value, lease)], timeout=CALL_S)
        elif entry.lease == lease:
            return entry
        else:
            check_replaceable(entry)
            former = Compare(key, mod_revision=entry.mod_revision)
            await store.txn([former], [Delete(key)], timeout=CALL_S)


async def read_key(store: MetaStore, key: str) -> KeyValue | None:
    snapshot = await store.snapshot(key, timeout=CALL_S)
    return next((entry for entry in snapshot.entries if entry.key == key), None)
