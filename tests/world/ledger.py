"""The ledger is a topic that transactions and idempotent producers write to. Its readers and a judge check it.

Each value must be in the log once, however often its batch is sent. A transaction writes several values to both
partitions. A reader of committed records sees all of them or none, and the producer knows which, unless it never heard
how a commit ended.

No record may be lost here except by DeleteRecords, because no disk is replaced, data is lost only while all replicas
are in sync, and the topic forbids unclean elections.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from tests.world import crowds
from tests.world.books import Books, Entry, Fate, Reading, Transaction
from tests.world.client import ACKS_ALL, Answer, Producer, RawClient, batch_of, batches_in, records_of, without_aborted
from tests.world.cluster import Cluster, create_topic
from tests.world.findings import Findings
from tests.world.group import Group
from tests.world.passing import Passing
from tests.world.process import Process

from ottla_broker.storage.scan import sound_batches
from ottla_core.errors import ErrorCode
from ottla_core.records.batch import Buffer

TOPIC: Final = "ledger"
PARTITIONS: Final = 2
_TRANSACTION_MS: Final = 8_000
"""The timeout of a transaction, after which its coordinator aborts it."""
_IN_FLIGHT: Final = 5
"""The most batches that a producer sends to a partition before the first one is answered."""
_RESTLESS: Final = "w2"
"""This producer goes on while the others rest."""
_NOTICED_S: Final = 0.02
"""Within this time the peers of a process that was killed find their connections reset."""
_RESTING: Final = 0.06
"""In this share of ledgers, all clients rest for long. Such a rest costs more than a storm."""
_LATE_S: Final = 4.0
"""After this time, on average, a batch is sent again that was acknowledged."""
_PATIENCE_S: Final = 15.0
"""A producer gives up a request that has failed for this long."""
_NOTHING_DONE: Final = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""After these errors nothing was carried out."""
_OF_THE_LEADER: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
"""A replica that answers with one of these errors has not looked at the batch."""
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
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}


class _Pending(NamedTuple):
    """This batch has one record, and is not acknowledged yet."""

    entry: Entry
    batch: bytes
    sequence: int


class GivenUpError(Exception):
    """A producer has given up. With `is_known`, it is certain that no attempt was carried out."""

    def __init__(self, code: int, *, is_known: bool) -> None:
        super().__init__(code)
        self.code = code
        self.is_known = is_known


class Ledger:
    """This is the topic, with these `configs`.

    `repeats` producers send batches again that were acknowledged. With `is_crowded`, transactions add partitions of
    many other topics. With `goes_by_dates`, brokers forget producers soon, so each host has to know the true date.
    """

    def __init__(
        self,
        cluster: Cluster,
        findings: Findings,
        random: Random,
        configs: dict[str, str],
        *,
        is_crowded: bool,
        goes_by_dates: bool,
        repeats: int = 0,
    ) -> None:
        self.is_created = False
        self.goes_by_dates: Final = goes_by_dates
        if goes_by_dates:
            cluster.world.let_dates_agree()
        self._is_crowded: Final = is_crowded
        self.is_compacted: Final = "compact" in configs["cleanup.policy"]
        self.takes_deletions: Final = "delete" in configs["cleanup.policy"]
        self._cluster: Final = cluster
        self.findings: Final = findings
        self._random: Final = random
        self._configs: Final = configs
        self._keys: Final = [b"k%d" % n for n in range(random.choice((2, 4, 30)))]
        self._numbers: Final = itertools.count()
        self._books: Final = Books(findings, is_compacted=self.is_compacted)
        self._group: Final = (
            Group(cluster, findings, random, self._books, TOPIC, PARTITIONS) if random.random() < 0.5 else None
        )
        self._has_passing: Final = not goes_by_dates and random.random() < 0.25
        self._offsets: Final[defaultdict[str, set[int]]] = defaultdict(lambda: {-1})
        """The offsets that each group may have committed last."""
        self._newcomers: Final = itertools.count()
        self._rests_until = 0.0
        """Producers begin nothing before then."""
        self._all_rest = False
        """Even the restless one rests."""
        self._repeats: Final = repeats
        self.holds_repeats = False
        """Batches are sent again later."""
        self.copied: Final[set[str]] = set()
        """A replica of these partitions was copied anew. Like Kafka's, it forgets the producers of deleted records."""

    # ---- clients ---------------------------------------------------------------------------------------------------

    def start_clients(self) -> None:
        async def work(process: Process) -> None:
            await create_topic(self._cluster, self._random, TOPIC, self._configs, PARTITIONS)
            for topic in crowds.TOPICS if self._is_crowded else ():
                await create_topic(self._cluster, self._random, topic, {})
            self.is_created = True
            await asyncio.gather(
                self._audit(RawClient()),
                *(self._transact(process, name) for name in ("t1", "t2", "t3", "t3")),
                *(self._write(process, name) for name in ("w1", _RESTLESS)),
                *(self._repeat(process) for _ in range(self._repeats)),
                *((self._group.run(),) if self._group is not None else ()),
                *((Passing(self._cluster, self.findings, self._random).run(process),) if self._has_passing else ()),
            )

        self._cluster.start_client(work)

    def delete_records(self) -> None:
        """Delete records of a partition soon: often all before the high watermark, even those of open transactions."""
        self._have_client_do(lambda _: self._delete_records(RawClient()))

    def rest(self, seconds: float, *, everyone: bool = False) -> None:
        """Have all producers but one begin nothing for `seconds`, or have everyone rest."""
        self._rests_until = self._cluster.world.now + seconds
        self._all_rest = everyone

    @property
    def rests_long(self) -> bool:
        """This tells whether all clients of this seed rest for long after the storm, and work again."""
        return (
            not (self.goes_by_dates or self._has_passing)
            and self._cluster.world.chance("long rest").random() < _RESTING
        )

    def rest_with_groups(self, seconds: float) -> None:
        """Have all clients do nothing for `seconds` but send heartbeats."""
        self.rest(seconds, everyone=True)
        if self._group is not None:
            self._group.rests = seconds > 0

    def empty(self) -> None:
        """Delete all records soon."""
        self._have_client_do(lambda _: self.delete_all(RawClient()))

    def segments(self, name: str, number: int) -> list[int]:
        """Return where the segments of a partition begin on a disk, or -1 if it has none."""
        return [int(path.stem) for path in self._cluster.segments(name, TOPIC, number)] or [-1]

    def leader(self, number: int) -> int:
        return self._cluster.metadata.leader(TOPIC, number)

    def is_led_by(self, name: str) -> bool:
        """Return whether a broker leads all partitions."""
        return all(f"broker-{self.leader(number)}" == name for number in range(PARTITIONS))

    def introduce(self, on_added: Callable[[], None]) -> None:
        """Have a producer begin whose transactional id nobody has used before.

        `on_added` is called when its transaction has a partition, and before its first batches are sent there.
        """
        self._have_client_do(lambda process: self._introduce(process, on_added))

    def _have_client_do(self, work: Callable[[Process], Coroutine[Any, Any, object]]) -> None:
        process = self._cluster.processes["client"]
        process.loop.call_soon_threadsafe(lambda: process.loop.create_task(work(process)))

    def compact_offline(self, name: str) -> None:
        """Have `ottla log compact` clean a partition on the disk of a broker that is down."""
        counts = self.findings.counts
        number = self._random.randrange(PARTITIONS)
        self._cluster.compact_offline(name, TOPIC, number, lambda: counts.update(compacted_offline=1))

    def _any(self) -> str:
        return self._random.choice(self._cluster.brokers)

    async def _transact(self, process: Process, name: str) -> None:
        """Run one transaction after another. Two producers have one transactional id, and fence each other."""
        random, raw = self._random, RawClient()
        while True:
            try:
                producer = await self._init(raw, name)
                sequences = dict.fromkeys(range(PARTITIONS), 0)
                for _ in range(random.choice((1, 5, 1000))):
                    await self._rest()
                    await self._run(process, raw, name, producer, sequences)
                    await asyncio.sleep(random.expovariate(10.0))
            except GivenUpError:
                await asyncio.sleep(random.uniform(0.1, 3.0))

    async def _run(
        self, process: Process, raw: RawClient, name: str, producer: Producer, sequences: dict[int, int]
    ) -> None:
        random, transaction = self._random, self._books.begin(name)
        for number in random.sample(range(PARTITIONS), random.randint(1, PARTITIONS)):
            await self._add(raw, name, producer, number)
            entries = [self._new_entry(transaction, number) for _ in range(random.choice((1, 1, 2, 6)))]
            if random.random() < 0.2:
                # The coordinator may be gone by the time that the leader verifies the first batch.
                await asyncio.sleep(random.expovariate(1.0))
            await self._append(process, raw, entries, producer, sequences, name)
        if random.random() < 0.5:
            await self._commit_offset(raw, name, producer, transaction)
        if self._is_crowded:
            await self._add_topics(raw, name, producer)
            # What ends it then is often a newer producer, or its timeout, whose records are larger than a commit's.
            await asyncio.sleep(random.expovariate(1.0))
        await self._end(raw, name, producer, transaction)

    async def _introduce(self, process: Process, on_added: Callable[[], None]) -> None:
        """Run one transaction, in which the leader has to ask a coordinator before it takes the first batches.

        A leader through which the addition has passed would not ask.
        """
        raw, name, number = RawClient(), f"newcomer-{next(self._newcomers)}", self._random.randrange(PARTITIONS)
        leader = f"broker-{self._cluster.metadata.leader(TOPIC, number)}"
        others = [name for name in self._cluster.brokers if name != leader]
        with contextlib.suppress(GivenUpError):
            producer = await self._init(raw, name)
            transaction = self._books.begin(name)
            await self._add(raw, name, producer, number, others)
            on_added()
            await asyncio.sleep(_NOTICED_S)
            entries = [self._new_entry(transaction, number) for _ in range(_IN_FLIGHT)]
            await self._append(process, raw, entries, producer, dict.fromkeys(range(PARTITIONS), 0), name)
            await self._end(raw, name, producer, transaction)

    async def _rest(self) -> None:
        while self._cluster.world.now < self._rests_until:
            await asyncio.sleep(0.1)

    async def _add(
        self, raw: RawClient, name: str, producer: Producer, number: int, brokers: Sequence[str] = ()
    ) -> None:
        """Add a partition to a transaction, by a request to one of these brokers or any."""
        await self._until_done(
            lambda: raw.add_partition(
                self._random.choice(brokers or self._cluster.brokers), name, producer, TOPIC, number
            )
        )

    async def _end(self, raw: RawClient, name: str, producer: Producer, transaction: Transaction) -> None:
        commit = self._random.random() < 0.7
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
                # A later transaction may have committed before this answer came. Its offset is higher.
                later = {each for each in self._offsets[name] if each > transaction.offset}
                self._offsets[name] = {transaction.offset, *later}
        self.findings.counts["committed" if commit else "aborted"] += 1

    async def _add_topics(self, raw: RawClient, name: str, producer: Producer) -> None:
        """Add partitions to which nothing is written, until the transaction takes no more."""
        try:
            for topic in crowds.drawn(self._random):
                await self._until_done(
                    lambda: raw.add_partition(self._any(), name, producer, topic, 0)  # noqa: B023 it ends here
                )
        except GivenUpError as error:
            if error.code != ErrorCode.UNKNOWN_SERVER_ERROR:
                raise

    async def _commit_offset(self, raw: RawClient, name: str, producer: Producer, transaction: Transaction) -> None:
        """Commit an offset that no other transaction commits, for a group with the name of the transactional id."""
        offset = next(self._numbers)
        await self._until_done(lambda: raw.add_offsets(self._any(), name, producer, name))
        await self._until_done(lambda: raw.commit_in_transaction(self._any(), name, producer, name, TOPIC, offset))
        transaction.offset = offset

    async def _write(self, process: Process, name: str) -> None:
        """Write values as an idempotent producer without transactions."""
        raw, random = RawClient(), self._random
        while True:
            try:
                producer = await self._init(raw, None)
                sequences = dict.fromkeys(range(PARTITIONS), 0)
                while True:
                    if name != _RESTLESS or self._all_rest:
                        await self._rest()
                    number = random.randrange(PARTITIONS)
                    # A batch that was given up may be appended late, behind those of the next producer id.
                    writes = [self._books.begin(f"{name} as {producer.id}", Fate.UNKNOWN)]
                    writes += [
                        self._books.begin(writes[0].producer, Fate.UNKNOWN) for _ in range(random.choice((0, 4)))
                    ]
                    entries = [self._new_entry(write, number) for write in writes]
                    await self._append(process, raw, entries, producer, sequences, None)
                    for write in writes:
                        write.fate, write.committed_at = Fate.COMMITTED, self._cluster.world.now
                    await asyncio.sleep(random.expovariate(15.0 / len(writes)))
            except GivenUpError:
                await asyncio.sleep(0.2)

    async def _repeat(self, process: Process) -> None:
        """Write as an idempotent producer that hears some answers late: it sends a batch again that was acknowledged.

        Whoever leads by then must know the batch, even if its records are deleted.
        """
        raw, random = RawClient(), self._random
        while True:
            with contextlib.suppress(GivenUpError):
                producer = await self._init(raw, None)
                sequences = dict.fromkeys(range(PARTITIONS), 0)
                number = random.randrange(PARTITIONS)
                for _ in range(random.randint(1, 5)):
                    if self._all_rest:
                        await self._rest()
                    sequence, write = sequences[number], self._books.begin(f"repeats as {producer.id}", Fate.UNKNOWN)
                    entry, timestamp_ms = self._new_entry(write, number), process.wall_ms()
                    await self._append(process, raw, [entry], producer, sequences, None)
                    write.fate, write.committed_at = Fate.COMMITTED, self._cluster.world.now
                    await asyncio.sleep(random.expovariate(1 / _LATE_S))
                    while self.holds_repeats:
                        await asyncio.sleep(0.1)
                    batch = batch_of(entry.key, entry.value, timestamp_ms, producer, sequence)
                    await self._send_again(raw, entry, batch)
            await asyncio.sleep(0.2)

    async def _send_again(self, raw: RawClient, entry: Entry, batch: bytes) -> None:
        """Send an acknowledged batch to whoever leads now."""
        with contextlib.suppress(OSError):
            leader = await raw.leader(self._any(), TOPIC, entry.partition)
            if leader >= 0:
                self.findings.counts["repeats"] += 1
                answer = await raw.produce(f"broker-{leader}", TOPIC, batch, ACKS_ALL, 2.0, entry.partition)
                is_known = f"{TOPIC}-{entry.partition}" not in self.copied
                if answer.code == ErrorCode.NONE and answer.offset != entry.offset and is_known:
                    self.findings.violate(f"{entry} was sent again, and acknowledged at offset {answer.offset}")

    def _new_entry(self, transaction: Transaction, number: int) -> Entry:
        entry = Entry(self._random.choice(self._keys), b"e%d" % next(self._numbers), number)
        return self._books.add(transaction, entry)

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
        entries: list[Entry],
        producer: Producer,
        sequences: dict[int, int],
        name: str | None,
    ) -> None:
        """Send records of one partition until all are acknowledged, each in a batch of its own.

        Several batches are in flight, as with the producers of Java and librdkafka. A batch that is sent again keeps
        its sequence.
        """
        number = entries[0].partition
        pending = deque[_Pending]()
        for entry in entries:
            sequence = sequences[number]
            batch = batch_of(entry.key, entry.value, process.wall_ms(), producer, sequence, transactional=bool(name))
            pending.append(_Pending(entry, batch, sequence))
            sequences[number] += 1

        async def send() -> int:
            leader = await raw.leader(self._any(), TOPIC, number)
            if leader < 0:
                return ErrorCode.LEADER_NOT_AVAILABLE
            sent = list(itertools.islice(pending, _IN_FLIGHT))
            batches = [each.batch for each in sent]
            timeout_s = self._random.choice((2.0, 8.0))
            answers = await raw.produce_in_order(f"broker-{leader}", TOPIC, batches, timeout_s, number, name)
            return self._take(pending, sent, answers, in_transaction=bool(name))

        await self._until_done(send)

    def _take(
        self, pending: deque[_Pending], sent: list[_Pending], answers: list[Answer], *, in_transaction: bool
    ) -> int:
        """Note what was acknowledged. Return an error of the rest, or no error once all have been acknowledged.

        Raises GivenUpError if a producer's first batch was refused and a later one was not. As in Kafka, a partition
        takes any sequence of a producer that it does not know. In a transaction, later batches wait behind the first
        one, unless the leader has not looked at it.
        """
        for each, answer in zip(sent, answers, strict=True):
            if answer.code == ErrorCode.NONE:
                each.entry.offset = answer.offset
                pending.remove(each)
                self.findings.counts["acked"] += 1
        first, is_overtaken = answers[0].code, any(answer.code == ErrorCode.NONE for answer in answers)
        is_by_leader = not in_transaction or first in _OF_THE_LEADER
        if first != ErrorCode.NONE and is_overtaken and sent[0].sequence == 0 and is_by_leader:
            raise GivenUpError(first, is_known=False)
        if first == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self.findings.violate(f"{sent[0].entry} was out of order, although all before it were acknowledged")
        codes = [answer.code for answer in answers if answer.code != ErrorCode.NONE]
        return next(iter(codes), ErrorCode.REQUEST_TIMED_OUT) if pending else ErrorCode.NONE

    async def _delete_records(self, raw: RawClient) -> None:
        number = self._random.randrange(PARTITIONS)
        leader = self._cluster.metadata.leader(TOPIC, number)
        with contextlib.suppress(OSError):
            found = await raw.fetch(f"broker-{leader}", TOPIC, self._cluster.metadata.topics[TOPIC], 0, number)
            if found.high_watermark > found.log_start_offset:
                offset = self._random.choice(
                    (found.high_watermark, self._random.randint(found.log_start_offset, found.high_watermark))
                )
                self._books.deleted[number] = max(self._books.deleted[number], offset)
                answer = await raw.delete_records(f"broker-{leader}", TOPIC, offset, number)
                self.findings.counts["deletions"] += answer.code == ErrorCode.NONE

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
                self.findings.counts[f"given up: {ErrorCode(code).name}"] += 1
                raise GivenUpError(code, is_known=is_known)
            await asyncio.sleep(self._random.uniform(0.05, 0.5))

    # ---- work in calm ----------------------------------------------------------------------------------------------

    def units(self) -> int:
        """Return how many transactions have ended, as their producers know."""
        return self.findings.counts["committed"] + self.findings.counts["aborted"]

    async def delete_all(self, raw: RawClient) -> bool:
        """Delete all records. Return whether that was done."""
        with contextlib.suppress(OSError):
            for number in range(PARTITIONS):
                leader = self._cluster.metadata.leader(TOPIC, number)
                found = await raw.fetch(f"broker-{leader}", TOPIC, self._cluster.metadata.topics[TOPIC], 0, number)
                self._books.deleted[number] = max(self._books.deleted[number], found.high_watermark)
                answer = await raw.delete_records(f"broker-{leader}", TOPIC, found.high_watermark, number)
                if answer.code != ErrorCode.NONE:
                    return False
            return True
        return False

    # ---- what reads it ---------------------------------------------------------------------------------------------

    async def _read(self, raw: RawClient, number: int, *, committed: bool) -> Reading | None:
        """Read a partition to its present end. Return None if that can't be done now."""
        topic_id, leader = self._cluster.metadata.topics[TOPIC], self._cluster.metadata.leader(TOPIC, number)
        values: dict[int, bytes] = {}
        offset, end = 0, -1
        try:
            while leader >= 0:
                fetched = await raw.fetch(f"broker-{leader}", TOPIC, topic_id, offset, number, committed=committed)
                if fetched.code == ErrorCode.OFFSET_OUT_OF_RANGE and offset < fetched.log_start_offset:
                    offset = fetched.log_start_offset
                    continue
                if fetched.code != ErrorCode.NONE:
                    return None
                if not fetched.log_start_offset <= fetched.last_stable_offset <= fetched.high_watermark:
                    self.findings.violate(f"the offsets of partition {number} are in no order: {fetched}")
                for batch in without_aborted(fetched) if committed else (fetched.records,):
                    values.update(_all_in(batch, offset))
                if end < 0:
                    end = fetched.last_stable_offset if committed else fetched.high_watermark
                following = fetched.next_offset(offset)
                if following >= end:
                    return Reading(values, fetched.log_start_offset, end)
                if following == offset:
                    return None
                offset = following
        except OSError:
            pass
        return None

    async def _audit(self, raw: RawClient) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(0.5, 1.5))
            if self._all_rest:
                await self._rest()
            began, number = self._cluster.world.now, self._random.randrange(PARTITIONS)
            read = await self._read(raw, number, committed=True)
            if read is not None:
                self.findings.counts["audits"] += 1
                self._books.judge_visible(number, read, committed_before=began)

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
                self.findings.violate(f"group {group} has committed {found}, which is not one of {sorted(offsets)}")
        if self._group is not None and (missing := await self._group.look(raw)):
            return missing
        for number in range(PARTITIONS):
            with self._cluster.disks.inspected():
                logs = {name: self._log_on(name, number) for name in self._cluster.brokers}
            if difference := self._books.difference(number, logs, visible[number]):
                return difference
        for number in range(PARTITIONS):
            self._books.judge_visible(number, visible[number])
            self._books.judge_order(number, visible[number], written[number])
        self._books.judge_whole(visible)
        return ""

    async def _committed(self, raw: RawClient, group: str) -> int | None:
        """Return the offset that a group has committed, or None if that can't be read now."""
        with contextlib.suppress(OSError):
            answer = await raw.committed(self._any(), group, TOPIC)
            if answer.code == ErrorCode.NONE:
                return answer.offset
        return None

    def _log_on(self, name: str, number: int) -> Reading:
        """Return all values on a disk."""
        values: dict[int, bytes] = {}
        segments = self._cluster.segments(name, TOPIC, number)
        for path in segments:
            file = self._cluster.disks.open_file(path)
            for position, header in sound_batches(file, file.size_bytes()):
                values.update(_all_in(file.read(position, header.size_bytes), 0))
        return Reading(values, int(segments[0].stem), max(values, default=-1) + 1)


def _all_in(data: Buffer, offset: int) -> Iterator[tuple[int, bytes]]:
    for header, batch in batches_in(data):
        if not header.is_control:
            yield from ((each, value or b"") for each, _, value in records_of(batch) if each >= offset)
