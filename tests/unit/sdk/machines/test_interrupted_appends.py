"""A signal handler may raise anywhere while a record is appended: the batch can be read, and its header counts what it
holds."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import Any

import pytest
from accumulators import PARTITIONS, ROUTES, answered
from interruptions import Interrupting, Interruption

from ottla.machines.accumulator import Accumulator
from ottla.machines.batches import ProducerBatch, ProducerLimits
from ottla_core.records.batch import read_header
from ottla_core.records.builder import SealedBatch
from ottla_core.records.compression import Codec
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder

_LIMITS = ProducerLimits(linger_s=60, batch_bytes=90, grown_bytes=300, idempotent=True)
_VALUES = [b"%d" % number + b"x" * (number % 3 * 5) for number in range(12)]
_FILES = ("compiled.py", "pure.py", "record_buffer.py", "queues.py")


@contextmanager
def raising_at_line(number: int) -> Iterator[list[str]]:
    """Raise before the nth line of the modules that hold records, and say where that was. A handler itself runs at
    calls only."""
    hit: list[str] = []
    left = itertools.count(number, -1)

    def on_line(frame: FrameType, event: str, _: object) -> Any:
        file = frame.f_code.co_filename.rpartition("/")[2]
        if file not in _FILES:
            return None
        if event == "line" and not next(left) - 1:
            hit.append(f"{file}:{frame.f_lineno}")
            raise Interruption(hit[0])
        return on_line

    sys.settrace(on_line)
    try:
        yield hit
    finally:
        sys.settrace(None)


def appended(acc: Accumulator, value: bytes) -> tuple[ProducerBatch, int]:
    """Append as a producer's `send` does. Return the batch, and the record's number in it."""
    queue = acc.queue(PARTITIONS[0])
    batch = acc.append(queue, 1000 + len(value), None, value, ())
    batch = batch or acc.append_to_new(queue, 1000 + len(value), None, value, (), 0.0)
    assert batch is not None, "the buffer has room"
    return batch, batch.count - 1


def check(acc: Accumulator, places: dict[bytes, tuple[ProducerBatch, int]], where: object) -> None:
    """Send everything, and look where the records are."""
    found: dict[bytes | None, tuple[ProducerBatch, int]] = {}
    order: list[bytes | None] = []
    sequence = 0
    acc.flushing = 1
    while requests := acc.drain(0.0, ROUTES).requests:
        for request in requests:
            for batch in (part.batch for part in request.parts):
                data = batch.encode(Codec.NONE)
                records, header = read_records(data), read_header(data)
                assert (len(records), header.base_sequence) == (batch.count, sequence), where
                sequence += batch.count
                for number, _, _, value, _ in records:
                    assert value not in found, f"{value!r} is there twice, {where}"
                    found[value] = batch, number
                    order.append(value)
            acc.on_announced(acc.on_response(request, answered(request), 0.0).settled)
    assert {value: found.get(value) for value in places} == places, where
    assert order == [value for value in _VALUES if value in found], where
    assert (acc.used_bytes, list(acc.incomplete)) == (0, []), where


def interrupted_once(raising: Callable[[int], AbstractContextManager[Any]], at: int, *, pure: bool) -> str:
    """Append while something raises at that place. Return where that was, or nothing behind the last place."""
    acc = Accumulator(_LIMITS, lambda size: new_builder(size, pure=pure))
    acc.producer_id = 7
    places: dict[bytes, tuple[ProducerBatch, int]] = {}
    with suppress(Interruption), raising(at) as hit:
        for value in _VALUES[:9]:
            places[value] = appended(acc, value)
    where = hit.hit if isinstance(hit, Interrupting) else "".join(hit)
    for value in _VALUES[9:]:
        places[value] = appended(acc, value)
    check(acc, places, where)
    return where


@pytest.mark.story("interrupted-send-writes-a-batch-that-no-one-reads")
@pytest.mark.parametrize("raising", [Interrupting, raising_at_line], ids=["places", "lines"])
@pytest.mark.parametrize("pure", [False, True], ids=["compiled", "pure"])
@pytest.mark.timeout(60)
def test_an_append_that_is_interrupted_anywhere_leaves_batches_that_can_be_read(
    raising: Callable[[int], AbstractContextManager[Any]], pure: bool
) -> None:
    for at in itertools.count(1):
        if not interrupted_once(raising, at, pure=pure):
            break
    assert at > 100


@pytest.mark.parametrize("raising", [Interrupting, raising_at_line], ids=["places", "lines"])
def test_a_sealed_batch_whose_append_is_interrupted_is_sent_or_not(
    raising: Callable[[int], AbstractContextManager[Any]],
) -> None:
    builder = new_builder(1000)
    for value in _VALUES[5:7]:
        builder.append(1000, None, value)
    whole = builder.seal()
    for at in itertools.count(1):
        acc = Accumulator(_LIMITS, new_builder)
        acc.producer_id = 7
        places = {value: appended(acc, value) for value in _VALUES[:5]}
        with suppress(Interruption), raising(at) as hit:
            acc.append_batch(acc.queue(PARTITIONS[0]), SealedBatch(read_header(whole), whole[61:]), 0.0)
        where = hit.hit if isinstance(hit, Interrupting) else "".join(hit)
        for value in _VALUES[7:]:
            places[value] = appended(acc, value)
        check(acc, places, where)
        if not where:
            break
    assert at > 5
