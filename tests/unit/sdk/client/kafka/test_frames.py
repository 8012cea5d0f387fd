"""How the bytes of a connection are cut into frames."""

from __future__ import annotations

from struct import pack

from ottla.client.kafka.frames import HEAD_BYTES, FrameReader


def a_frame(size_bytes: int) -> bytes:
    return pack(">ii", size_bytes - 4, 7) + bytes(size_bytes - HEAD_BYTES)


def test_a_frame_is_expected_to_be_as_long_as_the_last_one_until_its_head_has_come() -> None:
    """A long response then comes in one read. Each read waits for the interpreter lock."""
    reader = FrameReader(lambda length, correlation_id: None)
    assert reader.expected_bytes == HEAD_BYTES
    assert list(reader.feed(a_frame(1000))) == [a_frame(1000)]
    assert reader.expected_bytes == 1000
    frame = a_frame(5000)
    assert list(reader.feed(frame[:3])) == []
    assert reader.expected_bytes == 997
    assert list(reader.feed(frame[3:100])) == []
    assert reader.expected_bytes == 4900
    assert list(reader.feed(frame[100:] + frame[:5])) == [frame]
    assert reader.expected_bytes == 4995
