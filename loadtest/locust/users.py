"""Locust users over the SDK: one scenario each, one request event for a batch of records.

A user is a client of its own with its own schedule (`SendPace`). What it does counts from the moment when it was due,
so a stall of the cluster shows in every batch that it held up. `--rate Name=records` changes a scenario's rate for one
user; 0 is as fast as it goes, and then a batch counts from its own beginning.
"""

from __future__ import annotations

import itertools
import random
import time
import uuid
from collections.abc import Iterator
from typing import Any, ClassVar, Final, Literal

import gevent
from locust import User, task

from loadtest.locust import topics
from loadtest.locust.churn import Churn
from loadtest.locust.membership import Membership
from loadtest.rows.clients import PATIENCE_S, Reach, new_consumer, new_producer
from ottla.bench.pace import SendPace
from ottla.bench.payload import keys, values
from ottla.consumer.consumer import Consumer
from ottla.errors import ErrorCode, error_from_code
from ottla.producer.producer import Producer

_MARK: Final = "load"
_ABORTED: Final = b"aborted"


class OttlaUser(User):
    """What all have: `batch` records a request, `rate` records a second. `open`, `perform` and `close` are theirs."""

    abstract = True
    kind: ClassVar[str]
    batch: ClassVar[int]
    rate: ClassVar[float]

    def on_start(self) -> None:
        self._done = 0
        self._pace: SendPace | None = None
        self.open(self.environment.reach)
        rate = self.environment.parsed_options.rate.get(type(self).__name__, self.rate)
        if rate:
            batches_s = rate / self.batch
            gevent.sleep(random.random() / batches_s)  # users that start together do not march in step
            self._pace = SendPace(time.monotonic(), batches_s)

    def on_stop(self) -> None:
        self.close()

    def wait_time(self) -> float:
        """Seconds until the next batch is due."""
        return 0.0 if self._pace is None else max(0.0, self._pace.due_at(self._done) - time.monotonic())

    @task
    def one_batch(self) -> None:
        """Perform, and tell Locust how it went, whichever way."""
        due_at = time.monotonic() if self._pace is None else self._pace.due_at(self._done)
        self._done += 1
        size_bytes, failure = 0, None
        try:
            size_bytes = self.perform(due_at)
        except Exception as error:
            failure = error
        took_s = self.took_s(due_at)
        self.environment.events.request.fire(
            request_type=self.kind,
            name=type(self).__name__,
            start_time=time.time() - took_s,
            response_time=took_s * 1000,
            response_length=size_bytes,
            context={"records": 0 if failure else self.batch},
            exception=failure,
        )

    def took_s(self, due_at: float) -> float:
        """The latency of the batch that is over now."""
        return time.monotonic() - due_at

    def open(self, reach: Reach) -> None:
        """Make the clients."""
        raise NotImplementedError

    def perform(self, due_at: float) -> int:
        """One batch, due at that monotonic time; the bytes of its values. Raises where not all of it succeeded."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the clients."""
        raise NotImplementedError


class Produces(OttlaUser):
    """Sends a batch and waits until all of it is acknowledged."""

    abstract = True
    kind = "produce"
    size_bytes: ClassVar[int] = 100
    acks: ClassVar[Literal["all", 1, 0]] = "all"
    distinct_keys: ClassVar[int] = 0

    def open(self, reach: Reach) -> None:
        self._producer = new_producer(reach, topics.PRODUCE, acks=self.acks)
        self._rows: Iterator[Any] = zip(values(self.size_bytes), keys(self.distinct_keys), strict=False)

    def perform(self, due_at: float) -> int:
        for value, key in itertools.islice(self._rows, self.batch):
            self._producer.send(value, key=key)
        self._producer.flush()
        return self.batch * self.size_bytes

    def close(self) -> None:
        self._producer.close()


class ProduceSmall(Produces):
    """100-byte values, on all replicas."""

    batch, rate = 500, 3_000


class ProduceLarge(Produces):
    """100 kB values, on all replicas."""

    batch, rate = 5, 25
    size_bytes = 100_000


class ProduceKeyed(Produces):
    """100-byte values of 10,000 keys: every batch goes to all partitions."""

    batch, rate = 500, 3_000
    distinct_keys = 10_000


class ProduceAcksLeader(Produces):
    """The leader's acknowledgement is enough."""

    batch, rate = 500, 5_000
    acks = 1


class ProduceAcksNone(Produces):
    """Nobody acknowledges: the latency is that of handing over to the connection."""

    batch, rate = 500, 5_000
    acks = 0


class EndToEnd(OttlaUser):
    """Sends a batch to one partition and reads it back; a header holds who sent it and when it was due."""

    kind = "end to end"
    batch, rate = 50, 500
    size_bytes: ClassVar[int] = 100
    _turn: ClassVar[Iterator[int]] = itertools.count()

    def open(self, reach: Reach) -> None:
        self._name = uuid.uuid4().bytes
        self._partition = next(self._turn) % topics.PARTITIONS
        self._values = values(self.size_bytes)
        self._producer = self._new_producer(reach)
        self._consumer = self._new_consumer(reach)

    def perform(self, due_at: float) -> int:
        mark = self._name + round(due_at * 1e9).to_bytes(8, "big")
        self._send(mark)
        left, give_up_at = self.batch, time.monotonic() + PATIENCE_S
        while left > 0:
            records = self._consumer.poll(max(0.0, give_up_at - time.monotonic()))
            marks = [record.header(_MARK) for record in records]
            if _ABORTED in marks:
                raise AssertionError("records of an aborted transaction were read")
            left -= marks.count(mark)
            if left > 0 and time.monotonic() >= give_up_at:
                raise _missing(left)
        return self.batch * self.size_bytes

    def _new_producer(self, reach: Reach) -> Producer[bytes, bytes]:
        return new_producer(reach, topics.END_TO_END)

    def _new_consumer(self, reach: Reach) -> Consumer[bytes, bytes]:
        return self._consumer_of(reach, topics.END_TO_END)

    def _consumer_of(self, reach: Reach, topic: str) -> Consumer[bytes, bytes]:
        """What is sent from here on is what it reads."""
        consumer = new_consumer(reach, topic, start="latest", partitions=[self._partition])
        consumer.position((topic, self._partition))
        return consumer

    def _send(self, mark: bytes) -> None:
        for value in itertools.islice(self._values, self.batch):
            self._producer.send(value, partition=self._partition, headers=[(_MARK, mark)])
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


class Mirrored(EndToEnd):
    """The same, read from the copy that a mirror keeps in another cluster; of `--mirrored` alone."""

    kind = "mirrored"
    rate = 100  # two batches a second: each is work for both clusters and the mirror

    def _new_consumer(self, reach: Reach) -> Consumer[bytes, bytes]:
        where: topics.Copies = self.environment.parsed_options.mirrored
        return self._consumer_of(where.reach, where.copy(topics.END_TO_END))


class Transactions(EndToEnd):
    """The same in two transactions: one that is aborted, which no user may read, and one that is committed."""

    kind = "transaction"
    rate = 50  # two transactions a second: each is a chain of requests that wait for the processors one by one

    def _new_producer(self, reach: Reach) -> Producer[bytes, bytes]:
        producer = new_producer(reach, topics.END_TO_END, transactional_id=f"load-{self._name.hex()}")
        producer.init_transactions()
        return producer

    def _send(self, mark: bytes) -> None:
        self._producer.begin_transaction()
        super()._send(_ABORTED)
        self._producer.abort_transaction()
        with self._producer.transaction():
            super()._send(mark)


class Replay(OttlaUser):
    """Reads a topic from its earliest record to its end, and again."""

    kind = "consume"
    batch, rate = 2_000, 20_000

    def open(self, reach: Reach) -> None:
        self._consumer = new_consumer(reach, topics.REPLAY, start="earliest")
        self._left = topics.REPLAY_RECORDS

    def perform(self, due_at: float) -> int:
        size_bytes, wanted, give_up_at = 0, self.batch, time.monotonic() + PATIENCE_S
        while wanted:
            if not self._left:
                self._consumer.seek_to_beginning()
                self._left = topics.REPLAY_RECORDS
            records = self._consumer.poll(give_up_at - time.monotonic(), max_records=min(wanted, self._left))
            if not records:
                raise _missing(wanted)
            size_bytes += sum(map(len, records.values()))
            wanted -= len(records)
            self._left -= len(records)
        return size_bytes

    def close(self) -> None:
        self._consumer.close()


class GroupChurn(OttlaUser):
    """A member of a group for a moment: it joins, reads, commits and is gone, so its group rebalances all the time.

    A batch is one membership, before which its records are sent; its latency is what the member waited for its
    partitions. Mostly it leaves; sometimes it is a static member, which comes back; and sometimes it ends without a
    word and is never seen again, so that its group has to evict it. One group is eager, one cooperative.
    """

    kind = "group"
    weight = 3  # groups have several members
    batch, rate = 100, 50
    stay_s: ClassVar[tuple[float, float]] = (
        0.5,
        3.0,
    )  # by chance: who was given partitions together does not leave together
    churn: ClassVar[Churn] = Churn()
    _turn: ClassVar[Iterator[int]] = itertools.count()

    def open(self, reach: Reach) -> None:
        self._reach = reach
        self._assignor = ("range", "cooperative-sticky")[next(self._turn) % 2]
        in_step_with_nobody = random.randrange(10)
        self._instances = itertools.islice(_instances(uuid.uuid4().hex), in_step_with_nobody, None)
        self._membership: Membership | None = None
        self._producer = new_producer(reach, topics.CHURN)
        self._values = values(100)

    def perform(self, due_at: float) -> int:
        self._membership = None
        for n, value in enumerate(itertools.islice(self._values, self.batch)):
            self._producer.send(value, partition=n % topics.PARTITIONS)
        self._producer.flush()
        self._membership = Membership(self._reach, self._assignor, next(self._instances), self.churn)
        self._membership.run(random.uniform(*self.stay_s))
        return self._membership.size_bytes

    def took_s(self, due_at: float) -> float:
        return super().took_s(due_at) if self._membership is None else self._membership.waited_s

    def close(self) -> None:
        self._producer.close()


def _instances(mine: str) -> Iterator[str | None]:
    """As whom one is a member, by turns: mostly as nobody in particular, who leaves, for to be evicted takes long."""
    while True:
        yield from itertools.repeat(None, 4)
        yield from (mine, mine)
        yield from itertools.repeat(None, 3)
        yield uuid.uuid4().hex


def _missing(count: int) -> Exception:
    return error_from_code(ErrorCode.REQUEST_TIMED_OUT, f"{count} records did not come within {PATIENCE_S:g} s")
