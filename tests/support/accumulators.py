"""An accumulator of four partitions on two brokers, and what its requests hold."""

from __future__ import annotations

from ottla.machines.accumulator import Accumulator
from ottla.machines.batches import BatchResponse, ProducerBatch, ProducerLimits
from ottla.machines.metadata import Route
from ottla.machines.requests import OutgoingRequest
from ottla_core.model import PartitionId, TopicId, TopicPartition
from ottla_core.records.batch import iter_headers
from ottla_core.records.compression import Codec
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder

IDS = [PartitionId(TopicId(b"t" * 16), n) for n in range(4)]
PARTITIONS = [TopicPartition("t", n) for n in range(4)]
ROUTES = {PARTITIONS[n]: Route(IDS[n], f"b{n % 2}:1", 5) for n in range(4)}


def accumulator(**limits: object) -> Accumulator:
    return Accumulator(ProducerLimits(**{"linger_s": 1.0, **limits}), lambda size: new_builder(size, pure=True))  # type: ignore[arg-type]  # numbers by name


def add(acc: Accumulator, value: bytes, *, partition: int = 0, now: float = 0.0) -> ProducerBatch | None:
    queue = acc.queue(PARTITIONS[partition])
    return acc.append(queue, 1000, None, value, ()) or acc.append_to_new(queue, 1000, None, value, (), now)


def values(request: OutgoingRequest) -> list[bytes | None]:
    found = []
    for part in request.parts:
        data = part.batch.encode(Codec.NONE)
        for at, header in iter_headers(data):
            found += [value for *_, value, _ in read_records(data[at : at + header.size_bytes])]
    return found


def answered(request: OutgoingRequest, base_offset: int = 0) -> dict[PartitionId, BatchResponse]:
    return {part.route.partition_id: BatchResponse(base_offset) for part in request.parts}
