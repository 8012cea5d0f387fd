"""Compares what clients were told with what each replica has in the end, and with what readers got. Pure.

lost         an acknowledged record is not there; of a compacted topic, the newest of a key, or an older one is
misplaced    a record at another offset than the acknowledged one, or with other bytes than were sent
aborted      a record whose transaction was aborted, to readers of committed ones
diverged     two replicas differ below their high watermarks, in their records or in their leader epochs; or epochs
             differ from the batches that they are about
lso_stuck    nobody writes, and the last stable offset is behind the high watermark; or it is below the log start
unsendable   a reader, or a replica on a new disk, does not come to the end of a log
unordered    a producer that sent again what it was told to send again was refused for good
grown        a replica keeps transactions that are over
damaged      a file is not what it should be: a batch, which a reader may be the first to meet, an index of aborted
             transactions
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from tests.faults.compacted.checker import Told
from tests.faults.compacted.records import is_tombstone, key_of, value_of
from tests.faults.history import Name, Operation
from tests.faults.kinds_found import KindsFound
from tests.faults.power.replicas import StoredReplica

from ottla_core.records.leader_epochs import EpochStart, ReplicaEpochs, unequal_epochs

KINDS: Final = (
    "lost", "misplaced", "aborted", "diverged", "lso_stuck", "unsendable", "unordered", "grown", "damaged",
)  # fmt: skip
MOST_ENDED: Final = 20
"""How many ended transactions a replica may keep: those that ended a moment ago."""

MOST_BATCH_BYTES: Final = 2 << 20
"""max.message.bytes is half of it."""


@dataclass(slots=True)
class PowerFindings(KindsFound):
    """The findings of a run, and how much was done in it."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    acknowledged: int = 0
    keys: int = 0
    replicas: int = 0
    batches: int = 0


class Policy(NamedTuple):
    """What may happen to the records of a topic."""

    compact: bool
    delete: bool
    """Whether retention or DeleteRecords may delete records."""


class SeamsChecker:
    def __init__(self) -> None:
        self.findings: Final = PowerFindings()

    # ---- one partition ---------------------------------------------------------------------------------------------

    def check_partition(self, number: int, replicas: Sequence[StoredReplica], policy: Policy, told: Told) -> None:
        """Check all replicas of a partition against what its writers were told."""
        self.check_replicas(replicas, policy)
        found = self.findings
        found.acknowledged += sum(name.partition == number for name in told.acked)
        found.keys += sum(partition == number for partition, _ in told.by_key)
        for replica in replicas:
            self._check_places(number, replica, told)
            if policy.compact:
                self._check_table(number, replica, told)
            else:
                self._check_all(number, replica, told)

    def check_replicas(self, replicas: Sequence[StoredReplica], policy: Policy) -> None:
        """Check what can be checked without knowing what was written, as in the coordinators' topics."""
        found = self.findings
        for replica in replicas:
            found.replicas += 1
            found.batches += len(replica.batches)
            for what in (*replica.wrong, *replica.unmarked):
                found.add("damaged", what)
            if replica.ended > MOST_ENDED:
                found.add("grown", f"{replica.directory} keeps {replica.ended} transactions that are over")
            if (largest := max((batch.size_bytes for batch in replica.batches), default=0)) > MOST_BATCH_BYTES:
                found.add("unsendable", f"{replica.directory} has a batch of {largest} bytes")
            self._check_epochs(replica)
        start = max(replica.start_offset for replica in replicas)
        end = min(replica.high_watermark for replica in replicas)
        first, *others = replicas
        for other in others:
            self._compare(first, other, start, end, policy)
        self._compare_epochs(replicas)

    def _compare_epochs(self, replicas: Sequence[StoredReplica]) -> None:
        """Check that the replicas agree on where leader epochs began (I43)."""
        unequal = unequal_epochs(
            {
                replica.broker: ReplicaEpochs(
                    [EpochStart(*entry) for entry in replica.epochs], replica.start_offset, replica.high_watermark
                )
                for replica in replicas
            }
        )
        if unequal:
            self.findings.add("diverged", f"{replicas[0].directory.name} has unequal leader epochs: {unequal}")

    def _check_epochs(self, replica: StoredReplica) -> None:
        """Check that the epochs of the checkpoint are those of the batches, and that they grow."""
        if replica.epochs != sorted(set(replica.epochs)) or len({at for _, at in replica.epochs}) != len(
            replica.epochs
        ):
            self.findings.add("diverged", f"{replica.directory} has leader epochs that don't grow: {replica.epochs}")
        for batch in replica.batches:
            noted = replica.epoch_at(max(batch.base_offset, replica.start_offset))
            if batch.next_offset > replica.start_offset and noted != batch.leader_epoch:
                self.findings.add(
                    "diverged",
                    f"{replica.directory}: the batch at {batch.base_offset} is of leader epoch {batch.leader_epoch}, "
                    f"and the checkpoint says {noted}",
                )
                return

    def _compare(self, one: StoredReplica, other: StoredReplica, start: int, end: int, policy: Policy) -> None:
        if policy.compact:
            tables = one.newest(start, end), other.newest(start, end)
            for key in tables[0].keys() | tables[1].keys():
                at = [table.get(key) for table in tables]
                if at[0] != at[1] and any(each is not None and each[1].value is not None for each in at):
                    self._differ(one, other, f"key {key!r:.60} is {at[0]} and {at[1]}")
            for offset in one.records.keys() & other.records.keys():
                if start <= offset < end and one.records[offset] != other.records[offset]:
                    self._differ(one, other, f"at {offset} are {one.records[offset]} and {other.records[offset]}")
            return
        logs = [[b for b in each.batches if b.base_offset >= start and b.next_offset <= end] for each in (one, other)]
        for here, there in zip(*logs, strict=False):
            if here != there:
                self._differ(one, other, f"{here} and {there}")
                return
        if len(logs[0]) != len(logs[1]):
            self._differ(one, other, f"{len(logs[0])} and {len(logs[1])} batches from {start} to {end}")

    def _differ(self, one: StoredReplica, other: StoredReplica, what: str) -> None:
        self.findings.add("diverged", f"{one.directory.name} on {one.broker} and {other.broker}: {what}")

    # ---- against what writers were told ----------------------------------------------------------------------------

    def _check_places(self, number: int, replica: StoredReplica, told: Told) -> None:
        for offset, record in replica.records.items():
            name, sent = record.name, told.at.get((number, offset))
            where = f"{replica.broker} at {number}@{offset}"
            if name is None or (record.key, record.value) != (key_of(name), value_of(name)):
                self.findings.add("misplaced", f"{where}: {record!r:.150}")
            elif name in told.aborted:
                self.findings.add("aborted", f"{where}: {name}")
            elif (there := told.acked.get(name)) is None or there is not sent:
                if there is None and sent is None and told.may_be_there(name):
                    continue
                self.findings.add("misplaced", f"{where}: {name}, acknowledged at {there}; there was {sent}")

    def _check_table(self, number: int, replica: StoredReplica, told: Told) -> None:
        table = {record.key: offset for offset, record in sorted(replica.records.items())}
        for (partition, key), versions in told.by_key.items():
            newest, there = versions[-1], table.get(key, -1)
            if partition != number or there >= newest.offset or newest.offset < replica.start_offset:
                continue
            if there < 0 and (is_tombstone(newest.name) or (partition, key) in told.may_be_deleted):
                continue
            had = f"has {replica.records[there].name} at {there}" if there >= 0 else "has nothing"
            self.findings.add(
                "lost", f"{replica.broker} {had} for {key.decode()}: {newest.name} is at {number}@{newest.offset}"
            )

    def _check_all(self, number: int, replica: StoredReplica, told: Told) -> None:
        """Check that a topic that is not compacted has every acknowledged record."""
        missing = [
            offset
            for partition, offset in told.at
            if partition == number and offset >= replica.start_offset and offset not in replica.records
        ]
        for _, run in groupby(enumerate(sorted(missing)), key=lambda each: each[1] - each[0]):
            first = next(run)[1]
            self.findings.add("lost", f"{replica.broker} has not {told.at[number, first]} and what follows it")

    def check_read(
        self, who: str, found: Mapping[tuple[int, int], object], told: Told, starts: Mapping[int, int]
    ) -> None:
        """Check what a reader of committed records got in the end, by partition and offset."""
        for (partition, key), versions in told.by_key.items():
            newest = versions[-1]
            if (
                (partition, newest.offset) not in found
                and newest.offset >= starts[partition]
                and not is_tombstone(newest.name)
                and (partition, key) not in told.uncertain
            ):
                self.findings.add("lost", f"{who} was not given {newest.name} at {partition}@{newest.offset}")

    def check_passes(self, told: Told, operations: Iterable[Operation]) -> None:
        """Check what a reader of committed records got along the way."""
        for operation in operations:
            if operation["f"] != "poll" or operation["type"] != "ok":
                continue
            for what in operation.get("wrong", ()):
                self.findings.add("misplaced", f"{operation['process']}: {what}")
            for offset, writer, number in operation["records"]:
                name = Name(writer, operation["partition"], number)
                where = f"{operation['process']} got {name} at {offset}"
                if name in told.aborted:
                    self.findings.add("aborted", where)
                elif (sent := told.at.get((name.partition, offset))) is not None and sent.name != name:
                    self.findings.add("misplaced", f"{where}, where {sent.name} was acknowledged")
