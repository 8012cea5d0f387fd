"""The table is a topic of one partition. It has producers and a judge.

Producers write to a few keys, never write a value twice, and note what the cluster told them. The judge reads what is
left, from the leader and on each disk, and compares it with these notes.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from random import Random
from typing import Any, Final

from tests.world.batches import Batches, is_tombstone, named_records
from tests.world.client import ACKS_ALL, RawClient
from tests.world.cluster import Cluster, create_topic
from tests.world.configs import Configs, Promises
from tests.world.findings import Findings
from tests.world.process import Process
from tests.world.reader import Reader, Reading, Records
from tests.world.service import Service
from tests.world.upkeep import SegmentOnDisk, is_dirty

from ottla_broker.storage.scan import sound_batches
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode

TOPIC: Final = "table"
_PRODUCERS: Final = 5
_DAY_MS: Final = 86_400_000
_NEAR: Final = 12
"""An offset that is so near the log's end is often beyond what a follower has that was away."""
_LOOK_UPS: Final = 5
_CARRIED_OUT_S: Final = 10.0
"""A request whose answer is lost may still be carried out within this time."""


@dataclass(slots=True)
class Write:
    """A write is one record, as its producer knows it.

    `offset` is -1 until the record is acknowledged, or read by a consumer.
    """

    key: bytes
    value: bytes
    acks: int
    at: float
    timestamp_ms: int
    offset: int = -1
    committed_at: float = -1.0
    """The time when the record was acknowledged by acks=all, or was read by a consumer."""
    is_forgiven: bool = False
    """The record may be gone, because a replica outside the ISR and the ELR was elected without it."""


@dataclass(slots=True)
class Deletion:
    """This DeleteRecords deletes what is before `offset`. It was carried out by the time `until`, or never."""

    offset: int
    until: float


@dataclass(slots=True)
class History:
    """This has what clients did and were told, and what elections have lost."""

    writes: dict[bytes, Write] = field(default_factory=dict)
    deletions: list[Deletion] = field(default_factory=list)
    forgiven_keys: dict[bytes, float] = field(default_factory=dict)
    """The time of the last election that has lost a record of this key."""
    delete_retention_s: float = math.inf
    tombstones: dict[bytes, list[Write]] = field(default_factory=dict)
    """The tombstones of each key."""

    def add(self, write: Write) -> None:
        self.writes[write.value] = write
        if is_tombstone(write.value):
            self.tombstones.setdefault(write.key, []).append(write)

    def may_be_deleted(self, write: Write) -> bool:
        return any(write.offset < each.offset and write.at <= each.until for each in self.deletions)

    def forgive(self, kept: Records, known: set[bytes], now: float) -> None:
        """Forgive the loss of all `known` values that the log of the new leader has not `kept`."""
        values = {value for _, value in kept.values()}
        newest = {key: (offset, self.writes[kept[offset][1]]) for key, offset in newest_of(kept).items()}
        for write in self.writes.values():
            end, newer = newest.get(write.key, (-1, write))
            # The offset alone does not tell which record is newer, because an earlier election may have given offsets
            # again. Nor does the time: of two records that were sent at once, the later one may have the lower offset.
            is_superseded = newer.at > write.at and end > write.offset
            is_known = write.value in known or write.committed_at >= 0
            if is_known and not (write.is_forgiven or write.value in values or is_superseded):
                write.is_forgiven = True
                self.forgiven_keys[write.key] = now

    def may_be_cleaned(self, write: Write, now: float) -> bool:
        """Return whether a replica of a compacted topic may lack this record, though it has no newer one of its key.

        The replica may have cleaned it away because of a newer record. An election has lost that one since (I16), or it
        was a tombstone that has expired.
        """
        is_lost = write.at <= self.forgiven_keys.get(write.key, -1.0)
        return is_lost or any(self._has_deleted(each, write, now) for each in self.tombstones.get(write.key, ()))

    def _has_deleted(self, tombstone: Write, write: Write, now: float) -> bool:
        """Return whether a tombstone has expired, and may have deleted this record or is this record."""
        if now - tombstone.at < self.delete_retention_s:
            return False
        if tombstone.offset < 0 or write.offset < 0:
            return write.at <= tombstone.at + _CARRIED_OUT_S
        return write.offset <= tombstone.offset


class Table:
    """This is the topic, with these `configs`."""

    def __init__(
        self, cluster: Cluster, findings: Findings, random: Random, configs: dict[str, str], batches: Batches
    ) -> None:
        self.findings: Final = findings
        self.service: Final = Service(cluster.world, cluster.metadata, findings)
        self._history: Final = History(delete_retention_s=int(configs["delete.retention.ms"]) / 1000)
        self._cluster: Final = cluster
        self._random: Final = random
        self.configs: Final = Configs(configs)
        self.promises: Final = Promises(cluster, findings, TOPIC)
        self.may_be_unclean: Final = configs["unclean.leader.election.enable"] == "true"
        self.takes_deletions: Final = "delete" in configs["cleanup.policy"]
        self.goes_by_dates: Final = int(configs["retention.ms"]) >= 0 or int(configs["delete.retention.ms"]) < _DAY_MS
        if self.goes_by_dates:
            cluster.world.let_dates_agree()
        self._batches: Final = batches
        self._reader: Final = Reader(cluster, findings, TOPIC)
        self._rests_until = 0.0
        """Producers write nothing before then."""
        self.is_created = False
        cluster.metadata.on_change(TOPIC, self._on_partition)
        cluster.metadata.on_configs(TOPIC, self.configs.on_change)

    # ---- clients ---------------------------------------------------------------------------------------------------

    def start_clients(self) -> None:
        """Create the topic, and have producers and an auditor work with it in a process of their own."""

        async def work(process: Process) -> None:
            await create_topic(self._cluster, self._random, TOPIC, dict(self.configs.now))
            self.is_created = True
            await asyncio.gather(
                self._audit(RawClient()), *(self._produce(process, RawClient()) for _ in range(_PRODUCERS))
            )

        self._cluster.start_client(work)

    def rest(self, seconds: float) -> None:
        """Have producers write nothing for `seconds`."""
        self._rests_until = self._cluster.world.now + seconds

    def delete_records(self) -> None:
        """Delete all that is committed, soon. A topic that is only compacted refuses that."""
        self._have_client_do(lambda: self._delete_records(RawClient(), lambda start, end: end))

    def trim(self) -> None:
        """Delete what is before some offset, soon. It may lie within a batch, and often is near the end."""

        def chosen(start: int, end: int) -> int:
            return self._random.randint(self._random.choice((start, max(start, end - _NEAR))), end)

        self._have_client_do(lambda: self._delete_records(RawClient(), chosen))

    def alter_configs(self, changes: dict[str, str]) -> None:
        """Change configs of the topic soon. Nobody hears whether it was done."""

        async def alter() -> None:
            with suppress(OSError):
                code = await RawClient().alter_configs(self._random.choice(self._cluster.brokers), TOPIC, changes)
                self.findings.counts["alterations"] += code == ErrorCode.NONE

        self._have_client_do(alter)

    def create_another(self, topic: str, partitions: int) -> None:
        """Create another topic soon, to which nobody writes."""
        self._have_client_do(lambda: create_topic(self._cluster, self._random, topic, {}, partitions))

    def _have_client_do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        loop = self._cluster.processes["client"].loop
        loop.call_soon_threadsafe(lambda: loop.create_task(work()))

    @property
    def is_compacted(self) -> bool:
        return self.configs.is_compacted

    def compact_offline(self, name: str) -> None:
        """Have `ottla log compact` clean the log on the disk of a broker that is down."""
        counts = self.findings.counts
        self._cluster.compact_offline(name, TOPIC, 0, lambda: counts.update(compacted_offline=1))

    async def _produce(self, process: Process, raw: RawClient) -> None:
        """Write one batch after another, to the broker that is said to lead."""
        random, leader = self._random, -1
        while True:
            if self._cluster.world.now < self._rests_until:
                await asyncio.sleep(0.1)
                continue
            if leader < 0:
                leader = await self._find_leader(raw)
            if leader < 0:
                await asyncio.sleep(random.uniform(0.02, 0.2))
                continue
            batch, acks = self._batches.next(), ACKS_ALL if random.random() < 0.8 else 1
            now, timestamp_ms = self._cluster.world.now, process.wall_ms()
            writes = [Write(key, value, acks, now, timestamp_ms) for key, value in batch.records]
            for write in writes:
                self._history.add(write)
            sealed, known = batch.sealed(timestamp_ms), self.promises.known_to(leader)
            try:
                answer = await raw.produce(f"broker-{leader}", TOPIC, sealed, acks, 2.0)
            except OSError:
                leader = -1
                continue
            self.promises.judge(
                known, self.promises.known_to(leader), answer.code, len(sealed), acks_all=acks == ACKS_ALL
            )
            if answer.code == ErrorCode.NONE:
                for offset, write in enumerate(writes, start=answer.offset):
                    write.offset = offset
                    write.is_forgiven = write.is_forgiven and leader != self.leader
                    if acks == ACKS_ALL:
                        write.committed_at = self._cluster.world.now
                self.findings.counts["acked"] += len(writes)
                if acks == ACKS_ALL:
                    self.service.on_written()
            else:
                leader = -1
            await asyncio.sleep(random.expovariate(20.0))

    async def _delete_records(self, raw: RawClient, choose: Callable[[int, int], int]) -> None:
        """Delete what is before the offset that `choose` returns for the log's start and its high watermark."""
        while self.leader < 0 or not self.topic_id:
            await asyncio.sleep(0.1)
        leader = self.leader
        try:
            found = await raw.fetch(f"broker-{leader}", TOPIC, self.topic_id, 0)
            if found.high_watermark < 0:
                return
            offset = choose(found.log_start_offset, found.high_watermark)
            deletion = Deletion(offset, self._cluster.world.now + _CARRIED_OUT_S)
            self._history.deletions.append(deletion)
            self._cluster.world.note(f"{TOPIC}-0: what is before offset {offset} is to be deleted")
            answer = await raw.delete_records(f"broker-{leader}", TOPIC, offset)
        except OSError:
            return
        deletion.until = self._cluster.world.now
        if answer.code == ErrorCode.NONE:
            self.findings.counts["deletions"] += 1
            self.findings.counts["trims"] += offset < found.high_watermark
        elif answer.code in (ErrorCode.POLICY_VIOLATION, ErrorCode.OFFSET_OUT_OF_RANGE):
            self._history.deletions.remove(deletion)

    async def _find_leader(self, raw: RawClient) -> int:
        try:
            return await raw.leader(self._random.choice(self._cluster.brokers), TOPIC)
        except OSError:
            return -1

    # ---- elections -------------------------------------------------------------------------------------------------

    def _on_partition(self, old: Partition | None, new: Partition) -> None:
        world = self._cluster.world
        if old is not None and new.leader_epoch > old.leader_epoch and new.leader >= 0:
            self.findings.counts["elections"] += 1
            self.service.on_election(new)
            if new.leader not in (*old.isr, *old.elr):
                world.note("this election is unclean")
                self.findings.counts["unclean"] += 1
                if not self.may_be_unclean and (old.isr or old.elr):
                    self.findings.violate(f"an unclean election, which the topic forbids: {old} became {new}")
                world.after(0, lambda: self._on_unclean(old, new))

    def _on_unclean(self, old: Partition, new: Partition) -> None:
        """Forgive what the new leader lacks.

        If the topic forbids unclean elections, first check that the new leader has the longest log of all replicas
        that were last in the ISR or ELR.
        """
        logs = {name: self._records_on(name) for name in self._cluster.brokers}
        kept = logs[f"broker-{new.leader}"]
        if not self.may_be_unclean:
            for number in old.last_known_elr or old.replicas:
                name = f"broker-{number}"
                self._check_has_all(kept, name, logs[name], new)
                self._check_ends_behind(kept, name, new)
        known = {value for records in logs.values() for _, value in records.values()}
        self._history.forgive(kept, known, self._cluster.world.now)

    def _check_has_all(self, kept: Records, name: str, records: Records, new: Partition) -> None:
        """Check that the log of the new leader lacks no committed record that is in that of another replica."""
        history, newest = self._history, newest_of(kept)
        start = min(kept, default=math.inf) if self.configs.is_retention_limited else 0
        for offset, (key, value) in records.items():
            write = history.writes[value]
            is_lost = offset >= start and offset not in kept and newest.get(key, -1) < offset
            may_be_gone = (
                write.is_forgiven
                or history.may_be_deleted(write)
                or (self.is_compacted and history.may_be_cleaned(write, self._cluster.world.now))
            )
            if is_lost and write.committed_at >= 0 and not may_be_gone:
                self.findings.violate(
                    f"broker {new.leader} was elected, but its log lacks offset {offset}, which {name} has"
                )

    def _check_ends_behind(self, kept: Records, name: str, new: Partition) -> None:
        """Check that the new leader's log, which has `kept` records, ends behind all that another replica has deleted.

        Otherwise offsets would be given again, and consumers would pass over the records at these offsets. A leader
        without records has lost them in a power cut, as the other replica may have lost its epochs.
        """
        end, other_end = self._end_on(f"broker-{new.leader}"), self._end_on(name)
        for write in self._history.writes.values() if kept else ():
            is_committed = write.committed_at >= 0 and not write.is_forgiven
            if is_committed and end <= write.offset < other_end and self._history.may_be_deleted(write):
                self.findings.violate(
                    f"broker {new.leader} was elected with the log end {end}, but offset {write.offset} was deleted, "
                    f"and the log of {name} ends at {other_end}"
                )
                return

    @property
    def leader(self) -> int:
        """The id of the broker that leads, or -1."""
        return self._cluster.metadata.leader(TOPIC)

    @property
    def topic_id(self) -> bytes:
        return self._cluster.metadata.topics.get(TOPIC, b"")

    # ---- the judge -------------------------------------------------------------------------------------------------

    async def _audit(self, raw: RawClient) -> None:
        """Read everything again and again while the weather blows.

        So what a clean election has lost is found before an unclean election excuses it.
        """
        counts, world = self.findings.counts, self._cluster.world
        while True:
            await asyncio.sleep(self._random.uniform(0.5, 1.5))
            began, unclean = world.now, counts["unclean"]
            leader = self.leader
            rack = self._random.choice(self._cluster.racks) if self._cluster.racks else ""
            read = await self._reader.read_all(raw, rack) if leader >= 0 else None
            if read is not None:
                self.service.on_read()
            if read is not None and counts["unclean"] == unclean:
                with self._cluster.disks.inspected():
                    behind = self._records_on(f"broker-{leader}", read.end)
                self.judge(read, behind, committed_before=began, before=read.end)
                counts["audits"] += 1

    async def look(self, raw: RawClient) -> str:
        """Read everything, and judge it and the disks. Return why that is not possible yet, or an empty text."""
        with self._cluster.disks.inspected():
            for name in self._cluster.brokers:
                if overdue := self._overdue_on(name):
                    return overdue
        # The last one reads at the leader.
        for rack in (*self._cluster.racks, ""):
            if (reading := await self._reader.read_all(raw, rack)) is None:
                return "the topic can't be read"
            self.judge(reading, {})
        assert reading is not None, "the leader was read"
        for offset in self._random.sample(list(reading.records), min(_LOOK_UPS, len(reading.records))):
            time_ms = self._time_of(reading.records[offset][1]) + self._random.choice((0, 0, 1))
            if difference := await self._reader.look_up(raw, reading, self._time_of, time_ms):
                return difference
        with self._cluster.disks.inspected():
            self.compare_disks(reading.start)
        return ""

    def _time_of(self, name: bytes) -> int:
        return self._history.writes[name].timestamp_ms

    def judge(
        self, reading: Reading, behind: Records, *, committed_before: float = math.inf, before: float = math.inf
    ) -> None:
        """Compare what was read with what was committed before the reading began.

        From then on, what was read counts as committed.

        A new leader's high watermark may be lower than its predecessor's for some time. So a record at offset `before`
        or later is not missed, nor one that was cleaned away because of a newer record of its key in `behind`.
        """
        history, findings, read = self._history, self.findings, reading.records
        world_now = self._cluster.world.now
        newest = newest_of(read) | newest_of(behind)
        offsets: dict[bytes, int] = {}
        for offset, (key, value) in sorted(read.items()):
            write = history.writes.get(value)
            if write is None or write.key != key:
                findings.violate(f"offset {offset} has {key!r} and {value!r}, which nobody has written")
            elif offsets.setdefault(write.value, offset) != offset:
                findings.violate(f"{value!r} was written once and is at offsets {offsets[write.value]} and {offset}")
            elif write.committed_at < 0 and offset < reading.end:
                write.offset, write.committed_at = offset, world_now
        for write in history.writes.values():
            if not (0 <= write.committed_at < committed_before and write.offset < before):
                continue
            may_be_cleaned = self.is_compacted and history.may_be_cleaned(write, world_now)
            has_expired = write.offset < reading.start and self.configs.may_have_expired(write.at, world_now)
            if write.is_forgiven or may_be_cleaned or history.may_be_deleted(write) or has_expired:
                continue
            findings.counts["judged"] += 1
            there = read.get(write.offset)
            if there is not None and there != (write.key, write.value):
                findings.violate(f"{write.value!r} was committed at offset {write.offset}, which has {there}")
            elif there is None and not (self.is_compacted and newest.get(write.key, -1) > write.offset):
                findings.violate(f"{write.value!r} was committed at offset {write.offset} and is gone")

    def compare_disks(self, start: int) -> None:
        """Compare the replicas on the disks, from the log's start on.

        Two replicas must have equal newest values of each key, and equal records at each offset that both have. If the
        topic is not compacted, both must have all offsets.

        After an unclean election a replica may lack the value of a key, because it has cleaned it away for a newer one
        and then lost the newer one (I16). Each replica applies retention to its own segments, which cleans shrink and
        join. So logs may begin at different offsets if retention is limited.
        """
        if self.configs.is_retention_limited:
            start = max(start, *(self._first_on(name) for name in self._cluster.brokers))
        logs = [(name, self._records_on(name, start, is_at_rest=True)) for name in self._cluster.brokers]
        for (first, one), (second, other) in itertools.combinations(logs, 2):
            self._compare(first, one, second, other)

    def _compare(self, first: str, one: Records, second: str, other: Records) -> None:
        newest_here, newest_there = newest_of(one), newest_of(other)
        for key in sorted(newest_here.keys() | newest_there.keys()):
            here, there = newest_here.get(key, -1), newest_there.get(key, -1)
            if here != there and self._must_be_on_both(max(here, there), one if here > there else other):
                self.findings.violate(f"the newest {key!r} is at offset {here} on {first} and at {there} on {second}")
        for offset in sorted(one.keys() & other.keys()):
            if one[offset] != other[offset]:
                self.findings.violate(f"offset {offset} has {one[offset]} on {first} and {other[offset]} on {second}")
        for offset in [] if self.is_compacted else sorted(one.keys() ^ other.keys()):
            name, records = (second, one) if offset in one else (first, other)
            if self._must_be_on_both(offset, records):
                self.findings.violate(f"{name} lacks the record of offset {offset}")

    def _must_be_on_both(self, offset: int, records: Records) -> bool:
        write = self._history.writes[records[offset][1]]
        may_be_cleaned = self.is_compacted and self._history.may_be_cleaned(write, self._cluster.world.now)
        return not may_be_cleaned and not self._history.may_be_deleted(write)

    def is_empty_on(self, name: str) -> bool:
        """Return whether a log on a disk has nothing left but its end."""
        paths = self._cluster.segments(name, TOPIC)
        return len(paths) == 1 and not self._cluster.disks.size_bytes(paths[0])

    def _end_on(self, name: str) -> int:
        """Return the offset at which a log on a disk ends. An empty one ends where its last segment begins."""
        begins = max((int(path.stem) for path in self._cluster.segments(name, TOPIC)), default=0)
        return max(begins, max(self._records_on(name), default=-1) + 1)

    def _overdue_on(self, name: str) -> str:
        """Return what a broker should have done with its log by now, or an empty text."""
        segments = [self._segment(path) for path in self._cluster.segments(name, TOPIC)]
        if self.configs.retention.is_due(segments, self._cluster.world.now):
            return f"{name} keeps what retention should have deleted"
        is_compacted = "compact" in self.configs.now["cleanup.policy"]
        return f"{name} has not cleaned its log" if is_compacted and is_dirty(segments) else ""

    def _segment(self, path: PurePath) -> SegmentOnDisk:
        file, writes = self._cluster.disks.open_file(path), self._history.writes
        found = [
            (key, writes[value].at)
            for position, header in sound_batches(file, file.size_bytes())
            for _, key, value in named_records(file.read(position, header.size_bytes))
        ]
        return SegmentOnDisk(file.size_bytes(), [key for key, _ in found], max((at for _, at in found), default=-1.0))

    def _first_on(self, name: str) -> int:
        """Return the offset at which the first segment on a disk begins."""
        return min(int(path.stem) for path in self._cluster.segments(name, TOPIC))

    def _records_on(self, name: str, start: float = 0, *, is_at_rest: bool = False) -> Records:
        """Return the records on a disk, from `start` on. A log that is at rest has no damage."""
        found: Records = {}
        next_offset = 0
        for path in self._cluster.segments(name, TOPIC):
            file = self._cluster.disks.open_file(path)
            end = 0
            for position, header in sound_batches(file, file.size_bytes()):
                if is_at_rest and header.base_offset < next_offset:
                    self.findings.violate(f"offset {header.base_offset} of {name}/{path.name} is there twice")
                if header.size_bytes > self.configs.max_message_bytes:
                    self.findings.violate(
                        f"the batch at offset {header.base_offset} of {name}/{path.name} has {header.size_bytes} bytes "
                        f"and exceeds max.message.bytes, which is {self.configs.max_message_bytes}"
                    )
                records = named_records(file.read(position, header.size_bytes))
                found.update((offset, (key, value)) for offset, key, value in records if offset >= start)
                next_offset, end = header.next_offset, position + header.size_bytes
            if is_at_rest and end < file.size_bytes():
                self.findings.violate(f"{name}/{path.name} has a damaged batch at {end}")
        return found


def newest_of(records: Records) -> dict[bytes, int]:
    """Return the offset of the newest record of each key."""
    return {key: offset for offset, (key, _) in sorted(records.items())}
