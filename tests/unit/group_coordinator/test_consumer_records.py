"""The records of consumer groups in Kafka's formats, byte by byte."""

from __future__ import annotations

from typing import Any

import pytest

from ottla_core.kafka_formats.primitives import MalformedError, Writer
from ottla_core.model import TopicId
from ottla_group_coordinator.machines.consumer.member import ClassicProtocols, CurrentAssignment, MemberMetadata
from ottla_group_coordinator.machines.consumer.records import (
    ConsumerKey,
    CurrentKey,
    GroupEpoch,
    GroupEpochKey,
    MemberKey,
    RegexKey,
    ResolvedRegex,
    TargetEpoch,
    TargetEpochKey,
    TargetKey,
    TopicMetadataKey,
    decode_consumer_value,
    encode_consumer_key,
    encode_consumer_value,
)
from ottla_group_coordinator.machines.consumer.states import MemberState
from ottla_group_coordinator.machines.records import decode_key

ID = TopicId(bytes(range(16)))
CLASSIC = ClassicProtocols(10_000, (("range", b"sub"),))
METADATA = MemberMetadata("i", None, "c", "h", frozenset({"t", "u"}), "a.*", 60_000, "uniform")
CURRENT = CurrentAssignment(5, 4, MemberState.UNREVOKED, {ID: {0: 3, 2: 5}}, {ID: {1: 4}})

KEYS: list[tuple[ConsumerKey, str]] = [
    (GroupEpochKey("g"), "0003000167"),
    (TopicMetadataKey("g"), "0004000167"),
    (MemberKey("g", "m"), "000500016700016d"),
    (TargetEpochKey("g"), "0006000167"),
    (TargetKey("g", "m"), "000700016700016d"),
    (CurrentKey("g", "m"), "000800016700016d"),
    (RegexKey("g", "a.*"), "00100001670003612e2a"),
]
VALUES: list[tuple[ConsumerKey, Any, str]] = [
    (GroupEpochKey("g"), GroupEpoch(7), "0000" + "00000007" + "00"),
    (GroupEpochKey("g"), GroupEpoch(7, -2), "0000" + "00000007" + "01" + "0008fffffffffffffffe"),
    (GroupEpochKey("g"), GroupEpoch(7, 1, 9), "0000" + "00000007" + "02" + f"0008{1:016x}" + f"0108{9:016x}"),
    (TargetEpochKey("g"), TargetEpoch(7), "0000" + "00000007" + "00"),
    (TargetEpochKey("g"), TargetEpoch(7, 9), "0000" + "00000007" + "01" + "00080000000000000009"),
    (
        MemberKey("g", "m"),
        METADATA,
        "0000" + "0269" + "00" + "0263" + "0268" + "03" + "0274" + "0275" + "04612e2a" + "0000ea60"
        + "08756e69666f726d" + "00",
    ),
    (
        MemberKey("g", "m"),
        MemberMetadata(classic=CLASSIC),
        "0000" + "00" + "00" + "01" + "01" + "01" + "00" + "ffffffff" + "00" + "01" + "0012"  # tag 0 with 18 bytes
        + "01" + "00002710" + "02" + "0672616e6765" + "04737562" + "00" + "00",
    ),
    (TargetKey("g", "m"), {}, "0000" + "01" + "00"),
    (TargetKey("g", "m"), {ID: frozenset({0, 2})}, "0000" + "02" + ID.hex() + "03" + f"{0:08x}{2:08x}" + "00" + "00"),
    (
        CurrentKey("g", "m"),
        CURRENT,
        "0000" + "00000005" + "00000004" + "01"
        + "02" + ID.hex() + "03" + "00000000" + "00000002" + "01" + "0009" + "03" + "00000003" + "00000005"
        + "02" + ID.hex() + "02" + "00000001" + "01" + "0005" + "02" + "00000004" + "00",
    ),
    (RegexKey("g", "a"), ResolvedRegex(frozenset("a"), 3, 4), "0000" + "02" + "0261" + f"{3:016x}{4:016x}" + "00"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "data"), KEYS)
def test_the_bytes_of_a_key_are_kafkas(key: ConsumerKey, data: str) -> None:
    assert encode_consumer_key(key).hex() == data
    read = decode_key(bytes.fromhex(data))
    assert (read, type(read)) == (key, type(key))


@pytest.mark.parametrize(("key", "value", "data"), VALUES)
def test_the_bytes_of_a_value_are_kafkas(key: ConsumerKey, value: Any, data: str) -> None:
    assert encode_consumer_value(key, value).hex() == data
    assert decode_consumer_value(key, bytes.fromhex(data)) == value


@pytest.mark.parametrize(("key", "value", "data"), VALUES)
def test_a_value_that_is_cut_short_is_malformed(key: ConsumerKey, value: Any, data: str) -> None:
    for cut in range(2, len(data) // 2):
        with pytest.raises(MalformedError):
            decode_consumer_value(key, bytes.fromhex(data)[:cut])


@pytest.mark.parametrize(("key", "value", "data"), VALUES)
def test_a_value_of_an_unknown_version_is_malformed(key: ConsumerKey, value: Any, data: str) -> None:
    for version in ("0001", "ffff"):
        with pytest.raises(MalformedError, match="version"):
            decode_consumer_value(key, bytes.fromhex(version + data[4:]))


def test_tagged_fields_of_a_newer_release_are_ignored() -> None:
    data = "0000" + "00000007" + "02" + "00080000000000000001" + "0903abcdef"
    assert decode_consumer_value(GroupEpochKey("g"), bytes.fromhex(data)) == GroupEpoch(7, 1)


@pytest.mark.parametrize(("epoch", "since"), [(5, 5), (-2, 0)])
def test_partitions_without_epochs_get_the_epoch_of_their_member(epoch: int, since: int) -> None:
    writer = Writer(flexible=False)
    writer.int16(0)
    writer.int32(epoch)
    writer.int32(4)
    writer.buffer += bytes([0, 2]) + ID + bytes.fromhex("02" + "00000003" + "00" + "01" + "00")
    assert decode_consumer_value(CurrentKey("g", "m"), bytes(writer.buffer)).assigned == {ID: {3: since}}


def test_an_unknown_state_is_malformed() -> None:
    data = bytes.fromhex("0000" + "00000005" + "00000004" + "7f" + "01" + "01" + "00")
    with pytest.raises(MalformedError):
        decode_consumer_value(CurrentKey("g", "m"), data)
