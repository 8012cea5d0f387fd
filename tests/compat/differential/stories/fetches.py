"""Fetch, ListOffsets and OffsetForLeaderEpoch by hand: out of range, unknown topics, other epochs and sessions."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from tests.compat.differential.stories.produces import produce, topic_id
from tests.compat.differential.story import Facts, Side, Story, by_version, code_name
from tests.fuzz.kafka_wire import KafkaWire
from wire import batch

FETCH, LIST, EPOCHS, METADATA = 1, 2, 23, 3


def fetch(wire: KafkaWire, version: int, topic: str, id_: uuid.UUID, offset: int, **fields: Any) -> str:
    part = FetchRequest.FetchTopic.FetchPartition(
        partition=fields.pop("partition", 0),
        current_leader_epoch=fields.pop("epoch", -1),
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=fields.pop("partition_max_bytes", 1 << 20),
    )
    given = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [FetchRequest.FetchTopic(topic=topic, topic_id=id_, partitions=[part])],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    answer = wire.ask(FetchRequest(version=version, **given | fields), version, FetchResponse)
    whole = code_name(answer.error_code) if version >= 7 else "-"
    parts = [
        f"{code_name(p.error_code)} high watermark {p.high_watermark}, {len(p.records or b'')} bytes"
        for entry in answer.responses
        for p in entry.partitions
    ]
    return " ".join([whole, *parts])


def list_offsets(wire: KafkaWire, version: int, topic: str, timestamp: int, **fields: Any) -> str:
    part = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
        partition_index=fields.get("partition", 0),
        current_leader_epoch=fields.get("epoch", -1),
        timestamp=timestamp,
    )
    named = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[part])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[named], timeout_ms=5_000)
    found = wire.ask(request, version, ListOffsetsResponse).topics[0].partitions[0]
    return f"{code_name(found.error_code)} {found.offset} {found.timestamp}"


def end_of_epoch(wire: KafkaWire, version: int, topic: str, epoch: int, current: int = -1, partition: int = 0) -> str:
    asked = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    part = asked.OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[asked(topic=topic, partitions=[part])])
    found = wire.ask(request, version, OffsetForLeaderEpochResponse).topics[0].partitions[0]
    return f"{code_name(found.error_code)} {found.end_offset}"


def _reads(side: Side) -> Facts:
    topic = side.topic()
    with side.wire() as wire:
        produce(wire, 9, topic, batch(b"a", b"b", b"c"))
        id_ = topic_id(wire, topic)

    def on(key: int, live: Callable[[KafkaWire, int], str]) -> str:
        def of(version: int) -> str:
            with side.wire() as wire:
                return live(wire, version)

        return by_version(key, of)

    nowhere = uuid.UUID(int=77)
    return {
        "fetch: well": on(FETCH, lambda w, v: fetch(w, v, topic, id_, 0)),
        "fetch: in the middle of a batch": on(FETCH, lambda w, v: fetch(w, v, topic, id_, 1)),
        "fetch: fewer bytes than a batch": on(FETCH, lambda w, v: fetch(w, v, topic, id_, 0, partition_max_bytes=10)),
        "fetch: no bytes": on(FETCH, lambda w, v: fetch(w, v, topic, id_, 0, max_bytes=0)),
        "fetch: at the end": on(FETCH, lambda w, v: fetch(w, v, topic, id_, 3)),
        "fetch: beyond the end": on(FETCH, lambda w, v: fetch(w, v, topic, id_, 100)),
        "fetch: below 0": on(FETCH, lambda w, v: fetch(w, v, topic, id_, -5)),
        "fetch: an unknown topic": on(FETCH, lambda w, v: fetch(w, v, "nowhere", nowhere, 0)),
        "fetch: an unknown partition": on(FETCH, lambda w, v: fetch(w, v, topic, id_, 0, partition=9)),
        "fetch: a later epoch": on(FETCH, lambda w, v: fetch(w, v, topic, id_, 0, epoch=99 if v >= 9 else -1)),
        "fetch: an unknown session": on(
            FETCH, lambda w, v: fetch(w, v, topic, id_, 0, **({"session_id": 9, "session_epoch": 4} if v >= 7 else {}))
        ),
        "list: the earliest": on(LIST, lambda w, v: list_offsets(w, v, topic, -2)),
        "list: the latest": on(LIST, lambda w, v: list_offsets(w, v, topic, -1)),
        "list: the largest time": on(LIST, lambda w, v: list_offsets(w, v, topic, -3)),
        "list: by time": on(LIST, lambda w, v: list_offsets(w, v, topic, 1_700_000_000_001)),
        "list: after the last": on(LIST, lambda w, v: list_offsets(w, v, topic, 1_800_000_000_000)),
        "list: a time that stands for nothing": on(LIST, lambda w, v: list_offsets(w, v, topic, -77)),
        "list: the earliest local": on(LIST, lambda w, v: list_offsets(w, v, topic, -4)),
        "list: an unknown topic": on(LIST, lambda w, v: list_offsets(w, v, "nowhere", -1)),
        "list: an unknown partition": on(LIST, lambda w, v: list_offsets(w, v, topic, -1, partition=9)),
        "list: a later epoch": on(LIST, lambda w, v: list_offsets(w, v, topic, -1, epoch=99 if v >= 4 else -1)),
        "epochs: well": on(EPOCHS, lambda w, v: end_of_epoch(w, v, topic, 0)),
        "epochs: a later one": on(EPOCHS, lambda w, v: end_of_epoch(w, v, topic, 99)),
        "epochs: a later current one": on(EPOCHS, lambda w, v: end_of_epoch(w, v, topic, 0, 99)),
        "epochs: an unknown topic": on(EPOCHS, lambda w, v: end_of_epoch(w, v, "nowhere", 0)),
        "metadata: an unknown topic": on(METADATA, lambda w, v: named(w, v, "nowhere-to-be")),
        "metadata: a bad name": on(METADATA, lambda w, v: named(w, v, "no/name")),
    }


def named(wire: KafkaWire, version: int, topic: str) -> str:
    if version < 4:
        return "-"  # they can't say that it is not to be created
    asked = MetadataRequest.MetadataRequestTopic(name=topic, topic_id=None)
    request = MetadataRequest(
        topics=[asked], allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    (found,) = wire.ask(request, version, MetadataResponse).topics
    return code_name(found.error_code)


STORIES: Final = (Story("reads", _reads),)
