"""The fence record's bytes, which lie in logs for ever, and what an independent reader makes of them."""

from __future__ import annotations

from batches import NOON
from kafka.record.default_records import ControlRecord, DefaultRecordBatch

from ottla_core.records.fence import ShardFence, fence_of, seal_fence

FENCE = ShardFence(7, 1_234_567_890_123)
GOLDEN = bytes.fromhex(
    "0000000000000000"  # base offset, the leader's to set
    "0000004a"
    "ffffffff"  # leader epoch, likewise
    "02"
    "929ed7e8"  # CRC
    "0020"  # CONTROL
    "00000000"
    "0000018bcfe56800"
    "0000018bcfe56800"
    "ffffffffffffffff"  # no producer id
    "ffff"
    "ffffffff"
    "00000001"
    "30000000"
    "08" + "00006f74"  # key: version 0, type
    "1c" + "0000" + "00000007" + "0000011f71fb04cb"  # value: version 0, shard epoch, incarnation
    "00"
)


def test_the_bytes_of_a_fence() -> None:
    assert seal_fence(FENCE, NOON) == GOLDEN
    assert fence_of(GOLDEN) == FENCE


def test_kafka_python_takes_it_for_a_control_record_that_ends_no_transaction() -> None:
    batch = DefaultRecordBatch(GOLDEN)
    assert batch.validate_crc()
    assert (batch.is_control_batch, batch.is_transactional) == (True, False)
    (record,) = batch
    assert isinstance(record, ControlRecord)
    assert (record.commit, record.abort, record.type) == (False, False, 0x6F74)
