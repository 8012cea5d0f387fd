"""The records of __transaction_state, byte by byte as Kafka's schema has them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from transactions import A, B

from ottla_core.coordination.shard import TransactionProducer
from ottla_core.kafka_formats.primitives import MalformedError
from ottla_core.model import TopicPartition
from ottla_txn_coordinator.machines.records import (
    MOST_PARTITIONS,
    TransactionRecord,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from ottla_txn_coordinator.machines.states import TransactionState

ONGOING = TransactionRecord(
    TransactionProducer(5, 3), 60_000, TransactionState.ONGOING, frozenset({A, B}), 1_000, 900, version=2
)
HEAD = "000000000000000500030000ea6001"
TIMES = "00000000000003e80000000000000384"


def test_a_key_is_version_zero_and_the_id() -> None:
    assert encode_key("tx").hex() == "000000027478"
    assert decode_key(encode_key("tx")) == "tx"
    assert decode_key(b"\0\1\0\2tx") is None, "of a kind of which nothing is known"


def test_a_value_is_flexible_with_kafkas_tags() -> None:
    assert encode_value(ONGOING).hex() == ("0001" + HEAD + "02027403000000000000000100" + TIMES + "0102020002")
    idle = TransactionRecord(TransactionProducer(5, 3), 60_000, previous_id=4, next=TransactionProducer(6, 1))
    tags = "030008000000000000000401080000000000000006"
    assert encode_value(idle).hex().endswith("ffffffffffffffff" + tags + "03020001")
    without = decode_value(encode_value(idle)[: -len("03020001") // 2].replace(b"\3\0\x08", b"\2\0\x08"))
    assert without == replace(idle, next=TransactionProducer(6, 0)), "of a next id alone, the first epoch"


def test_what_is_ours_lies_in_tags_that_kafka_passes_over() -> None:
    prepared = TransactionRecord(TransactionProducer(5, 3), 60_000, former_epoch=2, prepared=True)
    assert encode_value(prepared).hex().endswith("02f4de0100f5de01020002")


@pytest.mark.parametrize("state", TransactionState)
def test_what_is_written_is_read(state: TransactionState) -> None:
    full = TransactionRecord(
        TransactionProducer(2**62, 32_767),
        2**31 - 1,
        state,
        frozenset({A}),
        2**61,
        7,
        8,
        ONGOING.producer,
        2,
        32_766,
        True,
    )
    assert decode_value(encode_value(full)) == full
    assert decode_value(encode_value(TransactionRecord(TransactionProducer(1, 0), 1, state))) is not None


def test_version_zero_is_read_too() -> None:
    old = "0000" + HEAD + "00000001000174000000020000000000000001" + TIMES
    assert decode_value(bytes.fromhex(old)) == TransactionRecord(
        TransactionProducer(5, 3), 60_000, TransactionState.ONGOING, frozenset({A, B}), 1_000, 900
    )
    without = "0000" + HEAD + "ffffffff" + TIMES
    assert decode_value(bytes.fromhex(without)).partitions == frozenset()  # type: ignore[union-attr]  # it is known


def test_what_is_of_another_kind_is_none_and_what_lies_is_an_error() -> None:
    assert decode_value(b"\0\2" + encode_value(ONGOING)[2:]) is None
    unknown = bytearray(encode_value(ONGOING))
    unknown[16] = 9
    assert decode_value(bytes(unknown)) is None
    for end in range(2, len(encode_value(ONGOING))):
        with pytest.raises(MalformedError):
            decode_value(encode_value(ONGOING)[:end])


def test_the_largest_transaction_can_be_read_back() -> None:
    """What a reader would take for an attack must never be written: the id would be lost."""
    each_its_topic = frozenset(TopicPartition(f"t{n}", 0) for n in range(MOST_PARTITIONS))
    largest = TransactionRecord(TransactionProducer(1, 0), 1, TransactionState.ONGOING, each_its_topic)
    assert decode_value(encode_value(largest)) == largest
