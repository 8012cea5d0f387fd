"""The producer's machine against a broker's rules: whatever is lost, repeated or delayed on the way, the log is right.

One partition. Frames travel in order to a log that knows Kafka's rules of idempotence and nothing of the producer's;
answers come back in any order or never; leaders change and lose what was not acknowledged; batches run out of time.
Batches grow or don't, and brokers take larger ones at some times than at others, so they are split.
"""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.fakes.scripted_log import ScriptedLog
from ottla.machines.accumulator import Accumulator
from ottla.machines.batches import BatchResponse, ProducerBatch, ProducerLimits
from ottla.machines.metadata import Route
from ottla.machines.requests import OutgoingRequest
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId, TopicPartition
from ottla_core.records.compression import Codec
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder

PARTITION = TopicPartition("t", 0)
PARTITION_ID = PartitionId(TopicId(b"t" * 16), 0)
TIMEOUT_S = 40.0

REFUSALS = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE]
STEPS = [
    "append", "append", "append", "append", "drain", "drain", "serve", "serve", "serve", "answer", "answer", "answer",
    "refuse", "refuse after append", "break", "new leader", "wait", "wait long", "limit", "limit",
]  # fmt: skip

LARGEST_BYTES = [120, 200, 500]
"""A record takes 75 bytes in a batch of its own."""

Frame = tuple[OutgoingRequest, bytes]


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        grows = self.chance.random() < 0.5
        limits = ProducerLimits(
            linger_s=0, batch_bytes=self.chance.choice([90, 150]), delivery_timeout_s=TIMEOUT_S, backoff_s=0.1,
            idempotent=True, retries=10**6, grown_bytes=400 * grows,
        )  # fmt: skip
        self.producer = Accumulator(limits, lambda size: new_builder(size, pure=True))
        self.producer.producer_id = 7
        self.log = ScriptedLog()
        self.now = 0.0
        self.route = Route(PARTITION_ID, "b0:1", 0)
        self.sent: list[tuple[bytes, ProducerBatch, int]] = []
        self.wire: deque[Frame] = deque()
        self.answers: list[tuple[OutgoingRequest, BatchResponse]] = []

    def append(self) -> None:
        value = b"%06d" % len(self.sent)
        queue = self.producer.queue(PARTITION)
        batch = self.producer.append(queue, 1, None, value, ())
        batch = batch or self.producer.append_to_new(queue, 1, None, value, (), self.now)
        assert batch is not None
        self.sent.append((value, batch, batch.count - 1))

    def drain(self) -> None:
        drained = self.producer.drain(self.now, {PARTITION: self.route})
        for request in drained.requests:
            self.wire.append((request, request.parts[0].batch.encode(Codec.NONE)))
        if drained.wants_producer_id:
            self.producer.producer_id += 1
        queue = self.producer.queue(PARTITION)
        assert queue.sequences is not None
        if not queue.sequences.halted:  # what is in flight left in order, oldest first, and never more than five
            in_flight = [part.batch for part in queue.in_flight]
            assert in_flight == queue.sequences.outstanding[: len(in_flight)]
            assert len(in_flight) <= 5

    def serve(self, after: int = 0) -> None:
        """The broker takes the next frame; `after`: it answers with that code what it has appended."""
        if self.wire:
            request, records = self.wire.popleft()
            answer = self._appended(records)
            self.answers.append((request, BatchResponse(code=after) if after and not answer.code else answer))

    def limit(self) -> None:
        """The topic gets another max.message.bytes."""
        self.log.max_message_bytes = self.chance.choice(LARGEST_BYTES)

    def _appended(self, records: bytes) -> BatchResponse:
        try:
            return BatchResponse(self.log.append(records, self.route.leader_epoch))
        except OttlaError as error:
            return BatchResponse(code=error.code, message=error.message)

    def refuse(self) -> None:
        """The broker refuses the next frame, or looks at it after all."""
        if self.wire:
            request, records = self.wire.popleft()
            code, refused = self.chance.choice(REFUSALS), self.chance.random() < 0.6
            self.answers.append((request, BatchResponse(code=code) if refused else self._appended(records)))

    def answer(self) -> None:
        if self.answers:
            request, answer = self.answers.pop(self.chance.randrange(len(self.answers)))
            reported = self.producer.on_response(request, {PARTITION_ID: answer}, self.now)
            assert reported.warnings == [], "the broker forgets nothing here"

    def break_(self) -> None:
        """The connection breaks: of what is on the wire the broker still gets a part, and no answer arrives."""
        for _ in range(self.chance.randint(0, len(self.wire))):
            self.serve()
        lost = [request for request, _ in self.answers] + [request for request, _ in self.wire]
        self.answers.clear()
        self.wire.clear()
        self.chance.shuffle(lost)
        for request in lost:
            self.producer.on_failed(request, ErrorCode.NETWORK_EXCEPTION, "gone", self.now)

    def new_leader(self) -> None:
        """Another replica leads, which has all that was acknowledged and perhaps more."""
        self.break_()
        parts = {value: batch.part_with(number)[0] for value, batch, number in self.sent}
        acknowledged = {value for value, part in parts.items() if part.settled and part.error is None}
        kept = max([0, *(offset + 1 for offset, value in enumerate(self.written()) if value in acknowledged)])
        ends = [batch.next for batch in self.log.batches if batch.next >= kept]
        self.log.drop_after(self.chance.choice([kept, *ends]))
        self.route = Route(PARTITION_ID, f"b{self.route.leader_epoch % 3}:1", self.route.leader_epoch + 1)

    def written(self) -> list[bytes]:
        return [value or b"" for batch in self.log.batches for *_, value, _ in read_records(batch.records)]

    def _open(self) -> bool:
        return any(not batch.settled for _, batch, _ in self.sent)

    def heal(self) -> None:
        """From now on everything works, until all has an outcome."""
        for _ in range(1000):
            if not self._open():
                return
            self.drain()
            while self.wire:
                self.serve()
            while self.answers:
                self.answer()
            self.now += 0.2
        raise AssertionError("some batches never get an outcome")


def run(steps: list[str], seed: int) -> World:
    world = World(seed)
    for step in steps:
        world.now += 0.05
        match step:
            case "refuse after append":
                world.serve(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            case "break":
                world.break_()
            case "new leader":
                world.new_leader()
            case "wait":
                world.now += 1.5
            case "wait long":
                world.now += TIMEOUT_S / 3
            case _:
                getattr(world, step)()
    world.heal()
    return world


@pytest.mark.rule(25)
@pytest.mark.rule(26)
@pytest.mark.rule(27)
@pytest.mark.feature(175)
@settings(max_examples=300)
@given(st.lists(st.sampled_from(STEPS), min_size=50, max_size=400), st.integers(0, 2**32))
def test_nothing_acknowledged_is_lost_repeated_or_out_of_order(steps: list[str], seed: int) -> None:
    world = run(steps, seed)
    written = world.written()
    assert written == sorted(set(written))
    for value, batch, number in world.sent:
        part, number_in_part = batch.part_with(number)
        assert part.settled
        if part.error is None and part.base_offset >= 0:
            assert written[part.base_offset + number_in_part] == value
        elif part.error is None:
            assert value in written
            assert part.whole is not None, "only a part is found without its offset"
