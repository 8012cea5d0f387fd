"""What waits to be imported: together, several partitions at once, in bounded memory, and nothing behind a failure."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any, cast

import pytest
from fetched import Block, stored
from waiting import wait_until

import ottla
from ottla.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_core.records.batch import iter_headers
from ottla_mirror.copying import importer as importer_module
from ottla_mirror.copying.importer import Import, Importer, Imports
from ottla_mirror.machines.copying import KeptBlock, kept
from ottla_mirror.machines.progress import CopiedPartition


class Target:
    """Imports where it is let: `calls` are the partition and the number of batches of each."""

    def __init__(self) -> None:
        self.partitions = self
        self.calls: list[tuple[int, int]] = []
        self.let = Event()
        self.fails_with: OttlaError | None = None

    def import_records(self, topic: str, partition: int, records: bytes, **asked: Any) -> int:
        headers = [header for _, header in iter_headers(memoryview(records))]
        self.calls.append((partition, len(headers)))
        assert self.let.wait(30.0)
        if self.fails_with is not None:
            raise self.fails_with
        return headers[-1].next_offset


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target()
    yield made
    made.let.set()


@pytest.fixture
def imports(target: Target) -> Iterator[Imports]:
    made = Imports(cast("ottla.Admin", target))
    yield made
    target.let.set()
    made.close()


def importer_of(number: int, imports: Imports) -> Importer:
    source, copy = TopicPartition("t", number), TopicPartition("east.t", number)
    return Importer(CopiedPartition(source, copy), imports)


def block_at(offset: int, batches: int = 1) -> Import:
    data = b"".join(stored(1, offset + n) for n in range(batches))
    return Import(KeptBlock(tuple(kept(Block(data)))))


@pytest.mark.story("import-of-each-small-block")
def test_all_blocks_that_wait_are_imported_at_once(target: Target, imports: Imports) -> None:
    importer = importer_of(0, imports)
    waiting = [block_at(n) for n in range(50)]
    importer.add(waiting[0])
    wait_until(lambda: target.calls)
    for each in waiting[1:]:
        importer.add(each)
    target.let.set()
    assert imports.wait_until_done(30.0)
    assert target.calls == [(0, 1), (0, 49)]
    assert all(each.done() for each in waiting)
    assert [run for each in waiting for run in each.runs()] == [(n, 1) for n in range(50)]


def test_an_import_has_no_more_batches_than_a_broker_takes(target: Target, imports: Imports) -> None:
    target.let.set()
    importer = importer_of(0, imports)
    importer.add(block_at(0, 2500))
    importer.add(block_at(2500))
    assert imports.wait_until_done(30.0)
    assert sum(count for _, count in target.calls) == 2501
    assert max(count for _, count in target.calls) <= 1000


def test_several_partitions_are_imported_at_once_and_none_waits_for_another(target: Target, imports: Imports) -> None:
    for number in range(3):
        importer_of(number, imports).add(block_at(0))
    wait_until(lambda: sorted(target.calls) == [(0, 1), (1, 1), (2, 1)])


def test_what_waits_behind_a_failure_is_dropped_and_what_comes_later_is_imported(
    target: Target, imports: Imports
) -> None:
    importer, waiting = importer_of(0, imports), [block_at(n) for n in range(3)]
    importer.add(waiting[0])
    wait_until(lambda: target.calls)
    for each in waiting[1:]:
        importer.add(each)
    target.fails_with = OttlaError(ErrorCode.NOT_ENOUGH_REPLICAS, "no")
    target.let.set()
    assert imports.wait_until_done(30.0)
    with pytest.raises(OttlaError, match="no"):
        waiting[0].runs()
    assert all(each.done() for each in waiting), "the dropped imports are over as well"
    target.fails_with = None
    importer.add(again := block_at(0))
    assert imports.wait_until_done(30.0)
    assert (target.calls, again.done()) == ([(0, 1), (0, 1)], True)


def test_what_waits_has_a_bound_in_bytes(target: Target, imports: Imports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer_module, "_MOST_WAITING_BYTES", 4096)
    importer = importer_of(0, imports)
    assert imports.wait_for_room(0.0)
    importer.add(block_at(0, 8))
    assert not imports.wait_for_room(0.0)
    importer.clear()
    target.let.set()
    assert imports.wait_for_room(30.0)


def test_a_mistake_in_an_import_is_that_partitions_error(target: Target, imports: Imports) -> None:
    target.let.set()
    target.fails_with = cast("Any", ValueError("a bug"))
    importer_of(0, imports).add(waiting := block_at(0))
    assert imports.wait_until_done(30.0)
    with pytest.raises(OttlaError, match="ValueError: a bug"):
        waiting.runs()
