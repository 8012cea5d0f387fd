"""The metadata store as ottla needs it, and no more: etcd's snapshot, transaction, watch and lease.

Coordination needs four guarantees. A *snapshot* is linearizable and of one revision, so a process knows where to go on
from. A *transaction* compares revisions and writes all or nothing, so a decision that relied on something old writes
nothing. A *watch* brings every later change in order, or says that it can't. A *lease* removes the keys of a process
that died, so the death of a process is an ordinary change of metadata.

A call may fail after the store has carried it out. A writer has to handle that third outcome, and `indefinite` says
when it is possible.

`etcd.EtcdStore` is the real store. `memory.MemoryStore` is its twin with the same revisions and the same comparisons.
One suite (tests/system/test_meta_store.py) examines both, so tests may rely on the twin. Keys are text, values are
bytes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

# etcd's --max-txn-ops, which bounds the longest of the lists of compares and operations. etcd rejects a larger
# transaction at any moment of the cluster's life, so a decision has to be divided before it is sent.
MAX_TXN_OPS: Final = 128
# This counts keys and values. The rest, up to etcd's limit of 1.5 MiB for a request, is for their framing.
MAX_TXN_BYTES: Final = 1_500_000


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
    """A condition: the key's revision is exactly this one. 0 means that the key does not exist.

    The create_revision changes when a key is deleted and created again: it distinguishes incarnations. The mod_revision
    changes with every write: it shows whether anything happened since the caller looked.
    """

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
    """`revision` is the store's revision after the transaction. If it succeeded, that is the revision of its writes."""

    succeeded: bool
    revision: int


@dataclass(frozen=True, slots=True)
class Event:
    """A put, or a deletion if `deleted` is set. `entry.value` is then empty, and `mod_revision` is that of the
    deletion."""

    entry: KeyValue
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class EventBatch:
    """All events of one or more complete revisions, in order.

    A batch never ends within a revision, or an image made from it would show half a transaction (I9). A batch without
    events only shows that the store is still there.
    """

    revision: int
    events: tuple[Event, ...]


class StoreUnavailableError(Exception):
    """The store did not respond. `indefinite` says that a write may have happened.

    A caller must then read back what became of the write. If it took the write for failed, it might decide and write
    it a second time.
    """

    def __init__(self, message: str, *, indefinite: bool) -> None:
        super().__init__(message)
        self.indefinite: Final = indefinite


class StoreRefusedError(StoreUnavailableError):
    """The store and this process don't accept each other: a certificate, a password or a permission is wrong.

    The refused call did nothing. Only an operator can help, so the message says what to do. Calls are tried again, as
    if the store were away, because the operator may help at any time.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, indefinite=False)


class CompactedError(Exception):
    """The revision to watch from is gone, or the store has not come to it. A watcher has to take a new snapshot."""


class LeaseLostError(Exception):
    """The lease no longer exists, and neither do the keys that were put under it."""


def check_txn(compares: Sequence[Compare], ops: Sequence[Put | Delete]) -> None:
    """Raise ValueError for what etcd would reject: too many operations, too many bytes, or a key twice.

    The twin has no such limits by itself. The check runs in both stores, so that a test finds a transaction that is too
    large before etcd does.
    """
    # One `Compare` with both revisions counts as two of etcd's compares.
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
        """Read all keys under `prefix`, linearizably, and all pages at one revision."""
        ...

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Put | Delete], *, timeout: float) -> TxnResult:
        """Carry out all `ops` if every compare is true, or else nothing.

        Raises ValueError as `check_txn` does, and LeaseLostError if a put names a lease that is gone: in both cases
        nothing was done. After an indefinite StoreUnavailableError the transaction may have been carried out.
        """
        ...

    def watch(self, prefix: str, *, from_revision: int) -> AsyncGenerator[EventBatch, None]:
        """Yield every event under `prefix` from that revision (at least 1) on, in order, without a gap.

        The watch ends only by an error. CompactedError means that the changes can't be had any more.
        StoreUnavailableError means that the connection broke; followers then watch again from the revision after the
        last one they saw. A batch without events comes every few seconds and says only that the store is there. Close
        the generator (`contextlib.aclosing`) to end the watch.
        """
        ...

    async def grant_lease(self, ttl_s: int, *, timeout: float) -> int:
        """Grant a new lease, and return its id."""
        ...

    async def keep_alive(self, lease: int, *, timeout: float) -> int:
        """Restart the lease's countdown. Return its seconds to live. Raises LeaseLostError."""
        ...

    async def revoke_lease(self, lease: int, *, timeout: float) -> None:
        """End the lease and delete its keys. A lease that is gone already is no error."""
        ...

    async def size_bytes(self, *, timeout: float) -> int:
        """Return the size that the quota limits: etcd's data file, including what was deleted since it was
        defragmented."""
        ...

    async def close(self) -> None: ...
