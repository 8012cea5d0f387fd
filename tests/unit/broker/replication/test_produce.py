"""What may be produced to, with which acks, in which order, and what is kept of it meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from batches import NOON, sealed, simple_records
from replicas import Brokers
from waiting import until

from ottla_broker.replication.produce import ReplicaAppend, append, check_acks
from ottla_broker.storage.log_config import LogConfig
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.model import INTERNAL_TOPICS
from ottla_core.records.batch import iter_headers, read_header
from ottla_core.records.compression import Codec, Compression


class Untouched:
    """A replica, and what it is led with, that must not be written to."""

    def __init__(self, topic: str) -> None:
        self.topic = topic


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
def test_clients_do_not_write_to_internal_topics(topic: str) -> None:
    untouched: Any = Untouched(topic)
    with pytest.raises(OttlaError) as refused:
        append(untouched, untouched, b"", 1, Slice())
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.rule(66)
def test_acks() -> None:
    for acks in (0, 1, -1):
        check_acks(acks)
    for acks in (-2, 2, 3):
        with pytest.raises(OttlaError) as refused:
            check_acks(acks)
        assert refused.value.code == ErrorCode.INVALID_REQUIRED_ACKS


def _zeros(size_bytes: int) -> bytes:
    """A batch that compresses to a thousandth."""
    return sealed([(0, NOON, b"k", bytes(size_bytes), [])], Codec.ZSTD)


@pytest.mark.story("batch-is-looked-into-on-the-loop", "appended-before-who-came-first")
@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize(
    "large",
    [sealed(simple_records(30_000)), sealed(simple_records(4_000), Codec.GZIP), _zeros(1 << 20)],
    ids=["plain", "gzip", "small and compressed"],
)
async def test_what_takes_long_to_walk_is_appended_later_and_what_comes_behind_it_after_it(
    tmp_path: Path, compacts: bool, large: bytes
) -> None:
    """A batch may have a million records, or become a hundred times as large, and takes a thread's time."""
    brokers = Brokers(tmp_path, (1,), LogConfig(compacts=compacts, max_message_bytes=1 << 22))
    brokers.apply(Partition(replicas=(1,), leader=1, leader_epoch=1, isr=(1,)))
    replica, leading, turn = brokers.replicas[1], brokers.leading(1), Slice(60.0)
    small = sealed(simple_records(1))
    at_once = append(replica, leading, small, 1, turn)
    assert isinstance(at_once, ReplicaAppend)
    later = [append(replica, leading, records, 1, turn) for records in (large, small)]
    assert replica.log.log_end_offset == 1
    offsets = [(await cast(asyncio.Future[ReplicaAppend], each)).appended.base_offset for each in later]
    assert offsets == [1, 1 + read_header(large).record_count]


@pytest.mark.parametrize("small", [1, 200], ids=["on the loop", "in the thread, too"])
async def test_a_producers_batches_keep_their_order_while_they_are_compressed(tmp_path: Path, small: int) -> None:
    config = LogConfig(compression=Compression(Codec.ZSTD))
    brokers = Brokers(tmp_path, (1,), config)
    brokers.apply(Partition(replicas=(1,), leader=1, leader_epoch=1, isr=(1,)))
    replica, leading, turn = brokers.replicas[1], brokers.leading(1), Slice(60.0)
    counts = [small, 3_000, small, 2_000, small]
    results = [append(replica, leading, sealed(simple_records(count)), 1, turn) for count in counts]
    appended = [each if isinstance(each, ReplicaAppend) else await each for each in results]
    assert [each.appended.base_offset for each in appended] == [sum(counts[:n]) for n in range(5)]
    stored = replica.log.read(0, 1 << 20, replica.log.log_end_offset)
    assert [(header.codec, header.record_count) for _, header in iter_headers(stored)] == [
        (Codec.ZSTD, count) for count in counts
    ]
    assert isinstance(results[0], ReplicaAppend) == (small == 1)
    await until(lambda: not replica.pending_bytes.held)


async def test_a_topics_new_codec_applies_to_the_next_batch(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, (1,))
    brokers.apply(Partition(replicas=(1,), leader=1, leader_epoch=1, isr=(1,)))
    replica, leading, turn = brokers.replicas[1], brokers.leading(1), Slice(60.0)
    wanted = [None, Compression(Codec.GZIP), Compression(Codec.NONE), None]
    for compression in wanted:
        replica.log.config = LogConfig(compression=compression)
        appended = append(replica, leading, sealed(simple_records(3_000), Codec.LZ4), 1, turn)
        assert isinstance(appended if isinstance(appended, ReplicaAppend) else await appended, ReplicaAppend)
    stored = replica.log.read(0, 1 << 20, replica.log.log_end_offset)
    codecs = [header.codec for _, header in iter_headers(stored)]
    assert codecs == [Codec.LZ4, Codec.GZIP, Codec.NONE, Codec.LZ4]
