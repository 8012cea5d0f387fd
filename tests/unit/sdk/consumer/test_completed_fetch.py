"""A chunk opened batch by batch: what is handed out of it, in which pieces, and where reading goes on."""

from typing import Any

import pytest

from ottla.consumer.batch import Batch
from ottla.consumer.completed_fetch import CompletedFetch, OpenBatch, first_offset, next_offset
from ottla.consumer.metrics import Consumed
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.position import FetchedData, Position, StopOffset
from ottla.serdes.record_reader import Serdes
from ottla.serdes.serdes import deserializer
from ottla_core.model import TopicPartition
from ottla_core.records.batch import placed_prefix, read_header
from ottla_core.records.twins import new_builder

T0 = TopicPartition("t", 0)


def batch(first: int, count: int) -> bytes:
    builder = new_builder(1 << 20)
    for n in range(first, first + count):
        builder.append(1000, None, b"%d" % n)
    data = builder.seal()
    return placed_prefix(read_header(data), first, 5) + data[16:]


def run_of(*batches: bytes, offset: int = 0, stop: int | None = None) -> CompletedFetch:
    position = Position(T0)
    position.offset, position.stop = offset, None if stop is None else StopOffset(stop)
    return CompletedFetch(FetchedData(position, 0, b"".join(batches)), Consumed())


def offsets(rows: Any) -> list[int]:
    return [raw[0] for raw in rows]


@pytest.mark.rule(57)
@pytest.mark.parametrize(
    ("offset", "stop", "expected", "after"),
    [
        (0, None, range(20), 20),
        (7, None, range(7, 20), 20),
        (0, 15, range(15), 15),
        (3, 4, range(3, 4), 4),
        (0, 10, range(10), 10),
        (12, 18, range(12, 18), 18),
    ],
)
def test_only_what_lies_between_position_and_stop(offset: int, stop: int | None, expected: range, after: int) -> None:
    run = run_of(batch(0, 10), batch(10, 10), offset=offset, stop=stop)
    assert offsets(run.stream()) == list(expected)
    assert run.next_offset == after
    in_parts = run_of(batch(0, 10), batch(10, 10), offset=offset, stop=stop)
    parts = []
    while (part := in_parts.part(4)) is not None:
        parts += offsets(part)
    assert parts == list(expected)


def test_a_batch_that_fits_is_one_part_and_may_be_read_again_and_again() -> None:
    run = run_of(batch(0, 10), batch(10, 10))
    part = run.part(10)
    assert isinstance(part, OpenBatch)
    assert (len(part), first_offset(part), next_offset(part)) == (10, 0, 10)
    assert offsets(part) == offsets(part) == list(range(10))
    piece = run.part(4)
    assert piece is not None
    assert (offsets(piece), first_offset(piece), next_offset(piece)) == ([10, 11, 12, 13], 10, 14)


def test_streaming_and_parts_go_on_where_the_other_left() -> None:
    run = run_of(batch(0, 10), batch(10, 10))
    rows = run.stream()
    assert [next(rows)[0] for _ in range(3)] == [0, 1, 2]
    part = run.part(100)
    assert part is not None
    assert offsets(part) == list(range(3, 10))
    assert offsets(run.stream()) == list(range(10, 20))
    assert run.part(1) is None


def test_a_batch_that_can_not_be_read_raises_before_any_of_its_records() -> None:
    damaged = bytearray(batch(10, 10))
    damaged[-1] ^= 1
    run = run_of(batch(0, 10), bytes(damaged))
    part = run.part(100)
    assert part is not None
    assert next_offset(part) == 10
    with pytest.raises(OttlaError, match="t-0: the CRC") as caught:
        run.part(100)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert "seek to 20" in caught.value.hint


def test_a_batch_of_records_is_a_sequence_over_its_parts() -> None:
    run = run_of(batch(0, 10), batch(10, 10))
    parts = [run.part(10), run.part(4)]
    rows: Batch[Any, Any] = Batch(
        [(T0, part) for part in parts if part is not None], Serdes(deserializer("int", "key"), int)
    )
    assert (len(rows), rows.values()) == (14, list(range(14)))
    assert [rows[0].value, rows[-1].value] == [0, 13]
    assert [record.offset for record in rows] == list(range(14))
    assert (rows.first_offsets, rows.offsets) == ({T0: 0}, {T0: 14})
    assert repr(rows) == "Batch(14 records: t-0@0..9, t-0@10..13)"
    assert not Batch([], Serdes(int, int))
