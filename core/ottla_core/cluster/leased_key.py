"""Putting a registration under a lease. The key names the process, and its create_revision is the process's epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ottla_core.cluster.store import Compare, Delete, KeyValue, MetaStore, Put, StoreUnavailableError

CALL_S: Final = 3.0


async def put_anew(
    store: MetaStore,
    key: str,
    value: bytes,
    lease: int,
    check_replaceable: Callable[[KeyValue], None],
    *,
    seen: Sequence[Compare] = (),
    also: Sequence[Put] = (),
) -> KeyValue:
    """Put the key with `value` under `lease`. A former process's key is removed first, so that there is a deletion, and
    a creation with a larger epoch.

    `also` is put in the same transaction, if `seen` holds. The key is read before every step, because the result of the
    last one may be unknown (rule C4). Raises what `check_replaceable(entry)` raises for a key that another process has
    put, and StoreUnavailableError if `seen` does not hold.
    """
    while True:
        entry = await read_key(store, key)
        if entry is None:
            vacant = Compare(key, create_revision=0)
            put = await store.txn([vacant, *seen], [Put(key, value, lease), *also], timeout=CALL_S)
            if not put.succeeded and seen and await read_key(store, key) is None:
                raise StoreUnavailableError("a key that the registration relies on has changed", indefinite=False)
        elif entry.lease == lease:
            return entry
        else:
            check_replaceable(entry)
            former = Compare(key, mod_revision=entry.mod_revision)
            await store.txn([former], [Delete(key)], timeout=CALL_S)


async def alter(store: MetaStore, key: str, altered: Callable[[KeyValue], bytes | None]) -> bool:
    """Put what `altered(entry)` returns for the key, under the lease that it has. Return whether it was put.

    It was not if the key is gone, `altered` returns None, or another change came between. Raises StoreUnavailableError.
    """
    entry = await read_key(store, key)
    value = None if entry is None else altered(entry)
    if entry is None or value is None:
        return False
    unchanged = Compare(key, mod_revision=entry.mod_revision)
    return (await store.txn([unchanged], [Put(key, value, entry.lease)], timeout=CALL_S)).succeeded


async def read_key(store: MetaStore, key: str) -> KeyValue | None:
    snapshot = await store.snapshot(key, timeout=CALL_S)
    return next((entry for entry in snapshot.entries if entry.key == key), None)
