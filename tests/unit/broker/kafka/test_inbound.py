"""A frame that comes in pieces, and the memory that it takes meanwhile."""

from __future__ import annotations

import itertools
import os

import pytest

from ottla_broker.kafka.network.inbound import Inbound

KIB = 1024
MIB = 1 << 20


def fill(inbound: Inbound, data: bytes, shared: memoryview, free_bytes: int, piece_bytes: int) -> list[int]:
    """What it held after each piece."""
    held = []
    at = len(data) - inbound.missing_bytes
    while at < len(data):
        buffer = inbound.buffer(shared, free_bytes)
        size_bytes = min(len(buffer), piece_bytes, len(data) - at)
        buffer[:size_bytes] = data[at : at + size_bytes]
        inbound.add(size_bytes, shared)
        at += size_bytes
        held.append(inbound.held_bytes)
    return held


@pytest.mark.parametrize("size_bytes", [9, 1_000, 300 * KIB, MIB, 5 * MIB, 40 * MIB])
@pytest.mark.parametrize("piece_bytes", [64 * KIB, 3 * MIB])
@pytest.mark.parametrize("free_bytes", [0, 1 << 40])
def test_it_comes_whole_however_it_comes(size_bytes: int, piece_bytes: int, free_bytes: int) -> None:
    data = os.urandom(size_bytes)
    inbound = Inbound(size_bytes, memoryview(data[:8]), free_bytes)
    fill(inbound, data, memoryview(bytearray(256 * KIB)), free_bytes, piece_bytes)
    assert inbound.whole() == data
    assert inbound.missing_bytes == 0


def test_it_takes_what_has_come_and_its_place_once_a_part_is_there_and_there_is_room() -> None:
    data, shared = bytes(4 * MIB), memoryview(bytearray(64 * KIB))
    inbound = Inbound(len(data), memoryview(data[:8]), 1 << 40)
    assert inbound.held_bytes == 8
    held = fill(inbound, data, shared, 1 << 40, 64 * KIB)
    assert held[0] == 64 * KIB + 8
    assert all(
        now <= max(16 * came, 256 * KIB) for came, now in zip(range(64 * KIB, MIB, 64 * KIB), held, strict=False)
    )
    assert held[10] == 4 * MIB
    inbound = Inbound(len(data), memoryview(data[:8]), 100)
    held = fill(inbound, data, shared, 100, 64 * KIB)
    assert held[10] == 11 * 64 * KIB + 8, "where there is no room it takes no more than has come"


def test_no_great_deal_of_memory_is_taken_at_once() -> None:
    """New memory costs the loop most of a millisecond a megabyte."""
    data = bytes(100 * MIB)
    inbound = Inbound(len(data), memoryview(data[:8]), 1 << 40)
    held = [8, *fill(inbound, data, memoryview(bytearray(256 * KIB)), 1 << 40, 256 * KIB)]
    assert max(after - before for before, after in itertools.pairwise(held)) <= 16 * MIB


def test_what_begins_with_enough_has_its_place_at_once() -> None:
    data = bytes(MIB)
    assert Inbound(MIB, memoryview(data[: MIB // 16]), MIB).held_bytes == MIB
    assert Inbound(MIB, memoryview(data[: MIB // 16]), MIB // 2).held_bytes == MIB // 16
