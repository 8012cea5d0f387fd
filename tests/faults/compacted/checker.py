"""Holds what clients were told of a compacted topic against what they read of it, and what each replica has. Pure.

    lost         the newest acknowledged record of a key is not there, or something newer that nobody has sent is
    misplaced    a record at an offset at which another one was acknowledged, or acknowledged at another offset
    aborted      a record whose transaction was aborted, to readers of committed ones
    unmarked     a batch of a transaction without a marker, or with another end than the aborted index has for it
    corrupted    a record that its name does not promise
    skipped      a record that is there in the end was not there to a reader who came by
    reordered    a reader was handed an offset again, or one before it
    early        a tombstone was gone before delete.retention.ms after its first cleaning
    forgotten    of a producer that may come back, the last batch is not there
    unfenced     of a shard, the newest fence is not there
    unreadable   a reader was told of an error, or came to no end

`Told` is what writers were told; memory is a few hundred bytes for each record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.faults.compacted.records import is_tombstone, key_of
from tests.faults.compacted.replicas import Replica
from tests.faults.history import FINAL, Name, Operation
from tests.faults.kinds_found import KindsFound

KINDS: Final = (
    "lost", "misplaced", "aborted", "unmarked", "corrupted", "skipped", "reordered", "early", "forgotten", "unfenced",
    "unreadable",
)  # fmt: skip
ONCE: Final = "once-"
"""Writers whose names begin so write a few records that others supersede, and may come back."""
TRANSACTIONAL: Final = "tx"
"""And those whose names begin so write in transactions."""

_MS: Final = 1_000_000
_NEVER: Final = 1 << 62

Place = tuple[int, int]
"""A partition and an offset."""
Key = tuple[int, bytes]
"""A partition and a key."""


@dataclass(slots=True)
class Findings(KindsFound):
    """And how much was done."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    acknowledged: int = 0
    in_transactions: int = 0
    """Acknowledged records of committed transactions."""
    aborted: int = 0
    """Records of aborted ones."""
    keys: int = 0
    tombstones: int = 0
    passes: int = 0
    read: int = 0


class Sent(NamedTuple):
    """One record that was acknowledged; times as time.monotonic_ns()."""

    name: Name
    offset: int
    invoked_ns: int
    acked_ns: int


class Told:
    """The reports of all writers together."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.acked: Final[dict[Name, Sent]] = {}
        self.at: Final[dict[Place, Sent]] = {}
        self.aborted: Final[set[Name]] = set()
        self._invoked: Final[dict[Name, int]] = {}
        self.by_key: Final[dict[Key, list[Sent]]] = {}
        for operation in operations:
            if operation["f"] == "send":
                self._on_send(operation)
        for (partition, _), sent in sorted(self.at.items()):
            self.by_key.setdefault((partition, key_of(sent.name)), []).append(sent)
        unknown = self._invoked.keys() - self.acked.keys()
        self.uncertain: Final[set[Key]] = {(n.partition, key_of(n)) for n in unknown}
        """Keys of records that may be there or not."""
        self.may_be_deleted: Final[set[Key]] = {(n.partition, key_of(n)) for n in unknown if is_tombstone(n)}

    def may_be_there(self, name: Name) -> bool:
        """Whether it was sent and nobody knows what became of it."""
        return name in self._invoked and name not in self.acked

    def _on_send(self, operation: Operation) -> None:
        partition, first, time_ns = operation["partition"], operation["first"], operation["mono_ns"]
        for n in range(operation["count"]):
            name = Name(operation["process"], partition, first + n)
            if operation["type"] == "invoke":
                self._invoked[name] = time_ns
            elif operation["type"] == "fail":
                del self._invoked[name]
                self.aborted.add(name)
            elif operation["type"] == "ok" and operation["offset"] >= 0:
                sent = Sent(name, operation["offset"] + n, self._invoked[name], time_ns)
                self.acked[name] = self.at[partition, sent.offset] = sent


class Horizons:
    """When tombstones may go: `delete_retention_ms` after the first cleaning of any replica that could have them."""

    def __init__(self, cleanings: Iterable[Operation], delete_retention_ms: int) -> None:
        self._cleanings: Final[dict[str, list[tuple[int, int]]]] = {}
        found = [(c["partition"], c["now_ns"], c["end_offset"]) for c in cleanings]
        for partition, now_ns, end_offset in sorted(found):
            lane = self._cleanings.setdefault(partition, [])
            lane.append((max(end_offset, lane[-1][0] if lane else 0), now_ns))
        self._retention_ns: Final = delete_retention_ms * _MS
        self.count: Final = len(found)

    def of(self, partition: str, offset: int) -> int:
        lane = self._cleanings.get(partition, [])
        first = bisect_right(lane, offset, key=lambda each: each[0])
        return lane[first][1] + self._retention_ns if first < len(lane) else _NEVER


class TableChecker:
    """`partitions` are the names by which cleanings know them; `replicas` what each broker has in the end."""

    def __init__(
        self,
        told: Told,
        horizons: Horizons,
        partitions: Mapping[int, str],
        replicas: Mapping[str, Mapping[int, Replica]],
    ) -> None:
        self.findings: Final = Findings(
            acknowledged=len(told.acked),
            in_transactions=sum(name.writer.startswith(TRANSACTIONAL) for name in told.acked),
            aborted=len(told.aborted),
            keys=len(told.by_key),
        )
        self._told: Final = told
        self._replicas: Final = replicas
        self._seen: Final[dict[tuple[str, int], dict[int, dict[int, Name]]]] = {}
        self._left: Final = {
            p: sorted(set.intersection(*(set(replica[p].records) for replica in replicas.values())))
            for p in partitions
        }  # fmt: skip
        self._tombstones: Final[dict[int, list[tuple[Sent, int]]]] = {p: [] for p in partitions}
        for (partition, key), versions in told.by_key.items():
            if (partition, key) in told.uncertain:
                continue
            for sent, after in zip(versions, [*versions[1:], None], strict=True):
                if is_tombstone(sent.name):
                    superseded_ns = after.invoked_ns if after else _NEVER
                    may_go_ns = min(superseded_ns, horizons.of(partitions[partition], sent.offset))
                    self._tombstones[partition].append((sent, may_go_ns))
        self.findings.tombstones = sum(map(len, self._tombstones.values()))

    # ---- replicas -------------------------------------------------------------------------------------------------

    def check_replicas(self, ended_ns: int) -> None:
        """As they are at that time, when all of the dirty part is clean and nobody writes."""
        for broker, partitions in self._replicas.items():
            for partition, replica in partitions.items():
                for what in replica.wrong:
                    self.findings.add("corrupted", what)
                for what in replica.unmarked:
                    self.findings.add("unmarked", what)
                self._check_table(broker, partition, replica.records)
                self._check_tombstones(broker, partition, replica.records.keys(), ended_ns, _NEVER)
                self._check_producers(broker, partition, replica)

    def check_fences(self, noted: Mapping[str, int], found: Mapping[str, Mapping[str, list[int]]]) -> None:
        """`noted` are the newest fences that were seen, by partition; `found` those of each broker, by partition."""
        for broker, partitions in found.items():
            for partition, offset in noted.items():
                if max(partitions[partition], default=-1) < offset:
                    self.findings.add("unfenced", f"{broker} has no fence from {partition}@{offset} on")

    def _check_table(self, who: str, partition: int, records: Mapping[int, Name]) -> None:
        table: dict[bytes, int] = {}
        for offset, name in sorted(records.items()):
            table[key_of(name)] = offset
            self._check_place(who, partition, offset, name)
        for (p, key), versions in self._told.by_key.items():
            if p != partition:
                continue
            newest, there = versions[-1], table.get(key, -1)
            may_be_gone = is_tombstone(newest.name) or (p, key) in self._told.may_be_deleted
            if there >= newest.offset or (there < 0 and may_be_gone):
                continue  # what is newer was looked at with its place
            had = f"has {records[there]} at {there}" if there >= 0 else "has nothing"
            self.findings.add(
                "lost", f"{who} {had} for {key.decode()}: {newest.name} is at {partition}@{newest.offset}"
            )

    def _check_place(self, who: str, partition: int, offset: int, name: Name) -> None:
        if name in self._told.aborted:
            self.findings.add("aborted", f"{who} has {name} at {partition}@{offset}")
            return
        there, sent = self._told.at.get((partition, offset)), self._told.acked.get(name)
        if (sent is not None and sent is there) or (there is None and self._told.may_be_there(name)):
            return
        at = sent and f"{sent.name.partition}@{sent.offset}"
        self.findings.add("misplaced", f"{who} has {name} at {partition}@{offset}; acknowledged at {at}; {there}")

    def _check_producers(self, broker: str, partition: int, replica: Replica) -> None:
        for sent in self._told.acked.values():
            if sent.name.writer.startswith(ONCE) and sent.name.partition == partition:
                number = bisect_right(replica.batches, sent.offset, key=lambda batch: batch.first) - 1
                batch = replica.batches[max(number, 0)] if replica.batches else None
                if batch is None or not batch.first <= sent.offset <= batch.last or batch.producer_id < 0:
                    self.findings.add("forgotten", f"{broker}: {sent.name} was the last at {partition}@{sent.offset}")

    # ---- readers --------------------------------------------------------------------------------------------------

    def on_operation(self, operation: Operation) -> None:
        """Handle an operation of a reader; operations of one process come in order."""
        f, process = operation["f"], operation["process"]
        if operation["type"] == "info" and f == "poll":
            self.findings.add("unreadable", f"{process}: {operation['error']}")
        elif f == "poll":
            self._on_poll(process, operation)
        elif f == "pass":
            self.findings.passes += 1
            seen = self._seen.pop((process, operation["pass"]), {})
            for partition in self._left:
                records = seen.get(partition, {})
                self._check_pass(f"{process}'s pass {operation['pass']}", partition, records, operation)
                if process.startswith(FINAL):
                    self._check_table(process, partition, records)

    def _on_poll(self, process: str, operation: Operation) -> None:
        partition = operation["partition"]
        records = self._seen.setdefault((process, operation["pass"]), {}).setdefault(partition, {})
        last = next(reversed(records), -1)
        for what in operation.get("wrong", ()):
            self.findings.add("corrupted", f"{process}: {what}")
        for offset, writer, number in operation["records"]:
            self.findings.read += 1
            if offset <= last:
                self.findings.add("reordered", f"{process} got {partition}@{offset} after {last}")
            last, records[offset] = offset, (name := Name(writer, partition, number))
            self._check_place(process, partition, offset, name)

    def _check_pass(self, who: str, partition: int, seen: Mapping[int, Name], ended: Operation) -> None:
        last = max(seen, default=-1)
        for offset in self._left[partition]:
            if offset > last:
                break
            sent = self._told.at.get((partition, offset))
            if offset not in seen and sent is not None and sent.acked_ns < ended["began_ns"]:
                self.findings.add("skipped", f"{who} has not {partition}@{offset}")
        self._check_tombstones(who, partition, seen.keys(), ended["mono_ns"], ended["began_ns"])

    def _check_tombstones(
        self, who: str, partition: int, found: Collection[int], now_ns: int, acked_before_ns: int
    ) -> None:
        """All that were acknowledged before, and may not go yet."""
        last = max(found, default=-1)
        for sent, may_go_ns in self._tombstones[partition]:
            in_reach = sent.offset <= last and sent.acked_ns < acked_before_ns
            if in_reach and may_go_ns > now_ns and sent.offset not in found:
                self.findings.add("early", f"{who} has not {sent.name} at {partition}@{sent.offset} any more")
