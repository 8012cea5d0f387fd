"""What clients were told, against what the log says. Raises `Broken` at the first thing that must not be.

The log tells by itself whether a decision was lost, written twice or made against another state: each record says which
count of its key it makes (module counters). The clients' answers are held against it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import Final

from tests.simulation.counters import Counters, Written, apply_marker, is_note, written
from tests.simulation.partition import Replica, Stored

from ottla_core.coordination.batches import read_batches
from ottla_core.coordination.shard import Entry, Record


class Broken(AssertionError):  # noqa: N818 - a finding, not a failure of the program
    """A promise was broken: which one, and how."""


@dataclass
class Operation:
    """`floor`: what was acknowledged of its key when it was asked."""

    number: int
    kind: str  # write, read, memory, watch
    key: bytes
    floor: int
    done: bool = False

    @property
    def name(self) -> bytes:
        return b"%s%d" % (self.kind[:1].encode(), self.number)


class History:
    def __init__(self, staleness_s: float) -> None:
        self.committed: Final[list[Stored]] = []
        self.values: Final[dict[bytes, tuple[int, bytes]]] = {}
        self.acknowledged: Final[dict[bytes, Written]] = {}
        self.failed: Final[set[bytes]] = set()
        self.answers = {"write": 0, "read": 0, "memory": 0, "by proof": 0, "watch": 0, "refused": 0, "failed": 0}
        self.left: Final[Counter[str]] = Counter()
        """Why owners have left."""
        self._acks: Final[dict[bytes, tuple[list[float], list[int]]]] = {}
        self._staleness_s: Final = staleness_s
        self.offsets: Final[dict[bytes, int]] = {}
        self.pending: Final[dict[int, dict[bytes, int]]] = {}
        self.decided: Final[dict[int, tuple[bytes, bool]]] = {}
        self.ended: Final[set[int]] = set()
        self._transactional: Final[dict[int, list[Record]]] = {}  # as `_written`
        self._owner: Stored | None = None
        self._writes: Final[dict[bytes, Stored]] = {}
        self._written: Final[dict[int, list[Written]]] = {}  # what the committed batches hold, by their offsets

    # ---- the log --------------------------------------------------------------------------------------------------

    def on_committed(self, leader: Replica) -> None:
        """A high watermark has moved: what lies below is for ever, and the same for everybody."""
        below = len(self.committed)
        if below and (below > len(leader.log) or leader.log[below - 1] is not self.committed[-1]):
            ends = leader.high_watermark, self.committed[-1].next_offset
            if ends[0] < ends[1] and self._is_prefix(leader):
                return
            raise Broken(f"two leaders have called different logs committed, up to {ends}")
        for batch in leader.log[below:]:
            if batch.next_offset > leader.high_watermark:
                break
            self._commit(batch)

    def _is_prefix(self, leader: Replica) -> bool:
        """A deposed leader may know late what was committed while it led."""
        known = [batch for batch in leader.log if batch.next_offset <= leader.high_watermark]
        return all(a is b for a, b in zip(known, self.committed, strict=False))

    def _commit(self, batch: Stored) -> None:
        self.committed.append(batch)
        if batch.fence is not None:
            former = self._owner.fence if self._owner is not None else None
            if former is not None and batch.fence.epoch <= former.epoch:
                raise Broken(f"the fence {batch.fence} came after {former}")
            self._owner = batch
            return
        if self._owner is None or self._owner.life != batch.life:
            raise Broken(f"offset {batch.base_offset} is of an owner that was fenced before")
        self._written[batch.base_offset] = notes_of(batch)
        self._transactional[batch.base_offset] = of_transactions(batch)
        for record in self._transactional[batch.base_offset]:
            self._on_transactional(record)
        for key, count, who in self._written[batch.base_offset]:
            if count != self.values.get(key, (0, b""))[0] + 1:
                raise Broken(f"{who!r} made the count {count} of {key!r} where {self.values.get(key)} was committed")
            self.values[key] = (count, who)
            if who != b"t":
                self._writes[who] = batch
        for key, count, who in values_of(batch):
            if (count, who) != self.values.get(key):
                raise Broken(
                    f"{who!r} wrote the count {count} of {key!r} last, and by its notes {self.values.get(key)}"
                )

    def _on_transactional(self, record: Record) -> None:
        assert record.producer is not None
        number = record.producer.id
        if number in self.ended:
            raise Broken(f"{record} came after the marker of its transaction")
        if isinstance(record, Entry):
            self.pending.setdefault(number, {})[record.key] = int(record.value or b"")
            return
        key, committed = self.decided[number]
        if record.committed != committed:
            raise Broken(f"{record} says another thing than what was decided")
        if committed and self.pending.get(number) != {key: number}:
            raise Broken(f"transaction {number} was committed with {self.pending.get(number)}")
        self.ended.add(number)
        apply_marker(record, self.offsets, self.pending)

    def on_decided(self, number: int, key: bytes, *, committed: bool) -> None:
        self.decided[number] = key, committed

    # ---- clients --------------------------------------------------------------------------------------------------

    def floor(self, key: bytes, at: float) -> int:
        """What had been acknowledged of the key by then."""
        times, counts = self._acks.get(key, ([], []))
        place = bisect_right(times, at)
        return counts[place - 1] if place else 0

    def on_answer(self, operation: Operation, count: int, now: float) -> None:
        self._once(operation)
        self.answers[operation.kind] += 1
        if operation.kind == "write":
            self._acknowledge(operation, count, now)
        else:
            self._check_read(operation, count, now)

    def _check_read(self, operation: Operation, count: int, now: float) -> None:
        """From memory it may be stale and not committed yet; by the last proof, stale."""
        known = operation.floor
        if operation.kind in ("memory", "by proof"):
            known = min(self.floor(operation.key, now - self._staleness_s), known)
        if count < known:
            raise Broken(f"{operation.name!r} read {count} ({operation.kind}), and {known} had been acknowledged")
        if operation.kind != "memory" and count > self.values.get(operation.key, (0, b""))[0]:
            raise Broken(f"{operation.name!r} read {count}, which is not committed")

    def on_refusal(self, operation: Operation, *, surely: bool) -> None:
        self._once(operation)
        self.answers["refused"] += 1
        if surely and operation.kind == "write":
            self.answers["failed"] += 1
            self.failed.add(operation.name)

    def _once(self, operation: Operation) -> None:
        if operation.done:
            raise Broken(f"{operation.name!r} was answered twice")
        operation.done = True

    def _acknowledge(self, operation: Operation, count: int, now: float) -> None:
        self.acknowledged[operation.name] = (operation.key, count, operation.name)
        times, counts = self._acks.setdefault(operation.key, ([], []))
        times.append(now)
        counts.append(max(count, counts[-1] if counts else 0))

    # ---- owners, and the end --------------------------------------------------------------------------------------

    def check_state(self, next_offset: int, counters: Counters) -> None:
        """An owner with nothing under way has exactly what the log says up to `next_offset`."""
        state: dict[bytes, tuple[int, bytes]] = {}
        log = Counters()
        for batch in self.committed:
            if batch.next_offset > next_offset:
                break
            state.update({key: (count, who) for key, count, who in self._written.get(batch.base_offset, ())})
            for record in self._transactional.get(batch.base_offset, ()):
                log.apply(record)
        end = self.committed[-1].next_offset if self.committed else 0
        if next_offset > end or counters.values != state:
            raise Broken(f"a state is not the log's up to {next_offset} (of {end}): {counters.values} and {state}")

        if (counters.offsets, counters.pending) != (log.offsets, log.pending):
            raise Broken(f"offsets are {counters.offsets}, {counters.pending}; by the log {log.offsets}, {log.pending}")

    def check_end(self) -> None:
        """All acknowledged writes are there with the count that was told, and none that failed."""
        for name, (key, count, _) in self.acknowledged.items():
            batch = self._writes.get(name)
            if batch is None or (key, count, name) not in self._written[batch.base_offset]:
                raise Broken(f"the write {name!r} was acknowledged as count {count} of {key!r}, and is lost")
        if self.pending or self.decided.keys() != self.ended:
            raise Broken(f"transactions have no end: {self.decided.keys() - self.ended}, {self.pending}")
        for name in self.failed & self._writes.keys():
            if not self._writes[name].sent_twice:
                raise Broken(f"the write {name!r} was said to have failed, and was carried out")


def of_transactions(batch: Stored) -> list[Record]:
    return [record for read in read_batches(batch.data) for record in read.of_transactions]


def notes_of(batch: Stored) -> list[Written]:
    """Return what each decision of a batch has made."""
    return [written(entry) for entry in _entries_of(batch) if is_note(entry.key)]


def values_of(batch: Stored) -> list[Written]:
    """Return what a batch makes of its keys."""
    return [written(entry) for entry in _entries_of(batch) if not is_note(entry.key)]


def _entries_of(batch: Stored) -> list[Entry]:
    return [Entry(*pair) for read in read_batches(batch.data) for pair in read.pairs]
