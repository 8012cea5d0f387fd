"""A topic that transactions and idempotent producers write to, and its judge.

Each value must be in the log once, however often its batch is sent. A transaction writes several values to both
partitions. A reader of committed records sees all of them or none, and the producer knows which, unless it never heard
how a commit ended.

No record may be lost here, because no disk is replaced, data is lost only while all replicas are in sync, and the topic
forbids unclean elections.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Final, NamedTuple

from tests.world.client import ACKS_ALL, Fetched, Producer, RawClient, batch_of, batches_in, records_of
from tests.world.cluster import Cluster, create_topic
from tests.world.findings import Findings
from tests.world.process import Process

from ottla_core.errors import ErrorCode
from ottla_core.records.control import marker_of

TOPIC: Final = "ledger"
PARTITIONS: Final = 2
_TRANSACTION_MS: Final = 8_000
"""The timeout of a transaction, after which its coordinator aborts it."""
_PATIENCE_S: Final = 15.0
"""A producer gives up what has failed for so long."""
_NOTHING_DONE: Final = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""After these errors nothing was carried out."""
_RETRIABLE: Final = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
}


class Fate(Enum):
    OPEN = auto()
    """No commit has been sent. Whoever is next, or the timeout, aborts it."""
    UNKNOWN = auto()
    """A commit has been sent."""
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(slots=True)
class Entry:
    """One value, as its producer knows it. `offset` is -1 until it was acknowledged."""

    value: bytes
    partition: int
    offset: int = -1


@dataclass(slots=True)
class Transaction:
    """A transaction has the values that a producer writes together.

    A write of an idempotent producer counts as a transaction of one value, which is committed when it is acknowledged.
    """

    producer: str
    entries: list[Entry] = field(default_factory=list)
    fate: Fate = Fate.OPEN
    committed_at: float = math.inf
    offset: int = -1
    """It commits this offset for the group of its producer."""


class Reading(NamedTuple):
    """A reader of a partition has found these values, by offset, and has ended at `end`."""

    values: dict[int, bytes]
    end: int


class GivenUpError(Exception):
    """A producer has given up. With `is_known`, it is certain that no attempt was carried out."""

    def __init__(self, code: int, *, is_known: bool) -> None:
        super().__init__(code)
        self.code = code
        self.is_known = is_known


class Ledger:
    """The topic. `configs` are its own."""

    def __init__(self, cluster: Cluster, findings: Findings, random: Random, configs: dict[str, str]) -> None:
        self.is_created = False
        self._cluster: Final = cluster
        self._findings: Final = findings
        self._random: Final = random
        self._configs: Final = configs
        self._numbers: Final = itertools.count()
        self._transactions: Final[list[Transaction]] = []
        self._owners: Final[dict[bytes, Transaction]] = {}
        self._offsets: Final[defaultdict[str, set[int]]] = defaultdict(lambda: {-1})
        """The offsets that each group may have committed last."""

    # ---- clients ---------------------------------------------------------------------------------------------------

    def start_clients(self) -> None:
        async def work(process: Process) -> None:
            await create_topic(self._cluster, self._random, TOPIC, self._configs, PARTITIONS)
            self.is_created = True
            await asyncio.gather(
                self._audit(RawClient()),
                *(self._transact(process, name) for name in ("t1", "t2", "t3", "t3")),
                *(self._write(process, name) for name in ("w1", "w2")),
            )

        self._cluster.start_client(work)

    def _any(self) -> str:
        return self._random.choice(self._cluster.brokers)

    async def _transact(self, process: Process, name: str) -> None:
        """Run one transaction after the other. Two of these have one transactional id, and fence each other."""
        random, raw = self._random, RawClient()
        while True:
            try:
                producer = await self._init(raw, name)
                sequences = dict.fromkeys(range(PARTITIONS), 0)
                for _ in range(random.choice((1, 5, 1000))):
                    await self._run(process, raw, name, producer, sequences)
                    await asyncio.sleep(random.expovariate(10.0))
            except GivenUpError:
                await asyncio.sleep(random.uniform(0.1, 3.0))

    async def _run(
        self, process: Process, raw: RawClient, name: str, producer: Producer, sequences: dict[int, int]
    ) -> None:
        random, transaction = self._random, Transaction(name)
        self._transactions.append(transaction)
        added: set[int] = set()
        for _ in range(random.randint(1, 4)):
            entry = self._new_entry(transaction)
            number = entry.partition
            if number not in added:
                await self._until_done(
                    lambda: raw.add_partition(self._any(), name, producer, TOPIC, number)  # noqa: B023 it ends here
                )
                added.add(number)
            await self._append(process, raw, entry, producer, sequences, name)
        if random.random() < 0.5:
            await self._commit_offset(raw, name, producer, transaction)
        commit = random.random() < 0.7
        if commit:
            transaction.fate = Fate.UNKNOWN
            if transaction.offset >= 0:
                self._offsets[name].add(transaction.offset)
        try:
            await self._until_done(lambda: raw.end_transaction(self._any(), name, producer, commit=commit))
        except GivenUpError as error:
            if error.is_known:
                transaction.fate = Fate.ABORTED
                self._offsets[name] -= {transaction.offset} - {-1}
            raise
        transaction.fate = Fate.COMMITTED if commit else Fate.ABORTED
        if commit:
            transaction.committed_at = self._cluster.world.now
            if transaction.offset >= 0:
                # The answer may be late. Offsets grow from one transaction to the next.
                later = {each for each in self._offsets[name] if each > transaction.offset}
                self._offsets[name] = {transaction.offset, *later}
        self._findings.counts["committed" if commit else "aborted"] += 1

    async def _commit_offset(self, raw: RawClient, name: str, producer: Producer, transaction: Transaction) -> None:
        """Commit an offset that no other transaction commits, for a group with the name of the transactional id."""
        offset = next(self._numbers)
        await self._until_done(lambda: raw.add_offsets(self._any(), name, producer, name))
        await self._until_done(lambda: raw.commit_in_transaction(self._any(), name, producer, name, TOPIC, offset))
        transaction.offset = offset

    async def _write(self, process: Process, name: str) -> None:
        """Write one value after the other, as an idempotent producer without transactions."""
        raw = RawClient()
        while True:
            try:
                producer = await self._init(raw, None)
                sequences = dict.fromkeys(range(PARTITIONS), 0)
                while True:
                    # A batch that was given up may be appended late, behind those of the next producer id.
                    transaction = Transaction(f"{name} as {producer.id}", fate=Fate.UNKNOWN)
                    self._transactions.append(transaction)
                    await self._append(process, raw, self._new_entry(transaction), producer, sequences, None)
                    transaction.fate, transaction.committed_at = Fate.COMMITTED, self._cluster.world.now
                    await asyncio.sleep(self._random.expovariate(15.0))
            except GivenUpError:
                await asyncio.sleep(0.2)

    def _new_entry(self, transaction: Transaction) -> Entry:
        entry = Entry(b"e%d" % next(self._numbers), self._random.randrange(PARTITIONS))
        transaction.entries.append(entry)
        self._owners[entry.value] = transaction
        return entry

    async def _init(self, raw: RawClient, name: str | None) -> Producer:
        found: list[Producer] = []

        async def init() -> int:
            found.append(await raw.init_producer(self._any(), name, _TRANSACTION_MS))
            return found[-1].code

        await self._until_done(init)
        return found[-1]

    async def _append(
        self,
        process: Process,
        raw: RawClient,
        entry: Entry,
        producer: Producer,
        sequences: dict[int, int],
        name: str | None,
    ) -> None:
        """Send a record until it is acknowledged. Whatever is sent again has its sequence number."""
        number = entry.partition
        batch = batch_of(b"k", entry.value, process.wall_ms(), producer, sequences[number], transactional=bool(name))

        async def send() -> int:
            leader = await raw.leader(self._any(), TOPIC, number)
            if leader < 0:
                return ErrorCode.LEADER_NOT_AVAILABLE
            answer = await raw.produce(f"broker-{leader}", TOPIC, batch, ACKS_ALL, 2.0, number, name)
            if answer.code == ErrorCode.NONE:
                entry.offset = answer.offset
            return answer.code

        await self._until_done(send)
        sequences[number] += 1
        self._findings.counts["acked"] += 1

    async def _until_done(self, attempt: Callable[[], Awaitable[int]]) -> None:
        """Try until it succeeds. Raises GivenUpError after an error that is final, or when patience ends."""
        world, is_known = self._cluster.world, True
        gives_up_at = world.now + _PATIENCE_S
        while True:
            code: int = ErrorCode.NETWORK_EXCEPTION
            with contextlib.suppress(OSError):
                code = await attempt()
            if code == ErrorCode.NONE:
                return
            is_known = is_known and (code not in _RETRIABLE or code in _NOTHING_DONE)
            if code not in _RETRIABLE or world.now > gives_up_at:
                self._findings.counts[f"given up: {ErrorCode(code).name}"] += 1
                raise GivenUpError(code, is_known=is_known)
            await asyncio.sleep(self._random.uniform(0.05, 0.5))

    # ---- the judge -------------------------------------------------------------------------------------------------

    async def _read(self, raw: RawClient, number: int, *, committed: bool) -> Reading | None:
        """Read a partition to its present end. Return None if that can't be done now."""
        topic_id, leader = self._cluster.metadata.topics[TOPIC], self._cluster.metadata.leader(TOPIC, number)
        values: dict[int, bytes] = {}
        offset, end = 0, -1
        try:
            while leader >= 0:
                fetched = await raw.fetch(f"broker-{leader}", TOPIC, topic_id, offset, number, committed=committed)
                if fetched.code != ErrorCode.NONE:
                    return None
                values.update(_visible(fetched, offset) if committed else _all_in(fetched, offset))
                if end < 0:
                    end = fetched.last_stable_offset if committed else fetched.high_watermark
                following = fetched.next_offset(offset)
                if following >= end:
                    return Reading(values, end)
                if following == offset:
                    return None
                offset = following
        except OSError:
            pass
        return None

    async def _audit(self, raw: RawClient) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(0.5, 1.5))
            began, number = self._cluster.world.now, self._random.randrange(PARTITIONS)
            read = await self._read(raw, number, committed=True)
            if read is not None:
                self._findings.counts["audits"] += 1
                self._judge_visible(number, read, committed_before=began)

    def _judge_visible(self, number: int, read: Reading, *, committed_before: float) -> None:
        """Compare what a reader of committed records saw up to the last stable offset with what producers know."""
        findings, places = self._findings, {value: offset for offset, value in read.values.items()}
        for offset, value in read.values.items():
            owner = self._owners.get(value)
            if owner is None:
                findings.violate(f"offset {offset} of {number} has {value!r}, which nobody has written")
            elif owner.fate in (Fate.ABORTED, Fate.OPEN):
                findings.violate(f"{value!r} of a transaction that is {owner.fate.name} is visible at {offset}")
        for transaction in self._transactions:
            for entry in transaction.entries:
                if entry.partition != number or not transaction.committed_at < committed_before:
                    continue
                if entry.offset < read.end:
                    findings.counts["judged"] += 1
                    if places.get(entry.value) != entry.offset:
                        there = read.values.get(entry.offset)
                        findings.violate(f"{entry.value!r} was committed at offset {entry.offset}, which has {there!r}")

    async def look(self, raw: RawClient) -> str:
        """Read everything and judge it. Return why that is not possible yet, or an empty text once it was judged."""
        read = [await self._read(raw, number, committed=True) for number in range(PARTITIONS)]
        whole = [await self._read(raw, number, committed=False) for number in range(PARTITIONS)]
        visible = [each for each in read if each is not None]
        written = [each for each in whole if each is not None]
        if len(visible) + len(written) < 2 * PARTITIONS:
            return "a partition can't be read"
        if [each.end for each in visible] != [each.end for each in written]:
            return "a transaction is open"
        for group, offsets in self._offsets.items():
            found = await self._committed(raw, group)
            if found is None:
                return f"the offset of group {group} can't be read"
            if found not in offsets:
                self._findings.violate(f"group {group} has committed {found} and not one of {sorted(offsets)}")
        for number in range(PARTITIONS):
            if difference := self._difference_of_disks(number):
                return difference
        for number in range(PARTITIONS):
            self._judge_visible(number, visible[number], committed_before=math.inf)
            self._judge_order(number, visible[number], written[number])
        self._judge_whole({value for reading in visible for value in reading.values.values()})
        return ""

    async def _committed(self, raw: RawClient, group: str) -> int | None:
        """Return the offset that a group has committed, or None if that can't be read now."""
        with contextlib.suppress(OSError):
            answer = await raw.committed(self._any(), group, TOPIC)
            if answer.code == ErrorCode.NONE:
                return answer.offset
        return None

    def _judge_order(self, number: int, visible: Reading, written: Reading) -> None:
        """Each value is there once, and the values of a producer are in the order in which it sent them."""
        seen: dict[bytes, int] = {}
        for offset, value in written.values.items():
            if seen.setdefault(value, offset) != offset:
                self._findings.violate(f"{value!r} was written once and is at {seen[value]} and {offset} of {number}")
        last: dict[str, int] = {}
        for transaction in self._transactions:
            for entry in transaction.entries:
                offset = seen.get(entry.value, -1)
                if entry.partition == number and offset in visible.values:
                    if offset < last.get(transaction.producer, -1):
                        self._findings.violate(f"{entry.value!r} is at {offset}, before what was sent earlier")
                    last[transaction.producer] = offset

    def _judge_whole(self, visible: set[bytes]) -> None:
        for transaction in self._transactions:
            there = [entry.value in visible for entry in transaction.entries]
            if any(there) and not all(there):
                self._findings.violate(f"a transaction is visible in part: {transaction}")

    def _log_on(self, name: str, number: int) -> bytes:
        cluster = self._cluster
        return b"".join(cluster.disks.read_bytes(path) for path in cluster.segments(name, TOPIC, number))

    def _difference_of_disks(self, number: int) -> str:
        with self._cluster.disks.inspected():
            logs = {name: self._log_on(name, number) for name in self._cluster.brokers}
        sizes = {name: len(log) for name, log in logs.items()}
        return f"the logs of partition {number} differ, with these sizes: {sizes}" if len({*logs.values()}) > 1 else ""


def _all_in(fetched: Fetched, offset: int) -> Iterator[tuple[int, bytes]]:
    for header, batch in batches_in(fetched.records):
        if not header.is_control:
            yield from ((each, value or b"") for each, _, value in records_of(batch) if each >= offset)


def _visible(fetched: Fetched, offset: int) -> Iterator[tuple[int, bytes]]:
    """Return the records without those of aborted transactions, as a consumer of read_committed does."""
    to_come, aborted = sorted(fetched.aborted, reverse=True), set[int]()
    for header, batch in batches_in(fetched.records):
        while to_come and to_come[-1][0] <= header.last_offset:
            aborted.add(to_come.pop()[1])
        if header.is_control:
            marker = marker_of(batch)
            if marker is not None and not marker.committed:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            yield from ((each, value or b"") for each, _, value in records_of(batch) if each >= offset)
