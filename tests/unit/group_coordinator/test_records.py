"""Records of `__consumer_offsets` in Kafka's formats, byte by byte."""

from __future__ import annotations

import pytest

from ottla_core.kafka_formats.primitives import MalformedError
from ottla_core.model import TopicId, TopicPartition
from ottla_group_coordinator.machines.records import (
    CommittedOffset,
    GroupKey,
    GroupRecord,
    MemberRecord,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_key,
    encode_offset,
)

ID = TopicId(bytes(range(16)))
OFFSET = CommittedOffset(5, 2, "note", 1_700_000_000_000, topic_id=ID)
MEMBER = MemberRecord("m-1", "i-1", "client", "/10.0.0.1", 60_000, 10_000, b"sub", b"assigned")
GROUP = GroupRecord("consumer", 3, "range", "m-1", 1_700_000_000_001, (MEMBER,))


def test_keys_and_values_come_back() -> None:
    for key in (OffsetKey("g", TopicPartition("t", 7)), GroupKey("g")):
        assert decode_key(encode_key(key)) == key
    assert decode_offset(encode_offset(OFFSET)) == OFFSET
    assert decode_group(bytes(encode_group(GROUP))) == GROUP
    empty = GroupRecord("consumer", 4, None, None, 1)
    assert decode_group(bytes(encode_group(empty))) == empty


def test_the_bytes_are_kafkas() -> None:
    assert encode_key(OffsetKey("g", TopicPartition("t", 7))).hex() == "000100016700017400000007"
    assert encode_key(GroupKey("g")).hex() == "0002000167"
    plain = "00040000000000000005" + "00000002" + "056e6f7465" + "0000018bcfe56800"
    assert encode_offset(OFFSET).hex() == plain + "010010" + ID.hex()
    assert encode_offset(OFFSET._replace(topic_id=None)).hex() == plain + "00"
    assert encode_group(GroupRecord("consumer", 3, None, None, 1)).hex() == (
        "00030008636f6e73756d657200000003ffffffff000000000000000100000000"
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("0000000000000000000500016e0000000000000009", CommittedOffset(5, -1, "n", 9)),
        ("0001000000000000000500016e0000000000000009000000000000000b", CommittedOffset(5, -1, "n", 9, 11)),
        ("0001000000000000000500016e0000000000000009ffffffffffffffff", CommittedOffset(5, -1, "n", 9)),
        ("0002000000000000000500016e0000000000000009", CommittedOffset(5, -1, "n", 9)),
        ("0003000000000000000500000002" + "00016e0000000000000009", CommittedOffset(5, 2, "n", 9)),
        ("0004000000000000000500000002026e000000000000000900", CommittedOffset(5, 2, "n", 9)),
        ("0004000000000000000500000002026e0000000000000009010010" + "00" * 16, CommittedOffset(5, 2, "n", 9)),
        (
            "0004000000000000000500000002026e0000000000000009" + "02" + "0010" + "07" * 16 + "0901ff",  # a tag to come
            CommittedOffset(5, 2, "n", 9, topic_id=TopicId(b"\7" * 16)),
        ),
    ],
)
def test_older_and_newer_offsets_are_read(data: str, expected: CommittedOffset) -> None:
    assert decode_offset(bytes.fromhex(data)) == expected


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_of_a_group_is_read(version: int) -> None:
    def text(of: str) -> bytes:
        data = of.encode()
        return (bytes([len(data) + 1]) if version >= 4 else len(data).to_bytes(2)) + data

    def blob(data: bytes) -> bytes:
        return (bytes([len(data) + 1]) if version >= 4 else len(data).to_bytes(4)) + data

    parts = [version.to_bytes(2), text("consumer"), (3).to_bytes(4), text("range"), text("m-1")]
    parts += [(77).to_bytes(8)] if version >= 2 else []
    parts += [b"\x02" if version >= 4 else (1).to_bytes(4), text("m-1")]
    parts += [text("i-1")] if version >= 3 else []
    parts += [text("client"), text("host")]
    parts += [(60_000).to_bytes(4)] if version >= 1 else []
    parts += [(10_000).to_bytes(4), blob(b"sub"), blob(b"assigned")]
    parts += [b"\0\0"] if version >= 4 else []
    read = decode_group(b"".join(parts))
    assert (read.generation, read.protocol, read.leader) == (3, "range", "m-1")
    assert read.state_since_ms == (77 if version >= 2 else -1)
    assert read.members == (
        MemberRecord(
            "m-1",
            "i-1" if version >= 3 else None,
            "client",
            "host",
            60_000 if version >= 1 else 10_000,
            10_000,
            b"sub",
            b"assigned",
        ),
    )


@pytest.mark.parametrize("version", [-1, 5])
def test_a_value_of_an_unknown_version_is_malformed(version: int) -> None:
    for decode, data in ((decode_offset, encode_offset(OFFSET)), (decode_group, encode_group(GROUP))):
        with pytest.raises(MalformedError, match="version"):
            decode(version.to_bytes(2, signed=True) + data[2:])


def test_what_is_unknown_or_broken_is_told_apart() -> None:
    assert decode_key(b"\0\x09whatever") is None
    for data in (encode_key(GroupKey("g"))[:-1], b"\0"):
        with pytest.raises(MalformedError):
            decode_key(data)
    for cut in range(2, len(encode_offset(OFFSET))):
        with pytest.raises(MalformedError):
            decode_offset(encode_offset(OFFSET)[:cut])
    with pytest.raises(MalformedError):
        decode_offset(encode_offset(OFFSET._replace(topic_id=TopicId(b"short"))))
    for cut in range(2, len(encode_group(GROUP))):
        with pytest.raises(MalformedError):
            decode_group(encode_group(GROUP)[:cut])
