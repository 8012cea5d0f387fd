"""What ottla needs of a metadata store, and no more: etcd's snapshot, transaction, watch and lease.

`etcd.EtcdStore` is the real one and `memory.MemoryStore` its twin with the same revisions and the same compare
semantics; one suite (tests/system/test_meta_store.py) examines both. Keys are text, values bytes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

MAX_TXN_OPS: Final = 128  # etcd's --max-txn-ops: the longest of compares and operations (rule C3)
MAX_TXN_BYTES: Final = 1_500_000  # keys and values; the rest up to etcd's 1.5 MiB is for their framing


@dataclass(frozen=True, slots=True)
class KeyValue:
    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every key under a prefix at one revision."""

    revision: int
    entries: tuple[KeyValue, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """True while the key's revision is exactly this one; 0 means that the key does not exist."""

    key: str
    create_revision: int | None = None
    mod_revision: int | None = None


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    key: str


@dataclass(frozen=True, slots=True)
class TxnResult:
    """`revision` is the store's after the transaction: that of its writes where it succeeded."""

    succeeded: bool
    revision: int


@dataclass(frozen=True, slots=True)
class Event:
    """A put, or a deletion where `entry.value` is empty and `deleted` is set; `mod_revision` is then the deletion's."""

    entry: KeyValue
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class EventBatch:
    """All events of one or more complete revisions, in order; without events it only shows that time passes."""

    revision: int
    events: tuple[Event, ...]


class StoreUnavailableError(Exception):
    """The store did not answer. `indefinite` says that a write may have happened: read back, never assume (rule C4)."""

    def __init__(self, message: str, *, indefinite: bool) -> None:
        super().__init__(message)
        self.indefinite: Final = indefinite


class CompactedError(Exception):
    """The revision to watch from is gone, or the store has not come to it; take a new snapshot (rule C5)."""


class LeaseLostError(Exception):
    """The lease does not exist any more, and neither do the keys that were put under it."""


def check_txn(compares: Sequence[Compare], ops: Sequence[Put | Delete]) -> None:
    """Raise ValueError for what etcd would reject: too many operations, too many bytes, a key twice (rule C3)."""
    conditions = sum((c.create_revision is not None) + (c.mod_revision is not None) for c in compares)
    if max(conditions, len(ops)) > MAX_TXN_OPS:
        raise ValueError(
            f"a transaction holds at most {MAX_TXN_OPS} compares and {MAX_TXN_OPS} operations, but this one has "
            f"{conditions} and {len(ops)}"
        )
    if any(c.create_revision is None and c.mod_revision is None for c in compares):
        raise ValueError("a compare has neither a create_revision nor a mod_revision")
    if len({op.key for op in ops}) < len(ops):
        raise ValueError("a transaction may write each key only once")
    size_bytes = sum(len(op.key.encode()) + (len(op.value) if isinstance(op, Put) else 0) for op in ops)
    if size_bytes > MAX_TXN_BYTES:
        raise ValueError(f"a transaction holds at most {MAX_TXN_BYTES} bytes, but this one has {size_bytes}")


class MetaStore(Protocol):
    """Every method raises StoreUnavailableError at its deadline (`timeout`, seconds) at the latest."""

    async def snapshot(self, prefix: str, *, timeout: float) -> Snapshot:
        """A linearizable read of all keys under `prefix`, all pages at one revision."""
        ...

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Put | Delete], *, timeout: float) -> TxnResult:
        """Do all `ops` if every compare is true, else nothing.

        Raises ValueError as `check_txn` does, and LeaseLostError where a put names a lease that is gone: either way
        nothing was done. After an indefinite StoreUnavailableError it may have been done (rule C4).
        """
        ...

    def watch(self, prefix: str, *, from_revision: int) -> AsyncGenerator[EventBatch, None]:
        """Every event under `prefix` from that revision (at least 1) on, in order, without a gap.

        Ends only by an error: CompactedError, or StoreUnavailableError where the connection broke; followers
        then watches again from the revision after the last one it saw. A batch without events comes every few seconds
        and says no more than that the store is there. Close the generator (`contextlib.aclosing`) to end the watch.
        """
        ...

    async def grant_lease(self, ttl_s: int, *, timeout: float) -> int:
        """A new lease's id."""
        ...

    async def keep_alive(self, lease: int, *, timeout: float) -> int:
        """Start the lease's countdown anew; its seconds to live. Raises LeaseLostError."""
        ...

    async def revoke_lease(self, lease: int, *, timeout: float) -> None:
        """End the lease and delete its keys. A lease that is gone already is no error."""
        ...

    async def size_bytes(self, *, timeout: float) -> int:
        """The size that the quota limits: etcd's data file, including what was deleted since it was defragmented."""
        ...

    async def close(self) -> None: ...
