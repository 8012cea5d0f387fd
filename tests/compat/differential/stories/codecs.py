"""Topics with compression.type: the codec in which the leader stores batches, and what it keeps of a batch."""

from __future__ import annotations

import uuid
from typing import Any, Final

from kafka.protocol.consumer import FetchRequest, FetchResponse
from tests.compat.differential.stories.admin import alter, create
from tests.compat.differential.stories.produces import init, numbered, produce
from tests.compat.differential.stories.transactions import add, end
from tests.compat.differential.story import Facts, Side, Story, code_name
from tests.fuzz.kafka_wire import KafkaWire
from waiting import wait_until
from wire import batch

from ottla_core.records.batch import HEADER_SIZE, iter_headers
from ottla_core.records.compression import Codec

_TARGETS: Final = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
_LEVELS: Final = {
    "compression.gzip.level": ("-2", "-1", "0", "1", "9", "10"),
    "compression.lz4.level": ("-1", "0", "1", "17", "18"),
    "compression.zstd.level": ("-131073", "-131072", "0", "22", "23"),
}
_PRODUCE: Final = 9
_ALTER: Final = 1
_VALUES: Final = tuple(b"%d: a value with a value in it" % n for n in range(60))
_NOTHING: Final = bytes(3_000)
_TEXT: Final = b"".join(b"%d " % n**3 for n in range(100_000))[: (1 << 20) + 1_000]
"""More than fits into a segment of a mebibyte, before compression."""


def stored(wire: KafkaWire, topic: str) -> bytes:
    """All batches of a partition. Kafka returns those of one segment at a time."""
    found, offset = b"", 0
    while records := _fetched(wire, topic, offset):
        found += records
        *_, (_, last) = iter_headers(records)
        offset = last.base_offset + last.last_offset_delta + 1
    return found


def _fetched(wire: KafkaWire, topic: str, offset: int) -> bytes:
    part = FetchRequest.FetchTopic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, topic_id=uuid.UUID(int=0), partitions=[part])],
        forgotten_topics_data=[],
        rack_id="",
    )
    return bytes(wire.ask(request, 11, FetchResponse).responses[0].partitions[0].records or b"")


def _shown(records: bytes) -> str:
    """The content of every batch's header, without sizes, the CRC and fields that depend on the run."""
    shown = []
    for _, header in iter_headers(records):
        codec, bits = Codec(header.codec).label, header.attributes & ~7
        times = f"{header.base_timestamp}-{header.max_timestamp}"
        if header.has_log_append_time or header.is_control:
            times = "the broker's time"
        numbers = f"epoch {header.producer_epoch} sequence {header.base_sequence}"
        span = f"{header.base_offset}+{header.last_offset_delta} ({header.record_count})"
        shown.append(f"{codec} {bits:#x} {span} {numbers} {times}")
    return "; ".join(shown)


def _codecs(side: Side) -> Facts:
    facts = {}
    for target in _TARGETS:
        topic = side.topic(compression_type=target)
        with side.wire() as wire:
            for codec in Codec:
                produce(wire, _PRODUCE, topic, batch(*_VALUES, codec=codec))
            facts[target] = _shown(stored(wire, topic))
    return facts


def _bytes(side: Side) -> Facts:
    """Whether a batch in the topic's codec is stored unchanged, and what a level changes."""
    facts = {}
    with side.wire() as wire:
        for codec in (Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD):
            label = "uncompressed" if codec is Codec.NONE else codec.label
            topic, sent = side.topic(compression_type=label), batch(*_VALUES, codec=codec)
            produce(wire, _PRODUCE, topic, sent)
            kept = stored(wire, topic)[HEADER_SIZE:] == sent[HEADER_SIZE:]
            facts[f"{label} in {label}"] = "as it is" if kept else "anew"
        for codec, worst, best in ((Codec.GZIP, "1", "9"), (Codec.LZ4, "1", "12"), (Codec.ZSTD, "-5", "19")):
            sizes = []
            for level in (worst, best):
                levels: Any = {f"compression_{codec.label}_level": level}
                topic = side.topic(compression_type=codec.label, **levels)
                produce(wire, _PRODUCE, topic, batch(*(bytes(str(n**9), "ascii") * 9 for n in range(90))))
                sizes.append(len(stored(wire, topic)))
            facts[f"a higher level of {codec.label}"] = "smaller" if sizes[1] < sizes[0] else "no smaller"
    return facts


def _levels(side: Side) -> Facts:
    def created(name: str, value: str) -> str:
        config: Any = {name.replace(".", "_"): value}
        with side.wire() as wire:
            return create(wire, 5, side.fresh("t"), **config)

    values = {f"{name}={value}": (name, value) for name, texts in _LEVELS.items() for value in texts}
    names = {f"compression.type={value}": ("compression.type", value) for value in ("none", "ZSTD", "", "zstd")}
    return {fact: created(*pair) for fact, pair in (values | names).items()}


def _sizes(side: Side) -> Facts:
    """Whether limits apply to a batch as it was sent, or as it is stored."""
    facts = {}

    def sent(what: str, codec: Codec, value: bytes, **config: Any) -> None:
        topic = side.topic(**config)
        with side.wire() as wire:
            wire.greet()  # a frame is large
            result = code_name(produce(wire, _PRODUCE, topic, batch(value, codec=codec)).error_code)
            facts[what] = f"{result}: {_shown(stored(wire, topic))}"

    sent("small, stored large", Codec.GZIP, _NOTHING, compression_type="uncompressed", max_message_bytes="500")
    sent("large, stored small", Codec.NONE, _NOTHING, compression_type="gzip", max_message_bytes="500")
    sent("small, stored small", Codec.GZIP, _NOTHING, compression_type="zstd", max_message_bytes="500")
    segment = {"segment_bytes": str(1 << 20), "max_message_bytes": str(8 << 20)}
    sent("stored larger than a segment", Codec.GZIP, _TEXT, compression_type="uncompressed", **segment)
    sent("sent larger than a segment", Codec.NONE, _TEXT, compression_type="gzip", **segment)
    return facts


def _producers(side: Side) -> Facts:
    """An idempotent producer's batches, one of them repeated, and a transaction with its marker."""
    topic, other = side.topic(compression_type="zstd"), side.topic(compression_type="zstd")
    facts = {}
    with side.wire() as wire:
        producer_id, epoch = init(wire)
        sent = [numbered(batch(b"a", b"b", codec=Codec.LZ4), producer_id, epoch, n) for n in (0, 2, 2)]
        results = [produce(wire, _PRODUCE, topic, records) for records in sent]
        facts["repeats"] = " ".join(f"{code_name(each.error_code)}@{each.base_offset}" for each in results)
        facts["idempotent"] = _shown(stored(wire, topic))
        kept = [header.producer_id == producer_id for _, header in iter_headers(stored(wire, topic))]
        facts["producer id"] = f"{kept}"
        txn = side.fresh("txn")
        producer = init(wire, txn)
        facts["transaction: add"] = add(wire, 3, txn, producer, other)
        records = numbered(batch(b"a", b"b", codec=Codec.GZIP), *producer, 0, transactional=True)
        facts["transaction: produce"] = code_name(
            produce(wire, _PRODUCE, other, records, transactional_id=txn).error_code
        )
        facts["transaction: end"] = end(wire, 3, txn, producer)
        wait_until(lambda: len([*iter_headers(stored(wire, other))]) == 2, says=lambda: str(facts))
        facts["transaction: stored"] = _shown(stored(wire, other))
    return facts


def _times(side: Side) -> Facts:
    topic = side.topic(compression_type="gzip", message_timestamp_type="LogAppendTime")
    with side.wire() as wire:
        for codec in (Codec.NONE, Codec.GZIP, Codec.ZSTD):
            produce(wire, _PRODUCE, topic, batch(b"a", b"b", codec=codec))
        return {"LogAppendTime": _shown(stored(wire, topic))}


def _changes(side: Side) -> Facts:
    """A topic's compression.type changes while a producer goes on."""
    topic = side.topic()
    with side.wire() as wire:

        def is_stored_in(codec: Codec) -> bool:
            produce(wire, _PRODUCE, topic, batch(*_VALUES, codec=Codec.SNAPPY))
            return [header.codec for _, header in iter_headers(stored(wire, topic))][-1] == codec

        facts = {"before": str(is_stored_in(Codec.SNAPPY))}
        for value, codec in (("zstd", Codec.ZSTD), ("uncompressed", Codec.NONE), ("producer", Codec.SNAPPY)):
            facts[value] = alter(wire, _ALTER, topic, "compression.type", value)
            wait_until(lambda codec=codec: is_stored_in(codec))
        return facts


STORIES: Final = (
    Story("codecs", _codecs),
    Story("codecs: bytes", _bytes),
    Story("codecs: levels", _levels),
    Story("codecs: sizes", _sizes),
    Story("codecs: producers", _producers),
    Story("codecs: times", _times),
    Story("codecs: changes", _changes),
)
